"""Tests of what a ledger says is left: the runs and changes that are said to fit are granted, and slightly larger ones denied."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.analysis.solved_keys import substitute
from dpcli.base.errors import Denied, DpcliError
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import parse
from dpcli.ledger import amounts
from dpcli.ledger.balance import remaining_room
from dpcli.ledger.filters.filter import filter_for_cap
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.planning.fit import changes_that_fit_now
from dpcli.ledger.planning.quote import quote
from dpcli.ledger.plugin import FILTERS
from dpcli.ledger.state import LedgerState
from dpcli.ledger.stores.places import init
from dpcli.ledger.terms import LedgerTerms
from tests.cases import of_each
from tests.inline import text_of
from tests.ledger.pipelines import gaussian, pure
from tests.release.tables.files import document, queries

NOW = "2030-01-01T00:00:00Z"


def opened(path: str, name: str, epsilon: float, delta: float = 1e-6, unit: str = "user") -> Ledger:
    found = filter_for_cap(name, epsilon, delta, {})
    ledger = init(path, "visits", LedgerTerms(unit, "add-remove", epsilon, delta, filter=name, parameters=dict(found.parameters())))
    ledger.now = lambda: NOW
    return ledger


@pytest.mark.parametrize("name", FILTERS)
@given(epsilon=st.floats(0.05, 8.0), spent=st.floats(0.0, 0.95))
def test_the_pure_epsilon_that_is_said_to_fit_does(name: str, epsilon: float, spent: float) -> None:
    found = filter_for_cap(name, epsilon, 1e-6, {})
    caps = amounts.read(found.caps(epsilon, 1e-6))
    left = {key: value * Decimal(1.0 - spent) for key, value in caps.items()}
    fits = found.pure_room(float(left[found.currency[0]]))
    assert fits > 0.0
    cost = amounts.read(found.cost(pure(float(f"{fits * (1 - 1e-9):.12g}")), 0.0).amounts)
    assert amounts.exceeded(cost, left) is None
    over = amounts.read(found.cost(pure(fits * (1 + 1e-6)), 0.0).amounts)
    assert amounts.exceeded(over, left) is not None


@pytest.mark.parametrize("name", FILTERS)
@given(spent=st.decimals(Decimal("1e-20"), Decimal("0.9"), places=20))
def test_the_pure_epsilon_that_is_said_fits_to_the_last_digit(name: str, spent: Decimal) -> None:
    """Also if the rest of the budget has more digits than a double."""
    found = filter_for_cap(name, 1.0, 1e-6, {})
    caps = amounts.read(found.caps(1.0, 1e-6))
    terms = LedgerTerms("example", "add-remove", 1.0, 1e-6, filter=name, parameters=dict(found.parameters()))
    state = LedgerState(
        "visits", terms=terms, caps=caps, spent={key: amounts.EXACT.multiply(value, spent) for key, value in caps.items()}
    )
    state.reserved = dict.fromkeys(caps, Decimal(0))
    cost = amounts.read(found.cost(pure(remaining_room(state).pure), 0.0).amounts)
    assert state.fits(cost), (cost, state.left())


@pytest.mark.parametrize("name", FILTERS)
def test_as_many_more_fit_as_is_said(name: str, tmp_path) -> None:
    ledger = opened(str(tmp_path / "l.db"), name, 2.0)
    run = pure(0.15)
    ledger.spend(run, "first", 0.0)
    more = remaining_room(ledger.state()).like_last
    assert more is not None
    for i in range(more):
        ledger.spend(run, f"run-{i}", 0.0)
    assert remaining_room(ledger.state()).like_last == 0
    with pytest.raises(Denied):
        ledger.spend(run, "one too many", 0.0)


def test_free_runs_fit_without_end(tmp_path) -> None:
    from tests.ledger.pipelines import pipeline

    ledger = opened(str(tmp_path / "l.db"), "zcdp", 1.0)
    ledger.spend(pipeline('[[mechanism]]\nname = "a"\ntype = "post-processing"\n'), "free")
    assert remaining_room(ledger.state()).like_last == -1
    assert remaining_room(ledger.state()).spent == 0.0


@pytest.mark.parametrize("name", ["rdp", "zcdp", "gdp", "approx-dp"])
def test_what_is_said_to_fit_fits(name: str, tmp_path) -> None:
    ledger = opened(str(tmp_path / "l.db"), name, 3.0, 1e-5)
    run = gaussian(3.0, 40)
    with pytest.raises(Denied, match="would fit: noise_multiplier = "):
        ledger.spend(run, "big", 1e-6)
    state = ledger.state()
    noise, steps = changes_that_fit_now(state, run, 1e-6)
    value = float(noise.split()[2])
    assert state.fits(amounts.read(ledger.cost(substitute(run, (("train", "noise_multiplier"),), value), 1e-6)[0].amounts))
    assert not state.fits(
        amounts.read(ledger.cost(substitute(run, (("train", "noise_multiplier"),), value * 0.995), 1e-6)[0].amounts)
    )
    assert steps.endswith("steps of train (now 40)")
    count = int(steps.split()[0])
    assert state.fits(amounts.read(ledger.cost(gaussian(3.0, count), 1e-6)[0].amounts))
    assert not state.fits(amounts.read(ledger.cost(gaussian(3.0, count + 1), 1e-6)[0].amounts))


def test_a_denial_says_why_a_smaller_total_is_no_argument(tmp_path) -> None:
    ledger = opened(str(tmp_path / "l.db"), "rdp", 2.3, 1e-5)
    first, second = gaussian(1.3, 9_375, 256 / 60_000), gaussian(1.4, 14_063, 256 / 60_000)
    ledger.spend(first, "first")
    with pytest.raises(Denied) as caught:
        ledger.spend(second, "second")
    words = str(caught.value)
    for part in (
        "too little",
        "would fit: noise_multiplier",
        "does not change this verdict",
        "2602.06756",
        "--mode declared",
        "at order ",
        "--order",
    ):
        assert part in words


def test_a_quote_spends_nothing(tmp_path) -> None:
    path = str(tmp_path / "l.db")
    ledger = opened(path, "approx-dp", 1.0)
    ledger.spend(pure(0.4), "first", 0.0)
    before = (tmp_path / "l.db").read_bytes()
    one, two = quote(path, None, pure(0.3)), quote(path, "visits", pure(0.3), 3)
    assert (one.fits, two.fits) == (True, False)
    assert one.share == pytest.approx(0.3)
    assert one.left == pytest.approx(0.6)
    assert one.message == "it costs 0.30000 of epsilon, 30.0 % of the cap of visits; 0.60000 is left"
    assert two.message.startswith("visits: 3 runs cost 0.90000 of epsilon")
    assert (tmp_path / "l.db").read_bytes() == before


@of_each("cost", ["3E-30", "7E-330", "0.1", "0.30000000000000004", "1E-9"])
def test_a_count_of_runs_is_exact_however_long(tmp_path: Path, cost: str) -> None:
    """Rounding the quotient to 28 digits would miscount if more runs fit than that."""
    from tests.ledger.filters import setting

    ledger = init(str(tmp_path / "l.db"), setting.DATASET, setting.terms())
    setting.charge(ledger, "first", cost)
    state, one = ledger.state(), Decimal(cost)
    more = remaining_room(state).like_last
    assert more is not None
    left = state.left()["epsilon"]
    assert amounts.EXACT.multiply(one, Decimal(more)) <= left < amounts.EXACT.multiply(one, Decimal(more + 1))


def test_each_of_many_declared_runs_is_shown_under_its_own_name(tmp_path: Path) -> None:
    from dataclasses import replace

    from dpcli.ledger.opening import declared_terms
    from tests.command import dpcli

    runs = [(pure(0.001 * i), i) for i in range(1, 13)]
    named = [(replace(p, mechanisms=tuple(replace(m, name=f"run-of-{i}") for m in p.mechanisms)), i) for p, i in runs]
    path = str(tmp_path / "l.db")
    terms = declared_terms(LedgerTerms("user", "add-remove", 2.0, 1e-6), named)
    ledger = init(path, "visits", terms)
    ledger.spend(named[9][0], "the tenth", 0.0)
    out = dpcli("budget", "show", path).out
    for i in range(1, 13):
        assert f"run {i} (run-of-{i}): {int(i == 10)} of {i} made" in out


QUERY = """format = 1
[privacy]
unit = "user"
max_contributions = 1
adjacency = "add-remove"
delta = 1e-6
[source]
path = "rows.csv"
unit = "who"
columns.who = {{ type = "text" }}
columns.city = {{ type = "text", domain = ["A", "B"] }}
[[query]]
name = "cities"
measure = "count"
by = ["city"]
max_groups = 1
max_rows = 1
{cost}
"""


@of_each("key, power, spent", [(*key, spent) for key in (("epsilon", 1), ("rho", 2)) for spent in (0.1, 0.9)])
def test_the_change_that_fits_a_query_names_no_key_that_the_file_lacks(key: str, power: int, spent: float, tmp_path: Path) -> None:
    """The proposal is a factor for the noise. Applied to the key that the file has, the run fits."""
    with opened(str(tmp_path / "ledger.db"), "zcdp", 1.0) as ledger:
        left = float(ledger.state().left()["rho"]) * (1.0 - spent)
        ledger.spend(parse(QUERY.format(cost=f"rho = {left / (1.0 - spent) * spent!r}").encode(), "first.toml"), "first")
        asked = parse(QUERY.format(cost=f"{key} = 3.0").encode(), "asked.toml")
        (said,) = changes_that_fit_now(ledger.state(), asked, 1e-6)
        found = re.fullmatch(r"([0-9.]+) times the noise in cities, by a smaller epsilon, rho or weight, or a larger error", said)
        assert found is not None
        less = parse(QUERY.format(cost=f"{key} = {3.0 / float(found[1]) ** power!r}").encode(), "less.toml")
        ledger.spend(less, "less")
        assert float(ledger.state().left()["rho"]) < 0.05 * left


def asked_of(cost: float, *tables: Mapping[str, Any]) -> Pipeline:
    """A file of queries of this epsilon each, or of the rho that shrinks as fast."""
    costs = [{"rho": cost**2} if "rho" in table else {"epsilon": cost} for table in tables]
    plain = [{key: value for key, value in table.items() if key not in ("error", "weight", "noise", "rho")} for table in tables]
    priced = [{**table, **cost_, "name": f"query-{place}"} for place, (table, cost_) in enumerate(zip(plain, costs, strict=True))]
    found = document(*priced, budget={"epsilon": 60.0})
    return parse(text_of({**found, "privacy": {**found["privacy"], "delta": 1e-3}}), "asked.toml")


TABLES = dict(queries())


@pytest.mark.nightly
@pytest.mark.long
@of_each("label, count", [(label, count) for label in TABLES for count in (1, 2)])
def test_what_would_fit_of_queries_is_said_of_all_of_them_and_fits(label: str, count: int, tmp_path: Path) -> None:
    """A file cannot make one query or one mechanism of a query noisier, so the factor is for all of them."""
    tables = (TABLES[label],) * count
    try:
        filter_for_cap("zcdp", 0.2, 1e-2, {}).cost(asked_of(0.3, *tables), 1e-3)
    except DpcliError:
        assert_that_all_fit("approx-dp", tables, tmp_path)
    else:
        assert_that_all_fit("zcdp", tables, tmp_path)


@pytest.mark.nightly
@pytest.mark.long
@of_each("label, count", [(label, 1 + place % 2) for place, label in enumerate(label for label in TABLES if label.endswith("-0"))])
def test_what_would_fit_of_queries_fits_where_every_number_is_computed(label: str, count: int, tmp_path: Path) -> None:
    assert_that_all_fit("approx-dp", (TABLES[label],) * count, tmp_path)


def assert_that_all_fit(name: str, tables: Sequence[Mapping[str, Any]], folder: Path) -> None:
    free = asked_of(0.3, *tables)
    with opened(str(folder / "ledger.db"), name, 0.2, 1e-2, unit="visitor") as ledger:
        found = changes_that_fit_now(ledger.state(), free, 1e-3)
        if any(entry.spec.fixed_threshold for entry in free.mechanisms):
            assert found == ()  # its threshold hangs on its noise
            return
        (said,) = found
        where = "every query" if len(tables) > 1 else "query-0"
        times = re.fullmatch(rf"([0-9.]+) times the noise in {where}, by a smaller epsilon, rho or weight, or a larger error", said)
        assert times is not None
        ledger.spend(asked_of(0.3 / float(times[1]), *tables), "less")


def test_where_no_mechanism_alone_can_fit_all_of_them_are_said_to_need_noise(tmp_path: Path) -> None:
    from dataclasses import replace

    def twice(multiplier: float) -> Pipeline:
        one = gaussian(multiplier)
        (entry,) = one.mechanisms
        return replace(one, mechanisms=(replace(entry, name="a"), replace(entry, name="b")))

    with opened(str(tmp_path / "ledger.db"), "zcdp", 1.0) as ledger:
        (said,) = changes_that_fit_now(ledger.state(), twice(0.5), 1e-6)
        times = re.fullmatch(r"([0-9.]+) times the noise in every mechanism", said)
        assert times is not None
        with pytest.raises(Denied, match=re.escape(said)):
            ledger.spend(twice(0.5), "much")
        ledger.spend(twice(0.5 * float(times[1])), "less")
        assert float(ledger.state().left()["rho"]) < 0.01 * float(ledger.state().caps["rho"])


@of_each("name, called", [(name, called) for name in FILTERS for called in (None, "clicks-week", "a\n  b\x1b[2J", "w" * 300)])
def test_a_denial_names_the_pipeline(name: str, called: str | None, tmp_path: Path) -> None:
    from dataclasses import replace

    with opened(str(tmp_path / "ledger.db"), name, 1.0) as ledger, pytest.raises(Denied) as denied:
        ledger.spend(replace(pure(50.0), name=called), "much", 0.0)
    first = str(denied.value).split("\n")[0]
    shown = {None: "", "a\n  b\x1b[2J": ": a\ufffd  b\ufffd[2J"}.get(called, f": {called}"[:62])
    assert first.startswith(f"denied, and nothing was written{shown}: the run costs ")
