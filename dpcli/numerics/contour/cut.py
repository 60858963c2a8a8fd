"""Losses divided by size with a smooth weight, into a small part without a far tail and a big part; and losses without their far tail.

A loss is L = log r(X) with r = dP/dQ, for a pair (P, Q) of distributions of an outcome X on the real line, such as a sampled Gaussian. At a
low sampling rate its upper tail is so long that E_P[e^{t L}] explodes at a tilt t far below the one that suits delta, although the tail is
very improbable. The CGF K(z) = log E_P[e^{z L}] and contour integrals (integral.py) are then of little use, and the tail is treated apart.
`CutLoss` and `UncutLoss` are for jump.py, `CappedLoss` is for the contours of certified.py and counts.py. The *level* is the loss at which
a loss is divided.

`CutLoss` divides each outcome x: the share b(x) = 1 - exp(-e^{k (x - c)}) of it is big, and the remainder is small. b is nearly 0 below c
and nearly 1 beyond. The CGF of the small part is finite everywhere. Its transform needs few nodes: where the loss grows exponentially,
stretched.py spaces them evenly in the loss. Of the big part only integrals over the real line are needed.

`UncutLoss` is for losses without a far tail. Here b = 0, for which the decomposition of jump.py holds too. Its moments B of a loss and C of
the small part are then both E_Q[r^-power]. A loss has one of two attributes for this:

* A method `backwards` that returns log E_Q[r^-power].
* A true `mirrored`. The loss of the other direction then has the same law, so E_Q[r^-power] = E_Q[e^{power log dQ/dP}] = e^{K(power)}.

`CappedLoss` is a loss without its far upper tail, where that is negligible. The part of P with the weight w(x) = exp(-e^{k (x - c)}) has a
finite CGF at every tilt. It lacks at most the mass E_P[e^{k (x - c)}], which is added to delta and chosen to be a small share of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, ComplexArray, np
from dpcli.numerics.contour.stretched import EDGE, Stretched, log_cutoff
from dpcli.numerics.contour.tilted import Ramp, SplitLoss, TiltedQuadrature, log_inverse_moment
from dpcli.numerics.logspace import log_sum
from dpcli.numerics.products import product
from dpcli.numerics.quadrature import MAX_NODES, SLACK, TAIL, bernoulli, moment_on, nodes_of, step_size
from dpcli.numerics.work import hold

if TYPE_CHECKING:
    from dpcli.numerics.contour.tilted import Line, Loss, Tilted


# Soundness: these keep the nodes so close together that the error of the sums over them is below SLACK (quadrature.py). The strip is a
# neighbourhood |Im v| < height of the line of nodes v, in which the integrands are analytic.
STRIP = 0.45 * math.pi  # largest height of the strip of the stretched line, which keeps away from the zeros of 1 + e^v
STRIP_DEVIATIONS = 6.0  # largest height of the strip in standard deviations; the normal weight has grown by e^18 there
STRIP_SHARPNESS = 0.3 * math.pi  # largest height in units of 1 / k; the weight falls faster than any exponential below pi / 2
STEP_OVER_STRIP = 0.149  # node distance over the height of the strip; e^{-2 pi / STEP_OVER_STRIP} is below e^-42
MAX_STEP = 0.3  # largest node distance in standard deviations
FAR_STEP = 0.14  # node distance for the big part, and for a capped loss, in units of 1 / k
CAP_STRIP = 0.45 * math.pi  # height of the strip of a capped loss, in units of 1 / k
MAX_LOG_GROWTH = 14.0  # largest log growth of an integrand up to the end of the strip; the nodes' error is negligible up to it
FARTHEST = 4.0  # the CGF bounds aliases (integral.py) at orders up to this multiple of the tilt
LEAST_SHARPNESS = 1.6  # least ratio of k to the edge c, so that the weight falls faster than the normal density
FAR_DEPTH = 45.0  # b is negligible at (k - c) (c - x) beyond this; to the left the normal density rises by at most e^{c (c - x)}
GENEROUS = 3.0  # safety factor of the bounds on the errors of a CGF
# The log of an inverse moment is raised by these, relative and absolute. The former far exceeds SLACK.
MOMENT_RAISE, LEAST_MOMENT_RAISE = 1e-9, 1e-15
# Accuracy: jump.py's bounds hold for any level and any weight.
SMALL, BIG = 1.35, 2.1  # losses below SMALL times the level are small, and nearly all losses beyond BIG times the level are big
RAMP_FALL = 4.0  # k of a ramp is this over the distance between the outcomes at half of its level and at its level
LEAST_FALL = 1e-3  # a smaller distance is replaced by this
CAP_SHARPNESS = 0.85  # k of a capped loss, in units of the k at which c is least for a normal density; there c is 1.3 % larger
BLUNT_EXCESS = 0.8  # a blunt weight may end beyond `high` by this share of the distance from `low` to `high`
BLUNT_SHARPNESS = 6.0  # k of a weight that cuts off only a negligible mass
STEEP = 17.4  # k times the length over which outcomes become big, where e^{k (x - c)} grows from e^-14 to e^3.4
LAST = 3.4  # k (x - c) at the upper end of that length
LEAST_K = 3.0  # least k of a weight
TILT = 150.0  # largest order that matters, times the level (noise/normal_mixture.py)
SMALL_ORDER = 0.05  # order at which differences of the CGF give the moments, which are estimates
LOG_LIGHT = -500.0  # weights with a smaller logarithm are left out in the search for a tilt
# Speed, memory and accuracy: with too many nodes, a loss is not divided; `hold` (numerics/work.py) refuses large tables.
BEND = 1.0 / 30.0  # the nodes of the small part get denser where the loss exceeds this share of the level
LARGE_GROWTH = 600.0  # e^{slope (edge - bend)} beyond which the nodes are not made denser
MOST_NODES = 20_000  # most nodes of the small part


@dataclass(frozen=True, slots=True, eq=False)
class CutLoss:
    """The loss log r(X) under the small part of P = Q r, with the integrals of the big part that jump.py needs.

    pair: returns log Q and log r; log r increases.
    line: the map from v to outcomes. low, high, step, strip: ends, distance and strip of the nodes, in v.
    sharpness, edge: k and c of the weight.
    outcomes, log_density, ratio: x, log of Q (1 - b) dx/dv times the node distance, and log r, at the nodes.
    big_mass, mass_difference: E_Q[b] and E_P[b] - E_Q[b], each with a relative error of at most SLACK.
    far_density, far_ratio: log of Q b times the node distance, and log r, at the nodes for the big part.
    left: the loss without its lower tail, if that is as long as the upper one.
    cut_losses, steps: number of different cut losses, and of steps, that one copy stands for.
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
    big_mass: float
    mass_difference: float
    far_density: Array
    far_ratio: Array
    left: LeftTail | None
    cut_losses: ClassVar[int] = 1
    steps: ClassVar[float] = 1.0

    def weighted(self, v: ComplexArray) -> tuple[ComplexArray, ComplexArray]:
        """Return log of Q (1 - b) dx/dv, and log r."""
        return weighted(self.pair, self.line, self.sharpness, self.edge, v)

    def change(self, z: Array) -> Array:
        """Return E_Q[(1 - b) r^{z+1}] - 1 for z > 0 or z < -1.

        It is the integral of Bernoulli's remainder B_{z+1}(r - 1) (quadrature.py), plus small terms in `big_mass` and `mass_difference`.
        """
        hold(float(len(z) * len(self.ratio)))
        with np.errstate(over="ignore", invalid="ignore"):
            curved = product(bernoulli(z[:, None], self.ratio), np.exp(self.log_density))
        return np.asarray(curved - self.big_mass - (z + 1.0) * self.mass_difference)

    def error_bound(self, z: float) -> float:
        """Return a bound on the absolute error of `cgf` at one z, which is generous by a factor of several."""
        change = float(self.change(np.array([z]))[0])
        return GENEROUS * SLACK * (abs(change) + 2.0 * (self.big_mass + abs(z + 1.0) * self.mass_difference)) / (1.0 + change)

    def cgf(self, z: Array) -> Array:
        """Return K of the small part. It is slightly below 0 at small z, because mass is missing. `error_bound` bounds its error."""
        return np.log1p(self.change(z))

    @property
    def log_small_mass(self) -> float:
        """The logarithm of the small part's mass under Q."""
        return math.log1p(-self.big_mass)

    @property
    def log_mass_ratio(self) -> float:
        """The logarithm of the small part's mass under P over its mass under Q."""
        return math.log1p(-self.mass_difference / (1.0 - self.big_mass))

    def moments(self) -> tuple[float, float]:
        """Return the integrals of the loss and of its square over the small part of P."""
        weights = np.exp(self.log_density + self.ratio)
        return float(weights @ self.ratio), float(weights @ self.ratio**2)

    def tilted(self, t: float) -> StretchedQuadrature:
        return StretchedQuadrature(t, self)

    def ramp(self, level: float) -> Ramp:
        """Return a weight that falls from 1 to 0 where the loss passes `level`, within about a factor of 2.

        To the left of there, 1 - w falls faster than the normal density rises.
        """
        k, edge = self._ramp_shape(level)
        height = min(self.strip, STRIP_SHARPNESS / (k * self.line.rise(edge)))

        def log_weight(v: Array | ComplexArray) -> ComplexArray:
            """Return log w at nodes v."""
            x, _ = self.line.at(v)  # type: ignore[arg-type]
            return log_cutoff(k * (x - edge))

        return Ramp(log_weight, height, min(self.step, STEP_OVER_STRIP * height))

    def _ramp_shape(self, level: float) -> tuple[float, float]:
        """Return sharpness and edge of the weight of `ramp`. The ramp is no steeper than the weight 1 - b."""
        half, edge = self.outcomes[np.minimum(np.searchsorted(self.ratio, (0.5 * level, level)), len(self.ratio) - 1)].tolist()
        return min(max(RAMP_FALL / max(edge - half, LEAST_FALL), LEAST_SHARPNESS * abs(edge), LEAST_K), self.sharpness), edge

    def log_beyond(self, z: Array, level: float) -> Array:
        """Return about log of E_Q[(1 - b) (1 - w) r^{z+1}] / E_Q[(1 - b) r^{z+1}], for the w of `ramp`."""
        hold(float(len(z) * len(self.ratio)))
        k, edge = self._ramp_shape(level)
        with np.errstate(divide="ignore"):
            log_rest = np.log(-np.expm1(log_cutoff(k * (self.outcomes - edge)).real))
        kept = log_rest > LOG_LIGHT
        return log_sum((self.log_density + log_rest)[kept] + (z[:, None] + 1.0) * self.ratio[kept]) - self.cgf(z)

    def bulk_cgf(self, z: Array, level: float) -> Array:
        """Return about log E_Q[(1 - b) w r^{z+1}], for the w of `ramp`."""
        ramp = self.ramp(level)
        nodes: ComplexArray = nodes_of(self.low, self.high, ramp.step)  # type: ignore[assignment]
        density, ratio = self.weighted(nodes)
        log_weights = density.real + ramp.log_weight(nodes).real + math.log(ramp.step)
        kept = log_weights > LOG_LIGHT
        hold(float(len(z) * kept.sum()))
        return log_sum(log_weights[kept] + (z[:, None] + 1.0) * ratio.real[kept])

    def log_inverse_moments(self, power: Array) -> tuple[Array, Array]:
        """Return upper bounds on log B and on log of (B - C) / B.

        B is the mean of r^-power under Q without the left tail, if there is one. C is the same integral over the small part.
        """
        log_moment, log_big = self.log_inverse_moment_parts(power)
        return log_moment + MOMENT_RAISE * np.abs(log_moment) + LEAST_MOMENT_RAISE, log_big - log_moment

    def log_inverse_moment_parts(self, power: Array) -> tuple[Array, Array]:
        """Return log E_Q[r^-power] and log E_Q[b r^-power], both without the left tail, if there is one."""
        big_density = self.far_density if self.left is None else self.left.big_density
        hold(float(len(power) * len(self.far_ratio)))
        log_big = log_sum(big_density - power[:, None] * self.far_ratio)
        if self.left is None:
            return np.log1p(self.change(-power - 1.0) + np.exp(log_big)), log_big
        return self.left.log_moment(power), log_big

    @property
    def left_out_mass(self) -> float:
        """A bound on the probability under P of big outcomes that are left out of the event A of jump.py."""
        return 0.0

    def left_tail_mass(self) -> float:
        """Return the mass of the left tail under Q."""
        return 0.0 if self.left is None else self.left.left_tail_mass

    def big_left_tail_mass(self) -> float:
        """Return a bound on E_Q[b (1 - d)], where 1 - d is the weight of the left tail: b <= e^{k (x - c)} and 1 - d <= e^{-k (x + c)}."""
        return 0.0 if self.left is None else math.exp(-2.0 * self.sharpness * self.edge)


