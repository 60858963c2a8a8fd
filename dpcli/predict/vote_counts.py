"""Tables of votes: the number of votes for each label of each query, and the checks of a table that someone provides.

Teachers, which are models or prompts made from disjoint shards of private data, each vote for one label of each public query.
pate/vote_files.py reads such tables from files; teachers.py and prompt_teachers.py make them. Votes are private: no message quotes a row or
a value. `place` begins the messages: the file and the key, or the file of votes. Counts have their own type, so that a table of labels, one
for each teacher, cannot be mistaken for them and cost too little.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from dpcli.base.errors import InputError
from dpcli.numerics.arrays import Array, np
from dpcli.predict.vote_bounds import Counts

MOST_VALUES = 10**8  # largest number of values in a table of votes, which then takes at most 800 MB; a larger table is refused
LABELS_HINT = 'if each row has the label from each teacher, set vote_rows = "labels"'


@dataclass(frozen=True, slots=True)
class VoteCounts:
    """Private vote counts of shape (n, m): n >= 1 queries and m >= 2 labels. Each row adds up to `teachers`."""

    counts: Counts
    teachers: int

    def __len__(self) -> int:
        return len(self.counts)

    def row(self, query: int) -> VoteCounts:
        """Return the votes on one query."""
        return VoteCounts(self.counts[query : query + 1], self.teachers)

    def digest(self) -> str:
        """Return the SHA-256 of the votes, which is as private as the votes."""
        header = f"{self.teachers} {self.counts.shape}".encode()
        return hashlib.sha256(header + np.ascontiguousarray(self.counts).tobytes()).hexdigest()

    @property
    def largest(self) -> Array:
        """Return the largest count of each query, (n,)."""
        return np.asarray(self.counts.max(axis=1), dtype=float)

    def differences(self, first: int, predictions: Array) -> Array:
        """Return the largest difference between a count and the student's prediction, (k,), for the queries that start at `first`.

        The predictions are (k, m) probabilities of labels. The predicted votes are rounded down. The difference is then a whole number >= 0
        that changes by at most one if one vote changes, which the analysis given the votes requires.
        """
        counts = self.counts[first : first + len(predictions)]
        predicted_counts = np.floor(self.teachers * predictions)
        return np.asarray((counts - predicted_counts).max(axis=1), dtype=float)


def vote_counts(values: Any, teachers: int, classes: int, place: str) -> VoteCounts:
    """Return a table of counts as votes.

    Args:
        values: (n, classes) whole numbers >= 0. Each row adds up to `teachers`.

    Raises InputError if the table is not of this form. The message quotes no row or value, because votes are private.
    """
    table = _table(values, place)
    _refuse_labels(table, teachers, classes, place)
    if table.shape[1] != classes:
        raise InputError(f"{place}: expected {classes} columns, one for each label, found {table.shape[1]}")
    _require_all(np.isfinite(table), "finite counts", "NaN or inf", place)
    _require_all(table >= 0, "counts >= 0", "a negative count", place)
    _require_all(table == np.floor(table), "whole counts", "a fraction", place)
    sums = table.sum(axis=1, dtype=float)
    _require_all(sums == teachers, f"counts that add up to {teachers} teachers", "another sum", place)
    return VoteCounts(table.astype(np.int64), teachers)


def counts_of_labels(values: Any, teachers: int, classes: int, place: str) -> VoteCounts:
    """Return the vote counts of a table of labels: the labels (0, 2, 2) of three teachers are the counts (1, 0, 2) of three classes.

    Args:
        values: (n, teachers) whole numbers from 0 to classes - 1: the label from each teacher for each query.

    Raises InputError, which quotes no row or value, if the table is not of this form.
    """
    table = _table(values, place)
    if table.shape[1] != teachers:
        raise InputError(f"{place}: expected {teachers} columns, one for the label from each teacher, found {table.shape[1]}")
    _require_all(np.isfinite(table) & (table == np.floor(table)), "whole numbers as labels", "another value", place)
    _require_all((table >= 0) & (table < classes), f"labels from 0 to {classes - 1}", "another label", place)
    if len(table) * classes > MOST_VALUES:
        raise InputError(f"{place}: expected at most {MOST_VALUES:,} counts, queries times labels, found {len(table) * classes:,}")
    rows = np.arange(len(table))[:, None] * classes
    counts = np.bincount(np.ravel(rows + table.astype(np.int64)), minlength=len(table) * classes)
    return VoteCounts(counts.reshape(len(table), classes), teachers)


def _table(values: Any, place: str) -> Any:
    """Return the values as a two-dimensional array of numbers that is not empty. Raises InputError if they are none, or too many."""
    table = np.asarray(values)
    if table.dtype.kind not in "iuf":
        raise InputError(f"{place}: expected a table of numbers, found a table of {table.dtype.type.__name__}")
    if table.ndim == 1:
        raise InputError(f"{place}: expected a row of counts for each query, found one number for each query: {LABELS_HINT}")
    if table.ndim != 2:
        raise InputError(f"{place}: expected rows of counts, found an array of {table.ndim} dimensions")
    if not table.size:
        raise InputError(f"{place}: expected votes, found an empty table")
    if table.size > MOST_VALUES:
        raise InputError(f"{place}: expected at most {MOST_VALUES:,} numbers, found {table.size:,}")
    return table


def _refuse_labels(table: Any, teachers: int, classes: int, place: str) -> None:
    """Raise InputError for a table of labels, one in a row or one from each teacher. Read as counts, they would cost too little."""
    if table.shape[1] == 1:
        raise InputError(f"{place}: expected {classes} columns, one for each label, found one column: {LABELS_HINT}")
    are_labels = ((table >= 0) & (table < classes) & (table == np.floor(table))).all()
    # If every row adds up to the number of teachers, the table may be of counts, and is not refused here.
    if table.shape[1] == teachers and are_labels and (table.sum(axis=1, dtype=float) != teachers).any():
        raise InputError(f"{place}: expected {classes} columns, one for each label, found labels: {LABELS_HINT}")


def _require_all(holds: Any, expected: str, wrong: str, place: str) -> None:
    """Raise InputError if a condition fails in some row. The message names no row."""
    if not holds.all():
        raise InputError(f"{place}: expected {expected}, found {wrong} in some row (the row is private)")
