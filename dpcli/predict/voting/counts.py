"""Votes of teachers, as counts: a type of its own, as raw labels where counts are expected would be priced as something else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpcli.errors import InputError, InternalError


@dataclass(frozen=True, slots=True)
class VoteCounts:
    """How many of the teachers voted for each label; private.

    Raises InputError unless they are whole numbers that add up to the number of teachers.
    """

    counts: tuple[int, ...]
    teachers: int

    def __post_init__(self) -> None:
        if not all(type(count) is int and count >= 0 for count in self.counts):
            raise InputError("votes: expected whole numbers of votes for each label, found something else")
        if len(self.counts) < 2 or sum(self.counts) != self.teachers:
            raise InputError(
                f"votes: expected counts for at least two labels that add up to {self.teachers} teachers, found others"
            )


def counted(votes: Sequence[int], labels: int) -> VoteCounts:
    """The counts of one vote of each teacher, the number of a label."""
    if not all(0 <= vote < labels for vote in votes):
        raise InternalError(f"a vote for none of {labels} labels: this is a bug in dpcli, and nothing is released")
    return VoteCounts(tuple(sum(vote == label for vote in votes) for label in range(labels)), len(votes))
