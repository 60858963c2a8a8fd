"""A privacy loss on the multiples of a spacing h: a pair that dominates it, and a measure of how far the losses were moved.

The accountant pld (grid/composed_losses.py) rounds each loss L = log dP/dQ in this way, from the tails of L. Then losses add up by
convolution (grid/convolution.py), and grid/grid_curve.py bounds delta(epsilon) from both sides. A pair *dominates* another one if its
hockey-stick curve, delta as a function of epsilon, is nowhere below. Here is why rounding keeps both bounds.

The upper bound. The chords of the hockey-stick curve are above the curve (Doroshenko et al. 2022, arXiv:2207.04380: connect the dots). The
mass of each cell between grid points is split between its two ends so that its P-mass and its Q-mass are kept. The resulting pair
dominates. Composition keeps the order of curves (Zhu, Dong, Wang 2022, arXiv:2106.08567, Theorem 10).

The lower bound.

1. Replace each cell by one outcome with the P-mass p and the Q-mass q of the cell. This is post-processing, so the true curve is above the
   curve of these merged pairs.
2. The likelihood ratio of the merged pair under Q is Y = p/q. The ratio of the dominating pair is Y (1 + x). Given the cell, x has mean 0,
   and log(1 + x) has two values that lie h apart.
3. Over all steps the ratio of the dominating pairs is U = Y Z with E[Z | Y] = 1 and

      log E[Z^a | Y] <= a (a - 1) V / 2   for every real a outside of (0, 1),   V = sum h^2 / 4.

4. Proof of this inequality: kappa(a) = log E[(1 + x)^a] has kappa(0) = kappa(1) = 0. kappa'' is the variance of log(1 + x) under a tilted
   law, which is at most h^2 / 4 (Popoviciu). So kappa lies below the parabola with these zeros and that curvature.
5. V is the `dispersion` of a lattice. numerics/grid/grid_curve.py derives a lower bound on the curve from it.

Both errors are of second order in h. Masses are tilted, w = p e^{t l - M}, with t > 0 (the tilt) such that losses near epsilon become the
likely ones. So a tail of 1e-300 is not small in floating point. M is the logarithm of the total, so that the weights w add up to 1.
"""

from __future__ import annotations

import math
from dataclasses import replace

from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.tails import ROUNDING, Tails, cells_between
from dpcli.numerics.work import spend  # counts work, and refuses a question that takes too much

