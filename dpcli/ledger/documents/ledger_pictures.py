"""The charts of a ledger: the used share of each block, and the part of the cap that remains after each entry or planned run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from math import floor

from dpcli.base.rounding import percent_used
from dpcli.document.chart import Axis, Chart, Grid, Heading, Line, Marker, Square, Tone
from dpcli.ledger import amounts
from dpcli.ledger.amounts import spent_by_block
from dpcli.ledger.balance import share_of
from dpcli.ledger.blocks.family import BlockFamily
from dpcli.ledger.chain import LedgerEntry
from dpcli.ledger.planning.plan_rehearsal import BudgetPlan
from dpcli.ledger.state import LedgerState

# The least used share of each colour of a square, and the label of the colour.
STEPS = (
    (0.0, "under 20 %"),
    (0.2, "20 to 40 %"),
    (0.4, "40 to 60 %"),
    (0.6, "60 to 80 %"),
    (0.8, "80 to under 100 %"),
    (1.0, "used up"),
)
EMPTY, CLOSED = "no charge", "retired"
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
ACROSS = 53  # number of weeks in one strip of the calendar
TALL = 9  # number of rows in a strip: a row of months, seven rows of days, and an empty row
STRIPS = 10  # largest number of strips
NAMED, ROW = 300, 6  # largest number of squares with names, and their number in a row
NARROW, EACH = 3, 4  # number of columns that the name of a month needs, and that lie between two labels of weeks


@dataclass(frozen=True, slots=True)
class BlockDrawing:
    """The squares and headings of a chart of blocks.

    Attributes:
        named: Whether the squares contain the names of blocks.
        hidden: The number of charged or retired blocks for which the chart has no room.
    """

    squares: tuple[Square, ...]
    headings: tuple[Heading, ...]
    named: bool = False
    hidden: int = 0


SquareMaker = Callable[[str, int, int], Square]  # returns the square of a block, given its name, column and row


def block_chart(state: LedgerState, when: str = "now") -> Chart | None:
    """Return a chart of all blocks; None if the dataset has no blocks, or if no block was charged or retired yet.

    Args:
        state: The state of the ledger.
        when: The time of the state, for the title.
    """
    terms = state.open_terms()
    family = terms.family
    known = set() if family is None else {*spent_by_block(state.spent, state.caps), *state.retired}
    if family is None or not (known or family.kind.listed):
        return None
    drawn = _draw(family, known, _square_maker(state))
    grid = Grid("block", drawn.squares, drawn.headings, STEPS, EMPTY, CLOSED, drawn.named)
    return Chart(
        kind="blocks",
        title=f"blocks of {state.dataset} by used share, {when}",
        subtitle=f"blocks by {family.by} of {family.column}, {_range_words(family, known)}; cap epsilon {state.epsilon!r} "
        f"at delta = {terms.delta!r}, per {terms.unit}, {terms.adjacency}",
        x=Axis("column", 0.0, float(grid.columns)),
        y=Axis("row", 0.0, float(grid.rows)),
        grid=grid,
        notes=(f"{drawn.hidden:,} blocks are not shown",) if drawn.hidden else (),
    )


def _range_words(family: BlockFamily, known: set[str]) -> str:
    if family.kind.listed:
        return f"{len(family.kind.listed):,} of them"
    return f"{min(known, key=family.kind.rank)} to {max(known, key=family.kind.rank)}"


def _square_maker(state: LedgerState) -> SquareMaker:
    """Return the function that makes the square of a block from its used share."""
    spent = spent_by_block(state.spent, state.caps)

    def square(block: str, column: int, row: int) -> Square:
        share = amounts.largest_share(spent[block], state.caps) if block in spent else None
        retired = block in state.retired
        words = (EMPTY if share is None else percent_used(share)) + (f", {CLOSED}" if retired else "")
        return Square(block, column, row, share, words, retired)

    return square


def _draw(family: BlockFamily, known: set[str], square: SquareMaker) -> BlockDrawing:
    """Return the squares of a chart in the layout for the kind of blocks: a calendar of days, years of weeks, or a plain grid."""
    kind = family.kind
    days = {day for block in known if (day := kind.first_day(block)) is not None}
    if days:
        return _draw_days(days, square) if kind.weekly else _draw_weeks(days, square)
    every = sorted(kind.listed, key=kind.rank)
    shown = every if len(every) <= NAMED else sorted(known, key=kind.rank)[:NAMED]
    squares = tuple(square(block, i % ROW, i // ROW) for i, block in enumerate(shown))
    return BlockDrawing(squares, (), named=True, hidden=len(known - set(shown)))


def _draw_days(days: set[date], square: SquareMaker) -> BlockDrawing:
    """Draw weeks as columns, in strips of `ACROSS` weeks. The last strip ends with the last week. Strips without a charge are left out."""
    first, last = min(days), max(days)
    end = _week(last)
    strips = sorted({(end - _week(day)) // ACROSS for day in days}, reverse=True)
    shown = strips[-STRIPS:]
    squares: list[Square] = []
    headings: list[Heading] = []
    for strip, number in enumerate(shown):
        start = max(end - ACROSS * (number + 1) + 1, _week(first))
        weeks = range(start, end - ACROSS * number + 1)
        within = [day for week in weeks for day in _days_of(week) if first <= day <= last]
        squares += [square(day.isoformat(), _week(day) - start, TALL * strip + 1 + day.weekday()) for day in within]
        headings += [Heading(name, -1, TALL * strip + 1 + i) for i, name in enumerate(WEEKDAYS)]
        months = _months(within)
        headings += [Heading(text, _week(day) - start, TALL * strip) for day, text in months]
        headings.append(Heading(f"{months[0][0].year:04}", -1, TALL * strip))
    hidden = sum((end - _week(day)) // ACROSS not in shown for day in days)
    return BlockDrawing(tuple(squares), tuple(headings), hidden=hidden)


def _week(day: date) -> int:
    """Return the number of the week of a day. Weeks begin on Monday and are counted from the first week of the calendar."""
    return (day.toordinal() - 1) // 7  # the first day of the calendar is a Monday


def _days_of(week: int) -> list[date]:
    ordinals = range(7 * week + 1, 7 * week + 8)
    return [date.fromordinal(ordinal) for ordinal in ordinals if ordinal <= date.max.toordinal()]


def _months(days: Sequence[date]) -> list[tuple[date, str]]:
    """Return the first shown day of each month, and its label.

    The label is the name of the month. For a January after the first label it is the year. If the first two labels would overlap, the first
    label is left out.
    """
    begun = [day for i, day in enumerate(days) if i == 0 or day.day == 1]
    if len(begun) > 1 and _week(begun[1]) - _week(begun[0]) < NARROW:
        del begun[0]
    return [(day, f"{day.year:04}" if i and day.month == 1 else MONTHS[day.month - 1]) for i, day in enumerate(begun)]


def _draw_weeks(mondays: set[date], square: SquareMaker) -> BlockDrawing:
    """Draw years as rows, and the weeks of a year as columns."""
    first, last = min(mondays), max(mondays)
    years = sorted({day.isocalendar().year for day in mondays})
    shown = years[-2 * STRIPS :]
    squares: list[Square] = []
    for row, year in enumerate(shown, 1):
        weeks = [(week, monday) for week in range(1, 54) if (monday := _monday(year, week)) is not None]
        squares += [square(f"{year:04}-W{week:02}", week - 1, row) for week, monday in weeks if first <= monday <= last]
    columns = {each.column for each in squares}
    headings = [Heading(f"{year:04}", -1, row) for row, year in enumerate(shown, 1)]
    headings += [Heading(f"W{column + 1:02}", column, 0) for column in range(0, ACROSS, EACH) if column in columns]
    return BlockDrawing(tuple(squares), tuple(headings), hidden=sum(day.isocalendar().year not in shown for day in mondays))


def _monday(year: int, week: int) -> date | None:
    try:
        return date.fromisocalendar(year, week, 1)
    except ValueError:
        return None


def burn_down_chart(entries: Sequence[LedgerEntry]) -> Chart | None:
    """Return a chart of the part of the cap that remains after each entry, as steps; None if there is only the opening entry.

    Amendments of the cap are marked, as they can raise or lower the line.
    """
    state, left, amended = LedgerState(str(entries[0].content["dataset"])), [], []
    for entry in entries:
        state.apply(entry)
        left.append(100.0 * max(1.0 - share_of(state, state.fullest().spent), 0.0))
        if entry.kind == "amend":
            amended.append(Marker(f"cap {state.epsilon!r}", float(entry.row.seq), left[-1], Tone.LIMIT))
    if len(entries) < 2:
        return None
    terms = state.open_terms()
    reserved = len(state.under_way)
    return Chart(
        kind="burn-down",
        title="remaining budget",
        subtitle=f"{state.dataset}: cap epsilon {state.epsilon!r} at delta = {terms.delta!r}, per {terms.unit}, {terms.adjacency}",
        x=Axis("entry", 1.0, float(len(entries))),
        y=Axis("left of the cap", 0.0, 100.0, unit="%"),
        lines=(
            Line(f"now {floor(10.0 * left[-1]) / 10.0:.1f} % left", steps(left)),
            Line("empty", ((1.0, 0.0), (float(len(entries)), 0.0)), Tone.LIMIT, dashed=True),
        ),
        markers=tuple(amended),
        notes=(f"{reserved} reserved {'run counts' if reserved == 1 else 'runs count'} in full",) if reserved else (),
    )


def steps(values: Sequence[float], first: int = 1) -> tuple[tuple[float, float], ...]:
    """Return the points of a line that is constant between entries and jumps at each entry. `first` is the number of the first entry."""
    points = [(float(first), values[0])]
    for i, (before, now) in enumerate(pairwise(values), start=first + 1):
        points += [(float(i), before), (float(i), now)]
    return tuple(points)


def plan_chart(plan: BudgetPlan) -> Chart:
    """Return a chart of the part of the cap that remains now and after each run, as steps. The first run that does not fit is marked."""
    state = plan.before.fullest()
    left = [100.0 * max(1.0 - used, 0.0) for used in (share_of(state, state.spent), *(run.used for run in plan.runs))]
    terms, last = state.open_terms(), float(len(plan.runs))
    refused = [
        Marker(f"{run.day}: does not fit", plan.in_order + 1.0, left[plan.in_order], Tone.LIMIT) for run in (plan.refused,) if run
    ]
    return Chart(
        kind="plan",
        title="remaining budget during the plan",
        subtitle=f"{state.dataset}, runs from {plan.runs[0].day} to {plan.runs[-1].day}: cap epsilon {state.epsilon!r} at delta = "
        f"{terms.delta!r}, per {terms.unit}, {terms.adjacency}",
        x=Axis("run of the plan", 0.0, last),
        y=Axis("left of the cap", 0.0, 100.0, unit="%"),
        lines=(
            Line("left", steps(left, first=0)),
            Line("empty", ((0.0, 0.0), (last, 0.0)), Tone.LIMIT, dashed=True),
        ),
        markers=tuple(refused),
    )
