"""delta(epsilon) of a sum of privacy losses as a contour integral of its CGF K, with certified bounds on both sides.

certified.py asks for it, for the accountant exact, and so do jump.py and smoothed.py: with the losses log dP/dQ of one direction, each with
its number of copies. `build` returns a `Contour`, which bounds delta at every epsilon, and `solve` bounds epsilon at a delta. Words:

* CGF: K(z) = log E_P[e^{z L}] of the sum L of all losses. A *tilt* is a real t > 0. The tilted measure is e^{t L - K(t)} dP, and E_t the
  mean under it. tilt_search.py, or the caller, chooses t. tilted.py says what a loss must provide under a tilt.
* A *capped* loss lacks its far upper tail (cut.py). A *stack* is the sum of many losses of one family, evaluated together (stacked.py).
* The *bulk* of a loss is the part of P where the loss is so small that sums of such losses hardly reach epsilon (tilted.py).

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
   is at most 1. For many copies of a discrete loss, whole blocks of nodes are left out by a bound between two frequencies (sieve.py).

Sources: saddle-point accountant: Alghamdi et al. 2022, arXiv:2208.09595; analytical Fourier accountant: Zhu, Dong, Wang 2022,
arXiv:2106.08567.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, ComplexArray, IndexArray, np
from dpcli.numerics.contour.sieve import LIGHT, LONG, may_sieve, nodes_left
from dpcli.numerics.contour.tilted import Loss, Losses, Parts, Tilted
from dpcli.numerics.products import product
from dpcli.numerics.quadrature import SLACK
from dpcli.numerics.work import hold, remembered, shared, spend

# Accuracy: what these leave out is bounded and counted as an error, and any tilt gives a bound.
NEGLIGIBLE = -28.0  # logarithm of the cut-off and aliased parts that are allowed, relative to delta
BULK_LEVELS = (0.9, 0.6, 0.4, 0.25, 0.15, 0.09, 0.05, 0.02)  # shares of epsilon, below which a single loss counts as bulk
# Larger tilts, as multiples of t, at which Chernoff's bound limits the aliases. Near t it limits close aliases, and at 4 t distant ones.
ALIAS_TILTS = (1.02, 1.24, 1.51, 1.83, 2.23, 2.71, 3.29, 4.0)
NEWTON_STEPS = 60  # most steps of Newton's method; more than ten are needed only where delta is not smooth
CONVERGED = 1e-8  # length of the last step, times t; log delta then errs by about its square, which is below the rounding
DOUBLINGS = 40  # most points at which an end of an interval for epsilon is tried, each twice as far away as the one before
# Speed and memory.
MAX_NODES = 1_200_000  # most nodes of all different losses together
ENOUGH_NODES = 60_000  # nodes that a contour may have however many different losses there are
SIEVED_MORE = 8  # factor for the nodes that may be laid out if the sieve (sieve.py) may leave out most of them
MANY = 6  # least number of different losses for which those of one family are put together
SHORT = 256  # with more multiples of the node distance, nodes with a negligible integrand are left out as soon as this is known
MANY_TERMS = 1000  # characteristic functions of at least this many terms are computed last, at the nodes that the others leave
SPARSE = 4  # least multiples of the node distance for each node if the characteristic function is computed at the nodes only


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
    step_count = float(sum(n * getattr(loss, "steps", 1.0) for loss, n in losses))
    tilted = [(_tilted(loss, t), count) for loss, count in (losses if factor is factor_without_bulk else stacked(losses))]
    cumulant, error_bound = _cumulant(tilted, t, float(cumulants[0]), step_count)
    if not math.isfinite(error_bound) or t * t == 0.0:
        return None
    if epsilon is None:
        epsilon = float(saddle(np.array([cumulant]), log_delta, np.array([t]))[0])
    log_wanted, log_far = log_delta - cumulant + t * epsilon, cumulants[1:] - cumulant + log_hockey(far)
    step = _node_distance(t, far, log_far - (far - t) * epsilon - log_wanted, log_delta, negligible)
    moments = _moments(tilted)
    width = 1.0 / math.sqrt(moments.variance + 1.0 / (t * t) + 1.0 / ((1.0 + t) * (1.0 + t)))
    integrand = (factor or whole_factor)(tilted, step_count, Wanted(width, step, negligible + log_wanted, t, epsilon, log_wanted))
    if integrand is None or not integrand.log_tail < 700.0:
        return None
    nodes = _evaluated(integrand, t, step, step_count, moments.angle_slope + abs(moments.mean) + abs(epsilon))
    if nodes is None:
        return None
    capped = (1.0 + t) * math.exp(log_lost)  # most by which K of a capped loss may be too large
    return Contour(
        t=t,
        step=step,
        cumulant=cumulant,
        cumulant_error=2.5 * SLACK * cumulant + error_bound + capped,
        mean=moments.mean,
        y=nodes.y,
        modulus=nodes.modulus,
        angle=nodes.angle,
        error=nodes.error,
        far=far,
        log_far=log_far,
        spare=t + integrand.spare,
        log_spare=integrand.log_spare + log_hockey(t + integrand.spare),
        log_lost=log_lost,
        deviation=moments.deviation,
    )


class _Moments(NamedTuple):
    """Moments of the composition under the tilt.

    deviation: sum of the standard deviations, one for each different loss. angle_slope: the same sum with one for each step.
    """

    mean: float
    variance: float
    deviation: float
    angle_slope: float


def _moments(tilted: Parts) -> _Moments:
    """Return the moments of the sum of all parts."""
    deviations = [math.sqrt(part.variance) for part, _ in tilted]
    return _Moments(
        mean=math.fsum(n * part.mean for part, n in tilted),
        variance=math.fsum(n * part.variance for part, n in tilted),
        deviation=math.fsum(deviations),
        angle_slope=math.fsum(n * deviation for (_, n), deviation in zip(tilted, deviations, strict=True)),
    )


class _Evaluated(NamedTuple):
    """The integrand at the nodes that are kept, with the meanings of the fields of `Contour`."""

    y: Array
    modulus: Array
    angle: Array
    error: float


def _evaluated(integrand: Factor, t: float, step: float, step_count: float, angle_slope: float) -> _Evaluated | None:
    """Return the integrand at the nodes, or None if it is not a positive double at y = 0. step_count, angle_slope: as of `_rounding`."""
    y: Array = np.asarray(step * integrand.multiples, dtype=float)
    log_factor = integrand.log_factor - np.log(t + 1j * y) - np.log(t + 1.0 + 1j * y)
    modulus = np.exp(log_factor.real)
    if not 0.0 < modulus[0] < math.inf:
        return None
    rounding = _rounding(modulus, y, integrand.faded, step_count, angle_slope, step)
    missing_terms = _missing_terms(integrand, y, t, step)
    if len(y) > LONG:  # an epsilon is found by many sums over the nodes, so negligible ones are left out
        kept = modulus > LIGHT * float(modulus[0])
        rounding += float(modulus[~kept].sum()) * step / math.pi
        y, modulus, log_factor = y[kept], modulus[kept], log_factor[kept]
    return _Evaluated(y, modulus, log_factor.imag, rounding + missing_terms + math.exp(integrand.log_tail))


def _node_distance(t: float, far: Array, log_bounds: Array, log_delta: float, negligible: float) -> float:
    """Return the largest node distance h at which the aliases on both sides are at most e^negligible of delta.

    On one side they fall by e^{-2 pi t / h}, and on the other one by e^{-2 pi (s - t) / h} for any s of `far`.

    log_bounds: logarithms of Chernoff's bounds on delta at the tilts `far`, relative to delta.
    """
    least = max(float(np.nanmin(np.append((log_bounds - negligible) / (far - t), math.inf))), 1e-300)
    return min(2.0 * math.pi * t / (2.0 - negligible - log_delta), 2.0 * math.pi / least)


def _rounding(modulus: Array, y: Array, faded: float, step_count: float, angle_slope: float, step: float) -> float:
    """Return a bound on the rounding error of the trapezoidal sum, plus `faded` of a `Factor`.

    step_count: the number of steps. angle_slope: a bound on the slope of the terms of an angle in y.
    """
    relative = 2e-14 + 3e-15 * math.sqrt(step_count) + 1e-22 * step_count  # of a modulus
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


def _cumulant(tilted: Parts, t: float, bound: float, step_count: float) -> tuple[float, float]:
    """Return an upper bound on K(t), and by how much it may be too large.

    bound: the sum of the losses' `cgf`. The result is (NaN, inf) if the parts' own values contradict it.

    If every loss's `cgf` is sharp, `bound` is used, because it has more digits. If not, `bound` could give an upper bound on delta but no
    lower one. Then the sum of the parts' own K(t) is used, increased by its rounding error and that of its exponents.
    """
    own = math.fsum(n * part.cumulant for part, n in tilted)
    sizes = math.fsum(n * abs(part.cumulant) for part, n in tilted)
    means = math.fsum(n * abs(part.mean) for part, n in tilted)
    deviations = math.sqrt(step_count * math.fsum(n * part.variance for part, n in tilted))  # at least the steps' own, added up
    rounding = SLACK * (step_count + sizes) + 1e-14 * (1.0 + t) * (means + deviations)
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
    """The part of the line on which the integrand is needed, and its accuracy.

    width: width of the integrand. step: node distance. target: logarithm of the integral that may be left beyond the last node.
    t: the tilt. epsilon: about where delta is wanted. log_wanted: logarithm of that delta relative to e^{K - t eps}.
    """

    width: float
    step: float
    target: float
    t: float
    epsilon: float
    log_wanted: float


Method = Callable[[Parts, float, Wanted], Factor | None]  # `whole_factor` or `factor_without_bulk`; the number is that of all steps


def whole_factor(tilted: Parts, step_count: float, wanted: Wanted) -> Factor | None:
    """Return the characteristic function of the whole composition, or None if it does not decay soon enough."""
    most = max(MAX_NODES // len(tilted), ENOUGH_NODES)
    laid_out = most * SIEVED_MORE if any(may_sieve(part, n) for part, n in tilted) else most
    end = _end(lambda y: sum((n * part.decay(y) for part, n in tilted), 1e-13 * step_count + 0.0 * y), wanted, laid_out)
    if end is None:
        return None
    last_frequency, log_tail = end
    count = math.ceil(last_frequency / wanted.step) + 1
    index = nodes_left(tilted, wanted.step, count)
    if (count if index is None else len(index)) > most + 1:
        return None
    nodes = _Nodes(wanted, count, index)
    for part, n in sorted(tilted, key=_by_work):
        nodes.multiply(part, n, NEGLIGIBLE - math.log(step_count))
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

    def __init__(self, wanted: Wanted, count: int, index: IndexArray | None) -> None:
        """Begin with the nodes of `index`, or with all `count` multiples if it is None."""
        self._wanted = wanted
        hold(count if index is None else len(index))
        self.index: IndexArray = np.arange(count) if index is None else index
        self.faded = (count - len(self.index)) * LIGHT / (wanted.t * (wanted.t + 1.0))
        self.log_factor: ComplexArray = np.zeros(len(self.index), dtype=complex)

    def multiply(self, part: Tilted, n: int, log_error: float) -> None:
        """Multiply by the characteristic function of `n` copies of a part. log_error: as of `Tilted.centred`."""
        step, last = self._wanted.step, int(self.index[-1]) + 1
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
        t, y = self._wanted.t, self._wanted.step * self.index
        modulus = np.exp(self.log_factor.real) / (np.hypot(t, y) * np.hypot(t + 1.0, y))
        kept = ~(modulus <= LIGHT * float(modulus[0]))  # NaN is kept, so that it is not taken for a small number
        self.faded += float(modulus[~kept].sum())
        self.index, self.log_factor = self.index[kept], self.log_factor[kept]


def factor_without_bulk(
    tilted: Parts, step_count: float, wanted: Wanted, levels: Sequence[float] = BULK_LEVELS, negligible: float = NEGLIGIBLE
) -> Factor | None:
    """Return phi^n - B^n, the characteristic function of the composition without its bulk.

    It is None if epsilon is not positive, if a part can be neither divided nor left whole or if all must be left whole, if none of the
    levels serves, or if the difference does not decay soon enough.

    The first of `levels`, which are shares of epsilon, is used at which delta of the bulk alone is at most e^negligible, relative. A part
    with a method `rise` is not divided. Its characteristic function is a factor of both phi^n and B^n, and its modulus is at most 1.
    """
    if wanted.epsilon <= 0.0:
        return None
    undivided: list[tuple[Any, int]] = [(part, n) for part, n in tilted if hasattr(part, "rise")]
    divisible: list[tuple[Any, int]] = [(part, n) for part, n in tilted if not hasattr(part, "rise")]
    if not divisible or not all(hasattr(part, "split") for part, _ in divisible):
        return None
    spare = np.geomspace(2.0, 3e3, 65) / wanted.epsilon
    log_undivided = sum((n * part.rise(spare) for part, n in undivided), 0.0 * spare)
    # One logarithm has an absolute error, which counts as often as the step, however little the step's loss.
    sizes = math.fsum(n * (abs(part.mean) + math.sqrt(part.variance)) for part, n in tilted)
    rounding = SLACK * (step_count + np.abs(log_undivided)) + 1e-14 * (1.0 + wanted.t + spare) * sizes
    for share in levels:
        divided = [(part.split(share * wanted.epsilon), n) for part, n in divisible]
        log_bulk = log_undivided
        for (halves, n), (part, _) in zip(divided, divisible, strict=True):
            log_bulk = log_bulk + n * (halves.bulk_cgf(spare) + spare * part.mean)
        log_spare = log_bulk + rounding
        if float((log_spare - spare * wanted.epsilon + log_hockey(wanted.t + spare)).min()) <= wanted.log_wanted + negligible:
            break
    else:
        return None
    end = _end(lambda y: np.logaddexp.reduce([math.log(n) + halves.decay(y) for halves, n in divided]), wanted, ENOUGH_NODES)
    if end is None:
        return None
    last_frequency, log_tail = end
    count = math.ceil(last_frequency / wanted.step) + 1
    log_phi, log_ratio = np.zeros(count, dtype=complex), np.zeros(count, dtype=complex)  # of phi^n, and of B^n / phi^n
    log_error = NEGLIGIBLE - math.log(step_count)
    for halves, n in divided:
        log_phi_of_one, log_ratio_of_one = halves.centred(wanted.step, count, log_error, log_error + min(wanted.log_wanted, 0.0))
        log_phi, log_ratio = log_phi + n * log_phi_of_one, log_ratio + n * log_ratio_of_one
    for part, n in undivided:
        log_phi = log_phi + n * part.centred(wanted.step, count, log_error)
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


def _end(decay: Callable[[Array], Array], wanted: Wanted, nodes: int) -> tuple[float, float] | None:
    """Return a frequency Y at which the contour may end, and the logarithm of a bound on the sum beyond; None if there is none.

    The bound is the integral of e^{decay(Y)} / y^2 over both sides, and one node distance times its first term.
    """
    ends = wanted.width * 1.3 ** np.arange(1, 120)
    ends = ends[ends <= nodes * wanted.step]
    for block in np.split(ends, [9, 18]):
        if len(block):
            log_tail = decay(block) - np.log(math.pi * block) + np.log1p(wanted.step / block)
            enough = np.flatnonzero(log_tail <= wanted.target)
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

    It is an upper bound for a positive margin and a lower one for a negative margin. If none of DOUBLINGS points is proved, or if the
    margin is not finite, it is infinite, with the sign of the margin.
    """
    for _ in range(DOUBLINGS):
        if not math.isfinite(margin):
            break
        low, high = contour.log_delta(epsilon + margin)
        if (high <= log_delta) if margin > 0.0 else (low >= log_delta):
            return epsilon + margin
        margin *= 2.0
    return math.copysign(math.inf, margin)
