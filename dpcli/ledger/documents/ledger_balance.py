"""The balance of a ledger as a document: the used share of the cap, the runs, and what still fits, for `dpcli budget show`.

A *document* is what a command prints, before a format such as text or JSON is chosen (dpcli/document/document.py). Its `data` is the JSON,
`details` are the lines of the text, `notes` sentences below the tables, `records` the lines of jsonl, and `total` is a single number. A
`Walked` is a list whose items are computed when a format reads them.

dpcli/ledger/balance.py has the numbers, and explains the share of a cap. This module puts them in words: what is used of the cap is rounded
up, and what is left of it is rounded down.

A ledger adds up costs in the currency of its *filter*, a theorem for runs that are chosen from earlier outputs; the *conversion* of the cap
into that currency uses up a part of epsilon. In *declared mode* all runs were fixed at the opening, and there is no filter. A dataset may
be cut into *blocks*, such as days, each with a cap of its own. The *odometer* bounds what was spent so far, even at a moment that is chosen
from outputs. The *ceiling* is the largest cap that may be set because of outputs; *guaranteed* is the epsilon that bounds all runs
together, also after the cap was changed (`LedgerState.guaranteed`). A *quota* limits what a person or a team may charge. Of a `Remaining`,
`planned` is the epsilon of all declared runs, `like_last` the number of further runs like the last one, and `pure` a pure epsilon that
fits. The `family` in the terms says how the dataset is cut into blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from dpcli.base.errors import InputError
from dpcli.base.rounding import down, percent_used, up
from dpcli.document.document import Document, Table, Walked
from dpcli.ledger import amounts
from dpcli.ledger.balance import ANY_NUMBER, Odometer, Remaining, odometer, remaining_room, share_of
from dpcli.ledger.charges.ledger_run import Run, mechanism_names
from dpcli.ledger.charges.past_runs import recent_runs
from dpcli.ledger.denial import cost_words
from dpcli.ledger.documents.ledger_blocks import calendar
from dpcli.ledger.documents.ledger_data import (
    aligned_lines,
    balance_data,
    proposal_lines,
    quota_lines,
    run_data,
    share_spent_text,
    terms_data,
)
from dpcli.ledger.filters.declared_set import numbered_runs
from dpcli.ledger.governance.quotas import quotas_of
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.requests import certificate_of
from dpcli.ledger.state import OVERSPENT, UNGUARANTEED, LedgerState

if TYPE_CHECKING:
    from dpcli.document.chart import Chart
    from dpcli.ledger.budget import DatasetBudget
    from dpcli.ledger.documents.ledger_pictures import Picture

# Limits of the document. They are arbitrary, and affect what is shown alone.
LEAST_TOLD_CONVERSION = 0.05  # share of the cap above which the balance tells what the conversion to delta uses up
LITTLE_LEFT = 0.2  # share of the cap at or below which the verdict on what is left is a warning
WIDTH = 50  # characters of the bar
SHOWN_DIGITS = 16  # digits of a SHA-256 in the table, as of the head
SHOWN_RUNS = 20  # largest number of runs in the table; the log shows all runs
LONGEST_REASON = 80  # characters of a reason in the table
# A spending far below any real one, at which a filter states the epsilon that its conversion to delta uses up.
TINY_SPENDING = Decimal("1e-30")


def balance_document(ledger: Ledger, pictured: bool = False, with_odometer: bool = False) -> Document:
    """Return the document of a dataset's balance and runs.

    Args:
        pictured: Whether the document contains the pictures of the ledger, and their tables.
        with_odometer: Whether it contains what may be said of the spending at this moment.

    Raises InputError or LedgerError if it is to contain an odometer, and the ledger has none.
    """
    state, now = ledger.state(), ledger.now()
    reading = odometer(state) if with_odometer else None
    odometer_tables = (_odometer_table(state, reading),) if reading else ()
    remaining = remaining_room(state)
    all_runs = Walked(state.charges, lambda: iter(run_data(state)))  # read only if a format shows all runs: there may be many
    run_table = _run_table(state, recent_runs(ledger.store, ledger.dataset, state.head, SHOWN_RUNS))
    outlook = _outlook(state, remaining, now)
    pictures = _pictures(ledger) if pictured else ()
    subject = "declared runs" if state.open_terms().mode == "declared" else "cap"
    return Document(
        headline=headline(state, remaining),
        data={
            "schema": "dpcli/budget/v2",
            **terms_data(state),
            **balance_data(state),
            **({"odometer": {"epsilon": reading.epsilon, "epsilon_if_fixed": reading.if_fixed}} if reading else {}),
            "runs": all_runs,
            "exit_code": 0,
        },
        verdict=_verdict(remaining),
        tables=(
            *odometer_tables,
            *((run_table,) if state.charges else ()),
            *(picture.numbers for picture in pictures if picture.numbers.rows),
        ),
        notes=outlook,
        total=share_spent_text(state),
        records=all_runs,
        title=f"budget of {ledger.dataset}",
        pictures=tuple(picture.chart for picture in pictures),
        details=(
            _bar(remaining, subject),
            *calendar(state),
            "",
            *(line for odometer_table in odometer_tables for line in (*aligned_lines(odometer_table), "")),
            *aligned_lines(run_table),
            "",
            *outlook,
        ),
    )


def _odometer_table(state: LedgerState, reading: Odometer) -> Table:
    """Return the table of what may be said of the spending: at any moment, of all runs, and at a moment that was fixed beforehand."""
    guaranteed = "none" if state.guaranteed is None else repr(state.guaranteed)
    rows = (
        ("so far, at any moment, even one chosen from outputs (odometer)", up(reading.epsilon)),
        ("all runs together, those to come included (cap)", guaranteed),
        ("so far, if this sum of costs had been fixed before the first output", up(reading.if_fixed)),
    )
    delta = repr(state.open_terms().delta)
    return Table("odometer", ("spent", "epsilon", "delta"), tuple((*row, delta) for row in rows), numeric=frozenset({1, 2}))


def _verdict(remaining: Remaining) -> Literal["pass", "warn", "fail"]:
    if remaining.spent > 1.0:
        return "fail"
    return "warn" if remaining.left <= LITTLE_LEFT else "pass"


def of_budget(budget: DatasetBudget) -> Document:
    """Return the document of `dpcli budget show` for a notebook. Raises LedgerError if the ledger cannot be read."""
    from dpcli.ledger.stores.places import open_ledger

    with open_ledger(budget.url, budget.dataset) as ledger:
        return balance_document(ledger)


def _pictures(ledger: Ledger) -> tuple[Picture, ...]:
    """Return the pictures of a ledger: its blocks, if it has any, and what remained of the cap after each entry."""
    from dpcli.ledger.documents.ledger_pictures import Picture, block_chart, block_table, burn_down

    blocks = block_chart(ledger.state())
    pictures = (None if blocks is None else Picture(blocks, block_table(blocks)), burn_down(ledger.entries()))
    return tuple(picture for picture in pictures if picture is not None)


def picture(ledger: Ledger) -> Chart:
    """Return a chart of the blocks or, without blocks, of the remaining budget over time. Raises InputError before the first charge."""
    pictures = _pictures(ledger)
    if not pictures:
        raise InputError(f"{ledger.store.place}: nothing to draw, as nothing was charged to {ledger.dataset} yet")
    return pictures[0].chart


def headline(state: LedgerState, remaining: Remaining) -> str:
    """Return the balance in one sentence, with the cap, the unit, the adjacency, the filter and the guarantee."""
    terms = state.open_terms()
    cap, share = f"epsilon {state.epsilon!r} at delta = {terms.delta!r}", percent_used(remaining.spent)
    if remaining.planned is not None:  # in declared mode
        spent = f"{share} of the declared runs are made; all declared runs cost epsilon {up(remaining.planned)}, cap {cap}"
    elif terms.family is not None:
        spent = f"{share} of the cap of the fullest block is used: {cap}"
    else:
        spent = f"{share} of the cap is used: {cap}"
    setting = f"(per {terms.unit}, {terms.adjacency}; {composition_words(state)})"
    return f"{state.dataset}: {spent} {setting}{guarantee_words(state)}{_left_words(state, remaining)}"


def guarantee_words(state: LedgerState) -> str:
    """Return the guarantee of all runs together in words, with its basis; "" if the guarantee is the current cap."""
    if state.guarantee == "none":
        return f"; {UNGUARANTEED}"
    if state.guarantee == "stated":
        largest = f"epsilon {state.largest!r}, the largest cap so far"
        return f"; guaranteed is {largest}, if the statement is true that no output had been seen when it was raised"
    if state.guarantee == "ceiling":
        return f"; guaranteed is the ceiling, epsilon {state.largest!r}: the cap may be raised up to the ceiling for any reason"
    if state.largest > state.epsilon:
        return f"; guaranteed for earlier runs is the largest cap so far, epsilon {state.largest!r}"
    return ""


def _left_words(state: LedgerState, remaining: Remaining) -> str:
    if state.open_terms().mode == "declared":
        return ""
    if remaining.spent > 1.0:
        return f"; {OVERSPENT}: nothing fits"
    return f"; {left_percent(remaining)} of the {state.open_terms().filter} cap is left{delta_remark(state)}"


def delta_remark(state: LedgerState) -> str:
    """Return a remark if delta has the largest used share of all amounts, which users easily overlook; else ""."""
    state = state.fullest()
    tightest = max(state.caps, key=lambda name: amounts.largest_share({name: state.spent[name]}, state.caps))
    if tightest != "delta" or not state.spent["delta"]:
        return ""
    if not state.left()["delta"]:
        return " (delta is used up: only runs at delta = 0 still fit)"
    return " (delta will be used up first: state a smaller privacy.delta in the files of runs)"


def delta_warning(state: LedgerState, run: Run) -> str:
    """Return a warning about a run that costs at least half of the ledger's delta, so that at most one more such run fits; else ""."""
    share = float(run.cost["delta"] / state.caps["delta"]) if run.cost.get("delta") else 0.0
    if share < 0.5 or run.status == "void":
        return ""
    return (
        f'warning: "{run.key}" costs {down(100.0 * share, 1)} % of the ledger\'s delta, which cannot be changed: deltas add up, so state '
        "a much smaller privacy.delta in files that share a ledger"
    )


