"""Bounds on delta(epsilon) if one big loss among many small ones decides it: few steps, or a low sampling rate.

In this case the loss of a step is nearly log-normal, and the CGF at the tilt that suits delta is determined by outcomes that never happen.
The principle of a single big jump says that a large sum of heavy-tailed terms almost always contains one large term. So each step's outcome
x is made big with a probability b(x), which rises smoothly from 0 to 1 as the loss passes epsilon (cut.py). Let A be the event that some
step's outcome is big. Given A, and given its complement, the outcomes still have the likelihood ratio e^S of the whole composition. So

    delta(eps) = E_P[(1 - e^{eps - S})+ ; no A]  +  P(A) - e^eps Q(A)  +  E_Q[(e^eps - e^S)+ ; A].

* The first term is the contour integral of the small parts. They are a positive measure of mass at most 1, so every certificate of
  integral.py holds for them. Their CGF is finite at every tilt.
* The second term has a closed form. Q(A) = 1 - prod (1 - Q(b))^n, and P(A) likewise. P(A) - Q(A) is computed directly, so that
  nothing cancels.
* The third term is at least 0. For every lambda > 0, (e^eps - e^s)+ <= e^eps h(lambda) e^{-lambda (s - eps)} with
  h(lambda) = lambda^lambda / (1 + lambda)^{1 + lambda}. So the term is at most e^{(1 + lambda) eps} h(lambda) E_Q[e^{-lambda S}; A]. This
  expectation is prod B^n - prod C^n, where B = E_Q[e^{-lambda L}], and C is the same integral over the small part. The bound is negligible,
  because big losses lie well above epsilon. If epsilon is larger than the level of the cut, e^eps Q(A) still bounds the term.
* A loss whose lower tail is as long as the upper one has no finite moment B. Let D be the event that no step's loss lies in the lower tail,
  defined by the mirror image of b. On D the bound holds with B and C restricted to D. Off D, e^eps Q(A, not D) is added, which is tiny
  because it needs two rare outcomes.

For some steps the big outcomes are left out instead of belonging to A (cut_rows.py). Let E be the event that some step has such an outcome.
delta(eps) exceeds the mean without E by at most P(E). Without E the decomposition holds, with P(A) and Q(A) smaller by shares P(E) and
Q(E) <= P(E). So an error of P(E) (1 + e^eps Q(A)) on both sides covers this.

If one loss near epsilon decides, the bulk of the tilted small parts outweighs it by many orders of magnitude, and their transform hardly
decays. Then the contour is built from S^n - B^n (`factor_without_bulk` in integral.py), where S is a small part and B its bulk below a
share of epsilon. The share is so low that B^n alone contributes nearly nothing to delta. The choice of the share and the tilt decides only
how narrow the bounds are; they hold for every choice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product

from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.contour.cut import CutLoss, UncutLoss
from dpcli.numerics.contour.cut_rows import CutRows
from dpcli.numerics.contour.integral import Contour, Method, build, factor_without_bulk, log_hockey, whole_factor
from dpcli.numerics.quadrature import SLACK
from dpcli.numerics.roots import bracket_root
from dpcli.numerics.work import allowance

BULK_SHARES = (0.9, 0.7, 0.48, 0.32, 0.24, 0.16, 0.1, 0.06)  # shares of epsilon that are tried as the largest loss of the bulk
TILTS = 40  # number of tilts that are tried
LOG_BULK_DELTA = -24.0  # logarithm of the largest delta of the bulk alone, relative to the least delta
BULK_GAIN = 8.0  # if leaving the bulk out lowers log of Chernoff's bound by more, the contour without bulk is tried first
TILT_SLACK = 6.0  # a tilt may be chosen if its log of Chernoff's bound is at most this much above the best one
CHERNOFF_EXCESS = 20.0  # log delta is assumed to be at most this much below log of Chernoff's bound
# Cells for the integrand with its bulk if one without bulk is possible: a number for each part, at most this total, which is raised to a
# number for each part if that is more.
CELLS_PER_PART, CELLS_IN_TOTAL, LEAST_CELLS_PER_PART = 4e5, 5e6, 2e5
LOG_FINE = -21.0  # logarithm of the cut-off and aliased parts that are allowed, relative to delta
LOG_COARSE = -17.0  # the same quantity for a second attempt, or with many parts
FEW = 8  # largest number of parts for which LOG_FINE is tried
MANY = 64  # with more than FEW and at most MANY parts, an attempt may use half of the work that is left; with more, all of it
# Values of lambda, in units of 1 / epsilon.
POWERS = (0.01, 1.0, 4.0, 8.0, 11.0, 16.0, 19.0, 23.0, 27.0, 32.0, 45.0, 64.0, 90.0, 128.0)
MAX_EPSILON = 300.0  # largest epsilon for which the second term does not overflow

Divided = CutLoss | CutRows | UncutLoss
Cut = Sequence[tuple[Divided, int]]  # the parts of a composition
Way = tuple[float, float, Method]  # arguments of `build`: the tilt, about log delta, and the factor


def small_contour(losses: Cut, log_delta: float | None, epsilon: float, level: float, floor: float) -> Contour | None:
    """Return a contour of the small parts near `epsilon`, or None if none decays soon enough. Arguments as of `jump`."""
    z: Array = np.geomspace(0.2 / level, 120.0 / epsilon, TILTS)
    totals = log_hockey(z) - z * epsilon + sum(n * loss.cgf(z) for loss, n in losses)
    totals = np.where(np.isfinite(totals), totals, np.inf)
    chernoff = min(float(totals.min()), 0.0)
    ways: list[Way] = [(float(z[totals.argmin()]), chernoff - 2.0, whole_factor)]
    bulk = _without_bulk(losses, epsilon, z, totals, floor)
    if bulk is not None:
        bound, way = bulk
        ways.append(way)
        if chernoff - bound > BULK_GAIN:
            ways.reverse()
    cut_losses = max(math.fsum(loss.cut_losses for loss, _ in losses), 1.0)
    quick = min(CELLS_PER_PART * cut_losses, max(CELLS_IN_TOTAL, LEAST_CELLS_PER_PART * cut_losses))
    tries = tuple(product((LOG_FINE, LOG_COARSE) if cut_losses <= FEW else (LOG_COARSE,), ways))
    for after, (negligible, (t, log_least, factor)) in zip(reversed(range(len(tries))), tries, strict=True):
        cells = quick if factor is whole_factor and len(ways) > 1 else math.inf
        with suppress(NotRepresentable), allowance(cells, share=0.5 if after and FEW < cut_losses <= MANY else 1.0):
            at = log_least if log_delta is None else log_delta
            contour = build(losses, at, t, factor, epsilon=epsilon, negligible=negligible)
            if contour is not None:
                return contour
    return None


def _without_bulk(losses: Cut, epsilon: float, z: Array, totals: Array, floor: float) -> tuple[float, Way] | None:
    """Return Chernoff's bound without the bulk, and the way to the contour, for the highest share that serves.

    It is None if at every share the bulk alone may reach epsilon. totals: exponents of Chernoff's bound with the bulk, at the tilts z.
    """
    far = np.geomspace(20.0, 3e3, TILTS) / epsilon
    for share in BULK_SHARES:
        spare = sum((n * loss.bulk_cgf(far, share * epsilon) for loss, n in losses), log_hockey(far) - far * epsilon)
        if not float(np.nanmin(np.append(spare, math.inf))) <= floor + LOG_BULK_DELTA:
            continue
        rest = np.logaddexp.reduce([math.log(n) + loss.log_beyond(z, share * epsilon) for loss, n in losses])
        bounds = totals + np.minimum(rest, 0.0)
        best = _cheapest(z, np.where(np.isfinite(bounds), bounds, np.inf), totals, floor)
        if not math.isfinite(bounds[best]):
            return None
        bound = float(bounds[best])
        return bound, (
            float(z[best]),
            max(bound - CHERNOFF_EXCESS, floor),
            partial(factor_without_bulk, levels=(share,), negligible=math.inf),
        )
    return None


def _cheapest(z: Array, chernoff: Array, totals: Array, floor: float) -> int:
    """Return the index of the tilt that allows the largest node distance, among the tilts at which Chernoff's bound is nearly the best.

    Where the CGF has begun to rise steeply, a slightly smaller tilt makes the aliases much smaller.
    """
    farther = z[None, :] - z[:, None]
    with np.errstate(all="ignore"):
        gaps = np.where(farther > 0.0, (totals[None, :] - floor + CHERNOFF_EXCESS) / farther, np.inf)
        steps = np.minimum(z / (CHERNOFF_EXCESS - floor), 1.0 / np.fmax(np.nanmin(gaps, axis=1), 1e-300))
    return int(np.where(chernoff <= float(chernoff.min()) + TILT_SLACK, steps, 0.0).argmax())


@dataclass(frozen=True, slots=True, eq=False)
class Jump:
    """Bounds on delta near one epsilon, in the notation of the module's docstring.

    small: the contour of the small parts. mass_difference: P(A) - Q(A). big_mass: Q(A).
    power, log_moments: values of lambda, and log of h(lambda) (prod B^n - prod C^n) at them.
    left_tail_mass: a bound on Q(A, not D). left_out_mass: a bound on P(E), the probability of big outcomes that are left out.
    """

    small: Contour
    mass_difference: float
    big_mass: float
    power: Array
    log_moments: Array
    left_tail_mass: float
    left_out_mass: float

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Return (lower, upper) bounds on log delta(epsilon). They are (-inf, inf) above MAX_EPSILON."""
        if epsilon > MAX_EPSILON:
            return -math.inf, math.inf
        low, high = self.small.log_delta(epsilon)
        weight = math.expm1(epsilon) * self.big_mass
        second_term = self.mass_difference - weight
        error = 4.0 * SLACK * (self.mass_difference + abs(weight)) + self.left_out_mass * (1.0 + math.exp(epsilon) * self.big_mass)
        log_most = epsilon + math.log(self.big_mass) if self.big_mass > 0.0 else -math.inf  # log of e^eps Q(A), which may exceed 1
        log_bound = float(np.nanmin(np.append(self.log_moments + (1.0 + self.power) * epsilon, math.inf)))
        bound = math.exp(min(log_bound, 700.0)) + math.exp(epsilon) * self.left_tail_mass
        third_term = min(math.exp(min(log_most, 700.0)), bound)
        lower = math.exp(min(low, 0.0)) * (1.0 - 1e-15) + second_term - error
        upper = (math.exp(high) * (1.0 + 1e-15) if high < 0.0 else math.inf) + second_term + error + third_term
        return (math.log(lower) if lower > 0.0 else -math.inf), (math.log(upper) if upper > 0.0 else math.inf)

    def epsilon(self, log_delta: float, near: float) -> tuple[float, float]:
        """Return (lower, upper) bounds on the epsilon at which delta is e^log_delta.

        If no lower bound can be proved within a factor of 3 of `near`, the result is (0, inf). If only the upper one cannot, it is inf.
        """
        low, _ = bracket_root(lambda e: self.log_delta(e)[0] - log_delta, near / 3.0, 3.0 * near, rtol=1e-13)
        if self.log_delta(low)[0] < log_delta:
            return 0.0, math.inf
        high, margin = low, 1e-13 * low
        while (excess := self.log_delta(high)[1] - log_delta) > 0.0:
            margin = max(margin, min(1.05 * excess / self.small.t, low))
            high, margin = high + margin, 2.0 * margin
            if not high < 3.0 * near:
                return low, math.inf
        return low, high


