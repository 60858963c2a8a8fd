"""delta(epsilon) of a sum of privacy losses as a contour integral of its CGF K, with certified bounds on both sides.

Statement. For t > 0 in the domain of K, Fourier inversion of the hockey-stick function gives

    delta(eps) = 1/(2 pi) INT exp(K(z) - z eps) / (z (z+1)) dy,   z = t + i y.

The integral is computed by the trapezoidal rule with node distance h. There are five errors, each with a bound:

1. Aliases. By Poisson summation, the sum over all multiples of h is SUM_m e^{-2 pi m t/h} delta(eps - 2 pi m/h). The term m = 0 is
   delta(eps). The other terms, the aliases, are positive, so the sum is an upper bound.
   * The aliases with m > 0 add up to at most 1/(e^{2 pi t/h} - 1), because delta <= 1.
   * The alias at -m is at most exp(K(s) - s eps - 2 pi m (s-t)/h) s^s/(1+s)^{s+1} for any s > t, by Chernoff's bound on delta.
   * Both bounds hold for any positive measure of mass at most 1 in place of P.
2. Last node. Beyond y = Y the integrand is at most e^{K(t) - t eps} e^{decay(Y)} / y^2, where decay(Y) bounds the logarithm of the tilted
   characteristic function for every y >= Y.
3. Missing mass. If the measure lacks a part of P, a bound on its contribution is added to the upper bound. For the bulk (`SplitLoss`) it is
   Chernoff's bound on its hockey-stick divergence, and for the far tail (cut.py) the tail's probability. The lower bound needs no such
   term, because the measure is at most P.
4. Rounding, and the errors of the losses' own quadratures. Both are bounded relative to the sum of the moduli.
5. Nodes that are left out. The integrand there is bounded by the characteristic functions that are known, because the modulus of the others
   is at most 1. For many copies of a discrete loss, whole blocks of nodes are left out by a bound between two frequencies (`_sieved`).

Sources: saddle-point accountant: Alghamdi et al. 2022, arXiv:2208.09595; analytical Fourier accountant: Zhu, Dong, Wang 2022,
arXiv:2106.08567.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, ComplexArray, IndexArray, np
from dpcli.numerics.contour.tilted import Loss, Losses, Tilted
from dpcli.numerics.products import product
from dpcli.numerics.quadrature import SLACK
from dpcli.numerics.work import TABLE, hold, remembered, shared, spend

MAX_NODES = 1_200_000  # most nodes of all different losses together
ENOUGH_NODES = 60_000  # nodes that a contour may have however many different losses there are
SIEVED_MORE = 8  # factor for the nodes that may be laid out if the sieve may leave out most of them, which is often 90 to 99 %
NEGLIGIBLE = -28.0  # logarithm of the cut-off and aliased parts that are allowed, relative to delta
TILT_TOLERANCE = 0.3  # the search for a tilt ends where the best tilt would gain less than this in the logarithm of the integrand
FIRST_TILTS = (0.5, 2.0, 8.0, 32.0)  # tilts from which the search begins; most settings have their best tilt among them
TILT_RATIO = 1.3  # ratio between the three tilts of a parabola, after the first one
MAX_MOVE = 2.0  # largest factor between the vertex of a parabola and the tilts of the next one
MAX_PARABOLAS = 5
MAX_VARIATION = 1.3  # largest ratio of Chernoff's bounds at the three tilts; for a normal loss it is 1.035 at the best tilt
FAR_MOVES = 2  # number of moves limited by MAX_MOVE after which the best tilt is taken to be far from the first ones
VERY_MANY = 64  # number of different losses beyond which the tilt is chosen for a sample
BULK_LEVELS = (0.9, 0.6, 0.4, 0.25, 0.15, 0.09, 0.05, 0.02)  # shares of epsilon, below which a single loss counts as bulk
MANY = 6  # least number of different losses for which those of one family are put together
SHORT = 256  # with more multiples of the node distance, nodes with a negligible integrand are left out as soon as this is known
MANY_TERMS = 1000  # characteristic functions of at least so many terms are computed last, at the nodes that the others leave
SPARSE = 4  # least multiples of the node distance for each node if the characteristic function is computed at the nodes only
LONG, LIGHT = 2048, 1e-24  # of more than LONG nodes, those are left out whose modulus is below LIGHT times that of the first
# The sieve (`_sieved`).
SIEVED = 160  # fewest copies; with fewer, a node is left out only if the characteristic function of one copy nearly vanishes
WIDE_BLOCK = 0.25  # most by which the distance may change across a block of the first level, half of its usual size
FINER = 8  # number of blocks into which a block that is not left out is divided
LEAST_SIEVE = 1 << 16  # terms that a division may take in any case
SIEVE_SLACK = 1e-6  # far exceeds the relative rounding of the distance, which is about 1e-14
# Larger tilts, as multiples of t, at which Chernoff's bound limits the aliases. Near t it limits close aliases, and at 4 t distant ones.
ALIAS_TILTS = (1.02, 1.24, 1.51, 1.83, 2.23, 2.71, 3.29, 4.0)
NEWTON_STEPS = 60  # most steps of Newton's method; more than ten are needed only where delta is not smooth
CONVERGED = 1e-8  # length of the last step, times t; log delta then errs by about its square, which is below the rounding
SAMPLE = 8  # number of different losses that are used to choose the tilt if there are many

Parts = Sequence[tuple[Tilted, int]]


def stacked(losses: Losses) -> Losses:
    """Return the losses. If they are many, those of one family are replaced by one loss for all of their steps."""
    return losses if len(losses) < MANY else _stacks(tuple(losses))


@shared(8)
def _stacks(losses: tuple[tuple[Loss, int], ...]) -> Losses:
    from dpcli.numerics.contour.stacked import in_stacks

    return in_stacks(losses)


def total_cgf(losses: Losses, z: Array) -> Array:
    """Return upper bounds on K of the composition at real z > 0."""
    total = np.zeros_like(z)
    for loss, count in stacked(losses):
        total = total + count * loss.cgf(z)
    return total


@dataclass(frozen=True, slots=True, eq=False)
class Contour:
    """The integrand on the line Re z = t, without the factor that depends on epsilon.

    t, step: the line and the node distance h.
    cumulant: an upper bound on K(t), at most `cumulant_error` too large.
    mean: mean of the composed loss under the tilt.
    y: the frequencies, which are multiples of h from 0 on; those with a negligible integrand may be left out.
    modulus, angle: modulus and angle of exp(K(t+iy) - K(t) - i y mean) / (z (z+1)) at y.
    error: absolute error of the sum over the nodes, relative to e^{K - t eps}, from rounding, nodes that are left out, and the integral
        beyond the last node.
    far, log_far: tilts s > t, and log of s^s / (1+s)^{s+1} e^{K(s) - K(t)}.
    spare, log_spare: tilts and logarithms as `far` and `log_far`, of the bulk that the integrand leaves out; empty if there is none.
    log_lost: logarithm of the probability of the tails that were taken off the losses.
    deviation: sum of the standard deviations under the tilt, one for each different loss.
    """

    t: float
    step: float
    cumulant: float
    cumulant_error: float
    mean: float
    y: Array
    modulus: Array
    angle: Array
    error: float
    far: Array
    log_far: Array
    spare: Array
    log_spare: Array
    log_lost: float
    deviation: float = 0.0

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Return (lower, upper) bounds on log delta(epsilon).

        The lower bound is -inf where rounding or the aliases exceed delta. The upper one is inf if the sum plus its error is not positive.
        """
        total, base = self._total(self._angles(epsilon)), self.cumulant - self.t * epsilon
        ulps = 1e-15 * (self.cumulant + self.t * (abs(epsilon) + abs(self.mean)))
        upper = base + ulps + math.log(total + self.error) if total + self.error > 0.0 else math.inf
        if len(self.spare):
            upper = float(np.logaddexp(upper, self.cumulant + (self.log_spare - self.spare * epsilon).min()))
        upper = float(np.logaddexp(upper, self.log_lost))
        if not total - self.error > 0.0:
            return -math.inf, upper
        low = base - ulps - self.cumulant_error + math.log(total - self.error)
        gap = self._log_alias(epsilon) - low
        return (low + math.log1p(-math.exp(gap)) if gap < -1e-9 else -math.inf), upper

    def sums(self, epsilon: float) -> tuple[float, float]:
        """Return the trapezoidal sum relative to e^{K - t eps}, and its derivative with respect to epsilon."""
        angles = self._angles(epsilon)
        change = 2.0 * float(product(self.modulus * self.y, np.sin(angles)))
        return self._total(angles), change * self.step / (2.0 * math.pi)

    def _angles(self, epsilon: float) -> Array:
        """Return the angles of the integrand at the nodes."""
        spend(len(self.modulus))
        return self.angle + self.y * (self.mean - epsilon)

    def _total(self, angles: Array) -> float:
        """Return the trapezoidal sum relative to e^{K - t eps}. The node 0 counts once, and every other node stands for y and -y."""
        return (2.0 * float(product(self.modulus, np.cos(angles))) - float(self.modulus[0])) * self.step / (2.0 * math.pi)

    def _log_alias(self, epsilon: float) -> float:
        """Return an upper bound on the logarithm of the sum of the aliases."""
        turns = 2.0 * math.pi * self.t / self.step
        shift = 2.0 * math.pi * (self.far - self.t) / self.step
        left = self.cumulant - self.far * epsilon + self.log_far - shift - np.log1p(-np.exp(-shift))
        return float(np.logaddexp(-turns - math.log1p(-math.exp(-turns)), np.nanmin(np.append(left, math.inf))))


