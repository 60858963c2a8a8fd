"""delta(epsilon) of a sum of privacy losses as a contour integral of its CGF K, with certified bounds on both sides.

certified.py asks for it, for the accountant exact, and so do jump.py and smoothed.py: with the losses log dP/dQ of one direction, each with
its number of copies. `build` returns a `Contour`, which bounds delta at every epsilon. epsilon_search.py finds epsilon at a delta. Words:

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
from typing import Any, NamedTuple

from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, ComplexArray, IndexArray, np
from dpcli.numerics.contour.sieve import LIGHT, LONG, may_sieve, nodes_left
from dpcli.numerics.contour.tilted import Loss, Losses, Parts, Tilted
from dpcli.numerics.products import product
from dpcli.numerics.quadrature import SLACK
from dpcli.numerics.work import hold, remembered, shared, spend

# Accuracy: what these leave out is bounded and counted as an error, and any tilt gives a bound.
NEGLIGIBLE = -28.0  # logarithm of the cut-off and aliased parts that are allowed, relative to delta
BULK_LEVELS = (0.9, 0.6, 0.4, 0.25, 0.15, 0.09, 0.05, 0.02)  # shares of epsilon that are tried; a smaller loss is bulk
# Larger tilts, as multiples of t, at which Chernoff's bound limits the aliases. Near t it limits close aliases, and at 4 t distant ones.
ALIAS_TILTS = (1.02, 1.24, 1.51, 1.83, 2.23, 2.71, 3.29, 4.0)
ALIAS_MARGIN = 2.0  # the node distance makes the aliases with m > 0 about e^-ALIAS_MARGIN times their allowed share of delta
END_RATIO, ENDS = 1.3, 120  # ratio of successive frequencies that are tried as the last one, and their number plus 1
BULK_RISES = (2.0, 3e3, 65)  # least and largest s - t, times epsilon, and number of the s, in Chernoff's bound on the bulk
# Soundness: bounds on rounding errors. Smaller ones could make a bound false. counts.py uses them too.
OWN_ROUNDING = 1e-14  # error of K(t) from its exponents t L, relative to (1 + t) times the loss's mean and deviation
CUMULANT_SLACKS = 2.5  # a bound on K(t) is taken to be too large by this many SLACK (numerics/quadrature.py), relative
DECAY_ROUNDING = 1e-13  # error of a bound on the log characteristic function, for each step
# The relative error of the modulus of n steps is a constant, plus a part times sqrt(n), plus a part times n.
MODULUS_ROUNDING, MODULUS_ROUNDING_SQRT, MODULUS_ROUNDING_STEP = 2e-14, 3e-15, 1e-22
ANGLE_ROUNDING = 8e-16  # error of the angle at a node, relative to its terms
EXPONENT_ROUNDING = 1e-15  # error of K(t) - t epsilon, relative to its terms
LEAST_GAP = 1e-9  # a lower bound is -inf if the logarithm of the aliases is not smaller by this; any positive value is sound
# Floating point.
LEAST_EXPONENT = 1e-300  # divisor in place of 0 or a negative number, with which any node distance would do
LARGEST_LOG_TAIL = 700.0  # its exponential does not overflow
# Speed and memory; `spend` and `hold` (numerics/work.py) limit both.
MAX_NODES = 1_200_000  # most nodes of all different losses together
ENOUGH_NODES = 60_000  # nodes that a contour may have however many different losses there are
SIEVED_MORE = 8  # factor by which more nodes may be laid out if the sieve (sieve.py) may leave out most of them
MANY_LOSSES = 6  # least number of different losses for which those of one family are put together
FEW_MULTIPLES = 256  # with more multiples of h, nodes are left out as soon as the product of some factors is negligible
MANY_TERMS = 1000  # characteristic functions of at least this many terms are computed last, at the nodes that the others leave
SPARSE = 4  # with more multiples of h than this for each node, characteristic functions are computed at the nodes alone


def stacked(losses: Losses) -> Losses:
    """Return the losses. If they are many, those of one family are replaced by one loss for all of their steps."""
    return losses if len(losses) < MANY_LOSSES else _stacks(tuple(losses))


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
    far, log_far: tilts s > t, and log of s^s / (1+s)^{s+1} e^{K(s) - K(t)}, for the bounds on the aliases.
    bulk_tilts, log_bulk: the same two for the bulk that the integrand leaves out, with its K(s); empty if nothing is left out.
    log_lost: logarithm of the probability of the tails that were taken off the losses.
    deviation: sum of the standard deviations under the tilt, one for each different loss. smoothed.py bounds another rounding error by it.
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
    bulk_tilts: Array
    log_bulk: Array
    log_lost: float
    deviation: float = 0.0

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Return (lower, upper) bounds on log delta(epsilon).

        The lower bound is -inf where rounding or the aliases exceed delta. The upper one is inf if the sum plus its error is not positive.
        """
        total, base = self._total(self._angles(epsilon)), self.cumulant - self.t * epsilon
        ulps = EXPONENT_ROUNDING * (self.cumulant + self.t * (abs(epsilon) + abs(self.mean)))
        upper = base + ulps + math.log(total + self.error) if total + self.error > 0.0 else math.inf
        if len(self.bulk_tilts):
            upper = float(np.logaddexp(upper, self.cumulant + (self.log_bulk - self.bulk_tilts * epsilon).min()))
        upper = float(np.logaddexp(upper, self.log_lost))
        if not total - self.error > 0.0:
            return -math.inf, upper
        low = base - ulps - self.cumulant_error + math.log(total - self.error)
        gap = self._log_alias(epsilon) - low
        return (low + math.log1p(-math.exp(gap)) if gap < -LEAST_GAP else -math.inf), upper

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
        """Return an upper bound on log of the sum of the aliases, which is not relative to e^{K - t eps}."""
        turns = 2.0 * math.pi * self.t / self.step
        above = -turns - math.log1p(-math.exp(-turns))  # bounds those with m > 0
        # Bounds those with m < 0, at each s.
        shift = 2.0 * math.pi * (self.far - self.t) / self.step
        below = self.cumulant - self.far * epsilon + self.log_far - shift - np.log1p(-np.exp(-shift))
        return float(np.logaddexp(above, np.nanmin(np.append(below, math.inf))))


