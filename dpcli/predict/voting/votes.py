"""Votes for each label of each query: a type of their own, which no file of labels can be taken for."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from dpcli.base.errors import InputError
from dpcli.numerics.arrays import Array, np
from dpcli.predict.voting.winner import Counts

MOST = 10**8  # numbers in a file
SAY = 'say vote_rows = "labels" where each row holds the label that every teacher gave'


@dataclass(frozen=True, slots=True)
class VoteCounts:
    """counts: (n, m) integers >= 0 of which each row adds up to `teachers`; n >= 1 queries, m >= 2 labels. Private."""

    counts: Counts
    teachers: int

    def __len__(self) -> int:
        return len(self.counts)

    def row(self, place: int) -> VoteCounts:
        """Of one query."""
        return VoteCounts(self.counts[place : place + 1], self.teachers)

    def digest(self) -> str:
        """SHA-256: as private as the votes."""
        return hashlib.sha256(
            f"{self.teachers} {self.counts.shape}".encode() + np.ascontiguousarray(self.counts).tobytes()
        ).hexdigest()

    @property
    def largest(self) -> Array:
        """The largest count of each query, (n,)."""
        return np.asarray(self.counts.max(axis=1), dtype=float)

    def beyond(self, first: int, predictions: Array) -> Array:
        """The largest difference of a count and what a student predicts, (k,), for the queries from `first` on, predictions (k, m).

        The predicted votes are rounded down: the difference is a whole number >= 0 too, moves by one where a vote does, and is
        the very number that the analysis given the votes is of.
        """
        return np.asarray(
            (self.counts[first : first + len(predictions)] - np.floor(self.teachers * predictions)).max(axis=1), dtype=float
        )


def vote_counts(values: Any, teachers: int, classes: int, place: str) -> VoteCounts:
    """An array of counts, judged.

    Raises InputError for anything else, without a row or a value of it: votes are private.
    """
    found = _table(values, place)
    _refuse_labels(found, teachers, classes, place)
    if found.shape[1] != classes:
        raise InputError(f"{place}: expected {classes} columns, one for each label, found {found.shape[1]}")
    _each(np.isfinite(found), "finite counts", "one that is not a number", place)
    _each(found >= 0, "counts >= 0", "a negative one", place)
    _each(found == np.floor(found), "whole counts", "a fraction", place)
    sums = found.sum(axis=1, dtype=float)
    _each(sums == teachers, f"counts that add up to {teachers} teachers", "another sum", place)
    return VoteCounts(found.astype(np.int64), teachers)


def counted(values: Any, teachers: int, classes: int, place: str) -> VoteCounts:
    """Labels, (n, teachers) from 0 to classes - 1, as counts. Raises InputError as `vote_counts` does."""
    found = _table(values, place)
    if found.shape[1] != teachers:
        raise InputError(f"{place}: expected {teachers} columns, the label that each teacher gave, found {found.shape[1]}")
    _each(np.isfinite(found) & (found == np.floor(found)), "whole numbers as labels", "something else", place)
    _each((found >= 0) & (found < classes), f"labels from 0 to {classes - 1}", "another", place)
    if len(found) * classes > MOST:
        raise InputError(f"{place}: expected at most {MOST:,} counts, queries times labels, found {len(found) * classes:,}")
    rows = np.arange(len(found))[:, None] * classes
    counts = np.bincount(np.ravel(rows + found.astype(np.int64)), minlength=len(found) * classes)
    return VoteCounts(counts.reshape(len(found), classes), teachers)


def _table(values: Any, place: str) -> Any:
    found = np.asarray(values)
    if found.dtype.kind not in "iuf":
        raise InputError(f"{place}: expected a table of numbers, found one of {found.dtype.type.__name__}")
    if found.ndim == 1:
        raise InputError(
            f"{place}: expected a row of counts for each query, found one number for each, as where these are labels: {SAY}"
        )
    if found.ndim != 2:
        raise InputError(f"{place}: expected rows of counts, found an array of {found.ndim} dimensions")
    if not found.size:
        raise InputError(f"{place}: expected votes, found none")
    if found.size > MOST:
        raise InputError(f"{place}: expected at most {MOST:,} numbers, found {found.size:,}")
    return found


def _refuse_labels(found: Any, teachers: int, classes: int, place: str) -> None:
    """Whole numbers below the number of labels, as many in a row as there are teachers, or one: priced as counts they cost nothing."""
    if found.shape[1] == 1:
        raise InputError(f"{place}: expected {classes} columns, one for each label, found one, as where these are labels: {SAY}")
    labels = np.isfinite(found).all() and (found >= 0).all() and (found < classes).all() and (found == np.floor(found)).all()
    if found.shape[1] == teachers and labels and (found.sum(axis=1, dtype=float) != teachers).any():
        raise InputError(f"{place}: expected {classes} columns, one for each label, found labels: {SAY}")


def _each(holds: Any, expected: str, wrong: str, place: str) -> None:
    if not holds.all():
        raise InputError(f"{place}: expected {expected}, found {wrong} in some row (which one is private)")
