"""A worker process of a sweep, which makes one run after the other. Only workers load torch.

`Pool` (sweep_runs.py) starts `serve` in each process, and sends it *jobs*: the pipeline file of one run with the folder of its results. A
ledger, the record of what was spent on a dataset, was charged before, if there is one: for the run, under the key `charge`, or for a
private search as a whole. The answer is the metrics of the run. An error of a run becomes its answer, and the worker goes on.

The result file is written last and in one step, so that it exists only for a run that ended. It names the *fingerprint* of the job, a hash
of everything that the run depends on, and is used again only for a job with the same one (`saved_answers`).
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from multiprocessing import connection, parent_process
from typing import TYPE_CHECKING, Any, NamedTuple

from dpcli.base.errors import DpcliError, InputError, InternalError
from dpcli.ledger.blocks.rows import RowWindow
from dpcli.sessions.folder import replace_file

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

RESULT, PIPELINE_FILE, RUN_FOLDER = "result.json", "pipeline.toml", "run"  # names in the folder of a job
SCHEMA = "dpcli/sweep-run/v1"
# Variables that limit the threads of numeric libraries.
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Job:
    """A run that a worker makes.

    Attributes:
        path, text: Path and text of the pipeline file of the run.
        folder: Folder of the results.
        fingerprint: SHA-256 of everything that the run depends on.
        charge: Key of the run in the ledger; None without a ledger, and for a trial of a private search.
        window: Blocks of the dataset (such as days) on which the run was charged, if the file does not name them.
        rows: Rows of the private table that may be read; None for all rows.
    """

    path: str
    text: str
    folder: str
    fingerprint: str
    charge: str | None = None
    window: tuple[str, ...] = ()
    rows: RowWindow | None = None


class Metric(NamedTuple):
    """A metric of a run, such as the accuracy, with its value."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class JobAnswer:
    """The result of a run, which is its metrics or an error message.

    Attributes:
        metrics: Values by the names of the metrics; empty if the run failed.
        failure: Error message; None if the run did not fail.
        charge: Key of the run in the ledger, if the answer was saved by an earlier sweep.
    """

    metrics: dict[str, float]
    failure: str | None = None
    charge: str | None = None

    @property
    def headline(self) -> Metric:
        """Return the first metric, by which runs are compared."""
        return Metric(*next(iter(self.metrics.items())))


def serve(pipe: Connection) -> None:
    """Perform the jobs from a pipe until it closes or the parent process ends."""
    os.setsid()  # Ctrl-C then reaches only the parent, which ends this process
    os.environ.update(dict.fromkeys(THREADS, "1"))  # set before torch is loaded; each core has a process, so one thread suffices
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    while True:
        try:
            job: Job = pipe.recv()
        except EOFError:
            return
        pipe.send(_answer(job))


def _exit_with_parent() -> None:
    """Wait for the end of the parent process, and then end this process."""
    parent = parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


def _answer(job: Job) -> JobAnswer:
    """Return the answer to a job. An error becomes its failure message."""
    try:
        return JobAnswer(perform(job))
    except DpcliError as error:
        return JobAnswer({}, str(error))
    except Exception as error:  # an error of the user's code or of torch; the other runs continue
        return JobAnswer({}, f"{type(error).__name__}: {error}")


def perform(job: Job) -> dict[str, float]:
    """Make a run from its start and return its metrics. The result file is written last, in one step.

    The files of an interrupted run are removed first. They were not released, and the new run draws fresh noise.
    """
    from dpcli.train.plan.plan import plan_of
    from dpcli.train.run.training_run import train

    shutil.rmtree(job.folder, ignore_errors=True)
    plan = plan_of(job.path, job.text.encode())
    plan = (plan.on_blocks(job.window) if job.window else plan).on_rows(job.rows)
    os.makedirs(job.folder)
    replace_file(os.path.join(job.folder, PIPELINE_FILE), job.text.encode())
    outcome = train(replace(plan, train=replace(plan.train, output=os.path.join(job.folder, RUN_FOLDER))))
    if not outcome.private or outcome.repeated:
        raise InternalError("a run of a sweep was seeded or resumed, so the epsilon of its file does not apply")
    if not outcome.metrics:
        raise InputError(outcome.unmeasured or "the run has no metric on data declared public, by which runs are compared")
    record = {"schema": SCHEMA, "fingerprint": job.fingerprint, "metrics": dict(outcome.metrics), "charge": job.charge}
    replace_file(os.path.join(job.folder, RESULT), json.dumps(record).encode())
    return dict(outcome.metrics)


def saved_answers(jobs: Iterable[Job]) -> dict[str, JobAnswer]:
    """Return the saved answers of the jobs whose runs have ended, by the folder of the job."""
    return {job.folder: answer for job in jobs if (answer := _saved_answer(job)) is not None}


def _saved_answer(job: Job) -> JobAnswer | None:
    """Return the saved result of a run; None if the run did not end, was made from another file, or has a damaged result."""
    try:
        with open(os.path.join(job.folder, RESULT), encoding="utf-8") as file:
            record: Any = json.load(file)
    except (OSError, ValueError):
        return None
    if type(record) is not dict or (record.get("schema"), record.get("fingerprint")) != (SCHEMA, job.fingerprint):
        return None
    metrics = record.get("metrics")
    if type(metrics) is not dict or not metrics or any(type(value) not in (int, float) for value in metrics.values()):
        return None
    return JobAnswer({name: float(value) for name, value in metrics.items()}, charge=record.get("charge"))