def any_decays(losses: Losses) -> bool:
    """Return whether the characteristic function of some loss may decay. If none does, all losses are discrete, and there is no contour."""
    return any(getattr(loss, "decays", True) for loss, _ in losses)


def build(
    losses: Losses,
    log_delta: float,
    t: float,
    factor: MakeFactor | None = None,
    log_lost: float = -math.inf,
    epsilon: float | None = None,
    negligible: float = NEGLIGIBLE,
) -> Contour | None:
    """Return the contour on Re z = t.

    It is None if the integrand does not decay soon enough, if K(t) is infinite or contradicted by the losses' own values, or if t is so
    large or so small that the integrand at y = 0 is not a positive double. It is also None for the reasons of `factor_without_bulk`.

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
    # A stack cannot be divided into its bulk and the rest, so the losses stay separate for that.
    tilted = [(_tilted(loss, t), count) for loss, count in (losses if factor is factor_without_bulk else stacked(losses))]
    cumulant, error_bound = _cumulant(tilted, t, float(cumulants[0]), step_count)
    if not math.isfinite(error_bound) or t * t == 0.0:
        return None
    if epsilon is None:
        epsilon = float(saddle(np.array([cumulant]), log_delta, np.array([t]))[0])
    log_wanted = log_delta - cumulant + t * epsilon  # log of delta relative to e^{K - t eps}, like the sums over nodes
    log_far = cumulants[1:] - cumulant + log_hockey(far)
    step = _node_distance(t, far, log_far - (far - t) * epsilon - log_wanted, log_delta, negligible)
    moments = _moments(tilted)
    # The curvature of the integrand's log modulus at y = 0: the variance, and 1/t^2 and 1/(1+t)^2 from the factors 1/z and 1/(z+1).
    width = 1.0 / math.sqrt(moments.variance + 1.0 / (t * t) + 1.0 / ((1.0 + t) * (1.0 + t)))
    wanted = Wanted(width=width, step=step, target=negligible + log_wanted, t=t, epsilon=epsilon, log_wanted=log_wanted)
    integrand = (factor or whole_factor)(tilted, step_count, wanted)
    if integrand is None or not integrand.log_tail < LARGEST_LOG_TAIL:
        return None
    nodes = _evaluated(integrand, t, step, step_count, moments.angle_slope + abs(moments.mean) + abs(epsilon))
    if nodes is None:
        return None
    capped = (1.0 + t) * math.exp(log_lost)  # most by which K of a capped loss may be too large
    return Contour(
        t=t,
        step=step,
        cumulant=cumulant,
        cumulant_error=CUMULANT_SLACKS * SLACK * cumulant + error_bound + capped,
        mean=moments.mean,
        y=nodes.y,
        modulus=nodes.modulus,
        angle=nodes.angle,
        error=nodes.error,
        far=far,
        log_far=log_far,
        bulk_tilts=t + integrand.bulk_rises,
        log_bulk=integrand.log_bulk + log_hockey(t + integrand.bulk_rises),
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
    """Return the integrand at the nodes, or None if it is not a positive double at y = 0. `_rounding` says what the last two are."""
    y: Array = np.asarray(step * integrand.multiples, dtype=float)
    log_integrand = integrand.log_factor - np.log(t + 1j * y) - np.log(t + 1.0 + 1j * y)
    modulus = np.exp(log_integrand.real)
    if not 0.0 < modulus[0] < math.inf:
        return None
    error = _rounding(modulus, y, integrand.omitted, step_count, angle_slope, step)
    missing_terms = _missing_terms(integrand, y, t, step)
    if len(y) > LONG:  # an epsilon is found by many sums over the nodes, so negligible ones are left out
        kept = modulus > LIGHT * float(modulus[0])
        error += float(modulus[~kept].sum()) * step / math.pi
        y, modulus, log_integrand = y[kept], modulus[kept], log_integrand[kept]
    return _Evaluated(y, modulus, log_integrand.imag, error + missing_terms + math.exp(integrand.log_tail))


def _node_distance(t: float, far: Array, log_bounds: Array, log_delta: float, negligible: float) -> float:
    """Return the largest node distance h at which the aliases on both sides are at most e^negligible of delta.

    On one side they fall by e^{-2 pi t / h}, and on the other one by e^{-2 pi (s - t) / h} for any s of `far`.

    log_bounds: logarithms of Chernoff's bounds on delta at the tilts `far`, relative to delta.
    """
    least = max(float(np.nanmin(np.append((log_bounds - negligible) / (far - t), math.inf))), LEAST_EXPONENT)
    return min(2.0 * math.pi * t / (ALIAS_MARGIN - negligible - log_delta), 2.0 * math.pi / least)


def _rounding(modulus: Array, y: Array, omitted: float, step_count: float, angle_slope: float, step: float) -> float:
    """Return a bound on the rounding error of the trapezoidal sum, plus the sum over the multiples that are left out.

    omitted: as in `Factor`. step_count: the number of steps.
    angle_slope: the angle at y is a sum of terms whose absolute values add up to at most angle_slope times y. They are rounded.
    """
    relative = MODULUS_ROUNDING + MODULUS_ROUNDING_SQRT * math.sqrt(step_count) + MODULUS_ROUNDING_STEP * step_count
    of_moduli = (relative * float(modulus.sum()) + (1.0 + relative) * omitted) * step / math.pi
    return of_moduli + ANGLE_ROUNDING * angle_slope * float(product(modulus, y)) * step / math.pi


def _missing_terms(integrand: Factor, y: Array, t: float, step: float) -> float:
    """Return a bound on the error of the trapezoidal sum from terms that losses left out of their characteristic functions.

    If there are such terms, the error is taken to occur at every multiple up to the last node, also at those that are left out.
    """
    frequencies: Array = step * np.arange(integrand.extent, dtype=float) if integrand.error_bound > 0.0 else y
    weights = 1.0 / np.hypot(t, frequencies) / np.hypot(t + 1.0, frequencies)
    return integrand.error_bound * float(weights.sum()) * step / math.pi


@remembered(128)
def _tilted(loss: Loss, t: float) -> Tilted:
    """Return the loss under the tilt t, from a cache, because several contours need it."""
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

    If every loss's `cgf` is exact up to SLACK (`exact_cgf`), `bound` is used, because it has more digits. If not, `bound` could give an
    upper bound on delta but no lower one. Then the sum of the parts' own K(t) is used, increased by its rounding error and that of its
    exponents.
    """
    own = math.fsum(n * part.cumulant for part, n in tilted)
    sizes = math.fsum(n * abs(part.cumulant) for part, n in tilted)
    means = math.fsum(n * abs(part.mean) for part, n in tilted)
    # By the Cauchy-Schwarz inequality this is at least the sum of the steps' own standard deviations.
    deviations = math.sqrt(step_count * math.fsum(n * part.variance for part, n in tilted))
    rounding = SLACK * (step_count + sizes) + OWN_ROUNDING * (1.0 + t) * (means + deviations)
    if not bound >= own - rounding:
        return math.nan, math.inf
    return (bound, 0.0) if all(part.exact_cgf for part, _ in tilted) else (own + rounding, 2.0 * rounding)


