"""The exact accountant: contour integrals of the cumulant generating function, with certified bounds on both sides.

Consumes each step's privacy losses L = log dP/dQ in both directions, with their cumulant generating functions K(z) = log E_P[e^{z L}] and
their characteristic functions under a tilt, the measure e^{t L - K(t)} dP. Bounds: lower and upper. They are bounds for the dominating
pairs (P, Q). The lower one is shown only if every mechanism attains its pair, so that some neighbouring datasets really have these two
laws. The accountant refuses losses of which only the tails are known, more than 10,000 different parts, and delta = 0 or delta above 0.5
after stated deltas are set aside.

This file takes the larger bound of the two directions, and answers questions that need no contour. numerics/contour/certified.py has the
methods for the others.
"""

from __future__ import annotations

import math
from contextlib import suppress

from dpcli.accountants.base import Accountant, Bound, PrivacyProfile, Steps, join_equal_steps, require_positive
from dpcli.accountants.directions import Losses, directions, smallest_bound
from dpcli.accountants.renyi_curve import renyi_shares
from dpcli.base.errors import NotRepresentable
from dpcli.base.stated import total  # exact for stated decimals, rounded up once
from dpcli.base.values import dataclass
from dpcli.mechanisms.stated.atoms import TwoPointLoss
from dpcli.numerics.arrays import np
from dpcli.numerics.contour.certified import (
    UNKNOWN,  # bounds that say nothing
    EpsilonBounds,
    epsilon_between,
    log_delta_between,
    other_direction,
    share_of_first,
)
from dpcli.numerics.contour.integral import log_hockey, total_cgf
from dpcli.numerics.roots import minimise_unimodal
from dpcli.numerics.tails import single_epsilon, single_log_delta, total_variation
from dpcli.numerics.work import allowance, remembered  # remembered: a cache that charges an answer each time

NO_CONTOUR = "no contour certifies an interval closer than 1 %"
# Accuracy.
MAX_LOG_DELTA = math.log(0.5)  # logarithm of the largest delta for which a contour is built
LOG_LEAST = -740.0  # logarithm of about the smallest delta that a floating-point number can hold
CHERNOFF_EXCESS = 2.0  # a contour is built for a log delta this far below Chernoff's bound, which is above delta
# Relative distance from the largest loss within which no contour is needed. Soundness too: it far exceeds the rounding of a probability.
NEAR = 1e-9
WIDE = 0.01  # relative width above which an interval is refused, because it is not exact
# Speed.
MAX_PARTS = 10_000  # most different losses of one direction; more would take too long
FEW_PARTS = 16  # most losses whose total variation distances are computed first, which is quick and may suffice
DIRECTION_SHARE = 0.6  # share of the work that is left that delta of one direction may take, so that the other one has some too