def tilt_for(losses: Losses, log_delta: float) -> float:
    """Return a tilt near the one at which Chernoff's bound on epsilon is least.

    Any t > 0 gives valid bounds. If there are very many different losses, the tilt is chosen for SAMPLE of them, unless it does not suit
    all.
    """
    return _tilt_for(tuple(losses), log_delta)


@remembered(16)
def _tilt_for(losses: tuple[tuple[Loss, int], ...], log_delta: float) -> float:
    if len(losses) == 1:
        return _chernoff_tilt(losses, 1.0, log_delta)[0]
    if len(losses) <= VERY_MANY:
        return _tilt_by_parabolas(losses, log_delta) or _chernoff_tilt(losses, 1.0, log_delta)[0]
    chosen = [losses[round(i)] for i in np.linspace(0, len(losses) - 1, SAMPLE).tolist()]
    scale = sum(n for _, n in losses) / sum(n for _, n in chosen)
    t, epsilon = _chernoff_tilt(chosen, scale, log_delta)
    at = np.array([t])
    off = float(total_cgf(losses, at)[0] - scale * total_cgf(chosen, at)[0])
    return t if abs(off) <= 0.1 * t * epsilon else _chernoff_tilt(losses, 1.0, log_delta)[0]


def _tilt_by_parabolas(losses: Losses, log_delta: float) -> float | None:
    """Return the tilt of `tilt_for` by parabolas through Chernoff's bounds at three tilts; None if they do not lead there.

    Every evaluation takes a call for each loss, so it pays to need few of them.
    """
    first = np.array(FIRST_TILTS)
    values = _chernoff_epsilons(losses, 1.0, log_delta, first)
    at = min(max(int(values.argmin()), 1), len(first) - 2)
    places, bounds = first[at - 1 : at + 2].tolist(), values[at - 1 : at + 2].tolist()
    far_moves = 0
    for attempt in range(MAX_PARABOLAS):
        best = min(range(3), key=bounds.__getitem__)
        vertex = _vertex(places, bounds)
        if vertex is None:
            return None
        # The first three tilts are too far apart for their parabola to tell how good the best of them is. A bound that varies much between
        # closer tilts is no parabola: beyond some tilt, outcomes that never happen dominate K.
        if attempt and not max(bounds) <= MAX_VARIATION * min(bounds):
            return None
        if attempt and places[best] * (bounds[best] - vertex[1]) < TILT_TOLERANCE:
            return float(places[best])
        middle = min(max(vertex[0], places[0] / MAX_MOVE), places[2] * MAX_MOVE)
        far_moves += middle != vertex[0]
        if far_moves == FAR_MOVES:
            return None
        places = [middle / TILT_RATIO, middle, middle * TILT_RATIO]
        bounds = _chernoff_epsilons(losses, 1.0, log_delta, np.array(places)).tolist()
    return None


