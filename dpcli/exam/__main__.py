"""Examine mechanisms, accountants, filters or formats by name: python -m dpcli.exam NAME ...; without names, what is examined by what."""

from __future__ import annotations

import argparse
import sys
import time

from dpcli.base.errors import InputError
from dpcli.exam.examine import examine
from dpcli.exam.examined import LEGEND, table
from dpcli.exam.subjects import SEED


def main(arguments: list[str] | None = None) -> int:
    """Print a line for each question; return 0 if no fault was found, 1 if one was, 2 if a name is unknown."""
    parser = argparse.ArgumentParser(
        "python -m dpcli.exam", description="Examine registered mechanisms, accountants, filters, formats."
    )
    parser.add_argument("name", nargs="*", help="what to examine; without a name: a table of what is examined by what")
    parser.add_argument("--seed", type=int, default=SEED, help="of what is drawn at random; fresh by default")
    given = parser.parse_args(arguments)
    faults = 0
    for line in () if given.name else (*table(), "", *LEGEND):
        print(line, flush=True)  # noqa: T201
    for name in given.name:
        print(f"{name} (seed {given.seed})", flush=True)  # noqa: T201
        begun = time.monotonic()
        try:
            for answered in examine(name, given.seed):
                seconds, begun = time.monotonic() - begun, time.monotonic()
                verdict = "ok" if not answered.faults else f"{len(answered.faults)} faults"
                print(f"  {answered.question:42} {answered.cases:6} cases  {verdict}  ({seconds:.0f} s)", flush=True)  # noqa: T201
                faults += len(answered.faults)
                for fault in answered.faults:
                    print(f"    {fault}", flush=True)  # noqa: T201
        except InputError as error:
            print(f"error: {error}", file=sys.stderr)  # noqa: T201
            return 2
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
