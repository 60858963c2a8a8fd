"""Bounds on delta(epsilon) if one big loss among many small ones decides it: few steps, or a low sampling rate.

jump_levels.py divides the losses (cut.py) and asks `jump` for the bounds. They hold for any division. K is the CGF of a loss,
log E_P[e^{z L}], a tilt a point t > 0 at which it is used, and a contour the integral of integral.py, which needs a finite K(t). Chernoff's
bound on log delta at t is K(t) - t eps plus `log_hockey` of t.

Here a step's loss is nearly log-normal. At the tilt that suits delta, outcomes that never happen determine its CGF, and one contour for the
whole loss gives wide bounds. But a large sum of heavy-tailed terms almost always contains one large term (the principle of a single big
jump: Foss, Korshunov, Zachary 2013, An Introduction to Heavy-Tailed and Subexponential Distributions). So big outcomes are treated apart.

Notation. L is the loss of one step, S the sum over all steps. An outcome x of a step is big with probability b(x), which rises smoothly
from 0 to 1 as the loss passes epsilon (cut.py). A is the event that the outcome of some step is big.

Statement.

    delta(eps) = E_P[(1 - e^{eps - S})+ ; no A]  +  [P(A) - e^eps Q(A)]  +  E_Q[(e^eps - e^S)+ ; A].

Proof. b is the same function under P and Q, so the likelihood ratio remains e^S given A, and given its complement. On A, use

    (1 - e^{eps - S})+ = 1 - e^{eps - S} + (e^{eps - S} - 1)+   and   E_P[f e^{-S}; A] = E_Q[f; A].

First term. It is a contour integral of the small parts: each step's measure (1 - b) P. This measure has mass at most 1, so all bounds of
integral.py hold. Its CGF is finite at every tilt.

Second term. Q(A) = 1 - prod (1 - Q(b))^n, and likewise P(A). P(A) - Q(A) is computed from P(b) - Q(b), so that no digits cancel.

Third term. It is at least 0. Two upper bounds:

1. (e^eps - e^S)+ <= e^eps, so it is at most e^eps Q(A).
2. For every lambda > 0, (1 - u)+ <= h u^-lambda with h = lambda^lambda / (1 + lambda)^{1 + lambda}. With u = e^{S - eps}, the term is at
   most e^{(1 + lambda) eps} h E_Q[e^{-lambda S}; A].
3. E_Q[e^{-lambda S}; A] = prod B^n - prod C^n, where B = E_Q[e^{-lambda L}], and C is the same integral over the small part.

The second bound is negligible if big losses lie well above epsilon. If epsilon is above the level of the cut, the first one is better.

A long lower tail. Then B may be infinite. Let D be the event that no step's loss is in the lower tail, which is cut off by the mirror image
of b. On D, item 2 holds with B and C restricted to D. Off D, the first bound adds e^eps Q(A, not D). It needs two rare outcomes.

Big outcomes that are left out. For some steps (cut_rows.py), big outcomes are in neither A nor the small part. Let E be the event that such
an outcome occurs.

1. 0 <= (1 - e^{eps - S})+ <= 1, so delta exceeds its mean without E by at most P(E).
2. E and A are about different steps. So without E, the second term is P(A) (1 - P(E)) - e^eps Q(A) (1 - Q(E)).
3. Q(E) <= P(E), because big losses are positive. So an error of P(E) (1 + e^eps Q(A)) on both sides covers items 1 and 2.

Contours without bulk. If one loss near epsilon decides, the bulk of the small parts outweighs it by many orders of magnitude at the tilt,
and the transform hardly decays. Then the transform of the bulk, the losses below a share of epsilon, is subtracted from that of the small
parts (`factor_without_bulk` in integral.py). The share is so low that the bulk alone adds nearly nothing to delta.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product
from typing import NamedTuple

from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.contour.cut import CutLoss, UncutLoss
from dpcli.numerics.contour.cut_rows import CutRows
from dpcli.numerics.contour.integral import Contour, MakeFactor, build, factor_without_bulk, log_hockey, whole_factor
from dpcli.numerics.quadrature import SLACK
from dpcli.numerics.roots import bracket_root
from dpcli.numerics.work import allowance

# All but MAX_EPSILON decide only how narrow the bounds are, and the work: the bounds hold for every tilt, bulk and lambda.
MAX_EPSILON = 300.0  # largest epsilon for which the second term does not overflow
BULK_SHARES = (0.9, 0.7, 0.48, 0.32, 0.24, 0.16, 0.1, 0.06)  # shares of epsilon that are tried as the largest loss of the bulk
TILTS = 40  # number of tilts that are tried
LEAST_TILT, LARGEST_TILT = 0.2, 120.0  # ends of their range, in units of 1 / level and of 1 / epsilon
BULK_TILTS = (20.0, 3e3)  # range of the tilts of Chernoff's bound on the bulk alone, in units of 1 / epsilon
LOG_BULK_DELTA = -24.0  # logarithm of the largest delta of the bulk alone, relative to the least delta
BULK_GAIN = 8.0  # the contour without bulk is tried first if it lowers log of Chernoff's bound by more
TILT_SLACK = 6.0  # a tilt may be chosen if its log of Chernoff's bound is at most this much above the best one
CHERNOFF_EXCESS = 20.0  # log delta is assumed to be at most this much below log of Chernoff's bound
USUAL_EXCESS = 2.0  # for a contour with the bulk, log delta is usually about this much below it
# Cells for the integrand with its bulk if one without bulk is possible: a number for each part, at most this total, which is raised to a
# number for each part if that is more.
CELLS_PER_PART, CELLS_IN_TOTAL, LEAST_CELLS_PER_PART = 4e5, 5e6, 2e5
SEARCH_RATIO = 3.0  # bounds are searched within this factor of the estimate of epsilon
LOG_FINE = -21.0  # logarithm of the cut-off and aliased parts that are allowed, relative to delta
LOG_COARSE = -17.0  # the same for a second attempt, or with many parts
FEW_PARTS = 8  # largest number of parts for which LOG_FINE is tried
MANY_PARTS = 64  # from FEW_PARTS + 1 to MANY_PARTS parts, an attempt may use half of the work that is left; with more, all of it
# Values of lambda, in units of 1 / epsilon.
POWERS = (0.01, 1.0, 4.0, 8.0, 11.0, 16.0, 19.0, 23.0, 27.0, 32.0, 45.0, 64.0, 90.0, 128.0)

Divided = CutLoss | CutRows | UncutLoss
Cut = Sequence[tuple[Divided, int]]  # the divided losses of a composition, each with its number of copies


class Plan(NamedTuple):
    """A way to a contour of the small parts.

    t: the tilt. log_chernoff: logarithm of Chernoff's bound there. log_delta: an estimate. factor: the integrand, with or without bulk.
    """

    t: float
    log_chernoff: float
    log_delta: float
    factor: MakeFactor


def small_contour(losses: Cut, log_delta: float | None, epsilon: float, level: float, floor: float) -> Contour | None:
    """Return a contour of the small parts near `epsilon`, or None if none decays soon enough.

    The arguments are those of `jump`, but floor must be a number. All plans are tried with LOG_FINE first, if there are few parts.
    """
    z: Array = np.geomspace(LEAST_TILT / level, LARGEST_TILT / epsilon, TILTS)
    log_bounds = log_hockey(z) - z * epsilon + sum(n * loss.cgf(z) for loss, n in losses)
    log_bounds = np.where(np.isfinite(log_bounds), log_bounds, np.inf)
    log_chernoff = min(float(log_bounds.min()), 0.0)
    plans = [Plan(float(z[log_bounds.argmin()]), log_chernoff, log_chernoff - USUAL_EXCESS, whole_factor)]
    bulkless = _plan_without_bulk(losses, epsilon, z, log_bounds, floor)
    if bulkless is not None:
        plans.append(bulkless)
        if log_chernoff - bulkless.log_chernoff > BULK_GAIN:
            plans.reverse()
    cut_losses = max(math.fsum(loss.cut_losses for loss, _ in losses), 1.0)  # the number of parts
    few_cells = min(CELLS_PER_PART * cut_losses, max(CELLS_IN_TOTAL, LEAST_CELLS_PER_PART * cut_losses))
    attempts = tuple(product((LOG_FINE, LOG_COARSE) if cut_losses <= FEW_PARTS else (LOG_COARSE,), plans))
    for number, (negligible, plan) in enumerate(attempts, start=1):
        cells = few_cells if plan.factor is whole_factor and bulkless is not None else math.inf
        share = 0.5 if number < len(attempts) and FEW_PARTS < cut_losses <= MANY_PARTS else 1.0
        with suppress(NotRepresentable), allowance(cells, share=share):
            estimate = plan.log_delta if log_delta is None else log_delta
            contour = build(losses, estimate, plan.t, plan.factor, epsilon=epsilon, negligible=negligible)
            if contour is not None:
                return contour
    return None


def _plan_without_bulk(losses: Cut, epsilon: float, z: Array, log_bounds: Array, floor: float) -> Plan | None:
    """Return the plan of a contour without the bulk, for the first of BULK_SHARES at which the bulk alone hardly reaches epsilon.

    It is None if there is no such share. log_bounds: logarithms of Chernoff's bound with the bulk, at the tilts z.
    """
    far = np.geomspace(*BULK_TILTS, TILTS) / epsilon
    for share in BULK_SHARES:
        bulk_bounds = sum((n * loss.bulk_cgf(far, share * epsilon) for loss, n in losses), log_hockey(far) - far * epsilon)
        if not float(np.nanmin(np.append(bulk_bounds, math.inf))) <= floor + LOG_BULK_DELTA:
            continue
        # The share of the tilted mass in outcomes with a step beyond the bulk, by which Chernoff's bound falls without the bulk.
        log_beyond = np.logaddexp.reduce([math.log(n) + loss.log_beyond(z, share * epsilon) for loss, n in losses])
        without_bulk = log_bounds + np.minimum(log_beyond, 0.0)
        best = _cheapest(z, np.where(np.isfinite(without_bulk), without_bulk, np.inf), log_bounds, floor)
        log_chernoff = float(without_bulk[best])
        if not math.isfinite(log_chernoff):
            return None
        # The share has been found good enough here, so `factor_without_bulk` need not check it: its bounds hold for any share.
        factor = partial(factor_without_bulk, levels=(share,), negligible=math.inf)
        return Plan(float(z[best]), log_chernoff, max(log_chernoff - CHERNOFF_EXCESS, floor), factor)
    return None


def _cheapest(z: Array, without_bulk: Array, with_bulk: Array, floor: float) -> int:
    """Return the index of the tilt that allows the largest node distance, among those at which `without_bulk` is nearly the least.

    Where the CGF has begun to rise steeply, a slightly smaller tilt makes the aliases much smaller.

    without_bulk, with_bulk: logarithms of Chernoff's bound at the tilts z.
    """
    # Node distances without a common factor of 2 pi, by the rule of `_node_distance` (integral.py). It makes the aliases on both sides
    # small relative to delta; on one side, by Chernoff's bounds at all larger tilts.
    differences = z[None, :] - z[:, None]
    with np.errstate(all="ignore"):
        slopes = np.where(differences > 0.0, (with_bulk[None, :] - floor + CHERNOFF_EXCESS) / differences, np.inf)
        steps = np.minimum(z / (CHERNOFF_EXCESS - floor), 1.0 / np.fmax(np.nanmin(slopes, axis=1), 1e-300))
    return int(np.where(without_bulk <= float(without_bulk.min()) + TILT_SLACK, steps, 0.0).argmax())


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
        # Each mass has a relative error of about SLACK (quadrature.py).
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

        If no lower bound can be proved within SEARCH_RATIO of `near`, the result is (0, inf). If only the upper one cannot, it is inf.
        """
        low, _ = bracket_root(lambda e: self.log_delta(e)[0] - log_delta, near / SEARCH_RATIO, SEARCH_RATIO * near, rtol=1e-13)
        if self.log_delta(low)[0] < log_delta:
            return 0.0, math.inf
        # The upper end is searched upwards from the lower one. log delta falls with a slope of about the tilt, so the excess tells how far
        # to go, plus 5 %. The margin at least doubles each time, so that the search ends.
        high, margin = low, 1e-13 * low
        while (excess := self.log_delta(high)[1] - log_delta) > 0.0:
            margin = max(margin, min(1.05 * excess / self.small.t, low))
            high, margin = high + margin, 2.0 * margin
            if not high < SEARCH_RATIO * near:
                return low, math.inf
        return low, high


def jump(losses: Cut, log_delta: float | None, epsilon: float, level: float, floor: float | None = None) -> Jump | None:
    """Return the bounds near `epsilon`, or None if the contour of the small parts does not decay soon enough.

    Args:
        losses: the cut losses and how often each is added.
        log_delta: about log delta(epsilon), or None if it is unknown.
        epsilon: where the bounds are wanted.
        level: the loss at which the losses were cut, at least epsilon.
        floor: about the least possible log delta, to which the errors of the contour should be small; if None, `log_delta`, which is then
            known.
    """
    small = small_contour(losses, log_delta, epsilon, level, (log_delta or 0.0) if floor is None else floor)
    if small is None:
        return None
    # `cgf` of a divided loss errs by at most `error_bound` either way. So K is raised by it, and may then be too large by twice as much.
    error = math.fsum(n * loss.error_bound(small.t) for loss, n in losses)
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
    log_product, log_shares = np.zeros_like(power), []
    for loss, n in losses:
        log_b, log_share = loss.log_inverse_moments(power)
        log_product = log_product + n * log_b
        log_shares.append(math.log(n) + log_share)
    return np.asarray(log_product + np.logaddexp.reduce(log_shares))


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
