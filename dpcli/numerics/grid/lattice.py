"""A privacy loss on multiples of a spacing h: a pair that dominates, and how far its losses were moved for that.

* Above: the chords of the hockey-stick curve (Doroshenko et al. 2022, arXiv:2207.04380: connect the dots). The mass of each cell is split
  between its two ends so that its P-mass and its Q-mass are kept. Composition keeps the order of curves (Zhu, Dong, Wang 2022,
  arXiv:2106.08567, Theorem 10).
* Below: replace each cell by one outcome that has its P-mass p and its Q-mass q: this is post-processing, so the true curve is above that
  of these merged pairs. Their likelihood ratio under Q is Y = p/q, that of the pair above is Y (1 + x), where x, given the cell, has mean 0
  and log(1 + x) two values that lie h apart. Over all steps U = Y Z with E[Z | Y] = 1 and

      log E[Z^a | Y] <= a (a - 1) V / 2   for every real a outside of (0, 1),   V = sum h^2 / 4:

  kappa(a) = log E[(1 + x)^a] has kappa(0) = kappa(1) = 0, and kappa'' is the variance of log(1 + x) under a tilted law, at most h^2 / 4
  (Popoviciu), so kappa lies below the parabola with these zeros and that curvature. `dispersion` is V. numerics/grid/grid_curve.py
  turns it into a lower bound on the curve.

Both errors are of second order in h. Masses are tilted, w = p e^{t l - M}, so that a tail of 1e-300 is a number like any other.
"""

from __future__ import annotations

import math

from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.tails import ROUNDING, Tails
from dpcli.numerics.work import spend

TINY = 1e-60  # tilted weights below it are dropped, and counted as error: subnormal numbers are slow
EDGE = 4e-15  # share of the spacing, for each cell between 0 and the furthest, by which cells begin below their grid point
LEAST_EDGES = 64.0
NEAR = 4.0  # of those shares: content that lies so near the left end of its cell is as good as on it
RARELY = 1e-3  # probability with which content so near is moved up after all, in all steps together
RARE = 1e-18  # tilted mass of cells whose content is not counted, where all else is on the grid


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """Tilted masses at the losses (start + k) spacing, k = 0, 1, ..., of a pair that dominates.

    log_scale: M. weights: p e^{t l - M}. infinite: P-mass at +inf, not tilted. error: bound on the Euclidean norm of the error of
    the weights. log_error: bound on a common relative error of them, as a logarithm. lost: tilted mass that was left out.

    Of a pair below: excess: tilted mass that no outcome has. blur: a relative error of the masses, as a logarithm. dispersion: of the
    losses of what is left, about those of merged outcomes.
    """

    tilt: float
    spacing: float
    start: int
    weights: Array
    log_scale: float
    infinite: float
    error: float
    log_error: float
    lost: float = 0.0
    excess: float = 0.0
    blur: float = 0.0
    dispersion: float = 0.0


def chords(tilt: float, spacing: float, atoms: Array, mass: Array, rho: Array) -> Array:
    """Weights at the grid points. atoms: tilted masses there. mass: of the cells between, at the left end's loss; rho: loss above it."""
    share = np.expm1(-rho) / math.expm1(-spacing)
    weights = atoms.copy()
    weights[:-1] += mass * (1.0 - share)
    weights[1:] += mass * share * math.exp(tilt * spacing)
    return weights


def edge_share(start: int, size: int) -> float:
    """Return by what share of the spacing cells begin below their grid point, so that an atom on it lies within, however it is rounded."""
    return EDGE * max(abs(start), abs(start + size), LEAST_EDGES)


def edges(start: int, size: int, spacing: float) -> Array:
    """Return the losses at which the tails of a lattice are taken: a little below its grid points."""
    return np.asarray(spacing * (start - edge_share(start, size) + np.arange(size)))


