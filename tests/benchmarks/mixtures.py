"""CPU time and epsilon of mixtures of Gaussians: sampled Gaussian noise, groups of records, and drawn contributions.

    python -m tests.benchmarks.mixtures [--only WORD] [--csv FILE]          # measures, and writes what it found
    python -m tests.benchmarks.mixtures --against BEFORE --csv FILE         # and the ratios to what another version of dpcli wrote

Each is asked as a command would ask: with nothing remembered. The time is the least of several.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from dpcli.accountants.base import Accountant
from dpcli.base.errors import NotRepresentable
from dpcli.base.registry import ACCOUNTANTS
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.noise.gaussian_mixture import GaussianMixtureSpec
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.numerics.work import limited

ASKED = ("exact", "pld", "rdp", "rdp-optimal")
COLUMNS = ("case", "accountant", "seconds", "upper", "lower")
DELTA = 1e-6
MOST, LONG = 25, 0.25  # measurements, and the seconds after which there are enough

# (sampling rate, noise multiplier, steps)
SINGLE = (
    (1e-6, 0.3, 10**6), (1e-6, 1.0, 100), (1e-6, 1.0, 10**6), (1e-5, 0.6, 10**4), (1e-4, 0.5, 10**4), (1e-4, 0.8, 10**6),
    (1e-4, 4.0, 10**6), (1e-3, 1.0, 10**4), (1e-3, 20.0, 10**6), (256 / 60000, 1.1, 14040), (0.01, 0.3, 100), (0.01, 0.5, 10**4),
    (0.01, 1.0, 1), (0.01, 4.0, 10**4), (0.01, 20.0, 10**6), (0.1, 1.0, 10), (0.1, 3.0, 2500), (0.3, 0.5, 100), (0.3, 4.0, 100),
    (0.3, 20.0, 10**4), (0.5, 1.0, 1), (0.9, 0.3, 1), (0.9, 1.0, 100), (0.9, 20.0, 10**4),
)  # fmt: skip
# and the records that change together
GROUPS = (
    (1e-6, 2.0, 10**6, 3), (1e-4, 4.0, 10**4, 2), (1e-4, 4.0, 10**4, 64), (0.01, 4.0, 10**4, 3), (0.01, 4.0, 10**4, 12),
    (0.1, 10.0, 1, 4), (0.3, 20.0, 100, 5), (0.9, 20.0, 100, 5),
)  # fmt: skip
DRAWN = (((0.0, 1.0), (0.5, 0.5)), ((1.0, 2.0), (0.7, 0.3)), ((0.1, 0.5, 1.0), (0.2, 0.5, 0.3)))


def cases() -> Iterator[tuple[str, Mechanism, int]]:
    """Name, mechanism and steps."""
    for adjacency in (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE):
        for rate, noise, steps, *group in (*SINGLE, *GROUPS):
            records = int(group[0]) if group else 1
            mechanism = GaussianSpec(noise_multiplier=noise).poisson(rate, Neighbours(adjacency, records))
            yield f"{adjacency.value} q={rate:.4g} sigma={noise:g} steps={steps:g} records={records}", mechanism, int(steps)
        for sensitivities, probabilities in DRAWN:
            for rate, noise, steps in ((1.0, 20.0, 100), (0.01, 2.0, 1000), (1e-4, 1.0, 10)):
                spec = GaussianMixtureSpec(sensitivities=sensitivities, probabilities=probabilities, sigma=noise)
                name = f"{adjacency.value} q={rate:g} sigma={noise:g} steps={steps} drawn={len(sensitivities)}/{sensitivities[0]:g}"
                yield name, spec.poisson(rate, Neighbours(adjacency)), steps


def measured(accountant: Accountant, mechanism: Mechanism, steps: int) -> tuple[float, float, float | None]:
    """(seconds, upper, lower); inf where it refuses."""

    @limited
    def ask() -> tuple[float, float | None]:
        try:
            with accountant.within_allowance():
                bound = accountant.compose(((mechanism, steps),)).epsilon(DELTA)
        except NotRepresentable:
            return math.inf, None
        return bound.upper, bound.lower

    times: list[float] = []
    while len(times) < MOST and sum(times) < LONG:
        start = time.process_time()
        upper, lower = ask()
        times.append(time.process_time() - start)
    return min(times), upper, lower


def compared(rows: list[dict[str, str]], before: dict[str, dict[str, str]], write: Callable[[str], object]) -> None:
    """Ratios after / before, by accountant, and each epsilon that moved by more than 1e-12."""
    for name in ASKED:
        pairs = [(row, before[row["case"]]) for row in rows if row["accountant"] == name and row["case"] in before]
        if pairs:
            ratios = [float(new["seconds"]) / float(old["seconds"]) for new, old in pairs]
            total = sum(float(new["seconds"]) for new, _ in pairs) / sum(float(old["seconds"]) for _, old in pairs)
            worst = pairs[ratios.index(max(ratios))][0]["case"]
            write(f"{name:12} time: median {statistics.median(ratios):.2f}, total {total:.2f}, worst {max(ratios):.2f} ({worst})\n")
    for row in rows:
        old = before.get(row["case"])
        if old is not None:
            new_upper, old_upper = float(row["upper"]), float(old["upper"])
            if new_upper != old_upper and not abs(new_upper - old_upper) <= 1e-12 * old_upper:
                write(f"{row['case']}: epsilon {old_upper!r} -> {new_upper!r} ({new_upper / old_upper - 1.0:+.2g})\n")


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases and accountants whose name holds it")
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--against", type=Path)
    chosen = parser.parse_args(words)
    rows: list[dict[str, str]] = []
    for case, mechanism, steps in cases():
        for name in ASKED:
            if chosen.only in f"{name}: {case}":
                module, attribute = ACCOUNTANTS[name].split(":")
                seconds, upper, lower = measured(getattr(importlib.import_module(module), attribute), mechanism, steps)
                rows.append(
                    {
                        "case": f"{name}: {case}",
                        "accountant": name,
                        "seconds": f"{seconds:.6f}",
                        "upper": repr(upper),
                        "lower": repr(lower),
                    }
                )
                sys.stdout.write(f"{name + ': ' + case:70} {1e3 * seconds:9.2f} ms {upper!r} {lower!r}\n")
                sys.stdout.flush()
    if chosen.csv is not None:
        with chosen.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
    if chosen.against is not None:
        with chosen.against.open(newline="") as file:
            compared(rows, {row["case"]: row for row in csv.DictReader(file)}, sys.stdout.write)


if __name__ == "__main__":
    main(sys.argv[1:])
