"""Mechanisms that a pipeline file allows and that are known to cost much: what they cost is a lower bound on any epsilon for the file.

The keys of a file may allow many mechanisms. dpcli's upper bounds then hold for a *dominating pair*, two output distributions at least as
easy to tell apart as those of any allowed mechanism on any neighbouring datasets, and perhaps no allowed mechanism has exactly this pair
(*attains* it). A *witness* is an allowed mechanism that attains a dominating pair of its own (`Mechanism.witness`). A lower bound for
witnesses is true for the file whichever witnesses are chosen, so the search here only looks for costly ones. inquiry.py takes the largest
of their lower bounds, which shows how far the upper bound may be from the truth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from dpcli.accountants.base import Steps
from dpcli.analysis.account_rows import Quantity
from dpcli.numerics.arrays import Array, np

# Renyi orders among which the informative one is chosen, from 1.016 to 55,000, and the shares of (informative order - 1) that are tried one
# after the other. Both touch only how large the lower bound becomes: the steps of any order are valid.
ORDERS: Array = 1.0 + 2.0 ** np.arange(-6.0, 16.0, 0.25)
ORDER_SHARES = (1.0, 0.3, 0.1, 0.03, 0.003)
LEAST_DELTA = 1e-300  # a smaller delta is taken for this one, so that its logarithm is finite


def witnesses(steps: Steps, quantity: Quantity, at: float) -> Iterator[Steps]:
    """Yield costly steps that the file allows and that attain their dominating pairs; none if a mechanism has no witness.

    The mechanisms have the largest Renyi divergence at the order that gives the tightest conversion, and then at smaller orders, which give
    better bounds for few steps.

    quantity, at: the quantity to bound, and the value of the other one of epsilon and delta.
    """
    informative_order = _informative_order(steps, quantity, at)
    tried: set[Steps] = set()
    for share in ORDER_SHARES:
        order = 1.0 + share * (informative_order - 1.0)
        candidates = tuple((mechanism.witness(order), count) for mechanism, count in steps)
        witnessing_steps = tuple((witness, count) for witness, count in candidates if witness is not None)
        if len(witnessing_steps) == len(steps) and witnessing_steps not in tried:
            tried.add(witnessing_steps)
            yield witnessing_steps


def _informative_order(steps: Steps, quantity: Quantity, at: float) -> float:
    """Return the Renyi order that converts to the smallest epsilon at the given delta, or to the smallest delta at the given epsilon.

    The conversion is epsilon = rdp + log(1 / delta) / (order - 1) (Mironov 2017, arXiv:1702.07476, Proposition 3).
    """
    z = ORDERS - 1.0
    rdp = np.zeros(len(ORDERS))
    with np.errstate(all="ignore"):
        for mechanism, count in steps:
            # A probability of revealing everything, which a stated delta is, would make every divergence infinite.
            _, without_failure = mechanism.split_failure()
            rdp += count * np.asarray(without_failure.rdp(ORDERS))
        if quantity == "epsilon":
            bounds = rdp - math.log(max(at, LEAST_DELTA)) / z
        else:
            bounds = z * (rdp - at)
    best = int(np.argmin(np.where(np.isfinite(bounds), bounds, np.inf)))
    return float(ORDERS[best])
