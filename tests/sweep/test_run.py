"""Runs of a sweep: made once, kept, made again where they did not end, failed, charged, tabulated and drawn."""

from __future__ import annotations

import csv
import itertools
import json
import math
import os
import signal
import statistics
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra train is not installed")

from dpcli.base.errors import Denied, InputError
from dpcli.document.charts import chart_csv
from dpcli.document.charts import svg as chart_svg
from dpcli.document.charts import terminal as chart_terminal
from dpcli.document.charts import vega as chart_vega
from dpcli.document.charts.scene import scene
from dpcli.ledger.stores.places import init
from dpcli.ledger.terms import LedgerTerms
from dpcli.sessions.folder import exclusive
from dpcli.sweep import sweep_runs
from dpcli.sweep.documents.sweep import chart, result_document
from dpcli.sweep.sweep_plan import Better, MeasuredSweep, MeasuredVariant, SweepPlan, plan_sweep, rank
from dpcli.sweep.sweep_runs import Pool, measure
from dpcli.sweep.worker import RESULT, SCHEMA, Job, JobAnswer, saved_answers
from tests.cases import of_each
from tests.command import ROOT, dpcli
from tests.sweep.fake_runs import InOneProcess, fake_runs
from tests.sweep.samples import CUSTOM, GRID, HEAD, PUBLIC, SWEEP
from tests.waiting import PATIENCE, until


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> type[InOneProcess]:
    monkeypatch.setattr(sweep_runs, "Pool", InOneProcess)
    InOneProcess.done = []
    InOneProcess.work = staticmethod(fake_runs(lambda job: 0.5))  # type: ignore[assignment]
    return InOneProcess


def planned(folder: Path, text: str = PUBLIC + GRID) -> SweepPlan:
    path = folder / "tiny.toml"
    path.write_text(text.replace("[sweep]", f'[sweep]\noutput = "{folder / "runs"}"'))
    return plan_sweep(str(path))


def swept(plan: SweepPlan, **given: object) -> MeasuredSweep:
    return measure(plan, 1, given.get("ledger"), lambda done, total: None)  # type: ignore[arg-type]


@pytest.mark.nightly
def test_a_small_sweep_of_the_digits(tmp_path: Path) -> None:
    """Two epsilons, two runs each, in two processes: kept, tabulated, drawn; and nothing is made twice."""
    (tmp_path / "tiny.toml").write_text(PUBLIC.replace("repeats", "reference = 0.97\nrepeats"))
    command = ("sweep", "tiny.toml", "--jobs", "2", "-o", "csv=out.csv", "-o", "json=out.json", "--picture", "out.svg")
    assert dpcli(*command, folder=tmp_path).code == 0
    found = json.loads((tmp_path / "out.json").read_text())
    assert (found["metric"], found["covers_search"], found["tuning"]) == ("accuracy", False, "public")
    for point, epsilon in zip(found["points"], (1.0, 8.0), strict=True):
        assert point["result"]["epsilon_upper"] <= point["epsilon"] == epsilon
        assert len(point["values"]) == 2
        assert point["median"] == statistics.median(point["values"])
        assert all(0.05 < value < 1.0 for value in point["values"])
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert [row["epsilon"] for row in rows] == ["1.0", "8.0"]
    assert [float(row["median"]) for row in rows] == [p["median"] for p in found["points"]]
    assert "not private: 0.97" in (tmp_path / "out.svg").read_text()
    results = sorted((tmp_path / "runs").rglob(RESULT))
    assert len(results) == 4
    stamps = [path.stat().st_mtime_ns for path in results]
    assert dpcli(*command, folder=tmp_path).code == 0
    assert json.loads((tmp_path / "out.json").read_text()) == found
    assert [path.stat().st_mtime_ns for path in results] == stamps
    runs = [path.parent / "run" for path in results]
    assert len({(path / "model.safetensors").read_bytes() for path in runs}) == 4
    assert all("epsilon" in (path / "statement.md").read_text() for path in runs)


def test_what_ended_is_not_made_again(tmp_path: Path, pool: type[InOneProcess]) -> None:
    plan = planned(tmp_path)
    swept(plan)
    assert len(pool.done) == 8
    assert len({job.folder for job in pool.done}) == 8
    assert {job.text for job in pool.done[:4]} == {variant.text for variant in plan.variants}  # one run of each first
    lost = Path(pool.done[3].folder)
    (lost / RESULT).unlink()
    damaged = Path(pool.done[5].folder)
    (damaged / RESULT).write_text('{"schema": ')
    pool.done.clear()
    swept(plan)
    assert {Path(job.folder) for job in pool.done} == {lost, damaged}


