"""Lengths that count records: multiples of a symbol for the batch's size, which has a prime that no model has as a stand-in."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

STAND_IN = 1_000_003  # what len() of a batch answers: a number that comes back in a shape is the batch's size


def records(value: Any) -> bool:
    """Whether a length or a number depends on how many records there are."""
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return bool(value.node.expr.free_symbols)
    return isinstance(value, int) and not isinstance(value, bool) and value != 0 and value % STAND_IN == 0


def coefficient(value: Any) -> int | None:
    """c where a length is c times the batch's size; None where it is anything else."""
    if not isinstance(value, torch.SymInt):
        return int(value) // STAND_IN if records(value) and isinstance(value, int) else None
    expression = value.node.expr
    symbols = expression.free_symbols
    if len(symbols) != 1:
        return None
    ratio = expression / next(iter(symbols))
    return int(ratio) if ratio.is_Integer else None


def following(lengths: Sequence[Any], dim: int) -> int | None:
    """How many numbers one step along a dimension passes over; None where that depends on the batch."""
    rest = lengths[dim + 1 :]
    return None if any(records(length) for length in rest) else prod(int(length) for length in rest)