def _vertex(places: Sequence[float], values: Sequence[float]) -> tuple[float, float] | None:
    """Return where the parabola through three points, in the logarithm of the place, is least, and its value; None if it has no minimum.

    The places have equal ratios.
    """
    slope, curvature = 0.5 * (values[2] - values[0]), values[2] - 2.0 * values[1] + values[0]
    if not 0.0 < curvature < math.inf:
        return None
    share = -slope / curvature
    return places[1] * (places[2] / places[1]) ** min(max(share, -50.0), 50.0), values[1] + 0.5 * slope * share


def _chernoff_epsilons(losses: Losses, scale: float, log_delta: float, z: Array) -> Array:
    """Return Chernoff's bounds on epsilon at the tilts z, or inf where a CGF is not finite. scale: factor of the losses' CGF."""
    values = (scale * total_cgf(losses, z) - log_delta + log_hockey(z)) / z
    return np.asarray(np.where(np.isnan(values), math.inf, values))


def _chernoff_tilt(losses: Losses, scale: float, log_delta: float) -> tuple[float, float]:
    """Return a tilt t and Chernoff's bound on epsilon there, which is nearly the least.

    scale: factor of the losses' CGF. A tilt that is not the best costs the integrand a factor of e^{t (excess of epsilon)}.
    """
    epsilon_at: dict[float, float] = {}

    def evaluate(points: Sequence[float]) -> float:
        z = np.array([x for x in points if x not in epsilon_at and 1e-12 <= x <= 1e12])
        if len(z):
            epsilon_at.update(zip(z.tolist(), _chernoff_epsilons(losses, scale, log_delta, z).tolist(), strict=True))
        return min(epsilon_at, key=lambda x: (epsilon_at[x], x))

    best = evaluate(FIRST_TILTS)
    for _ in range(60):
        ordered = sorted(epsilon_at)
        at = ordered.index(best)
        if at in (0, len(ordered) - 1) and 1e-10 < best < 1e10:
            best = evaluate([best / 4.0, best / 16.0] if at == 0 else [best * 4.0, best * 16.0])
            continue
        low, high = ordered[max(at - 1, 0)], ordered[min(at + 1, len(ordered) - 1)]
        if high <= 4.0 * low and best * (min(epsilon_at[low], epsilon_at[high]) - epsilon_at[best]) < TILT_TOLERANCE:
            break
        best = evaluate([math.sqrt(low * best), math.sqrt(best * high)])
    return best, epsilon_at[best]


def any_decays(losses: Losses) -> bool:
    """Return whether the characteristic function of some loss may decay. If none does, all losses are discrete, and there is no contour."""
    return any(getattr(loss, "decays", True) for loss, _ in losses)