def test_after_a_change_only_what_it_concerns_is_made(tmp_path: Path, pool: type[InOneProcess]) -> None:
    swept(planned(tmp_path))
    pool.done.clear()
    swept(planned(tmp_path, PUBLIC + GRID.replace("[0.25, 1.0]", "[0.25, 2.0]")))
    assert len(pool.done) == 4
    assert all("learning_rate = 2.0" in job.text for job in pool.done)
    pool.done.clear()
    swept(planned(tmp_path, PUBLIC.replace("repeats = 2", "repeats = 3") + GRID))
    assert len(pool.done) == 4
    assert all(job.folder.endswith("/3") for job in pool.done)


def test_other_data_in_the_same_file_are_another_run(tmp_path: Path, pool: type[InOneProcess]) -> None:
    text = PUBLIC.replace('data = "digits"', 'data = "d.csv"')
    (tmp_path / "d.csv").write_text("x,label\n1,0\n")
    before = planned(tmp_path, text).variants[0].fingerprint
    (tmp_path / "d.csv").write_text("x,label\n1,1\n")
    assert planned(tmp_path, text).variants[0].fingerprint != before


def test_other_labels_from_the_same_function_are_another_run(tmp_path: Path, pool: type[InOneProcess]) -> None:
    """What the function's module says, and what that imports: labels that were flipped there are other data."""
    for name in ("own", "helper"):
        (tmp_path / f"{name}.py").write_text("import helper\nflip = False\n")
    before = {one.fingerprint for one in planned(tmp_path, HEAD + CUSTOM + SWEEP + 'better = "higher"\n').variants}
    for name in ("own", "helper"):
        (tmp_path / f"{name}.py").write_text("import helper\nflip = True\n")
        after = {one.fingerprint for one in planned(tmp_path, HEAD + CUSTOM + SWEEP + 'better = "higher"\n').variants}
        assert not before & after, name
        before = after


def test_a_run_that_fails_is_reported_and_the_others_are_kept(tmp_path: Path, pool: type[InOneProcess]) -> None:
    good = fake_runs(lambda job: 0.5)

    def work(job: Job) -> JobAnswer:
        return JobAnswer({}, "no such luck") if "learning_rate = 0.25" in job.text and job.folder.endswith("/2") else good(job)

    pool.work = staticmethod(work)  # type: ignore[assignment]
    found = swept(planned(tmp_path))
    document = result_document(found, [])
    assert document.exit_code == 2
    assert document.verdict == "fail"
    assert "2 of 8 runs failed" in document.headline
    assert "failed: epsilon 1, learning_rate 0.25: no such luck" in document.notes
    assert [row[5] for row in document.tables[0].rows] == ["1 of 2", "2", "1 of 2", "2"]
    pool.done.clear()
    pool.work = staticmethod(good)  # type: ignore[assignment]
    assert not swept(planned(tmp_path)).failures
    assert len(pool.done) == 2  # the failed ones are tried again


