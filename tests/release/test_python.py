"""`dpcli.release` and `dpcli.plan_release` (table_release.py) do what the command does, for a table in memory."""

from __future__ import annotations

import inspect
import json
import runpy
import subprocess
import sys
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dpcli
from dpcli.base.errors import Denied, InputError, LedgerError
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.stores.places import init
from dpcli.release.engines import given_table
from dpcli.release.query_answer import AnswerRow, QueryAnswer
from dpcli.release.table_release import ReleasedAnswers, release
from tests.command import ROOT
from tests.command import dpcli as run
from tests.inline import text_of
from tests.ledger.filters.setting import DATASET, terms
from tests.release.tables.files import COLUMNS, document

pytestmark = pytest.mark.needs("duckdb", "sqlglot", "opendp")
COUNT = {"name": "adults", "measure": "count", "epsilon": 0.5, "where": "age >= 18"}
STATES = {"name": "states", "measure": "count", "by": ["state"], "epsilon": 0.5}
AGES = {"name": "age", "measure": "mean", "column": "age", "epsilon": 0.5}
COMMON = {"name": "common", "measure": "mode", "column": "city", "epsilon": 0.5}


def relation(rows: int = 3000) -> Any:
    import duckdb

    return duckdb.connect().sql(
        "select 'visitor' || i as visitor, 'CA' as state, 'A' as city, 'n' as name, 40::bigint as age, 1.5 as spent "
        f"from range({rows}) r(i)"
    )


def file(folder: Path, *queries: dict[str, Any], **source: Any) -> Path:
    tables = document(*(queries or (COUNT,)), by_unit=False)
    tables["source"] = {"columns": COLUMNS, "output": str(folder / "out"), **source}
    tables["privacy"]["delta"] = 0
    path = folder / "file.toml"
    path.write_bytes(text_of(tables))
    return path


@pytest.fixture
def books(tmp_path: Path) -> Iterator[Ledger]:
    with init(str(tmp_path / "ledger.db"), DATASET, terms(1.2)) as ledger:
        yield ledger


def charged(folder: Path) -> int:
    """How many runs the ledger has charged."""
    from dpcli.ledger.stores.places import open_ledger

    with open_ledger(str(folder / "ledger.db"), None) as ledger:
        return sum(run.status != "void" for run in ledger.state().runs.values())


def test_a_table_is_answered_once_and_remembered(tmp_path: Path, books: Ledger) -> None:
    path = file(tmp_path, COUNT, STATES)
    first = dpcli.release(relation(), path, ledger=tmp_path / "ledger.db", key="monday")
    assert first.fresh and first.key == "monday" and charged(tmp_path) == 1
    assert 1.0 <= first.epsilon <= 1.0 + 1e-9 and first.delta == 0.0
    adults = first.answers[0].rows[0]
    assert abs(adults.value - 3000) < 200  # within 100 / epsilon: more with probability e^-100
    again = dpcli.release(relation(5), path, ledger=str(tmp_path / "ledger.db"))
    assert not again.fresh and again.answers == first.answers and charged(tmp_path) == 1
    assert "Release" in first.statement and Path(first.folder) == tmp_path / "out"
    assert json.loads((tmp_path / "out" / "answers.json").read_text())["run"] == "monday"


@pytest.mark.long
def test_a_table_is_joined_with_a_public_file(tmp_path: Path, books: Ledger) -> None:
    """The file is that of the pipeline's folder; a key twice is refused before the charge, and a table of a database always."""
    (tmp_path / "cities.csv").write_text("city,size\nA,4\nB,5\n")
    size, join = {"size": {"type": "integer"}}, {"path": "cities.csv", "on": "city", "columns": ["size"]}
    path = file(tmp_path, {**COUNT, "where": "size = 4"}, columns={**COLUMNS, **size}, join=[join])
    assert abs(dpcli.release(relation(), path).answers[0].rows[0].value - 3000) < 200
    (tmp_path / "cities.csv").write_text("city,size\nA,4\nA,4\n")
    of_database = {"table": "cities", "on": "city", "columns": ["size"]}
    for joined, words in ((join, 'found "A" in 2 rows'), (of_database, "source.join.table: expected path")):
        path = file(tmp_path, {**COUNT, "where": "size = 5"}, columns={**COLUMNS, **size}, join=[joined])
        with pytest.raises(InputError, match=words):
            dpcli.release(relation(), path, ledger=tmp_path / "ledger.db", out=tmp_path / "other")
    assert charged(tmp_path) == 0


