"""The plain words of a statement (disclosure/statement.py) never promise more than the curve does, and say what is missing."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest

from dpcli.analysis.account import account
from dpcli.analysis.curve import profile, trade_off
from dpcli.analysis.documents.account import headline_of_run
from dpcli.disclosure.disclosed_facts import Facts, gather
from dpcli.disclosure.documents.disclosure import document
from dpcli.disclosure.statement import ALARM
from dpcli.document.document import Passage
from tests.command import ROOT

from .samples import MINIMAL, SAMPLED, facts, statements, toml, without

FILES = ["mnist", "analytics", "dp-ftrl", "survey-count"]
ULP = 1e-9  # bounds on one curve computed on different grids of epsilons


def words(found: tuple[Passage, ...]) -> str:
    return "\n".join(line for one in found for line in (one.title, *one.paragraphs, *one.points))


def read(name: str) -> str:
    return (ROOT / "examples" / f"{name}.toml").read_text()


def percent(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    assert found, pattern
    return float(found[1]) / 100.0


def attacks(found: Facts) -> tuple[float, float]:
    """(true positives at the false positives of the sentence, right guesses at even odds), from a fine curve of its own."""
    reach = found.account.upper
    epsilons = sorted({reach, *(i * reach / 300.0 for i in range(400))})
    curve = profile(found.pipeline, epsilons, delta=found.account.delta or 1e-6)
    return 1.0 - float(trade_off(curve, [ALARM])[0]), 0.5 + 0.5 * float(curve.upper[0])


@pytest.mark.sampled(1, 1)
@pytest.mark.parametrize("name", FILES)
def test_the_attacker_is_never_weaker_than_the_curve_allows(name: str) -> None:
    statement, _ = statements(read(name))
    found, text = statement.facts, words(statement.passages)
    caught, right = attacks(found)
    sentence = percent(r"recognise at most ([0-9.]+) %", text)
    guess = percent(r"beforehand, at most ([0-9.]+) % of their guesses are right", text)
    # Those of a coarser curve may be larger; smaller would be a promise that is not kept.
    assert caught * (1.0 - ULP) - 1e-4 <= sentence
    assert right * (1.0 - ULP) - 1e-4 <= guess <= 1.0
    # And the words stay worth something: within a tenth of what a finer curve allows.
    assert sentence <= 1.1 * caught + 2e-4
    assert guess <= 1.1 * right + 2e-4


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", FILES)
def test_the_sentence_is_not_below_the_bounds_it_rounds(name: str) -> None:
    statement, _ = statements(read(name))
    meaning, text = statement.facts.meaning, words(statement.passages)
    assert meaning is not None
    exact = 1.0 - float(trade_off(meaning.curve, [ALARM])[0])
    assert percent(r"recognise at most ([0-9.]+) %", text) >= exact - 1e-15
    for belief in meaning.beliefs:
        sure = percent(rf"If they were {100 * belief.prior:g} % sure of it beforehand, they are at most ([0-9.]+) % sure", text)
        assert belief.posterior - 1e-15 <= sure <= belief.posterior + 1.0001e-4


@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0])
def test_one_gaussian_against_its_closed_form(sigma: float) -> None:
    """The Neyman-Pearson test of N(0, 1) against N(1/sigma, 1) reaches Phi(Phi^-1(alpha) + 1/sigma): no sentence may say less."""
    from statistics import NormalDist

    text = words(statements(MINIMAL.replace("4.0", repr(sigma)))[0].passages)
    normal = NormalDist()
    power = normal.cdf(normal.inv_cdf(ALARM) + 1.0 / sigma)
    assert power <= percent(r"recognise at most ([0-9.]+) %", text) <= 1.02 * power + 1e-4
    advantage = 2.0 * normal.cdf(0.5 / sigma) - 1.0
    guess = percent(r"beforehand, at most ([0-9.]+) % of their guesses are right", text)
    assert 0.5 + 0.5 * advantage <= guess <= 0.5 + 0.5 * advantage + 2e-4


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", FILES)
def test_epsilons_are_the_accounts_own_rounded_up_and_never_bare(name: str) -> None:
    from decimal import Decimal

    statement, _ = statements(read(name))
    found, text = statement.facts.account, words(statement.passages)
    privacy, delta = found.pipeline.privacy, re.escape(repr(found.delta))
    setting = rf"at delta = {delta} \(per {privacy.unit}, {privacy.adjacency.value}, sampling: "
    head = document(statement).headline
    assert len(re.findall(setting, head)) == 1, "the headline, above every sentence, says what the number rests on"
    (shown,) = re.findall(rf"limit on how much .* epsilon <= ([0-9.]+) at delta = {delta}\.", text)
    again = account(found.pipeline).upper
    assert Decimal(repr(again)) <= Decimal(shown) <= Decimal(repr(again)) * Decimal("1.001")
    for line in text.split("\n"):
        if "epsilon <=" in line:
            assert "delta" in line
    once = setting + r"[a-z -]+; accountant"
    assert len(re.findall(once, f"{head}\n{text}")) == 1 + text.count("the statement becomes: "), "repeated below the headline"


def test_without_a_guarantee_nothing_is_promised() -> None:
    statement, _ = statements(MINIMAL.replace("delta = 1e-6", "delta = 0.0"))
    text = words(statement.passages)
    assert "Nothing: no finite guarantee can be certified at delta = 0.0" in text
    assert "Possibly everything about one record" in text
    assert "%" not in text


def test_a_rule_that_refuses_comes_first() -> None:
    statement, _ = statements(read("mnist").replace("delta = 1e-5", "delta = 1e-3"))
    assert statement.passages[0].title == "NOT SOUND"
    assert "DP105" in statement.passages[0].points[0]


@pytest.mark.long
def test_the_statement_of_a_run_judges_its_delta() -> None:
    """No other rule: what the file states about other programs does not concern a run of dpcli."""
    pipeline = facts(read("mnist")).pipeline
    for delta, rules in ((1e-3, ["DP105"]), (1e-5, []), (1e-7, [])):
        found = gather(replace(pipeline, privacy=replace(pipeline.privacy, delta=delta)))
        assert [diagnostic.rule for diagnostic in found.unsound] == rules, delta
        assert headline_of_run(found.account).endswith("; NOT SOUND: DP105") == bool(rules), delta


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("", "The protected individual is NOT STATED"),
        ('unit = "example"\n', "The limit is about one example. A person with several examples gets less protection."),
        ('unit = "user"\nmax_contributions = 1\n', "The limit is about one user with at most one record."),
        ('unit = "user"\nmax_contributions = 7\n', "The limit is about one user with all of at most 7 records"),
    ],
)
def test_whom_it_protects(unit: str, expected: str) -> None:
    assert expected in words(statements(MINIMAL.replace("[privacy]\n", "[privacy]\n" + unit))[0].passages)


@pytest.mark.parametrize(
    ("adjacency", "expected"),
    [
        ("add-remove", "asks whether one record is in the data."),
        ("replace-one", "asks which of two versions of one record is in the data."),
        ("zero-out", "asks whether one record is in the data or was blanked out."),
    ],
)
def test_the_secret_is_what_adjacency_compares(adjacency: str, expected: str) -> None:
    assert expected in words(statements(MINIMAL.replace("add-remove", adjacency))[0].passages)


def test_what_is_not_stated_is_asked_for() -> None:
    whole = words(statements(toml(SAMPLED))[0].passages)
    assert "Open questions" not in whole
    assert "Who answers for the data?" in words(statements(toml(without(SAMPLED, "disclosure", "controller")))[0].passages)


@pytest.mark.long
def test_random_batches_are_said_to_matter() -> None:
    text = words(statements(read("mnist"))[0].passages)
    found = re.search(r"in shuffled or fixed order instead.* epsilon <= ([0-9.]+) at delta", text)
    assert found
    shuffled = account(facts(read("mnist").replace('"poisson"', '"shuffle"')).pipeline).upper
    assert math.isclose(float(found[1]), shuffled, rel_tol=1e-5) and float(found[1]) >= shuffled
    assert "shuffled or fixed" not in words(statements(read("dp-ftrl"))[0].passages)