def log_hockey(s: Array) -> Array:
    """Return log of s^s / (1+s)^{s+1}, the largest value of (1 - e^{eps - L})+ over e^{s (L - eps)}, with all digits at a large s."""
    return np.asarray(-s * np.log1p(1.0 / s) - np.log1p(s))


class Factor(NamedTuple):
    """The characteristic function of the composition, or of a part of it.

    log_factor: its logarithm at the nodes. log_tail: logarithm of a bound on the integral beyond the nodes.
    multiples: the nodes, as multiples of the node distance from 0 on. extent: the number of multiples up to the last node.
    omitted: a bound on the sum of the moduli of the integrand at the multiples in between that are left out.
    bulk_rises, log_bulk: values of s - t, and bounds on K(s) - K(t) with the K(s) of the bulk that is left out; empty if there is none.
    error_bound: a bound on the absolute error at any node from terms that losses left out.
    """

    log_factor: ComplexArray
    log_tail: float
    multiples: IndexArray
    bulk_rises: Array
    log_bulk: Array
    error_bound: float = 0.0
    omitted: float = 0.0
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


MakeFactor = Callable[
    [Parts, float, Wanted], Factor | None
]  # `whole_factor` or `factor_without_bulk`; the float is the number of steps


def whole_factor(tilted: Parts, step_count: float, wanted: Wanted) -> Factor | None:
    """Return the characteristic function of the whole composition, or None if it does not decay soon enough."""
    most = max(MAX_NODES // len(tilted), ENOUGH_NODES)
    laid_out = most * SIEVED_MORE if any(may_sieve(part, n) for part, n in tilted) else most

    def decay(y: Array) -> Array:
        """Return an upper bound on the log modulus of the product at every frequency from y on."""
        return np.asarray(sum((n * part.decay(y) for part, n in tilted), DECAY_ROUNDING * step_count + 0.0 * y))

    end = _end(decay, wanted, laid_out)
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
        bulk_rises=np.zeros(0),
        log_bulk=np.zeros(0),
        error_bound=_error_bound(tilted),
        omitted=nodes.omitted,
        extent=count,
    )


