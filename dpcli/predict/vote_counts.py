"""Vote counts for each label of each query. They have a type of their own, so that labels cannot be mistaken for counts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from dpcli.base.errors import InputError
from dpcli.numerics.arrays import Array, np
from dpcli.predict.vote_bounds import Counts

MOST = 10**8  # largest number of values in a table of votes
SAY = 'say vote_rows = "labels" where each row holds the label that every teacher gave'


@dataclass(frozen=True, slots=True)
class VoteCounts:
    """Private vote counts of shape (n, m): n >= 1 queries and m >= 2 labels. Each row adds up to `teachers`."""

    counts: Counts
    teachers: int

    def __len__(self) -> int:
        return len(self.counts)

    def row(self, place: int) -> VoteCounts:
        """Return the votes on one query."""
        return VoteCounts(self.counts[place : place + 1], self.teachers)

    def digest(self) -> str:
        """Return the SHA-256 of the votes, which is as private as the votes."""
        return hashlib.sha256(
            f"{self.teachers} {self.counts.shape}".encode() + np.ascontiguousarray(self.counts).tobytes()
        ).hexdigest()

    @property
    def largest(self) -> Array:
        """Return the largest count of each query, (n,)."""
        return np.asarray(self.counts.max(axis=1), dtype=float)

    def beyond(self, first: int, predictions: Array) -> Array:
        """Return the largest difference between a count and the student's prediction, (k,), for the queries from `first` on.

        The predicted votes are rounded down. The difference is then a whole number >= 0 that changes by at most one if one vote changes, as
        the analysis given the votes requires.

        Args:
            predictions: (k, m) predicted probabilities of labels.
        """
        return np.asarray(
            (self.counts[first : first + len(predictions)] - np.floor(self.teachers * predictions)).max(axis=1), dtype=float
        )


def vote_counts(values: Any, teachers: int, classes: int, place: str) -> VoteCounts:
    """Return an array of counts as votes. Raises InputError for any other array. The error quotes no row or value, as votes are private."""
    table = _table(values, place)
    _refuse_labels(table, teachers, classes, place)
    if table.shape[1] != classes:
        raise InputError(f"{place}: expected {classes} columns, one for each label, found {table.shape[1]}")
    _require_all(np.isfinite(table), "finite counts", "one that is not a number", place)
    _require_all(table >= 0, "counts >= 0", "a negative one", place)
    _require_all(table == np.floor(table), "whole counts", "a fraction", place)
    sums = table.sum(axis=1, dtype=float)
    _require_all(sums == teachers, f"counts that add up to {teachers} teachers", "another sum", place)
    return VoteCounts(table.astype(np.int64), teachers)


def counts_of_labels(values: Any, teachers: int, classes: int, place: str) -> VoteCounts:
    """Return the vote counts of labels, (n, teachers) from 0 to classes - 1. Raises InputError as `vote_counts` does."""
    table = _table(values, place)
    if table.shape[1] != teachers:
        raise InputError(f"{place}: expected {teachers} columns, the label that each teacher gave, found {table.shape[1]}")
    _require_all(np.isfinite(table) & (table == np.floor(table)), "whole numbers as labels", "something else", place)
    _require_all((table >= 0) & (table < classes), f"labels from 0 to {classes - 1}", "another", place)
    if len(table) * classes > MOST:
        raise InputError(f"{place}: expected at most {MOST:,} counts, queries times labels, found {len(table) * classes:,}")
    rows = np.arange(len(table))[:, None] * classes
    counts = np.bincount(np.ravel(rows + table.astype(np.int64)), minlength=len(table) * classes)
    return VoteCounts(counts.reshape(len(table), classes), teachers)


def _table(values: Any, place: str) -> Any:
    table = np.asarray(values)
    if table.dtype.kind not in "iuf":
        raise InputError(f"{place}: expected a table of numbers, found one of {table.dtype.type.__name__}")
    if table.ndim == 1:
        raise InputError(
            f"{place}: expected a row of counts for each query, found one number for each, as where these are labels: {SAY}"
        )
    if table.ndim != 2:
        raise InputError(f"{place}: expected rows of counts, found an array of {table.ndim} dimensions")
    if not table.size:
        raise InputError(f"{place}: expected votes, found an empty table")
    if table.size > MOST:
        raise InputError(f"{place}: expected at most {MOST:,} numbers, found {table.size:,}")
    return table


def _refuse_labels(table: Any, teachers: int, classes: int, place: str) -> None:
    """Raise InputError for a table of labels, with one label in a row or one for each teacher. As counts, they would cost too little."""
    if table.shape[1] == 1:
        raise InputError(f"{place}: expected {classes} columns, one for each label, found one, as where these are labels: {SAY}")
    labels = np.isfinite(table).all() and (table >= 0).all() and (table < classes).all() and (table == np.floor(table)).all()
    if table.shape[1] == teachers and labels and (table.sum(axis=1, dtype=float) != teachers).any():
        raise InputError(f"{place}: expected {classes} columns, one for each label, found labels: {SAY}")


def _require_all(holds: Any, expected: str, wrong: str, place: str) -> None:
    if not holds.all():
        raise InputError(f"{place}: expected {expected}, found {wrong} in some row (which one is private)")
