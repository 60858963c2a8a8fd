"""The runs of a sweep. Several processes make them, and each result is saved when its run ends, so that a sweep can be resumed.

`measure` makes all runs of a sweep with public tuning; private_search.py uses the same processes and charges for its trials. A *job* is one
training run of a *variant* (a setting at one epsilon, sweep_plan.py), which a worker process makes (worker.py).

A ledger, the record of what was spent on a dataset, is charged before a run starts, or before the first trial of a private search. A
resumed sweep needs the same ledger. If a process dies, its run is lost; if the sweep is interrupted, all runs in progress are. With public
tuning, a lost run stays charged, and is made and charged again.
"""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING

from dpcli.base.errors import Denied, InputError
from dpcli.file.toml.shown import first_names
from dpcli.sessions.charged import charge_run, reason, require_same_ledger
from dpcli.sessions.folder import exclusive
from dpcli.sweep.sweep_plan import MeasuredSweep, MeasuredVariant, SweepPlan, Variant
from dpcli.sweep.worker import Job, JobAnswer, saved_answers, serve

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

    from dpcli.file.pipeline.model import Pipeline
    from dpcli.ledger.ledger import Ledger

Progress = Callable[[int, int], None]  # called with the number of runs that are done, and the number of all runs
FOLDER_DIGITS = 16  # leading digits of a fingerprint that name the folder of a run; 64 bits practically never coincide


@dataclass(slots=True)
class SweepCharges:
    """The charges of a sweep to a ledger. Without a ledger, nothing is charged.

    Attributes:
        why: Reason that the ledger records for each charge.
        denied: Denial of the first run that could not be charged; None if there was none.
    """

    ledger: Ledger | None
    why: str
    denied: Denied | None = None

    def charged_jobs(self, jobs: Sequence[tuple[Job, Pipeline]]) -> Iterator[Job]:
        """Charge each job under a separate key and yield it. The first job that is denied ends the sequence."""
        for job, pipeline in jobs:
            try:
                yield replace(job, charge=self.charge(pipeline))
            except Denied as denial:  # raised later, so that the charged runs can end
                self.denied = denial
                return

    def charge(self, pipeline: Pipeline) -> str | None:
        """Charge a pipeline before its first noise is drawn. Return the key of the charge; None without a ledger."""
        if self.ledger is None:
            return None
        key = uuid.uuid4().hex
        charge_run(self.ledger, key, pipeline, self.why)
        return key

    def commit(self, charge: str | None) -> None:
        """Commit the charge of a run that has ended. A failed run stays charged."""
        if self.ledger is not None and charge is not None:
            self.ledger.commit(charge)

    def require_same(self, charge: str | None, folder: str) -> None:
        """Check that an earlier run was charged to this ledger. Raises InputError, or LedgerError for another ledger."""
        require_same_ledger(folder, charge is not None, self.ledger, "sweep")
        if charge is not None and self.ledger is not None:
            self.ledger.state().run(charge)  # raises LedgerError if the ledger has no such run