@pytest.mark.nightly
@pytest.mark.long
def test_a_failing_process_takes_its_own_run_alone(tmp_path: Path) -> None:
    """A file that cannot be trained, and a process that dies, through the real pool."""
    (tmp_path / "leaves.py").write_text("import os\ndef load():\n    os._exit(3)\n")
    plan = planned(tmp_path, PUBLIC.replace("[1.0, 8.0]", "[8.0]").replace("repeats = 2", "repeats = 1"))
    (variant,) = plan.variants
    text = variant.text
    jobs = [
        Job(plan.path, text.replace("dataset_size = 1437", "dataset_size = 100"), str(tmp_path / "a"), "a"),
        Job(str(tmp_path / "tiny.toml"), text.replace('"digits"', '"leaves:load"\nclasses = 10'), str(tmp_path / "b"), "b"),
        Job(plan.path, text, str(tmp_path / "c"), "c"),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        with Pool(1) as pool:
            answers = dict(pool.answers(jobs))
    assert "privacy.dataset_size" in (answers[jobs[0]].failure or "")
    assert answers[jobs[1]].failure == "its process ended with code 3: killed, or out of memory"
    assert answers[jobs[2]].failure is None
    assert saved_answers(jobs) == {jobs[2].folder: answers[jobs[2]]}


def ledger(folder: Path, epsilon: float):
    return init(str(folder / "l.db"), "digits", LedgerTerms("example", "add-remove", epsilon, 1e-3, filter="approx-dp"))


def test_each_run_is_charged_before_it_starts(tmp_path: Path, pool: type[InOneProcess]) -> None:
    books = ledger(tmp_path, 100.0)
    plan = planned(tmp_path, PUBLIC)

    def work(job: Job) -> JobAnswer:
        assert books.state().runs[job.charge].status == "started"
        return fake_runs(lambda job: 0.5)(job)

    pool.work = staticmethod(work)  # type: ignore[assignment]
    swept(plan, ledger=books)
    assert [charged.status for charged in books.state().runs.values()] == ["committed"] * 4
    swept(plan, ledger=books)
    assert len(books.state().runs) == 4  # what is kept was paid for
    with pytest.raises(InputError, match="expected the --ledger that was charged for this sweep, found none"):
        swept(plan)


def test_runs_that_were_never_charged_do_not_count_as_charged(tmp_path: Path, pool: type[InOneProcess]) -> None:
    plan = planned(tmp_path, PUBLIC)
    swept(plan)
    with pytest.raises(InputError, match="expected no --ledger, as at its start, found one"):
        swept(plan, ledger=ledger(tmp_path, 100.0))


def test_a_ledger_that_says_no_stops_the_sweep_and_loses_nothing(tmp_path: Path, pool: type[InOneProcess]) -> None:
    books = ledger(tmp_path, 2.5)
    plan = planned(tmp_path, PUBLIC.replace("[1.0, 8.0]", "[1.0]").replace("repeats = 2", "repeats = 4"))
    with pytest.raises(Denied):
        swept(plan, ledger=books)
    assert len(pool.done) == 2
    assert [charged.status for charged in books.state().runs.values()] == ["committed"] * 2


def test_a_sweep_of_which_nothing_is_paid_for_leaves_no_folder(tmp_path: Path, pool: type[InOneProcess]) -> None:
    plan = planned(tmp_path, PUBLIC)
    with pytest.raises(Denied):
        swept(plan, ledger=ledger(tmp_path, 0.01))
    assert pool.done == [] and not os.path.lexists(plan.folder)


def test_one_sweep_at_a_time_in_a_folder(tmp_path: Path, pool: type[InOneProcess]) -> None:
    plan = planned(tmp_path)
    with exclusive(plan.folder), pytest.raises(InputError, match="found one in use"):
        swept(plan)
    swept(plan)


@pytest.mark.nightly
@pytest.mark.long
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_kills_the_children_and_keeps_what_ended(tmp_path: Path) -> None:
    text = PUBLIC.replace("[1.0, 8.0]", "[8.0]").replace("repeats = 2", "repeats = 200")
    (tmp_path / "tiny.toml").write_text(text)
    command = [sys.executable, "-m", "dpcli", "sweep", "tiny.toml", "--jobs", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert until(lambda: any(tmp_path.rglob(RESULT)))
        children = _children(process.pid)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "the same command continues from them" in err
    assert "Traceback" not in err
    assert children
    assert until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))  # what Python starts ends by itself
    assert 1 <= len(list(tmp_path.rglob(RESULT))) < 200