def composition_words(state: LedgerState) -> str:
    """Return how the runs are composed, in words, and whether changes need a second person."""
    terms = state.open_terms()
    second_person = "; amend, void, quota, rate, copy and acknowledge need a second person" if terms.two_person else ""
    if terms.mode == "declared":
        return f"declared set, composed by {(terms.certified or {})['accountant']}{second_person}"
    parameters = "".join(f", {name} {value:g}" for name, value in (terms.parameters or {}).items())
    return f"adaptive, filter: {terms.filter}{parameters}{blocks_words(state)}{second_person}"


def blocks_words(state: LedgerState) -> str:
    """Return the blocks of the dataset in words; "" if it is not cut into blocks."""
    family = state.open_terms().family
    if family is None:
        return ""
    return f"; blocks by {family.by} of {family.column}, at most {family.max_blocks} per unit"


def left_percent(remaining: Remaining) -> str:
    """Return what is left of the cap in percent, rounded down, such as "12.3 %"."""
    return f"{down(Decimal(repr(remaining.left)) * 100, 1)} %"


def _outlook(state: LedgerState, remaining: Remaining, now: str) -> tuple[str, ...]:
    """Return lines about the runs that still fit, the declared runs, reservations, quotas and proposals."""
    if state.departure is not None:
        return (str(state.departure),)
    terms, last = state.open_terms(), state.last
    lines = []
    if terms.mode == "declared":
        for name, item in numbered_runs(terms.declared):
            lines.append(f"{name} ({mechanism_names(item['pipeline'])}): {state.spent[name]} of {state.caps[name]} made")
    else:
        if last is not None and remaining.like_last is not None:
            count = "any number of" if remaining.like_last == ANY_NUMBER else f"{remaining.like_last:,}"
            who = str(last.content["who"])
            whose = f", by {who}, whose quota counts" if any(quotas_of(state.quotas, who)) else ""
            lines.append(f'still fits: {count} more like the last run, "{last.key}" ({cost_words(last.cost)} each){whose}')
        if terms.family is not None:
            lines.append("dpcli budget windows LEDGER FILE shows the windows in which a run still fits")
        else:
            lines.append(f"largest pure epsilon that fits in one run: {down(remaining.pure)}")
    conversion = _conversion(state)
    if conversion > LEAST_TOLD_CONVERSION * state.epsilon:
        lines.append(
            f"the conversion to delta = {terms.delta!r} uses up epsilon {up(conversion)}, however little is spent: the shares are shares "
            "of the cap in the filter's currency"
        )
    if remaining.reserved:
        lines.append(
            f"{percent_used(remaining.reserved)} of the cap is reserved or under way, and counts in full unless it is voided"
        )
    return (*lines, *quota_lines(state), *proposal_lines(state, now))