@dataclass(frozen=True, slots=True)
class ExactProfile(PrivacyProfile):
    """The privacy profile of a composition: the larger of the two directions' bounds, each computed on its own contour."""

    steps: Steps

    def epsilon(self, delta: float) -> Bound:
        return smallest_bound(lambda steps: ExactProfile(steps)._epsilon(delta), self.steps)

    def delta(self, epsilon: float) -> Bound:
        return smallest_bound(lambda steps: ExactProfile(steps)._delta(epsilon), self.steps)

    def _epsilon(self, delta: float) -> Bound:
        lower, upper, tilt = self._best(delta)
        return Bound(upper, lower, {} if math.isnan(tilt) else {"tilt": tilt})

    def _best(self, delta: float) -> tuple[float, float, float]:
        """Return (lower, upper, t): the larger lower bound of the two directions, the larger upper bound, and the tilt of the latter.

        The tilt t is the real part of the contour (numerics/contour/integral.py); it is NaN if no contour was needed.

        Raises NotRepresentable if delta is not in (0, 0.5], if the loss is infinite with a larger probability than delta, or if the
        interval is wider than WIDE.
        """
        require_positive(delta, "the contour integral")
        if delta > 0.5:
            raise NotRepresentable("it needs delta of at most 0.5")
        first, *others = self._sides()
        # The rest of the work is for the other direction.
        with allowance(math.inf, share=share_of_first(first, others, math.log(delta))):
            by_side = [ends_of(first, math.log(delta))]
        for losses in others:
            # If the first epsilon is 0, `ends_of` shows by the total variation distance that the other is 0 too, without any CGF.
            bounds = other_direction(losses, by_side[0], math.log(delta)) if by_side[0].upper > 0.0 else UNKNOWN
            if bounds is not None:  # None: the epsilon of this direction is no larger than that of the first
                by_side.append(ends_of(losses, math.log(delta)) if bounds is UNKNOWN else bounds)
        lower = max(side.lower for side in by_side)
        worse = max(by_side, key=lambda side: side.upper)
        upper = worse.upper
        if not math.isfinite(upper):
            raise NotRepresentable("the loss is infinite with a larger probability than delta")
        if upper - lower > WIDE * upper:
            raise NotRepresentable(NO_CONTOUR)
        return lower, upper, worse.tilt

    def _sides(self) -> tuple[Losses, ...]:
        """Return the losses of each direction. Raises NotRepresentable if there are more than MAX_PARTS."""
        sides = directions(join_equal_steps(self.steps))
        if len(sides[0]) > MAX_PARTS:
            raise NotRepresentable(f"more than {MAX_PARTS} different parts would take too long")
        return sides

    def _delta(self, epsilon: float) -> Bound:
        lower, upper = 0.0, 0.0
        refused: NotRepresentable | None = None
        for losses in self._sides():
            low, high = 0.0, _exp_up(log_chernoff(losses, epsilon))
            try:
                with allowance(math.inf, share=DIRECTION_SHARE):
                    low, high = delta_on(losses, epsilon)
            except NotRepresentable as error:  # Chernoff's bound suffices if the other direction is much worse
                refused = error
            lower, upper = max(lower, low), max(upper, high)
        if refused and lower < (1.0 - WIDE) * upper:
            raise refused
        return Bound(min(upper, 1.0), min(lower, upper, 1.0))

    def shares(self, delta: float) -> tuple[float, ...]:
        """Return each step's share of K at the tilt t, or at 1 if there is none. K(t) is t times the Renyi divergence of order t + 1."""
        tilt = self._best(delta)[2]
        return renyi_shares(self.steps, 2.0 if math.isnan(tilt) else 1.0 + tilt)


def _near_the_largest_loss(losses: Losses, log_delta: float) -> EpsilonBounds | None:
    """Return bounds on epsilon if delta is far below the probability of the largest loss; otherwise None.

    Also returns None if some loss has no atom at its largest value, or if rounding would make the bounds too wide.

    For the largest loss L, delta(L) = 0 and delta(L - x) >= P(L) (1 - e^{-x}). Stated epsilons are added as decimals, so that a sum that
    meets a cap exactly does not exceed it.
    """
    largest = log_probability = rounding = 0.0
    for loss, count in losses:
        if not hasattr(loss, "outcomes"):  # an optional method that returns the atoms and densities of the pair
            return None
        from dpcli.numerics.contour.outcomes import Outcomes

        outcomes = loss.outcomes()
        if not isinstance(outcomes, Outcomes) or not len(outcomes.log_ratio):
            return None
        top = int(np.argmax(outcomes.log_ratio))
        ratio, reference = float(outcomes.log_ratio[top]), float(outcomes.log_reference[top])
        if not all(piece.largest <= ratio + 1e-14 * abs(ratio) for piece in outcomes.pieces):  # pieces: densities of the pair
            return None
        largest, log_probability = largest + count * ratio, log_probability + count * (ratio + reference)
        # An atom's loss may be a difference of two logarithms, which loses digits. With pieces (Laplace noise) it is accurate.
        rounding += count * (1e-13 * abs(ratio) if outcomes.pieces else 1e-14 * (abs(ratio) + abs(reference)))
    # As 1 - e^{-x} >= x / 2, epsilon >= L - x for x = 2 delta / P(L) <= 1. The relative error of log_probability is far below NEAR.
    log_distance = log_delta - log_probability * (1.0 + NEAR) + rounding + math.log(2.0)
    if not 0.0 < largest < math.inf or rounding > NEAR * largest or log_distance > math.log(min(NEAR * largest, 1.0)):
        return None
    upper = largest + rounding
    if all(isinstance(loss, TwoPointLoss) for loss, _ in losses):
        upper = min(upper, total((count, loss.epsilon) for loss, count in losses if isinstance(loss, TwoPointLoss)))
    return EpsilonBounds(min(largest - math.exp(log_distance) - rounding, upper), upper, math.nan)


