"""Tests of csv in every command that has it: stable names, numbers as in JSON, and no formula of a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.analysis.documents.account import _as_json
from dpcli.document.document import Document, Sheet, jsonable
from dpcli.document.formats import csv as format_csv
from tests.cases import of_each
from tests.cli.commands import COMMANDS, own_formats, words_of
from tests.command import ROOT, dpcli
from tests.gate.samples import GATE, LARGE_DELTA, OVER

HOSTILE = GATE.replace('name = "vocabulary"', 'name = "=HYPERLINK(1)"').replace('"ads-ranking"', '"@SUM(1)"')
VISITS = (ROOT / "examples" / "release.toml").read_text()
CALIBRATION = "--target-epsilon 3 --delta 1e-5 --sampling-rate 0.01 --steps 100"

# A command, and one of its kind over another file: the columns do not depend on what is found.
PAIRS = {
    "account pass.toml": "account no-guarantee.toml",
    "account pass.toml --epsilon 1": "account rule.toml",
    "gate pass.toml rule.toml": "gate broken.toml",
    "lint pass.toml": "lint rule.toml broken.toml",
    "diff pass.toml over.toml": "diff pass.toml pass.toml",
    "explain pass.toml": "explain no-guarantee.toml",
    f"calibrate-sigma {CALIBRATION}": f"calibrate-sigma {CALIBRATION} --adjacency replace-one",
    "calibrate pass.toml --solve noise -m train": "calibrate hostile.toml --solve scale",
    "release visits.toml --dry-run": "release means.toml --dry-run",
    "budget show spent.db": "budget show spent.db",
    "budget log spent.db": "budget log spent.db",
    "budget export spent.db": "budget export spent.db",
    "budget verify spent.db": "budget verify spent.db",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("csv")
    texts = {
        "pass": GATE,
        "over": OVER,
        "rule": LARGE_DELTA,
        "no-guarantee": GATE.replace("delta = 1e-8", "delta = 0.0"),
        "hostile": HOSTILE,
        "visits": VISITS,
        "means": re.sub(r"postprocess.*", "", VISITS.replace('"visits-of-adults"', '"others"')),
        "broken": GATE.replace("scale =", "scal ="),
    }
    for name, text in texts.items():
        (found / f"{name}.toml").write_text(text)
    terms = "--dataset d --unit user --adjacency add-remove --epsilon 9 --delta 1e-8 --filter zcdp"
    assert dpcli("budget", "init", "spent.db", *terms.split(), folder=found).code == 0
    charged = dpcli("budget", "spend", "spent.db", "pass.toml", "--key", "k", "--reason", "=1+1", folder=found)
    assert charged.code == 0, charged
    return found


@pytest.mark.long
@of_each("command", [command for command in PAIRS if not command.startswith("budget")])
def test_each_line_of_jsonl_says_what_its_bound_is_at(command: str, folder: Path) -> None:
    """A bound on epsilon is one at a delta, and the other way round."""
    words = command.split()
    if "jsonl" in own_formats((words[0],)):
        for line in dpcli(*words, "-f", "jsonl", folder=folder).out.splitlines():
            keys = set(re.findall(r'"(\w+)":', line))
            assert "delta" in keys or "epsilon_upper" not in keys, line
            assert "epsilon" in keys or "delta_upper" not in keys, line


def test_a_line_of_jsonl_is_the_row_of_its_accountant(folder: Path) -> None:
    for at, quantity in (("--delta", "epsilon"), ("--epsilon", "delta")):
        asked = ("account", "pass.toml", at, "1e-7")
        lines = [json.loads(line) for line in dpcli(*asked, "-f", "jsonl", folder=folder).out.splitlines()]
        assert lines == [{at[2:]: 1e-7, **row} for row in json.loads(dpcli(*asked, "-f", "json", folder=folder).out)["accountants"]]
        assert any(line[f"{quantity}_upper"] is not None for line in lines)


def rows_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def numbers_in(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from numbers_in(one)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def test_every_command_with_csv_is_read() -> None:
    read = {words_of(line) for line in PAIRS}
    writing = {w for w in COMMANDS if w[0] == "budget" and w[1] not in ("show", "log", "export", "verify", "anchor", "upgrade")}
    assert {words for words in COMMANDS if "csv" in own_formats(words)} == read | writing | {
        ("plot",),
        ("predict",),
        ("sweep",),
        ("pmixed", "predict"),
    }


@pytest.mark.long
@of_each("line", PAIRS)
def test_csv_is_data(line: str, folder: Path) -> None:
    text = dpcli(*line.split(), "-f", "csv", folder=folder).out
    columns, *rows = rows_of(text)
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", column) for column in columns)
    assert len(set(columns)) == len(columns)
    assert all(len(row) == len(columns) for row in rows)
    cells = [cell for row in rows for cell in row]
    assert not [cell for cell in cells if cell.startswith("'") and number(cell[1:]) is not None]
    known = set(numbers_in(json.loads(dpcli(*line.split(), "-f", "json", folder=folder).out)))
    read = [value for cell in cells if (value := number(cell)) is not None]
    assert known.issuperset(read), set(read) - known
    assert rows_of(dpcli(*PAIRS[line].split(), "-f", "csv", folder=folder).out)[0] == columns


def test_no_cell_is_a_formula(folder: Path) -> None:
    for line in ("account hostile.toml", "calibrate hostile.toml --solve scale", "budget export spent.db", "budget log spent.db"):
        cells = [cell for row in rows_of(dpcli(*line.split(), "-f", "csv", folder=folder).out) for cell in row]
        assert not [cell for cell in cells if cell[:1] in ("=", "+", "@") or (cell[:1] == "-" and number(cell) is None)]
    assert any(cell == "'=1+1" for cell in cells)


@given(st.lists(st.one_of(st.integers(), st.floats(allow_nan=False), st.text(), st.booleans(), st.none()), min_size=1))
def test_what_is_written_is_read_back(values: list[str | float | int | bool | None]) -> None:
    sheet = Sheet(tuple(f"c{i}" for i in range(len(values))), (tuple(values),))
    _, row = rows_of(format_csv.render(Document("", {}, sheet=sheet)))
    for value, cell in zip(values, row, strict=True):
        if isinstance(value, bool) or value is None:
            assert cell == {True: "true", False: "false", None: ""}[value]
        elif isinstance(value, str):
            assert cell == format_csv.safe(value) or value in ("inf", "-inf")
            assert cell[:1] not in ("=", "+", "@", "\t", "\r")
            assert cell in ("-", "-inf") or cell[:1] != "-"
        else:
            assert type(value)(cell) == value


@of_each("detail", [{"order": 8.25, "slack": 1e-300}, {"spacing": 7e-05, "tolerance missed: width": math.inf}, {"moment": 8}])
def test_the_details_of_a_row_are_json(detail: dict[str, float]) -> None:
    assert _as_json(detail) == json.dumps(jsonable(detail))