# Accuracy: cells begin slightly below their grid point, so that an atom on the point lies within its cell although its loss is rounded.
# They begin lower by EDGE times the spacing, times the number of cells between 0 and the furthest point, or LEAST_EDGES if that is more.
EDGE, LEAST_EDGES = 4e-15, 64.0
NEAR = 4.0  # mass within this multiple of that distance above a grid point counts as lying on the point
# Soundness of the lower bound: largest probability, over all steps, with which such mass may be moved up nevertheless. `GridCurve.boxes`
# allows for it.
RARELY = 1e-3
# Accuracy: if the tilted mass off the grid points is at most this, it is counted as excess and not as dispersion.
RARE = 1e-18
# Soundness: the relative error of a tail probability is ROUNDING (4 + |its logarithm|) (tails.py), where the logarithm of an empty tail is
# limited to LEAST_LOG. TAIL_ROUNDING exceeds the rounding of a sum or a logarithm, and ULPS that of an exponent, relative.
LEAST_LOG, TAIL_ROUNDING, ULPS = -1e4, 1e-12, 4e-16
# Speed: smaller tilted weights are dropped and added to the error, because subnormal numbers are slow.
TINY = 1e-60


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """A dominating pair with tilted masses at the losses (start + k) spacing for k = 0, 1, ..., and what the lower bound needs.

    tilt: t. log_scale: M. weights: p e^{t l - M}. infinite: P-mass of an infinite loss, not tilted.
    error: a bound on the Euclidean norm of the error of the weights. log_error: a bound on the logarithm of a common relative error.
    lost: tilted mass that was left out.

    The other fields are for the lower bound. excess: tilted mass that the merged pair may lack. blur: a bound on the logarithm of a
    relative error of its masses. dispersion: V of the module's docstring.
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
    """Return the tilted weights at the grid points, with the mass of each cell split between its ends.

    atoms: tilted masses at the grid points. mass: masses of the cells between them, tilted as at the left end. rho: how far the loss of a
    cell's merged outcome is above the left end.
    """
    share = np.expm1(-rho) / math.expm1(-spacing)  # at the right end, of the P-mass; it keeps the Q-mass too
    weights = atoms.copy()
    weights[:-1] += mass * (1.0 - share)
    weights[1:] += mass * share * math.exp(tilt * spacing)
    return weights


def edge_share(start: int, size: int) -> float:
    """Return the share of the spacing by which cells begin below their grid point, so that a rounded atom on it lies within the cell."""
    return EDGE * max(abs(start), abs(start + size), LEAST_EDGES)


def edges(start: int, size: int, spacing: float) -> Array:
    """Return the losses at which the tails for a lattice are computed, which are slightly below its grid points."""
    return np.asarray(spacing * (start - edge_share(start, size) + np.arange(size)))


def discretise(tails: Tails, start: int, spacing: float, tilt: float, count: int = 1, magnified: float = 1e4) -> Lattice:
    """Return the lattice of a step that is taken `count` times.

    Args:
        tails: the tails at `edges`, whose first is just below the grid point `start`.
        spacing: the distance of the grid points, in nats. tilt: t.
        magnified: how much more an absolute error (excess) counts than a relative one (blur) where rounding may be counted as either.

    P-mass below the first grid point is moved to it, and P-mass above the last one counts as infinite loss. Mass that rounding may have
    added to P or taken from Q is counted as a relative error of the masses (blur) or as excess. An excess x moves the curve at e^eps by at
    most x e^{M - t eps}.
    """
    spend(4.0 * len(tails.p_above))
    size = len(tails.p_above)
    near_share = NEAR * edge_share(start, size)  # a loss up to this share of the spacing above a grid point counts as lying on it
    left, across = spacing * (start + np.arange(size - 1)), math.exp(tilt * spacing)  # across: the factor of the tilt across a cell
    with np.errstate(all="ignore"):  # empty cells and tails have the logarithm -inf
        log_p, slip_p = cell_masses(tails.p_above, tails.p_below)
        log_q, slip_q = cell_masses(tails.q_above, tails.q_below)
        slip = np.minimum(slip_p + slip_q, 1.0)
        rho = np.where(np.isneginf(log_p), 0.0, log_p - log_q - left)
        exponents = log_p + tilt * left
        bottom = float(tails.p_below[0]) + tilt * float(left[0])
        top = max(float(exponents.max()), bottom)
        scale = top + math.log(float(np.exp(exponents - top).sum()) + math.exp(bottom - top))
        mass = np.exp(exponents - scale) * (1.0 + np.minimum(slip_p, 1.0))
        raised = np.clip(rho + slip, 0.0, spacing)
        weights = chords(tilt, spacing, np.zeros(size), mass, raised)
        moved_from_below = math.exp(bottom - scale) * (1.0 + TAIL_ROUNDING)
        weights[0] += moved_from_below
    # Cells whose mass lies near the left end count as atoms there. If the other cells together have little mass, it is counted as excess.
    on_grid = rho <= near_share * spacing if count * near_share <= RARELY else np.zeros(size - 1, dtype=bool)
    off_grid_mass = float(mass[~on_grid].sum()) * across
    is_dispersed = not off_grid_mass <= RARE
    moved_right = off_grid_mass + float((mass * np.minimum(raised / -math.expm1(-spacing), 1.0))[on_grid].sum()) * across
    relative, absolute = _relative_error(mass * across, 4.0 * (slip_p + slip).clip(max=1.0), magnified)
    excess = moved_from_below + absolute + (0.0 if is_dispersed else moved_right)
    total = float(weights.sum())
    weights = weights / total
    return Lattice(
        tilt=tilt,
        spacing=spacing,
        start=start,
        weights=np.where(weights < TINY, 0.0, weights),
        log_scale=scale + math.log(total),
        infinite=math.exp(float(tails.p_above[-1]) + TAIL_ROUNDING),
        error=float(weights[weights < TINY].sum()),  # the dropped weights
        log_error=ULPS * (4.0 + abs(scale + math.log(total)) + tilt * spacing),
        excess=excess / total,
        blur=relative,
        dispersion=0.25 * spacing * spacing if is_dispersed else 0.0,
    )


def cell_masses(above: Array, below: Array) -> tuple[Array, Array]:
    """Return the logarithms of the masses between grid points, and bounds on their relative error. An empty cell has the error 0."""
    log_mass, outer, inner, share = cells_between(above, below)  # outer, inner: logarithms of the larger and the smaller tail
    # The errors of both tails, in units of ROUNDING times the larger tail.
    size = 4.0 - outer + (4.0 - np.maximum(inner, LEAST_LOG)) * np.exp(inner - outer)
    return log_mass, np.where(share > 0.0, ROUNDING * size / share, 0.0)


def _relative_error(mass: Array, error: Array, magnified: float) -> tuple[float, float]:
    """Return a bound on the relative error of most of the mass, and the sum of mass times error over the rest.

    mass, error: the mass and the relative error of each cell. Only cells with little mass have large errors. The bound is chosen so that
    it plus `magnified` times the sum is smallest.
    """
    order = np.argsort(error)
    errors = error[order]
    sums_beyond = np.append(np.cumsum((mass * error)[order][::-1])[::-1], 0.0)[1:]  # over the cells with a larger error
    best = int(np.argmin(errors + magnified * sums_beyond))
    return float(errors[best]), float(sums_beyond[best])


def coarsen(lattice: Lattice) -> Lattice:
    """Return a lattice with twice the spacing that dominates this one. The mass at each odd point is split between its neighbours."""
    spend(2.0 * len(lattice.weights))
    weights, start = lattice.weights, lattice.start
    if start % 2:  # the first and the last point must be even
        weights, start = np.concatenate(([0.0], weights)), start - 1
    if len(weights) % 2 == 0:
        weights = np.append(weights, 0.0)
    spacing = 2.0 * lattice.spacing
    shift = math.exp(-lattice.tilt * lattice.spacing)  # an odd point's mass in the unit of the left end of its cell
    odd = weights[1::2] * shift
    with np.errstate(all="ignore"):
        coarse = chords(lattice.tilt, spacing, weights[0::2], odd, np.full(len(odd), lattice.spacing))
    total = float(coarse.sum()) or 1.0
    growth = math.exp(lattice.tilt * lattice.spacing) / total  # most by which tilted mass grows: up by one point, in the new unit
    return replace(
        lattice,
        spacing=spacing,
        start=start // 2,
        weights=coarse / total,
        log_scale=lattice.log_scale + math.log(total),
        error=2.0 * lattice.error / shift / total,
        lost=lattice.lost * growth,
        excess=lattice.excess * growth,
        dispersion=lattice.dispersion + 0.25 * spacing * spacing,
    )
