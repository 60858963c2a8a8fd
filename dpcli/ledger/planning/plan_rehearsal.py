"""A schedule walked on a copy of a ledger's balance: what fits, what does not, and what is then used. Nothing is written.

There is one accounting, the ledger's: each run is asked for as `dpcli budget spend` asks, and what is granted goes through the fold that
reads the chain. A run that is denied is not made, and costs nothing; those after it are asked for all the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import islice
from typing import TYPE_CHECKING

from dpcli.base.errors import Denied, InputError
from dpcli.ledger.balance import share_of
from dpcli.ledger.blocks.family import MOST
from dpcli.ledger.chain import seal
from dpcli.ledger.denial import full_blocks_words, shortfall
from dpcli.ledger.filters.filter import Cost
from dpcli.ledger.planning.schedule import ScheduledRun, Trailing, trailing_of
from dpcli.ledger.requests import Charge
from dpcli.ledger.state import LedgerState

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.ledger.ledger import Ledger
    from dpcli.ledger.planning.schedule import Schedule, ScheduledRun


NAMED = 100  # denied runs of which each full block is looked up
MOST_CHARGED = 2_000_000  # runs times the blocks of each, in one schedule
BEYOND = 1000  # runs that are walked past the end of a schedule


@dataclass(frozen=True, slots=True)
class PricedRun:
    """A run of a schedule with its price.

    Attributes:
        reads: The blocks, or how they follow from the day.
        delta: Delta that it is described at.
    """

    scheduled: ScheduledRun
    pipeline: Pipeline
    cost: Cost
    delta: float
    reads: tuple[str, ...] | Trailing


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run on its day.

    Attributes:
        place: Place of its table in the schedule.
        used: The share of the cap that is used after it; with blocks, on the fullest of its window.
        why: It is denied; "" where it fits.
    """

    day: date
    place: int
    window: tuple[str, ...]
    cost: Cost
    used: float
    why: str = ""

    @property
    def fits(self) -> bool:
        return not self.why


@dataclass(frozen=True, slots=True)
class BudgetPlan:
    """The fate of a schedule.

    Attributes:
        before, after: The balance now, and when all runs that fit are made.
    """

    schedule: Schedule
    priced: tuple[PricedRun, ...]
    runs: tuple[PlannedRun, ...]
    before: LedgerState
    after: LedgerState

    @property
    def fitting(self) -> int:
        """The number of runs that fit."""
        return sum(run.fits for run in self.runs)

    @property
    def refused(self) -> PlannedRun | None:
        """The first run that does not fit, None if all do."""
        return next((run for run in self.runs if not run.fits), None)

    @property
    def in_order(self) -> int:
        """The number of runs that fit before the first that does not."""
        return next((i for i, run in enumerate(self.runs) if not run.fits), len(self.runs))

    @property
    def touched(self) -> Counter[str]:
        """By block, how many of the runs that fit are charged on it."""
        return Counter(block for run in self.runs if run.fits for block in run.window)

    def counted(self, place: int) -> tuple[int, int]:
        """Return how many runs a table of the schedule has, and how many of them fit."""
        own = [run.fits for run in self.runs if run.place == place]
        return len(own), sum(own)


def plan_of(ledger: Ledger, schedule: Schedule) -> BudgetPlan:
    """Price every table of a schedule once, and walk the calendar from the ledger's balance of now.

    Raises:
        InputError: If a file or a window is not one for this ledger, CannotCertify or NotRepresentable if a run has no cost.
    """
    from dpcli.file.pipeline.read import load

    priced = tuple(_price(ledger, run, load(run.file)) for run in schedule.runs)
    before = ledger.state().rehearsal()
    _refuse_long(before, schedule, priced)
    return rehearse(before, schedule, priced)


def _refuse_long(before: LedgerState, schedule: Schedule, priced: Sequence[PricedRun]) -> None:
    """Raise InputError for more blocks than anybody waits for: each block of each run is added up."""
    blocks = [max(1, len(window_on(before, run, run.scheduled.first))) for run in priced]
    charged = sum(blocks[place] for _, place in schedule.days())
    if charged > MOST_CHARGED:
        raise InputError(
            f"{schedule.path or '<schedule>'}: expected runs that charge at most {MOST_CHARGED:,} blocks in all, counted in each run, "
            f"found {charged:,}: plan fewer runs, or shorter windows"
        )


def rehearse(before: LedgerState, schedule: Schedule, priced: tuple[PricedRun, ...]) -> BudgetPlan:
    """Return what becomes of a schedule whose runs have their prices."""
    after = _spendable_copy(before)
    runs = tuple(_walk(after, schedule.days(), priced))
    return BudgetPlan(schedule, priced, runs, before, after)