def build(
    losses: Losses,
    log_delta: float,
    t: float,
    factor: Method | None = None,
    log_lost: float = -math.inf,
    epsilon: float | None = None,
    negligible: float = NEGLIGIBLE,
) -> Contour | None:
    """Return the contour on Re z = t.

    It is None if the integrand does not decay soon enough, if K(t) is infinite or contradicted by the losses' own values, or if t is so
    large or so small that the integrand at y = 0 is not a positive double.

    Args:
        log_delta: about log delta(eps) where the contour is used, < 0.
        factor: `whole_factor` (also for None) or `factor_without_bulk`.
        log_lost: logarithm of an upper bound on the probability that the losses lack. The probability is added to every upper bound.
        epsilon: the epsilon at which delta is wanted. If None, the contour is for the epsilon whose saddle point is t.
        negligible: logarithm of the cut-off and aliased parts that are allowed, relative to e^log_delta. The bounds include these parts.
    """
    if not any_decays(losses):
        return None
    far, cumulants = total_cgf_about(losses, t)
    if not math.isfinite(cumulants[0]):
        return None
    counts = float(sum(n * getattr(loss, "steps", 1.0) for loss, n in losses))
    tilted = [(_tilted(loss, t), count) for loss, count in (losses if factor is factor_without_bulk else stacked(losses))]
    cumulant, error_bound = _cumulant(tilted, t, float(cumulants[0]), counts)
    if not math.isfinite(error_bound) or t * t == 0.0:
        return None
    if epsilon is None:
        epsilon = float(saddle(np.array([cumulant]), log_delta, np.array([t]))[0])
    log_wanted, log_far = log_delta - cumulant + t * epsilon, cumulants[1:] - cumulant + log_hockey(far)
    step = _node_distance(t, far, log_far - (far - t) * epsilon - log_wanted, log_delta, negligible)
    variance = math.fsum(n * part.variance for part, n in tilted)
    width = 1.0 / math.sqrt(variance + 1.0 / (t * t) + 1.0 / ((1.0 + t) * (1.0 + t)))
    integrand = (factor or whole_factor)(tilted, counts, Wanted(width, step, negligible + log_wanted, t, epsilon, log_wanted))
    if integrand is None or not integrand.log_tail < 700.0:
        return None
    y: Array = np.asarray(step * integrand.multiples, dtype=float)
    log_factor = integrand.log_factor - np.log(t + 1j * y) - np.log(t + 1.0 + 1j * y)
    modulus = np.exp(log_factor.real)
    if not 0.0 < modulus[0] < math.inf:
        return None
    deviations = [math.sqrt(part.variance) for part, _ in tilted]
    mean = math.fsum(n * part.mean for part, n in tilted)
    angle_slope = math.fsum(n * deviation for (_, n), deviation in zip(tilted, deviations, strict=True)) + abs(mean) + abs(epsilon)
    rounding = _rounding(modulus, y, integrand.faded, counts, angle_slope, step)
    missing_terms = _missing_terms(integrand, y, t, step)
    if len(y) > LONG:
        kept = modulus > LIGHT * float(modulus[0])
        rounding += float(modulus[~kept].sum()) * step / math.pi
        y, modulus, log_factor = y[kept], modulus[kept], log_factor[kept]
    capped = (1.0 + t) * math.exp(log_lost)  # most by which K of a capped loss may be too large
    return Contour(
        t=t,
        step=step,
        cumulant=cumulant,
        cumulant_error=2.5 * SLACK * cumulant + error_bound + capped,
        mean=mean,
        y=y,
        modulus=modulus,
        angle=log_factor.imag,
        error=rounding + missing_terms + math.exp(integrand.log_tail),
        far=far,
        log_far=log_far,
        spare=t + integrand.spare,
        log_spare=integrand.log_spare + log_hockey(t + integrand.spare),
        log_lost=log_lost,
        deviation=math.fsum(deviations),
    )


def _node_distance(t: float, far: Array, log_bounds: Array, log_delta: float, negligible: float) -> float:
    """Return the largest node distance h at which the aliases on both sides are at most e^negligible of delta.

    On one side they fall by e^{-2 pi t / h}, and on the other one by e^{-2 pi (s - t) / h} for any s of `far`.

    log_bounds: logarithms of Chernoff's bounds on delta at the tilts `far`, relative to delta.
    """
    least = max(float(np.nanmin(np.append((log_bounds - negligible) / (far - t), math.inf))), 1e-300)
    return min(2.0 * math.pi * t / (2.0 - negligible - log_delta), 2.0 * math.pi / least)


def _rounding(modulus: Array, y: Array, faded: float, counts: float, angle_slope: float, step: float) -> float:
    """Return a bound on the rounding error of the trapezoidal sum, plus `faded` of a `Factor`.

    counts: the number of steps. angle_slope: a bound on the slope of the terms of an angle in y.
    """
    relative = 2e-14 + 3e-15 * math.sqrt(counts) + 1e-22 * counts  # of a modulus
    of_moduli = (relative * float(modulus.sum()) + (1.0 + relative) * faded) * step / math.pi
    return of_moduli + 8e-16 * angle_slope * float(product(modulus, y)) * step / math.pi


