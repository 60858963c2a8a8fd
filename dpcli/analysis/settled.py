"""Which accountants need not be asked: where an interval is narrow the headline is known, and the other rows only illustrate it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from dpcli.accountants.base import Accountant, Bound

SETTLED = 1e-9  # relative width of an interval below which no other accountant has anything to add
BESIDE = 4e5  # cells (some 20 ms) for all other rows together, or what the interval itself takes where that is more


def settles(bound: Bound | None) -> bool:
    """Whether a bound on what is attained is certified from both sides, closely enough to be the headline whatever others say."""
    if bound is None or bound.lower is None or not math.isfinite(bound.upper):
        return False
    return bound.upper - bound.lower <= SETTLED * bound.upper


def beside(settling: Accountant, others: Sequence[Accountant], parts: int) -> Iterator[Accountant]:
    """Those that are asked all the same, cheapest first: by the work that they state for so many mechanisms, so that every machine asks the
    same ones."""
    left = max(BESIDE, settling.cells(parts))
    for other in sorted(others, key=lambda each: each.cells(parts)):
        left -= other.cells(parts)
        if left < 0.0:
            return
        yield other


def not_asked(settling: Accountant) -> str:
    """The reason of a row that was left out."""
    return f"not run: {settling.name} is certified to within 1e-9 (run with -a all)"
