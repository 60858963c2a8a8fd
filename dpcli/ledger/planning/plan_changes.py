"""Proposals for a schedule whose runs do not all fit.

A *schedule* is a file with planned runs, each [[run]] table for one pipeline file (schedule.py), and a *window* is the part of the dataset
that a run reads, such as the last 28 days; it consists of *blocks*, such as days, each with a cap of its own. Each proposal changes one
thing: the number of runs, the time between them, the length of their windows, or the cost of their file. It is tried by rehearsing the
whole schedule again, that is, by charging its runs to a copy of the ledger's state (plan_rehearsal.py). `dpcli budget plan` prints the
proposals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from dpcli.base.errors import CannotCertify, InputError, NotRepresentable
from dpcli.ledger.planning.fit import fitting_changes
from dpcli.ledger.planning.plan_rehearsal import BudgetPlan, count_if_all_fit
from dpcli.ledger.planning.schedule import ScheduledRun, Trailing, rhythm_of

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.ledger.ledger import Ledger

# The search for a longer time between two runs stops at this multiple of the current time. It is arbitrary, and affects which proposals are
# found, and the time, because each trial is a rehearsal.
LARGEST_FACTOR = 60


@dataclass(frozen=True, slots=True)
class PlanChange:
    """A change with which all runs fit, as text of the schedule file, and the number of all runs after the change."""

    change: str
    runs: int


def changes_of_plan(ledger: Ledger, plan: BudgetPlan) -> tuple[PlanChange, ...]:
    """Return proposals that each change one property in the table of the first run that does not fit.

    The result is empty if all runs fit, or if no such change is enough.
    """
    if plan.refused is None:
        return ()
    position = plan.refused.position
    schedule_changes = (_fewer_runs(plan, position), _longer_intervals(plan, position), _shorter_window(plan, position))
    return (*filter(None, schedule_changes), *_cheaper_runs(ledger, plan, position))


def _runs_where_all_fit(plan: BudgetPlan, position: int, run: ScheduledRun, reads: Trailing | None = None) -> int | None:
    """Return the number of runs of the schedule with a changed table at this position; None if they do not all fit.

    `reads` is the changed trailing window of the table; None if its window does not change.
    """
    priced = list(plan.priced)
    if reads is not None:
        priced[position] = replace(priced[position], reads=reads)
    return count_if_all_fit(plan.before, plan.schedule.with_run(position, run), tuple(priced))


def _fewer_runs(plan: BudgetPlan, position: int) -> PlanChange | None:
    """Return the largest number of runs of this table with which all runs fit, by bisection.

    Bisection is valid, because with fewer runs no block is charged more.
    """
    run, planned = plan.priced[position].scheduled, plan.counts_of(position).planned
    if run.every is None:
        return None
    # The schedule may state the last day of the runs in place of their number.
    fitting = _largest(lambda count: _runs_where_all_fit(plan, position, replace(run, last=None, count=count)), planned)
    return None if fitting is None else PlanChange(f"count = {fitting.value} (now {planned})", fitting.runs)


def _longer_intervals(plan: BudgetPlan, position: int) -> PlanChange | None:
    """Return the shortest time between two runs of this table with which all runs fit.

    Each time is tried in turn: a longer one moves the runs to other days, whose blocks may be fuller, so that bisection is not valid.
    """
    run = plan.priced[position].scheduled
    if run.every is None:
        return None
    now = rhythm_of(run.every)
    for count in range(now.count + 1, now.count * LARGEST_FACTOR + 1):
        every = replace(now, count=count).words
        changed = replace(run, every=every)
        if sum(1 for _ in changed.days()) < 2:
            return None  # the run would be made only once
        runs = _runs_where_all_fit(plan, position, changed)
        if runs is not None:
            return PlanChange(f'every = "{every}" (now "{now.words}")', runs)
    return None


def _shorter_window(plan: BudgetPlan, position: int) -> PlanChange | None:
    """Return the longest trailing window of this table with which all runs fit, by bisection.

    Bisection is valid, because with a shorter window no block is charged more.
    """
    run, reads = plan.priced[position].scheduled, plan.priced[position].reads
    if not isinstance(reads, Trailing):
        return None
    fitting = _largest(lambda count: _runs_where_all_fit(plan, position, run, reads=replace(reads, count=count)), reads.count)
    if fitting is None:
        return None
    return PlanChange(f'window = "{replace(reads, count=fitting.value).words}" (now "{reads.words}")', fitting.runs)


def _cheaper_runs(ledger: Ledger, plan: BudgetPlan, position: int) -> Iterator[PlanChange]:
    """Yield proposals for more noise or fewer steps in the file of this table. Other tables of the schedule may use this file too."""
    denied_run = plan.priced[position]
    denied_window = () if plan.refused is None else plan.refused.window
    if plan.before.open_terms().mode == "declared" or plan.before.retired_block(denied_window) is not None:
        return  # a changed file is not a declared run, and no run fits on a retired block

    def fits(pipeline: Pipeline) -> bool:
        with suppress(InputError, CannotCertify, NotRepresentable):
            cost, delta = ledger.cost(pipeline)
            changed = [
                replace(priced, pipeline=pipeline, cost=cost, delta=delta)
                if priced.scheduled.file == denied_run.scheduled.file
                else priced
                for priced in plan.priced
            ]
            return count_if_all_fit(plan.before, plan.schedule, tuple(changed)) is not None
        return False

    for text in fitting_changes(denied_run.pipeline, fits):
        yield PlanChange(f"{text} of {denied_run.scheduled.file}", len(plan.runs))


class FittingNumber(NamedTuple):
    """A number with which all runs fit, such as a number of runs or the length of a window, and the number of all runs then."""

    value: int
    runs: int


def _largest(runs_with: Callable[[int], int | None], above: int) -> FittingNumber | None:
    """Return the largest count from 1 to `above` - 1 with which all runs fit; None if there is none. With `above` they do not fit.

    `runs_with` returns the number of all runs with a count; None if they do not all fit.
    """
    result, low, high = None, 0, above
    while high - low > 1:
        middle = (low + high) // 2
        runs = runs_with(middle)
        if runs is None:
            high = middle
        else:
            low, result = middle, FittingNumber(middle, runs)
    return result
