"""Show where the time of the tests goes: sum the durations of `pytest -vv --durations=0` by function and by folder.

    python -m pytest -n 2 -vv --durations=0 > log; python -m tests.benchmarks.durations log [other log] [--most 40]

Seconds are wall clock of each test with its set-up and tear-down, added up over all workers. With two logs, of the suite before and
after a change, each function has both figures.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

LINE = re.compile(r"^(\d+\.\d+)s (?:call|setup|teardown) +(tests/\S+?\.py)::(\w+)")


def durations(text: str) -> Counter[tuple[str, str]]:
    """Return the seconds of each (file, function) in the output of pytest."""
    result: Counter[tuple[str, str]] = Counter()
    for seconds, file, function in (match.groups() for line in text.splitlines() if (match := LINE.match(line))):
        result[file, function] += float(seconds)  # type: ignore[assignment]
    return result


def table(logs: Sequence[Counter[tuple[str, str]]], name: Callable[[tuple[str, str]], str], most: int) -> list[str]:
    """Return lines with the seconds of each log under each name, the dearest first, and their sums last."""
    sums = [Counter[str]() for _ in logs]
    for log, total in zip(logs, sums, strict=True):
        for key, seconds in log.items():
            total[name(key)] += seconds
    names = sorted(set().union(*sums), key=lambda one: (-max(total[one] for total in sums), one))
    lines = ["".join(f"{total[one]:10.1f}" for total in sums) + f"  {one}" for one in names[:most]]
    return [*lines, "".join(f"{sum(total.values()):10.1f}" for total in sums) + "  all"]


def main(arguments: Sequence[str]) -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.durations", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOG")
    parser.add_argument("--most", type=int, default=40, help="how many functions (default 40)")
    options = parser.parse_args(arguments)
    logs = [durations(path.read_text("utf-8", errors="replace")) for path in options.logs]
    print("seconds by folder", *table(logs, lambda key: key[0].rpartition("/")[0], 1000), sep="\n")  # noqa: T201
    print("\nseconds by function", *table(logs, "::".join, options.most), sep="\n")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