def all_fit(before: LedgerState, schedule: Schedule, priced: tuple[PricedRun, ...]) -> int:
    """Return how many runs a schedule has if all of them fit, 0 where one does not."""
    runs = 0
    for run in _walk(_spendable_copy(before), schedule.days(), priced):
        if not run.fits:
            return 0
        runs += 1
    return runs


@dataclass(frozen=True, slots=True)
class Outlook:
    """A plan gone on with past its end.

    Attributes:
        refused: The first run that does not fit, None if none of `walked` runs past the plan's does.
    """

    refused: PlannedRun | None
    walked: int


def outlook_of(plan: BudgetPlan) -> Outlook | None:
    """Return what comes after a plan of which all runs fit, repeated without an end; None if nothing is repeated, or not all fit."""
    if plan.refused is not None or not any(run.every for run in plan.schedule.runs):
        return None
    days = islice(plan.schedule.days(endless=True), len(plan.runs) + BEYOND)
    walked = 0
    try:
        for run in _walk(_spendable_copy(plan.before), days, plan.priced):
            walked += 1
            if not run.fits:
                return Outlook(run, walked - 1)
    except InputError:  # the calendar has come to its end
        pass
    return Outlook(None, max(walked - len(plan.runs), 0))


def _spendable_copy(state: LedgerState) -> LedgerState:
    """Return a copy to spend from; its runs have keys of their own, and no earlier run is asked for."""
    copied = state.rehearsal()
    copied.runs = {}
    return copied


def _price(ledger: Ledger, run: ScheduledRun, pipeline: Pipeline) -> PricedRun:
    cost, delta = ledger.cost(pipeline)
    try:
        return PricedRun(run, pipeline, cost, delta, reads_of(ledger, run, pipeline))
    except InputError as error:
        raise InputError(f"{run.file}: {str(error).removeprefix('--')}") from None


def reads_of(ledger: Ledger, run: ScheduledRun, pipeline: Pipeline) -> tuple[str, ...] | Trailing:
    """Return what a run reads. Raises InputError if that is no window of this ledger, or not that of its file."""
    stated = () if run.window is None else (run.window,) if isinstance(run.window, str) else run.window
    family = ledger.state().open_terms().family
    moving = trailing_of(stated[0], family.kind) if family is not None and len(stated) == 1 else None
    if moving is None:
        return ledger.stated_window(pipeline, stated)
    if pipeline.privacy.window:
        raise InputError(f'window: "{moving.words}" contradicts the window of the file ({", ".join(pipeline.privacy.window)[:60]})')
    return moving


def _walk(state: LedgerState, days: Iterable[tuple[date, int]], priced: Sequence[PricedRun]) -> Iterator[PlannedRun]:
    """Yield each run in its turn, charged to `state` where it fits."""
    from dpcli.file.pipeline.canonical import tables_of

    tables, denied = [tables_of(run.pipeline) for run in priced], 0
    for number, (day, place) in enumerate(days, 1):
        run = priced[place]
        window = window_on(state, run, day)
        charge = Charge("spend", f"run {number}", tables[place], run.delta, run.cost, "", window=window)
        why = _charge_or_reason(state, charge, denied < NAMED)
        denied += bool(why)
        flat = state.over(window)
        yield PlannedRun(day, place, window, run.cost, share_of(flat, flat.spent), why)


def window_on(state: LedgerState, run: PricedRun, day: date) -> tuple[str, ...]:
    """Return the blocks that a run reads on a day, as a charge has them."""
    if not isinstance(run.reads, Trailing):
        return run.reads
    family = state.open_terms().family
    assert family is not None  # else nothing moves
    blocks = run.reads.blocks(family.kind, day)
    return tuple(sorted(blocks)) if len(blocks) <= MOST else family.window(blocks)  # which says that they are too many


def _charge_or_reason(state: LedgerState, charge: Charge, named: bool) -> str:
    """Charge a run, or return why it is denied; where `named`, with the blocks."""
    try:
        content = charge.entry(state, "")
    except Denied:
        return _denial_reason(state, charge, named)
    assert content is not None  # no run has that key
    state.apply(seal(content, state.dataset, state.head))
    return ""


def _denial_reason(state: LedgerState, charge: Charge, named: bool) -> str:
    closed = state.closed(charge.window)
    if closed is not None:
        return f"block {closed} was retired, and takes no further run"
    missing = shortfall(state.over(charge.window), charge.cost)
    return missing + full_blocks_words(state, charge.cost, charge.window) if named else missing
