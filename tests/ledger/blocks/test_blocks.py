"""Tests of ledgers with blocks: by brute force over all units and choices, no unit's loss exceeds the ledger's cap."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.base.errors import Denied, InputError, LedgerError
from dpcli.base.lazy import load
from dpcli.ledger.amounts import cost_text
from dpcli.ledger.balance import odometer
from dpcli.ledger.blocks.family import BlockFamily
from dpcli.ledger.chain import canonical, digest, seal
from dpcli.ledger.checkpoint import checkpoint_content
from dpcli.ledger.filters.filter import Cost
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.ledger_findings import findings
from dpcli.ledger.plugin import BLOCKS, FILTERS, MOST_IN_WINDOW
from dpcli.ledger.requests import Charge, Retire
from dpcli.ledger.state import LedgerState
from dpcli.ledger.stores.places import init, open_ledger, open_store
from dpcli.ledger.terms import LedgerTerms
from dpcli.ledger.verify import verify
from tests.ledger.cases import every
from tests.ledger.conftest import Place
from tests.ledger.filters.families import FAMILIES, after, family, opening, terms
from tests.ledger.filters.folding import NOW, folded
from tests.ledger.filters.setting import DATASET, TABLES, charge, run
from tests.ledger.filters.setting import terms as plain
from tests.ledger.spenders import COST, struggle

POWERS = {"epsilon": 1, "rho": 2, "mu_squared": 2}  # what a group of j blocks costs: j to that power
PROVED = (("approx-dp", 0.0), ("zcdp", 1e-6), ("gdp", 1e-6))


def asked(state: LedgerState, amounts: dict[str, str], window: Sequence[str]) -> LedgerState | None:
    """The ledger after one more charge, None where it is denied."""
    request = Charge("spend", f"run {state.head.seq}", TABLES, 0.0, Cost(amounts, "stated"), "ana", window=tuple(window))
    try:
        content = request.entry(state, NOW)
    except Denied:
        return None
    assert content is not None
    return after(state, content)


def costs(found: LedgerTerms, share: int) -> dict[str, str]:
    """A cost of so many hundredths of the cap that an ordinary ledger would have."""
    whole = found.the_filter.caps(found.epsilon, found.delta)
    return {name: cost_text(float(cap) * share / 100) if name != "delta" else "0" for name, cap in whole.items()}


HISTORIES = st.lists(st.tuples(st.sets(st.integers(0, 5), min_size=1).map(sorted), st.integers(1, 30)), min_size=4, max_size=25)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("name", "delta"), PROVED)
@given(by=st.sampled_from(["day", "week", "region"]), most=st.integers(1, 4), history=HISTORIES, retired=st.integers(0, 5))
def test_no_unit_is_above_the_cap(
    name: str, delta: float, by: str, most: int, history: list[tuple[list[int], int]], retired: int
) -> None:
    """For every set of max_blocks blocks, which one unit may be in: its exact loss by the group theorem is within the cap."""
    found, blocks = terms(by, most, name, delta), FAMILIES[by][1]
    state, made = opening(found), list[tuple[set[str], Fraction]]()
    whole = {key: Fraction(value) for key, value in found.the_filter.caps(found.epsilon, found.delta).items()}
    amount = found.the_filter.currency[0]
    each = Fraction(str(state.caps[amount]))
    spent = dict.fromkeys(blocks, Fraction(0))
    for i, (places, share) in enumerate(history):
        window, cost = [blocks[place] for place in places], costs(found, share)
        if i == len(history) // 2:
            content = Retire((blocks[retired],), "gone").entry(state, NOW)
            assert content is not None
            state = after(state, content)
        closed = i >= len(history) // 2 and blocks[retired] in window
        fits = not closed and all(spent[block] + Fraction(cost[amount]) <= each for block in window)
        then = asked(state, cost, window)
        assert (then is not None) == fits
        if then is not None:
            state = then
            made.append((set(window), Fraction(cost[amount])))
            spent = {block: spent[block] + (made[-1][1] if block in window else 0) for block in blocks}
    said = odometer(state).epsilon
    for unit in units(blocks, most):
        total = sum((len(window & unit) ** POWERS[amount] * cost for window, cost in made), Fraction(0))
        assert total <= whole[amount]
        assert found.the_filter.odometer({amount: Decimal(cost_text(float(total)))}, found.delta) <= said * (1.0 + 1e-12)
    assert each * most ** POWERS[amount] <= whole[amount] <= each * most ** POWERS[amount] * (1 + Fraction(1, 10**15))


def units(blocks: Sequence[str], most: int) -> Iterator[set[str]]:
    for bits in range(1, 1 << len(blocks)):
        found = {block for i, block in enumerate(blocks) if bits >> i & 1}
        if len(found) <= most:
            yield found


def draw(text: str, below: int) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") % below


def log_odds(epsilon: float, count: int, side: int) -> tuple[float, float]:
    """The log probabilities of 0 and 1 from a count: epsilon-DP for one record, and for j of them hardly less than j epsilon."""
    log_one = side * (epsilon * count - 9.0)
    return -math.log1p(math.exp(log_one)), -math.log1p(math.exp(-log_one))


@given(most=st.integers(1, 3), adversary=st.integers(0, 2**32), epsilon=st.floats(0.5, 4.0))
def test_whoever_chooses_from_outputs_learns_no_more(most: int, adversary: int, epsilon: float) -> None:
    """Adaptive choice of runs and windows: on every path of outputs the exact loss of a unit is within the cap."""
    blocks = FAMILIES["day"][1][:4]
    unit = set(blocks[:most])
    worst = [0.0]

    def go(state: LedgerState, path: str, loss: float) -> None:
        worst[0] = max(worst[0], abs(loss))
        if len(path) == 6:
            return
        pick = draw(f"{adversary}{path}", 15) + 1
        window = [block for i, block in enumerate(blocks) if pick >> i & 1]
        hundredths = draw(f"cost {adversary}{path}", 60) + 1
        cost = Decimal(str(round(epsilon / most, 6))) * hundredths / 100
        then = asked(state, {"epsilon": str(cost), "delta": "0"}, window)
        if then is None:
            go(state, path + "-", loss)
            return
        with_it, without = (log_odds(float(cost), count, 1) for count in (len(unit & set(window)), 0))
        for output in (0, 1):
            go(then, path + str(output), loss + with_it[output] - without[output])

    go(opening(terms("day", most, epsilon=epsilon)), "", 0.0)
    assert worst[0] <= epsilon * (1.0 + 1e-12)


def test_the_bound_for_a_unit_in_several_blocks_is_reached() -> None:
    """A unit in three blocks loses nearly all of the cap. So the caps of blocks have to be divided by max_blocks."""
    state: LedgerState | None = opening(terms("day", 3, epsilon=3.0))
    loss, window = 0.0, FAMILIES["day"][1][:3]
    for _ in range(4):
        assert state is not None
        state = asked(state, {"epsilon": "0.25", "delta": "0"}, window)
        loss += log_odds(0.25, 3, 1)[1] - log_odds(0.25, 0, 1)[1]
    assert 0.99 * 3.0 < loss <= 3.0
    assert state is not None and asked(state, {"epsilon": "1E-20", "delta": "0"}, window) is None


@given(
    steps=st.integers(2, 4),
    logits=st.lists(st.lists(st.floats(-2.0, 2.0), min_size=5, max_size=5), min_size=5, max_size=5),
    shift=st.floats(0.01, 0.6),
    drawn=st.booleans(),
)
def test_rho_of_a_group_grows_with_its_square_at_most(steps: int, logits: list[list[float]], shift: float, drawn: bool) -> None:
    """Chains of distributions, each with rho to the next. Shifted normal distributions reach the bound."""
    import numpy as np

    line = np.linspace(-9.0, 9.0, 2000)
    found = [np.array(row) if drawn else -0.5 * (line - i * shift) ** 2 for i, row in enumerate(logits[: steps + 1])]
    chain = [row - np.log(np.exp(row).sum()) for row in found]
    orders = 1.0 + np.geomspace(1e-4, 30.0, 120)

    def rho(p: Any, q: Any) -> float:
        return max(float(np.log(np.exp(a * p + (1.0 - a) * q).sum())) / (a - 1.0) / a for a in orders)

    near = max(rho(*pair) for p, q in itertools.pairwise(chain) for pair in ((p, q), (q, p)))
    far = rho(chain[0], chain[-1])
    assert far <= steps**2 * near * (1.0 + 1e-6) + 1e-9
    assert drawn or far >= 0.9 * steps**2 * near


# What is refused.


def test_terms_without_a_proved_guarantee_open_no_ledger(tmp_path: Path) -> None:
    def opened(name: str, delta: float, most: int) -> None:
        try:
            found = terms("day", most, name, delta)
        except InputError:
            return  # a filter that needs a delta
        path = str(tmp_path / f"{name} {delta} {most}.db")
        if most == 1 or (name, delta) in PROVED:
            init(path, DATASET, found).close()
        else:
            with pytest.raises(InputError, match="no bound is proved"):
                init(path, DATASET, found)
            with pytest.raises(LedgerError):
                by_hand(found)

    every(itertools.product(FILTERS, (0.0, 1e-6), (1, 2)), opened)


def by_hand(found: LedgerTerms) -> None:
    content = {"kind": "open", "terms": found.content(), "caps": dict(found.the_filter.caps(found.epsilon, found.delta))}
    LedgerState(DATASET).apply(seal({**content, "who": "ana", "when": NOW, "dpcli": "0"}, DATASET, LedgerState(DATASET).head))


WRONG: tuple[tuple[dict[str, Any], dict[str, Any], str], ...] = (
    ({"adjacency": "replace-one"}, {}, "may move between blocks"),
    ({"dataset_size": 100}, {}, "each window has its own size"),
    ({}, {"by": "hour"}, "expected one of day"),
    ({}, {"by": "region"}, "expected names"),
    ({}, {"by": "hash"}, "expected count"),
    ({}, {"by": "hash", "count": 4, "max_blocks": 2}, "all records of a unit lie in one block"),
    ({}, {"names": ["a"]}, "neither names nor count"),
    ({}, {"by": "region", "names": ["EU", "EU"]}, "named twice"),
    ({}, {"by": "region", "names": ["b", "a"]}, "expected terms"),
    ({}, {"by": "hash", "count": 0}, "block-count|expected count"),
    ({}, {"max_blocks": 0}, "max-blocks"),
    ({}, {"column": ""}, "column"),
)


def test_terms_that_are_refused(tmp_path: Path) -> None:
    def refused(changed: dict[str, Any], blocks: dict[str, Any], why: str) -> None:
        found = terms()
        with pytest.raises(InputError, match=why):
            init(str(tmp_path / "l.db"), DATASET, replace(found, **changed, blocks={**(found.blocks or {}), **blocks}))
        assert not (tmp_path / "l.db").exists()

    every(WRONG, refused)


@pytest.mark.parametrize("by", BLOCKS)
def test_windows_that_are_refused(by: str) -> None:
    found = BlockFamily(**family(by))
    blocks = FAMILIES[by][1]
    for text in (
        "",
        "..",
        "2026-02-30",
        "2026-1-1",
        "2026-W54",
        "2021-W53",
        "0000-01-01",
        "12",
        "01",
        "-1",
        "asia",
        "eu ",
        "٣",
        "2026-01-01\n",
    ):
        with pytest.raises(InputError):
            found.window([text])
        assert found.window_fault([text]) is not None
    assert found.window([*reversed(blocks), blocks[0]]) == tuple(sorted(blocks))
    for wrong in (None, [], "x", [1], {}, [blocks[0]] * 2, [*sorted(blocks)[::-1]], [f"{i}" for i in range(MOST_IN_WINDOW + 1)]):
        assert found.window_fault(wrong) is not None


def test_what_lies_between() -> None:
    assert BlockFamily(**family("day")).window(["2027-12-30..2028-01-02"]) == (
        "2027-12-30",
        "2027-12-31",
        "2028-01-01",
        "2028-01-02",
    )
    assert BlockFamily(**family("week")).window(["2020-W52..2021-W01"]) == ("2020-W52", "2020-W53", "2021-W01")
    assert BlockFamily(**family("hash")).window(["8..11"]) == ("10", "11", "8", "9")
    for by, text in (("day", "2028-01-02..2028-01-01"), ("week", "2021-W01..2020-W53"), ("hash", "3..2"), ("region", "eu..é")):
        with pytest.raises(InputError):
            BlockFamily(**family(by)).window([text])


FAR = {"day": "0001-01-01..9999-12-31", "week": "0001-W01..9999-W52", "hash": "0..999999"}


@pytest.mark.parametrize("by", FAR)
def test_a_range_that_is_too_long_is_not_written_down_first(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line in a file by somebody else would otherwise take minutes and gigabytes."""
    found = BlockFamily(**{**family(by), **({"count": 10**6} if by == "hash" else {})})
    monkeypatch.setattr(type(found.kind), "between", lambda *ends: pytest.fail("all of them"))
    with pytest.raises(InputError, match=f"expected a window of 1 to {MOST_IN_WINDOW} blocks, found {FAR[by]}"):
        found.window([FAR[by]])


