"""What a file's keys allow at the least: the loss of mechanisms that they allow, where no pair of all of them is attained."""

from __future__ import annotations

import math
from collections.abc import Iterator

from dpcli.accountants.base import Steps
from dpcli.numerics.arrays import Array, np

SHARES = (1.0, 0.3, 0.1, 0.03, 0.003)  # of order - 1, in which orders are tried
ORDERS: Array = 1.0 + 2.0 ** np.arange(-6.0, 16.0, 0.25)


def witnesses(steps: Steps, delta: float | None, epsilon: float | None) -> Iterator[Steps]:
    """Mechanisms that the keys allow, each with an attained pair, that lose much at this delta or epsilon; nothing where one has none.

    Any would do: the order at which the sum of the Renyi curves says most chooses among them, then smaller ones, as orders say less where
    there are few steps.
    """
    z = _order(steps, delta, epsilon) - 1.0
    tried: set[Steps] = set()
    for share in SHARES:
        found = tuple((mechanism.witness(1.0 + share * z), count) for mechanism, count in steps)
        known = tuple((witness, count) for witness, count in found if witness is not None)
        if len(known) == len(steps) and known not in tried:
            tried.add(known)
            yield known


def _order(steps: Steps, delta: float | None, epsilon: float | None) -> float:
    with np.errstate(all="ignore"):
        total = sum((count * np.asarray(mechanism.rdp(ORDERS)) for mechanism, count in steps), np.zeros(len(ORDERS)))
        z = ORDERS - 1.0
        says = total - math.log(max(delta, 1e-300)) / z if delta is not None else z * (total - (epsilon or 0.0))
    return float(ORDERS[int(np.argmin(np.where(np.isfinite(says), says, np.inf)))])
