"""Pipeline files with [pate] whose votes are in a file, and votes by the recipe that the reference values in vectors/pate.json use."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcli.ledger.stores.places import init
from dpcli.ledger.terms import LedgerTerms
from tests.command import ROOT

REFERENCE: dict[str, Any] = json.loads((ROOT / "tests" / "vectors" / "pate.json").read_text())
GRID = np.concatenate((np.arange(2, 101, 0.5), np.logspace(np.log10(100), np.log10(500), 100)))  # orders of the published tables


def votes(count: int, classes: int, teachers: int, agreement: list[float]) -> np.ndarray:
    """Return the votes on each query: a share agreement[i] of the teachers votes for label i, and the rest is spread evenly.

    Counts are rounded by the largest remainders. `agreement` and the labels begin again when they are used up.
    """
    result = np.empty((count, classes), dtype=np.int64)
    for i in range(count):
        agreed = agreement[i % len(agreement)]
        shares = np.full(classes, (1.0 - agreed) / (classes - 1))
        shares[i % classes] = agreed
        complete = np.floor(shares * teachers + 1e-9)
        rest = int(teachers - complete.sum())
        complete[np.argsort(-(shares * teachers - complete), kind="stable")[:rest]] += 1
        result[i] = complete
    return result


FILE = """\
format = 1
name = "votes"

[privacy]
unit = "example"
adjacency = "add-remove"
dataset_size = 25_000
delta = 1e-6
releases = "outputs"

[budget]
epsilon = 8.0

[[mechanism]]
name = "answers"
{entry}

[pate]
teachers = {teachers}
classes = {classes}
{keys}
"""
CONFIDENT = 'type = "confident-gnmax"\nqueries = 60\nthreshold = 200.0\nthreshold_sigma = 150.0\nsigma = 40.0'
GNMAX = 'type = "gnmax"\nsteps = 40\nsigma = 40.0'
LNMAX = 'type = "lnmax"\nsteps = 40\nscale = 20.0'
TEACHERS, CLASSES = 250, 10


def written(folder: Path, entry: str = CONFIDENT, keys: str = 'votes = "votes.npy"', **others: Any) -> Path:
    path = folder / "votes.toml"
    path.write_text(FILE.format(entry=entry, keys=keys, **{"teachers": TEACHERS, "classes": CLASSES, **others}))
    return path


def counts(queries: int = 60) -> np.ndarray:
    return votes(queries, CLASSES, TEACHERS, [0.98, 0.95, 0.9, 0.6])


def saved(folder: Path, table: Any = None) -> Path:
    """Write votes to votes.npy, and return its path."""
    path = folder / "votes.npy"
    np.save(path, counts() if table is None else table)
    return path


def working_folder(folder: Path, monkeypatch: pytest.MonkeyPatch, *modules: str) -> Path:
    """Make a folder the working directory and the first place for imports, and forget modules of these names."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    for module in modules:
        monkeypatch.delitem(sys.modules, module, raising=False)
    return folder


def new_ledger(folder: Path, epsilon: float) -> None:
    """Make ledger.db with the filter zcdp, for the dataset d with users as units."""
    init(str(folder / "ledger.db"), "d", LedgerTerms("user", "add-remove", epsilon, 1e-6, filter="zcdp")).close()
