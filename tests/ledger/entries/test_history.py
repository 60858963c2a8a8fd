"""Tests of `dpcli budget import`: a history is charged as a whole and once, and a message names each mistake with its line."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import os
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from dpcli.base.errors import Denied, DpcliError, InputError, LedgerError
from dpcli.ledger.blocks.family import BlockFamily
from dpcli.ledger.entry_log import Receipt
from dpcli.ledger.history import charge_history
from dpcli.ledger.history_file import COLUMNS, read_history
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.plugin import FILTERS
from dpcli.ledger.stores.places import init, open_ledger, open_store
from dpcli.ledger.terms import LedgerTerms
from dpcli.ledger.verify import verify
from tests.command import dpcli
from tests.ledger.cases import every
from tests.ledger.conftest import Place
from tests.ledger.deaths_and_damage.deaths import Deadly, killed
from tests.ledger.pipelines import HEAD, pure

SEED = 0 if os.environ.get("CI") else random.SystemRandom().getrandbits(32)
USERS = LedgerTerms(unit="user", adjacency="add-remove", epsilon=3.0, delta=1e-6, filter="approx-dp")
STATED = {"unit": "user", "adjacency": "add-remove"}
RUN = f'{HEAD}[[mechanism]]\nname = "query"\ntype = "pure-dp"\nepsilon = 0.25\n'
Cells = Mapping[str, object]
LINES: tuple[Cells, ...] = (
    {"date": "2024-03-01", "key": "pilot", "epsilon": "0.5", **STATED, "who": "ana", "note": "by hand, before lunch"},
    {"date": "2024-04-01T12:00:00Z", "key": "model", "file": "run.toml", "who": "bob"},
    {"date": "2024-05-01", "key": "third", "epsilon": "0.5", "delta": "1e-9", **STATED},
    {"date": "2024-05-01", "key": "fourth", "rho": "0.0001", "delta": "1e-7", "note": "Läufe 日本", **STATED},
)


@pytest.fixture
def ledger(place: Place) -> Ledger:
    init(place.url, "d", USERS).close()
    return open_ledger(place.url, "d")


def written(folder: Path, lines: Sequence[Cells], form: str = "csv") -> str:
    (folder / "run.toml").write_text(RUN)
    path = folder / f"history.{form}"
    if form == "jsonl":
        path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    else:
        out = io.StringIO()
        writer = csv.DictWriter(out, COLUMNS, restval="")
        writer.writeheader()
        writer.writerows(lines)
        path.write_text(out.getvalue())
    return str(path)


def imported(ledger: Ledger, path: str) -> tuple[Receipt, ...]:
    return charge_history(ledger, read_history(path, ledger.now()))


@pytest.mark.sampled
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_history_is_charged_as_what_it_is(ledger: Ledger, tmp_path: Path, form: str) -> None:
    path = written(tmp_path, LINES, form)
    assert [receipt.repeated for receipt in imported(ledger, path)] == [False] * 4
    pilot, model, third, _ = (entry.content for entry in ledger.entries()[1:])
    assert (pilot["made"], pilot["maker"], pilot["why"]) == ("2024-03-01T00:00:00Z", "ana", "by hand, before lunch")
    assert (model["made"], model["maker"]) == ("2024-04-01T12:00:00Z", "bob") and "maker" not in third
    assert pilot["who"] == ledger.who and pilot["when"] > "2026"
    assert [content["cost"]["epsilon"] for content in (pilot, model, third)] == ["0.5", "0.25", "0.5"]
    assert third["cost"]["delta"] == "1E-9" or Decimal(third["cost"]["delta"]) == Decimal("1e-9")
    assert verify(ledger).problems == ()
    assert [receipt.repeated for receipt in imported(ledger, path)] == [True] * 4
    assert len(ledger.entries()) == 5
    log = dpcli("budget", "log", ledger.store.place if "://" not in ledger.store.place else written_url(ledger), "-f", "json").out
    assert '"maker": "ana"' in log


def written_url(ledger: Ledger) -> str:
    info = ledger.store.connection.info  # type: ignore[attr-defined]
    return f"postgresql://{info.user}@/{info.dbname}?host={info.host}"


def test_csv_and_jsonl_histories_are_the_same(ledger: Ledger, tmp_path: Path) -> None:
    numbers = [{**line, **{n: float(str(line[n])) for n in ("epsilon", "delta", "rho") if n in line}} for line in LINES]
    runs = [read_history(written(tmp_path, lines, form), ledger.now()) for lines, form in ((LINES, "csv"), (numbers, "jsonl"))]
    assert [replace(a, place="") for a in runs[0]] == [
        replace(b, place="", pipeline=a.pipeline) for a, b in zip(*runs, strict=True)
    ]
    imported(ledger, str(tmp_path / "history.csv"))
    assert all(receipt.repeated for receipt in imported(ledger, str(tmp_path / "history.jsonl")))


def test_whoever_imports_it_again_charges_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, LINES)
    with init(str(tmp_path / "l.db"), "d", USERS) as ledger:
        imported(ledger, path)
        assert all(receipt.repeated for receipt in imported(Ledger(ledger.store, "d", who="somebody else"), path))


@pytest.mark.long
def test_what_is_missing_of_a_history_is_charged_and_the_sum_is_the_same(ledger: Ledger, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    lines = [
        {"date": "2024-01-01", "key": f"run {i}", "epsilon": repr(chance.randrange(1, 40) / 1000), **STATED} for i in range(30)
    ]
    for _ in range(4):
        imported(ledger, written(tmp_path, chance.sample(lines, chance.randrange(1, 30))))
    imported(ledger, written(tmp_path, lines))
    assert ledger.state().charges == 30, SEED
    assert ledger.state().spent["epsilon"] == sum(Decimal(str(line["epsilon"])) for line in lines), SEED


@pytest.mark.long
@pytest.mark.sampled
@pytest.mark.parametrize(("point", "there"), [("locked", 0), ("written", 0), ("about to commit", 0), ("committed", 4)])
def test_death_leaves_all_or_nothing_and_the_same_history_goes_on(place: Place, tmp_path: Path, point: str, there: int) -> None:
    init(place.url, "d", USERS).close()
    path = written(tmp_path, LINES)
    assert killed(lambda: imported(Ledger(Deadly(open_store(place.url), point), "d"), path))
    with open_ledger(place.url, "d") as ledger:
        assert ledger.state().charges == there
        assert [receipt.repeated for receipt in imported(ledger, path)] == [there == 4] * 4
        assert ledger.state().charges == 4


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", FILTERS)
def test_what_does_not_fit_is_refused_as_a_whole_and_the_cap_that_is_named_holds_it(name: str, tmp_path: Path) -> None:
    from dpcli.ledger.filters.filter import filter_for_cap

    chosen = filter_for_cap(name, 3.0, 1e-6, {})
    terms = replace(USERS, filter=name, parameters=dict(chosen.parameters()) or None)
    lines = [{"date": "2024-01-01", "key": f"run {i}", "epsilon": "0.9", **STATED} for i in range(12)]
    with init(str(tmp_path / "l.db"), "d", terms) as ledger:
        ledger.spend(pure(0.01), "before", 0.0)
        path = written(tmp_path, lines)
        with pytest.raises(Denied, match="the history fits a cap of epsilon") as refused:
            imported(ledger, path)
        assert len(ledger.entries()) == 2
        done = dpcli("budget", "import", str(tmp_path / "l.db"), path)
        assert done.code == 1 and "the history does not fit" in done.err
        (epsilon,) = re.findall(r"a cap of epsilon (\S+), which", str(refused.value))
        ledger.amend(float(epsilon) * 0.99, "not enough", "the board", unseen=True)
        with pytest.raises(Denied):
            imported(ledger, path)
        ledger.amend(float(epsilon), "that was allowed", "the board", unseen=True)
        imported(ledger, path)
        with pytest.raises(Denied):
            ledger.spend(pure(0.2), "more", 0.0)
        assert verify(ledger).problems == ()


def test_a_delta_that_is_used_up_is_held_by_no_epsilon(ledger: Ledger, tmp_path: Path) -> None:
    line = {"date": "2024-01-01", "key": "wide", "epsilon": "0.1", "delta": "1e-5", **STATED}
    with pytest.raises(Denied, match="no epsilon suffices, as the delta of the history does not fit"):
        imported(ledger, written(tmp_path, [line]))
    assert len(ledger.entries()) == 1


def test_blocks_and_windows(place: Place, tmp_path: Path) -> None:
    days = replace(USERS, filter="zcdp", blocks=BlockFamily("day", "event_date", 1).content())
    with init(place.url, "d", days) as ledger:
        line = {"date": "2026-01-09", "key": "a", "rho": "0.01", **STATED}
        with pytest.raises(InputError, match="csv:2: --window"):
            imported(ledger, written(tmp_path, [line]))
        imported(ledger, written(tmp_path, [{**line, "window": "2026-01-01..2026-01-03; 2026-01-08"}]))
        assert len(ledger.state().spent) == 4
        ledger.retire(("2026-01-02",), "deleted")
        with pytest.raises(Denied, match="was retired"):
            imported(ledger, written(tmp_path, [{**line, "key": "b", "window": "2026-01-02"}]))


@pytest.mark.long
def test_a_key_is_one_run(ledger: Ledger, tmp_path: Path) -> None:
    imported(ledger, written(tmp_path, LINES))

    def again(change: Cells) -> str:
        return written(tmp_path, [*LINES[1:], {**LINES[0], **change}, {**LINES[0], "key": "new"}])

    for change in ({"epsilon": "0.4"}, {"date": "2024-03-02"}, {"who": "eve"}):
        with pytest.raises(LedgerError, match="expected the run that entry 2 charged under it"):
            imported(ledger, again(change))
        assert len(ledger.entries()) == 5, change
    assert [receipt.repeated for receipt in imported(ledger, again({"note": "other words"}))] == [True] * 4 + [False]


def test_a_run_of_today_is_no_run_of_the_history(ledger: Ledger, tmp_path: Path) -> None:
    """A key of the history cannot pay for a new run, and a key of a new run cannot be imported."""
    imported(ledger, written(tmp_path, LINES))
    with pytest.raises(LedgerError, match='model": expected the run'):
        ledger.spend(pure(0.25), ledger.own_key("model"))
    ledger.spend(pure(0.25), ledger.own_key("today"))
    with pytest.raises(LedgerError, match='today": expected the run'):
        imported(ledger, written(tmp_path, [{"date": "2024-01-01", "key": "today", "file": "run.toml"}]))


def test_the_same_key_twice_in_one_history_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    for second in (LINES[0], {**LINES[0], "epsilon": "0.1"}, {**LINES[0], "note": "another run"}):
        with pytest.raises(InputError, match=r":3: key: .* line 2: '.*pilot'"):
            imported(ledger, written(tmp_path, [LINES[0], second]))
    assert len(ledger.entries()) == 1


@pytest.mark.long
def test_nothing_is_nothing_however_it_is_spelled(ledger: Ledger, tmp_path: Path) -> None:
    for number, (zero, column) in enumerate(itertools.product(("-0", "-0.0", "0e5", "-0e-400"), ("epsilon", "delta"))):
        before = ledger.state().spent["epsilon"]
        cells = {"date": "2024-03-01", "key": f"k{number}", "epsilon": "0.5", "delta": "0", **STATED, column: zero}
        imported(ledger, written(tmp_path, [cells]))
        assert ledger.state().spent == {"epsilon": before + Decimal("0" if column == "epsilon" else "0.5"), "delta": 0}, cells
    assert verify(ledger).problems == ()


WRONG = (
    *(("date", text) for text in ("", "yesterday", "2024-13-01", "2024-02-30", "2999-01-01", "01.02.2024", "2024-01-01T25:00:00Z")),
    *(("key", text) for text in ("", "x" * 201, "a\x1b[2J")),
    *(("epsilon", text) for text in ("-1", "nan", "inf", "1e400", "1e-400", "0,5", "1_0", "half", "٠")),
    *(("delta", text) for text in ("-1", "1", "2", "nan", "1e-400")),
    *(("rho", text) for text in ("0.5", "x")),
    *(("unit", text) for text in ("", "example", "USER")),
    *(("adjacency", text) for text in ("", "replace-one", "both")),
    *(("file", text) for text in ("run.toml", "nowhere.toml")),
    ("who", "\x1b[2J"),
    ("window", "2026-01-01"),
)


@pytest.mark.sampled
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_wrong_cell_is_told_with_its_line_and_nothing_is_charged(ledger: Ledger, tmp_path: Path, form: str) -> None:
    good = {"date": "2024-03-01", "key": "pilot", "epsilon": "0.5", **STATED}
    for column, text in WRONG:
        path = written(tmp_path, [{**good, "key": "good"}, {**good, column: text}], form)
        with pytest.raises(InputError) as found:
            imported(ledger, path)
        assert f"history.{form}:{3 if form == 'csv' else 2}: " in str(found.value), (column, text, str(found.value))
        assert "\x1b" not in str(found.value)
    assert len(ledger.entries()) == 1


def test_all_mistakes_are_told_at_once(ledger: Ledger, tmp_path: Path) -> None:
    good = {"date": "2024-03-01", "epsilon": "0.5", **STATED}
    path = written(tmp_path, [{**good, "key": f"k{i}", "date": "soon"} if i % 2 else {**good, "key": f"k{i}"} for i in range(100)])
    with pytest.raises(InputError) as found:
        imported(ledger, path)
    lines = str(found.value).splitlines()
    assert lines[0].startswith(f"{path}:3: date: expected a day") and lines[1].startswith(f"{path}:5: ")
    assert len(lines) == 21 and lines[-1].endswith("and more")


NO_HISTORY = [
    ("", "expected 1 to 1,000 runs, found 0"),
    ("date,key\n", "expected 1 to 1,000 runs, found 0"),
    ("date;key\n", "expected the columns"),
    ("date,key,epsilonn\n", "did you mean 'epsilon'"),
    ("date,key,key\n", "found key twice"),
    ("date,epsilon\n", "expected a header with the column key, found date, epsilon"),
    ('date,key\n"2024-01-01,a\n', "not csv"),
    ("date,key\n2024-01-01,a,b,c\n", ":2: the row has 4 cells, the header 2"),
    ("date,key,epsilon\n2024-01-01,a\n", ":2: the row has 2 cells, the header 3"),
    ("date,key,epsilon\n" + "2024-01-01,a,1\n" * 1001, "found 1,001: import it in parts"),
]


def test_what_is_no_history(tmp_path: Path) -> None:
    def refused(text: str, said: str) -> None:
        (path := tmp_path / "h.csv").write_text(text)
        with pytest.raises(InputError, match=re.escape(said)):
            read_history(str(path), "2026-01-01T00:00:00Z")

    every(NO_HISTORY, refused)


TWICE = b'{"date":"2025-01-02","key":"j","epsilon":5.0,"unit":"user","adjacency":"add-remove","epsilon":0.1}\n'
HOSTILE = (b"\xff\xfe", b"\x00" * 99, b"[1]\n", b"{", b'{"date": 1}', b'{"date": ["x"]}', b'{"x": "y"}', b"[" * 10**5, TWICE)


def test_hostile_bytes_are_an_input_error(tmp_path: Path) -> None:
    def refused(data: bytes, form: str) -> None:
        (path := tmp_path / f"h.{form}").write_bytes(data)
        with pytest.raises(InputError):
            read_history(str(path), "2026-01-01T00:00:00Z")

    every(itertools.product(HOSTILE, ("csv", "jsonl")), refused)


@pytest.mark.long
def test_a_change_anywhere_in_a_history_is_charged_or_told(tmp_path: Path) -> None:
    """Random edits of the file: it is refused with a message, or the runs are those that the text states."""
    chance, good = random.Random(SEED), Path(written(tmp_path, LINES)).read_text()
    counts = {"read": 0, "refused": 0}
    with init(str(tmp_path / "l.db"), "d", USERS) as ledger:
        for _ in range(150):
            at = chance.randrange(len(good))
            text = (
                good[:at]
                + chance.choice(["", ",", '"', "\n", "\r", "\0", "9", "-", "é", "\u202e"])
                + good[at + chance.randrange(2) :]
            )
            (tmp_path / "history.csv").write_text(text, newline="")
            before = len(ledger.entries())
            try:
                imported(ledger, str(tmp_path / "history.csv"))
                counts["read"] += 1
            except DpcliError:
                counts["refused"] += 1
                assert len(ledger.entries()) == before, (SEED, text)
        assert verify(ledger).problems == (), SEED
    assert counts["refused"] > 3, SEED  # what is read is rare, as a key that was charged keeps what it was charged for


@pytest.mark.long
def test_a_history_is_charged_to_whoever_imports_it(place: Place, tmp_path: Path) -> None:
    """Whoever made the runs, they count towards the importer's quota. A history above it is refused as a whole."""
    init(place.url, "d", USERS).close()
    lines = [{"date": "2024-01-01", "key": f"run {i}", "epsilon": "0.25", "who": "bob", **STATED} for i in range(4)]
    with open_ledger(place.url, "d") as ledger:
        ledger.quota("person", "bob", "0", why="he has left")
        imported(ledger, written(tmp_path, lines[:1]))
        ledger.quota("person", ledger.who, "0.25", why="a fair share")
        before = ledger.state().head
        reason = r"the person who imports a history is charged for it, and this history exceeds the quota of .*, 0.25 of the cap"
        with pytest.raises(Denied, match=reason):
            imported(ledger, written(tmp_path, lines))
        assert ledger.state().head == before
        done = dpcli("budget", "import", place.url, written(tmp_path, lines))
        assert done.code == 1 and "of the cap (entry 4)" in done.out + done.err and "the history fits" not in done.out
        done = dpcli("budget", "import", place.url, written(tmp_path, lines[:3]))
        assert done.code == 0 and f"warning: the quota of {ledger.who}, 0.25 of the cap, is used to 100" in done.err, done
        (quota,) = (each for each in ledger.state().quotas.values() if each.name == ledger.who)
        assert ledger.state().quota_used(quota)["epsilon"] == Decimal("0.75")
        ledger.quota("person", ledger.who, "1", why="lifted")
        imported(ledger, written(tmp_path, lines))
        assert verify(ledger).problems == ()


def test_a_cap_that_two_persons_raise(tmp_path: Path) -> None:
    with init(str(tmp_path / "l.db"), "d", replace(USERS, two_person=True)) as ledger:
        line = {"date": "2024-01-01", "key": "much", "epsilon": "5", **STATED}
        with pytest.raises(Denied, match="with --reason and another person's dpcli budget approve; then"):
            imported(ledger, written(tmp_path, [line]))


@pytest.mark.parametrize("column", ["epsilon", "delta"])
def test_a_number_is_never_read_as_less_than_is_written(column: str, tmp_path: Path) -> None:
    chance = random.Random(column)
    for _ in range(60):
        digits = "".join(chance.choice("0123456789") for _ in range(chance.randrange(1, 40)))
        cells = {"date": "2024-01-01", "key": "k", **STATED, "epsilon": "0.5", column: f"0.1{digits}"}
        (run,) = read_history(written(tmp_path, [cells]), "2030-01-01T00:00:00Z")
        (entry,) = run.pipeline.mechanisms
        read = float(getattr(entry.spec, column))
        assert Decimal(repr(read)) >= Decimal(cells[column])
        assert read <= math.nextafter(float(cells[column]), math.inf)