def _conversion(state: LedgerState) -> float:
    """Return the epsilon that the filter's conversion uses up before any run is charged, which is the epsilon of a tiny spending."""
    terms = state.open_terms()
    if terms.mode == "declared":
        return 0.0
    return terms.the_filter.epsilon(dict.fromkeys(state.caps, TINY_SPENDING), terms.delta)


def _bar(remaining: Remaining, subject: str) -> str:
    """Return a bar of the used share of the `subject`, with a sign for each part: "#" spent, "+" reserved, "." left."""
    reserved = round(WIDTH * min(remaining.reserved, 1.0))  # the share may be huge if the cap was amended to almost 0
    spent = round(WIDTH * min(remaining.spent, 1.0))
    if remaining.spent > 0:
        spent = max(spent, 1)  # however little is spent, it is seen
    legend = " (+: reserved)" if reserved else ""
    reserved = min(reserved, spent)
    bar = "#" * (spent - reserved) + "+" * reserved
    return f"[{bar:.<{WIDTH}}] {percent_used(remaining.spent)} of the {subject}{legend}"


def _run_table(state: LedgerState, runs: Sequence[Run]) -> Table:
    """Return the table of runs. It has a column of reasons if a run states one, because a random key does not describe a run.

    It has a column of certificates, with the first digits of their SHA-256, if a run names one.
    """
    title = "runs"
    if state.charges > SHOWN_RUNS:
        title = f"the last {SHOWN_RUNS} of {state.charges:,} runs (dpcli budget log lists all)"
    columns = ["run", "status", "share", "cost", "who", "when", "mechanisms"]
    rows = [_run_row(state, run) for run in runs]
    certificates = [(certificate_of(run.content) or "")[:SHOWN_DIGITS] for run in runs]
    for column, cells in (("why", list(map(_reason, runs))), ("certificate", certificates)):
        if any(cells):
            columns.insert(-1, column)  # before the mechanisms
            for row, cell in zip(rows, cells, strict=True):
                row.insert(-1, cell)
    return Table(title, tuple(columns), tuple(map(tuple, rows)), numeric=frozenset({2}))


def _run_row(state: LedgerState, run: Run) -> list[str]:
    status = run.status
    if status == "reserved" and "expires" in run.content:
        status += f" until {run.content['expires']}"
    share = "-" if run.status == "void" else percent_used(share_of(state, run.cost))
    who, when = str(run.content.get("who", "")), str(run.content.get("when", ""))
    return [run.key, status, share, cost_words(run.cost), who, when, run.name]


def _reason(run: Run) -> str:
    reason = str(run.content.get("why", ""))
    return reason if len(reason) <= LONGEST_REASON else reason[: LONGEST_REASON - 3] + "..."
