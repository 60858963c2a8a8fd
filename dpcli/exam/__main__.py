"""The command `python -m dpcli.exam NAME ...`, which examines mechanisms, accountants, filters or formats.

Without a name, it prints a table of the examinations that cover each combination of mechanism type, adjacency, sampling and accountant.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator

from dpcli.base.errors import InputError
from dpcli.exam.exam_coverage import LEGEND, table
from dpcli.exam.examine import ExamLine, examine
from dpcli.exam.subjects import SEED


def main(arguments: list[str] | None = None) -> int:
    """Print a line for each question. Return 0 if no fault was found, 1 if a fault was found.

    If a name is unknown, return 2 before anything is examined.
    """
    parser = argparse.ArgumentParser(
        "python -m dpcli.exam", description="Examine registered mechanisms, accountants, filters, formats."
    )
    parser.add_argument("name", nargs="*", help="name of the subject; without a name: a table of the examinations")
    parser.add_argument("--seed", type=int, default=SEED, help="seed of the random choices; fresh by default")
    options = parser.parse_args(arguments)
    if not options.name:
        for line in (*table(), "", *LEGEND):
            print(line, flush=True)  # noqa: T201
    try:
        examinations = [(name, examine(name, options.seed)) for name in options.name]
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 2
    faults = sum(print_examination(f"{name} (seed {options.seed})", lines) for name, lines in examinations)
    return 1 if faults else 0


def print_examination(title: str, lines: Iterator[ExamLine]) -> int:
    """Print a title, a line for each question, and its faults. Return their number."""
    print(title, flush=True)  # noqa: T201
    fault_count = 0
    begun = time.monotonic()
    for line in lines:
        seconds, begun = time.monotonic() - begun, time.monotonic()
        verdict = f"{len(line.faults)} faults" if line.faults else "ok"
        print(f"  {line.question:53} {line.cases:6} cases  {verdict}  ({seconds:.0f} s)", flush=True)  # noqa: T201
        for fault in line.faults:
            print(f"    {fault}", flush=True)  # noqa: T201
        fault_count += len(line.faults)
    return fault_count


if __name__ == "__main__":
    sys.exit(main())
