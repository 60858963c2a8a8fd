"""A privacy loss on a grid: two pairs, one that dominates and one that is dominated, each with the loss on multiples of a spacing h.

The hockey-stick curve of a pair, H(x) = P(r > x) - x Q(r > x), is convex in x = e^eps, and composition keeps its order (Zhu, Dong,
Wang 2022, arXiv:2106.08567, Theorem 10). So a piecewise linear curve with its kinks on the grid that lies above H is the curve of a
dominating pair, one that lies below of a dominated pair.

* Above: the chords of H (Doroshenko et al. 2022, arXiv:2207.04380: connect the dots). Each cell's mass is split between its two ends
  so that both its P-mass and its Q-mass are kept.
* Below: H minus c_i at the grid points, joined by chords. Within a cell H is at least its two tangents, so the chord is too high by
  at most gap = p (e^{h-rho} - 1)(e^rho - 1)/(e^h - 1), p the cell's mass and rho its loss above the left end; c_i is the larger gap
  of the two cells at i, and the result's lower convex hull is taken; where rounding every loss down keeps more, that.

Both are of second order in h. Masses are tilted, w = p e^{t l - M}, so that a tail of 1e-300 is a number like any other, and those
of the lower pair are a sub-measure: what is dropped can only lower its curve.
"""

from __future__ import annotations

import math

from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.tails import ROUNDING, Tails
from dpcli.numerics.work import spend

