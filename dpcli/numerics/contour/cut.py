"""A loss divided by size: a small part that has no far tail, and a big one, by a smooth weight.

b(x) = 1 - exp(-e^{k (x - c)}) of an outcome is big: next to nothing below c, and all of it beyond. The small part's CGF is finite
everywhere and its transform needs few nodes, evenly spaced in the loss where that grows (stretched.py); of the big part nothing is needed
but integrals over the real line.

A loss without a far tail is its own small part (`UncutLoss`). The decomposition of jump.py holds for any division of each step's outcomes,
for this one with b = 0. Of the third term's factors, B = C = E_Q[r^-power] then, which a class knows by `backwards`. Where the other
direction's loss has the same law (a class says so by `mirrored`), that is e^{K(power)}: E_Q[r^-power] = E_Q[e^{power log dQ/dP}].

A loss can also be relieved of its far upper tail (`CappedLoss`), so that tilts beyond the cliff of its CGF come within reach. At a low rate
the loss has a tail so long that E[e^{t L}] explodes at a tilt far below the one that suits delta, although the tail's own probability is
next to nothing. The part of P with the weight w(x) = exp(-e^{k (x - c)}) has no cliff, and lacks at most E_P[e^{k (x - c)}], which is made
a small share of delta and added to it. Its transform's quadratures are those of the whole loss, with one more factor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, ComplexArray, np
from dpcli.numerics.contour.stretched import EDGE, Stretched, log_cutoff
from dpcli.numerics.contour.tilted import Ramp, SplitLoss, TiltedQuadrature
from dpcli.numerics.logspace import log_sum
from dpcli.numerics.products import product
from dpcli.numerics.quadrature import MAX_NODES, SLACK, TAIL, bernoulli, moment_on, nodes_of, step_size
from dpcli.numerics.work import hold

if TYPE_CHECKING:
    from dpcli.numerics.contour.tilted import Line, Loss, Tilted


SMALL, BIG = 1.35, 2.1  # of a level: where losses begin to be big, and where nearly all are
BEND = 1.0 / 30.0  # of a level: the loss from which on the nodes of the small part crowd
MOST_NODES = 20_000
STRIP = 0.45 * math.pi  # of the stretched line: where the ratio grows with 1 + e^v, this keeps it away from its zeros
STANDARD = 6.0  # standard deviations that the strip may be high at most: there the normal weight has grown by e^18
TURN = (
    0.3 * math.pi
)  # largest height in 1 / k: the weight falls faster than any exponential where k times the height is below pi / 2
NODES = 0.149  # node distance over the strip's height: e^{-2 pi / NODES} is below e^-42
NORMAL = 0.3  # largest node distance in standard deviations
FALL = 0.14  # node distance in 1 / k, for the big part
GROWN = 14.0  # e^{2 pi / NODES} over which is still nothing
TILT = 150.0  # largest order, times the level, that matters
FARTHEST = 4.0  # times the tilt: orders at which the CGF bounds aliases
FARTHER = 0.8  # of the way from `low` to `high`, by which it may then end beyond `high`
BLUNT = 6.0  # k where the weight takes off only what is next to nothing
SHARPER = 1.6  # k over the place of the edge at least, so that the weight outruns the normal density
LOG_LIGHT = -500.0  # of weights that are left out where a tilt is looked for
WIDE = 600.0  # e^{slope (edge - bend)} beyond which the loss has long ceased to grow exponentially
LOST = 45.0  # (k - c) (c - x) below which nothing is big: leftwards the normal density rises by e^{c (c - x)} at most
NEAR = 0.05  # order at which the moments are looked for


@dataclass(frozen=True, slots=True, eq=False)
class CutLoss:
    """log r(X) under the small part of Q r.

    pair: log Q and log r, which increases. line: where the nodes are; low, high, step: in v. sharpness, edge: k and c.
    outcomes, log_density, ratio: x, log of Q (1 - b) dx/dv times the node distance, and log r, at the nodes.
    big, gained: Q(b) and P(b) - Q(b), each to SLACK relative.
    far_density, far_ratio: log of Q b times the node distance, and log r, at nodes of its own.
    left: where the loss has a lower tail as long as its upper one.
    """

    pair: Line
    line: Stretched
    low: float
    high: float
    step: float
    strip: float
    sharpness: float
    edge: float
    outcomes: Array
    log_density: Array
    ratio: Array
    big: float
    gained: float
    far_density: Array
    far_ratio: Array
    left: LeftTail | None
    several: ClassVar[int] = 1
    steps: ClassVar[float] = 1.0

    def weighted(self, v: ComplexArray) -> tuple[ComplexArray, ComplexArray]:
        """log of Q (1 - b) dx/dv, and log r."""
        return weighted(self.pair, self.line, self.sharpness, self.edge, v)

    def change(self, z: Array) -> Array:
        """E_Q[(1 - b) r^{z+1}] - 1 for z > 0 or z < -1: by what B_{z+1}(r - 1) leaves to add, nothing of it large."""
        hold(float(len(z) * len(self.ratio)))
        with np.errstate(over="ignore", invalid="ignore"):
            curved = product(bernoulli(z[:, None], self.ratio), np.exp(self.log_density))
        return np.asarray(curved - self.big - (z + 1.0) * self.gained)

    def doubt(self, z: float) -> float:
        """Absolute error of `cgf` at one z, several times over."""
        change = float(self.change(np.array([z]))[0])
        return 3.0 * SLACK * (abs(change) + 2.0 * (self.big + abs(z + 1.0) * self.gained)) / (1.0 + change)

    def cgf(self, z: Array) -> Array:
        """K of the small part, a little below 0 at small z; its error is that of `change`."""
        return np.log1p(self.change(z))

    @property
    def log_kept(self) -> float:
        return math.log1p(-self.big)

    @property
    def log_less(self) -> float:
        return math.log1p(-self.gained / (1.0 - self.big))

    def moments(self) -> tuple[float, float]:
        weights = np.exp(self.log_density + self.ratio)
        return float(weights @ self.ratio), float(weights @ self.ratio**2)

    def tilted(self, t: float) -> StretchedQuadrature:
        return StretchedQuadrature(t, self)

    def ramp(self, level: float) -> Ramp:
        """The weight that turns from 1 to 0 where the loss passes `level`: within about a factor of 2 of it, and faster than the normal
        density rises to the left of there."""
        k, edge = self._turn(level)
        height = min(self.strip, TURN / (k * self.line.rise(edge)))
        return Ramp(lambda v: log_cutoff(k * (self.line.at(v)[0] - edge)), height, min(self.step, NODES * height))  # type: ignore[arg-type]

    def _turn(self, level: float) -> tuple[float, float]:
        half, edge = self.outcomes[np.minimum(np.searchsorted(self.ratio, (0.5 * level, level)), len(self.ratio) - 1)].tolist()
        return min(max(4.0 / max(edge - half, 1e-3), SHARPER * abs(edge), 3.0), self.sharpness), edge

    def log_beyond(self, z: Array, level: float) -> Array:
        """log of E_Q[(1 - b) (1 - w) r^{z+1}] / E_Q[(1 - b) r^{z+1}], about, for the w of `ramp`."""
        hold(float(len(z) * len(self.ratio)))
        k, edge = self._turn(level)
        with np.errstate(divide="ignore"):
            log_rest = np.log(-np.expm1(log_cutoff(k * (self.outcomes - edge)).real))
        kept = log_rest > LOG_LIGHT
        return log_sum((self.log_density + log_rest)[kept] + (z[:, None] + 1.0) * self.ratio[kept]) - self.cgf(z)

    def bulk_cgf(self, z: Array, level: float) -> Array:
        ramp = self.ramp(level)
        nodes: ComplexArray = nodes_of(self.low, self.high, ramp.step)  # type: ignore[assignment]
        density, ratio = self.weighted(nodes)
        log_weights = density.real + ramp.log_weight(nodes).real + math.log(ramp.step)
        kept = log_weights > LOG_LIGHT
        hold(float(len(z) * kept.sum()))
        return log_sum(log_weights[kept] + (z[:, None] + 1.0) * ratio.real[kept])

    def log_short(self, power: Array) -> tuple[Array, Array]:
        """(log B, log of (B - C) / B) from above: B = E_Q[r^-power; D], D all there is or all but the left tail, and C that of the small
        part."""
        log_whole, log_big = self.log_short_moments(power)
        return log_whole + 1e-9 * np.abs(log_whole) + 1e-15, log_big - log_whole

    def log_short_moments(self, power: Array) -> tuple[Array, Array]:
        """log E_Q[r^-power; D] and log E_Q[b r^-power; D]."""
        big_density = self.far_density if self.left is None else self.left.big_density
        hold(float(len(power) * len(self.far_ratio)))
        log_big = log_sum(big_density - power[:, None] * self.far_ratio)
        if self.left is None:
            return np.log1p(self.change(-power - 1.0) + np.exp(log_big)), log_big
        return self.left.log_moment(power), log_big

    @property
    def lost(self) -> float:
        return 0.0

    def missed(self) -> float:
        return 0.0 if self.left is None else self.left.missed

    def missed_big(self) -> float:
        """E_Q[b; not D]: b is at most e^{k (x - c)}, and what D leaves out at x at most e^{-k (x + c)}."""
        return 0.0 if self.left is None else math.exp(-2.0 * self.sharpness * self.edge)


@dataclass(frozen=True, slots=True, eq=False)
class LeftTail:
    """A lower tail as long as the upper one, taken off by the mirror image of the same weight, d(x) = 1 - b(-x).

    log_density, ratio: log of Q d times the node distance, and log r, at nodes of its own. big_density: log of Q b d where b is not
    nothing. missed: Q(1 - d).
    """

    log_density: Array
    ratio: Array
    big_density: Array
    missed: float

    def log_moment(self, power: Array) -> Array:
        """log E_Q[d r^-power] from above: E_Q[d (r - 1)] = P(b) - Q(b) >= 0, so only B_-power is left to add to 1."""
        hold(float(len(power) * len(self.ratio)))
        with np.errstate(over="ignore", invalid="ignore"):
            return np.log1p(bernoulli(-power[:, None] - 1.0, self.ratio) @ np.exp(self.log_density))


class StretchedQuadrature(TiltedQuadrature):
    """The small part under a tilt; its bulk ends where an outcome's loss passes a level, and not a node's."""

    def __init__(self, t: float, part: CutLoss) -> None:
        super().__init__(t, part.weighted, (part.low, part.high), part.strip, part.step, True)
        self._part = part
        for order in (t, FARTHEST * t):  # up to which its CGF bounds aliases, too
            if not self._growth(order - t) <= GROWN:
                raise NotRepresentable("the nodes are too far apart for so large a tilt")

    def _growth(self, rise: float) -> float:
        """Return the logarithm of the factor by which the CGF's integrand is larger at the end of the strip: the nodes' error follows."""
        ends = [self.line(self.step, np.array([height])) for height in (0.0, self._strip)]
        logs = [float(np.logaddexp.reduce(density[0].real + rise * ratio[0].real)) for density, ratio in ends]
        return logs[1] - logs[0]

    def split(self, level: float) -> SplitLoss:
        return SplitLoss(self, self._part.ramp(level))


def weighted(pair: Line, line: Stretched, sharpness: float, edge: float, v: ComplexArray) -> tuple[ComplexArray, ComplexArray]:
    """log of Q (1 - b) dx/dv, and log r."""
    x, log_rise = line.at(v)
    base, ratio = pair(x)
    return base + log_rise + log_cutoff(sharpness * (x - edge)), ratio


def edge_at(low: float, high: float, most: float, log_mean: Callable[[float], float], log_mass: float) -> tuple[float, float]:
    """(k, c) such that nothing is big below `low` and everything beyond `high`; where no more than e^log_mass is left before that, it
    may be as blunt as serves.

    Args:
        most: an outcome beyond which P has no more than e^log_mass.
        log_mean: log E_P[e^{k x}] at k, so that P has no more than that big, either, at c = (log_mean - log_mass) / k.
    """
    blunt = (log_mean(BLUNT) - log_mass) / BLUNT
    if blunt + EDGE / BLUNT <= high + FARTHER * (high - low):
        return BLUNT, blunt
    low, high = min(low, most - 1.0), min(high, most)
    k = max(17.4 / (high - low), SHARPER * abs(high), 3.0)  # from e^-14 to e^3.4, and faster than the normal density falls
    return k, high - 3.4 / k


def cut(
    pair: Line, slope: float, k: float, edge: float, bend: float, left: float = -TAIL, strip: float = STRIP, mirrored: bool = False
) -> CutLoss | None:
    """The loss, of which what lies beyond `edge` is big; None where that takes too many nodes.

    Args:
        pair: log Q (a normal density, or a mixture of them at or below 0) and log r, analytic for |Im x| slope <= pi / 2.
        slope: largest exponent in r's e^{s x}.
        k, edge: sharpness and place of the weight. Blunter than about the place, big outcomes lie well below it, too.
        bend: the outcome from which on the nodes should crowd.
        left: the outcome below which nothing of Q is left.
        strip: height of the line's strip at most.
        mirrored: whether log r is odd and Q(x) = P(-x): its lower tail is then as long as its upper one.
    """
    top = edge + EDGE / k
    line = Stretched(slope, bend if slope * (top - bend) < math.log(WIDE) else top)
    strip = min(strip, STRIP, STANDARD * slope, TURN / (k * line.rise(edge)))
    step = min(NORMAL * slope, NODES * strip)
    ends = line.back(min(left, line.bend - 1.0)), line.back(top)
    if (ends[1] - ends[0]) / step > MOST_NODES:
        return None
    nodes: ComplexArray = nodes_of(*ends, step)  # type: ignore[assignment]
    density, ratio = weighted(pair, line, k, edge, nodes)
    far_low = -top if mirrored else edge - LOST / (k - max(edge, 0.0)) if k > edge + 1.0 else -TAIL
    far_x, far_density, far_ratio = _far(pair, k, edge, far_low, max(edge, 0.0) + slope + TAIL)
    weights = np.exp(far_density)
    big, gained = float(weights.sum()), float(weights @ np.expm1(far_ratio))
    tail = _left_tail(pair, k, edge, far_density + log_cutoff(-k * (far_x + edge)).real, big + gained) if mirrored else None
    outcomes, log_density = line.at(nodes)[0].real, density.real + math.log(step)
    return CutLoss(
        pair, line, *ends, step, strip, k, edge, outcomes, log_density, ratio.real, big, gained, far_density, far_ratio, tail
    )


def _far(pair: Line, k: float, edge: float, low: float, high: float) -> tuple[Array, Array, Array]:
    """The nodes, log of Q b times their distance, and log r, where b is not nothing."""
    step = FALL / k
    hold((high - low) / step)
    x: ComplexArray = nodes_of(low, high, step)  # type: ignore[assignment]
    base, ratio = pair(x)
    log_small = log_cutoff(k * (x - edge)).real
    with np.errstate(divide="ignore"):
        return x.real, base.real + np.log(-np.expm1(log_small)) + math.log(step), ratio.real


def _left_tail(pair: Line, k: float, edge: float, big_density: Array, missed: float) -> LeftTail:
    step, far = FALL / k, edge + EDGE / k
    hold(2.0 * far / step)
    x: ComplexArray = nodes_of(-far, far + TAIL, step)  # type: ignore[assignment]
    base, ratio = pair(x)
    return LeftTail(base.real + log_cutoff(-k * (x + edge)).real + math.log(step), ratio.real, big_density, missed)


@dataclass(frozen=True, slots=True)
class UncutLoss:
    """The loss whole, as a `CutLoss`."""

    loss: Loss
    big: ClassVar[float] = 0.0
    several: ClassVar[int] = 0
    steps: ClassVar[float] = 1.0
    lost: ClassVar[float] = 0.0
    log_kept: ClassVar[float] = 0.0
    log_less: ClassVar[float] = 0.0

    def cgf(self, z: Array) -> Array:
        return self.loss.cgf(z)

    def doubt(self, z: float) -> float:
        """Return an upper bound on `cgf` - K."""
        return 3.0 * SLACK * float(self.loss.cgf(np.array([z]))[0])

    def moments(self) -> tuple[float, float]:
        one, two = self.loss.cgf(np.array([NEAR, 2.0 * NEAR])).tolist()
        variance = max(two - 2.0 * one, 0.0) / NEAR**2
        mean = one / NEAR - 0.5 * variance * NEAR
        return mean, variance + mean * mean

    def tilted(self, t: float) -> Tilted:
        return self.loss.tilted(t)

    def log_beyond(self, z: Array, level: float) -> Array:
        return np.full(len(z), -np.inf)

    def bulk_cgf(self, z: Array, level: float) -> Array:
        return self.loss.cgf(z)

    def log_short(self, power: Array) -> tuple[Array, Array]:
        """(log B, log of (B - C) / B = -inf)."""
        log_whole = getattr(self.loss, "backwards", self.loss.cgf)(power)
        return log_whole + SLACK * np.abs(log_whole), np.full(len(power), -np.inf)

    def missed(self) -> float:
        return 0.0

    def missed_big(self) -> float:
        return 0.0


@dataclass(frozen=True, slots=True, eq=False)
class CappedLoss:
    """log r(X) under Q r w.

    pair: log Q (standard normal, or a mixture of unit normals at or below 0) and log r, which increases.
    slope: largest exponent in the mixtures' e^{s x}. sharpness, edge: k and c.
    """

    pair: Line
    slope: float
    sharpness: float
    edge: float

    def _weighted(self, x: ComplexArray) -> tuple[ComplexArray, ComplexArray]:
        base, ratio = self.pair(x)
        return base + log_cutoff(self.sharpness * (x - self.edge)), ratio

    def _placed(self, z: float) -> tuple[tuple[float, float], float]:
        window = (-TAIL - self.slope, min((2.0 * z + 2.0) * self.slope + TAIL, self.edge + EDGE / self.sharpness))
        return window, float(min(step_size(z, self.slope), 0.14 / self.sharpness))

    def cgf(self, z: Array) -> Array:
        """K of the capped loss from above, by at most SLACK relative and (z+1) times the mass that is capped; inf beyond MAX_NODES."""
        return np.array([self._cgf(float(one)) for one in z])

    def _cgf(self, z: float) -> float:
        (low, high), step = self._placed(z)
        if not high - low <= MAX_NODES * step:
            return math.inf
        base, ratio = self._weighted(nodes_of(low, high, step))  # type: ignore[arg-type]
        return float(moment_on(np.array([z]), base.real, ratio.real, step)[0])

    def tilted(self, t: float) -> TiltedQuadrature:
        window, step = self._placed(t)
        strip = min(0.5 * math.pi / self.slope, 0.45 * math.pi / self.sharpness)
        return TiltedQuadrature(t, self._weighted, window, strip, step, sharp=True)


def cap(pair: Line, slope: float, log_mean: Callable[[float], float], log_mass: float) -> CappedLoss:
    """The cap that costs at most e^log_mass under P. log_mean: log E_P[e^{k x}] at k.

    k: sharper brings c nearer, down to sqrt(-2 log mass) for a normal density; blunter leaves a wider strip.
    """
    k = 0.85 * math.sqrt(-2.0 * log_mass)
    return CappedLoss(pair, slope, k, (log_mean(k) - log_mass) / k)
