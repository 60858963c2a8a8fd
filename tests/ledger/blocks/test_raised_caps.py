"""Tests of what a ledger guarantees after its cap was amended, against the best adversary (tests/ledger/adversary.py) of each filter."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.ledger import amounts
from dpcli.ledger.documents.ledger_balance import guarantee_words
from dpcli.ledger.filters.filter import filter_for_cap
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.plugin import FILTERS
from dpcli.ledger.stores.places import init, open_ledger
from dpcli.ledger.terms import LedgerTerms
from dpcli.ledger.verify import verify
from tests.ledger.adversary import STEP, Attempt, of_failure, of_gaussian, of_response, staged, worst
from tests.ledger.filters.setting import DATASET
from tests.ledger.pipelines import gaussian, pure

DELTA, CAPS = 1e-6, (1.0, 2.0)
SLACK = 1.02  # of sums over the grid
WAYS = ("cap", "ceiling", "stated", "none")


def attempts(name: str) -> list[Attempt]:
    """What an adversary may run: priced by the filter itself, small parts of the first cap, and what the second one adds."""
    rule = filter_for_cap(name, CAPS[0], DELTA, {})
    first, second = (amounts.read(rule.caps(cap, DELTA)) for cap in CAPS)
    if name in ("approx-dp", "advanced"):
        runs = [
            of_response(round(e / STEP), amounts.read(rule.cost(pure(e), 0.0).amounts))
            for e in ((0.2, 1.0) if name == "approx-dp" else (0.06, 0.18))
        ]
        failure = DELTA / 2 if name == "approx-dp" else (DELTA - rule.parameters()["slack"]) / 2
        return [*runs, of_failure(failure, dict.fromkeys(rule.currency, Decimal(0)) | {"delta": Decimal(failure)})]
    (currency,) = rule.currency
    unit = float(rule.cost(gaussian(1.0), DELTA).amounts[currency])  # mu = 1
    squares = [float(first[currency]) / 3, float(second[currency] - first[currency])]
    return [
        of_gaussian(math.sqrt(s / unit * 0.999999), amounts.read(rule.cost(gaussian(math.sqrt(unit / s)), DELTA).amounts))
        for s in squares
    ]


def realised(name: str, epsilons: tuple[float, float], raised: bool) -> float:
    """The delta of the best adversary, at the epsilon that is claimed where the first or the second cap is in force in the end."""
    rule = filter_for_cap(name, CAPS[0], DELTA, {})
    caps = [amounts.read(rule.caps(cap, DELTA)) for cap in CAPS]
    found = attempts(name)
    scaled = [Attempt({k: v * Decimal("0.999999") for k, v in a.cost.items()}, a.first, a.chances, a.infinite) for a in found]
    return worst(scaled, caps, epsilons, lambda cap: (1,) if raised and cap == 0 else (), 12.0)


def amended(name: str, way: str, place: Path) -> Ledger:
    """A ledger whose cap went from the first to the second in that way, after a charge."""
    ceiling = CAPS[1] if way == "ceiling" else None
    terms = LedgerTerms("user", "add-remove", CAPS[0], DELTA, filter=name, ceiling=ceiling)
    terms = LedgerTerms(**{**terms.content(), "parameters": dict(filter_for_cap(name, CAPS[0], DELTA, {}).parameters())})
    ledger = init(str(place), DATASET, terms)
    ledger.spend(pure(0.01), "first", 0.0)
    if way != "cap":
        ledger.amend(CAPS[1], "more", "the board", acknowledged=way == "none", unseen=way == "stated")
    return ledger


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("way", WAYS)
def test_what_is_guaranteed_holds_against_the_best_adversary(name: str, way: str, tmp_path: Path) -> None:
    """With a ceiling, or a statement that no outputs were seen, the raised cap holds for every adversary."""
    with amended(name, way, tmp_path / "l.db") as ledger:
        state = ledger.state()
        assert state.guarantee == way and verify(ledger).problems == ()
    claimed = state.guaranteed
    assert claimed == {"cap": CAPS[0], "ceiling": CAPS[1], "stated": CAPS[1], "none": None}[way]
    if claimed is not None:
        assert realised(name, (claimed, claimed), raised=way != "cap") <= DELTA * SLACK


@pytest.mark.parametrize("name", FILTERS)
def test_a_cap_that_is_raised_after_outputs_bounds_nothing(name: str) -> None:
    """An adversary exceeds the first cap, and realises more of the raised cap than of a fixed one."""
    assert realised(name, (CAPS[0], CAPS[0]), raised=True) > 100.0 * DELTA
    in_force, fixed = realised(name, CAPS, raised=True), realised(name, (CAPS[1], CAPS[1]), raised=True)
    assert in_force >= fixed  # approx-dp: no more than the deltas that are spent
    if name == "gdp":
        assert in_force > 1.9 * DELTA


# Caps of a gdp ledger, each raised to the next where the loss is high: delta at the cap in force in the end over the delta that is told,
# and what the first cap loses on paths that were never raised, since they could have been.
RAISED = {
    (1.0, 2.0): (1e-5, 1.9, 5e-3),
    tuple(map(float, range(1, 9))): (1e-5, 5.8, 0.3),
    tuple(k / 2 for k in range(1, 21)): (1e-5, 9.7, 0.5),
    (6.0, 9.2): (1e-6, 1.9, 1.4e-3),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("way", WAYS[1:])
@pytest.mark.parametrize("caps", RAISED, ids=lambda caps: f"from {caps[0]} to {caps[-1]} in {len(caps)}")
def test_what_a_ledger_says_where_caps_were_raised_step_by_step(caps: tuple[float, ...], way: str, tmp_path: Path) -> None:
    """It guarantees no epsilon, or the last cap (with a ceiling or a statement), which holds for every stopping rule."""
    delta, in_force, first = RAISED[caps]
    rule = filter_for_cap("gdp", caps[0], delta, {})
    squares = [float(rule.caps(cap, delta)["mu_squared"]) for cap in caps]
    steps = [[of_gaussian(math.sqrt(b - a), {})] for a, b in zip((0.0, *squares), squares, strict=False)]
    assert staged(steps, caps, 24.0) > in_force * delta and staged(steps, (caps[0],) * len(caps), 24.0) > first
    ceiling = caps[-1] if way == "ceiling" else None
    with init(
        str(tmp_path / "l.db"), DATASET, LedgerTerms("user", "add-remove", caps[0], delta, filter="gdp", ceiling=ceiling)
    ) as ledger:
        for cap in caps[1:]:
            ledger.spend(pure(0.01), f"before {cap}", 0.0)
            ledger.amend(cap, "more", "the board", acknowledged=way == "none", unseen=way == "stated")
        state = ledger.state()
    assert (state.guarantee, state.guaranteed) == (way, None if way == "none" else caps[-1])
    assert staged(steps, (caps[-1],) * len(caps), 24.0) <= delta * SLACK
    said = guarantee_words(state)
    assert (f"epsilon {caps[-1]!r}" in said and caps[0] != caps[-1]) if way != "none" else "no epsilon is guaranteed" in said


@pytest.mark.parametrize("name", [name for name, target in FILTERS.items() if "delta" in load(target).currency])
def test_the_delta_of_an_entry_is_the_one_that_it_states(name: str) -> None:
    """However many mechanisms share it: splitting a delta by file would let outputs choose the split."""
    rule = filter_for_cap(name, CAPS[1], 1e-4, {})
    for delta in (1e-6, 3e-7):
        for count in (1, 2, 7):
            several = gaussian(9.0)
            entries = tuple(replace(several.mechanisms[0], name=f"m{k}") for k in range(count))
            cost = rule.cost(replace(several, mechanisms=entries), delta)
            assert float(cost.amounts["delta"]) == delta


def test_a_cap_is_raised_with_a_word_about_outputs_or_knowingly_without(tmp_path: Path) -> None:
    with amended("approx-dp", "cap", tmp_path / "l.db") as ledger:
        with pytest.raises(InputError, match="--no-output-seen"):
            ledger.amend(2.0, "more", "the board")
        with pytest.raises(InputError, match="expected another person"):
            ledger.amend(2.0, "more", f" {ledger.who.upper()}", unseen=True)
        assert ledger.state().guaranteed == 1.0
        ledger.amend(2.0, "more", "the board", acknowledged=True)
        ledger.amend(4.0, "more", "the board", unseen=True)
        ledger.amend(1.0, "less", "the board", acknowledged=True)
        assert ledger.state().guaranteed is None  # no later word mends that


@pytest.mark.parametrize("way", WAYS)
def test_the_guarantee_is_noted_with_the_totals(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpcli.ledger.checkpoint.EVERY", 1)
    amended("approx-dp", way, tmp_path / "l.db").close()
    with open_ledger(str(tmp_path / "l.db")) as ledger:
        ledger.spend(pure(0.01), "second", 0.0)
    with open_ledger(str(tmp_path / "l.db")) as ledger:
        assert ledger.state().guarantee == way and verify(ledger).problems == ()