def discretised(tails: Tails, start: int, spacing: float, tilt: float, count: int = 1, magnified: float = 1e4) -> Lattice:
    """The lattice from the tails at `edges`, for a step that is taken `count` times.

    magnified: how much more an error counts in the end that is not relative.

    P-mass below the first grid point counts there, above the last one as infinite. What rounding may have added to P and taken from Q is a
    relative error of the masses, or an excess, which moves the curve at e^eps by at most e^{M - t eps} times it.
    """
    spend(4.0 * len(tails.p_above))
    size, share = len(tails.p_above), NEAR * edge_share(start, len(tails.p_above))
    left, up = spacing * (start + np.arange(size - 1)), math.exp(tilt * spacing)
    with np.errstate(all="ignore"):
        log_p, slip_p = _cell_masses(tails.p_above, tails.p_below)
        log_q, slip_q = _cell_masses(tails.q_above, tails.q_below)
        slip = np.minimum(slip_p + slip_q, 1.0)
        rho = np.where(np.isneginf(log_p), 0.0, log_p - log_q - left)
        exponents = log_p + tilt * left
        bottom = float(tails.p_below[0]) + tilt * float(left[0])
        top = max(float(exponents.max()), bottom)
        scale = top + math.log(float(np.exp(exponents - top).sum()) + math.exp(bottom - top))
        mass = np.exp(exponents - scale) * (1.0 + np.minimum(slip_p, 1.0))
        raised = np.clip(rho + slip, 0.0, spacing)
        weights = chords(tilt, spacing, np.zeros(size), mass, raised)
        below = math.exp(bottom - scale) * (1.0 + 1e-12)
        weights[0] += below
    # Near the left end: counted there alone. A little elsewhere: not counted at all.
    on_grid = rho <= share * spacing if count * share <= RARELY else np.zeros(size - 1, dtype=bool)
    between = float(mass[~on_grid].sum()) * up
    spread = not between <= RARE
    near = between + float((mass * np.minimum(raised / -math.expm1(-spacing), 1.0))[on_grid].sum()) * up
    relative, rest = _relative_error(mass * up, 4.0 * (slip_p + slip).clip(max=1.0), magnified)
    excess = below + rest + (0.0 if spread else near)
    total = float(weights.sum())
    weights = weights / total
    crumbs = float(weights[weights < TINY].sum())
    log_error = 4e-16 * (4.0 + abs(scale + math.log(total)) + tilt * spacing)
    return Lattice(
        tilt, spacing, start, np.where(weights < TINY, 0.0, weights), scale + math.log(total), math.exp(float(tails.p_above[-1]) + 1e-12),
        crumbs, log_error, 0.0, excess / total, relative, 0.25 * spacing * spacing if spread else 0.0,
    )  # fmt: skip


def _cell_masses(above: Array, below: Array) -> tuple[Array, Array]:
    """Logarithms of the masses between grid points, from whichever tail is the smaller, and bounds on their relative error."""
    rising = below[1:] < -0.7
    outer, inner = np.where(rising, below[1:], above[:-1]), np.where(rising, below[:-1], above[1:])
    inner = np.minimum(inner, outer)
    share = np.where(np.isneginf(outer), 1.0, -np.expm1(inner - outer))
    log_mass = np.where(share > 0.0, outer + np.log(share), -np.inf)
    size = 4.0 - outer + (4.0 - np.maximum(inner, -1e4)) * np.exp(inner - outer)
    slip = np.where(share > 0.0, ROUNDING * size / share, 0.0)
    return log_mass, np.where(np.isneginf(outer), 0.0, slip)


def _relative_error(mass: Array, error: Array, magnified: float) -> tuple[float, float]:
    """(a relative error that most of the mass has at most, the rest times its error): the larger errors are where little is."""
    order = np.argsort(error)
    beyond = np.append(np.cumsum((mass * error)[order][::-1])[::-1], 0.0)[1:]
    best = int(np.argmin(error[order] + magnified * beyond))
    return float(error[order][best]), float(beyond[best])


def coarsened(lattice: Lattice) -> Lattice:
    """Return the lattice on twice the spacing, from above."""
    spend(2.0 * len(lattice.weights))
    weights, start = lattice.weights, lattice.start
    if start % 2:
        weights, start = np.concatenate(([0.0], weights)), start - 1
    if len(weights) % 2 == 0:
        weights = np.append(weights, 0.0)
    spacing = 2.0 * lattice.spacing
    shift = math.exp(-lattice.tilt * lattice.spacing)  # an odd point's mass in the unit of the left end of its cell
    odd = weights[1::2] * shift
    with np.errstate(all="ignore"):
        coarse = chords(lattice.tilt, spacing, weights[0::2], odd, np.full(len(odd), lattice.spacing))
    total = float(coarse.sum()) or 1.0
    grown = math.exp(lattice.tilt * lattice.spacing) / total
    return Lattice(
        lattice.tilt, spacing, start // 2, coarse / total, lattice.log_scale + math.log(total), lattice.infinite,
        2.0 * lattice.error / shift / total, lattice.log_error, lattice.lost * grown, lattice.excess * grown, lattice.blur,
        lattice.dispersion + 0.25 * spacing * spacing,
    )  # fmt: skip
