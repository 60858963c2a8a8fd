"""Tests of units within a window: if a unit has records in one block only, contributions are bounded in each block."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.errors import InputError
from dpcli.ledger.blocks.rows import rows_from_content
from dpcli.ledger.stores.places import init, open_ledger
from dpcli.ledger.terms import LedgerTerms
from dpcli.sessions.window import over_window
from tests.predict import generate_files
from tests.predict.pmixed import pmixed_files
from tests.sessions.tables import BAG, WRITERS, Row, fine_tuning, learnt, table_of, writing

DAYS = [(date(2026, 1, 5) + timedelta(k)).isoformat() for k in range(28)]
WINDOWS = {"day": (f"{DAYS[0]}..{DAYS[-1]}",), "week": ("2026-W02..2026-W05",), "region": ("eu", "asia", "7")}
BLOCK: dict[str, Callable[[Any], Any]] = {"day": str, "week": lambda day: date.fromisoformat(day).isocalendar()[:2], "region": str}
MOST = 2


TABLES = {
    "arrays": ("train.plan.plan", table_of("classification", model="logistic", classes=2, label="label", units="user"), learnt),
    "declared": (
        "train.plan.plan",
        table_of("classification", model="logistic", classes=2, label="label", units="user")
        + "[train.columns]\nx = { min = -2, max = 2 }\n",
        learnt,
    ),
    "causal-lm": ("train.plan.plan", table_of("causal-lm", model="bags:bag", tokenizer="bytes", context=6, units="user"), learnt),
    "generate": (
        "predict.decode.generate_plan",
        generate_files.FILE.replace("notes:private", "rows.csv"),
        writing,
    ),
    "pmixed": (
        "predict.pmixed.pmixed_plan",
        pmixed_files.HEAD.replace("small_texts:letters", "rows.csv") + 'output = "out"\nunits = "user"\n',
        fine_tuning,
    ),
}


def value_of(by: str, draw: random.Random) -> Any:
    """Of the column that decides; also what lies in no block of the window, and times of one day."""
    if by == "region":
        return draw.choice(["eu", "asia", "7", "us", ""])
    return draw.choice(DAYS) + draw.choice(["", "", "T08:30:00"]) if draw.random() < 0.9 else draw.choice(["2026-03-01", ""])


def rows_of(by: str, draw: random.Random, count: int = 160) -> list[Row]:
    return [
        {"when": value_of(by, draw), "user": f"u{draw.randrange(9)}", "text": f"w{k % 12} {k}", "x": k / 100, "label": k % 2}
        for k in range(count)
    ]


def held(by: str, rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["when"] and row["when"] not in ("us", "2026-03-01")]


def owner(by: str, row: Row) -> tuple[Any, ...]:
    return row["user"], BLOCK[by](row["when"][:10])


def alike(values: Sequence[Any]) -> list[int]:
    first: dict[Any, int] = {}
    return [first.setdefault(value, len(first)) for value in values]


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    for name, text in (("notes", generate_files.NOTES), ("small_texts", pmixed_files.MODULE), ("bags", BAG)):
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(__import__("sys").modules, name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def plan(
        name: str,
        by: str,
        rows: Sequence[Row],
        ending: str = ".csv",
        unit: str = "",
        most: int = 1,
        window: Sequence[str] = (),
        column: str = "when",
    ) -> Any:
        module, text, _ = TABLES[name]
        unit = unit or (f"user-{by}" if most == 1 else "user")
        text = re.sub(
            r'unit = "(example|user)"\n(max_contributions = 2\n)?', f'unit = "{unit}"\nmax_contributions = {MOST}\n', text
        )
        (tmp_path / "file.toml").write_text(text.replace("rows.csv", f"rows{ending}"))
        known = [{key: value for key, value in row.items() if name != "arrays" or key != "text"} for row in rows]
        WRITERS[ending](known, tmp_path / f"rows{ending}")
        cut = {"by": by, "column": column, "max_blocks": most, **({"names": ["7", "asia", "eu", "us"]} if by == "region" else {})}
        place = str(tmp_path / f"{len(list(tmp_path.iterdir()))}.db")
        terms = (1e5, 0.5, "approx-dp") if most == 1 else (1e5, 1e-3, "zcdp")
        init(place, "visits", LedgerTerms(unit, "add-remove", *terms[:2], filter=terms[2], blocks=cut)).close()
        with open_ledger(place, None) as books:
            found = __import__(f"dpcli.{module}", fromlist=["plan_of"]).plan_of(str(tmp_path / "file.toml"))
            return over_window(found, books, window or WINDOWS[by])

    return plan


def endings(name: str) -> tuple[str, ...]:
    return (".csv", ".parquet") if name in ("arrays", "declared") else (".csv", ".jsonl", ".parquet")


def cases(names: Sequence[str]) -> list[Any]:
    return [
        pytest.param(name, ending, by, id=f"{name}{ending}-{by}", marks=[pytest.mark.needs(*needs)] if needs else [])
        for name in names
        for ending in endings(name)
        for by in WINDOWS
        for needs in [(*(("pyarrow",) if ending == ".parquet" else ()), *(() if name in ("generate", "pmixed") else ("torch",)))]
    ]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "ending", "by"), cases(["arrays", "declared", "causal-lm"]))
def test_a_unit_is_bounded_in_each_block_where_its_ledger_says_so(
    name: str, ending: str, by: str, planned: Callable[..., Any]
) -> None:
    """And in the window as a whole if a unit may be in several blocks."""
    seed = random.randrange(2**32)
    rows = rows_of(by, random.Random(seed))
    inside = held(by, rows)
    plan = planned(name, by, rows, ending)
    assert plan.rows.block_part == ("week" if by == "week" else "value")
    found = TABLES[name][2](plan)[1]
    assert alike(found) == alike([owner(by, row) for row in inside]), seed
    again = plan.on_rows(rows_from_content(json.loads(json.dumps(plan.rows.content())), plan.rows.blocks))
    assert alike(TABLES[name][2](again)[1]) == alike(found) and again.fingerprint() == plan.fingerprint()
    whole = planned(name, by, rows, ending, most=3)
    assert whole.rows.block_part is None and alike(TABLES[name][2](whole)[1]) == alike([row["user"] for row in inside]), seed


@pytest.mark.parametrize(("name", "ending", "by"), cases(["generate", "pmixed"]))
def test_what_is_read_differs_by_one_unit_alone(name: str, ending: str, by: str, planned: Callable[..., Any]) -> None:
    """Without the records of one unit in one block, a single batch or shard loses at most that unit's records."""
    seed = random.randrange(2**32)
    draw = random.Random(seed)
    rows = rows_of(by, draw)
    gone = owner(by, draw.choice(held(by, rows)))
    left = [row for row in rows if row not in held(by, rows) or owner(by, row) != gone]
    with_it, without = (TABLES[name][2](planned(name, by, some, ending)) for some in (rows, left))
    changed = [(Counter(a), Counter(b)) for a, b in zip(with_it, without, strict=True) if a != b]
    assert len(changed) == 1, seed
    before, after = changed[0]
    assert not after - before and (name == "pmixed" or (before - after).total() <= MOST), seed


