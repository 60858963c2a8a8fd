"""Classification on arrays: the bundled digits, .npz and .csv files, and the user's own function."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dpcli.errors import InputError
from dpcli.registry import lazy, load
from dpcli.train.settings import Train

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[Any]
else:
    np = lazy("numpy")


@dataclass(frozen=True, slots=True)
class Arrays:
    """Private records, and those that the file declares public (none where `public` is None).

    inputs: (n, ...) float32. labels: (n,) int64. classes: how many labels there are, as declared.
    """

    inputs: Array
    labels: Array
    public_inputs: Array | None
    public_labels: Array | None
    classes: int

    def extended(self, inputs: Array, labels: Array) -> Arrays:
        """With further private records at the end."""
        return replace(self, inputs=np.concatenate([self.inputs, inputs]), labels=np.concatenate([self.labels, labels]))


def arrays(train: Train, path: str) -> Arrays:
    """The data of a [train] table.

    Raises InputError where they cannot be read, hold something that is not finite, or no split was declared public.
    """
    inputs, labels = _loaded(train.data, path)
    if len(inputs) != len(labels) or labels.ndim != 1 or not len(labels):
        raise InputError(f"{path}: train.data: expected as many labels as inputs, found {len(labels)} and {len(inputs)}")
    classes = _classes(train, path)
    if labels.min() < 0 or labels.max() >= classes:
        raise InputError(f"{path}: train.classes: expected labels from 0 to {classes - 1}, found another")
    if train.public is None:
        return Arrays(inputs, labels, None, None, classes)
    if train.public != "held-out":
        public_inputs, public_labels = _loaded(train.public, path)
        return Arrays(inputs, labels, public_inputs, public_labels, classes)
    # Fixed in advance and the same for every run: every k-th record, by its place in the file.
    every = round(1.0 / train.held_out)
    if every < 2:
        raise InputError(f"{path}: train.held_out: expected at most half of the records, found {train.held_out:g}")
    held = np.arange(len(labels)) % every == 0
    return Arrays(inputs[~held], labels[~held], inputs[held], labels[held], classes)


def _classes(train: Train, path: str) -> int:
    """A public number: the model's shape must not depend on which labels the private records have."""
    if train.classes is None and train.data != "digits":
        raise InputError(f"{path}: train.classes: expected the number of labels, declared, found none")
    return train.classes or 10


def _loaded(source: str, path: str) -> tuple[Array, Array]:
    inputs, labels = _read(source, path)
    inputs = np.asarray(inputs, dtype=np.float32)
    if not np.isfinite(inputs).all():
        raise InputError(
            f"{path}: train.data: expected finite inputs, found some that are not: replace them by a declared constant first"
        )
    return inputs, np.asarray(labels, dtype=np.int64)


def _read(source: str, path: str) -> tuple[Array, Array]:
    if source == "digits":
        return _digits(path)
    if source.endswith((".npz", ".csv")):
        place = source if os.path.isabs(source) else os.path.join(os.path.dirname(os.path.abspath(path)), source)
        if not os.path.isfile(place):
            raise InputError(f"{path}: train.data: expected a file, found none at {source}")
        return _npz(place) if source.endswith(".npz") else _csv(place)
    if ":" in source:
        found: tuple[Array, Array] = load(source)()
        return found
    raise InputError(f"{path}: train.data: expected digits, a .npz or .csv file, or package.module:function, found {source!r}")


def _digits(path: str) -> tuple[Array, Array]:
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise InputError(
            f"{path}: train.data: expected scikit-learn for its digits, found none: pip install 'dpcli[train]'"
        ) from None
    found = load_digits()
    return found.images[:, None] / 16.0, found.target


def _npz(place: str) -> tuple[Array, Array]:
    with np.load(place, allow_pickle=False) as found:
        if not {"inputs", "labels"} <= set(found):
            raise InputError(f"{place}: expected arrays named inputs and labels, found {', '.join(found)}")
        return found["inputs"], found["labels"]


def _csv(place: str) -> tuple[Array, Array]:
    """The label in the last column, a header line above."""
    table = np.loadtxt(place, delimiter=",", skiprows=1, ndmin=2)
    return table[:, :-1], table[:, -1]
