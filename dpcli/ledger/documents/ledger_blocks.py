"""The blocks of a ledger as documents: a calendar of their used shares, and the windows in which a run still fits.

A *document* is what a command prints, before a format is chosen (dpcli/document/document.py). Its `data` is the JSON, `details` are the
lines of the text, `notes` sentences below the tables, `records` the lines of jsonl, and `total` is a single number. A *block* is a part of
the dataset, such as a day, with a cap of its own (dpcli/ledger/blocks/family.py). A *window* is the list of blocks that a run reads, a
*stretch* a list of consecutive blocks, and a *retired* block accepts no run. The calendar is a part of the text of `dpcli budget show`, and
of `plan`; ledger_pictures.py draws it as a chart. The windows are the document of `dpcli budget windows`.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

from dpcli.base.rounding import counted, percent_used
from dpcli.document.document import Document, Table
from dpcli.ledger import amounts
from dpcli.ledger.amounts import spent_by_block
from dpcli.ledger.blocks.family import stretch_spelling
from dpcli.ledger.denial import cost_words

if TYPE_CHECKING:
    from dpcli.ledger.blocks.room import BlockRoom
    from dpcli.ledger.ledger import Ledger
    from dpcli.ledger.state import LedgerState

LEGEND = "blocks by used share: 0 under 10 % ... 9 from 90 %, # used up, x retired, . never charged"
SHOWN_LINES = 53  # largest number of lines of a calendar, a year of weeks; affects what is shown alone
BLOCKS_PER_LINE = 14  # number of blocks in a line of a calendar, if the blocks are not days; arbitrary


def calendar(state: LedgerState) -> tuple[str, ...]:
    """Return the lines of a calendar of the blocks for a terminal. If the blocks are days, each line is a week.

    If the dataset has no blocks, the result is empty.
    """
    family = state.open_terms().family
    if family is None:
        return ()
    spent = spent_by_block(state.spent, state.caps)
    marks = {block: _mark(amounts.largest_share(total, state.caps)) for block, total in spent.items()}
    marks |= dict.fromkeys(state.retired, "x")
    if not marks:
        return ("no block was charged yet",)
    blocks = sorted(family.kind.listed or marks, key=family.kind.rank)
    lines = _week_lines(marks) if family.kind.daily else _block_lines(blocks, marks)
    hidden = [f"... {len(lines) - SHOWN_LINES} earlier lines"] if len(lines) > SHOWN_LINES else []
    return ("", LEGEND, *hidden, *lines[-SHOWN_LINES:])


def _mark(share: float) -> str:
    """Return the sign of a used share: its first digit after the point, or "#" if nothing is left."""
    return "#" if share >= 1.0 else str(int(10.0 * share))


def _week_lines(marks: dict[str, str]) -> list[str]:
    """Return a line for each week from Monday to Sunday. One line "..." stands for consecutive weeks in which no block was charged."""
    weeks: dict[date, list[str]] = {}
    for block, mark in marks.items():
        day = date.fromisoformat(block)
        weeks.setdefault(_monday(day), ["."] * 7)[day.weekday()] = mark
    lines: list[str] = []
    previous = None
    for monday, days in sorted(weeks.items()):
        if previous is not None and monday - previous > timedelta(weeks=1):
            lines.append("...")
        lines.append(f"{monday}  {' '.join(days)}")
        previous = monday
    return lines


def _monday(day: date) -> date:
    return date.fromordinal(day.toordinal() - day.weekday())  # the first day of the calendar is a Monday


def _block_lines(blocks: list[str], marks: dict[str, str]) -> list[str]:
    """Return the marks of `BLOCKS_PER_LINE` blocks in each line, after the name of the first of them."""
    rows = [blocks[start : start + BLOCKS_PER_LINE] for start in range(0, len(blocks), BLOCKS_PER_LINE)]
    width = max(len(row[0]) for row in rows)
    return [f"{row[0]:{width}}  {' '.join(marks.get(block, '.') for block in row)}" for row in rows]


def windows_document(ledger: Ledger, room: BlockRoom) -> Document:
    """Return the document of the windows in which one run fits. Its exit code is 1 if the run fits in no block."""
    widest, latest = room.widest, room.latest
    amount, share = cost_words(amounts.read(room.cost.amounts)), percent_used(room.share)
    cost = f"the run costs {amount} on each block of its window, {share} of its cap"
    data = {
        "schema": "dpcli/windows/v1",
        "dataset": ledger.dataset,
        "cost": dict(room.cost.amounts),
        "share": room.share,
        "asked": len(room.within),
        "windows": [list(stretch) for stretch in room.stretches],
        "widest": None if widest is None else list(widest),
        "latest": None if latest is None else list(latest),
        "never_charged": {"before": room.before, "after": room.after, "takes": room.fits_unused},
        "exit_code": 0 if room.stretches else 1,
    }
    notes = _notes_on_unused(room)
    if widest is None or latest is None:
        headline = f"{ledger.dataset}: the run fits in none of {len(room.within)} blocks; {cost}"
        why = f"the run fits in no block{' that was checked' if notes else ''}"
        return Document(headline, data, "fail", notes=notes, total="0", records=[], exit_code=1, why=why, details=notes)
    rows = tuple((stretch_spelling(stretch), str(len(stretch))) for stretch in room.stretches)
    records = [{"first": stretch[0], "last": stretch[-1], "blocks": len(stretch)} for stretch in room.stretches]
    widest_words = f"widest --window {stretch_spelling(widest)} ({counted(len(widest), 'block')})"
    headline = f"{ledger.dataset}: {widest_words}, latest --window {stretch_spelling(latest)}; {cost}"
    return Document(
        headline,
        data,
        "pass",
        tables=(Table("windows with room", ("window", "blocks"), rows, numeric=frozenset({1})),),
        notes=notes,
        total=str(len(widest)),
        records=records,
        details=(*(f"{words}  {count}" for words, count in rows), *notes),
    )


def _notes_on_unused(room: BlockRoom) -> tuple[str, ...]:
    """Return a note about the blocks that were not checked, if it is known that they were never charged."""
    places = []
    if room.before is not None:
        places.append(f"before {room.before}")
    if room.after is not None:
        places.append(f"after {room.after}")
    if not places:
        return ()
    answer = "the run fits in each of them" if room.fits_unused else "the cap of a block is too small for the run"
    return (f"blocks {' and '.join(places)} were never charged: {answer} (--within checks them)",)
