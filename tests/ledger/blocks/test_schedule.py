"""Tests of the schedule file (ledger/planning/schedule.py): what is read, what is refused and where, and the order of the days."""

from __future__ import annotations

import json
from datetime import date
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from dpcli.base.errors import InputError
from dpcli.file.pipeline.key_places import schedule_schema
from dpcli.file.toml.findings import InvalidFile
from dpcli.ledger.planning import schedule as module
from dpcli.ledger.planning.schedule import EVERY, KEYS, MOST_SCHEDULED, Rhythm, Schedule, ScheduledRun, read_schedule, rhythm_of
from tests.cases import of_each
from tests.command import dpcli
from tests.gate.samples import GATE

EACH = st.sampled_from([None, "day", "3 days", "week"])
DATES = ("from", "to")
HEAD = 'format = 1\n[[run]]\nfile = "weekly.toml"\n'


def read(folder: Path, text: str) -> Schedule:
    path = folder / "schedule.toml"
    path.write_text(text)
    return read_schedule(str(path))


def test_the_example_of_the_manual_is_read(tmp_path: Path) -> None:
    example = "\n".join(line[4:] for line in (module.__doc__ or "").split("\n") if line.startswith("    ") or not line)
    found = read(tmp_path, example)
    assert found.runs == (
        ScheduledRun(str(tmp_path / "weekly.toml"), date(2026, 2, 2), "week", date(2026, 12, 31), None, "last 28 days"),
        ScheduledRun(str(tmp_path / "survey.toml"), date(2026, 3, 1), window=("2026-01-01..2026-02-28",)),
    )
    days = list(found.days())
    assert days == sorted(days) and len(days) == 49 and days[4] == (date(2026, 3, 1), 1)
    named = {key for run in found.runs for key in ("file", "from", "every", "to", "window")}
    assert named <= set(KEYS["run"].kind.item.members)  # type: ignore[attr-defined]


@of_each(
    "text, said",
    [
        ("format = 1\n", "run: expected at least one [[run]] table, found none"),
        ("format = 1\nrun = []\n", "run: expected at least one [[run]] table, found none"),
        (HEAD, "run[1].from: expected a date (2030-12-31, without quotes), found nothing"),
        (HEAD + "from = 2026-02-02\nevery = 7\n", "run[1].every: expected text in quotes, found 7"),
        (HEAD + 'from = 2026-02-02\nevery = "fortnight"\n', "expected day, week, month, or a number of them"),
        (HEAD + 'from = 2026-02-02\nevery = "week"\n', "expected either to or count with every, found nothing"),
        (
            HEAD + 'from = 2026-02-02\nevery = "week"\nto = 2026-03-01\ncount = 2\n',
            "expected either to or count with every, found both",
        ),
        (HEAD + "from = 2026-02-02\nto = 2026-03-01\n", "expected every with to, found nothing"),
        (HEAD + "from = 2026-02-02\ncount = 3\n", "expected every with count, found nothing"),
        (HEAD + 'from = 2026-02-02\nevery = "day"\nto = 2026-02-01\n', "expected a day from 2026-02-02 on, found 2026-02-01"),
        (HEAD + 'from = "2026-02-02"\n', "expected a date (2030-12-31, without quotes)"),
        (HEAD + 'from = 2026-02-02\nwindwo = "last 28 days"\n', "did you mean 'window'"),
        (
            HEAD + f'from = 2026-02-02\nevery = "day"\ncount = {MOST_SCHEDULED + 1}\n',
            "expected at most 10,000 runs in all, found more",
        ),
        (HEAD + f'from = 2026-02-02\nevery = "day"\ncount = {10**18}\n', "expected at most 10,000 runs in all, found more"),
        ("run = 1", "format"),
    ],
)
def test_invalid_schedules_are_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidFile) as refused:
        read(tmp_path, text)
    assert said in str(refused.value), str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        read_schedule(str(tmp_path / "missing.toml"))


@given(count=st.integers(1, 9999), unit=st.sampled_from(["day", "week", "month"]))
def test_a_rhythm_is_read_as_it_is_written(count: int, unit: str) -> None:
    rhythm = Rhythm(count, unit)
    assert EVERY.holds(rhythm.words) and rhythm_of(rhythm.words) == rhythm
    assert not EVERY.holds(f"{rhythm.words} ") and not EVERY.holds(f"0 {unit}s") and not EVERY.holds(f"{unit}s")


@given(runs=st.lists(st.tuples(st.integers(0, 30), EACH, st.integers(1, 9)), min_size=1, max_size=4))
def test_runs_are_in_the_order_of_their_days(runs: list[tuple[int, str | None, int]]) -> None:
    tables = [
        ScheduledRun("a.toml", date.fromordinal(738_000 + at), every, None, count if every else None) for at, every, count in runs
    ]
    found = list(Schedule(tuple(tables)).days())
    assert found == sorted(found)
    for place, table in enumerate(tables):
        assert [day for day, at in found if at == place] == list(table.days())
    endless = list(islice(Schedule(tuple(tables)).days(endless=True), 500))
    assert endless == sorted(endless) and set(found) <= set(endless)


def test_lint_says_what_the_reader_says(tmp_path: Path) -> None:
    """For a schedule file that is named or found in a folder. A gate skips schedules."""
    path = tmp_path / "schedule.toml"
    path.write_text(HEAD + "from = 2026-02-02\n")
    assert dpcli("lint", str(path)).code == 0
    path.write_text(HEAD + 'from = 2026-02-02\nevery = "fortnight"\n')
    for place in (path, tmp_path):
        result = dpcli("lint", str(place))
        assert result.code == 2 and "run[1].every: expected day, week, month" in result.out + result.err, result
    (tmp_path / "pass.toml").write_text(GATE)
    assert dpcli("gate", str(tmp_path)).code == 0


def test_the_schema_takes_what_the_reader_takes(tmp_path: Path) -> None:
    validator = Draft202012Validator(schedule_schema())
    table: dict[str, object] = {"file": "a.toml", "from": "2026-02-02"}
    for more, sound in (
        ({}, True),
        ({"every": "2 weeks", "count": 3, "window": "last 28 days"}, True),
        ({"every": "day", "to": "2026-03-01", "window": ["a", "b"]}, True),
        ({"every": "fortnight"}, False),
        ({"count": 0}, False),
        ({"winter": 1}, False),
    ):
        stated = {"format": 1, "run": [{**table, **more}]}
        assert validator.is_valid(stated) == sound, more
        if sound:
            lines = (f"{key} = {value if key in DATES else json.dumps(value)}\n" for key, value in {**table, **more}.items())
            assert read(tmp_path, f"format = 1\n[[run]]\n{''.join(lines)}").runs
