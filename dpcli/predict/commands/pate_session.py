"""Teachers and sessions of votes on a terminal: a line that says how far they are."""

from __future__ import annotations

import os
import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from dpcli.base.errors import InputError
from dpcli.ledger.commands.budget import opened

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpcli.predict.pate.plan import VotingPlan
    from dpcli.predict.pate.session import SessionOutcome
    from dpcli.predict.pate.teachers import Teachers

EVERY = 0.5  # seconds between two lines


def held_with_progress(
    plan: VotingPlan, ledger: str | None, dataset: str | None, window: Sequence[str], moved: bool, seed: int | None
) -> SessionOutcome:
    """Hold it, with progress on standard error where that is a terminal."""
    from dpcli.predict.pate.session import hold
    from dpcli.predict.pate.student import predictor
    from dpcli.sessions.commands.predicting import on_window

    line = _line()

    def report(put: int, queries: int, answered: int) -> None:
        line(f"{put:,} of {queries:,} queries, {answered:,} answered", put == queries)

    with opened(ledger, dataset) if ledger is not None else nullcontext() as found:
        plan = on_window(plan, found, window)
        try:
            return hold(plan, found, seed, report, lambda: predictor(plan), moved)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_left(plan)) from None


def _left(plan: VotingPlan) -> str:
    """What an interrupted session leaves."""
    from dpcli.predict.pate.transcript import read_transcript

    try:
        kept = read_transcript(plan)
    except InputError:
        return ""
    if kept is None:
        return "no query was put, and the same command begins"
    if kept.closed:
        return "the session has ended, and what was charged stays charged; the same command leaves the labels and the statement"
    return "what was charged stays charged, and the same command goes on with the next query"


def fitted_with_progress(plan: VotingPlan, jobs: int | None) -> Teachers:
    """Fit the teachers, with progress on standard error where that is a terminal."""
    from dpcli.predict.pate.teachers import fit
    from dpcli.train.run.processes import first_process, several_processes

    line = _line() if first_process() else lambda text, end: None

    def report(done: int, teachers: int) -> None:
        line(f"{done:,} of {teachers:,} teachers", done == teachers)

    try:
        return fit(plan, jobs or (1 if several_processes() else os.cpu_count() or 1), report)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("teachers that were fitted are kept, and the same command goes on with the others") from None


def _line() -> Callable[[str, bool], None]:
    """What says how far it is, twice a second at most, and at the end."""
    last = time.monotonic()
    quiet = not sys.stderr.isatty() or click.get_current_context().obj.quiet

    def say(text: str, end: bool) -> None:
        nonlocal last
        if not quiet and (end or time.monotonic() - last >= EVERY):
            last = time.monotonic()
            click.echo(f"\r{text}  ", nl=end, err=True)

    return say