def test_every_kind_that_has_an_order_has_a_far_range() -> None:
    assert set(FAR) == {by for by in BLOCKS if BlockFamily(**family(by)).kind.ordered}


def test_a_window_counts_in_every_request_and_in_verify(place: Place) -> None:
    """The window counts when a key is repeated, when a run is priced or voided, and when `verify` adds up."""
    ledger = init(place.url, DATASET, replace(terms(max_blocks=2), schema=""))
    first, second, third = FAMILIES["day"][1][:3]
    assert not ledger.spend(run(0.3), "a", window=[f"{first}..{second}"]).repeated
    assert ledger.spend(run(0.3), "a", window=[second, first]).repeated
    with pytest.raises(LedgerError, match="differs in window"):
        ledger.spend(run(0.3), "a", window=[first])
    with pytest.raises(Denied, match=f"on 1 of the 2 blocks of its window .{second}"):
        ledger.spend(run(0.3), "b", window=[second, third])
    ledger.reserve(run(0.2), "c", window=[second, third])
    ledger.void("c", "it never began")
    for window in ([], ["2026-02-30"]):
        with pytest.raises(InputError, match="--window: expected"):
            ledger.spend(run(0.1), "d", window=window)
    ledger.retire([third], "deleted")
    with pytest.raises(Denied, match=f"{third} was retired"):
        ledger.spend(run(0.01), "e", window=[third])
    found = verify(ledger)
    assert (found.entries, found.costs, found.problems) == (5, 2, ())
    ledger.close()


