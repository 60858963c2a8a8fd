"""What was charged and what was answered, line by line, each durable before the next thing happens.

A query is counted before noise is drawn for it, and its answer too; a line with what came of it follows. What is counted and has no such
line is lost: a crash came between, or an older transcript was put back, and the charge stands. No query is put twice: whoever asks again
gets the line that is there. It is for the eyes of its owner: it names what was charged, and in what order.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import InputError
from dpcli.predict.lines import add_line, whole_lines
from dpcli.sessions.charged import session_there
from dpcli.sessions.window import as_begun

if TYPE_CHECKING:
    from dpcli.predict.pate.plan import VotingPlan
    from dpcli.sessions.charged import Session

TRANSCRIPT = "transcript.jsonl"
SCHEMA = "dpcli/pate-transcript/v3"


@dataclass(slots=True)
class Transcript:
    """What stands in a transcript.

    session: whose it is. private: whether nobody can know the noise. asked: queries that were charged, in their order. answered: those
    whose answer was charged. labels: of those that have one. ended: queries with an outcome. predictions: what the student said about a
    query before it was asked. reinforced: labels that are the student's own prediction. sanitised: what was released of the cost.
    """

    session: Session
    private: bool
    asked: list[int] = field(default_factory=list)
    answered: set[int] = field(default_factory=set)
    labels: dict[int, int] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    predictions: dict[int, list[float]] = field(default_factory=dict)
    reinforced: dict[int, int] = field(default_factory=dict)
    sanitised: dict[str, Any] | None = None
    closed: bool = False

    @property
    def run(self) -> str:
        """Its name in a ledger."""
        return self.session.run

    def __len__(self) -> int:
        return len(self.asked)

    @property
    def charged(self) -> list[bool]:
        """For each query that was asked, whether its answer was charged."""
        return [query in self.answered for query in self.asked]

    @property
    def lost(self) -> list[int]:
        """Queries that were charged and have no outcome."""
        return [query for query in self.asked if query not in self.ended]

    def apply(self, line: Mapping[str, Any]) -> None:
        """Add what one line says."""
        first, stop = line.get("queries", (0, 0))
        match line["what"]:
            case "ask":
                self.asked.extend(range(first, stop))
                for query, prediction in zip(range(first, stop), line.get("predictions") or (), strict=False):
                    self.predictions[query] = prediction
            case "answer":
                self.answered.update(line["of"])
            case "outcome":
                self.labels.update({int(query): label for query, label in line["labels"].items()})
                self.reinforced.update({int(query): label for query, label in line.get("reinforced", {}).items()})
                self.ended.update(range(first, stop))
            case "sanitised":
                self.sanitised = dict(line)
            case "end":
                self.closed = True
            case other:
                raise ValueError(f"unknown line {other}")


class TranscriptFile:
    """The transcript of one session, to be written by one process at a time."""

    def __init__(self, path: str, content: Transcript) -> None:
        self.path, self.content = path, content

    def add(self, line: Mapping[str, Any]) -> None:
        """Append a line; returns when it is durable."""
        add_line(self.path, line)
        self.content.apply(line)

    def ask(self, first: int, stop: int, predictions: Iterable[Iterable[float]] | None) -> None:
        """Charge queries, before noise is drawn for any of them."""
        stated = {} if predictions is None else {"predictions": [[float(value) for value in one] for one in predictions]}
        self.add({"what": "ask", "queries": [first, stop], **stated})

    def answer(self, queries: Sequence[int]) -> None:
        """Charge the answers of queries, before noise is drawn for any of them."""
        self.add({"what": "answer", "of": [int(query) for query in queries]})

    def outcome(self, first: int, stop: int, labels: Mapping[int, int], reinforced: Mapping[int, int]) -> None:
        """What came of the queries: the labels of those that were answered."""
        said = {"labels": {str(query): label for query, label in labels.items()}}
        free = {"reinforced": {str(query): label for query, label in reinforced.items()}} if reinforced else {}
        self.add({"what": "outcome", "queries": [first, stop], **said, **free})


def path_of(plan: VotingPlan) -> str:
    return os.path.join(plan.folder, TRANSCRIPT)


def opened(plan: VotingPlan, session: Session, private: bool) -> TranscriptFile:
    """The transcript of a session, without a last line that a crash cut off; a new one where there is none."""
    path = path_of(plan)
    if not whole_lines(path):
        add_line(path, {"schema": SCHEMA, "run": session.run, "private": private})
    return TranscriptFile(path, _read(path, session))


def read_transcript(plan: VotingPlan) -> Transcript | None:
    """What stands in the folder of a plan, None where there is nothing.

    Raises InputError where it is another file's, or damaged.
    """
    session, path = session_there(plan.folder), path_of(plan)
    if session is None and os.path.lexists(path):
        raise InputError(f"{path}: expected a session beside it, found none: it is an earlier version's, or was moved here alone")
    if session is None or not os.path.lexists(path) or os.path.getsize(path) == 0:
        return None
    if session.fingerprint != as_begun(plan, session.window, session.rows).fingerprint():
        raise InputError(
            f"{path}: expected the session of this file, found one of another, or of this one before it was changed; its labels stay "
            "charged: name another pate.output for a new session"
        )
    return _read(path, session)


def _read(path: str, session: Session) -> Transcript:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, ValueError):
        raise InputError(f"{path}: expected a transcript, found a file that cannot be read") from None
    head, *lines = text.split("\n")[:-1] or [
        ""
    ]  # what follows the last line feed was cut off by a crash, before anything depended on it
    try:
        said = json.loads(head)
        if said["schema"] != SCHEMA or said["run"] != session.run:
            raise ValueError(SCHEMA)
        found = Transcript(session, said["private"] is True)
        for line in lines:
            found.apply(json.loads(line))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise InputError(f"{path}: expected a transcript of dpcli pate label, found a damaged one or another session's") from None
    return found
