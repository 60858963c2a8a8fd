"""CPU time of the cost of 100,000 queries to 250 teachers, beside the published analysis and the same algorithm query by query.

    python -m tests.benchmarks.pate [FOLDER]

FOLDER: research/pate_2018 of a checkout of tensorflow/privacy, which is run as it stands (on fewer queries, and scaled up).
"""

from __future__ import annotations

import math
import sys
import time
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from dpcli.numerics.closed.conversion import classic
from dpcli.predict.aggregators import ConfidentGnMax
from tests.predict.samples import GRID

QUERIES, CLASSES, TEACHERS, PART = 100_000, 10, 250, 2_000
THRESHOLD, THRESHOLD_SIGMA, SIGMA, DELTA = 200.0, 150.0, 40.0, 1e-8
Counts = Any


def main(folder: str | None) -> None:
    counts = drawn()
    ours, epsilon = timed(lambda: vectorised(counts))
    print(f"dpcli: {ours:.3f} s of CPU for {QUERIES:,} queries and {len(GRID)} orders, epsilon {epsilon:.6f}")  # noqa: T201
    others = {"query by query, in Python": one_by_one}
    if folder is not None:
        others["the published analysis"] = published(folder)
    for name, other in others.items():
        taken, found = timed(lambda other=other: other(counts[:PART]))
        same = vectorised(counts[:PART])
        taken *= QUERIES / PART
        ratio = f"{taken:.2f} s (from {PART:,} queries), {taken / ours:.0f} times ours"
        print(f"{name}: {ratio}; epsilon of these {found:.9f}, ours {same:.9f}")  # noqa: T201


def drawn() -> Counts:
    """Agreement of 98, 95, 90 and 60 % on one label."""
    random = np.random.default_rng(0)
    agreed = np.array([0.98, 0.95, 0.9, 0.6])[np.arange(QUERIES) % 4]
    shares = np.repeat(((1.0 - agreed) / (CLASSES - 1))[:, None], CLASSES, axis=1)
    shares[np.arange(QUERIES), np.arange(QUERIES) % CLASSES] = agreed
    return random.multinomial(TEACHERS, shares)


def timed(work: Callable[[], float]) -> tuple[float, float]:
    """The least CPU time of three, and the result."""
    times = []
    for _ in range(3):
        start = time.process_time()
        found = work()
        times.append(time.process_time() - start)
    return min(times), found


def vectorised(counts: Counts) -> float:
    costs = ConfidentGnMax(SIGMA, THRESHOLD, THRESHOLD_SIGMA).expected(counts, counts.max(axis=1))
    return float(classic(GRID, costs.rdp(GRID), math.log(DELTA)).min())


def one_by_one(counts: Counts) -> float:
    """The theorem for one query after the other, over an array of orders."""
    total = np.zeros(len(GRID))
    for row in counts.tolist():
        largest = max(row)
        tails = [0.5 * math.erfc((largest - count) / (2.0 * SIGMA)) for count in sorted(row)[:-1]]
        answered = 0.5 * math.erfc((THRESHOLD - largest) / (math.sqrt(2.0) * THRESHOLD_SIGMA))
        q = min(answered, 1.0 - answered)
        total += theorem(math.log(q), math.sqrt(2.0) * THRESHOLD_SIGMA)
        total += answered * theorem(min(math.log(math.fsum(tails)), math.log(1.0 - 1.0 / len(row))), SIGMA)
    return float((total - math.log(DELTA) / (GRID - 1.0)).min())


def theorem(log_q: float, sigma: float) -> Any:
    """Papernot et al. 2018, arXiv:1802.08908, Theorem 6 with Proposition 10."""
    found = GRID / sigma**2
    mu2 = sigma * math.sqrt(-log_q)
    mu1, e2 = mu2 + 1.0, mu2 / sigma**2
    if mu2 <= 1.0 or -log_q <= e2 or log_q > (mu2 - 1.0) * e2 - mu2 * (math.log(mu1 / mu2) + math.log(mu2 / (mu2 - 1.0))):
        return found
    q = math.exp(log_q)
    log_a = math.log1p(-q) - math.log1p(-math.exp((log_q + e2) * (1.0 - 1.0 / mu2)))
    log_b = mu1 / sigma**2 - log_q / mu2
    moment = np.logaddexp(math.log1p(-q) + (GRID - 1.0) * log_a, log_q + (GRID - 1.0) * log_b) / (GRID - 1.0)
    return np.where(mu1 >= GRID, np.minimum(found, moment), found)


def published(folder: str) -> Callable[[Counts], float]:
    """Its functions, called as its own script for tables does."""
    sys.modules.setdefault("absl", types.ModuleType("absl")).app = types.SimpleNamespace(run=None)  # type: ignore[attr-defined]
    sys.path.insert(0, folder)
    import core  # type: ignore[import-not-found]

    def run(counts: Counts) -> float:
        total = np.zeros(len(GRID))
        for row in counts:
            answered = core.compute_logpr_answered(THRESHOLD, THRESHOLD_SIGMA, row)
            total += core.compute_rdp_threshold(answered, THRESHOLD_SIGMA, GRID)
            total += np.exp(answered) * core.rdp_gaussian(core.compute_logq_gaussian(row, SIGMA), SIGMA, GRID)
        return float(core.compute_eps_from_delta(GRID, total, DELTA)[0])

    return run


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