FORGED: tuple[dict[str, Any], ...] = (
    {"window": None},
    {"window": []},
    {"window": ["2027-12-30", "2027-12-29"]},
    {"window": ["2027-12-29", "2027-12-29"]},
    {"window": ["2027-02-30"]},
    {"window": ["2027-12-31"]},  # retired
    {"window": ["2027-12-29"], "cost": {"epsilon": "0.8", "delta": "0"}},
    {"window": ["2027-12-29"], "cost": {"epsilon@2027-12-29": "0.1", "delta": "0"}},
    {"kind": "retire", "window": ["x"], "why": "gone"},
)


def test_what_no_sound_ledger_holds_is_neither_read_nor_let_in(place: Place) -> None:
    ledger = init(place.url, DATASET, replace(terms(), schema=""))
    charge(ledger, "a", "0.3", window=["2027-12-29"])
    ledger.retire(["2027-12-31"], "gone")

    def refused(changed: dict[str, Any]) -> None:
        charged = {"kind": "spend", "key": "b", "pipeline": TABLES, "delta": "0.0", "cost": {"epsilon": "0.1", "delta": "0"}}
        content = {name: value for name, value in {**charged, "detail": "stated", **changed}.items() if value is not None}
        if content["kind"] == "retire":
            content = {name: content[name] for name in ("kind", "window", "why")}
        state = ledger.state()
        entry = seal({**content, "who": ledger.who, "when": ledger.now(), "dpcli": "0"}, DATASET, state.head)
        with pytest.raises(LedgerError):
            state.rehearsal().apply(entry)
        if "://" in place.url:
            with pytest.raises(LedgerError), ledger.store.writing(DATASET) as tail:
                tail.append(entry.row)
        assert len(ledger.entries()) == 3

    every(FORGED, refused)
    ledger.close()


