"""Votes that stand in a file of reference values by a recipe."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from tests.command import ROOT

REFERENCE: dict[str, Any] = json.loads((ROOT / "tests" / "vectors" / "pate.json").read_text())
GRID = np.concatenate((np.arange(2, 101, 0.5), np.logspace(np.log10(100), np.log10(500), 100)))  # orders of the published tables


def votes(count: int, classes: int, teachers: int, agreement: list[float]) -> np.ndarray:
    """Query i: a share agreement[i] of the teachers for label i, the rest evenly; counts by largest remainders."""
    found = np.empty((count, classes), dtype=np.int64)
    for i in range(count):
        agreed = agreement[i % len(agreement)]
        shares = np.full(classes, (1.0 - agreed) / (classes - 1))
        shares[i % classes] = agreed
        whole = np.floor(shares * teachers + 1e-9)
        rest = int(teachers - whole.sum())
        whole[np.argsort(-(shares * teachers - whole), kind="stable")[:rest]] += 1
        found[i] = whole
    return found
