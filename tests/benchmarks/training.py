"""Time and memory of a private step over those of a step without privacy, ours and Opacus' (1.6), measured side by side.

    python -m tests.benchmarks.training [--device cuda] [--half] [--rounds 15] [--keep-memory] [--steps] [--peer-python PYTHON] [case ...]

Each way of training a case has a process of its own, on one thread. They take turns, of at least 0.4 s and two steps, ours of at least
eight steps; a ratio is of one turn to the same round's turn of SGD, and what is reported is the median of the ratios with their quartiles.
Ours are steps after the first 32 of a run: in each of those one example is taken alone, which costs up to a quarter more, and later in one
of eight. Ours keep what a step frees for the next, as in all training with dpcli; the others' processes leave this to the C library, and
with --keep-memory all keep it. Memory is what the process's second step reaches at most, above what the first one left: model, data and
gradients. An epoch is 10,000 records, with everybody's own sampling and loading.

Aims, not all of them met: a step takes at most 1.3 times SGD's (1.5 times for a recurrent layer), 150 microseconds and the noise, which is
also timed alone; it is not slower than Opacus' faster mode; its memory is at most 1.3 times SGD's. The last line of a case compares. An
epoch of the MLP is at least 20 times as fast as Opacus' default.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.benchmarks.training_worker import Worker

TURN = 0.4  # seconds that a turn takes at least
LEAST_STEPS = 2  # of a turn
OUR_LEAST_STEPS = 8  # of a turn of ours: in one of as many, we take an example alone
PATIENCE = 120.0  # seconds that a case takes at most, beyond three rounds
STEPS = ("sgd", "dpcli", "noise", "opacus hooks", "opacus ghost")
RECURRENT, OTHERS, FIXED = 1.5, 1.3, 150e-6  # of the aim: factors of SGD's step, and the fixed cost in seconds
EPOCHS = ("dpcli", "opacus hooks", "opacus ghost")


@dataclass(slots=True)
class Column:
    """One way's turns. failure: why it has none."""

    name: str
    failure: str
    peak: float
    first: float
    turns: list[float] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Steps of a turn."""
        return max(OUR_LEAST_STEPS if self.name == "dpcli" else LEAST_STEPS, math.ceil(TURN / self.first))

    def ratios(self, base: Column) -> list[float]:
        """Of each turn to the base's in the same round."""
        return [own / other for own, other in zip(self.turns, base.turns, strict=True)]


def peak(case: str, way: str, device: str, half: bool, python: str) -> float:
    """MB, where the C library keeps no memory, which would be counted again."""
    worker = Worker(case, way, device, half, python)
    worker.close()
    return worker.peak


def measured(
    case: str, ways: Sequence[str], form: str, device: str, half: bool, rounds: int, keep: bool, peer_python: str
) -> list[Column]:
    """Every way's turns on one case; the first way is the yardstick."""
    calls = [(case, f"{form}: {way}", device, half, peer_python if "opacus" in way else sys.executable) for way in ways]
    peaks = [peak(*call) for call in calls] if keep else []
    workers = [Worker(*call, keep) for call in calls]
    try:
        peaks = peaks or [worker.peak for worker in workers]
        columns = [Column(way, worker.failure, top, worker.seconds) for way, worker, top in zip(ways, workers, peaks, strict=True)]
        able = [(column, worker) for column, worker in zip(columns, workers, strict=True) if not column.failure]
        if columns[0].failure:
            return columns
        each = sum(column.first * column.count for column, _ in able)
        for turn in range(max(3, min(rounds, int(PATIENCE / each)))):
            for column, worker in able if turn % 2 else reversed(able):
                column.turns.append(worker.steps(column.count))
        return columns
    finally:
        for worker in workers:
            worker.close()


def table(case: str, form: str, columns: Sequence[Column]) -> str:
    """One line per way."""
    return "\n".join(line(case, form, column, columns[0]) for column in columns)


def line(case: str, form: str, column: Column, base: Column) -> str:
    head = f"{case:16} {form:5} {column.name:13}"
    if column.failure:
        return f"{head} refused or failed: {column.failure}"
    low, middle, high = statistics.quantiles(column.ratios(base), n=4)
    seconds = statistics.median(column.turns)
    memory = f"{column.peak:8.0f} MB {column.peak / base.peak:6.2f}"
    return f"{head} {1e3 * seconds:10.2f} ms {middle:7.2f} ({low:.2f} to {high:.2f}) {memory}"


def aim(case: str, columns: Sequence[Column]) -> str:
    """Our step and its memory beside what was aimed at, and beside the faster peer."""
    medians = {column.name: statistics.median(column.turns) for column in columns if column.turns}
    if not {"sgd", "dpcli", "noise"} <= medians.keys():
        return f"{case:16} aim   not compared"
    factor = RECURRENT if case in ("lstm", "gru") else OTHERS
    most = factor * medians["sgd"] + FIXED + medians["noise"]
    peers = [seconds for name, seconds in medians.items() if "opacus" in name]
    peer = f", the faster peer's {1e3 * min(peers):.2f} ms" if peers else ""
    is_met = medians["dpcli"] <= min([most, *peers])
    sgd, ours = columns[0], columns[1]
    memory = "within" if ours.peak <= OTHERS * sgd.peak else "beyond"
    return (
        f"{case:16} aim   {'met' if is_met else 'missed'}: {1e3 * medians['dpcli']:.2f} ms, at most {1e3 * most:.2f} ms{peer}; "
        f"memory {memory} {OTHERS} times"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--half", action="store_true", help="forward and backward in bfloat16, by autocast")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--keep-memory", action="store_true", help="the C library keeps what is freed: kind to whom allocates much")
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter that has Opacus, where this one has not")
    parser.add_argument("--steps", action="store_true", help="no epochs")
    chosen = parser.parse_args()
    from tests.benchmarks.training_cases import CASES

    print(f"{'case':16} {'':5} {'way':13} {'median':>13} {'over the first (quartiles)':>28} {'memory, over the first':>24}")  # noqa: T201
    for name in chosen.cases or CASES:
        forms = {"step": STEPS} | ({"epoch": EPOCHS} if name == "mlp" and not chosen.steps else {})
        for form, ways in forms.items():
            columns = measured(name, ways, form, chosen.device, chosen.half, chosen.rounds, chosen.keep_memory, chosen.peer_python)
            print(table(name, form, columns), flush=True)  # noqa: T201
            if form == "step":
                print(aim(name, columns), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