def test_a_ledger_without_blocks_is_stored_as_before(place: Place) -> None:
    """Its entries and checkpoint have no new fields, and a window is refused."""
    ledger = init(place.url, DATASET, replace(plain(), schema=""))
    charge(ledger, "a")
    with pytest.raises(InputError, match="not cut into blocks"):
        ledger.spend(run(), "b", window=["2026-01-01"])
    with pytest.raises(InputError, match="not cut into blocks"):
        ledger.retire(["2026-01-01"], "gone")
    with pytest.raises(InputError):
        ledger.retire([], "gone")
    opened, charged = (entry.content for entry in ledger.entries())
    assert set(opened["terms"]) == {"unit", "adjacency", "epsilon", "delta", "mode", "filter", "schema", "version"}
    assert set(charged) - {"ledger", "dataset", "seq", "previous", "who", "when", "dpcli"} == {
        *("kind", "key", "pipeline", "delta", "cost", "detail"),
    }
    assert "retired" not in checkpoint_content(ledger.state())
    content = {"kind": "spend", "key": "b", "pipeline": TABLES, "delta": "0.0", "cost": {"epsilon": "0.1"}, "window": ["x"]}
    with pytest.raises(LedgerError, match="expected no window"):
        ledger.state().rehearsal().apply(seal(content, DATASET, ledger.state().head))
    ledger.close()