@remembered(32)
def ends_of(losses: Losses, log_delta: float) -> EpsilonBounds:
    """Return bounds on epsilon at e^log_delta in one direction.

    Ways that need no contour come first: the tails of a single step, a delta that covers the total variation distance, and a delta far
    below the probability of the largest loss. Raises NotRepresentable if no contour certifies an interval.
    """
    if is_single(losses):
        with suppress(NotRepresentable):
            return EpsilonBounds(*single_epsilon(losses[0][0], log_delta), math.nan)
    if len(losses) <= FEW_PARTS and _is_total_variation_within(losses, log_delta):
        return EpsilonBounds(0.0, 0.0, math.nan)
    bounds = None
    with suppress(NotRepresentable):  # a loss may have a contour without a table of its outcomes
        bounds = _near_the_largest_loss(losses, log_delta)
    bounds = bounds or epsilon_between(losses, log_delta)
    if bounds is None:
        raise NotRepresentable(NO_CONTOUR)
    return bounds


def _is_total_variation_within(losses: Losses, log_delta: float) -> bool:
    """Return whether the steps' total variation distances, which add up to a bound on delta(0), sum to at most e^log_delta."""
    distance = 0.0
    with suppress(NotRepresentable):
        for loss, n in losses:
            distance += n * total_variation(loss) * (1.0 + 1e-14)  # the factor covers the rounding of a sum of FEW_PARTS terms
            if _log(distance) > log_delta:  # often after the first loss, which saves the others
                return False
        return _log(distance) <= log_delta  # false if the distance is NaN
    return False


def total_variation_of(losses: Losses) -> float:
    """Return an upper bound on delta(0): the sum of the steps' total variation distances, or 1 if one of them is unknown."""
    with suppress(NotRepresentable):
        return min(math.fsum(n * total_variation(loss) for loss, n in losses) * (1.0 + 1e-14), 1.0)  # rounded up
    return 1.0


def _log(x: float) -> float:
    """Return log x; -inf for x <= 0, and NaN for NaN."""
    return -math.inf if x <= 0.0 else math.log(x)


def is_single(losses: Losses) -> bool:
    """Return whether the composition is one run of one mechanism."""
    return len(losses) == 1 and losses[0][1] == 1


@remembered(32)
def delta_on(losses: Losses, epsilon: float) -> tuple[float, float]:
    """Return (lower, upper) bounds on delta(epsilon) in one direction.

    A single step is computed from its tails. Otherwise Chernoff's bound decides where the contour lies, and replaces its upper bound if it
    is smaller. Without a contour, the lower bound is 0.
    """
    if is_single(losses):
        with suppress(NotRepresentable):
            low, high = single_log_delta(losses[0][0], epsilon)
            return math.exp(low), _exp_up(min(high, 0.0))
    chernoff = log_chernoff(losses, epsilon)
    if len(losses) <= FEW_PARTS:
        chernoff = max(min(chernoff, _log(total_variation_of(losses))), LOG_LEAST)
    low, high = log_delta_between(losses, epsilon, min(chernoff - CHERNOFF_EXCESS, MAX_LOG_DELTA))
    high = chernoff if math.isnan(high) else min(high, chernoff)
    return 0.0 if math.isnan(low) else math.exp(min(low, high)), _exp_up(high)


def _exp_up(x: float) -> float:
    """Return e^x for x <= 0, above the error of the exponential. It is positive even where e^x is below all doubles."""
    return math.nextafter(math.exp(x) * (1.0 + 1e-15), math.inf)


def log_chernoff(losses: Losses, epsilon: float) -> float:
    """Return Chernoff's upper bound on log delta(epsilon), by (1 - e^{eps - L})+ <= e^{z (L - eps) + log_hockey(z)}. It is at most 0."""
    _, least = minimise_unimodal(lambda z: total_cgf(losses, z) - z * epsilon + log_hockey(z), rounds=2)  # over the orders z
    return min(least, 0.0)


ACCOUNTANT = Accountant(
    name="exact",
    title="contour integral, certified",
    source="Alghamdi et al. 2022, arXiv:2208.09595; Zhu, Dong, Wang 2022, arXiv:2106.08567, Theorem 10; proof: dpcli explain accountants",
    compose=ExactProfile,
    heavy=True,  # its work grows with the difficulty of the question
    finite=True,  # it needs finite losses, so stated deltas are set aside before
    cells=lambda parts: 1e5 + 5e4 * parts,  # estimated work for this many different mechanisms
)
