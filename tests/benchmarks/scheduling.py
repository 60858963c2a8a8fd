"""How many runs each policy of `dpcli budget plan` grants, on workloads of the papers about scheduling.

    python -m tests.benchmarks.scheduling [SEED ...]

* Mice and elephants: the microbenchmark of Luo et al. 2021 (arXiv:2106.15335, section 6.1). Each day is a block with a cap of epsilon 1. Of
  the runs of a day, 75 % cost epsilon .01 and the others .1; independently, 75 % read the last day and the others the last ten. There are
  128 runs a day, as many as the paper's 12.8 in a second where a block is made every ten.
* Like Alibaba: drawn after what Tholoniat et al. 2022 (arXiv:2212.13228, section 6.3) say of the Alibaba-DP workload, without its trace.
  Numbers of blocks and epsilons have heavy tails, and runs are Laplace or Gaussian answers or DP-SGD, whose costs grow differently with the
  Renyi order. The cap is epsilon 10 at delta 1e-7. An rdp ledger adds up one order, which is here the one at which most runs fit on one
  block: what DPack's single-block knapsack looks for. On these runs it is the order that `budget init` chooses.

"unlock" has 100 fair shares, so that a mouse of epsilon .01 never waits. Each number is the mean over the seeds, which are 1, 2 and 3 if
none is stated.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from functools import lru_cache
from statistics import mean
from typing import NamedTuple

from dpcli.file.pipeline.read import parse
from dpcli.ledger.filters.filter import Cost, filter_for_cap
from dpcli.ledger.planning.plan_rehearsal import BudgetPlan, PricedRun, rehearse
from dpcli.ledger.planning.policies import plan_by_policy
from dpcli.ledger.planning.schedule import Schedule, ScheduledRun
from dpcli.ledger.plugin import POLICIES
from dpcli.ledger.state import LedgerState
from tests.ledger.filters.families import opening, terms

FIRST, DAYS = date(2027, 1, 1), 20
EARLIER = 10  # blocks from before the first run, so that the first elephant has some to read
MICE, PER_DAY = 0.75, 128
ALIKE_PER_DAY, MOST_BLOCKS = 100, 20
EPSILON, DELTA = 10.0, 1e-7
ORDERS = (3.0, 3.5, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0)
FILE = """format = 1
[privacy]
unit = "example"
adjacency = "add-remove"
delta = 1e-8
[[mechanism]]
name = "run"
"""
# A run of about this epsilon, by its shape. The noise of DP-SGD is sampling rate * sqrt(2 steps log(1/delta)) / epsilon.
SHAPES: dict[str, Callable[[float], str]] = {
    "laplace": lambda epsilon: f'type = "laplace"\nscale = {1.0 / epsilon!r}\nsensitivity = 1.0\n',
    "gaussian": lambda epsilon: f'type = "gaussian"\nnoise_multiplier = {6.1 / epsilon!r}\n',
    "dp-sgd": lambda epsilon: (
        f'type = "gaussian"\nnoise_multiplier = {max(0.6, 1.92 / epsilon)!r}\nsteps = 1000\n'
        'sampling = { scheme = "poisson", rate = 0.01 }\n'
    ),
}
SIZES = tuple(0.02 * 2.0**power for power in range(9))  # 0.02 to 5.12


class Demand(NamedTuple):
    """A run: the day of its request, how many days it reads up to that day, its shape ("" for a stated epsilon) and its epsilon."""

    day: int
    blocks: int
    shape: str
    epsilon: float


def mice_and_elephants(draw: random.Random) -> list[Demand]:
    """The runs of the microbenchmark, in the order of their requests."""
    return [
        Demand(day, 1 if draw.random() < MICE else 10, "", 0.01 if draw.random() < MICE else 0.1)
        for day in range(DAYS)
        for _ in range(PER_DAY)
    ]


def like_alibaba(draw: random.Random) -> list[Demand]:
    """Runs with heavy tails, in the order of their requests: most read one day and cost little."""
    return [
        Demand(
            day,
            min(int(draw.paretovariate(1.0)), MOST_BLOCKS, EARLIER + day + 1),
            draw.choice(list(SHAPES)),
            SIZES[min(int(draw.paretovariate(0.7)) - 1, len(SIZES) - 1)],
        )
        for day in range(DAYS)
        for _ in range(ALIKE_PER_DAY)
    ]


@lru_cache(None)
def cost(shape: str, epsilon: float, name: str, order: float | None) -> Cost:
    """The cost of a run, as a ledger with this filter computes it."""
    if not shape:
        return Cost({"epsilon": repr(epsilon), "delta": "0"}, "stated")
    found = filter_for_cap(name, EPSILON, DELTA, {} if order is None else {"order": order})
    return found.cost(parse((FILE + SHAPES[shape](epsilon)).encode(), "run.toml"), 1e-8)


def ledger(name: str, order: float | None) -> LedgerState:
    """A new ledger of blocks by day."""
    if name == "approx-dp":
        return opening(terms())
    found = terms("day", 1, name, DELTA, EPSILON)
    return opening(found if order is None else replace(found, parameters={"order": order}))


def first_come(demands: Iterable[Demand], name: str, order: float | None) -> BudgetPlan:
    """The plan of the runs in the order of their requests."""
    priced = []
    for demand in demands:
        day = FIRST + timedelta(EARLIER + demand.day)
        window = tuple((day - timedelta(back)).isoformat() for back in reversed(range(demand.blocks)))
        table = ScheduledRun("run.toml", day)
        pipeline = parse((FILE + SHAPES["laplace"](1.0)).encode(), "run.toml")  # of which a rehearsal reads nothing but the cost
        priced.append(PricedRun(table, pipeline, cost(demand.shape, demand.epsilon, name, order), 0.0, window))
    return rehearse(ledger(name, order), Schedule(tuple(run.scheduled for run in priced)), tuple(priced))


def best_order(demands: Sequence[Demand]) -> float | None:
    """The Renyi order at which most of the runs would fit on one block; None for that of `budget init`.

    All runs count alike, so that the smallest costs fill a block best.
    """

    def fitting(order: float | None) -> int:
        (cap,) = ledger("rdp", order).caps.values()
        costs = sorted(Decimal(cost(one.shape, one.epsilon, "rdp", order).amounts["rdp"]) for one in demands)
        total, count = Decimal(0), 0
        for amount in costs:
            total += amount
            count += total <= cap
        return count

    return max((None, *ORDERS), key=fitting)


def row(words: str, workload: Callable[[random.Random], list[Demand]], name: str, shares: int, seeds: Sequence[int]) -> str:
    """A row of the table: the requested runs, and the granted ones by each policy."""
    granted: dict[str, list[int]] = {policy: [] for policy in POLICIES}
    count, orders = 0, []
    for seed in seeds:
        demands = workload(random.Random(seed))
        order = best_order(demands) if name == "rdp" else None
        plan = first_come(demands, name, order)
        count += len(demands)
        orders += [f"{plan.before.open_terms().the_filter.parameters().get('order', 0.0):g}"]
        for policy in POLICIES:
            granted[policy].append(plan_by_policy(plan, policy, shares if policy == "unlock" else None).fitting)
    at = f", order {' '.join(sorted(set(orders)))}" if name == "rdp" else ""
    means = " | ".join(f"{mean(values):,.0f}" for values in granted.values())
    return f"| {words}, {name}{at} | {count / len(seeds):,.0f} | {means} |"


def main(seeds: Sequence[int]) -> None:
    print(f"seeds {' '.join(map(str, seeds))}\n\n| workload, filter | runs | {' | '.join(POLICIES)} |\n| --- |{' ---: |' * 4}")  # noqa: T201
    print(row("mice and elephants", mice_and_elephants, "approx-dp", 100, seeds), flush=True)  # noqa: T201
    print(row("like Alibaba", like_alibaba, "rdp", 100, seeds), flush=True)  # noqa: T201


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [1, 2, 3])