def _by_work(part: tuple[Tilted, int]) -> tuple[int, float]:
    """Return a key that sorts parts.

    Parts of few terms come first, by falling variance, because they may leave few nodes for the others. Then come the parts that can be
    computed at these nodes alone (`pointwise`), and then the others.
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
    omitted: a bound on the sum of the moduli of the integrand at the multiples that are left out, without the factor e^{K(t) - t eps}.
    """

    def __init__(self, wanted: Wanted, count: int, index: IndexArray | None) -> None:
        """Begin with the nodes of `index`, or with all `count` multiples if it is None."""
        self._wanted = wanted
        hold(count if index is None else len(index))
        self.index: IndexArray = np.arange(count) if index is None else index
        # The sieve leaves out nodes whose modulus is below LIGHT times that at y = 0, which is 1 / (t (t+1)).
        self.omitted = (count - len(self.index)) * LIGHT / (wanted.t * (wanted.t + 1.0))
        self.log_factor: ComplexArray = np.zeros(len(self.index), dtype=complex)

    def multiply(self, part: Tilted, n: int, log_error: float) -> None:
        """Multiply by the characteristic function of `n` copies of a part. log_error: as in `Tilted.centred`."""
        step, last = self._wanted.step, int(self.index[-1]) + 1
        if SPARSE * len(self.index) < last and getattr(part, "pointwise", False):
            values: ComplexArray = part.centred_at(step, self.index, log_error)  # type: ignore[attr-defined]
        else:
            values = part.centred(step, last, log_error)
            values = values if len(self.index) == last else values[self.index]
        self.log_factor = self.log_factor + n * values
        if last > FEW_MULTIPLES:
            self._drop()

    def _drop(self) -> None:
        """Leave out the nodes at which the integrand is negligible, except the first one."""
        t, y = self._wanted.t, self._wanted.step * self.index
        modulus = np.exp(self.log_factor.real) / (np.hypot(t, y) * np.hypot(t + 1.0, y))
        kept = ~(modulus <= LIGHT * float(modulus[0]))  # NaN is kept, so that it is not taken for a small number
        self.omitted += float(modulus[~kept].sum())
        self.index, self.log_factor = self.index[kept], self.log_factor[kept]