def test_another_release_that_does_not_fit_is_denied_and_reads_nothing(
    tmp_path: Path, books: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file(tmp_path, COUNT, STATES)
    dpcli.release(relation(), path, ledger=tmp_path / "ledger.db")
    monkeypatch.setattr(given_table.DuckDBRelation, "parts", lambda *_: pytest.fail("the table was read"))
    with pytest.raises(Denied):
        dpcli.release(relation(), path, ledger=tmp_path / "ledger.db", out=tmp_path / "other")
    assert charged(tmp_path) == 1 and not (tmp_path / "other").exists()


@pytest.mark.long
def test_the_command_and_the_function_price_alike(tmp_path: Path) -> None:
    path = file(tmp_path, COUNT, AGES)
    planned = dpcli.plan_release(path)
    printed = json.loads(run("release", "--dry-run", str(path), "-f", "json").out)
    assert planned.epsilon == printed["result"]["epsilon_upper"] and planned.delta == printed["result"]["delta"]
    assert planned.expected_errors == {each["name"]: each["expected_error"] for each in printed["queries"]}
    assert planned.epsilon == dpcli.release(relation(), path).epsilon and not planned.over_budget


def test_a_plan_says_what_the_budget_refuses(tmp_path: Path) -> None:
    path = file(tmp_path)
    path.write_text(path.read_text().replace("epsilon = 50.0", "epsilon = 0.1"))
    assert dpcli.plan_release(path).over_budget
    with pytest.raises(Denied):
        dpcli.release(relation(), path)
    assert not (tmp_path / "out").exists()


def test_a_missing_column_is_found_before_the_charge(tmp_path: Path, books: Ledger) -> None:
    path = file(tmp_path)
    with pytest.raises(InputError, match='expected a column "age"'):
        dpcli.release(relation().project("visitor"), path, ledger=tmp_path / "ledger.db")
    assert charged(tmp_path) == 0 and not (tmp_path / "out").exists()


def test_a_table_that_fails_while_it_is_read_stays_charged_and_nothing_of_it_is_told(
    tmp_path: Path, books: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file(tmp_path)

    def failing(*_: Any) -> Any:
        yield from ()
        raise ValueError("the row of visitor17")

    monkeypatch.setattr(given_table.DuckDBRelation, "parts", failing)
    with pytest.raises(InputError, match="the place and the cause are private") as error:
        dpcli.release(relation(), path, ledger=tmp_path / "ledger.db")
    assert "visitor17" not in "".join(traceback.format_exception(error.value)) and charged(tmp_path) == 1
    monkeypatch.undo()
    with pytest.raises(LedgerError, match="was charged, but no answer was stored"):
        dpcli.release(relation(), path, ledger=tmp_path / "ledger.db")
    assert charged(tmp_path) == 1


def test_a_pipeline_is_a_path_or_what_was_loaded_from_it(tmp_path: Path) -> None:
    path = file(tmp_path)
    loaded = dpcli.load(path)
    first = dpcli.release(relation(), loaded)
    assert dpcli.release(relation(), str(path)).answers == first.answers
    weaker = replace(loaded, privacy=replace(loaded.privacy, max_contributions=7))
    for given in (weaker, replace(loaded, path=None), replace(loaded, path="-"), "-"):
        with pytest.raises(InputError, match="pipeline: expected"):
            dpcli.plan_release(given)
    path.write_text(path.read_text() + "\n")
    with pytest.raises(InputError, match="a change of the file"):
        dpcli.plan_release(loaded)
    for wrong in (b"file.toml", 3, None):
        with pytest.raises(InputError, match="pipeline: expected a path"):
            dpcli.plan_release(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["key", "window", "out", "dataset", "ledger"])
def test_an_argument_of_another_type_is_refused_by_its_name(name: str, tmp_path: Path) -> None:
    wrong = {"dataset": 3, "ledger": tmp_path / "l.db"} if name == "dataset" else {name: 3}
    with pytest.raises(InputError, match=f"{name}: expected"):
        dpcli.release(relation(), file(tmp_path), **wrong)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_answers_about_a_file_are_not_given_for_a_table(tmp_path: Path) -> None:
    relation().write_csv(str(tmp_path / "visits.csv"))
    path = file(tmp_path, path="visits.csv")
    assert run("release", str(path), "-f", "total").code == 0
    with pytest.raises(InputError, match="found a change"):
        dpcli.release(relation(), path)
    assert dpcli.release(relation(), path, out=tmp_path / "other").fresh


def test_a_file_without_data_is_priced_and_not_answered_by_the_command(tmp_path: Path, books: Ledger) -> None:
    path = file(tmp_path)
    assert run("account", str(path)).code == 0
    dry = run("release", "--dry-run", str(path), "-f", "text")
    assert dry.code == 0 and "the file names no data" in dry.out
    refused = run("release", str(path), "--ledger", str(tmp_path / "ledger.db"))
    assert refused.code == 2 and "expected path or url" in refused.err and charged(tmp_path) == 0


@pytest.mark.long
def test_a_frame_has_a_column_for_each_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = dpcli.release(relation(), file(tmp_path, COUNT, STATES, AGES, COMMON))
    monkeypatch.setitem(sys.modules, "pandas", None)
    rows = answers.frame()
    assert list(rows[0]) == ["state", "query", "measure", "value", "lower", "upper", "confidence"]
    assert [(row["query"], row["state"]) for row in rows] == [
        ("adults", None),
        ("states", "CA"),
        ("states", "NY"),
        ("age", None),
        ("common", None),
    ]
    assert [row["value"] for row in rows] == [each.value for answer in answers.answers for each in answer.rows]
    assert rows[0]["lower"] <= rows[0]["value"] <= rows[0]["upper"] and rows[0]["confidence"] == 0.95
    assert answers.frame("states") == answers.rows("states") == rows[1:3]
    assert [*answers.rows("age")[0]] == ["query", "measure", "value", "lower", "upper", "confidence"]
    with pytest.raises(InputError, match="expected one of 'adults', 'states', 'age', 'common', found 'stats'"):
        answers.frame("stats")


@pytest.mark.needs("pandas")
def test_a_pandas_frame_keeps_whole_numbers_and_texts_as_they_are(tmp_path: Path) -> None:
    outcome = dpcli.release(relation(), file(tmp_path)).outcome
    rows = (AnswerRow((1, True), 2**53 + 1, 0.5, float("inf")), AnswerRow((2, False), -3, None, None))
    counts, chosen = (
        QueryAnswer("q", "count", ("n", "yes"), rows, 0.9, ""),
        QueryAnswer("m", "mode", (), (AnswerRow((), "A"),), 0.9, ""),
    )
    frame = ReleasedAnswers(replace(outcome, answers=(counts,))).frame()
    assert list(map(str, frame.dtypes))[:2] == ["Int64", "boolean"] and frame["value"].tolist() == [2**53 + 1, -3]
    assert frame["upper"][0] == float("inf") and frame["lower"].isna().tolist() == [False, True]
    both = ReleasedAnswers(replace(outcome, answers=(counts, chosen))).frame()
    assert both["value"].tolist() == [2**53 + 1, -3, "A"] and both["n"].isna().tolist() == [False, False, True]


def test_a_result_is_a_line_and_a_page_and_holds_nothing_of_the_table(tmp_path: Path) -> None:
    import duckdb

    path = file(tmp_path)
    connection = duckdb.connect()
    table = connection.sql("select 'visitor17' as visitor, 'CA' as state, 'A' as city, 'n' as name, 40 as age, 1.5 as spent")
    result = dpcli.release(table, path)
    for each in (result, dpcli.plan_release(path)):
        assert (
            len(repr(each)) < 200
            and repr(each).startswith(f"{type(each).__name__}(epsilon <= 0.5000")
            and "<div" in each._repr_html_()
        )
    assert "adults" in result._repr_html_()
    assert result.outcome.plan.given is None
    for left in (tmp_path / "out").iterdir():
        assert b"visitor17" not in left.read_bytes(), left


def test_the_name_is_the_package_whatever_was_imported_first() -> None:
    """Python binds `dpcli.release` to the package as soon as a module of it is imported."""
    lines = [
        "import dpcli; first = dpcli.release; import dpcli.release.release_plan; assert first is dpcli.release and callable(first)",
        "import dpcli.release.release_plan, dpcli; assert callable(dpcli.release)",
        "from dpcli import release; from dpcli.release.release_plan import plan_of; assert callable(release)",
        "import dpcli.release.query as query; assert query.MEASURES",
    ]
    for line in lines:
        ran = subprocess.run([sys.executable, "-c", line], cwd=ROOT, capture_output=True, text=True)
        assert ran.returncode == 0, (line, ran.stderr)
    own, public = inspect.signature(release), inspect.signature(dpcli.release)
    assert own.parameters == public.parameters and own.return_annotation == public.return_annotation
    assert "plan_release" in (inspect.getdoc(dpcli.release) or "")


def test_the_names_import_nothing_that_a_table_needs() -> None:
    packages = ("duckdb", "pandas", "opendp", "sqlglot", "scipy", "click", "dpcli.release")
    for line, expected in (("import dpcli", set()), ("from dpcli import release, plan_release", {"dpcli.release"})):
        code = f"import sys; {line}; print(*{{*sys.modules}} & {{*{packages}}})"
        ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
        assert set(ran.stdout.split()) == expected, line


@pytest.mark.long
def test_the_notebook_of_an_analyst_answers_ten_questions(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "ten_questions.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(".")[0] for line in lines if line[:1].isdigit()] == [str(number) for number in range(1, 11)]
    patients = int(next(line for line in lines if line.startswith("1. ")).split()[1])
    assert abs(patients - 900) < 130  # ten times the noise that has probability 0.95