@pytest.mark.parametrize("by", WINDOWS)
def test_a_shard_that_comes_or_goes_is_a_unit_in_its_block(
    by: str, planned: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rows_of(by, random.Random(3), 60)
    inside = held(by, rows)
    units = len({owner(by, row) for row in inside})
    module, text, read = TABLES["pmixed"]
    text = text.replace("shards = 6", f'shards = {units}\nchange = "remove-shard"')
    monkeypatch.setitem(TABLES, "pmixed", (module, text, read))
    found = read(planned("pmixed", by, rows))
    expected: dict[Any, list[str]] = {}
    for row in inside:
        expected.setdefault(owner(by, row), []).append(row["text"])
    assert sorted(found) == sorted(expected.values())


NAMED = [
    pytest.param(name, marks=[] if name == "generate" else [pytest.mark.needs("torch")]) for name in TABLES if name != "pmixed"
]


@pytest.mark.sampled
@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("by", WINDOWS)
def test_a_part_of_a_unit_is_refused_where_no_column_tells_its_block(name: str, by: str, planned: Callable[..., Any]) -> None:
    """All blocks of an owner are then bounded together. This is correct for one block, and for whole owners."""
    rows, one = rows_of(by, random.Random(4)), {"day": DAYS[0], "week": "2026-W03", "region": "eu"}[by]
    with pytest.raises(InputError, match=rf'\.units: expected the column that says which "user-{by}".*all records of one "user"'):
        planned(name, by, rows, column="elsewhere")
    assert planned(name, by, rows, column="elsewhere", window=[one]).rows is None
    assert planned(name, by, rows, column="elsewhere", unit="user").rows is None
    with pytest.raises(InputError, match=r"\.units: expected the column"):
        planned(name, by, rows, most=3, unit=f"user-{by}")


@pytest.mark.parametrize("name", NAMED)
def test_a_part_of_a_unit_is_refused_without_blocks(name: str, planned: Callable[..., Any], tmp_path: Path) -> None:
    """Without a ledger that has blocks, the records of an owner are chosen from all of them."""
    planned(name, "day", rows_of("day", random.Random(6)))  # leaves its file here
    text = (tmp_path / "file.toml").read_text()
    for unit, ledger in (
        (unit, ledger) for unit in ("user-day", "user", "visitor", "user-week", "visit") for ledger in (True, False)
    ):
        (tmp_path / "file.toml").write_text(text.replace('unit = "user-day"', f'unit = "{unit}"'))
        plan = __import__(f"dpcli.{TABLES[name][0]}", fromlist=["plan_of"]).plan_of(str(tmp_path / "file.toml"))
        terms = LedgerTerms(unit, "add-remove", 1e5, 0.5, filter="approx-dp")
        with init(str(tmp_path / f"uncut {unit}.db"), "visits", terms) if ledger else nullcontext() as books:
            if unit in ("user-day", "user-week", "visit"):
                said = rf'\.units: expected the column that says which "{unit}".*all records of one "user"'
                with pytest.raises(InputError, match=said):
                    over_window(plan, books)
            else:
                assert over_window(plan, books) == plan, (unit, ledger)


def test_how_a_unit_is_bounded_is_kept_or_refused(planned: Callable[..., Any]) -> None:
    rows = planned("generate", "week", rows_of("week", random.Random(5))).rows
    assert rows_from_content(rows.content(), rows.blocks) == replace(rows, family={})
    for forged in ("day", 7, [], True, "", {}):
        with pytest.raises(ValueError, match="rows"):
            rows_from_content({**rows.content(), "each": forged}, rows.blocks)