@dataclass(frozen=True, slots=True, eq=False)
class LeftTail:
    """A loss without its lower tail, for losses whose lower tail is as long as the upper one.

    The tail is taken off by d(x) = 1 - b(-x), the mirror image of the weight for the upper tail.
    log_density, ratio: log of Q d times the node distance, and log r, at nodes of its own.
    big_density: log of Q b d at the nodes of the big part. left_tail_mass: E_Q[1 - d].
    """

    log_density: Array
    ratio: Array
    big_density: Array
    left_tail_mass: float

    def log_moment(self, power: Array) -> Array:
        """Return an upper bound on log E_Q[d r^-power].

        E_Q[d (r - 1)] = E_P[b] - E_Q[b] is at least 0, so E_Q[d r^-power] is at most 1 plus the integral of Bernoulli's remainder B_-power.
        """
        hold(float(len(power) * len(self.ratio)))
        with np.errstate(over="ignore", invalid="ignore"):
            return np.log1p(bernoulli(-power[:, None] - 1.0, self.ratio) @ np.exp(self.log_density))


class StretchedQuadrature(TiltedQuadrature):
    """The small part of a `CutLoss` under a tilt, on that part's line of nodes v.

    Raises NotRepresentable if the nodes are too far apart for the tilt.
    """

    def __init__(self, t: float, part: CutLoss) -> None:
        super().__init__(t, part.weighted, (part.low, part.high), part.strip, part.step, exact_cgf=True)
        self._part = part
        for order in (t, FARTHEST * t):  # the CGF is also used at orders up to FARTHEST * t, to bound aliases
            if not self._growth(order - t) <= MAX_LOG_GROWTH:
                raise NotRepresentable("the nodes are too far apart for so large a tilt")

    def _growth(self, rise: float) -> float:
        """Return by how much the log integral of the CGF's integrand grows up to the end of the strip. The nodes' error follows from it."""
        ends = [self.line(self.step, np.array([height])) for height in (0.0, self._strip)]
        logs = [float(np.logaddexp.reduce(density[0].real + rise * ratio[0].real)) for density, ratio in ends]
        return logs[1] - logs[0]

    def split(self, level: float) -> SplitLoss:
        """Return the small part divided at `level` by a weight in terms of the outcome, which is not the variable of the nodes."""
        return SplitLoss(self, self._part.ramp(level))


