"""The rehearsal of a schedule on a copy of a ledger's state. It shows which runs fit and how much of the cap they use. Nothing is written.

`dpcli budget plan` calls `plan_of`. A *schedule* is a file with planned runs and their days (schedule.py). The *state* of a ledger is what
its entries add up to (dpcli/ledger/state.py). A *window* is the list of *blocks* that a run reads, such as days, each with a cap of its
own; it may be *trailing*, such as "last 7 days", and then differs from day to day. The *family* of a dataset (`BlockFamily`) says how it is
divided into blocks. A *retired* block cannot be charged any more. A *policy* orders the runs in another way than by their days
(policies.py); under "unlock", each run that reads a block makes one of N equal shares of what is left of it usable.

The rehearsal applies the rules of the ledger. Each run is requested as `dpcli budget spend` requests it, and each granted entry is applied
to the copy as a reader of the chain applies it. A denied run costs nothing, and the runs after it are still requested.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from dpcli.base.errors import Denied, InputError
from dpcli.ledger.balance import share_of
from dpcli.ledger.chain import seal
from dpcli.ledger.denial import full_blocks_words, retired_words, shortfall
from dpcli.ledger.filters.filter import Cost
from dpcli.ledger.planning.schedule import RunDay, Schedule, ScheduledRun, Trailing, trailing_of
from dpcli.ledger.plugin import MOST_IN_WINDOW, POLICIES
from dpcli.ledger.requests import Charge
from dpcli.ledger.state import LedgerState

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.ledger.ledger import Ledger

# Limits of a rehearsal, for its time. They are arbitrary. A schedule above MOST_CHARGED is refused.
MOST_NAMED = 100  # number of denied runs whose messages name the full blocks, because the look-up takes time
MOST_CHARGED = 2_000_000  # largest sum of the numbers of blocks of all runs in a schedule
BEYOND = 1000  # number of runs that are rehearsed beyond the end of a schedule


@dataclass(frozen=True, slots=True)
class PricedRun:
    """A run of a schedule with its cost.

    Attributes:
        scheduled: The table of the schedule.
        delta: The delta at which the filters approx-dp and advanced charge the run's epsilon.
        reads: The blocks that the run reads, or the trailing window from which they follow on each day.
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
        position: Position of the run's table in the schedule.
        window: The blocks that the run reads.
        used: The share of the cap that is used after the run. With blocks, it is the share of the fullest block of the window.
        why: The reason why the run is denied; "" if it fits.
        granted: The day on which a run that fits is granted, which is `day` unless it had to wait; None if it is denied.
    """

    day: date
    position: int
    window: tuple[str, ...]
    cost: Cost
    used: float
    why: str = ""
    granted: date | None = None

    @property
    def fits(self) -> bool:
        return not self.why


class RunCounts(NamedTuple):
    """The number of planned runs of one table of a schedule, and how many of them fit."""

    planned: int
    fitting: int


@dataclass(frozen=True, slots=True)
class BudgetPlan:
    """The result of the rehearsal of a schedule.

    Attributes:
        priced: The runs of the tables, with their costs.
        runs: All runs on their days.
        before, after: The state of the ledger now, and after all runs that fit.
        policy: The policy that ordered the runs (dpcli.ledger.planning.policies).
        shares: The number of fair shares into which the policy "unlock" divides each cap; None for another policy.
        first_come: The plan of the same runs in the order of their days; None if this is it.
    """

    schedule: Schedule
    priced: tuple[PricedRun, ...]
    runs: tuple[PlannedRun, ...]
    before: LedgerState
    after: LedgerState
    policy: str = POLICIES[0]
    shares: int | None = None
    first_come: BudgetPlan | None = None

    @property
    def fitting(self) -> int:
        """The number of runs that fit."""
        return sum(run.fits for run in self.runs)

    @property
    def refused(self) -> PlannedRun | None:
        """The first run that does not fit; None if all runs fit."""
        return next((run for run in self.runs if not run.fits), None)

    @property
    def fitting_before_refused(self) -> int:
        """The number of runs before the first one that does not fit."""
        return next((index for index, run in enumerate(self.runs) if not run.fits), len(self.runs))

    @property
    def runs_by_block(self) -> Counter[str]:
        """For each block, the number of fitting runs that are charged on it."""
        return Counter(block for run in self.runs if run.fits for block in run.window)

    def counts_of(self, position: int) -> RunCounts:
        """Return the numbers of runs of the table at this position of the schedule."""
        fits = [run.fits for run in self.runs if run.position == position]
        return RunCounts(len(fits), sum(fits))


def plan_of(ledger: Ledger, schedule: Schedule) -> BudgetPlan:
    """Return the rehearsal of a schedule that starts from the current state of a ledger.

    Raises:
        InputError: A file or a window does not suit this ledger, or the schedule is too long.
        CannotCertify, NotRepresentable: A run has no cost.
    """
    from dpcli.file.pipeline.read import load

    priced = tuple(_price(ledger, run, load(run.file)) for run in schedule.runs)
    before = ledger.state().rehearsal()
    _refuse_long(before, schedule, priced)
    return rehearse(before, schedule, priced)


def _refuse_long(before: LedgerState, schedule: Schedule, priced: Sequence[PricedRun]) -> None:
    """Check that the runs charge at most `MOST_CHARGED` blocks in all, which limits the time. Raises InputError if not."""
    blocks = [max(1, len(window_on(before, run, run.scheduled.first))) for run in priced]  # of each table, on its first day
    charged = sum(blocks[position] for _, position in schedule.days())
    if charged > MOST_CHARGED:
        raise InputError(
            f"{schedule.path or '<schedule>'}: expected runs that together charge at most {MOST_CHARGED:,} blocks, counted once per run, "
            f"found {charged:,}: plan fewer runs, or shorter windows"
        )


def rehearse(before: LedgerState, schedule: Schedule, priced: tuple[PricedRun, ...]) -> BudgetPlan:
    """Return the rehearsal of a schedule whose runs have costs."""
    after = spendable_copy(before)
    runs = tuple(_charge_in_order(after, schedule.days(), priced))
    return BudgetPlan(schedule, priced, runs, before, after)


def count_if_all_fit(before: LedgerState, schedule: Schedule, priced: tuple[PricedRun, ...]) -> int | None:
    """Return the number of runs of a schedule if all of them fit; None as soon as a run does not fit."""
    runs = 0
    for run in _charge_in_order(spendable_copy(before), schedule.days(), priced):
        if not run.fits:
            return None
        runs += 1
    return runs


@dataclass(frozen=True, slots=True)
class Outlook:
    """The continuation of a schedule beyond its end.

    Attributes:
        refused: The first run that does not fit; None if all rehearsed runs fit.
        fitting: The number of runs before `refused`. If `refused` is None, the number of runs beyond the end that were rehearsed.
    """

    refused: PlannedRun | None
    fitting: int


def outlook_of(plan: BudgetPlan) -> Outlook | None:
    """Return the continuation of a plan in which repeated runs have no end; None if no run is repeated, or if not all runs fit."""
    if plan.refused is not None or not any(run.every for run in plan.schedule.runs):
        return None
    days = islice(plan.schedule.days(endless=True), len(plan.runs) + BEYOND)
    rehearsed = 0
    try:
        for run in _charge_in_order(spendable_copy(plan.before), days, plan.priced):
            rehearsed += 1
            if not run.fits:
                return Outlook(run, rehearsed - 1)
    except InputError:  # a day or a window is outside the calendar
        pass
    return Outlook(None, max(rehearsed - len(plan.runs), 0))


def spendable_copy(state: LedgerState) -> LedgerState:
    """Return a copy of a state to which runs can be charged. The copy has no earlier runs, so that all keys are free."""
    copied = state.rehearsal()
    copied.runs = {}
    return copied


def _price(ledger: Ledger, run: ScheduledRun, pipeline: Pipeline) -> PricedRun:
    """Return a run of the schedule with its cost and the blocks that it reads. Raises InputError if its window is wrong."""
    cost, delta = ledger.cost(pipeline)
    try:
        return PricedRun(run, pipeline, cost, delta, reads_of(ledger, run, pipeline))
    except InputError as error:
        # Functions of the ledger say "--window: ..." in their messages, as in other commands. Here the window is a key of the schedule.
        raise InputError(f"{run.file}: {str(error).removeprefix('--')}") from None


def reads_of(ledger: Ledger, run: ScheduledRun, pipeline: Pipeline) -> tuple[str, ...] | Trailing:
    """Return the blocks that a run reads, or its trailing window.

    Raises InputError if the window is not valid in this ledger, or contradicts the window of the file.
    """
    stated = (run.window,) if isinstance(run.window, str) else run.window or ()
    family = ledger.state().open_terms().family  # of the ledger's terms; None if the dataset has no blocks
    trailing = trailing_of(stated[0], family.kind) if family is not None and len(stated) == 1 else None
    if trailing is None:
        return ledger.stated_window(pipeline, stated)
    if pipeline.privacy.window:
        raise InputError(
            f'window: "{trailing.words}" contradicts the window of the file ({", ".join(pipeline.privacy.window)[:60]})'
        )
    return trailing


@dataclass(frozen=True, slots=True)
class Offer:
    """A run that is requested on its day. `position` is that of its table in the schedule."""

    day: date
    position: int
    charge: Charge

    def planned(self, state: LedgerState, why: str, granted: date) -> PlannedRun:
        """Return the run with the share that is used in a state. `why` is the reason of its denial; "" if it is granted."""
        full = state.on_blocks(self.charge.window)
        used = share_of(full, full.spent)
        return PlannedRun(self.day, self.position, self.charge.window, self.charge.cost, used, why, None if why else granted)


def offers(state: LedgerState, days: Iterable[RunDay], priced: Sequence[PricedRun]) -> Iterator[Offer]:
    """Yield the request of each run in order, under the keys "run 1", "run 2", and so on. They are of nobody, so that no quota counts."""
    from dpcli.file.pipeline.canonical import tables_of

    tables = [tables_of(run.pipeline) for run in priced]  # [privacy] and the mechanisms, as an entry states them
    for number, (day, position) in enumerate(days, start=1):
        run = priced[position]
        window = window_on(state, run, day)
        charge = Charge("spend", f"run {number}", tables[position], run.delta, run.cost, who="", window=window)
        yield Offer(day, position, charge)


def _charge_in_order(state: LedgerState, days: Iterable[RunDay], priced: Sequence[PricedRun]) -> Iterator[PlannedRun]:
    """Yield each run in order. A run that fits is charged to `state`."""
    denied = 0
    for offer in offers(state, days, priced):
        why = charge_or_reason(state, offer.charge, names_blocks=denied < MOST_NAMED)
        if why:
            denied += 1
        yield offer.planned(state, why, offer.day)


def window_on(state: LedgerState, run: PricedRun, day: date) -> tuple[str, ...]:
    """Return the blocks that a run reads on a day, sorted by name. Raises InputError if there are too many."""
    if not isinstance(run.reads, Trailing):
        return run.reads
    family = state.open_terms().family
    assert family is not None  # only a dataset with blocks has trailing windows
    blocks = run.reads.blocks(family.kind, day)
    return tuple(sorted(blocks)) if len(blocks) <= MOST_IN_WINDOW else family.window(blocks)  # raises the InputError


def charge_or_reason(state: LedgerState, charge: Charge, *, names_blocks: bool) -> str:
    """Charge a run and return "", or return why it is denied. If `names_blocks` is true, the reason names the full blocks."""
    try:
        content = charge.entry(state, now="")  # the time matters to no charge
    except Denied:
        return denial_reason(state, charge, names_blocks=names_blocks)
    assert content is not None  # no earlier run has this key
    state.apply(seal(content, state.dataset, state.head))  # `seal` makes the content an entry that follows the last one of the copy
    return ""


def denial_reason(state: LedgerState, charge: Charge, *, names_blocks: bool) -> str:
    """Return why a charge does not fit. If `names_blocks` is true, the reason names the full blocks."""
    retired = state.retired_block(charge.window)
    if retired is not None:
        return retired_words(retired)
    missing = shortfall(state.on_blocks(charge.window), charge.cost)
    return missing + full_blocks_words(state, charge.cost, charge.window) if names_blocks else missing
