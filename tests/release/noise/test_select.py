"""Choices with noise (noise/selection.py): drawn from the law that is priced, which costs what is charged; scores of quantiles."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import pytest

from dpcli.base.errors import InputError, InternalError
from dpcli.base.stated import stated
from dpcli.mechanisms.choice.exponential import BoundedRange, ExponentialSpec
from dpcli.mechanisms.choice.noisy_max import PermuteAndFlipSpec, SparseVectorSpec
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.release.noise.laws import scale_of, sigma_of
from dpcli.release.noise.selection import (
    SparseVectorLaws,
    above_threshold,
    count_range,
    exponential,
    exponential_sampler,
    permute_and_flip,
    permute_and_flip_sampler,
    rank_range,
    rank_scores,
    top_k,
)
from tests.cases import of_each
from tests.release.privacy.chances import Table, chi_square, flipped, loss, peeled, softmax, sparse

pytestmark = pytest.mark.needs("opendp")
SURE = 1e-9
DRAWS = 1000
SCORES = ((0,), (3, 3, 3), (0, 5, 4, -2), (10**15, 10**15 - 1, 0))
CHANGES = {
    Adjacency.ADD_REMOVE: lambda rows: itertools.chain(
        itertools.product(range(rows + 1), repeat=3), itertools.product(range(-rows, 1), repeat=3)
    ),
    Adjacency.REPLACE_ONE: lambda rows: (
        tuple(a - b for a, b in zip(new, old, strict=True))
        for new in itertools.product(range(rows + 1), repeat=3)
        for old in itertools.product(range(rows + 1), repeat=3)
    ),
}


def chosen(choose: Callable[[], object], count: int = DRAWS) -> list:
    return [choose() for _ in range(count)]


@pytest.mark.parametrize("scores", SCORES)
def test_exponential_has_its_law(scores: Sequence[int]) -> None:
    epsilon, score_range = 1.3, 2
    table: Table = dict(enumerate(softmax(scores, score_range / epsilon)))
    assert chi_square(chosen(lambda: exponential(scores, score_range, epsilon)), table) > SURE


@pytest.mark.sampled(1)
@pytest.mark.parametrize("scores", SCORES)
def test_permute_and_flip_has_its_law(scores: Sequence[int]) -> None:
    epsilon, score_range = 0.7, 1
    draws = chosen(lambda: permute_and_flip(scores, score_range, epsilon))
    assert chi_square(draws, flipped(scores, score_range / epsilon)) > SURE


def test_the_two_laws_differ_and_the_test_sees_it() -> None:
    scores, scale = (0, 1, 1, 2), 1.0
    draws = chosen(lambda: permute_and_flip(scores, 1, 1.0), 3000)
    assert chi_square(draws, dict(enumerate(softmax(scores, scale)))) < SURE


@pytest.mark.sampled(1)
@pytest.mark.parametrize("k", [1, 2, 4])
def test_top_k_peels(k: int) -> None:
    scores = (2, 0, 1, 1)
    assert chi_square(chosen(lambda: tuple(top_k(scores, k, 2, 1.0))), peeled(scores, k, 2.0)) > SURE


def dearest(law: Callable[[Sequence[int]], Table], adjacency: Adjacency, rows: int) -> float:
    """The largest loss over changes of three counts, from far apart, from near and from equal ones."""
    return max(
        loss(law(scores), law([a + b for a, b in zip(scores, change, strict=True)]))
        for scores in ((9, 9, 9), (0, 30, 60), (60, 30, 58), (9, 10, 60))
        for change in CHANGES[adjacency](rows)
    )


@pytest.mark.parametrize("adjacency", CHANGES)
@pytest.mark.parametrize("rows", [1, 2])
def test_a_choice_costs_what_is_charged(adjacency: Adjacency, rows: int) -> None:
    """By enumeration: at most epsilon, and that is nearly reached; with half the range it would be passed."""
    epsilon = 1.1
    scale = scale_of(count_range(rows, adjacency), epsilon)
    for spec, law in (
        (ExponentialSpec(epsilon=epsilon), lambda scores, scale: dict(enumerate(softmax(scores, scale)))),
        (PermuteAndFlipSpec(epsilon=epsilon), flipped),
    ):
        charged = spec.stated().approx_dp(0.0)
        assert charged == epsilon
        assert 0.97 * charged < dearest(lambda scores, law=law: law(scores, scale), adjacency, rows) <= charged * (1 + 1e-12)
        assert dearest(lambda scores, law=law: law(scores, scale / 2), adjacency, rows) > 1.8 * charged


@pytest.mark.parametrize("adjacency", CHANGES)
def test_losses_of_the_exponential_mechanism_are_of_bounded_range(adjacency: Adjacency) -> None:
    epsilon, scores = 0.8, (4, 7, 5)
    scale = scale_of(count_range(1, adjacency), epsilon)
    for change in CHANGES[adjacency](1):
        p, q = softmax(scores, scale), softmax([a + b for a, b in zip(scores, change, strict=True)], scale)
        losses = [math.log(a / b) for a, b in zip(p, q, strict=True)]
        assert max(losses) - min(losses) <= epsilon * (1 + 1e-12)


@of_each("epsilon", [0.01, 0.3, 1.0, math.pi])
@of_each("score_range", [1, 2, 19])
def test_opendp_asks_no_more_than_is_charged(epsilon: float, score_range: int) -> None:
    """Its map takes a sensitivity s for a range of 2 s, in doubles rounded up thrice."""
    scale = scale_of(score_range, epsilon)
    assert Fraction(score_range) / Fraction(scale) <= Fraction(epsilon)
    assert permute_and_flip_sampler(scale).map(score_range) <= 2 * epsilon * (1 + 1e-15)
    assert exponential_sampler(3, scale).map(score_range) <= 3 * BoundedRange(2 * epsilon).epsilon ** 2 / 8 * (1 + 2e-15)


def said(laws: SparseVectorLaws, counts: Sequence[int]) -> Table:
    return sparse(counts, 5, laws.threshold, laws.query, laws.answers)


@pytest.mark.parametrize("answers", [1, 2])
def test_sparse_vector_has_its_law_and_its_price(answers: int) -> None:
    laws = SparseVectorLaws(epsilon=1.7, sensitivity=1, answers=answers, threshold_share=0.4)
    charged = SparseVectorSpec(epsilon=1.7, answers=answers, threshold_share=0.4).stated().approx_dp(0.0)
    table = said(laws, (3, 5, 4))
    assert math.fsum(table.values()) == pytest.approx(1.0, abs=1e-10)
    assert chi_square(chosen(lambda: tuple(above_threshold((3, 5, 4), 5, laws)), 600), table) > SURE
    changes = list(itertools.product((-1, 0, 1), repeat=2))
    worst = max(
        loss(said(laws, start), said(laws, [a + b for a, b in zip(start, change, strict=True)]))
        for start in ((-40, 60), (5, 5))
        for change in changes
    )
    assert 0.25 * charged < worst <= charged * (1 + 1e-9)


def test_sparse_vector_takes_counts_of_any_size() -> None:
    laws = SparseVectorLaws(epsilon=1.0, sensitivity=1)
    assert above_threshold([-(2**90), 2**90, 2**90], 0, laws) == [False, True]
    assert above_threshold([], 0, laws) == []


@of_each("keys", [{"epsilon": 0.0}, {"sensitivity": 0}, {"answers": 0}, {"threshold_share": 1.0}])
def test_laws_of_nothing_are_refused(keys: dict) -> None:
    with pytest.raises(InputError, match="threshold_share in"):
        SparseVectorLaws(**{"epsilon": 1.0, "sensitivity": 1, **keys})


def test_a_score_that_is_too_large_is_not_quoted() -> None:
    """OpenDP's own refusal names the number."""
    with pytest.raises(ValueError, match=str(2**63 + 5)):
        exponential_sampler(1, 1.0)([2**63 + 5, 0])
    for choose in (exponential, permute_and_flip):
        with pytest.raises(InternalError) as refused:
            choose([2**63 + 5, 0], 1, 1.0)
        assert str(refused.value) == "a score exceeds 62 bits: nothing was released"


