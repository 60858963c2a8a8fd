"""The meaning of a guarantee: bounds on an attacker's error rates, advantage and posterior belief, and the epsilon of groups.

Every number holds for any attack on the release, and comes from the whole privacy profile, not from one epsilon.
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
from dpcli.numerics.work import limited

ALPHAS = (0.0, 0.0001, 0.001, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
PRIORS = (0.01, 0.5)
GROUPS = (1, 2, 4)
SMALL_DELTA = 1e-4  # small next to the false positive rates that matter
STEEPEST = 12.0  # slopes of the trade-off curve beyond e^12 matter only to false positive rates below 1e-5


@dataclass(frozen=True, slots=True)
class Belief:
    """An observer whose belief that a given unit is in the data was `prior`.

    posterior: the highest belief after the release, except with probability `Meaning.exception`.
    success: probability that the best guess is right. blind: that probability without the release.
    """

    prior: float
    posterior: float
    success: float
    blind: float


@dataclass(frozen=True, slots=True)
class GroupMeaning:
    """The epsilon of units that change together, at the same delta; inf if none is certified, with the reason."""

    size: int
    epsilon: float
    reason: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Meaning:
    """A finite guarantee in terms of attacks; every bound errs toward the attacker.

    false_negatives: the least rate at each of `alphas`, false positive rates. advantage: the largest true minus false positive rate.
    pointwise: a privacy loss in nats that is exceeded with probability at most `exception`; inf if none is known.
    gaussian: mu of the noisiest Gaussian that is no more private at every epsilon of the curve up to `reach`.
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
    """Return the account of a pipeline and what it means; no meaning if no finite epsilon is certified.

    Args:
        delta: at which epsilon is bounded; as for `account` if None.
        priors: beliefs before the release that a unit is in the data, in (0, 1).

    Raises:
        InputError: as `account` does, and for priors out of range.
    """
    for prior in priors:
        if not 0.0 < prior < 1.0:
            raise InputError(f"--prior: expected a probability in (0, 1), found {prior!r}")
    result = account(pipeline, delta=delta)
    if math.isinf(result.upper):
        return result, None
    reach = _reach(result, result.delta)
    pure = pure_epsilon(result.pipeline, result.group_size)
    curve = _curve(result, result.delta, reach, pure, priors)
    pointwise, exception = _pointwise(curve, result.delta, pure)
    within = curve.epsilons <= reach
    return result, Meaning(
        account=result,
        curve=curve,
        alphas=ALPHAS,
        false_negatives=tuple(trade_off(curve, ALPHAS).tolist()),
        advantage=float(curve.upper[0]),
        pointwise=pointwise,
        exception=exception,
        beliefs=tuple(_belief(curve, prior, pointwise) for prior in priors),
        gaussian=gaussian_above(curve.epsilons[within], curve.upper[within]),
        reach=reach,
        groups=tuple(_group(result, size) for size in GROUPS),
    )


def _reach(outcome: Account, delta: float) -> float:
    """Return an epsilon whose delta is small: the headline's, or the one at SMALL_DELTA if the headline's delta is larger."""
    if delta <= SMALL_DELTA:
        return outcome.upper
    further = account(outcome.pipeline, delta=SMALL_DELTA).upper
    return max(outcome.upper, further) if math.isfinite(further) else outcome.upper


def _curve(account: Account, delta: float, reach: float, pure: float, priors: Sequence[float]) -> ProfileCurve:
    """Return the profile from epsilon 0 to past `reach`, denser up to STEEPEST, with the headline in it."""
    dense = min(reach, STEEPEST)
    odds = [abs(_log_odds(prior)) for prior in priors]
    grid = np.concatenate([np.linspace(0.0, dense, 97), np.linspace(dense, 1.25 * reach, 49), [account.upper, *odds]])
    if pure <= 1.25 * reach:
        grid = np.append(grid, pure)  # a corner of the trade-off curve
    curve = profile(account.pipeline, np.unique(grid), account.group_size, min(delta, SMALL_DELTA), (0.0, *odds))
    upper = np.where(curve.epsilons >= account.upper, np.minimum(curve.upper, delta), curve.upper)
    return ProfileCurve(curve.epsilons, upper, np.minimum(curve.lower, upper), curve.delta)


def _log_odds(prior: float) -> float:
    """Return log((1 - p) / p)."""
    return math.log1p(-prior) - math.log(prior)


def _pointwise(curve: ProfileCurve, delta: float, pure: float) -> tuple[float, float]:
    """Return a privacy loss and the probability that it is exceeded: delta if the profile implies a loss there, else twice delta.

    `pure`, which is never exceeded, is returned with probability 0 if it is no larger. An (epsilon, delta) pair alone bounds no loss at
    probability delta: its delta is an expectation, not a probability.
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
    """Apply Bayes' rule to the largest likelihood ratio, and bound the average success of the best guess.

    The best guess is right with probability max over tests of (1-p)(1-a) + p(1-f(a)), which for p <= 1/2 is 1 - p + p delta(log((1-p)/p)).
    """
    posterior = 1.0 / (1.0 + math.exp(min(_log_odds(prior) - pointwise, 700.0)))
    blind, rare = max(prior, 1.0 - prior), min(prior, 1.0 - prior)
    gain = curve.at(abs(_log_odds(prior)))
    return Belief(prior, min(posterior * (1.0 + 1e-15), 1.0), min(blind + rare * gain, 1.0), blind)


def _group(outcome: Account, size: int) -> GroupMeaning:
    if size == outcome.group_size:
        return GroupMeaning(size, outcome.upper)
    try:
        epsilon = account(outcome.pipeline, delta=outcome.delta, group_size=size).upper
    except InputError as error:
        return GroupMeaning(size, math.inf, str(error))
    return GroupMeaning(size, epsilon, "no finite epsilon can be certified" if math.isinf(epsilon) else None)