def weighted(pair: Line, line: Stretched, sharpness: float, edge: float, v: ComplexArray) -> tuple[ComplexArray, ComplexArray]:
    """Return log of Q (1 - b) dx/dv, and log r, at nodes v."""
    x, log_rise = line.at(v)
    base, ratio = pair(x)
    return base + log_rise + log_cutoff(sharpness * (x - edge)), ratio


def edge_at(low: float, high: float, most: float, log_mean: Callable[[float], float], log_mass: float) -> tuple[float, float]:
    """Return sharpness and edge (k, c) of a weight for which outcomes below `low` are small and outcomes beyond `high` are big.

    The weight is blunter if the mass that is then big is at most e^log_mass.

    Args:
        most: an outcome beyond which the mass of P is at most e^log_mass.
        log_mean: returns log E_P[e^{k x}] at k. At c = (log_mean - log_mass) / k, the big mass of P is at most e^log_mass.

    Raises:
        NotRepresentable: `low` and `high` are the same float, because they are so large.
    """
    blunt_edge = (log_mean(BLUNT_SHARPNESS) - log_mass) / BLUNT_SHARPNESS
    if blunt_edge + EDGE / BLUNT_SHARPNESS <= high + BLUNT_EXCESS * (high - low):
        return BLUNT_SHARPNESS, blunt_edge
    low, high = min(low, most - 1.0), min(high, most)  # beyond `most`, only a negligible mass would be cut off
    if not low < high:
        raise NotRepresentable("the outcomes are too large for floats to distinguish small losses from big ones")
    k = max(STEEP / (high - low), LEAST_SHARPNESS * abs(high), LEAST_K)
    return k, high - LAST / k