class Pool:
    """A context manager for at most `size` worker processes.

    A process is started when there is work for it. All processes are killed at the end of the block.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.processes: dict[Connection, SpawnProcess] = {}
        self.busy: dict[Connection, Job] = {}

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.join()

    def answers(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, JobAnswer]]:
        """Yield each job with its answer, in the order in which the jobs end. A job is taken from `jobs` when a process is free."""
        for job in jobs:
            if len(self.busy) == self.size:
                yield from self._wait_for_answers()
            self._send(job)
        while self.busy:
            yield from self._wait_for_answers()

    def _send(self, job: Job) -> None:
        """Send a job to an idle process, or to a new process if none is idle."""
        idle = next((pipe for pipe, process in self.processes.items() if pipe not in self.busy and process.is_alive()), None)
        pipe = self._start_process() if idle is None else idle
        self.busy[pipe] = job
        pipe.send(job)

    def _start_process(self) -> Connection:
        """Start a process, and return the parent's end of its pipe."""
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs,), daemon=True)
        process.start()
        theirs.close()  # the pipe then ends when the process ends
        self.processes[ours] = process
        return ours

    def _wait_for_answers(self) -> list[tuple[Job, JobAnswer]]:
        """Wait until a process answers or dies, and return the jobs with answers."""
        answers = []
        for pipe in wait(list(self.busy)):
            assert isinstance(pipe, Connection)
            answers.append((self.busy.pop(pipe), self._receive(pipe)))
        return answers

    def _receive(self, pipe: Connection) -> JobAnswer:
        """Return the answer of a process. A process that died gives a failure."""
        try:
            answer: JobAnswer = pipe.recv()
        except (EOFError, ConnectionResetError):
            process = self.processes.pop(pipe)
            process.join()
            return JobAnswer({}, f"its process ended with code {process.exitcode}: killed, or out of memory")
        return answer


def measure(plan: SweepPlan, processes: int, ledger: Ledger | None, progress: Progress) -> MeasuredSweep:
    """Make every run of a sweep with public tuning. A run that ended earlier is not repeated if its file and data are unchanged.

    The ledger is charged for each run before it starts. A run that did not end is made and charged again.

    Raises:
        Denied: The ledger refuses a run. The results of the runs before it are kept.
        InputError: Another process works in the same folder.
    """
    # The first runs of all variants come first, then the second runs. After an early end, all variants have about as many runs.
    numbered_variants = itertools.product(range(plan.repeats), plan.variants)
    jobs = [(_numbered_job(plan, variant, number), variant.plan.pipeline) for number, variant in numbered_variants]
    charges = SweepCharges(ledger, reason("sweep", plan.path, plan.pipeline))
    with exclusive(plan.folder), Pool(processes) as pool:
        answers = saved_answers(job for job, _ in jobs)
        for answer in answers.values():
            charges.require_same(answer.charge, plan.folder)
        progress(len(answers), len(jobs))
        missing_jobs = [(job, pipeline) for job, pipeline in jobs if job.folder not in answers]
        for job, answer in pool.answers(charges.charged_jobs(missing_jobs)):
            answers[job.folder] = answer
            if answer.failure is None:
                charges.commit(job.charge)
            progress(len(answers), len(jobs))
    if charges.denied is not None:
        raise charges.denied
    measured = []
    for variant in plan.variants:
        folders = [_numbered_job(plan, variant, number).folder for number in range(plan.repeats)]
        measured.append(_measured(variant, [answers[folder] for folder in folders]))
    return MeasuredSweep(plan, _metric_name(plan, answers.values()), tuple(measured))


def _numbered_job(plan: SweepPlan, variant: Variant, number: int) -> Job:
    folder = os.path.join(plan.folder, f"epsilon-{variant.epsilon:g}", variant.fingerprint[:FOLDER_DIGITS], f"{number + 1}")
    return job_of(plan, variant, folder)


def job_of(plan: SweepPlan, variant: Variant, folder: str) -> Job:
    """Return the job of one run, which writes its files to `folder`."""
    return Job(plan.path, variant.text, folder, variant.fingerprint, window=variant.window, rows=variant.plan.rows)


def _measured(variant: Variant, answers: list[JobAnswer]) -> MeasuredVariant:
    values = tuple(answer.headline.value for answer in answers if answer.failure is None)
    return MeasuredVariant(variant, values, tuple(answer.failure for answer in answers if answer.failure is not None))


def _metric_name(plan: SweepPlan, answers: Iterable[JobAnswer]) -> str:
    """Return the name of the headline metric of all runs. Raises InputError if they differ."""
    names = {answer.headline.name for answer in answers if answer.failure is None}
    if len(names) > 1:
        raise InputError(f"{plan.path}: expected runs with the same first metric, found {first_names(sorted(names))}")
    return next(iter(names), "")