def jump(losses: Cut, log_delta: float | None, epsilon: float, level: float, floor: float | None = None) -> Jump | None:
    """Return the bounds near `epsilon`, or None if the contour of the small parts does not decay soon enough.

    Args:
        losses: the cut losses and how often each is added.
        log_delta: about log delta(epsilon), or None if it is unknown.
        epsilon: where the bounds are wanted.
        level: the loss at which the losses were cut, at least epsilon.
        floor: the least possible log delta; if None, `log_delta`.
    """
    small = small_contour(losses, log_delta, epsilon, level, (log_delta or 0.0) if floor is None else floor)
    if small is None:
        return None
    t = small.t
    error = math.fsum(n * loss.error_bound(t) for loss, n in losses)
    log_small_mass = math.fsum(n * loss.log_small_mass for loss, n in losses)
    log_mass_ratio = math.fsum(n * loss.log_mass_ratio for loss, n in losses)
    power = np.array(POWERS) / epsilon
    return Jump(
        small=replace(small, cumulant=small.cumulant + error, cumulant_error=2.0 * error + max(small.cumulant_error, 0.0)),
        mass_difference=-math.exp(log_small_mass) * math.expm1(log_mass_ratio),
        big_mass=-math.expm1(log_small_mass),
        power=power,
        log_moments=log_hockey(power) + _log_moment_difference(losses, power),
        left_tail_mass=_left_tail_mass(losses),
        left_out_mass=math.fsum(n * loss.left_out_mass for loss, n in losses) * (1.0 + 1e-9),
    )