def cut(
    pair: Line, slope: float, k: float, edge: float, bend: float, left: float = -TAIL, strip: float = STRIP, mirrored: bool = False
) -> CutLoss | None:
    """Return the loss with outcomes beyond `edge` big, or None if it would need too many nodes.

    Args:
        pair: returns log Q and log r, analytic for |Im x| slope <= pi / 2. Q is a normal density, or a mixture of such densities with
            means at or below 0.
        slope: largest s of the terms e^{s x} in r.
        k, edge: sharpness and edge of the weight. If k is below about `edge`, outcomes well below `edge` are big too.
        bend: the outcome from which on the nodes should get denser.
        left: an outcome below which the mass of Q is negligible.
        strip: largest height of the line's strip.
        mirrored: whether log r is odd and Q(x) = P(-x), so that the lower tail is as long as the upper one.
    """
    top = edge + EDGE / k  # the weight 1 - b is negligible beyond
    line = Stretched(slope, bend if slope * (top - bend) < math.log(LARGE_GROWTH) else top)
    strip = min(strip, STRIP, STRIP_DEVIATIONS * slope, STRIP_SHARPNESS / (k * line.rise(edge)))
    step = min(MAX_STEP * slope, STEP_OVER_STRIP * strip)
    ends = line.back(min(left, line.bend - 1.0)), line.back(top)
    if (ends[1] - ends[0]) / step > MOST_NODES:
        return None
    nodes: ComplexArray = nodes_of(*ends, step)  # type: ignore[assignment]
    density, ratio = weighted(pair, line, k, edge, nodes)
    if mirrored:
        far_low = -top  # the lower tail is cut off at the mirror image of `top`
    else:
        far_low = edge - FAR_DEPTH / (k - max(edge, 0.0)) if k > edge + 1.0 else -TAIL
    far_x, far_density, far_ratio = _far(pair, k, edge, far_low, max(edge, 0.0) + slope + TAIL)
    weights = np.exp(far_density)
    big_mass, mass_difference = float(weights.sum()), float(weights @ np.expm1(far_ratio))
    left_tail = None
    if mirrored:
        left_tail = _left_tail(pair, k, edge, far_density + log_cutoff(-k * (far_x + edge)).real, big_mass + mass_difference)
    return CutLoss(
        pair=pair,
        line=line,
        low=ends[0],
        high=ends[1],
        step=step,
        strip=strip,
        sharpness=k,
        edge=edge,
        outcomes=line.at(nodes)[0].real,
        log_density=density.real + math.log(step),
        ratio=ratio.real,
        big_mass=big_mass,
        mass_difference=mass_difference,
        far_density=far_density,
        far_ratio=far_ratio,
        left=left_tail,
    )