TINY = 1e-60  # tilted weights below it are dropped, and counted as error: subnormal numbers are slow
EDGE = 1e-9  # share of the spacing by which cells begin below their grid point, so that an atom on it lies within
SNAP = 1e-3  # share of the spacing up to which a loss counts as its left grid point
ASIDE = 64  # kinks that are passed over between two looks at the work
BLOCK = 400.0  # cells that a short stretch of a long sum costs, for the calls alone


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """Tilted masses at the losses (start + k) spacing, k = 0, 1, ...

    log_scale: M. weights: p e^{t l - M}. infinite: P-mass at +inf, not tilted. error: bound on the Euclidean norm of the error of
    the weights. log_error: bound on a common relative error of them, as a logarithm. shift: how much lower than stated the losses are.
    lost: tilted mass that was left out, of a pair that dominates.
    """

    tilt: float
    spacing: float
    start: int
    weights: Array
    log_scale: float
    infinite: float
    error: float
    log_error: float
    shift: float = 0.0
    lost: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Contents of the cells between neighbouring grid points: tilted mass (at the left end's loss), loss above the left end; and atoms on
    them."""

    tilt: float
    spacing: float
    atoms: Array
    mass: Array
    rho: Array

    def upper(self) -> Array:
        """The chords: weights at the grid points."""
        share = np.expm1(-self.rho) / math.expm1(-self.spacing)
        weights = self.atoms.copy()
        weights[:-1] += self.mass * (1.0 - share)
        weights[1:] += self.mass * share * math.exp(self.tilt * self.spacing)
        return weights

    def lower(self) -> tuple[Array, float]:
        """The lowered curve: weights, and the Euclidean norm of what rounding made of them below zero."""
        h, up = self.spacing, math.exp(self.tilt * self.spacing)
        near = self.rho < SNAP * h  # as good as on the grid: rounded down, which needs no lowering
        atoms, mass = self.atoms.copy(), np.where(near, 0.0, self.mass)
        atoms[:-1] += np.where(near, self.mass * np.exp(-self.rho), 0.0)
        chords = Cells(self.tilt, h, atoms, mass, self.rho).upper()
        gap = mass * np.expm1(h - self.rho) * np.expm1(self.rho) / math.expm1(h)
        lowering = np.append(gap, 0.0)
        lowering[1:] = np.maximum(lowering[1:], gap * up)
        under = np.flatnonzero((lowering > 0.0) & (lowering > _heights(chords, h, self.tilt)))
        # The curve must not end below 0: from the point before the first such one, it is 0.
        last = max(int(under[0]) - 1, 0) if len(under) else len(chords) - 1
        end, before = _height(chords, last, h, self.tilt), _height(chords, last - 1, h, self.tilt) if last else 0.0
        lowering[last] = end
        weights = chords - self._bends(lowering)
        weights[last:] = 0.0
        if last:
            weights[last] = (before - lowering[last - 1]) * up / -math.expm1(-h)
        noise = 1e-13 * chords
        cut = float(np.abs(weights[np.abs(weights) <= noise]).sum()) + 4e-15 * (end + before) / h
        weights[np.abs(weights) <= noise] = 0.0
        hull, down = convex(weights, h, self.tilt), self._down()
        return (hull, cut) if float(hull.sum()) >= float(down.sum()) else (down, 0.0)

    def _down(self) -> Array:
        """Every loss rounded down, P-mass lowered: what is left for a lone atom, with no other below it to share its mass with."""
        weights = self.atoms.copy()
        weights[:-1] += self.mass * np.exp(-self.rho)
        return weights

    def _bends(self, lowering: Array) -> Array:
        """Return what lowering the curve by c takes from the weights: the second divided difference of c."""
        h, up = self.spacing, math.exp(self.tilt * self.spacing)
        padded = np.concatenate(([lowering[0] / up], lowering, [0.0]))  # to the left the curve keeps its slope
        middle = padded[1:-1]
        return np.asarray((padded[2:] / up - middle) / math.expm1(h) + (middle - padded[:-2] * up) / math.expm1(-h))


def _height(weights: Array, i: int, spacing: float, tilt: float) -> float:
    distance = spacing * np.arange(1, len(weights) - i)
    return float((weights[i + 1 :] * np.exp(-tilt * distance) * -np.expm1(-distance)).sum())


def _heights(weights: Array, spacing: float, tilt: float) -> Array:
    """The curve at every grid point, in that point's tilted unit, from below by about 1e-12 of the weight there."""
    decay = tilt * spacing
    size = max(1, min(len(weights), int(600.0 / max(decay + spacing, 1e-300))))
    spend(BLOCK * math.ceil(len(weights) / size) + len(weights))
    height = np.empty(len(weights))
    p_beyond, q_beyond = 0.0, 0.0  # of all points beyond the block, in the tilted unit of its last point
    for end in range(len(weights), 0, -size):
        begin = max(end - size, 0)
        k = np.arange(end - begin)
        p_terms = weights[begin:end] * np.exp(-decay * (k - k[-1]))
        q_terms = p_terms * np.exp(-spacing * (k - k[-1]))
        p_sum = np.cumsum(p_terms[::-1])[::-1] - p_terms + p_beyond
        q_sum = np.cumsum(q_terms[::-1])[::-1] - q_terms + q_beyond
        height[begin:end] = (p_sum - q_sum * np.exp(spacing * (k - k[-1]))) * np.exp(decay * (k - k[-1])) - 1e-12 * weights[
            begin:end
        ]
        grow = math.exp(decay * (1 - len(k) - 1)) if len(k) else 1.0
        p_beyond = (float(p_sum[0]) + float(p_terms[0])) * grow
        q_beyond = (float(q_sum[0]) + float(q_terms[0])) * grow * math.exp(-spacing)
    return height


def convex(weights: Array, spacing: float, tilt: float) -> Array:
    """The lower convex hull of the curve with these weights: a negative one is given to its neighbours, which lowers the chord there.

    Only grid points with weight are kinks; a point that is left with none is passed over.
    """
    if not (weights < 0.0).any():
        return weights
    alive = np.flatnonzero(weights)
    spend(0.2 * len(alive))
    kinks = weights[alive]
    values: dict[int, float] = {}  # of kinks that have changed, by their place in `alive`
    left: dict[int, int] = {}  # neighbours that are no longer those in `alive`: few points are passed over
    right: dict[int, int] = {}
    waiting = np.flatnonzero(kinks < 0.0).tolist()
    rate, gained, last = tilt * spacing, -spacing, len(alive)
    while waiting:
        k = waiting.pop()
        weight = values[k] if k in values else float(kinks[k])
        if weight >= 0.0:
            continue
        if len(values) % ASIDE == 0:
            spend(30.0 * ASIDE)  # one by one
        values[k] = 0.0
        before, after = left.get(k, k - 1), right.get(k, k + 1)
        if after == last:  # nothing above to give it to: no claim below it either
            return np.zeros_like(weights)
        place, end = int(alive[k]), int(alive[after])
        left[after] = before
        share = 1.0
        if before >= 0:
            right[before] = after
            begin = int(alive[before])
            share = math.expm1(gained * (place - begin)) / math.expm1(gained * (end - begin))
            value = values[before] if before in values else float(kinks[before])
            values[before] = value + weight * (1.0 - share) * math.exp(-rate * (place - begin))
            if values[before] < 0.0:
                waiting.append(before)
        value = values[after] if after in values else float(kinks[after])
        values[after] = value + weight * share * math.exp(min(rate * (end - place), 700.0))
        if values[after] < 0.0:
            waiting.append(after)
    result = weights.copy()
    result[alive[list(values)]] = list(values.values())
    return result


def edges(start: int, size: int, spacing: float) -> Array:
    """Return the losses at which the tails of a lattice are taken: a little below its grid points."""
    return np.asarray(spacing * (start - EDGE + np.arange(size)))


def discretised(tails: Tails, start: int, spacing: float, tilt: float) -> tuple[Lattice, Lattice]:
    """(lower, upper) lattices from the tails at `edges`.

    The lower pair's losses are those edges themselves: its shift is what lies between them and the grid. P-mass below the first grid
    point counts there, above the last one as infinite, in the upper pair; the lower pair drops both.
    """
    spend(4.0 * len(tails.p_above))
    left = spacing * (start + np.arange(len(tails.p_above) - 1))
    with np.errstate(all="ignore"):
        log_p, slip_p = _cell_masses(tails.p_above, tails.p_below)
        log_q, slip_q = _cell_masses(tails.q_above, tails.q_below)
        slip = np.minimum(slip_p + slip_q, 1.0)
        rho = np.where(np.isneginf(log_p), 0.0, log_p - log_q - left)
        exponents = log_p + tilt * left
        bottom = float(tails.p_below[0]) + tilt * float(left[0])
        top = max(float(exponents.max()), bottom)
        scale = top + math.log(float(np.exp(exponents - top).sum()) + math.exp(bottom - top))
        mass = np.exp(exponents - scale)
        size = len(tails.p_above)
        high = Cells(tilt, spacing, np.zeros(size), mass * (1.0 + np.minimum(slip_p, 1.0)), np.clip(rho + slip, 0.0, spacing))
        upper = high.upper()
        upper[0] += math.exp(bottom - scale) * (1.0 + 1e-12)
        above_edge = np.clip(rho + EDGE * spacing - slip, 0.0, spacing)
        low = Cells(tilt, spacing, np.zeros(size), mass * (1.0 - np.minimum(slip_p, 1.0)), above_edge)
        lower, cut = low.lower()
        total = float(upper.sum())
    lower, upper, cut, scale = lower / total, upper / total, cut / total, scale + math.log(total)
    crumbs = [float(weights[weights < TINY].sum()) for weights in (lower, upper)]
    lower, upper = np.where(lower < TINY, 0.0, lower), np.where(upper < TINY, 0.0, upper)
    infinite = math.exp(float(tails.p_above[-1]) + 1e-12)
    log_error = 4e-16 * (4.0 + abs(scale) + tilt * spacing)
    return (
        Lattice(tilt, spacing, start, lower, scale, 0.0, cut + crumbs[0], log_error, EDGE * spacing),
        Lattice(tilt, spacing, start, upper, scale, infinite, crumbs[1], log_error),
    )


def _cell_masses(above: Array, below: Array) -> tuple[Array, Array]:
    """Logarithms of the masses between grid points, from whichever tail is the smaller, and bounds on their relative error."""
    rising = below[1:] < -0.7
    outer, inner = np.where(rising, below[1:], above[:-1]), np.where(rising, below[:-1], above[1:])
    inner = np.minimum(inner, outer)
    share = np.where(np.isneginf(outer), 1.0, -np.expm1(inner - outer))
    log_mass = np.where(share > 0.0, outer + np.log(share), -np.inf)
    slip = np.where(share > 0.0, ROUNDING * (4.0 - np.maximum(inner, -1e4)) / share, 0.0)
    return log_mass, np.where(np.isneginf(outer), 0.0, slip)


def coarsened(lattice: Lattice, upper: bool) -> Lattice:
    """Return the lattice on twice the spacing, from above or from below."""
    spend(2.0 * len(lattice.weights))
    weights, start = lattice.weights, lattice.start
    if start % 2:
        weights, start = np.concatenate(([0.0], weights)), start - 1
    if len(weights) % 2 == 0:
        weights = np.append(weights, 0.0)
    shift = math.exp(-lattice.tilt * lattice.spacing)  # an odd point's mass in the unit of the left end of its cell
    odd = weights[1::2] * shift
    cells = Cells(lattice.tilt, 2.0 * lattice.spacing, weights[0::2], odd, np.full(len(odd), lattice.spacing))
    with np.errstate(all="ignore"):
        coarse, cut = (cells.upper(), 0.0) if upper else cells.lower()
    total = float(coarse.sum()) or 1.0
    lost = lattice.lost / total * math.exp(lattice.tilt * lattice.spacing)
    return Lattice(
        lattice.tilt, 2.0 * lattice.spacing, start // 2, coarse / total, lattice.log_scale + math.log(total), lattice.infinite,
        (2.0 * lattice.error / shift + cut) / total, lattice.log_error, lattice.shift, lost,
    )  # fmt: skip
