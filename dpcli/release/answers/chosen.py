"""How good a choice by noisy scores is, before any data are seen: for modes, the k best, and quantiles by rank."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcli.base.errors import InputError
from dpcli.release.noise.laws import failure_of


def slack(candidates: int, scale: float, failure: float) -> int:
    """The smallest whole t such that the choice scores at most t below the best one but with this probability, whatever the scores are.

    The odds of failure are those of all that are further below to those that are not, at most (m - 1) e^{-(t+1)/scale} to 1; that is
    attained by m - 1 scores at -(t + 1). So it is for the exponential mechanism; permute-and-flip is never worse (McKenna & Sheldon
    2020, arXiv:2010.12603).

    Args:
        candidates: m.
        scale: score range / epsilon.
        failure: probability, in (0, 1).
    """
    if not 0.0 < failure < 1.0:
        raise InputError(f"expected a probability of failure in (0, 1), found {failure!r}")
    if candidates < 2:
        return 0
    t = max(0, math.ceil(scale * (math.log(candidates - 1) + math.log1p(-failure) - math.log(failure))) - 1)
    low, high = t - 1, t
    while probability_beyond(candidates, scale, high) > failure:  # a wide scale tells no neighbouring numbers apart
        low, high = high, high + 2 * (high - low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if probability_beyond(candidates, scale, middle) > failure else (low, middle)
    return high


def probability_beyond(candidates: int, scale: float, t: int) -> float:
    """An upper bound of the probability that the choice scores more than t below the best, whatever the scores are."""
    if candidates < 2:
        return 0.0
    log_odds = math.log(candidates - 1) - (t + 1) / scale
    odds = math.exp(min(log_odds, 700.0))
    return odds / (1.0 + odds) * (1.0 + 1e-14)


def slack_of_each(candidates: int, k: int, scale: float, failure: float) -> int:
    """The same for k choices by peeling: each is within t of the best that was left then, all at once but with this probability."""
    return slack(candidates, scale, failure / k)


@dataclass(frozen=True, slots=True)
class RankEnds:
    """Two further choices whose results lie on either side of a quantile, at once with the confidence, whatever the data are.

    The lower one is chosen by `rank_scores` with shift -shift, the upper one with +shift; each is priced like the quantile's own choice.
    Some candidate always scores 0. So the lower choice holds a rank that is at most `shift - 1` away from a target `shift` below the one
    asked for, unless it fails, with half of the probability: then all below it are fewer than the share that is asked for, or it is the
    lowest candidate. Likewise the upper one. They are released as they are chosen: exchanged where they have crossed.
    """

    shift: int
    confidence: float


def rank_ends(candidates: int, scale: float, confidence: float) -> RankEnds:
    """How far from the rank the two ends are asked for, in units of a rank / b."""
    return RankEnds(slack(candidates, scale, 0.5 * failure_of(confidence)) + 1, confidence)
