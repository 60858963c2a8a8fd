"""Error bounds of choices (answers/choice_error.py) against the laws of the choices: modes, top-k, quantiles, thresholds."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpcli.base.errors import InputError
from dpcli.release.answers.choice_error import peeling_slack, probability_beyond, slack, threshold_slack
from dpcli.release.noise.laws import scale_of
from dpcli.release.noise.selection import SparseVectorLaws, above_threshold, rank_scores, top_k
from tests.cases import of_each
from tests.release.privacy.chances import covered, flipped, softmax

SHARES = [Fraction(1, 2), Fraction(1, 4), Fraction(9, 10)]


@of_each("scale", [0.2, 1.0, 7.5])
@of_each("t", [0, 1, 6])
def test_what_is_beyond_is_attained_and_never_passed(scale: float, t: int) -> None:
    """By the worst scores exactly; by others, and by permute-and-flip, less often."""
    bound = probability_beyond(5, scale, t)
    assert 1.0 - softmax([0] + [-(t + 1)] * 4, scale)[0] == pytest.approx(bound, rel=1e-12)
    for scores in itertools.product((0, -t, -t - 1, -t - 3), repeat=4):
        every = [0, *scores]
        for law in (softmax(every, scale), list(flipped(every, scale).values())):
            assert math.fsum(p for p, score in zip(law, every, strict=True) if score < -t) <= bound * (1 + 1e-12)


@of_each("candidates", [1, 2, 50, 10**6])
@of_each("scale", [0.1, 2.0, 1e6])
@of_each("failure", [0.5, 0.05, 1e-12])
def test_the_slack_is_the_smallest(candidates: int, scale: float, failure: float) -> None:
    t = slack(candidates, scale, failure)
    assert probability_beyond(candidates, scale, t) <= failure
    assert t == 0 or probability_beyond(candidates, scale, t - 1) > failure


@of_each("scale", [1e15, 1e60])
def test_the_slack_of_a_scale_that_tells_no_neighbours_apart_is_found(scale: float) -> None:
    assert probability_beyond(1000, scale, slack(1000, scale, 0.05)) <= 0.05


@pytest.mark.needs("opendp")
def test_the_k_best_are_within_their_slack() -> None:
    scores, k, epsilon = (0, 3, 9, 10, 10, 11), 3, 0.8
    t, good = peeling_slack(6, k, scale_of(1, epsilon), 0.05), 0
    for _ in range(300):
        left, kept = dict(enumerate(scores)), True
        for index in top_k(scores, k, 1, epsilon):
            kept &= left[index] >= max(left.values()) - t
            del left[index]
        good += kept
    covered([True] * good + [False] * (300 - good), 0.95, wider=0.05)


@of_each("share", SHARES)
@of_each("scale", [0.7, 5.0])
def test_a_quantile_is_within_its_ranks(share: Fraction, scale: float) -> None:
    """Exactly, from the law of the choice: for every small table, an empty one too."""
    t = slack(4, scale, 0.05)
    for counts in itertools.product((0, 1, 7, 40), repeat=4):
        scores = rank_scores(counts, share)
        assert math.fsum(p for p, score in zip(softmax(scores, scale), scores, strict=True) if score < -t) <= 0.05 * (1 + 1e-12)


@of_each("failure", [0.0, 1.0, -0.1, math.nan])
def test_an_impossible_probability_is_refused(failure: float) -> None:
    with pytest.raises(InputError, match="probability of failure"):
        slack(3, 1.0, failure)


@pytest.mark.needs("opendp")
@pytest.mark.parametrize("answers", [1, 3])
def test_answers_of_the_threshold_are_right_beyond_its_slack(answers: int) -> None:
    laws = SparseVectorLaws(epsilon=1.0, sensitivity=1, answers=answers)
    counts, bar = [0, 90, 100, 110, 200], 100
    a = threshold_slack(laws, len(counts), 0.9)
    hits = []
    for _ in range(200):
        said = zip(above_threshold(counts, bar, laws), counts, strict=False)
        hits.append(all(count >= bar - a if yes else count < bar + a for yes, count in said))
    covered(hits, 0.9, wider=0.1)


def test_the_slack_of_one_query_is_that_of_two_noises() -> None:
    """P(nu > a + b) for nu, b discrete Laplace, by the double sum: the smaller a fails."""
    laws = SparseVectorLaws(epsilon=1.0, sensitivity=1)
    a = threshold_slack(laws, 1, 0.95)
    b = np.arange(-120.0, 121.0)
    mass = laws.threshold.at_least(b) - laws.threshold.at_least(b + 1.0)
    for each, fails in ((a, False), (a - 1, True)):
        wrong = float(mass @ np.minimum(laws.query.at_least(each + 1.0 - np.abs(b)), 1.0))
        assert (wrong > 0.05) == fails


@of_each("epsilon", [0.5, 1e-3, 1e-9, 1e-13])
def test_the_slack_of_a_wide_noise_grows_with_it(epsilon: float) -> None:
    """In proportion, and in bounded memory."""
    assert threshold_slack(SparseVectorLaws(epsilon=epsilon, sensitivity=1), 5, 0.95) * epsilon == pytest.approx(18.4, rel=0.02)
