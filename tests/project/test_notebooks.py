"""The notebooks of examples/: each runs from top to bottom where it lies, keeps no output, and shows tables; what a run logs."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import runpy
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.command import ROOT

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
OF_RELEASE = ("duckdb", "opendp", "sqlglot", "pandas")
NEEDS = {"accounting": (), "training": ("torch", "safetensors", "sklearn"), "release": OF_RELEASE, "questions": OF_RELEASE}


def cells(path: Path) -> list[str]:
    """The code of a notebook, cell by cell."""
    return ["".join(cell["source"]) for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]


def test_a_notebook_is_kept_without_its_output() -> None:
    """So a change of a number changes no file, and what somebody's data gave is not committed."""
    assert {path.stem for path in NOTEBOOKS} == set(NEEDS)
    for path in NOTEBOOKS:
        notebook = json.loads(path.read_text("utf-8"))
        assert (notebook["nbformat"], len({cell["id"] for cell in notebook["cells"]})) == (4, len(notebook["cells"])), path.name
        kept = [cell for cell in notebook["cells"] if cell.get("outputs") or cell.get("execution_count")]
        assert kept == [] and notebook["cells"][0]["cell_type"] == "markdown", path.name


def run(path: Path) -> tuple[dict[str, Any], list[Any], str]:
    """What the names of a notebook stand for after its last cell, what its cells show, and what they print."""
    names: dict[str, Any] = {}
    shown, out = [], io.StringIO()
    for number, code in enumerate(cells(path)):
        *statements, last = ast.parse(code).body
        if not isinstance(last, ast.Expr) or "print(" in ast.unparse(last):
            statements.append(last)
        with contextlib.redirect_stdout(out):
            exec(compile(ast.Module(statements, []), f"{path.name}, cell {number}", "exec"), names)
            if last not in statements and isinstance(last, ast.Expr):
                shown.append(eval(compile(ast.Expression(last.value), path.name, "eval"), names))
    return names, shown, out.getvalue()


@pytest.mark.nightly
@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=pytest.mark.needs(*NEEDS[path.stem])) for path in NOTEBOOKS], ids=lambda path: path.stem
)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("runs", "__pycache__"))
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "private_loop", raising=False)
    names, shown, printed = run(folder / path.name)
    tables = [result._repr_html_() for result in shown if hasattr(result, "_repr_html_")]
    assert tables and all("<table" in table or "epsilon" in table for table in tables)
    if path.stem == "accounting":
        assert 2.6002 <= names["result"].epsilon <= 2.6003 and names["answer"].epsilon <= 2.0 < names["answer"].cheaper_upper
        assert printed.count("steps: epsilon <= ") == 15
    elif path.stem == "training":
        assert names["private"].taken == 150 and names["result"].epsilon <= 4.0 and names["accuracy"] > 0.67, printed
    elif path.stem == "questions":
        assert len(set(names["table"]["query"])) == 10 and names["answers"].epsilon <= 3.0, printed
        assert 0.0 < names["share"] < 1.0 and len(names["by_state"]) == 4 and len(names["reasons"]) >= 1
    else:
        assert len(names["table"]) >= 7 and names["answers"].epsilon <= 3.0, printed


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names of the notebook of training before its first step."""
    folder = shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("runs", "__pycache__"))
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "private_loop", raising=False)
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for code in cells(folder / "training.ipynb")[:2]:
            exec(code, names)
    return names


@pytest.mark.nightly
@pytest.mark.needs(*NEEDS["training"])
def test_what_is_logged_of_a_run_is_its_guarantee(started: dict[str, Any]) -> None:
    take_logged_steps = runpy.run_path("log_epsilon.py")["take_logged_steps"]
    params: dict[str, float] = {}
    logged: list[tuple[int, dict[str, float]]] = []
    result = take_logged_steps(started["private"], params.update, lambda values, step: logged.append((step, values)))
    assert params == {"planned_epsilon": result.epsilon, "delta": 1e-5, "planned_steps": 150}
    *curve, (last, guarantee) = logged
    assert (last, guarantee) == (150, {"epsilon": result.epsilon}) and 2.95 < result.epsilon <= 2.9562
    assert [step for step, _ in curve] == [50, 100, 150]
    first, second, third = (values["epsilon_if_planned_to_end_here"] for _, values in curve)
    assert 0 < first < second < third <= result.epsilon


@pytest.mark.nightly
@pytest.mark.needs("mlflow", *NEEDS["training"])
def test_mlflow_keeps_what_is_logged(started: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a folder in place of a database
    mlflow = pytest.importorskip("mlflow")
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    with mlflow.start_run() as run:
        result = runpy.run_path("log_epsilon.py")["take_logged_steps"](started["private"], mlflow.log_params, mlflow.log_metrics)
    kept = mlflow.get_run(run.info.run_id).data
    assert kept.metrics["epsilon"] == result.epsilon and kept.params["planned_epsilon"] == repr(result.epsilon)
