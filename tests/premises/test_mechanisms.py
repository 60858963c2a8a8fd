"""Premises of mechanisms: each is broken by enumeration, and the delta that is claimed is then exceeded."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from dpcli.analysis.account import account
from dpcli.base.registry import MECHANISMS
from dpcli.exam.enumeration import additive_noise as noise
from dpcli.exam.enumeration import choice_releases as choices
from dpcli.exam.enumeration import predictions
from dpcli.exam.enumeration import thresholds as stability
from dpcli.exam.enumeration.drawing_records import Array, Records, Release, Situation, hockey_stick
from dpcli.exam.enumeration.matrices import largest_norm, toeplitz, tree
from dpcli.exam.enumeration.reference_releases import REACH
from dpcli.exam.enumeration.references import Reference
from dpcli.file.pipeline.read import parse
from tests.premises.broken import PLAIN, exceeds, laws, prices, references

PRICED = [kind for kind in MECHANISMS if kind != "post-processing"]
GIVEN = ("pure-dp", "approx-dp", "zcdp", "rdp")
MORE = (2, 8)  # records that change where one is stated: few bounds are so loose that they cover eight


def test_every_type_has_a_reference() -> None:
    assert [kind for kind in MECHANISMS if not any(references(kind))] == []


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", [kind for kind in PRICED if kind not in GIVEN])
def test_a_change_that_moves_more_than_is_stated_loses_more(kind: str) -> None:
    """More records, teachers or scores move than one, which is stated."""
    for reference in references(kind):
        for situation, claims in prices(reference):
            assert not any(exceeds(*laws(release, situation), claims) for release in reference.releases(situation)), situation
    assert any(_moved(kind, many) for many in MORE)


def _moved(kind: str, many: int) -> bool:
    return any(
        exceeds(*laws(release, moved, many), claims)
        for reference in references(kind)
        for situation, claims in prices(reference)
        for moved in [Situation(situation.adjacency, situation.draws, group=many)]
        for release in reference.releases(moved)
    )


@pytest.mark.parametrize("kind", GIVEN)
def test_a_statement_that_is_not_true_is_exceeded(kind: str) -> None:
    """Whether a record is there, answered with a tenth of lies."""
    for reference in references(kind):
        for situation, claims in prices(reference):
            p, q = laws(lambda records: np.array([0.9, 0.1] if "x" in records else [0.1, 0.9]), situation)
            assert exceeds(p, q, claims), situation


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", PRICED)
def test_who_knows_the_random_numbers_learns_more(kind: str) -> None:
    """Two laws p and q are drawn from one uniform number. Where it is known, what differs tells the datasets apart: delta is at least
    their total variation, whatever epsilon."""
    found = []
    for reference in references(kind):
        for situation, claims in prices(reference):
            for release in reference.releases(situation):
                p, q = laws(release, situation)
                found.append(0.5 * float(np.abs(p - q).sum()) > claims[-1])
    assert any(found)


@pytest.mark.parametrize("keys", [{"type": "discrete-gaussian", "sigma": 10.0}, {"type": "discrete-laplace", "scale": 10.0}])
def test_noise_that_two_queries_share_cancels(keys: dict[str, object]) -> None:
    """Both add one draw of noise, and one of them counts the record: the difference of the answers says whether it is there."""
    kind = str(keys["type"])
    statement = Reference(kind, {**{k: v for k, v in keys.items() if k != "type"}, "sensitivity": 1}, lambda situation: iter(()))
    for situation, claims in prices(statement, draws=replace(PLAIN, passes=2)):
        law = noise.lattice(lambda x: -np.abs(x) / 10.0, lambda records: 0.0, 60)(())
        both = {there: np.diag(law, 1 if there else 0)[:120, :120].ravel() for there in (True, False)}
        assert exceeds(both[True], both[False], claims), situation


def test_noise_of_floating_point_numbers_shows_what_it_was_added_to() -> None:
    """-log of 2^16 equal steps, times the scale of a claimed epsilon of 1: most sums of 0 and the noise are no sum of 1 and the noise
    (Mironov 2012, On significance of the least significant bits for differential privacy)."""
    uniform = (np.arange(1 << 16) + 0.5) / (1 << 16)
    draws = np.concatenate((np.log(uniform), -np.log(uniform)))
    only = ~np.isin(0.0 + draws, 1.0 + draws)
    assert only.mean() > 0.5  # delta at every epsilon; pure epsilon = 1 claims 0


def test_noise_that_is_moved_to_its_bound_shows_more() -> None:
    """A draw beyond the bound becomes the bound, which shows what the noise was added to."""
    for reference in references("truncated-laplace"):
        bound, scale = (float(str(reference.keys[key])) for key in ("bound", "scale"))
        for situation, claims in prices(reference):
            (total, *_) = noise.sums(situation.adjacency, "bare", 1.0)

            def moved(records: Records, total: noise.Sum = total, bound: float = bound, scale: float = scale) -> Array:
                edges = 0.1 * np.arange(-100.0, 100.0) - total(records)  # the bound is a multiple of 0.1
                below = np.where(edges <= -bound, 0.0, np.where(edges > bound, 1.0, stats.laplace.cdf(edges, scale=scale)))
                return np.diff(below)  # of the cells that contain their left edges

            assert exceeds(*laws(moved, situation), claims), situation
    for reference in references("truncated-discrete-laplace"):
        most, size = (int(str(reference.keys[key])) for key in ("bound", "sensitivity"))
        for situation, claims in prices(reference) if size == 1 else ():  # the losses of the others are larger than the epsilons
            (total, *_) = noise.sums(situation.adjacency, "bare", 1.0)

            def clamped(records: Records, total: noise.Sum = total, most: int = most) -> Array:
                weights = np.exp(-np.abs(np.arange(-60, 61)) / 2.0)
                kept = weights[60 - most : 61 + most].copy()
                kept[[0, -1]] += weights[: 60 - most].sum()
                return np.roll(np.pad(kept / weights.sum(), 20), int(total(records)))

            assert exceeds(*laws(clamped, situation), claims), situation


def test_a_record_that_chooses_its_own_contribution_moves_more() -> None:
    """A draw that depends on the record: the largest contribution, always."""
    for reference in references("gaussian-mixture"):
        largest = max(reference.keys["sensitivities"])  # type: ignore[call-overload]
        if len(reference.keys["sensitivities"]) > 1:  # type: ignore[arg-type]
            for situation, claims in prices(reference):
                (total, *_) = noise.sums(situation.adjacency, "contribution", largest)
                release = noise.additive(noise.normal(1.0), total, 12.0, 480)
                assert exceeds(*laws(release, situation), claims), situation


@pytest.mark.parametrize("kind", ["tree-aggregation", "banded-toeplitz", "banded-matrix", "buffered-toeplitz"])
def test_one_participation_more_moves_more(kind: str) -> None:
    """A stream with one participation more, or without their separation, than the price was made for."""
    found = []
    for reference in references(kind):
        keys = dict(reference.keys)
        steps, most, apart = (int(str(keys[key])) for key in ("iterations", "max_participations", "min_separation"))
        encoder = _encoder(kind, keys, steps)
        if encoder is None or most * apart >= steps:
            continue
        norm = largest_norm(encoder, 1, most + 1)
        for situation, claims in prices(reference):
            level = float(str(keys["noise_multiplier"]))
            (total,) = list(noise.sums(situation.adjacency, "contribution", norm))[:1]
            found.append(exceeds(*laws(noise.additive(noise.normal(level), total, REACH * level, 4800), situation), claims))
    assert found and all(found)


def test_a_record_in_two_groups_is_drawn_too_often() -> None:
    """Two groups, and a record that takes part in the turns of both, where the price is that of one."""
    noise_multiplier, rate, cells, epsilon = 1.2, 0.2, 400, 0.5
    file = f"""
    format = 1
    [privacy]
    unit = "example"
    adjacency = "add-remove"
    delta = 1e-5
    [[mechanism]]
    name = "train"
    type = "banded-matrix"
    noise_multiplier = {noise_multiplier}
    iterations = 2
    bands = 1
    min_separation = 2
    max_participations = 1
    sampling = {{ scheme = "poisson", rate = {rate} }}
    """
    claim = account(parse(file.encode(), "it.toml"), ("exact",), epsilon=epsilon).upper
    at = np.linspace(-12.0, 12.0, cells)
    absent, present = (np.exp(-0.5 * np.square((at - move) / noise_multiplier)) for move in (0.0, 1.0))
    turn = (1.0 - 2.0 * rate) * absent + 2.0 * rate * present
    one, both, none = (np.multiply.outer(*pair) / absent.sum() ** 2 for pair in ((turn, absent), (turn, turn), (absent, absent)))
    assert (
        hockey_stick(one.ravel(), none.ravel(), epsilon, 1) <= 1.02 * claim < hockey_stick(both.ravel(), none.ravel(), epsilon, 1)
    )


def _encoder(kind: str, keys: dict[str, object], steps: int) -> Array | None:
    from dpcli.exam.enumeration.matrices import banded, blt

    if kind == "tree-aggregation":
        return tree(steps)
    if kind == "banded-toeplitz":
        return toeplitz(keys["coefficients"], steps)  # type: ignore[arg-type]
    if kind == "banded-matrix":
        return banded(int(str(keys["bands"])), steps)
    return blt(keys["buf_decay"], keys["output_scale"], steps)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["exponential", "report-noisy-max", "permute-and-flip"])
def test_a_choice_that_leaves_with_its_score_tells_the_data(kind: str) -> None:
    """The chosen candidate's exact score is published beside it."""
    for reference in references(kind):
        for situation, claims in prices(reference):
            score = next(choices.scores(situation.adjacency))
            chosen = choices.exponential(1.0, score)

            def beside(records: Records, score: choices.Scores = score, chosen: Release = chosen) -> Array:
                law, places = chosen(records), np.rint(2.0 * score(records)).astype(int) + 10
                table = np.zeros((len(law), 20))
                table[np.arange(len(law)), places] = law
                return table.ravel()

            assert exceeds(*laws(beside, situation), claims)


