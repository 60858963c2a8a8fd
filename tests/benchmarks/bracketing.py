"""Brute force beside the bounds, mechanism x adjacency x sampling: python -m tests.benchmarks.bracketing [TYPE ...]

delta at an epsilon: the certified lower bound where one is claimed, the worst release that enumeration found, the upper bound, and the
upper bound over the enumeration.
"""

from __future__ import annotations

import sys

from dpcli.base.registry import MECHANISMS
from dpcli.exam.enumeration.bracket import BracketRow, row, situations

WIDTH = 118


def lines(row: BracketRow) -> list[str]:
    """One line for each epsilon."""
    if row.refused is not None:
        return [f"{row.label[:WIDTH]:{WIDTH}}  refused"]
    return [
        f"{row.label[:WIDTH]:{WIDTH}} {b.epsilon:8.4f} {'-' if b.lower is None else f'{b.lower:.6f}':>10} {b.exact:10.6f} {b.upper:10.6f}"
        f" {b.upper / b.exact if b.exact > 0.0 else float('inf'):8.3f}{'' if b.holds(row.reference.loss) else '  FALSE'}"
        for b in row.brackets
    ]


def main() -> None:
    print(f"{'':{WIDTH}}  epsilon      lower      exact      upper    ratio")  # noqa: T201
    held, claimed, refused, false = 0, 0, 0, 0
    for name in sys.argv[1:] or MECHANISMS:
        for compared in (row(*situated) for situated in situations(name, every=True)):
            print("\n".join(lines(compared)), flush=True)  # noqa: T201
            refused += compared.refused is not None
            held += len(compared.brackets) - len(compared.faults())
            claimed += sum(bracket.lower is not None for bracket in compared.brackets)
            false += len(compared.faults())
    print(f"{held} intervals hold, {claimed} of them with a lower bound; {false} are false; {refused} files are refused")  # noqa: T201


if __name__ == "__main__":
    main()