def _children(parent: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def values_of(plan: SweepPlan, *values: tuple[float, ...], metric: str = "accuracy", better: Better = "higher") -> MeasuredSweep:
    return MeasuredSweep(replace(plan, better=better), metric, tuple(map(MeasuredVariant, plan.variants, values)))


def test_the_best_setting_of_each_epsilon(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    values = ((0.5, 0.9, 0.1), (0.6, 0.6, 0.6), (0.9, 0.8, 0.95), (0.7, 0.99, 0.8))
    found = values_of(plan, *values)
    assert [cell.values for cell in found.best] == [values[1], values[2]]
    assert [cell.values for cell in values_of(plan, *values, metric="nll", better="lower").best] == [values[0], values[3]]
    assert rank("higher", float("nan")) == rank("lower", float("nan")) == rank("lower", float("inf")) == -float("inf")


@of_each("values", list(itertools.permutations((0.2, math.nan, 0.9))))
def test_a_run_without_a_number_leaves_its_setting_without_a_median(values: tuple[float, ...]) -> None:
    cell = MeasuredVariant(None, values)  # type: ignore[arg-type]
    assert all(map(math.isnan, (cell.median, cell.lowest, cell.highest)))


@of_each("metrics", [None, {}, {"accuracy": "0.5"}, {"accuracy": True}, [0.5]])
def test_a_damaged_result_is_made_again(metrics: object, tmp_path: Path) -> None:
    (tmp_path / RESULT).write_text(json.dumps({"schema": SCHEMA, "fingerprint": "a", "metrics": metrics, "charge": None}))
    assert saved_answers([Job("x.toml", "", str(tmp_path), "a")]) == {}


def test_the_table_and_the_frontier(tmp_path: Path) -> None:
    plan = planned(tmp_path, PUBLIC.replace("repeats", "reference = 0.97\nrepeats") + GRID)
    found = values_of(plan, (0.5, 0.7), (0.4, 0.5), (0.9, 0.8), (0.95, 0.91))
    picture = chart(found)
    best, reference = picture.lines
    assert best.points == ((1.0, 0.6), (8.0, pytest.approx(0.93)))
    assert [(span.x, span.low, span.high) for span in picture.spans] == [(1.0, 0.5, 0.7), (8.0, 0.91, 0.95)]
    assert picture.clouds[0].points == ((1.0, 0.45), (8.0, pytest.approx(0.85)))
    assert {y for _, y in reference.points} == {0.97}
    assert picture.y.low < 0.45
    assert 0.97 < picture.y.high <= 1.0
    assert "covers one run, and not the search" in picture.notes[0]
    assert "epsilon 8: learning_rate 1.0: 0.93" in picture.notes
    document = result_document(found, [picture])
    assert [row[:7] for row in document.tables[0].rows] == [
        ("1", "learning_rate 0.25", "0.6", "0.5", "0.7", "2", "best"),
        ("1", "learning_rate 1.0", "0.45", "0.4", "0.5", "2", ""),
        ("8", "learning_rate 0.25", "0.85", "0.8", "0.9", "2", ""),
        ("8", "learning_rate 1.0", "0.93", "0.91", "0.95", "2", "best"),
    ]
    assert document.exit_code == 0
    assert any("covers one run, and not the search" in note for note in document.notes)


def test_the_frontier_in_every_format(tmp_path: Path) -> None:
    picture = chart(values_of(planned(tmp_path), (0.5, 0.7), (0.4, 0.5), (0.9, 0.8), (0.95, 0.91)))
    rows = [line.split(",") for line in chart_csv.render(picture).splitlines()]
    assert [row[-1] for row in rows if row[0].startswith('"lowest and highest run')] == ["0.5", "0.7", "0.91", "0.95"]
    assert [row[-1] for row in rows if row[0] == "median of another setting"] == ["0.45", "0.8500000000000001"]
    layers = json.loads(chart_vega.render(picture))["layer"]
    spans = [layer["data"]["values"][0] for layer in layers if layer["mark"]["type"] == "rule"]
    assert spans == [{"x": 1.0, "y": 0.5, "high": 0.7}, {"x": 8.0, "y": 0.91, "high": 0.95}]
    laid_out = scene(picture)
    assert len([stroke for stroke in laid_out.strokes if len(stroke.points) == 6]) == 2  # with both caps
    assert len(laid_out.dots) == 4
    assert "lowest and highest run at 8: 0.91 to 0.95" in chart_svg.render(picture)
    assert chart_terminal.render(replace(picture, spans=())) != chart_terminal.render(picture) != chart_terminal.render(
        replace(picture, clouds=())
    )  # fmt: skip


def test_a_sweep_in_which_nothing_ended_has_no_picture(tmp_path: Path, pool: type[InOneProcess]) -> None:
    pool.work = staticmethod(lambda job: JobAnswer({}, "no"))  # type: ignore[assignment]
    found = swept(planned(tmp_path))
    assert found.best == ()
    assert "no run has ended" in result_document(found, []).headline


def test_a_picture_holds_no_infinite_point(tmp_path: Path) -> None:
    values = ((9.0, float("inf")), (30.0, float("inf")), (8.0, 9.0), (7.0, 7.5))
    found = values_of(planned(tmp_path), *values, metric="perplexity", better="lower")
    assert [span.x for span in chart(found).spans] == [8.0]