def test_answers_without_an_end_above_the_threshold_cost_more() -> None:
    """Noise for one answer, and the run goes on: half of sixteen queries move up and are answered, half move down and are not."""
    (reference,) = [one for one in references("sparse-vector") if one.keys["answers"] == 1]
    epsilon, share = float(str(reference.keys["epsilon"])), float(str(reference.keys["threshold_share"]))
    grid = stats.laplace(scale=1.0 / (share * epsilon)).ppf((np.arange(1 << 14) + 0.5) / (1 << 14))
    noisy = stats.laplace(scale=2.0 / ((1.0 - share) * epsilon))
    high, low = (np.mean(noisy.sf(grid - move) ** 8 * noisy.cdf(grid + move) ** 8) for move in (0.5, -0.5))
    assert math.log(high / low) > epsilon


def test_a_distance_that_is_one_too_large_releases_too_often() -> None:
    """d is 1, and not 0, where a neighbour's answer is another one."""
    epsilon, delta = 1.0, 0.05
    (reference,) = [one for one in references("propose-test-release") if "mechanism" not in one.keys]
    level = stability.threshold(epsilon, delta)
    for situation, _ in prices(reference):
        differs = stability.beyond(1.0 / epsilon, level - 1)
        assert differs > delta, situation  # neighbours of other answers share no outcome but none


