"""A session of votes: each query is charged durably before its noise is drawn, and answered once.

The transcript in the session's folder is what was released: a query that is asked again is answered from there, for nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError
from dpcli.predict.lines import add_line, whole_lines

if TYPE_CHECKING:
    from dpcli.predict.queries.budget import QueryBudget
    from dpcli.predict.voting.aggregators import Aggregator
    from dpcli.predict.voting.votes import VoteCounts
    from dpcli.random.streams import Stream


@dataclass(frozen=True, slots=True)
class Released:
    """One answer. number: of the query in its budget, from 1. label: the number of a label; None where the votes did not agree."""

    number: int
    label: int | None


class VoteTranscript:
    """What a session has released, by query, in a file of one line each that only grows; labels: how many there are.

    Raises InputError where the file is something else.
    """

    def __init__(self, path: str, labels: int) -> None:
        self._path = path
        self._known = dict(_lines(path, labels))

    @property
    def last(self) -> int:
        """The number of the last answer; 0 where there is none."""
        return max((one.number for one in self._known.values()), default=0)

    def known(self, query: str) -> Released | None:
        return self._known.get(digest(query))

    def add(self, query: str, released: Released) -> None:
        """Durable when it returns."""
        add_line(self._path, {"query": digest(query), "number": released.number, "label": released.label})
        self._known[digest(query)] = released


@dataclass(frozen=True, slots=True)
class VotingSession:
    """budget: of queries. answers: of those that are answered, where the entry bounds them."""

    aggregator: Aggregator
    budget: QueryBudget
    answers: QueryBudget | None
    transcript: VoteTranscript
    stream: Stream

    def ask(self, query: str, votes: Callable[[], VoteCounts]) -> Released:
        """The answer to a public query, by one row of votes; from the transcript where it was given before, without counting any.

        Raises Denied where no more may be asked, LedgerError where the count cannot be relied on; nothing is released then.
        """
        before = self.transcript.known(query)
        if before is not None:
            return before
        for count in self._counts():  # before the work: whoever has had all answers asks no more
            if count.taken() == count.total:
                count.take()  # which says no
        counts = votes()
        number = self.budget.take().first
        label = None
        if self.aggregator.reached(counts.largest, self.stream)[0]:
            if self.answers is not None:
                self.answers.take()
            (label,) = self.aggregator.winners(counts.counts, self.stream)
        released = Released(number, label)
        self.transcript.add(query, released)
        return released

    def _counts(self) -> list[QueryBudget]:
        return [count for count in (self.budget, self.answers) if count is not None]


def digest(query: str) -> str:
    """What a query is known by."""
    return hashlib.sha256(query.encode("utf-8", "surrogatepass")).hexdigest()


def _lines(path: str, labels: int) -> list[tuple[str, Released]]:
    found = []
    for line in whole_lines(path):
        try:
            entry = json.loads(line)
            query, number, label = entry["query"], entry["number"], entry["label"]
        except (ValueError, KeyError, TypeError, RecursionError):
            query = None
        if type(query) is not str or type(number) is not int or not (label is None or (type(label) is int and 0 <= label < labels)):
            raise InputError(f"{path}: expected the transcript of a session, found something else")
        found.append((query, Released(number, label)))
    return found
