"""Compositions whose delta one large loss decides: the steps without a large loss, and those with one, each on a grid of its own tilt.

Where the loss has a long tail, the tilt that delta needs is ruled by outcomes that hardly ever happen, and the transform's rounding is not
small beside delta. So call a loss of step i large above c_i, let s_i be its law (under P, and under Q) without large losses, b_i the law of
large ones. An outcome of the composition without any is one of the product of the s_i. For the others, count each outcome once for every
large loss in it:

    S(eps)  <=  delta(eps)  <=  S(eps) + J(eps),     J = the curve of sum_i n_i b_i * m_i^{n_i - 1} * prod_{j != i} m_j^{n_j},

m_i the law of the step. As (p - e^eps q)+ <= p, counting too often adds at most the expected number of pairs of large losses, so that also
delta(eps) >= S(eps) + J(eps) - N^2 / 2, where N = sum_i n_i P_i(L > c_i). S has no large losses, so that its tilt is that of delta; J is
computed relative to its own mass, about N, under a tilt that hardly changes it. Both measures are put on a grid as any other (lattice.py),
which moves each step's outcomes alike in all terms of J. Source of the idea: one big jump, as in numerics/contour/jump.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.numerics.arrays import ComplexArray, np
from dpcli.numerics.grid.composed_losses import MAX_POINTS, PASSES, TOO_FAR, WIDTH, GridTarget, Parts, composed, edge, planned
from dpcli.numerics.grid.convolution import UNIT, transform_size
from dpcli.numerics.grid.grid_curve import GridCurve
from dpcli.numerics.grid.lattice import Lattice, discretised, edges
from dpcli.numerics.grid.survey import Survey, spread, tilt_for
from dpcli.numerics.roots import bracket_root
from dpcli.numerics.work import remaining, spend

LEVELS = tuple(float(level) for level in range(1, 19))  # of log N / delta
PAIRS = -12.0  # of log N^2 / delta, at most: pairs of large losses hardly count
ORDER = 1.0  # of the tilt of J, over the largest loss
LOG_OUTSIDE = -34.0
NONE_LARGER = "no loss is so much larger than the others"
ROUGHEST = 1e-2  # rounding of J, relative to its mass


@dataclass(frozen=True, eq=False)
class JumpedCurve:
    """The two parts of a composition, and N^2 / 2."""

    small: GridCurve
    large: GridCurve
    pairs: float

    @property
    def lattice(self) -> Lattice:
        return self.small.lattice

    @property
    def covered(self) -> bool:
        return self.small.covered and self.large.covered

    @property
    def coarse(self) -> bool:
        return self.small.coarse or self.large.coarse

    def delta(self, epsilon: float) -> tuple[float, float]:
        """(lower, upper) bounds on delta(epsilon), in [0, 1]."""
        (low, high), (lower, upper) = self.small.delta(epsilon), self.large.delta(epsilon)
        return max(low, (low + lower) * (1.0 - 1e-15) - self.pairs, 0.0), min((high + upper) * (1.0 + 1e-15), 1.0)

    def epsilon(self, log_delta: float) -> tuple[float, float]:
        """(lower, upper) bounds on where delta(epsilon) falls to e^log_delta; -inf and inf where the grids show none."""
        lattice = self.large.lattice
        last = lattice.spacing * (lattice.start + len(lattice.weights))

        def excess(side: int, epsilon: float) -> float:
            value = self.delta(epsilon)[side]
            return (math.log(value) if value > 0.0 else -1e4) - log_delta

        if excess(1, last) > 0.0:
            return -math.inf, math.inf
        if excess(1, 0.0) <= 0.0:
            return -math.inf, 0.0
        upper = bracket_root(lambda x: excess(1, x), 0.0, last, rtol=1e-12)[1]
        low = upper
        for distance in np.geomspace(1e-8, 1.0, 49).tolist():
            low = upper * (1.0 - distance)
            if excess(0, low) > 0.0:
                return bracket_root(lambda x: excess(0, x), low, upper, rtol=1e-12)[0], upper
        return -math.inf, upper


def level_for(parts: Parts, log_delta: float, epsilon: float) -> float:
    """log N / delta at which rounding counts least in both parts; nan where that gains nothing."""
    best, least = math.nan, math.inf
    for level in LEVELS:
        if log_delta + 2.0 * level > PAIRS:
            break
        cut = tuple((view, n) for view, n in zip(_cut(parts, log_delta + level), (n for _, _, n in parts), strict=True))
        small = tilt_for(cut, epsilon)[1] - log_delta
        if max(small, level) < least:
            best, least = level, max(small, level)
    return best


def _cut(parts: Parts, log_mass: float) -> list[Survey]:
    return [view.cut(log_mass - math.log(n * len(parts))) for _, view, n in parts]


def jumped(parts: Parts, target: GridTarget, epsilon: float, level: float, error: float, work: float) -> tuple[JumpedCurve, float]:
    """(the curve near `epsilon`, about `error` nats wide where `work` pays for it; points that it took)."""
    views = _cut(parts, target.log_delta + level)
    tops = [float(view.edges[-1]) for view in views]
    tilt = tilt_for(tuple((view, n) for view, (_, _, n) in zip(views, parts, strict=True)), epsilon)[0]
    small_parts = [(loss, view, n) for (loss, _, n), view in zip(parts, views, strict=True)]
    small_target = replace(target, tilt=tilt, tops=tuple(tops))
    plan = planned(small_parts, small_target, error, 0.0, 0.5 * work)
    large, cost = _large(parts, small_target, tops, error, work - plan.work)
    number = math.fsum(
        n * math.exp(float(loss.tails(np.array([top])).p_above[0])) for (loss, _, n), top in zip(parts, tops, strict=True)
    )
    return JumpedCurve(composed(small_parts, plan), large, 0.5 * number * number * (1.0 + 1e-9)), plan.work + cost


def _large(parts: Parts, target: GridTarget, tops: Sequence[float], error: float, work: float) -> tuple[GridCurve, float]:
    """The curve of J, as a pair of its own, with what is infinite."""
    counts = [n for _, _, n in parts]
    highs = [view.range(target.log_rare - math.log(n), 0.0, 0.0)[1] for _, view, n in parts]
    if not max(highs) > 0.0:
        raise NotRepresentable(NONE_LARGER)
    tilt = ORDER / max(highs)
    lows = [view.range(0.0, tilt, LOG_OUTSIDE - math.log(n))[0] for _, view, n in parts]
    low, high, *orders = spread([(view.cut(target.log_rare - math.log(n)), n) for _, view, n in parts], tilt, LOG_OUTSIDE)
    reach = (low - max(highs) + min(tops), high - min(lows) + max(highs))
    spacing = math.sqrt(4.0 * error / (WIDTH * (target.tilt + 1.0)) / sum(counts))
    work = min(work, remaining() / PASSES)
    finest = (reach[1] - reach[0]) / min(0.25 * MAX_POINTS, work / (4.0 * len(parts) + 1.0))
    coarse = spacing < finest
    spacing = max(spacing, finest)
    steps: list[tuple[Lattice, int]] = []
    jumps: list[Lattice | None] = []
    for (loss, _, n), bottom, top, end in zip(parts, lows, tops, highs, strict=True):
        start = math.floor(bottom / spacing) - 1
        at = edges(start, max(math.ceil(end / spacing) - start + 2, 3), spacing)
        steps.append((discretised(loss.tails(at), start, spacing, tilt, n), n))
        above = loss.tails(np.maximum(at, top))
        above = above._replace(p_below=np.append(-math.inf, above.p_below[1:]))  # what is below is no large loss
        jumps.append(discretised(above, start, spacing, tilt, n) if above.p_above[0] > above.p_above[-1] else None)
    begin, below = edge(steps, -1.0, low, orders[0], LOG_OUTSIDE)
    end, beyond = edge(steps, 1.0, high, orders[1], LOG_OUTSIDE)
    first = math.floor((begin - max(highs) + min(tops)) / spacing)
    size = transform_size(math.ceil((end - min(lows) + max(highs)) / spacing) - first + 1)
    if size > MAX_POINTS:
        raise NotRepresentable(TOO_FAR)
    lattice = _one_large(steps, jumps, first, size)
    infinite = -math.expm1(math.fsum(n * math.log1p(-min(one.infinite, 1.0 - 1e-16)) for one, n in steps))
    certain = -math.expm1(math.fsum(n * math.log1p(-min(math.exp(view.log_infinite), 1.0 - 1e-16)) for _, view, n in parts))
    curve = GridCurve(replace(lattice, infinite=infinite), below + beyond, certain * (1.0 - 1e-12), coarse)
    return curve, 4.0 * size * len(parts)


def _one_large(steps: list[tuple[Lattice, int]], jumps: list[Lattice | None], first: int, size: int) -> Lattice:
    """The sum over the steps of all others' convolution with a large loss of this one, by Leibniz's rule, as one lattice.

    A transform of weights that add up to 1 errs by at most UNIT log2(size) at each frequency; as no modulus exceeds 1, products of n
    err by at most n times that, and so does a power by its logarithm.
    """
    spend(4.0 * size * len(steps))
    one: ComplexArray = np.ones(size // 2 + 1, dtype=complex)  # the product of the steps so far
    jumped_once: ComplexArray = np.zeros(size // 2 + 1, dtype=complex)
    scale, offset = 0.0, 0
    shares = [n * math.exp(jump.log_scale - step.log_scale) if jump else 0.0 for (step, n), jump in zip(steps, jumps, strict=True)]
    total = math.fsum(shares)
    if not total > 0.0:
        raise NotRepresentable(NONE_LARGER)
    for (step, n), jump, share in zip(steps, jumps, shares, strict=True):
        spectrum = np.fft.rfft(step.weights, size)
        with np.errstate(divide="ignore"):
            log_spectrum = np.log(spectrum)
            rest = np.exp((n - 1.0) * log_spectrum)
        rest = np.where(np.isfinite(rest), rest, 0.0) if n > 1 else np.ones_like(spectrum)
        jumped_once = jumped_once * rest * spectrum
        if jump is not None:
            jumped_once += one * rest * np.fft.rfft(jump.weights, size) * (share / total)
        one = one * rest * spectrum
        scale += n * step.log_scale
        offset += n * step.start
    weights = np.fft.irfft(jumped_once, size)
    weights = np.maximum(np.roll(weights, (offset - first) % size), 0.0)
    number = float(sum(n for _, n in steps))
    rounding = UNIT * math.log2(size) * (3.0 * number + 12.0)
    if not rounding < ROUGHEST:
        raise NotRepresentable("more steps than rounding allows")
    some, large = steps[0][0], [jump for jump in jumps if jump is not None]
    return Lattice(
        some.tilt,
        some.spacing,
        first,
        weights,
        scale + math.log(total),
        0.0,
        rounding + math.fsum(n * step.error for step, n in steps) + max(jump.error for jump in large),
        1e-12 + math.fsum(n * step.log_error for step, n in steps) + max(jump.log_error for jump in large),
        0.0,
        math.fsum(n * step.excess for step, n in steps) + max(jump.excess for jump in large),
        math.fsum(n * step.blur for step, n in steps) + max(jump.blur for jump in large),
        0.25 * some.spacing * some.spacing * number,
    )