def selection(epsilon: float) -> Reference:
    """The best of a hundred trials on average, each of so much pure epsilon."""
    return Reference(
        "repeat-and-select",
        {"mechanism": "trial", "trials": {"distribution": "geometric", "gamma": 0.01}},
        lambda situation: iter(()),
        members={"trial": {"type": "pure-dp", "epsilon": epsilon}},
    )


CHANCES = np.array([0.01 * 0.99 ** (k - 1) for k in range(1, 3000)])  # of k trials
TRIALS = np.arange(1.0, 3000.0)


def test_a_published_number_of_trials_costs_more() -> None:
    """Whether any of k trials gave a rare result, beside k."""
    for situation, claims in prices(selection(0.1)):

        def beside(records: Records) -> Array:
            none = (1.0 - (0.1 * math.exp(0.1) if "x" in records else 0.1)) ** TRIALS
            return np.concatenate((CHANCES * none, CHANCES * (1.0 - none)))

        assert exceeds(*laws(beside, situation), claims), situation


def descents(*keys: str) -> list[tuple[dict[str, float], Situation, tuple[float, ...]]]:
    """The keys, situations and claims of the descents with fixed batches that state these keys."""
    return [
        ({key: float(str(value)) for key, value in reference.keys.items()}, situation, claims)
        for reference in references("last-iterate")
        if {*keys} <= {*reference.keys} and "drawn" not in reference.keys
        for situation, claims in prices(reference)
    ]


