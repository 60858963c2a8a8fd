"""The meaning of a guarantee: bounds on an attacker's error rates, advantage and posterior belief, and the epsilon of groups.

`dpcli explain FILE` and `dpcli report` print the result of `meaning`. Each number holds for any attack on the release, and is derived from
the whole privacy profile, which is delta as a function of epsilon (curve.py): a single epsilon would allow the attacker more. Every bound
errs in favour of the attacker. The *reach* is the largest epsilon that matters: that of the headline, or that at SMALL_DELTA if the file's
delta is larger. The profile is computed a little beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpcli.analysis.account import Account, account
from dpcli.analysis.curve import ProfileCurve, profile, pure_epsilon, trade_off
from dpcli.base.errors import InputError
from dpcli.file.pipeline.model import Pipeline
from dpcli.numerics.arrays import np
from dpcli.numerics.closed.trade_off import gaussian_above, pointwise_epsilon
from dpcli.numerics.work import allowance, limited

# False positive rates at which the trade-off curve is tabulated. They, the priors and the groups are arbitrary.
ALPHAS = (0.0, 0.0001, 0.001, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
PRIORS = (0.01, 0.5)  # beliefs before the release, by default
GROUPS = (1, 2, 4)  # sizes of groups
# Largest share of the work left (numerics/work.py) that one group, which is often hard, may take, so that the next has some too.
GROUP_SHARE = 0.5
SMALL_DELTA = 1e-4  # a delta that is small compared with most false positive rates of the table; it touches accuracy
# Above this epsilon the points are sparse: slopes of the trade-off curve above e^12 matter only at false positive rates below 1e-5.
STEEPEST = 12.0
# The extent and the density of the curve. More points make its bounds slightly tighter and take longer; all are sound.
BEYOND = 1.25  # the largest epsilon of the curve, as a multiple of the reach
DENSE_POINTS, SPARSE_POINTS = 97, 49  # numbers of epsilons of the curve up to STEEPEST, and from there on
LARGEST_EXPONENT = 700.0  # e^x is finite up to this
ROUNDED_UP = 1.0 + 1e-15  # factor that keeps a result an upper bound in spite of rounding errors


@dataclass(frozen=True, slots=True)
class Belief:
    """The belief of an observer that a given unit is in the data.

    prior: the belief before the release.
    posterior: an upper bound on the belief after the release, which holds except with probability `Meaning.exception`.
    success: an upper bound on the probability that the observer's best guess is right.
    blind: probability that the best guess without the release is right.
    """

    prior: float
    posterior: float
    success: float
    blind: float


@dataclass(frozen=True, slots=True)
class GroupMeaning:
    """The guarantee for a group of units that change together.

    size: number of units.
    epsilon: upper bound on epsilon at the delta of the account; inf if none is certified.
    reason: why no bound is certified; None if one is.
    """

    size: int
    epsilon: float
    reason: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Meaning:
    """A finite guarantee in terms of attacks. Every bound errs in favour of the attacker.

    alphas: false positive rates.
    false_negatives: lower bound on the false negative rate at each of `alphas`.
    advantage: upper bound on the difference of true and false positive rate.
    pointwise: a privacy loss in nats that is exceeded with probability at most `exception`; inf if none is known.
    exception: upper bound on the probability that the loss exceeds `pointwise`.
    gaussian: the smallest mu of a Gaussian that is no more private than the pipeline at every epsilon of the curve up to `reach`.
    reach: largest epsilon for which `gaussian` holds.
    """

    account: Account
    curve: ProfileCurve
    alphas: tuple[float, ...]
    false_negatives: tuple[float, ...]
    advantage: float
    pointwise: float
    exception: float
    beliefs: tuple[Belief, ...]
    gaussian: float
    reach: float
    groups: tuple[GroupMeaning, ...]


@limited
def meaning(pipeline: Pipeline, delta: float | None = None, priors: Sequence[float] = PRIORS) -> tuple[Account, Meaning | None]:
    """Return the account of a pipeline and its meaning. The meaning is None if no finite epsilon is certified.

    delta: the delta at which epsilon is bounded; if None, the delta that `account` chooses.
    priors: beliefs, in (0, 1), before the release that a unit is in the data.

    Raises:
        InputError: as for `account`, or if a prior is out of range.
    """
    for prior in priors:
        if not 0.0 < prior < 1.0:
            raise InputError(f"--prior: expected a probability in (0, 1), found {prior!r}")
    result = account(pipeline, delta=delta)
    if math.isinf(result.upper):
        return result, None
    reach = _reach(result)
    pure = pure_epsilon(result.pipeline, result.group_size)
    curve = _curve(result, reach, pure, priors)
    pointwise, exception = _pointwise(curve, result.delta, pure)
    is_in_reach = curve.epsilons <= reach
    return result, Meaning(
        account=result,
        curve=curve,
        alphas=ALPHAS,
        false_negatives=tuple(trade_off(curve, ALPHAS).tolist()),
        advantage=float(curve.upper[0]),  # delta at epsilon 0
        pointwise=pointwise,
        exception=exception,
        beliefs=tuple(_belief(curve, prior, pointwise) for prior in priors),
        gaussian=gaussian_above(curve.epsilons[is_in_reach], curve.upper[is_in_reach]),
        reach=reach,
        groups=tuple(_group(result, size) for size in GROUPS),
    )


def _reach(result: Account) -> float:
    """Return the epsilon at the account's delta, or at SMALL_DELTA if it is smaller and epsilon is finite there."""
    if result.delta <= SMALL_DELTA:
        return result.upper
    at_small_delta = account(result.pipeline, delta=SMALL_DELTA).upper
    return max(result.upper, at_small_delta) if math.isfinite(at_small_delta) else result.upper