def _log_moment_difference(losses: Cut, power: Array) -> Array:
    """Return an upper bound on log of (prod B^n - prod C^n), which is at most prod B^n sum n (B - C) / B."""
    total, shares = np.zeros_like(power), []
    for loss, n in losses:
        log_whole, log_share = loss.log_inverse_moments(power)
        total = total + n * log_whole
        shares.append(math.log(n) + log_share)
    return np.asarray(total + np.logaddexp.reduce(shares))


def log_third_term(losses: Cut, epsilon: float) -> float:
    """Return the logarithm of the bound on the third term. A cut at a higher level makes it smaller."""
    power, big = np.array(POWERS) / epsilon, math.fsum(n * loss.big_mass for loss, n in losses)
    bounds = log_hockey(power) + _log_moment_difference(losses, power) + (1.0 + power) * epsilon
    return float(np.nanmin(np.append(bounds, epsilon + math.log(big) if big > 0.0 else -math.inf)))


def _left_tail_mass(losses: Cut) -> float:
    """Return a bound on Q(A, not D): a product of probabilities for two different steps, plus the probability of both in one step."""
    big = math.fsum(n * loss.big_mass for loss, n in losses)
    low = math.fsum(n * loss.left_tail_mass() for loss, n in losses)
    both_in_one_step = math.fsum(n * loss.big_left_tail_mass() for loss, n in losses)
    return (big * low + both_in_one_step) * (1.0 + 1e-9)
