"""Tests of ledger/planning/policies.py: by plain programs of the papers' algorithms, and by trying every set of runs."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import pytest

from dpcli.ledger.filters.filter import Cost
from dpcli.ledger.planning.plan_rehearsal import BudgetPlan, PricedRun, rehearse
from dpcli.ledger.planning.policies import plan_by_policy
from dpcli.ledger.planning.schedule import Schedule, ScheduledRun
from dpcli.ledger.plugin import POLICIES
from dpcli.ledger.state import LedgerState
from dpcli.ledger.stores.places import init
from tests.command import dpcli
from tests.ledger.filters.families import FAMILIES, after, opening, terms
from tests.ledger.filters.setting import DATASET, TABLES, run, run_file
from tests.ledger.filters.setting import terms as plain

BLOCKS = FAMILIES["day"][1]
FIRST = date(2028, 1, 10)
CAPS = {"epsilon": Fraction(1), "delta": Fraction("0.01")}


@dataclass(frozen=True)
class Wish:
    """A run as the oracles see it: its day, its cost by amount, and its blocks; a ledger without blocks is one block."""

    day: date
    cost: dict[str, Fraction]
    window: tuple[str, ...]


def drawn(draw: random.Random, blocks: Sequence[str]) -> tuple[LedgerState, list[Wish]]:
    """A ledger on which something is spent, and one to six runs, of which some cost nothing and some more than there is."""
    found = terms("day", 1, "approx-dp", 0.01)
    state = opening(found if blocks else replace(found, blocks=None))
    if draw.random() < 0.5:
        cost = {"epsilon": f"0.{draw.randint(1, 9)}", "delta": "0"}
        window = {"window": list(blocks[:2])} if blocks else {}
        state = after(
            state, {"kind": "spend", "key": "before", "pipeline": TABLES, "delta": "0.0", "cost": cost, "detail": "", **window}
        )
    wishes = []
    for _ in range(draw.randint(1, 6)):
        cost = {"epsilon": Fraction(draw.choice([0, 1, 2, 3, 5, 8, 11]), 10), "delta": Fraction(draw.choice([0, 0, 0, 2, 5]), 1000)}
        window = tuple(sorted(draw.sample(blocks, min(len(blocks), draw.randint(1, 3))))) if blocks else ()
        wishes.append(Wish(FIRST + timedelta(draw.randint(0, 3)), cost, window))
    return state, sorted(wishes, key=lambda wish: wish.day)


def planned(state: LedgerState, wishes: Sequence[Wish]) -> BudgetPlan:
    tables = tuple(ScheduledRun(f"{i}.toml", wish.day) for i, wish in enumerate(wishes))
    priced = tuple(
        PricedRun(table, run(), Cost({name: str(float(cost)) for name, cost in wish.cost.items()}, ""), 0.0, wish.window)
        for table, wish in zip(tables, wishes, strict=True)
    )
    return rehearse(state.rehearsal(), Schedule(tables), priced)


Room = dict[tuple[str, str], Fraction]


def room_of(state: LedgerState, wishes: Iterable[Wish]) -> Room:
    left = {}
    for block in {block for wish in wishes for block in wish.window or ("",)}:
        for name, cap in CAPS.items():
            spent = state.spent.get(f"{name}@{block}" if block else name, 0)
            left[block, name] = cap - Fraction(spent)
    return left


def needs(wish: Wish) -> Room:
    return {(block, name): cost for block in wish.window or ("",) for name, cost in wish.cost.items()}


def taken(order: Iterable[int], wishes: Sequence[Wish], room: Room) -> dict[int, date]:
    left, granted = dict(room), {}
    for i in order:
        if all(cost <= left[key] for key, cost in needs(wishes[i]).items()):
            left = {key: value - needs(wishes[i]).get(key, 0) for key, value in left.items()}
            granted[i] = wishes[i].day
    return granted


def most_together(wishes: Sequence[Wish], room: Room) -> int:
    """The size of the largest set of runs that fit together, among all sets. No order of the runs grants more."""
    sets = (chosen for size in range(len(wishes), 0, -1) for chosen in combinations(range(len(wishes)), size))
    return next((len(chosen) for chosen in sets if len(taken(chosen, wishes, room)) == len(chosen)), 0)


def part(cost: Fraction, left: Fraction) -> float | Fraction:
    return cost / left if left else math.inf if cost else 0


def by_dpack(wishes: Sequence[Wish], room: Room) -> dict[int, date]:
    loads = [math.fsum(float(part(cost, room[key])) for key, cost in needs(wish).items()) for wish in wishes]
    return taken(sorted(range(len(wishes)), key=lambda i: loads[i]), wishes, room)


def dominant(wish: Wish, room: Room) -> float | Fraction:
    return max(part(cost, room[key]) for key, cost in needs(wish).items())


def by_unlock(wishes: Sequence[Wish], room: Room, shares: int) -> dict[int, date]:
    """Algorithm 1 of Luo et al. 2021, with what is unlocked and not yet taken of each block in place of a count."""
    unlocked, arrived = dict.fromkeys(room, Fraction(0)), dict.fromkeys((block for block, _ in room), 0)
    waiting: list[int] = []
    granted = {}
    for i, wish in enumerate(wishes):
        for block in wish.window or ("",):
            arrived[block] += 1
            for name in CAPS:
                unlocked[block, name] += room[block, name] / shares if arrived[block] <= shares else 0
        waiting.append(i)
        for j in sorted(waiting, key=lambda j: (dominant(wishes[j], room), j)):
            if all(cost <= unlocked[key] for key, cost in needs(wishes[j]).items()):
                for key, cost in needs(wishes[j]).items():
                    unlocked[key] -= cost
                waiting.remove(j)
                granted[j] = wish.day
    return granted


def granted_by(plan: BudgetPlan) -> dict[int, date]:
    return {run.position: run.granted for run in plan.runs if run.granted is not None}


def assert_fair(wishes: Sequence[Wish], room: Room, shares: int, granted: dict[int, date], name: str) -> None:
    """Never more than what is unlocked by a day; and at once what needs no more than its shares."""
    readers = {block: [i for i, wish in enumerate(wishes) if block in (wish.window or ("",))] for block, _ in room}
    for day in {wish.day for wish in wishes}:
        for (block, amount), left in room.items():
            opened = min(shares, sum(wishes[i].day <= day for i in readers[block]))
            used = sum(wishes[i].cost[amount] for i in readers[block] if granted.get(i, date.max) <= day)
            assert used <= left * opened / shares, (name, day, block)
    for i, wish in enumerate(wishes):
        early = all(readers[block].index(i) < shares for block in wish.window or ("",))
        if early and dominant(wish, room) <= Fraction(1, shares):
            assert granted.get(i) == wish.day, (name, i)


def assert_as_in_the_papers(draw: random.Random, name: str) -> None:
    blocks = draw.choice([BLOCKS[:4], BLOCKS[:1], ()])
    state, wishes = drawn(draw, blocks)
    room, first_come = room_of(state, wishes), planned(state, wishes)
    busiest = max(sum(block in (wish.window or ("",)) for wish in wishes) for block, _ in room)
    most = most_together(wishes, room)
    assert granted_by(first_come) == taken(range(len(wishes)), wishes, room) and first_come.first_come is None, name
    packed = plan_by_policy(first_come, "dpack")
    assert granted_by(packed) == by_dpack(wishes, room), name
    if len(blocks) < 2 and not any(wish.cost["delta"] for wish in wishes):
        assert packed.fitting == most, name  # on one block no order fits more
    for shares in (None, 1, draw.randint(2, 5)):
        plan = plan_by_policy(first_come, "unlock", shares)
        assert plan.shares == (shares or busiest), name
        assert granted_by(plan) == by_unlock(wishes, room, plan.shares), (name, shares)
        assert_fair(wishes, room, plan.shares, granted_by(plan), name)
    for policy in POLICIES:
        plan = plan_by_policy(first_come, policy)
        assert plan == plan_by_policy(first_come, policy) and [one.position for one in plan.runs] == [*range(len(wishes))], name
        assert plan.fitting <= most, name
        total = {key: sum(needs(wishes[i]).get(key, 0) for i in granted_by(plan)) for key in room}
        assert all(total[key] <= max(room[key], 0) for key in room), name
        assert all(Fraction(value) <= CAPS[key.partition("@")[0]] for key, value in plan.after.spent.items()), name


@pytest.mark.parametrize("count", [3, pytest.param(40, marks=pytest.mark.long), pytest.param(300, marks=pytest.mark.nightly)])
def test_the_policies_of_small_schedules_are_those_of_their_papers(count: int) -> None:
    seed = random.randrange(10**9)
    draw = random.Random(seed)
    for i in range(count):
        assert_as_in_the_papers(draw, f"seed {seed}, case {i}")


def test_a_retired_block_is_denied_by_every_policy() -> None:
    """In whatever order the runs are granted, those on a retired block are denied and the others fit."""
    state = after(opening(terms()), {"kind": "retire", "window": [BLOCKS[0]], "why": "gone"})
    wishes = [Wish(FIRST, {"epsilon": Fraction("0.4"), "delta": Fraction(0)}, (block,)) for block in (BLOCKS[0], BLOCKS[1]) * 2]
    for policy in POLICIES:
        plan = plan_by_policy(planned(state, wishes), policy, 2 if policy == "unlock" else None)
        assert [one.fits for one in plan.runs] == [False, True, False, True], policy
        assert "was retired" in plan.runs[0].why, policy


def test_costs_whose_sum_is_beyond_doubles_are_denied() -> None:
    huge = Wish(FIRST, {"epsilon": Fraction(10**308), "delta": Fraction(0)}, tuple(BLOCKS[:3]))
    for policy in POLICIES:
        plan = plan_by_policy(planned(opening(terms()), [huge, replace(huge, cost=dict.fromkeys(CAPS, Fraction(0)))]), policy)
        assert [one.fits for one in plan.runs] == [False, True], policy


SCHEDULE = """format = 1
[[run]]
file = "elephant.toml"
from = 2026-02-02
[[run]]
file = "mouse.toml"
every = "day"
from = 2026-02-03
count = 8
"""


@pytest.mark.long
def test_elephants_and_mice_by_the_command(tmp_path: Path) -> None:
    """The first run is large, and takes the budget that eight small runs need."""
    url, path = str(tmp_path / "l.db"), tmp_path / "plan.toml"
    init(url, DATASET, replace(plain(), schema="")).close()
    path.write_text(SCHEDULE)
    for name, epsilon in (("elephant", 0.9), ("mouse", 0.125)):
        (tmp_path / f"{name}.toml").write_text(run_file(epsilon))

    def asked(*flags: str) -> dict[str, object]:
        done = dpcli("budget", "plan", url, str(path), "-f", "json", *flags)
        assert done.code == 1, done
        found: dict[str, object] = json.loads(done.out)
        return found

    for flags, fitting, shares in (
        ((), 1, None),
        (("--policy", "dpack"), 8, None),
        (("--policy", "unlock"), 8, 9),
        (("--policy", "unlock", "--shares", "1"), 1, 1),
    ):
        data = asked(*flags)
        assert data["policy"] == (flags[1] if flags else "fcfs")
        assert (data["fitting"], data["fitting_in_order_of_days"], data["shares"]) == (fitting, 1, shares), flags
    text = dpcli("budget", "plan", url, str(path), "--policy", "unlock", "-o", str(tmp_path / "x.svg"))
    assert "8 of 9 runs fit by unlock, 1 in the order of their days" in text.out and "dpcli budget reserve" in text.out
    assert "8 of 9 by unlock" in (tmp_path / "x.svg").read_text()
    locked = dpcli("budget", "plan", url, str(path), "--policy", "unlock", "--shares", "100", "-f", "jsonl").out
    assert locked.count("the run still waits: 9 of the 100 fair shares of the cap are unlocked") == 9
    wrong = dpcli("budget", "plan", url, str(path), "--policy", "dpack", "--shares", "3")
    assert wrong.code == 2 and "--shares: only with --policy unlock, found --policy dpack" in wrong.err
