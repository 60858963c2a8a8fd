"""Make the runs of a sweep that are still to be made. Every result is kept as soon as it is there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError
from dpcli.file.toml.shown import first_names
from dpcli.sessions.charged import reason
from dpcli.sessions.folder import exclusive
from dpcli.sweep.charges import Books
from dpcli.sweep.plan import SweepPlan, Variant
from dpcli.sweep.pool import Pool
from dpcli.sweep.result import Cell, MeasuredSweep
from dpcli.sweep.worker import Job, JobAnswer, kept

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.ledger.ledger import Ledger

Progress = Callable[[int, int], None]
SHORT = 16  # digits of a fingerprint that name a folder


def measure(plan: SweepPlan, processes: int, ledger: Ledger | None, progress: Progress) -> MeasuredSweep:
    """Every run of a sweep whose tuning is public. Those that ended before, of files that are still the same, are not made again.

    Args:
        ledger: charged for each run before it starts, and again for one that is made again because it did not end.

    Raises:
        Denied: the ledger says no; what was made by then is kept. InputError: another process works in the same folder.
    """
    jobs = [(variant, [_job(plan, variant, k) for k in range(plan.repeats)]) for variant in plan.variants]
    books = Books(ledger, reason("sweep", plan.path, plan.pipeline))
    with exclusive(plan.folder), Pool(processes) as pool:
        answers = {job.folder: found for _, own in jobs for job in own if (found := kept(job)) is not None}
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
    return Job(plan.path, variant.text, folder, variant.fingerprint, window=variant.window, rows=variant.plan.rows)


def _by_turns(jobs: list[tuple[Variant, list[Job]]], answers: dict[str, JobAnswer]) -> list[tuple[Job, Pipeline]]:
    """What is missing, the first run of every setting first, so that an early end leaves them equally far."""
    turns = zip(*([(job, variant.plan.pipeline) for job in own] for variant, own in jobs), strict=True)
    return [(job, pipeline) for turn in turns for job, pipeline in turn if job.folder not in answers]


def _cell(variant: Variant, answers: list[JobAnswer]) -> Cell:
    values = tuple(next(iter(answer.metrics.values())) for answer in answers if answer.failure is None)
    return Cell(variant, values, tuple(answer.failure for answer in answers if answer.failure is not None))


def _metric(plan: SweepPlan, answers: Iterable[JobAnswer]) -> str:
    """The headline of every run. Raises InputError where they differ."""
    names = {next(iter(answer.metrics)) for answer in answers if answer.failure is None}
    if len(names) > 1:
        raise InputError(f"{plan.path}: expected runs with one and the same metric first, found {first_names(sorted(names))}")
    return next(iter(names), "")