def _far(pair: Line, k: float, edge: float, low: float, high: float) -> tuple[Array, Array, Array]:
    """Return nodes from `low` to `high`, and at them log of Q b times the node distance, and log r."""
    step = FAR_STEP / k
    hold((high - low) / step)
    x: ComplexArray = nodes_of(low, high, step)  # type: ignore[assignment]
    base, ratio = pair(x)
    log_small = log_cutoff(k * (x - edge)).real
    with np.errstate(divide="ignore"):
        return x.real, base.real + np.log(-np.expm1(log_small)) + math.log(step), ratio.real


def _left_tail(pair: Line, k: float, edge: float, big_density: Array, left_tail_mass: float) -> LeftTail:
    """Return the loss without its lower tail, on nodes from the mirror image of `top` to TAIL beyond `top`."""
    step, top = FAR_STEP / k, edge + EDGE / k
    hold(2.0 * top / step)
    x: ComplexArray = nodes_of(-top, top + TAIL, step)  # type: ignore[assignment]
    base, ratio = pair(x)
    return LeftTail(base.real + log_cutoff(-k * (x + edge)).real + math.log(step), ratio.real, big_density, left_tail_mass)


@dataclass(frozen=True, slots=True)
class UncutLoss:
    """A loss without a far tail, with the attributes of `CutLoss` that jump.py and jump_levels.py use. Nothing of it is big."""

    loss: Loss
    big_mass: ClassVar[float] = 0.0
    cut_losses: ClassVar[int] = 0
    steps: ClassVar[float] = 1.0
    left_out_mass: ClassVar[float] = 0.0
    log_small_mass: ClassVar[float] = 0.0
    log_mass_ratio: ClassVar[float] = 0.0

    def cgf(self, z: Array) -> Array:
        return self.loss.cgf(z)

    def error_bound(self, z: float) -> float:
        """Return an upper bound on `cgf` - K."""
        return GENEROUS * SLACK * float(self.loss.cgf(np.array([z]))[0])

    def moments(self) -> tuple[float, float]:
        """Return about the mean of the loss and of its square, from its CGF."""
        one, two = self.loss.cgf(np.array([SMALL_ORDER, 2.0 * SMALL_ORDER])).tolist()
        variance = max(two - 2.0 * one, 0.0) / SMALL_ORDER**2
        mean = one / SMALL_ORDER - 0.5 * variance * SMALL_ORDER
        return mean, variance + mean * mean

    def tilted(self, t: float) -> Tilted:
        return self.loss.tilted(t)

    def log_beyond(self, z: Array, level: float) -> Array:
        """Return -inf: the whole loss counts as bulk at every level, so that nothing is beyond."""
        return np.full(len(z), -np.inf)

    def bulk_cgf(self, z: Array, level: float) -> Array:
        return self.loss.cgf(z)

    def log_inverse_moments(self, power: Array) -> tuple[Array, Array]:
        """Return an upper bound on log B, with B = E_Q[r^-power], and log of (B - C) / B, which is -inf because C = B."""
        log_whole = log_inverse_moment(self.loss, power)
        return log_whole + SLACK * np.abs(log_whole), np.full(len(power), -np.inf)

    def left_tail_mass(self) -> float:
        return 0.0

    def big_left_tail_mass(self) -> float:
        return 0.0