def test_what_cannot_be_chosen_is_refused() -> None:
    for choose in (lambda: exponential([], 1, 1.0), lambda: top_k([1, 2], 3, 1, 1.0), lambda: top_k([1, 2], 0, 1, 1.0)):
        with pytest.raises(InputError, match="a number to choose between 1 and"):
            choose()
    with pytest.raises(InputError, match="candidates to choose from"):
        permute_and_flip([], 1, 1.0)
    with pytest.raises(InputError, match="scale"):
        exponential([1, 2], 1, 1e-300)


@of_each("epsilon", [1e-6, 0.1, 1 / 3, 1.0, 7.3])
@of_each("sensitivity", [1, 3, 10**9, Fraction(7, 3)])
def test_scales_are_the_smallest_that_cost_no_more(epsilon: float, sensitivity: int | Fraction) -> None:
    scale, sigma = scale_of(sensitivity, epsilon), sigma_of(sensitivity, epsilon)
    most = stated(epsilon)
    assert Fraction(sensitivity) / Fraction(scale) <= most < Fraction(sensitivity) / Fraction(math.nextafter(scale, 0.0))
    assert Fraction(sensitivity) / (2 * Fraction(sigma) ** 2) <= most
    assert Fraction(sensitivity) / (2 * Fraction(math.nextafter(sigma, 0.0)) ** 2) > most