def factor_without_bulk(
    tilted: Parts, step_count: float, wanted: Wanted, levels: Sequence[float] = BULK_LEVELS, negligible: float = NEGLIGIBLE
) -> Factor | None:
    """Return phi^n - B^n, the characteristic function of the composition without its bulk.

    It is None if epsilon is not positive, if a part can be neither divided nor left whole or if all must be left whole, if none of the
    levels serves, or if the difference does not decay soon enough.

    The first of `levels`, which are shares of epsilon, is used at which delta of the bulk alone is at most e^negligible, relative. A part
    with a method `rise`, which bounds K(s) - K(t) of the whole part, is not divided. Its characteristic function is a factor of both phi^n
    and B^n, and its modulus is at most 1.
    """
    if wanted.epsilon <= 0.0:
        return None
    undivided: list[tuple[Any, int]] = [(part, n) for part, n in tilted if hasattr(part, "rise")]
    divisible: list[tuple[Any, int]] = [(part, n) for part, n in tilted if not hasattr(part, "rise")]
    if not divisible or not all(hasattr(part, "split") for part, _ in divisible):
        return None
    rises = np.geomspace(*BULK_RISES) / wanted.epsilon
    log_undivided = sum((n * part.rise(rises) for part, n in undivided), 0.0 * rises)
    # One logarithm has an absolute error, which counts as often as the step, however little the step's loss.
    sizes = math.fsum(n * (abs(part.mean) + math.sqrt(part.variance)) for part, n in tilted)
    rounding = SLACK * (step_count + np.abs(log_undivided)) + OWN_ROUNDING * (1.0 + wanted.t + rises) * sizes
    for share in levels:
        divided = [(part.split(share * wanted.epsilon), n) for part, n in divisible]
        log_bulk = log_undivided
        for (halves, n), (part, _) in zip(divided, divisible, strict=True):
            log_bulk = log_bulk + n * (halves.bulk_cgf(rises) + rises * part.mean)
        log_bulk = log_bulk + rounding
        if float((log_bulk - rises * wanted.epsilon + log_hockey(wanted.t + rises)).min()) <= wanted.log_wanted + negligible:
            break
    else:
        return None
    end = _end(lambda y: np.logaddexp.reduce([math.log(n) + halves.decay(y) for halves, n in divided]), wanted, ENOUGH_NODES)
    if end is None:
        return None
    last_frequency, log_tail = end
    count = math.ceil(last_frequency / wanted.step) + 1
    log_phi, log_ratio = np.zeros(count, dtype=complex), np.zeros(count, dtype=complex)  # logs of phi^n and B^n / phi^n
    log_error = NEGLIGIBLE - math.log(step_count)
    for halves, n in divided:
        log_phi_of_one, log_ratio_of_one = halves.centred(wanted.step, count, log_error, log_error + min(wanted.log_wanted, 0.0))
        log_phi, log_ratio = log_phi + n * log_phi_of_one, log_ratio + n * log_ratio_of_one
    for part, n in undivided:
        log_phi = log_phi + n * part.centred(wanted.step, count, log_error)
    # log(phi^n - B^n) is log phi^n + log(1 - B^n / phi^n). Where phi^n is much smaller, so that the ratio could overflow, it is computed as
    # log B^n + log(1 - phi^n / B^n) with the sign -1, e^{i pi}.
    bulk_is_larger = log_ratio.real > 1.0
    log_difference = np.log(-np.expm1(np.where(bulk_is_larger, -log_ratio, log_ratio)))
    return Factor(
        log_factor=log_phi + log_difference + np.where(bulk_is_larger, log_ratio + 1j * math.pi, 0.0),
        log_tail=log_tail,
        multiples=np.arange(count),
        bulk_rises=rises,
        log_bulk=log_bulk,
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

    The bound is the integral of e^{decay(Y)} / y^2 over both sides, and one node distance times its first term. nodes: most multiples of
    the node distance up to Y.
    """
    ends = wanted.width * END_RATIO ** np.arange(1, ENDS)
    ends = ends[ends <= nodes * wanted.step]
    for block in np.split(ends, [9, 18]):  # three calls of `decay` at most; usually an early frequency suffices
        if len(block):
            log_tail = decay(block) - np.log(math.pi * block) + np.log1p(wanted.step / block)
            enough = np.flatnonzero(log_tail <= wanted.target)
            if len(enough):
                return float(block[enough[0]]), float(log_tail[enough[0]])
    return None
