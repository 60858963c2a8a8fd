"""The 1,797 handwritten digits that ship with scikit-learn."""

from __future__ import annotations

import gzip
import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcli.base.errors import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray


def images_and_labels(place: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """(n, 8, 8) in [0, 1] and (n,), read out of scikit-learn's folder: importing it takes longer than training on them.

    Raises Unavailable, which begins with `place`, where it is not installed.
    """
    library = find_spec("sklearn")
    if library is None or library.origin is None:
        raise Unavailable(f"{place}: expected scikit-learn for its digits, found none: pip install 'dpcli[train]'")
    rows = _rows(os.path.join(os.path.dirname(library.origin), "datasets", "data", "digits.csv.gz"))
    return rows[:, :-1].reshape(-1, 8, 8) / 16.0, rows[:, -1].astype(np.int64)


def _rows(path: str) -> NDArray[np.float64]:
    """64 pixels from 0 to 16 and the label of each."""
    if os.path.isfile(path):
        with gzip.open(path, "rt", encoding="ascii") as lines:
            return np.array([line.split(",") for line in lines], dtype=np.float64)
    from sklearn.datasets import load_digits  # a version that keeps them elsewhere

    found: Any = load_digits()
    return np.column_stack([found.data, found.target])
