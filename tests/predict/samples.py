"""A file whose votes stand beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.predict.recipes import votes

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
    """The votes as votes.npy."""
    path = folder / "votes.npy"
    np.save(path, counts() if table is None else table)
    return path