@dataclass(frozen=True, slots=True, eq=False)
class CappedLoss:
    """The loss log r(X) under Q r w, which lacks the far upper tail.

    pair: returns log Q and log r; log r increases. Q is standard normal, or a mixture of unit normals with means at or below 0.
    slope: largest slope of log r. sharpness, edge: k and c of the weight.
    """

    pair: Line
    slope: float
    sharpness: float
    edge: float

    def _weighted(self, x: ComplexArray) -> tuple[ComplexArray, ComplexArray]:
        """Return log(Q w) and log r at outcomes x."""
        base, ratio = self.pair(x)
        return base + log_cutoff(self.sharpness * (x - self.edge)), ratio

    def _window_and_step(self, z: float) -> tuple[tuple[float, float], float]:
        """Return the interval and the node distance for moments of order z + 1.

        The interval is generous: log(Q r^{z+1}) without the weight has its maximum at (z + 1) times the slope or below.
        """
        window = (-TAIL - self.slope, min((2.0 * z + 2.0) * self.slope + TAIL, self.edge + EDGE / self.sharpness))
        return window, float(min(step_size(z, self.slope), FAR_STEP / self.sharpness))

    def cgf(self, z: Array) -> Array:
        """Return upper bounds on K of the capped loss.

        They are too large by at most SLACK, relative, plus (z+1) times the missing mass. They are inf where more than MAX_NODES are needed.
        """
        return np.array([self._cgf(order) for order in z.tolist()])

    def _cgf(self, z: float) -> float:
        (low, high), step = self._window_and_step(z)
        if not high - low <= MAX_NODES * step:
            return math.inf
        base, ratio = self._weighted(nodes_of(low, high, step))  # type: ignore[arg-type]
        return float(moment_on(np.array([z]), base.real, ratio.real, step)[0])

    def tilted(self, t: float) -> TiltedQuadrature:
        window, step = self._window_and_step(t)
        strip = min(0.5 * math.pi / self.slope, CAP_STRIP / self.sharpness)
        return TiltedQuadrature(t, self._weighted, window, strip, step, exact_cgf=True)


def cap(pair: Line, slope: float, log_mean: Callable[[float], float], log_mass: float) -> CappedLoss:
    """Return the capped loss that lacks at most the mass e^log_mass of P.

    log_mean: returns log E_P[e^{k x}] at k.

    For a normal density, c is least at k = sqrt(-2 log mass), where both are equal. A smaller k leaves a wider strip.
    """
    k = CAP_SHARPNESS * math.sqrt(-2.0 * log_mass)
    return CappedLoss(pair, slope, k, (log_mean(k) - log_mass) / k)
