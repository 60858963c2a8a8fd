"""The runs of a sweep that are still to be made, in several processes. Every result is kept as soon as it is there.

A ledger is charged before a run starts, and a sweep that goes on does so in the same ledger. A process that dies takes its own run with
it, and an interruption takes them all.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING

from dpcli.base.errors import Denied, InputError
from dpcli.file.toml.shown import first_names
from dpcli.sessions.charged import reason
from dpcli.sessions.folder import exclusive
from dpcli.sweep.sweep_plan import Cell, MeasuredSweep, SweepPlan, Variant
from dpcli.sweep.worker import Job, JobAnswer, kept, serve

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

    from dpcli.file.pipeline.model import Pipeline
    from dpcli.ledger.ledger import Ledger


@dataclass(slots=True)
class Books:
    """The ledger of a sweep, or none. denied: why no further run could be paid for."""

    ledger: Ledger | None
    why: str
    denied: Denied | None = None

    def charged(self, jobs: Sequence[tuple[Job, Pipeline]]) -> Iterator[Job]:
        """Yield each job once it is paid for, under a key of its own; up to the first that is not."""
        for job, pipeline in jobs:
            try:
                yield replace(job, charge=self.charge(pipeline))
            except Denied as reason:  # those that are paid for and running shall end
                self.denied = reason
                return

    def charge(self, pipeline: Pipeline) -> str | None:
        """Charge a pipeline before its first noise and return the key; None without a ledger."""
        if self.ledger is None:
            return None
        key = uuid.uuid4().hex
        self.ledger.reserve(pipeline, key, why=self.why)
        self.ledger.start(key)
        return key

    def ended(self, charge: str | None) -> None:
        """Commit a run that has ended; one that has failed stays charged."""
        if self.ledger is not None and charge is not None:
            self.ledger.commit(charge)

    def require(self, charge: str | None, folder: str) -> None:
        """Require that earlier runs were charged where this sweep is. Raises InputError, or LedgerError for another ledger."""
        if (charge is not None) != (self.ledger is not None):
            wanted = "no --ledger, as when its runs were made" if charge is None else "the --ledger that was charged for its runs"
            raise InputError(f"{folder}: expected {wanted}, found {'one' if charge is None else 'none'}; or name a new folder")
        if self.ledger is not None and charge is not None:
            self.ledger.state().run(charge)


class Pool:
    """At most so many processes, each started when there is work for it. Use in a `with`, at whose end all are killed."""

    def __init__(self, most: int) -> None:
        self.most = most
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
        """Yield each job with its answer, in the order in which they end; a job is taken from `jobs` when a process is free."""
        for job in jobs:
            if len(self.busy) == self.most:
                yield from self._ended()
            self._give(job)
        while self.busy:
            yield from self._ended()

    def _give(self, job: Job) -> None:
        idle = next((pipe for pipe, process in self.processes.items() if pipe not in self.busy and process.is_alive()), None)
        pipe = self._started() if idle is None else idle
        self.busy[pipe] = job
        pipe.send(job)

    def _started(self) -> Connection:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs,), daemon=True)
        process.start()
        theirs.close()  # so that its end is the end of the pipe
        self.processes[ours] = process
        return ours

    def _ended(self) -> list[tuple[Job, JobAnswer]]:
        answers = []
        for pipe in wait(list(self.busy)):
            assert isinstance(pipe, Connection)
            answers.append((self.busy.pop(pipe), self._received(pipe)))
        return answers

    def _received(self, pipe: Connection) -> JobAnswer:
        try:
            answer: JobAnswer = pipe.recv()
        except (EOFError, ConnectionResetError):
            process = self.processes.pop(pipe)
            process.join()
            return JobAnswer({}, f"its process ended with code {process.exitcode}: killed, or out of memory")
        return answer


Progress = Callable[[int, int], None]
SHORT = 16  # digits of a fingerprint that name a folder


def measure(plan: SweepPlan, processes: int, ledger: Ledger | None, progress: Progress) -> MeasuredSweep:
    """Make every run of a sweep whose tuning is public. Those that ended before, of files that are still the same, are not made again.

    Args:
        ledger: charged for each run before it starts, and again for one that is made again because it did not end.

    Raises:
        Denied: the ledger says no; what was made by then is kept. InputError: another process works in the same folder.
    """
    jobs = [(variant, [_job(plan, variant, k) for k in range(plan.repeats)]) for variant in plan.variants]
    books = Books(ledger, reason("sweep", plan.path, plan.pipeline))
    with exclusive(plan.folder), Pool(processes) as pool:
        answers = {job.folder: answer for _, own in jobs for job in own if (answer := kept(job)) is not None}
        for answer in answers.values():
            books.require(answer.charge, plan.folder)
        total, missing = sum(len(own) for _, own in jobs), _by_turns(jobs, answers)
        progress(len(answers), total)
        for job, answer in pool.answers(books.charged(missing)):
            answers[job.folder] = answer
            if answer.failure is None:
                books.ended(job.charge)
            progress(len(answers), total)
    if books.denied is not None:
        raise books.denied
    cells = tuple(_cell(variant, [answers[job.folder] for job in own]) for variant, own in jobs)
    return MeasuredSweep(plan, _metric(plan, answers.values()), cells)


def _job(plan: SweepPlan, variant: Variant, number: int) -> Job:
    folder = os.path.join(plan.folder, f"epsilon-{variant.epsilon:g}", variant.fingerprint[:SHORT], f"{number + 1}")
    return job_of(plan, variant, folder)


def job_of(plan: SweepPlan, variant: Variant, folder: str) -> Job:
    """Return the job of one run, whose files are in a folder."""
    return Job(plan.path, variant.text, folder, variant.fingerprint, window=variant.window, rows=variant.plan.rows)


def _by_turns(jobs: list[tuple[Variant, list[Job]]], answers: dict[str, JobAnswer]) -> list[tuple[Job, Pipeline]]:
    """Return what is missing, the first run of every setting first, so that an early end leaves them equally far."""
    turns = zip(*([(job, variant.plan.pipeline) for job in own] for variant, own in jobs), strict=True)
    return [(job, pipeline) for turn in turns for job, pipeline in turn if job.folder not in answers]


def _cell(variant: Variant, answers: list[JobAnswer]) -> Cell:
    values = tuple(next(iter(answer.metrics.values())) for answer in answers if answer.failure is None)
    return Cell(variant, values, tuple(answer.failure for answer in answers if answer.failure is not None))


def _metric(plan: SweepPlan, answers: Iterable[JobAnswer]) -> str:
    """Return the headline of every run. Raises InputError where they differ."""
    names = {next(iter(answer.metrics)) for answer in answers if answer.failure is None}
    if len(names) > 1:
        raise InputError(f"{plan.path}: expected runs with one and the same metric first, found {first_names(sorted(names))}")
    return next(iter(names), "")
