"""The losses of a step in the cells of a lattice, with the P-mass of each cell, from which lattices at any tilt are made.

large_losses.py divides the outcomes of each step into small and large ones, and composes them on lattices (lattice.py): sets of masses at
the multiples of a spacing h, times e^{t L} for a *tilt* t. L = log r is the loss of a step, with r = dP/dQ of its pair (P, Q).

A step is made from a loss that can be divided (`step_maker`): `RisingStep` for Gaussian noise on a Poisson sample, `AtomicStep` for many
atoms, like those of discrete Gaussian noise. An outcome lies in cell j if its loss is between j h and (j + 1) h. The mass of a cell is
divided between its two ends so that its P-mass and its Q-mass stay. `share` is the share at the upper end.

Masses of atoms. They are sums, and the share of an atom of loss l at the upper end of its cell is (1 - e^{j h - l}) / (1 - e^-h).

Masses of Gaussian steps. They are integrals over outcomes x and not differences of tails, so small losses keep their digits. P has the
density phi(x) m(x), with the normal density phi and a mixture m of e^{s x - s^2 / 2} with s >= 0 (mixture.py). Its share at the upper end
of a cell is D(x) / (m(x) (1 - e^-h)), with D(x) = m(x) - e^{j h}, or m(x) - e^{j h} m(-x) under replace-one. phi m and D are entire, so
the Gauss rule with 4 points on a panel of half-length r errs by at most 8 r 40^-8 / (1 - 1/40) times the supremum on the ellipse with the
sum of half axes 40 r (outcomes.py). This is below 3e-10 of the panel's P-mass:

1. Each panel lies in one cell, has |x| <= X, the farthest outcome that is kept, and 2 r (X + s) <= PANEL, where s is the largest shift. The
   ellipse reaches at most 20.1 r.
2. On the ellipse, phi m is at most e^2.1 times its value at the middle of the panel.
3. On the ellipse, |D| is at most its value at the middle plus 20.1 r D'(middle) e^{20.1 r s}, because m is a sum of growing exponentials.
4. On the panel, D grows by at least 2 r D'(middle) e^{-r s}, and by at most m (1 - e^-h) at its end. So |D| <= 36 m (1 - e^-h).

Errors.

1. The error of the masses is a relative error of the curve.
2. The shares are raised by more than their error: the error of the quadrature, plus the rounding of a loss divided by 1 - e^-h. This moves
   mass up, so the upper curve remains an upper bound. For the lower curve a cell is one outcome. Its loss becomes too large by at most
   twice the raise times e^h - 1.
   An atom's loss log(1 - q + q e^g), of loss g without sampling at rate q, errs by less than 2e-15 (1 - log q) times the largest loss.
3. Rounding may put an outcome into the neighbouring cell. It then counts at the point between the two cells, and its loss is wrong by the
   rounding there. `slip` bounds this and the error of item 2: the true curve at eps lies between the computed ones at eps + slip and
   eps - slip.
4. Outcomes with |x| > X are left out. Their P-mass is at most 2 Phi(s - X), which each step adds to delta. So are the lowest and the
   highest atoms. A mass of replace-one that is 1 minus the others' errs by less than MASS_ERROR (`Outcomes.replaced`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from dpcli.base.errors import NotRepresentable
from dpcli.numerics.arrays import Array, IndexArray, np
from dpcli.numerics.grid.lattice import TINY, Lattice  # TINY: smaller tilted weights are dropped
from dpcli.numerics.mixture import Mixture
from dpcli.numerics.work import spend  # counts work, and refuses a question that takes too much

if TYPE_CHECKING:
    from dpcli.numerics.contour.outcomes import Outcomes

# Soundness: errors that the bounds allow for.
PANEL, POINTS = 0.2, 4  # largest product of a panel's length and X + s, and number of Gauss points on a panel
MASS_ERROR = 1e-9  # relative error of a mass, and absolute error of a share; it far exceeds that of the quadrature and of rounding
ROUNDING = 2e-15  # rounding error of a loss at x: this many times its slope times (|x| + s), plus this many times the loss
ATOM_ROUNDING = 2e-12  # rounding error of the loss of an atom, in units of the largest loss (item 2 of the errors)
# Accuracy and speed.
FEW_ATOMS, LARGEST_ATOM = 16, 1e5  # a loss with at most FEW_ATOMS atoms, or with one of at least LARGEST_ATOM, is not divided


class RisingLoss(Protocol):
    """The loss of a Gaussian step on a Poisson sample, which increases with the outcome.

    mixture: m of the module's docstring. stretch: the largest slope of log r, in units of the largest shift; 2 under replace-one.
    """

    mixture: Mixture
    stretch: float

    def line(self, x: Array) -> tuple[Array, Array]:
        """Return log Q and log r at outcomes x."""
        ...

    def outcome(self, at: Array) -> Array:
        """Return the outcomes with log r = at."""
        ...


class StepCells(NamedTuple):
    """A step's losses on a lattice. Cell i lies between the losses (start + i) spacing and (start + i + 1) spacing.

    log_mass, share: logarithms of the P-masses, and the shares of them at the upper ends. slip: a bound on how far a loss was moved by
    rounding and by raising the shares.
    """

    spacing: float
    start: int
    log_mass: Array
    share: Array
    slip: float

    def lattice(self, first: int, end: int, tilt: float) -> Lattice:
        """Return the cells from `first` to `end` as a tilted lattice.

        It states no error of the masses, and no slip. These are the same for all lattices of the step, so `LargeLosses` adds them once.
        """
        spend(4.0 * (end - first))
        exponents = self.log_mass[first:end] + tilt * self.spacing * (self.start + np.arange(first, end))
        top = float(exponents.max())
        mass, share = np.exp(exponents - top), self.share[first:end]
        weights = np.zeros(end - first + 1)
        weights[:-1] += mass * (1.0 - share)
        weights[1:] += mass * share * math.exp(tilt * self.spacing)
        total = float(weights.sum())
        weights /= total
        tiny = weights < TINY
        dropped = float(weights[tiny].sum())
        weights[tiny] = 0.0
        return Lattice(
            tilt=tilt,
            spacing=self.spacing,
            start=self.start + first,
            weights=weights,
            log_scale=top + math.log(total),
            infinite=0.0,
            error=dropped,
            log_error=0.0,
            dispersion=0.25 * self.spacing * self.spacing,  # h^2 / 4 (lattice.py)
        )


class RisingStep:
    """A step whose loss increases with the outcome. Outcomes |x| > X are left out, of P-mass e^log_rare at most.

    ends: the least and the largest loss that are kept. shifts: the number of shifts of its mixture.
    """

    def __init__(self, loss: RisingLoss, log_rare: float) -> None:
        self._loss, self._reach, self.shifts = loss, loss.mixture.reach, len(loss.mixture.shifts)
        # X, at which 2 Phi(s - X) is at most e^log_rare, as Phi(-x) <= e^{-x^2 / 2}.
        self._farthest = self._reach + math.sqrt(2.0 * (math.log(2.0) - log_rare))
        _, losses_at_ends = loss.line(np.array([-self._farthest, self._farthest]))
        self.ends: tuple[float, float] = tuple(losses_at_ends.tolist())

    def cells(self, spacing: float, start: int, size: int) -> StepCells:
        """Return the cells between the losses start * spacing and (start + size) * spacing."""
        loss, farthest, reach = self._loss, self._farthest, self._reach
        panels = math.ceil(2.0 * farthest / (PANEL / (farthest + reach)))
        spend(8.0 * (size + panels))
        edges: Array = spacing * (start + np.arange(1.0, size))
        x = np.clip(loss.outcome(edges), -farthest, farthest)
        # The panels of the quadrature, each of which lies in one cell.
        ends = np.unique(np.concatenate((x, np.linspace(-farthest, farthest, panels + 1))))
        middle, half = 0.5 * (ends[1:] + ends[:-1]), 0.5 * np.diff(ends)
        nodes, weights = np.polynomial.legendre.leggauss(POINTS)
        log_q, log_ratio = loss.line((middle[:, None] + half[:, None] * nodes).ravel())
        cell = np.repeat(np.searchsorted(x, middle, side="right"), POINTS)
        log_terms = log_q + log_ratio + np.log((half[:, None] * weights).ravel())
        # The errors of the losses (item 3 of the errors).
        inside = np.abs(x) < farthest
        _, loss_at_edges = loss.line(x[inside])
        misplaced = float(np.abs(loss_at_edges - edges[inside]).max(initial=0.0))
        largest = spacing * max(abs(start), abs(start + size))
        # The largest slope of the loss up to `largest`: that of log m is at most (1 - w_0 / m) times the largest shift, where w_0 =
        # e^log_rest is the weight of shift 0.
        slope = -loss.stretch * reach * math.expm1(loss.mixture.log_rest - largest)
        rounding = misplaced + ROUNDING * (slope * (farthest + reach) + largest)
        return step_cells(spacing, start, size, cell, log_terms, log_ratio, rounding)


class AtomicStep:
    """A step whose outcomes are atoms. The lowest and the highest ones are left out, of P-mass e^log_rare at most.

    ends: as in `RisingStep`.
    """

    shifts = 1

    def __init__(self, atoms: Outcomes, log_rare: float) -> None:
        order = np.argsort(atoms.log_ratio, kind="stable")
        losses, log_mass = atoms.log_ratio[order], (atoms.log_reference + atoms.log_ratio)[order]
        below, above = np.logaddexp.accumulate(log_mass), np.logaddexp.accumulate(log_mass[::-1])[::-1]
        kept = np.minimum(below, above) > log_rare - math.log(2.0)
        self._losses, self._log_mass = losses[kept], log_mass[kept]
        self.ends = float(self._losses[0]), float(self._losses[-1])

    def cells(self, spacing: float, start: int, size: int) -> StepCells:
        """Return the cells between the losses start * spacing and (start + size) * spacing."""
        spend(2.0 * size + 8.0 * len(self._losses))
        cell = np.clip(np.floor(self._losses / spacing).astype(np.int64) - start, 0, size - 1)
        rounding = ATOM_ROUNDING * spacing * max(abs(start), abs(start + size))
        return step_cells(spacing, start, size, cell, self._log_mass, self._losses, rounding)


def step_cells(
    spacing: float, start: int, size: int, cell: IndexArray, log_terms: Array, log_ratio: Array, rounding: float
) -> StepCells:
    """Return the cells of outcomes with these log P-masses, `log_terms`, and losses, `log_ratio`.

    cell: the cell of each outcome, in increasing order. rounding: a bound on the errors of the losses.
    """
    share = np.clip(np.expm1(spacing * (start + cell) - log_ratio) / math.expm1(-spacing), 0.0, 1.0)
    # The masses of the cells and their shares at the upper ends, relative to the largest term of each cell.
    first = np.flatnonzero(np.diff(cell, prepend=-1))
    top = np.maximum.reduceat(log_terms, first)
    mass = np.exp(log_terms - np.repeat(top, np.diff(first, append=len(cell))))
    total = np.add.reduceat(mass, first)
    log_mass, shares = np.full(size, -np.inf), np.zeros(size)
    log_mass[cell[first]] = top + np.log(total)
    shares[cell[first]] = np.add.reduceat(mass * share, first) / total
    # Item 2 of the errors. expm1(-h) is negative.
    raise_of_shares = MASS_ERROR - rounding / math.expm1(-spacing)
    slip = rounding + 2.0 * raise_of_shares * math.expm1(spacing)
    return StepCells(spacing, start, log_mass, np.minimum(shares + raise_of_shares, 1.0), slip)


def step_maker(loss: Any) -> Callable[[float], RisingStep | AtomicStep] | None:
    """Return a function that makes the step of this loss; None if the loss is not divided.

    Its argument, log_rare, is the logarithm of the P-mass that may be left out.

    Losses with a far tail are divided: those of sampled Gaussians, which have a method `cut` (contour/tilted.py), and those with many
    atoms, such as sampled discrete Gaussians.
    """
    if hasattr(loss, "cut"):
        return partial(RisingStep, loss)
    if not hasattr(loss, "capped"):  # only a loss with a far tail can be capped
        return None
    with suppress(NotRepresentable):
        outcomes = loss.outcomes()
        if len(outcomes.log_ratio) > FEW_ATOMS and not outcomes.pieces and np.abs(outcomes.log_ratio).max() < LARGEST_ATOM:
            return partial(AtomicStep, outcomes)
    return None