def test_caps_that_were_not_divided_are_found(tmp_path: Path) -> None:
    """A hand-written opening gives each block the cap of a whole unit, which `verify` reports."""
    path = str(tmp_path / "l.db")
    init(path, DATASET, replace(plain(), schema="")).close()
    store = open_store(path)
    found = replace(terms(max_blocks=3), schema=digest(store.schema()), version=store.version)
    content = {"kind": "open", "terms": found.content(), "caps": dict(found.the_filter.caps(1.0, 0.0))}
    entry = seal({**content, "who": "ana", "when": NOW, "dpcli": "0"}, "forged", LedgerState("forged").head)
    with store.writing("forged") as tail:
        tail.append(entry.row)
    (said,) = verify(Ledger(store, "forged")).problems
    assert "a cap of 1 of epsilon" in said and "this version finds 0.3333333333" in said
    store.close()


def test_the_same_run_on_other_blocks_is_no_repetition(tmp_path: Path) -> None:
    ledger = init(str(tmp_path / "l.db"), DATASET, replace(terms(), schema=""))
    for key, day in (("a", "01"), ("b", "02"), ("c", "02")):
        charge(ledger, key, window=[f"2026-01-{day}"])
    assert [(each.rule, each.key) for each in findings(ledger)] == [("DP404", "entry 4")]
    ledger.close()


# Many at once, some of whom die.


def window_of(key: str) -> Sequence[str]:
    """Two to four of six days, by the key: windows overlap."""
    blocks, begin = FAMILIES["day"][1], draw(key, 4)
    return blocks[begin : begin + 2 + draw(key + "!", 3)]


def kept(url: str, folder: Path, seconds: float, workers: int, cap: Decimal) -> int:
    """How many were killed, after checking that each run is on all of its blocks or on none, and that no block is above its cap."""
    found = struggle(url, folder, workers=workers, seconds=seconds, pause=0.02, windows=window_of)
    with open_ledger(url, DATASET) as ledger:
        state = ledger.state()
        assert found.failed == 0 and found.errors == []
        assert set(found.acknowledged) <= set(state.runs) and len(found.acknowledged) == len(set(found.acknowledged))
        for block in FAMILIES["day"][1]:
            spent = state.on_blocks((block,)).spent["epsilon"]
            assert spent == sum(COST for key in state.runs if block in window_of(key)) <= cap
        assert all(run.window == tuple(window_of(key)) for key, run in ((run.key, run) for run in state.runs.values()))
        assert state.fullest().spent["epsilon"] == cap and ledger.store.check() == ()
        assert canonical(checkpoint_content(folded(ledger))) == canonical(checkpoint_content(state))
    return found.kills


@pytest.mark.long
def test_a_window_is_charged_as_a_whole_while_processes_are_killed(place: Place, tmp_path: Path) -> None:
    init(place.url, DATASET, replace(terms(epsilon=0.1), schema="")).close()
    assert kept(place.url, tmp_path, 0.5, 3, Decimal("0.1")) >= 2


def test_every_kind_is_tried() -> None:
    assert set(FAMILIES) == set(BLOCKS)
    assert {name for name, target in FILTERS.items() if load(target).group_power is not None} == {name for name, _ in PROVED}
    assert digest("") != digest("x")
