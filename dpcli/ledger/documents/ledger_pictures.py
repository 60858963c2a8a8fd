"""The charts of a ledger: the used share of each block, and the part of the cap that remains by date, also of planned runs.

`dpcli budget show` and `plan` draw them with -o x.svg, and on their HTML pages. A *block* is a part of the dataset, such as a day, with a
cap of its own (dpcli/ledger/blocks/family.py). A *plan* is the result of a rehearsal, which charges the runs of a schedule to a copy of the
ledger's state; a *policy* orders these runs (dpcli/ledger/planning). A chart is data (`Chart`): squares with a column and a row, lines, and
markers. On an axis of dates a number is a time in ms (`moment`), and a `Tone` is the role of a colour, such as LIMIT for a cap.
dpcli/document/charts draws it. The layouts of blocks are a calendar for days, a row per year for weeks, and a plain grid with names for all
others. The numbers of this module affect what is drawn alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from itertools import pairwise
from math import floor
from typing import NamedTuple

from dpcli.base.rounding import down, percent_used
from dpcli.document.chart import Axis, Chart, Grid, Heading, Line, Marker, Square, Tone, moment
from dpcli.document.document import Table
from dpcli.ledger import amounts
from dpcli.ledger.amounts import spent_by_block
from dpcli.ledger.balance import share_of
from dpcli.ledger.blocks.family import BlockFamily
from dpcli.ledger.chain import STAMP, LedgerEntry
from dpcli.ledger.planning.plan_rehearsal import BudgetPlan
from dpcli.ledger.state import LedgerState

# `Grid.steps`: the least used share of each colour of a square, and the label of the colour.
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
# A calendar of days consists of strips, each with the weeks of a year. A strip has a column for each week, a row of months, seven rows of
# days, and an empty row.
WEEKS_PER_STRIP, ROWS_PER_STRIP, MOST_STRIPS = 53, 9, 10
MONTH_WIDTH = 3  # number of columns that the name of a month needs
LEFT = -1  # the column of headings to the left of the squares
# A chart of weeks has a row for each year and a column for each week of the year, of which every fourth has a label.
WEEKS_PER_YEAR, MOST_YEARS, WEEKS_PER_LABEL = 53, 20, 4
MOST_NAMED, NAMED_PER_ROW = 300, 6  # largest number of squares with names, and their number in a row
LEAST_SPAN = 60_000.0  # shortest axis of dates, in ms
MOST_ROWS = 200  # largest number of rows of the table behind a picture


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


class Picture(NamedTuple):
    """A chart, and the table of its numbers, which a page shows under it."""

    chart: Chart
    numbers: Table


SquareMaker = Callable[[str, int, int], Square]  # returns the square of a block, given its name, column and row


def block_chart(state: LedgerState, when: str = "now") -> Chart | None:
    """Return a chart of all blocks; None if the dataset has no blocks, or if no block was charged or retired yet.

    The title states the time `when`.
    """
    family = state.open_terms().family
    if family is None:
        return None
    known = {*spent_by_block(state.spent, state.caps), *state.retired}
    if not (known or family.kind.listed):
        return None
    drawn = _draw(family, known, _square_maker(state))
    grid = Grid("block", drawn.squares, drawn.headings, STEPS, EMPTY, CLOSED, drawn.named)
    return Chart(
        kind="blocks",
        title=f"blocks of {state.dataset} by used share, {when}",
        subtitle=f"blocks by {family.by} of {family.column}, {_range_words(family, known)}; {_cap_words(state)}",
        x=Axis("column", 0.0, float(grid.columns)),
        y=Axis("row", 0.0, float(grid.rows)),
        grid=grid,
        notes=(f"{drawn.hidden:,} blocks are not shown",) if drawn.hidden else (),
    )


def _cap_words(state: LedgerState) -> str:
    terms = state.open_terms()
    return f"cap epsilon {state.epsilon!r} at delta = {terms.delta!r}, per {terms.unit}, {terms.adjacency}"


def _range_words(family: BlockFamily, known: set[str]) -> str:
    """Return the number of listed blocks, or else the first and the last known block."""
    if family.kind.listed:
        return f"{len(family.kind.listed):,} of them"
    return f"{min(known, key=family.kind.rank)} to {max(known, key=family.kind.rank)}"


def _square_maker(state: LedgerState) -> SquareMaker:
    """Return the function that draws a block in the colour of its used share in a state."""
    spent = spent_by_block(state.spent, state.caps)

    def square(block: str, column: int, row: int) -> Square:
        share = amounts.largest_share(spent[block], state.caps) if block in spent else None
        retired = block in state.retired
        words = EMPTY if share is None else percent_used(share)
        return Square(block, column, row, share, f"{words}, {CLOSED}" if retired else words, retired)

    return square


def _draw(family: BlockFamily, known: set[str], square: SquareMaker) -> BlockDrawing:
    """Return the squares of a chart in the layout for the kind of blocks: a calendar of days, years of weeks, or a plain grid."""
    kind = family.kind
    first_days = map(kind.first_day, known)
    days = {day for day in first_days if day is not None}
    if days:
        return _draw_days(days, square) if kind.daily else _draw_weeks(days, square)
    listed = sorted(kind.listed, key=kind.rank)
    shown = listed if len(listed) <= MOST_NAMED else sorted(known, key=kind.rank)[:MOST_NAMED]
    squares = tuple(square(block, index % NAMED_PER_ROW, index // NAMED_PER_ROW) for index, block in enumerate(shown))
    return BlockDrawing(squares, (), named=True, hidden=len(known - set(shown)))


def _draw_days(days: set[date], square: SquareMaker) -> BlockDrawing:
    """Draw weeks as columns, in strips of `WEEKS_PER_STRIP` weeks. The last strip ends with the last week.

    Strips without a charged or retired day are left out.
    """
    first, last = min(days), max(days)
    end = _week(last)
    # A strip is named by the number of strips after it.
    shown = sorted({(end - _week(day)) // WEEKS_PER_STRIP for day in days}, reverse=True)[-MOST_STRIPS:]
    squares: list[Square] = []
    headings: list[Heading] = []
    for index, later_strips in enumerate(shown):
        top = ROWS_PER_STRIP * index  # the row of months
        start = max(end - WEEKS_PER_STRIP * (later_strips + 1) + 1, _week(first))
        within: list[date] = []
        for week in range(start, end - WEEKS_PER_STRIP * later_strips + 1):
            within += [day for day in _days_of(week) if first <= day <= last]
        squares += [square(day.isoformat(), _week(day) - start, top + 1 + day.weekday()) for day in within]
        headings += [Heading(name, LEFT, top + 1 + weekday) for weekday, name in enumerate(WEEKDAYS)]
        months = _months(within)
        headings += [Heading(label, _week(day) - start, top) for day, label in months.items()]
        headings.append(Heading(f"{min(months).year:04}", LEFT, top))
    hidden = sum((end - _week(day)) // WEEKS_PER_STRIP not in shown for day in days)
    return BlockDrawing(tuple(squares), tuple(headings), hidden=hidden)


def _week(day: date) -> int:
    """Return the number of the week of a day. Weeks begin on Monday and are counted from the first week of the calendar."""
    return (day.toordinal() - 1) // 7  # the first day of the calendar is a Monday


def _days_of(week: int) -> list[date]:
    """Return the days of a week, without days after the last day of the calendar."""
    ordinals = range(7 * week + 1, 7 * week + 8)
    return [date.fromordinal(ordinal) for ordinal in ordinals if ordinal <= date.max.toordinal()]


def _months(days: Sequence[date]) -> dict[date, str]:
    """Return the label of each month, by the first shown day of the month.

    The label is the name of the month. For a January after the first label it is the year. If the first two labels would overlap, the first
    label is left out.
    """
    first_days = [day for day in days if day == days[0] or day.day == 1]
    if len(first_days) > 1 and _week(first_days[1]) - _week(first_days[0]) < MONTH_WIDTH:
        del first_days[0]
    labels = {day: MONTHS[day.month - 1] for day in first_days}
    labels |= {day: f"{day.year:04}" for day in first_days[1:] if day.month == 1}
    return labels


def _draw_weeks(mondays: set[date], square: SquareMaker) -> BlockDrawing:
    """Draw years as rows, and the weeks of a year as columns."""
    first, last = min(mondays), max(mondays)
    years = sorted({day.isocalendar().year for day in mondays})
    shown = years[-MOST_YEARS:]
    squares: list[Square] = []
    for row, year in enumerate(shown, 1):
        for week in range(1, WEEKS_PER_YEAR + 1):
            monday = _monday(year, week)
            if monday is not None and first <= monday <= last:
                squares.append(square(f"{year:04}-W{week:02}", week - 1, row))
    columns = {drawn.column for drawn in squares}
    headings = [Heading(f"{year:04}", LEFT, row) for row, year in enumerate(shown, 1)]
    labelled = [column for column in range(0, WEEKS_PER_YEAR, WEEKS_PER_LABEL) if column in columns]
    headings += [Heading(f"W{column + 1:02}", column, 0) for column in labelled]
    return BlockDrawing(tuple(squares), tuple(headings), hidden=sum(day.isocalendar().year not in shown for day in mondays))


def _monday(year: int, week: int) -> date | None:
    """Return the first day of a week of a year; None if the year has no such week."""
    try:
        return date.fromisocalendar(year, week, 1)
    except ValueError:
        return None


def block_table(chart: Chart) -> Table:
    """Return the charged and the retired squares of a chart of blocks as a table; the last `MOST_ROWS` of them if there are more."""
    squares = chart.grid.squares if chart.grid else ()
    rows = tuple((square.label, square.printed) for square in squares if square.value is not None or square.closed)
    return Table(_cut_title("blocks by used share", len(rows)), ("block", "used"), rows[-MOST_ROWS:])


def _cut_title(title: str, count: int) -> str:
    """Return the title of a table of `count` rows. It tells if only the last `MOST_ROWS` are shown."""
    return title if count <= MOST_ROWS else f"{title} (the last {MOST_ROWS} of {count:,} rows)"


def burn_down(entries: Sequence[LedgerEntry]) -> Picture | None:
    """Return what remains of the cap by date, as a chart of steps, and after each entry, as a table; None for the opening entry alone.

    Amendments of the cap are marked, because they can raise or lower the line. The table has the last `MOST_ROWS` entries.
    """
    if len(entries) < 2:
        return None
    state, times, left, amended, rows = LedgerState(str(entries[0].content["dataset"])), [], [], [], []
    for entry in entries:
        state.apply(entry)
        share = share_of(state, state.fullest().spent)
        left.append(_percent_left(share))
        times.append(moment(datetime.strptime(state.latest, STAMP)))
        left_text = down(max(100 - 100 * Decimal(repr(share)), Decimal(0)), 1)
        if entry.kind == "amend":
            amended.append(Marker(f"cap {state.epsilon!r}", times[-1], left[-1], Tone.LIMIT))
        when, who, key = (str(entry.content.get(name, "")) for name in ("when", "who", "key"))
        rows.append((str(entry.row.seq), when, entry.kind, key, who, repr(state.epsilon), f"{left_text} %"))
    reserved = len(state.under_way)
    notes = (f"{reserved} reserved {'run counts' if reserved == 1 else 'runs count'} in full",) if reserved else ()
    subtitle, label = f"{state.dataset}: {_cap_words(state)}", f"now {floor(10.0 * left[-1]) / 10.0:.1f} % left"
    chart = _chart_of_remaining("burn-down", "remaining budget", subtitle, times, left, label, amended, notes)
    title = _cut_title("remaining budget after each entry", len(rows))
    columns = ("entry", "when", "kind", "run", "who", "cap epsilon", "left of the cap")
    numeric = frozenset(map(columns.index, ("entry", "cap epsilon", "left of the cap")))
    return Picture(chart, Table(title, columns, tuple(rows[-MOST_ROWS:]), numeric=numeric))


def _chart_of_remaining(
    kind: str,
    title: str,
    subtitle: str,
    times: Sequence[float],
    left: Sequence[float],
    label: str,
    markers: Sequence[Marker],
    notes: tuple[str, ...] = (),
) -> Chart:
    """Return a chart of the part of the cap that is left from each time on, in percent, as steps. `label` names their line."""
    dates = _date_axis(times)
    empty = Line("empty", ((dates.low, 0.0), (dates.high, 0.0)), Tone.LIMIT, dashed=True)
    lines = (Line(label, _steps(times, left, dates)), empty)
    percent = Axis("left of the cap", 0.0, 100.0, unit="%")
    return Chart(kind, title, subtitle, x=dates, y=percent, lines=lines, markers=tuple(markers), notes=notes)


def _percent_left(share: float) -> float:
    """Return the part of the cap that is left after the use of a share, in percent. It is 0 if more than the cap is used."""
    return 100.0 * max(1.0 - share, 0.0)


def _date_axis(times: Sequence[float]) -> Axis:
    """Return an axis from the first to the last of some moments, of at least a minute."""
    return Axis("date", times[0], max(times[-1], times[0] + LEAST_SPAN), scale="utc")


def _steps(times: Sequence[float], values: Sequence[float], dates: Axis) -> tuple[tuple[float, float], ...]:
    """Return the points of a line that jumps to each value at its time, is constant in between, and reaches the end of the axis."""
    points = [(times[0], values[0])]
    for when, (before, after) in zip(times[1:], pairwise(values), strict=True):
        points += [(when, before), (when, after)]
    return (*points, (dates.high, values[-1]))


def plan_chart(plan: BudgetPlan) -> Chart:
    """Return a chart of the part of the cap that remains now and after each run, as steps. The first run that does not fit is marked."""
    state = plan.before.fullest()
    left = [_percent_left(share_of(state, state.spent)), *(_percent_left(run.used) for run in plan.runs)]
    days = [moment(datetime.combine(run.day, time())) for run in plan.runs]
    refused = []
    if plan.refused is not None:
        position = plan.fitting_before_refused  # `left` begins with the present share, so this is what the runs before it leave
        refused.append(Marker(f"{plan.refused.day}: does not fit", days[position], left[position], Tone.LIMIT))
    subtitle = f"{state.dataset}, runs from {plan.runs[0].day} to {plan.runs[-1].day}: {_cap_words(state)}"
    return _chart_of_remaining("plan", "remaining budget during the plan", subtitle, [days[0], *days], left, "left", refused)


def policy_chart(plan: BudgetPlan, first_come: BudgetPlan) -> Chart:
    """Return a chart of the number of runs that are granted by each day, by the policy of a plan and in the order of their days."""
    last = max(day for drawn in (plan, first_come) for run in drawn.runs for day in (run.day, run.granted or run.day))
    dates = _date_axis([moment(datetime.combine(day, time())) for day in (plan.runs[0].day, last)])
    lines = []
    for drawn, tone in ((plan, Tone.MAIN), (first_come, Tone.SECOND)):
        granted = sorted(moment(datetime.combine(run.granted, time())) for run in drawn.runs if run.granted is not None)
        points = _steps([dates.low, *granted], [float(count) for count in range(len(granted) + 1)], dates)
        words = f"{drawn.fitting:,} of {len(drawn.runs):,} by {drawn.policy}"
        lines.append(Line(words, points, tone, dashed=tone is Tone.SECOND))
    state = plan.before
    return Chart(
        kind="plan",
        title=f"granted runs of the plan by {plan.policy}",
        subtitle=f"{state.dataset}, runs from {plan.runs[0].day} to {plan.runs[-1].day}: {_cap_words(state)}",
        x=dates,
        y=Axis("granted runs", 0.0, float(len(plan.runs))),
        lines=tuple(lines),
    )