PARTS = [Fraction(text) for text in ("1/2", "1/4", "3/4", "2/3")]
Counts = tuple[int, ...]


def counts_of(candidates: int, most: int) -> Iterator[Counts]:
    return itertools.product(range(most + 1), repeat=candidates)


def changed(counts: Counts, adjacency: Adjacency) -> Iterator[Counts]:
    """One row more; or one row elsewhere."""
    for i in range(len(counts)):
        more = tuple(count + (j == i) for j, count in enumerate(counts))
        if adjacency is Adjacency.ADD_REMOVE:
            yield more
        else:
            yield from (tuple(count - (j == k) for j, count in enumerate(more)) for k in range(len(counts)) if counts[k] and k != i)


def widest(share: Fraction, adjacency: Adjacency) -> int:
    worst = 0
    for counts in itertools.chain(counts_of(2, 8), counts_of(3, 4)):
        for other in changed(counts, adjacency):
            moved = [a - b for a, b in zip(rank_scores(counts, share), rank_scores(other, share), strict=True)]
            worst = max(worst, max(moved) - min(moved))
    return worst


@of_each("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE])
@of_each("share", PARTS)
def test_the_range_is_what_is_reached(share: Fraction, adjacency: Adjacency) -> None:
    assert widest(share, adjacency) == rank_range(share, 1, adjacency)


@of_each("share", [Fraction(0), Fraction(1)])
@of_each("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE])
def test_the_ends_move_no_further(share: Fraction, adjacency: Adjacency) -> None:
    assert widest(share, adjacency) <= rank_range(share, 1, adjacency)


@of_each("share", PARTS)
def test_some_candidate_holds_the_rank(share: Fraction) -> None:
    for counts in counts_of(4, 2):
        assert max(rank_scores(counts, share)) == 0


def test_the_median_of_a_few() -> None:
    """Rows 1, 1, 2, 4, 4 at candidates 0 to 4: the third of five; each score is twice a distance in ranks."""
    assert rank_scores([0, 2, 1, 0, 2], Fraction(1, 2)) == [-5, -1, 0, -1, -1]


def test_rows_of_a_unit_add_up() -> None:
    assert rank_range(Fraction(1, 4), 3, Adjacency.ADD_REMOVE) == 18 and rank_range(Fraction(1, 4), 3, Adjacency.REPLACE_ONE) == 24