def descended(situation: Situation, norm: float) -> tuple[Array, Array]:
    """What noise of 3 on a move of so many contributions releases."""
    (total,) = list(noise.sums(situation.adjacency, "contribution", norm))[:1]
    return laws(noise.additive(noise.normal(3.0), total, 3.0 * REACH, 4800), situation)


def last_norm(factor: float, iterations: float, batches: float = 1.0) -> float:
    """The move of the last model over its noise, if all gradients are constant."""
    factors = factor ** np.arange(iterations)
    return float(factors[:: int(batches)].sum() / np.linalg.norm(factors))


def test_models_on_the_way_tell_more_than_the_last() -> None:
    """Every model of a run is seen: as many Gaussians as there are uses of the record."""
    for keys, situation, claims in descents():
        uses = keys["iterations"] / keys.get("batches", 1.0)
        assert exceeds(*descended(situation, math.sqrt(uses)), claims), (keys, situation)


def test_losses_that_are_less_convex_than_stated_forget_less() -> None:
    """A regulariser of a hundredth of its stated strength: earlier steps are remembered."""
    for keys, situation, claims in descents("strong_convexity"):
        factor = 1.0 - keys["strong_convexity"] / 100.0
        if keys["batches"] == 1.0:
            assert exceeds(*descended(situation, last_norm(factor, keys["iterations"])), claims), (keys, situation)


def test_a_wider_set_than_is_stated_forgets_less() -> None:
    """A set of a hundred times the stated diameter, which models from its middle never leave."""
    for keys, situation, claims in descents("diameter"):
        assert exceeds(*descended(situation, last_norm(1.0, keys["iterations"])), claims), (keys, situation)


def test_a_record_in_two_batches_is_seen_twice() -> None:
    """It is in every batch."""
    for keys, situation, claims in descents("batches"):
        if keys["batches"] > 1.0:
            norm = last_norm(1.0 - keys["strong_convexity"], keys["iterations"])
            assert exceeds(*descended(situation, norm), claims), (keys, situation)


def test_published_batches_of_a_descent_are_not_drawn() -> None:
    """Whoever sees the batches knows when the record was in the last one, whose step hides the others."""
    for reference in references("last-iterate"):
        for situation, claims in prices(reference):
            if "drawn" in reference.keys:
                rate = float(str(reference.keys["inclusion"]))
                p, q = descended(situation, 3.0)
                assert exceeds(*(np.append(rate * law, 1.0 - rate) for law in (p, q)), claims), situation


def test_a_blank_that_does_not_respond_is_told_from_every_record() -> None:
    """A blanked record that responds for a category drawn at random costs no more than is stated; one that is silent is seen."""
    found = []
    for reference in references("randomized-response"):
        for situation, claims in prices(reference):
            if situation.adjacency != "zero-out":
                continue
            for kept in (release for release in reference.releases(situation) if len(laws(release, situation)[0]) > 1):
                (told, _) = laws(kept, situation)
                drawn = np.full(len(told), 1.0 / len(told))
                assert not exceeds(told, drawn, claims) and not exceeds(drawn, told, claims)
                silent = np.append(np.zeros(len(told)), 1.0)
                found.append(exceeds(np.append(told, 0.0), silent, claims))
                if "blank" in reference.keys:  # stated to be uniform, and for a fixed category instead
                    found.append(exceeds(told, np.roll(told, 1), claims) or exceeds(told, np.roll(told, -1), claims))
    assert found and all(found)