def _missing_terms(integrand: Factor, y: Array, t: float, step: float) -> float:
    """Return a bound on the error of the trapezoidal sum from terms that losses left out of their characteristic functions."""
    frequencies: Array = step * np.arange(integrand.extent, dtype=float) if integrand.error_bound > 0.0 else y
    weights = 1.0 / np.hypot(t, frequencies) / np.hypot(t + 1.0, frequencies)
    return integrand.error_bound * float(weights.sum()) * step / math.pi


@remembered(128)
def _tilted(loss: Loss, t: float) -> Tilted:
    """Return the loss under the tilt t. Several contours and both directions need the same ones."""
    return loss.tilted(t)


@remembered(128)
def _cgf_about(loss: Loss, t: float) -> Array:
    """Return the loss's upper bounds on K at the tilt t, followed by those at t times ALIAS_TILTS."""
    return loss.cgf(t * np.array((1.0, *ALIAS_TILTS)))


def total_cgf_about(losses: Losses, t: float) -> tuple[Array, Array]:
    """Return the tilts s = t times ALIAS_TILTS, and upper bounds on K of the composition at t, followed by those at the tilts s."""
    total = np.zeros(1 + len(ALIAS_TILTS))
    for loss, count in stacked(losses):
        total = total + count * _cgf_about(loss, t)
    return t * np.array(ALIAS_TILTS), total


def _cumulant(tilted: Parts, t: float, bound: float, counts: float) -> tuple[float, float]:
    """Return an upper bound on K(t), and by how much it may be too large.

    bound: the sum of the losses' `cgf`. The result is (NaN, inf) if the parts' own values contradict it.

    If every loss's `cgf` is sharp, `bound` is used, because it has more digits. If not, `bound` could give an upper bound on delta but no
    lower one. Then the sum of the parts' own K(t) is used, increased by its rounding error and that of its exponents.
    """
    own = math.fsum(n * part.cumulant for part, n in tilted)
    sizes = math.fsum(n * abs(part.cumulant) for part, n in tilted)
    means = math.fsum(n * abs(part.mean) for part, n in tilted)
    deviations = math.sqrt(counts * math.fsum(n * part.variance for part, n in tilted))  # at least the steps' own, added up
    rounding = SLACK * (counts + sizes) + 1e-14 * (1.0 + t) * (means + deviations)
    if not bound >= own - rounding:
        return math.nan, math.inf
    return (bound, 0.0) if all(part.sharp for part, _ in tilted) else (own + rounding, 2.0 * rounding)


def log_hockey(s: Array) -> Array:
    """Return log of s^s / (1+s)^{s+1}, the largest value of (1 - e^{eps - L})+ over e^{s (L - eps)}, with all digits at a large s."""
    return np.asarray(-s * np.log1p(1.0 / s) - np.log1p(s))


class Factor(NamedTuple):
    """The characteristic function of the composition, or of a part of it.

    log_factor: its logarithm at the nodes. log_tail: logarithm of a bound on the integral beyond the nodes.
    multiples: the nodes, as multiples of the node distance from 0 on. extent: the number of multiples up to the last node.
    faded: a bound on the sum of the moduli of the integrand at the multiples in between that are left out.
    spare, log_spare: rises of the tilt and log moments of the part that is left out; empty if there is none.
    error_bound: a bound on the absolute error at any node from terms that losses left out.
    """

    log_factor: ComplexArray
    log_tail: float
    multiples: IndexArray
    spare: Array
    log_spare: Array
    error_bound: float = 0.0
    faded: float = 0.0
    extent: int = 0


class Wanted(NamedTuple):
    """The part of the line on which the integrand is wanted.

    width: width of the integrand. step: node distance. target: logarithm of the integral that may be left beyond the last node.
    t: the tilt. epsilon: about where delta is wanted. log_wanted: logarithm of that delta relative to e^{K - t eps}.
    """

    width: float
    step: float
    target: float
    t: float
    epsilon: float
    log_wanted: float


Method = Callable[[Parts, float, Wanted], Factor | None]