def _curve(result: Account, reach: float, pure: float, priors: Sequence[float]) -> ProfileCurve:
    """Return the privacy profile from epsilon 0 to beyond `reach`. Its points are denser up to STEEPEST, and include the headline."""
    end_of_dense, last = min(reach, STEEPEST), BEYOND * reach
    log_odds = [abs(_log_odds(prior)) for prior in priors]
    dense, sparse = np.linspace(0.0, end_of_dense, DENSE_POINTS), np.linspace(end_of_dense, last, SPARSE_POINTS)
    corner = [pure] if pure <= last else []  # the trade-off curve has a corner at it
    epsilons = np.unique(np.concatenate([dense, sparse, [result.upper], log_odds, corner]))
    printed_points = (0.0, *log_odds)  # the delta at 0 is the advantage, and those at the log odds give the beliefs
    curve = profile(result.pipeline, epsilons, result.group_size, min(result.delta, SMALL_DELTA), printed_points)
    # The headline is an (epsilon, delta) pair of the pipeline, too.
    upper = np.where(curve.epsilons >= result.upper, np.minimum(curve.upper, result.delta), curve.upper)
    return ProfileCurve(curve.epsilons, upper, np.minimum(curve.lower, upper), curve.delta)


def _log_odds(prior: float) -> float:
    """Return log((1 - p) / p)."""
    return math.log1p(-prior) - math.log(prior)


def _pointwise(curve: ProfileCurve, delta: float, pure: float) -> tuple[float, float]:
    """Return a privacy loss in nats and an upper bound on the probability that it is exceeded.

    The probability is delta if the profile implies a finite loss for it, and 2 delta otherwise. If the pure epsilon `pure`, which is never
    exceeded, is not larger than that loss, it is returned with probability 0. An (epsilon, delta) pair alone does not bound the loss with
    probability delta, since its delta is an expectation and not a probability.
    """
    probability = delta
    loss = pointwise_epsilon(curve.epsilons, curve.upper, delta)
    if math.isinf(loss) and 2.0 * delta < 1.0:
        probability = 2.0 * delta
        loss = pointwise_epsilon(curve.epsilons, curve.upper, probability)
    if math.isfinite(pure) and pure <= loss:
        return pure, 0.0
    return loss, probability


def _belief(curve: ProfileCurve, prior: float, pointwise: float) -> Belief:
    """Return the belief of an observer with this prior.

    The posterior follows from Bayes' rule with the largest likelihood ratio, e^pointwise. With prior p and trade-off function f, the best
    guess is right with probability max over a of (1-p)(1-a) + p(1-f(a)). For p <= 1/2 this is 1 - p + p delta(log((1-p)/p)).
    """
    log_odds = _log_odds(prior)
    posterior = 1.0 / (1.0 + math.exp(min(log_odds - pointwise, LARGEST_EXPONENT)))
    smaller, blind = sorted((prior, 1.0 - prior))
    success = blind + smaller * curve.at(abs(log_odds))
    return Belief(prior, min(posterior * ROUNDED_UP, 1.0), min(success, 1.0), blind)


def _group(single: Account, size: int) -> GroupMeaning:
    """Return the guarantee for a group of `size` units, given the account of the pipeline."""
    if size == single.group_size:
        return GroupMeaning(size, single.upper)
    try:
        with allowance(math.inf, share=GROUP_SHARE):
            epsilon = account(single.pipeline, delta=single.delta, group_size=size).upper
    except InputError as error:
        return GroupMeaning(size, math.inf, str(error))
    return GroupMeaning(size, epsilon, "no finite epsilon can be certified" if math.isinf(epsilon) else None)