def shuffled_claims() -> list[tuple[Situation, tuple[float, ...], float, int]]:
    """Each situation and its claims, with the local epsilon and the number of categories."""
    return [
        (situation, claims, float(str(reference.keys["local_epsilon"])), int(str(reference.keys.get("categories", 2))))
        for reference in references("shuffled-reports")
        for situation, claims in prices(reference)
    ]


def test_fewer_honest_users_than_are_stated_hide_less() -> None:
    """All others collude with the reader, and say what they sent."""
    for situation, claims, epsilon, categories in shuffled_claims():
        assert exceeds(*laws(noise.shuffled_responses(epsilon, categories, 1, 0), situation), claims), situation


def test_reports_that_are_not_shuffled_hide_nothing() -> None:
    """The reports in the order of their users."""
    for situation, claims, epsilon, categories in shuffled_claims():
        respond = noise.responses(epsilon, categories, 1, 0)
        assert exceeds(*laws(lambda records, respond=respond: respond((*records, "o", "o")), situation), claims), situation


def test_reports_that_name_their_user_hide_nothing() -> None:
    """A randomiser of its own for every user, with the same epsilon: after the shuffle, the answers are sorted by their alphabets."""
    for situation, claims, epsilon, categories in shuffled_claims():

        def own(records: Records, epsilon: float = epsilon, categories: int = categories) -> Array:
            laws_of_users = [noise.responses(epsilon, categories, 1, 0)((record,)) for record in (*records, "o")]
            named = [np.kron(np.eye(len(laws_of_users))[user], law) for user, law in enumerate(laws_of_users)]
            first, second = named[0], named[1]
            return np.asarray(0.5 * (np.multiply.outer(first, second) + np.multiply.outer(second, first)).ravel())

        assert exceeds(*laws(own, situation), claims), situation


def test_an_order_that_is_chosen_by_the_data_costs_more() -> None:
    """The result is kept that equals a private bit: selection by a score that nobody priced."""
    for situation, claims in prices(selection(0.01)):

        def kept(records: Records) -> Array:
            share = 1.0 / (1.0 + math.exp(0.01))  # of trials with the result that the data do not make likelier
            never = float((CHANCES * share**TRIALS).sum())
            return np.array([1.0 - never, never] if "x" in records else [never, 1.0 - never])

        assert exceeds(*laws(kept, situation), claims), situation


@pytest.mark.long
@pytest.mark.parametrize("kind", ["pmixed", "private-decoding"])
def test_the_likeliest_token_tells_the_models(kind: str) -> None:
    """The token of the largest probability, and no draw."""
    found = []
    for reference in references(kind):
        for situation, claims in prices(reference):
            for release in reference.releases(situation):
                p, q = (np.eye(len(law))[int(np.argmax(law))] for law in laws(release, situation))
                found.append(exceeds(p, q, claims))
    assert any(found)


@pytest.mark.parametrize("kind", ["gnmax", "lnmax", "confident-gnmax"])
def test_two_votes_that_move_cost_more_than_one(kind: str) -> None:
    """One change that retrains two teachers."""
    found = []
    for reference in references(kind):
        for situation, claims in prices(reference):
            moved = Situation(situation.adjacency, situation.draws, group=2)
            found += [exceeds(*laws(release, moved, 2), claims) for release in reference.releases(moved)]
    assert any(found)


def test_a_session_that_asks_on_costs_more() -> None:
    """Three queries where two are stated."""
    found = []
    for reference in references("confident-gnmax"):
        answers = int(str(reference.keys.get("answers", 2)))
        for situation, claims in prices(reference):
            longer = (
                predictions.sessions(4, answers + 2, 3.0, 2.0, 2.0, situation) if situation.adjacency == "zero-out" else iter(())
            )
            found += [exceeds(*laws(release, situation), claims) for release in longer]
    assert any(found)


def test_post_processing_that_reads_the_data_costs_something() -> None:
    (reference,) = references("post-processing")
    for situation, claims in prices(reference):
        assert exceeds(*laws(lambda records: np.eye(2)[int("x" in records)], situation), claims)