def whole_factor(tilted: Parts, counts: float, place: Wanted) -> Factor | None:
    """Return the characteristic function of the whole composition, or None if it does not decay soon enough."""
    most = max(MAX_NODES // len(tilted), ENOUGH_NODES)
    laid_out = most * SIEVED_MORE if any(_may_sieve(part, n) for part, n in tilted) else most
    end = _end(lambda y: sum((n * part.decay(y) for part, n in tilted), 1e-13 * counts + 0.0 * y), place, laid_out)
    if end is None:
        return None
    last_frequency, log_tail = end
    count = math.ceil(last_frequency / place.step) + 1
    index = _sieved_by_all(tilted, place, count)
    if (count if index is None else len(index)) > most + 1:
        return None
    nodes = _Nodes(place, count, index)
    for part, n in sorted(tilted, key=_by_work):
        nodes.multiply(part, n, NEGLIGIBLE - math.log(counts))
    return Factor(
        log_factor=nodes.log_factor,
        log_tail=log_tail,
        multiples=nodes.index,
        spare=np.zeros(0),
        log_spare=np.zeros(0),
        error_bound=_error_bound(tilted),
        faded=nodes.faded,
        extent=count,
    )


def _by_work(part: tuple[Tilted, int]) -> tuple[int, float]:
    """Return a key that sorts parts.

    Parts of few terms come first, by falling variance, because they may leave few nodes for the others. Then come the parts that can be
    computed at these nodes alone, and then the others.
    """
    tilted, n = part
    terms = float(getattr(tilted, "terms", math.inf))
    if terms < MANY_TERMS:
        return 0, -n * tilted.variance
    return (1 if getattr(tilted, "pointwise", False) else 2), terms


class _Nodes:
    """The nodes of a contour, with the product of the characteristic functions of the parts so far.

    A characteristic function has a modulus of at most 1. So the integrand at a node where the product so far is negligible is at most that
    product, and the other parts are not computed there.

    index: the nodes, as multiples of the node distance. log_factor: the logarithm of the product at them.
    faded: a bound on the sum of the moduli of the integrand at the multiples that are left out, without the factor e^{K(t) - t eps}.
    """

    def __init__(self, place: Wanted, count: int, index: IndexArray | None) -> None:
        """Begin with the nodes of `index`, or with all `count` multiples if it is None."""
        self._place = place
        hold(count if index is None else len(index))
        self.index: IndexArray = np.arange(count) if index is None else index
        self.faded = (count - len(self.index)) * LIGHT / (place.t * (place.t + 1.0))
        self.log_factor: ComplexArray = np.zeros(len(self.index), dtype=complex)

    def multiply(self, part: Tilted, n: int, log_error: float) -> None:
        """Multiply by the characteristic function of `n` copies of a part. log_error: as of `Tilted.centred`."""
        step, last = self._place.step, int(self.index[-1]) + 1
        if SPARSE * len(self.index) < last and getattr(part, "pointwise", False):
            values: ComplexArray = part.centred_at(step, self.index, log_error)  # type: ignore[attr-defined]
        else:
            values = part.centred(step, last, log_error)
            values = values if len(self.index) == last else values[self.index]
        self.log_factor = self.log_factor + n * values
        if last > SHORT:
            self._drop()

    def _drop(self) -> None:
        """Leave out the nodes at which the integrand is negligible, except the first one."""
        t, y = self._place.t, self._place.step * self.index
        modulus = np.exp(self.log_factor.real) / (np.hypot(t, y) * np.hypot(t + 1.0, y))
        kept = ~(modulus <= LIGHT * float(modulus[0]))  # NaN is kept, so that it is not taken for a small number
        self.faded += float(modulus[~kept].sum())
        self.index, self.log_factor = self.index[kept], self.log_factor[kept]


def _may_sieve(part: Tilted, n: int) -> bool:
    """Return whether the sieve may leave out nodes by means of `n` copies of a part."""
    return n >= SIEVED and getattr(part, "finite_sum", False) and getattr(part, "pointwise", False)


def _sieved_by_all(tilted: Parts, place: Wanted, count: int) -> IndexArray | None:
    """Return the nodes among `count` multiples of the node distance that the sieve does not leave out.

    None stands for all multiples, which need no array if the first part leaves out most of them.
    """
    index: IndexArray | None = None
    for part, n in sorted(tilted, key=lambda copies: -copies[1] * copies[0].variance):
        if _may_sieve(part, n):
            index = _sieved(part, n, place.step, count, index)
    return index


def _sieved(part: Any, n: int, step: float, count: int, index: IndexArray | None) -> IndexArray | None:
    """Return the nodes of `index` without those in blocks where the characteristic function of `n` copies of a part is negligible.

    The distance d(y) = sqrt(1 - |phi(y)|^2) of one copy changes by at most s |y' - y| between two frequencies, where s is the standard
    deviation of the loss. Proof: |phi|^2 = E cos(y D), where D is the difference of two independent copies, with E D^2 = 2 s^2. The
    derivative E D sin(y D) is at most sqrt(2 s^2 E sin^2(y D)) by the Cauchy-Schwarz inequality. As sin^2 <= 2 (1 - cos), it is at
    most 2 s d. So the derivative of d = sqrt(1 - |phi|^2) is at most s.

    Within a block of length w, d is therefore at least the mean of its values at the two ends minus s w / 2. If this is at least
    sqrt(1 - LIGHT^{2/n}), then |phi|^n <= LIGHT in the whole block. All other factors of the integrand are at most those at y = 0. So
    each node that is left out has a modulus of at most LIGHT times that of the first node.
    """
    last = count if index is None else int(index[-1]) + 1
    change = math.sqrt(part.variance) * step * (1.0 + SIEVE_SLACK)  # most by which the distance changes from one node to the next
    least = math.sqrt(-math.expm1(2.0 * math.log(LIGHT) / n)) * (1.0 + SIEVE_SLACK)
    if (last if index is None else len(index)) <= LONG or change * last <= least or FINER * change > WIDE_BLOCK:
        return index
    size = FINER ** math.floor(math.log(min(WIDE_BLOCK / max(change, 1e-300), last), FINER))
    ends = _distances(part.centred(step * size, -(-last // size) + 1, NEGLIGIBLE))
    starts = size * np.flatnonzero(_least_distance(ends[:-1], ends[1:], change * size) < least)
    while size > 1:
        if index is not None:  # blocks without a node of `index` need no closer look
            starts = starts[np.searchsorted(index, starts + size) > np.searchsorted(index, starts)]
        if len(starts) * FINER * part.terms > max(2 * last, LEAST_SIEVE):
            break
        size //= FINER
        edges = starts[:, None] // size + np.arange(FINER + 1)
        points, places = np.unique(edges.ravel(), return_inverse=True)
        ends = _distances(part.centred_at(step * size, points, NEGLIGIBLE))[places].reshape(edges.shape)
        starts = size * edges[:, :-1][_least_distance(ends[:, :-1], ends[:, 1:], change * size) < least]
    if len(starts) * size > min(TABLE, last // 2):  # the array of the nodes would not be worth its memory
        return index
    hold(float(len(starts) * size))
    nodes = (starts[:, None] + np.arange(size)).ravel()
    return nodes[nodes < last] if index is None else index[np.isin(index, nodes, assume_unique=True)]


def _distances(log_phi: ComplexArray) -> Array:
    """Return sqrt(1 - |phi|^2), rounded down, from log phi. NaN becomes 0, the distance at which nothing is left out."""
    squares = -np.expm1(2.0 * np.minimum(log_phi.real, 0.0))
    return np.asarray(np.sqrt(np.nan_to_num(squares, nan=0.0)) * (1.0 - SIEVE_SLACK))


def _least_distance(left: Array, right: Array, change: float) -> Array:
    """Return a lower bound on a function within blocks, from its values at their ends. change: most by which it changes over a block."""
    return 0.5 * (left + right - change)


def factor_without_bulk(
    tilted: Parts, counts: float, place: Wanted, levels: Sequence[float] = BULK_LEVELS, negligible: float = NEGLIGIBLE
) -> Factor | None:
    """Return phi^n - B^n, the characteristic function of the composition without its bulk.

    It is None if epsilon is not positive, if a part can be neither divided nor left whole or if all must be left whole, if none of the
    levels serves, or if the difference does not decay soon enough.

    The first of `levels`, which are shares of epsilon, is used at which delta of the bulk alone is at most e^negligible, relative. A part
    with a method `rise` is not divided. Its characteristic function is a factor of both phi^n and B^n, and its modulus is at most 1.
    """
    if place.epsilon <= 0.0:
        return None
    undivided: list[tuple[Any, int]] = [(part, n) for part, n in tilted if hasattr(part, "rise")]
    divisible: list[tuple[Any, int]] = [(part, n) for part, n in tilted if not hasattr(part, "rise")]
    if not divisible or not all(hasattr(part, "split") for part, _ in divisible):
        return None
    spare = np.geomspace(2.0, 3e3, 65) / place.epsilon
    log_undivided = sum((n * part.rise(spare) for part, n in undivided), 0.0 * spare)
    # One logarithm has an absolute error, which counts as often as the step, however little the step's loss.
    sizes = math.fsum(n * (abs(part.mean) + math.sqrt(part.variance)) for part, n in tilted)
    rounding = SLACK * (counts + np.abs(log_undivided)) + 1e-14 * (1.0 + place.t + spare) * sizes
    for share in levels:
        divided = [(part.split(share * place.epsilon), n) for part, n in divisible]
        log_bulk = log_undivided
        for (halves, n), (part, _) in zip(divided, divisible, strict=True):
            log_bulk = log_bulk + n * (halves.bulk_cgf(spare) + spare * part.mean)
        log_spare = log_bulk + rounding
        if float((log_spare - spare * place.epsilon + log_hockey(place.t + spare)).min()) <= place.log_wanted + negligible:
            break
    else:
        return None
    end = _end(lambda y: np.logaddexp.reduce([math.log(n) + halves.decay(y) for halves, n in divided]), place, ENOUGH_NODES)
    if end is None:
        return None
    last_frequency, log_tail = end
    count = math.ceil(last_frequency / place.step) + 1
    log_phi, log_ratio = np.zeros(count, dtype=complex), np.zeros(count, dtype=complex)  # of phi^n, and of B^n / phi^n
    log_error = NEGLIGIBLE - math.log(counts)
    for halves, n in divided:
        log_phi_of_one, log_ratio_of_one = halves.centred(place.step, count, log_error, log_error + min(place.log_wanted, 0.0))
        log_phi, log_ratio = log_phi + n * log_phi_of_one, log_ratio + n * log_ratio_of_one
    for part, n in undivided:
        log_phi = log_phi + n * part.centred(place.step, count, log_error)
    bulk_is_larger = log_ratio.real > 1.0  # there phi decays sooner than B
    log_difference = np.log(-np.expm1(np.where(bulk_is_larger, -log_ratio, log_ratio)))
    return Factor(
        log_factor=log_phi + log_difference + np.where(bulk_is_larger, log_ratio + 1j * math.pi, 0.0),
        log_tail=log_tail,
        multiples=np.arange(count),
        spare=spare,
        log_spare=log_spare,
        error_bound=_error_bound(divided),
        extent=count,
    )


def _error_bound(parts: Sequence[tuple[object, int]]) -> float:
    """Return a bound on the error from terms that parts left out: the error of a product of characteristic functions is at most the sum."""
    return math.fsum(n * getattr(part, "error_bound", 0.0) for part, n in parts)


def saddle(cumulant: Array, log_delta: float, t: Array) -> Array:
    """Return the epsilon at which the integrand at y = 0 equals delta. It is least if t is the saddle point."""
    return np.asarray((cumulant - log_delta - np.log(t) - np.log1p(t)) / t)


def _end(decay: Callable[[Array], Array], place: Wanted, nodes: int) -> tuple[float, float] | None:
    """Return a frequency Y at which the contour may end, and the logarithm of a bound on the sum beyond; None if there is none.

    The bound is the integral of e^{decay(Y)} / y^2 over both sides, and one node distance times its first term.
    """
    ends = place.width * 1.3 ** np.arange(1, 120)
    ends = ends[ends <= nodes * place.step]
    for block in np.split(ends, [9, 18]):
        if len(block):
            log_tail = decay(block) - np.log(math.pi * block) + np.log1p(place.step / block)
            enough = np.flatnonzero(log_tail <= place.target)
            if len(enough):
                return float(block[enough[0]]), float(log_tail[enough[0]])
    return None


class Curve(Protocol):
    """The quantities of a contour that `solve` needs."""

    @property
    def t(self) -> float: ...
    @property
    def cumulant(self) -> float: ...
    @property
    def mean(self) -> float: ...
    def sums(self, epsilon: float) -> tuple[float, float]: ...
    def log_delta(self, epsilon: float) -> tuple[float, float]: ...


def solve(contour: Curve, log_delta: float) -> tuple[float, float]:
    """Return (lower, upper) bounds on the epsilon at which delta(eps) = e^log_delta. They may be negative if delta is large.

    A bound that cannot be proved is infinite.

    Newton's method finds where the trapezoidal sum reaches the target, which proves nothing. The ends are points on either side of it at
    which the certified bounds on delta are on the right side of the target. They are bounds because delta falls with epsilon.
    """
    epsilon, slope = _newton(contour, log_delta)
    low, high = contour.log_delta(epsilon)
    if not slope > 0.0:
        return -math.inf, math.inf

    def first_margin(gap: float) -> float:
        """Return about the distance in epsilon over which log delta changes by `gap`."""
        return 1e-15 * abs(epsilon) + 1.01 * min(max(gap, 0.0), 1.0) / slope

    lower = outside(contour, log_delta, epsilon, -first_margin(log_delta - low))
    return lower, outside(contour, log_delta, epsilon, first_margin(high - log_delta))


def _newton(contour: Curve, log_delta: float) -> tuple[float, float]:
    """Return (epsilon, -d log delta / d epsilon) where the trapezoidal sum reaches the target. The results are estimates.

    The search starts from the epsilon whose saddle point is t, or from Chernoff's bound if that is smaller. The slope is NaN if it is 0, or
    if the sum was positive at no epsilon that was tried.
    """
    t = contour.t
    chernoff = (contour.cumulant - log_delta + t * math.log(t) - (t + 1.0) * math.log1p(t)) / t
    epsilon = min(contour.mean - 1.0 / t - 1.0 / (1.0 + t), chernoff)
    slope, last = math.nan, math.inf
    # If delta is not smooth, a step may lead beyond a point that is known to lie on the other side. A bisection step then replaces it.
    below, above = -math.inf, math.inf
    for _ in range(NEWTON_STEPS):
        total, change = contour.sums(epsilon)
        if not total > 0.0:  # rounding exceeds delta here
            above = min(above, epsilon)
            epsilon = 0.5 * (below + above) if math.isfinite(below) else epsilon - 2.0 / t
            continue
        slope = t - change / total
        if slope == 0.0:
            return epsilon, math.nan
        excess = contour.cumulant - t * epsilon + math.log(total) - log_delta
        if excess > 0.0:
            below = max(below, epsilon)
        else:
            above = min(above, epsilon)
        move = min(max(excess / slope, -2.0 / t), 2.0 / t)
        if not abs(move) > 1e-15 * abs(epsilon) or (abs(move) < 1e-9 * abs(epsilon) and abs(move) >= abs(last)):
            break
        if not below < epsilon + move < above and math.isfinite(above - below):
            move = 0.5 * (below + above) - epsilon
        epsilon += move
        if t * abs(move) < CONVERGED:
            break
        last = move
    return epsilon, slope


class Certificate(Protocol):
    """Bounds on log delta that hold at every epsilon."""

    def log_delta(self, epsilon: float) -> tuple[float, float]: ...


def outside(contour: Certificate, log_delta: float, epsilon: float, margin: float) -> float:
    """Return the first of epsilon + margin, + 2 margin, + 4 margin, ... that the certificate proves to be a bound.

    It is an upper bound for a positive margin and a lower one for a negative margin. If none of 40 points is proved, or if the margin is
    not finite, it is infinite, with the sign of the margin.
    """
    for _ in range(40):
        if not math.isfinite(margin):
            break
        low, high = contour.log_delta(epsilon + margin)
        if (high <= log_delta) if margin > 0.0 else (low >= log_delta):
            return epsilon + margin
        margin *= 2.0
    return math.copysign(math.inf, margin)
