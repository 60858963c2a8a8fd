"""The rehearsal of a schedule as a document, which shows the runs that fit in a ledger, for `dpcli budget plan`.

A *document* is what a command prints, before a format such as text or JSON is chosen (dpcli/document/document.py). Its `data` is the JSON,
`details` are the lines of the text, `notes` sentences below the tables, `records` the lines of jsonl, and `total` is a single number. A
*schedule* is a file with planned runs, each [[run]] table for one pipeline file (dpcli/ledger/planning/schedule.py). plan_rehearsal.py in
that folder finds out which runs fit, by charging them to a copy of the ledger's state; a run that does not fit is *refused*.
plan_changes.py finds what would have to change, and policies.py orders the runs in another way than by their days. The *outlook* continues
a schedule beyond its end. A *window* is the part of the dataset that a run reads; it consists of *blocks*, such as days, each with a cap of
its own.

Of a `BudgetPlan`, `before` and `after` are the states of the ledger before and after the runs that fit, and `priced` has the tables with
their costs. If a policy gave another order, `first_come` is the plan in the order of the days.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dpcli.base.rounding import counted, percent_used
from dpcli.document.document import Document, Table
from dpcli.ledger import amounts
from dpcli.ledger.balance import fullest_block, share_of
from dpcli.ledger.blocks.room import window_words
from dpcli.ledger.denial import cost_words
from dpcli.ledger.documents.ledger_blocks import calendar
from dpcli.ledger.documents.ledger_data import aligned_lines, block_data
from dpcli.ledger.planning.schedule import Trailing

if TYPE_CHECKING:
    from dpcli.document.chart import Chart
    from dpcli.ledger.planning.plan_changes import PlanChange
    from dpcli.ledger.planning.plan_rehearsal import BudgetPlan, Outlook, PlannedRun, PricedRun

# Notes of the document.
ENFORCED = (
    "a ledger grants runs in the order in which they are requested: to keep this order, reserve each run on the day on which it is granted "
    "here (dpcli budget reserve), before others request what is left"
)
UNRESERVED = "nothing was written or reserved: other runs may use up the budget that the schedule needs"


def plan_document(plan: BudgetPlan, changes: Sequence[PlanChange], outlook: Outlook | None, pictured: bool = False) -> Document:
    """Return the document of a plan, with the runs that fit, the first run that does not fit, and the share of the cap that is then used.

    Its exit code is 1 if a run does not fit.
    """
    refused = plan.refused
    reason = "" if refused is None else f"the run of {_file(plan, refused)} on {refused.day} does not fit"
    notes = (*_notes(plan, changes, outlook), UNRESERVED)
    schedule = _schedule_table(plan)
    return Document(
        _headline(plan),
        _data(plan, changes, outlook),
        "pass" if refused is None else "fail",
        exit_code=0 if refused is None else 1,
        tables=(schedule, _run_table(plan)),
        notes=notes,
        total=str(plan.fitting),
        records=[_run_data(plan, run) for run in plan.runs],
        title=f"plan for {plan.before.dataset}",
        pictures=(picture(plan),) if pictured else (),
        details=(*calendar(plan.after), "", *aligned_lines(schedule), "", *notes),
        why=reason,
    )


def picture(plan: BudgetPlan) -> Chart:
    """Return a chart of the blocks at the end of the plan or, without blocks, of the remaining budget after each run.

    With a policy other than the order of the days, the chart compares the numbers of granted runs.
    """
    from dpcli.ledger.documents.ledger_pictures import block_chart, plan_chart, policy_chart

    if plan.first_come is not None:
        return policy_chart(plan, plan.first_come)
    return block_chart(plan.after, "at the end of the plan") or plan_chart(plan)


def _file(plan: BudgetPlan, run: PlannedRun) -> str:
    return plan.priced[run.position].scheduled.file


def _headline(plan: BudgetPlan) -> str:
    """Return whether all runs fit, or how many, and the first run that does not fit with the reason."""
    count, refused, first_come = len(plan.runs), plan.refused, plan.first_come
    compared = "" if first_come is None else f" by {plan.policy}, {first_come.fitting:,} in the order of their days"
    if refused is None:
        all_fit = "the run fits" if count == 1 else f"all {count:,} runs fit"
        return f"{plan.before.dataset}: {all_fit}{compared}; {_used_words(plan)}"
    first = f"the first run that does not fit is {_file(plan, refused)} on {refused.day}: {refused.why}"
    return f"{plan.before.dataset}: {plan.fitting:,} of {count:,} runs fit{compared}; {first}"


def _used_words(plan: BudgetPlan) -> str:
    """Return the share of the cap that is used after the runs that fit."""
    state = plan.after.fullest()
    share = percent_used(share_of(state, state.spent))
    fullest = fullest_block(plan.after)
    if fullest is None:
        return f"{share} of the {'declared runs are made' if _is_declared(plan) else 'cap is used'} at the end"
    return f"{share} of the cap of the fullest block, {fullest}, is used at the end"


def _is_declared(plan: BudgetPlan) -> bool:
    return plan.before.open_terms().mode == "declared"


def _notes(plan: BudgetPlan, changes: Sequence[PlanChange], outlook: Outlook | None) -> list[str]:
    """Return the notes of a plan: when a run is refused first, changes, the most charged blocks, the outlook and reservations."""
    lines = []
    if plan.first_come is not None:
        lines += [*_policy_words(plan), f"with the runs that fit, {_used_words(plan)}"]
    elif plan.refused is not None:
        moment = f"after {counted(plan.fitting_before_refused, 'run')}" if plan.fitting_before_refused else "before any other run"
        lines.append(f"the first refusal is on {plan.refused.day}, {moment}; with the runs that fit, {_used_words(plan)}")
        fitting = "; or ".join(f"{change.change}, {counted(change.runs, 'run')} in all" for change in changes)
        lines.append(f"would fit: {fitting}" if changes else "no single change of that run was found with which all runs would fit")
    counts = list(plan.runs_by_block.values())
    if counts:
        most = max(counts)
        lines.append(f"{len(counts):,} blocks are charged, {counts.count(most):,} of them by the largest number of runs, {most}")
    if outlook is not None:
        lines.append(_outlook_words(plan, outlook))
    fullest = plan.before.fullest()
    reserved = share_of(fullest, fullest.reserved)
    if reserved:
        lines.append(f"{percent_used(reserved)} of the cap is reserved or under way, and counts in full")
    if plan.before.quotas:
        lines.append("only the cap was checked: a run can exceed the quota of the person who makes it")
    return lines


def _policy_words(plan: BudgetPlan) -> tuple[str, ...]:
    """Return how the policy orders the runs and, if runs may wait, how long they waited."""
    if plan.shares is None:  # the policy "dpack"
        return ("runs that take the smallest shares of what is left on their blocks come first; every run counts alike", ENFORCED)
    waits = [(run.granted - run.day).days for run in plan.runs if run.granted is not None and run.granted > run.day]
    parts = "the cap" if plan.before.open_terms().family is None else "each block"
    return (
        f"{plan.shares:,} fair shares (--shares) of what is left of {parts}, each unlocked by a run that is requested; "
        f"{counted(len(waits), 'run')} waited and then fit{f', the longest for {max(waits):,} days' if waits else ''}",
        ENFORCED,
    )


def _outlook_words(plan: BudgetPlan, outlook: Outlook) -> str:
    """Return what happens if the schedule continues beyond its end."""
    if outlook.refused is None:
        return f"if the schedule continues, the next {outlook.fitting:,} runs fit too"
    run = outlook.refused
    first = f"{_file(plan, run)} on {run.day} is the first run that does not fit"
    return f"if the schedule continues, {outlook.fitting:,} runs fit, and {first}"


def _schedule_table(plan: BudgetPlan) -> Table:
    """Return the tables of the schedule, with the numbers of their runs. Those with a run that does not fit are highlighted."""
    rows, flagged = [], set()
    for position, run in enumerate(plan.priced):
        planned, fitting = plan.counts_of(position)
        if fitting < planned:
            flagged.add(position)
        cost = amounts.read(run.cost.amounts)
        row = (
            run.scheduled.file,
            run.scheduled.every or "once",
            *_first_and_last_day(plan, position),
            _window_words(plan, run),
            str(planned),
            str(fitting),
            cost_words(cost),
            percent_used(share_of(plan.before, cost)),
        )
        rows.append(row)
    columns = ("file", "every", "first", "last", "window", "runs", "fit", "cost of one", "share")
    numeric = frozenset(map(columns.index, ("runs", "fit", "share")))
    return Table("schedule", columns, tuple(rows), numeric=numeric, flagged=frozenset(flagged))


def _first_and_last_day(plan: BudgetPlan, position: int) -> tuple[str, str]:
    days = [str(run.day) for run in plan.runs if run.position == position]
    return days[0], days[-1]


def _window_words(plan: BudgetPlan, run: PricedRun) -> str:
    """Return the blocks that the runs of one table read, in words; "-" without blocks."""
    if isinstance(run.reads, Trailing):
        return run.reads.words
    return window_words(plan.before, run.reads) or "-"


def _run_table(plan: BudgetPlan) -> Table:
    """Return all runs on their days. Those that do not fit are highlighted."""
    rows = []
    for number, run in enumerate(plan.runs, start=1):
        window = window_words(plan.before, run.window) or "-"
        answer = run.why or ("fits" if run.granted == run.day else f"fits, on {run.granted}")
        rows.append((str(number), str(run.day), _file(plan, run), window, percent_used(run.used), answer))
    used = "used after" if plan.before.open_terms().family is None else "used after, fullest of its blocks"
    columns = ("run", "day", "file", "window", used, "answer")
    flagged = frozenset(index for index, run in enumerate(plan.runs) if not run.fits)
    numeric = frozenset(map(columns.index, ("run", used)))
    return Table("runs", columns, tuple(rows), numeric=numeric, flagged=flagged, folded=True)


def _data(plan: BudgetPlan, changes: Sequence[PlanChange], outlook: Outlook | None) -> dict[str, Any]:
    start, end = plan.before.fullest(), plan.after.fullest()
    data: dict[str, Any] = {
        "schema": "dpcli/budget-plan/v1",
        "dataset": plan.before.dataset,
        "schedule": [_table_data(plan, position, run) for position, run in enumerate(plan.priced)],
        "runs": [_run_data(plan, run) for run in plan.runs],
        "policy": plan.policy,
        "shares": plan.shares,
        "fitting": plan.fitting,
        "fitting_in_order_of_days": plan.fitting if plan.first_come is None else plan.first_come.fitting,
        "fitting_before_refused": plan.fitting_before_refused,
        "first_refused": plan.refused and _run_data(plan, plan.refused),
        "share_before": share_of(start, start.spent),
        "share_after": share_of(end, end.spent),
        "fullest_block": fullest_block(plan.after),
        "spent_after": amounts.texts(end.spent),
    }
    if plan.after.open_terms().family is not None:
        runs_by_block = plan.runs_by_block
        data["blocks"] = [{**block, "runs": runs_by_block[block["block"]]} for block in block_data(plan.after)["blocks"]]
    data["instead"] = [asdict(change) for change in changes]
    data["beyond"] = None
    if outlook is not None:
        data["beyond"] = {"fitting": outlook.fitting, "first_refused": outlook.refused and _run_data(plan, outlook.refused)}
    data["head"] = {"seq": plan.before.head.seq, "hash": plan.before.head.hash}
    data["exit_code"] = 0 if plan.refused is None else 1
    return data


def _table_data(plan: BudgetPlan, position: int, run: PricedRun) -> dict[str, Any]:
    """Return the table at this position of the schedule, with its cost and the numbers of its runs."""
    first, last = _first_and_last_day(plan, position)
    planned, fitting = plan.counts_of(position)
    return {
        "file": run.scheduled.file,
        "every": run.scheduled.every,
        "first": first,
        "last": last,
        "window": _window_words(plan, run),
        "delta": run.delta,
        "cost": dict(run.cost.amounts),
        "share": share_of(plan.before, amounts.read(run.cost.amounts)),
        "runs": planned,
        "fitting": fitting,
    }


def _run_data(plan: BudgetPlan, run: PlannedRun) -> dict[str, Any]:
    return {
        "day": str(run.day),
        "file": _file(plan, run),
        "window": window_words(plan.before, run.window),
        "fits": run.fits,
        "granted": None if run.granted is None else str(run.granted),
        "used": run.used,
        "reason": run.why,
    }
