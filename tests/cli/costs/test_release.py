"""Tests of dpcli release on a terminal: its output and exit codes."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from dpcli.base.errors import LedgerError
from dpcli.cli.outputs import DATA_ENDINGS
from dpcli.ledger.stores.places import init
from dpcli.release.engines.source_files import ENDINGS
from tests.command import Result, dpcli
from tests.ledger.filters.setting import DATASET, terms

FILE = """format = 1
name = "shop"
[privacy]
unit = "example"
adjacency = "add-remove"
delta = 1e-6
releases = "outputs"
[budget]
epsilon = 1.0
[source]
path = "shop.csv"
[source.columns]
level = {{ type = "text", domain = ["low", "medium", "high"] }}
[[query]]
name = "levels"
measure = "count"
by = ["level"]
epsilon = {epsilon}
"""
TRUTH = {"low": 3000, "medium": 2000, "high": 1000}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rows = [level for level, count in TRUTH.items() for _ in range(count)]
    (tmp_path / "shop.csv").write_text("\n".join(("level", *rows, "")))
    path = tmp_path / "shop.toml"
    path.write_text(FILE.format(epsilon=0.5))
    return path


@pytest.mark.parametrize("arguments", [("--dry-run",), ()], ids=["dry run", "release"])
def test_over_budget_is_no_pass(arguments: tuple[str, ...], file: Path) -> None:
    file.write_text(FILE.format(epsilon=1.5))
    assert dpcli("release", str(file), *arguments, folder=file.parent).code == 1
    assert not (file.parent / "runs" / "shop" / "answers.json").exists()


@pytest.mark.long
def test_keys_are_shown_in_the_order_in_which_they_were_declared(file: Path) -> None:
    """Each with its own answer; a total comes last."""
    file.write_text(FILE.format(epsilon="1.0\ntotals = true"))
    found = json.loads(dpcli("release", str(file), "-f", "json", folder=file.parent).out)["answers"][0]["rows"]
    assert [row["key"] for row in found] == [["low"], ["medium"], ["high"], ["total"]]
    assert all(abs(row["value"] - true) < 200 for row, true in zip(found, (*TRUTH.values(), 6000), strict=True))


def test_the_statement_says_what_was_asked_and_how_accurate_it_is(file: Path) -> None:
    """Nothing that the file states is left to be asked."""
    file.write_text(FILE.format(epsilon=0.5))
    dpcli("release", str(file), folder=file.parent)
    said = (file.parent / "runs" / "shop" / "statement.md").read_text()
    assert said.startswith("# Release: shop\n") and "**levels**: count by level" in said
    assert "levels: within 6 of the exact bounded answer, with probability 0.95" in said
    assert "NOT STATED (disclosure.utility)" not in said


KEPT = ("shop.csv", "./shop.csv", "link.csv", "runs/shop/answers.json", "runs/shop/run.json", "runs/shop/statement.md", "shop.toml")


OPTIONS = ("-o", "--parquet")


@pytest.mark.parametrize("epsilon", [0.5, 1.5], ids=["answered", "refused"])
def test_no_output_takes_the_place_of_data_or_of_answers(epsilon: float, file: Path) -> None:
    """Nor does a report of an error."""
    folder = file.parent
    (folder / "link.csv").symlink_to("shop.csv")
    assert dpcli("release", str(file), folder=folder).code == 0
    file.write_text(FILE.format(epsilon=epsilon))
    for path, option in product(KEPT, OPTIONS):
        before = (folder / path).read_bytes()
        result = dpcli("release", str(file), option, f"csv={path}" if option == "-o" else path, folder=folder)
        assert result.code == 2 and "expected another path for the output" in result.err, (path, option)
        assert (folder / path).read_bytes() == before, (path, option)


@pytest.mark.parametrize("wrong", ["file", "option", "value", "encoding"])
def test_an_error_before_the_data_are_known_replaces_nothing(wrong: str, file: Path) -> None:
    """It is told in reports that a CI system judges."""
    folder, options = file.parent, {"option": ("--bogus",), "value": ("--ledger",)}.get(wrong, ())
    before = (folder / "shop.csv").read_bytes()
    (folder / "old.xml").write_text("passed")
    if wrong in ("file", "encoding"):
        file.write_bytes(file.read_bytes().replace(b'"count"', b'"cuont"' if wrong == "file" else b"\xff"))
    reports = ("-o", "csv=shop.csv", "-o", "junit=old.xml")
    assert dpcli("release", str(file), *reports, *options, folder=folder).code == 2
    assert (folder / "shop.csv").read_bytes() == before
    assert set(DATA_ENDINGS) == set(ENDINGS)
    assert "failure" in (folder / "old.xml").read_text()


def test_an_output_that_cannot_be_written_costs_nothing(file: Path) -> None:
    """Nor one where the release makes a folder, over a list of values, or among the files of a pattern."""
    (file.parent / "levels.txt").write_text("low\nmedium\nhigh\n")
    (file.parent / "visits").mkdir()
    (file.parent / "shop.csv").rename(file.parent / "visits" / "shop.csv")
    text = file.read_text().replace('domain = ["low", "medium", "high"]', 'domain_file = "levels.txt"')
    file.write_text(text.replace('"shop.csv"', '"visits/*.csv"'))
    before = sorted(file.parent.rglob("*"))
    paths = ("nowhere/answers.csv", "runs", "./runs", "runs/shop", "levels.txt", "visits/more.csv")
    for path, option in product(paths, OPTIONS):
        result = dpcli("release", str(file), option, f"csv={path}" if option == "-o" else path, folder=file.parent)
        assert result.code == 2, (path, option)
        assert f"{path}: cannot be written" in result.err or f"{path}: expected another path" in result.err, (path, option)
        assert sorted(file.parent.rglob("*")) == before, (path, option)
        assert (file.parent / "levels.txt").read_text() == "low\nmedium\nhigh\n"


def test_no_output_takes_the_place_of_the_ledger(file: Path) -> None:
    """Nor of what SQLite restores it from; and none of this is charged."""
    folder = file.parent
    with init(str(folder / "ledger.db"), DATASET, terms(2.0)):
        pass
    before = (folder / "ledger.db").read_bytes()
    for named, option, path in product(
        ("ledger.db", "sqlite:///ledger.db", "./ledger.db"), OPTIONS, ("ledger.db", "ledger.db-journal")
    ):
        output = f"csv={path}" if option == "-o" else path
        result = dpcli("release", str(file), "--ledger", named, option, output, folder=folder)
        assert result.code == 2 and "expected another path for the output" in result.err, (named, option, path)
        assert (folder / "ledger.db").read_bytes() == before, (named, option, path)
        if option == "-o":
            shown = dpcli("budget", "show", named, "-o", "csv=ledger.db", folder=folder)
            assert "found the input file" in shown.err and (folder / "ledger.db").read_bytes() == before, named


def test_the_same_command_again_writes_the_same_outputs(file: Path) -> None:
    arguments = ("release", str(file), "-o", "answers.csv", "--parquet", "answers.parquet")
    assert [dpcli(*arguments, folder=file.parent).code for _ in range(2)] == [0, 0]
    twice = dpcli("release", str(file), "-o", "csv=answers.txt", "--parquet", "answers.txt", folder=file.parent)
    assert twice.code == 2 and "expected each path once" in twice.err


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), RuntimeError("no"), KeyboardInterrupt(), LedgerError("no")]
)
def test_a_report_of_an_error_has_the_exit_code_of_the_process(
    error: BaseException, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(path: str) -> None:
        raise error

    monkeypatch.setattr("dpcli.release.release_plan.plan_of", broken)
    result = dpcli("release", str(file), "-o", "report.json", folder=file.parent)
    assert json.loads((file.parent / "report.json").read_text())["exit_code"] == result.code != 0


OTHERS = """
[[query]]
name = "many"
measure = "threshold"
column = "level"
above = 1500
answers = 3
epsilon = 0.2
[[query]]
name = "mode"
measure = "mode"
column = "level"
epsilon = 0.2
"""


@pytest.mark.long
def test_every_format_holds_the_same_values(file: Path) -> None:
    import duckdb

    folder = file.parent
    file.write_text(file.read_text() + OTHERS)
    assert dpcli("release", str(file), "-o", "a.json", "-o", "a.csv", "--parquet", "a.parquet", folder=folder).code == 0
    told = [row["value"] for answer in json.loads((folder / "a.json").read_text())["answers"] for row in answer["rows"]]
    texts = [value if isinstance(value, str) else json.dumps(value) for value in told]
    with (folder / "a.csv").open(newline="") as lines:
        assert [row["value"] for row in csv.DictReader(lines)] == texts
    with duckdb.connect() as connection:
        rows = connection.execute(f"SELECT value, chosen FROM '{folder / 'a.parquet'}'").fetchall()
    assert [chosen if value is None else json.dumps(int(value)) for value, chosen in rows] == texts
    assert len(texts) > 5 and {"low", "true"} <= set(texts)


@pytest.fixture
def small(file: Path) -> str:
    """A ledger with room for one release and a half."""
    init(str(file.parent / "ledger.db"), DATASET, replace(terms(0.75), delta=1e-3)).close()
    return str(file.parent / "ledger.db")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format_", ["text", "json", "table"])
def test_a_dry_run_says_what_the_ledger_would_and_charges_nothing(format_: str, file: Path, small: str) -> None:
    """The answer is that of the release itself, before and after; of the release that was charged it is that no more is."""

    def asked(name: Path, *arguments: str) -> Result:
        return dpcli("release", str(name), "--ledger", small, "-f", format_, *arguments, folder=file.parent)

    other = file.with_name("other.toml")
    other.write_text(file.read_text().replace('name = "shop"', 'name = "other"'))
    untouched = Path(small).read_bytes()
    first = asked(file, "--dry-run")
    assert first.code == 0 and "it costs 0.5" in first.out and Path(small).read_bytes() == untouched
    assert asked(file).code == 0
    assert asked(file, "--dry-run").code == 0 and asked(file).code == 0
    denied = asked(other, "--dry-run")
    assert denied.code == asked(other).code == 1
    assert "the ledger would deny it" in denied.out + denied.err and "too little" in denied.out


@pytest.mark.parametrize("missing", [False, True], ids=["answered", "refused"])
def test_that_no_ledger_is_charged_is_said_where_noise_was_drawn(missing: bool, file: Path) -> None:
    if missing:
        (file.parent / "shop.csv").unlink()
    first, again = (dpcli("release", str(file), folder=file.parent) for _ in range(2))
    assert ("charged to no ledger" in first.err) is not missing
    assert "charged to no ledger" not in again.err
