"""The policies of `dpcli budget plan`, each of which orders the runs of a schedule (schedule.py) for the rehearsal in plan_rehearsal.py.

A *schedule* is a file with planned runs and their days, and the rehearsal charges them to a copy of the ledger's state. A dataset may be
cut into *blocks*, such as days, each with a cap of its own; a run takes its cost from every block that it reads. A policy chooses only the
order in which waiting runs are offered to the ledger, so that no run is granted that the ledger would deny. It is computed from the
schedule and the state of the ledger, and from no output of a run. From plan_rehearsal.py, an `Offer` is the request of a run on its day,
and `charge_or_reason` charges it to a state, or returns why the ledger would deny it.

* "fcfs": the order of the days, which is the order of the ledger itself. A run that does not fit is left out.
* "unlock": Luo et al. 2021, arXiv:2106.15335, Algorithm 1 (DPF). What is left of each block is divided into N fair shares. Each run that
  reads the block unlocks one of them, until all are unlocked. A run waits until it fits in what is unlocked on each of its blocks; of the
  runs that wait, the one with the smallest dominant share comes first. The dominant share is the largest part that the run takes of what
  was left on a block; of equal ones the earlier run comes first, while the paper compares their next shares. Hence a run with a dominant
  share of at most 1/N, which is among the first N runs on each of its blocks, never waits.
* "dpack": Tholoniat et al. 2022, arXiv:2212.13228, Algorithm 1. All runs of the schedule are known, and the one with the smallest sum over
  its blocks of the part that it takes of what is left comes first. Every run counts alike, so its weight is 1. The paper chooses for each
  block the Renyi order at which most runs fit. A ledger has one currency, which is fixed when it is opened, so there is nothing to choose.
  Packing is a heuristic: on several blocks it can grant fewer runs than another order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from heapq import heappop, heappush
from typing import NamedTuple

from dpcli.ledger.amounts import ZERO, Amounts, amount_of, block_of, cost_on_blocks, largest_share, read, subtract
from dpcli.ledger.planning.plan_rehearsal import (
    MOST_NAMED,
    BudgetPlan,
    Offer,
    PlannedRun,
    charge_or_reason,
    denial_reason,
    offers,
    spendable_copy,
)
from dpcli.ledger.plugin import POLICIES
from dpcli.ledger.state import LedgerState

FIRST_COME, _, PACK = POLICIES  # "fcfs", "unlock", "dpack"
# A finite number in place of an infinite part of what is left. It is above every part that fits, which is at most 1, and the sums of such
# numbers over the blocks of a run are doubles. It affects only the order among runs that do not fit.
ABOVE_ALL = 1e300


class Verdict(NamedTuple):
    """The answer to a run: the day on which it was given, and the reason of a denial; "" if the run is granted."""

    day: date
    why: str


def plan_by_policy(plan: BudgetPlan, policy: str, shares: int | None = None) -> BudgetPlan:
    """Return the plan of the same runs by a policy.

    Args:
        plan: The plan in the order of the days.
        policy: One of `POLICIES`.
        shares: The number of fair shares of the policy "unlock". None for the largest number of runs on one block.
    """
    if policy == FIRST_COME:
        return plan
    requested = tuple(offers(plan.before, plan.schedule.days(), plan.priced))
    if policy == PACK:
        verdicts = _verdicts_by_packing(plan.before, requested)
    else:
        shares = shares or max(Counter(block for offer in requested for block in _blocks(offer)).values())
        verdicts = _verdicts_by_unlocking(plan.before, requested, shares)
    after = spendable_copy(plan.before)
    runs = _charge_granted(after, requested, verdicts)
    return replace(plan, runs=runs, after=after, policy=policy, shares=shares, first_come=plan)


def _blocks(offer: Offer) -> Sequence[str]:
    """Return the blocks of a run; without blocks, the name "" of the whole dataset."""
    return offer.charge.window or ("",)


def _cost(offer: Offer) -> Amounts:
    """Return the cost of a run, by amount and block."""
    return cost_on_blocks(read(offer.charge.cost.amounts), offer.charge.window)


def _left(state: LedgerState, key: str) -> Decimal:
    """Return what is left of an amount on a block, but at least 0."""
    name = amount_of(key)
    return max(subtract({name: state.caps[name]}, {name: state.spent.get(key, ZERO)})[name], ZERO)


def _verdicts_by_packing(before: LedgerState, requested: Sequence[Offer]) -> dict[int, Verdict]:
    """Return the verdict on each run, by its position, by the policy "dpack": the run with the smallest sum of parts comes first."""
    part_sums = [
        math.fsum(min(largest_share({key: cost}, {key: _left(before, key)}), ABOVE_ALL) for key, cost in _cost(offer).items())
        for offer in requested
    ]
    state, verdicts, denied = spendable_copy(before), {}, 0
    for index in sorted(range(len(requested)), key=lambda index: (part_sums[index], index)):
        why = charge_or_reason(state, requested[index].charge, names_blocks=denied < MOST_NAMED)
        if why:
            denied += 1
        verdicts[index] = Verdict(requested[index].day, why)
    return verdicts


class Obstacle(NamedTuple):
    """A block on which a run does not fit in what is unlocked.

    `shares` is the least number of unlocked shares with which the run would fit, and above the number of all shares if nothing is left.
    """

    block: str
    shares: int


@dataclass(slots=True)
class _Locks:
    """The fair shares of each block that are unlocked.

    Attributes:
        before: The state of the ledger before any run.
        shares: The number of fair shares of each block.
        opened: The number of unlocked shares of each block.
        taken: The part of what was left of each amount on each block that granted runs take, by key, in shares.
    """

    before: LedgerState
    shares: int
    opened: Counter[str] = field(default_factory=Counter)
    taken: dict[str, Fraction] = field(default_factory=dict)
    _needed: dict[tuple[str, Decimal], Fraction | None] = field(default_factory=dict)  # cached `_shares`: many runs cost the same

    def open(self, blocks: Sequence[str]) -> None:
        """Unlock a share of each block that still has a locked one."""
        self.opened.update(block for block in blocks if self.opened[block] < self.shares)

    def dominant_share(self, offer: Offer) -> Fraction | float:
        """Return the largest part that a run takes of what was left of an amount on a block; inf if nothing was left."""
        left = self.before.on_blocks(offer.charge.window).left()
        parts = [_quotient(cost, left[name]) for name, cost in read(offer.charge.cost.amounts).items()]
        return max(parts, default=0.0)

    def take(self, offer: Offer) -> None:
        """Take the shares of a run that fits in what is unlocked."""
        for key, cost in _cost(offer).items():
            if cost:
                shares = self._shares(key, cost)
                assert shares is not None  # as the run fits
                self.taken[key] = self.taken.get(key, Fraction(0)) + shares

    def obstacle(self, offer: Offer) -> Obstacle | None:
        """Return the first obstacle of a run; None if it fits in what is unlocked on all of its blocks."""
        for key, cost in _cost(offer).items():
            if not cost:
                continue
            needed = self._shares(key, cost)
            least = self.shares + 1 if needed is None else math.ceil(self.taken.get(key, 0) + needed)
            block = block_of(key)
            if least > self.opened[block]:
                return Obstacle(block, least)
        return None

    def _shares(self, key: str, cost: Decimal) -> Fraction | None:
        """Return how many shares a cost > 0 takes of an amount on a block; None if nothing was left."""
        if (key, cost) not in self._needed:
            part = _quotient(cost, _left(self.before, key))
            self._needed[key, cost] = self.shares * part if isinstance(part, Fraction) else None
        return self._needed[key, cost]


def _quotient(amount: Decimal, of: Decimal) -> Fraction | float:
    """Return the exact quotient of two amounts; inf for a positive amount of 0, and 0 for 0 of 0."""
    if of:
        return Fraction(amount) / Fraction(of)
    return math.inf if amount else 0.0


class _Waiting:
    """The runs that wait, each at one block, for the number of its unlocked shares with which it may fit.

    A request changes nothing at the blocks that it does not read. So only the runs that wait at its own blocks are tried again.
    """

    def __init__(self) -> None:
        self._queues: dict[str, list[tuple[int, int]]] = {}  # heaps of (number of shares, rank of the run), by block

    def add(self, obstacle: Obstacle, rank: int) -> None:
        heappush(self._queues.setdefault(obstacle.block, []), (obstacle.shares, rank))

    def pop(self, block: str, opened: int) -> Iterator[int]:
        """Remove and yield the ranks of the runs at a block that may fit now that `opened` shares are unlocked."""
        queue = self._queues.get(block, [])
        while queue and queue[0][0] <= opened:  # the run that needs the fewest shares comes first
            _, rank = heappop(queue)
            yield rank

    def still_waiting(self) -> list[tuple[int, str]]:
        """Return the rank and the block of each run that still waits, by rank."""
        return sorted((rank, block) for block, queue in self._queues.items() for _, rank in queue)


def _verdicts_by_unlocking(before: LedgerState, requested: Sequence[Offer], shares: int) -> dict[int, Verdict]:
    """Return the verdict on each run, by its position, by the policy "unlock". The rank of a run is its position by dominant share."""
    state, locks, waiting = spendable_copy(before), _Locks(before, shares), _Waiting()
    dominant = [locks.dominant_share(offer) for offer in requested]
    by_rank = sorted(range(len(requested)), key=lambda index: (dominant[index], index))
    ranks = {index: rank for rank, index in enumerate(by_rank)}
    verdicts = {}
    for arrival, offer in enumerate(requested):
        # The request unlocks a share of each of its blocks. So it is tried together with the runs that wait there, in the order of ranks.
        locks.open(_blocks(offer))
        candidates = [ranks[arrival]]
        for block in _blocks(offer):
            candidates += waiting.pop(block, locks.opened[block])
        for rank in sorted(candidates):
            index = by_rank[rank]
            obstacle = locks.obstacle(requested[index])
            if obstacle is not None:
                waiting.add(obstacle, rank)
                continue
            why = charge_or_reason(state, requested[index].charge, names_blocks=True)
            verdicts[index] = Verdict(offer.day, why)  # on the day of the request that unlocked the last share
            if not why:
                locks.take(requested[index])
    for number, (rank, block) in enumerate(waiting.still_waiting()):
        index = by_rank[rank]
        offer = requested[index]
        full = state.on_blocks(offer.charge.window)
        if state.retired_block(offer.charge.window) or not full.fits(read(offer.charge.cost.amounts)):  # the ledger would deny it
            why = denial_reason(state, offer.charge, names_blocks=number < MOST_NAMED)
        else:
            why = f"the run still waits: {locks.opened[block]} of the {shares} fair shares of {block or 'the cap'} are unlocked"
        verdicts[index] = Verdict(offer.day, why)
    return verdicts


def _charge_granted(state: LedgerState, requested: Sequence[Offer], verdicts: dict[int, Verdict]) -> tuple[PlannedRun, ...]:
    """Charge the granted runs to `state` on the days on which they are granted, and return all runs in the order of the requests."""
    runs = {}
    for index in sorted(verdicts, key=lambda index: (verdicts[index].day, index)):
        offer, (day, why) = requested[index], verdicts[index]
        why = why or charge_or_reason(state, offer.charge, names_blocks=False)
        runs[index] = offer.planned(state, why, granted=day)
    return tuple(runs[index] for index in range(len(requested)))
