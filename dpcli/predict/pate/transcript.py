"""The transcript of a voting session (pate_session.py): what was charged and what was answered.

Teachers vote on public *queries*, and a noisy vote gives each an *answer*, or none if it does not reach the threshold. If
[pate] says so, a *student*, a model that learns from the labels, predicts them as well (student.py). A *session* is everything that one
charge pays for. Its transcript is a file of lines of JSON, of which the first names the session's run:

    {"what": "ask", "queries": [0, 3]}         queries 0 to 2 are charged, before noise is drawn for any of them
    {"what": "answer", "of": [0, 2]}           the answers to queries 0 and 2, which reached the threshold, are charged as well
    {"what": "outcome", "queries": [0, 3], "labels": {"0": 7, "2": 1}}
    {"what": "end"}

Each line is durable before the session continues. A query that is counted (query_counts.py) but has no outcome is *lost*, because of a
crash or because an older transcript was restored. Its charge stands. No query is asked twice: asking goes on after the last one that was
counted. The transcript is private to its owner, because it shows what was charged, and in what order.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import InputError
from dpcli.predict.prediction_session import add_line, whole_lines
from dpcli.sessions.charged import existing_session
from dpcli.sessions.window import as_at_start

if TYPE_CHECKING:
    from dpcli.predict.pate.pate_plan import VotingPlan
    from dpcli.sessions.charged import Session

TRANSCRIPT = "transcript.jsonl"
SCHEMA = "dpcli/pate-transcript/v3"


@dataclass(slots=True)
class Transcript:
    """The content of a transcript.

    Attributes:
        private: Whether the noise is secret. Noise from --insecure-seed is not.
        queries: Queries that were charged, in their order.
        answered: Queries whose answer was charged.
        labels: Released labels, by query.
        ended: Queries that have an outcome: a label, or none because the threshold was not reached.
        predictions: Predictions of the student for a query before it was asked, by query.
        student_labels: Labels of unanswered queries that the student predicted with confidence, by query.
        sanitised: Line about the release of the cost given the votes (vote_release.py); None if there is no such line.
        closed: Whether the session has ended, so that no further query is put.
    """

    session: Session
    private: bool
    queries: list[int] = field(default_factory=list)
    answered: set[int] = field(default_factory=set)
    labels: dict[int, int] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    predictions: dict[int, list[float]] = field(default_factory=dict)
    student_labels: dict[int, int] = field(default_factory=dict)
    sanitised: dict[str, Any] | None = None
    closed: bool = False

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def answer_charged(self) -> list[bool]:
        """Return, for each query, whether its answer was charged."""
        return [query in self.answered for query in self.queries]

    @property
    def lost(self) -> list[int]:
        """Return the queries that were charged and have no outcome."""
        return [query for query in self.queries if query not in self.ended]

    def apply(self, line: Mapping[str, Any]) -> None:
        """Apply a line of the file to this content. Raises ValueError or KeyError if the line is invalid."""
        first, stop = line.get("queries", (0, 0))
        match line["what"]:
            case "ask":
                self.queries.extend(range(first, stop))
                for query, prediction in zip(range(first, stop), line.get("predictions") or (), strict=False):
                    self.predictions[query] = prediction
            case "answer":
                self.answered.update(line["of"])
            case "outcome":
                self.labels.update({int(query): label for query, label in line["labels"].items()})
                self.student_labels.update({int(query): label for query, label in line.get("reinforced", {}).items()})
                self.ended.update(range(first, stop))
            case "sanitised":
                self.sanitised = dict(line)
            case "end":
                self.closed = True
            case other:
                raise ValueError(f"unknown line {other}")


class TranscriptFile:
    """The transcript of one session, which one process at a time may write."""

    def __init__(self, path: str, content: Transcript) -> None:
        self.path, self.content = path, content

    def add(self, line: Mapping[str, Any]) -> None:
        """Append a line to the file, durably, and apply it to the content."""
        add_line(self.path, line)
        self.content.apply(line)

    def record_charge(self, first: int, stop: int, predictions: Iterable[Iterable[float]] | None) -> None:
        """Record the charge of queries first to stop - 1, before noise is drawn for any of them."""
        line: dict[str, Any] = {"what": "ask", "queries": [first, stop]}
        if predictions is not None:
            line["predictions"] = [[float(value) for value in prediction] for prediction in predictions]
        self.add(line)

    def record_answers(self, queries: Sequence[int]) -> None:
        """Record the charge of the answers to queries, before noise is drawn for any of them."""
        self.add({"what": "answer", "of": [int(query) for query in queries]})

    def record_outcome(self, first: int, stop: int, labels: Mapping[int, int], student_labels: Mapping[int, int]) -> None:
        """Record the outcome of queries first to stop - 1: the labels of those that were answered."""
        line: dict[str, Any] = {"what": "outcome", "queries": [first, stop]}
        line["labels"] = {str(query): label for query, label in labels.items()}
        if student_labels:
            line["reinforced"] = {str(query): label for query, label in student_labels.items()}  # their key in the file
        self.add(line)


def path_of(plan: VotingPlan) -> str:
    """Return the path of the transcript, in the folder of the session."""
    return os.path.join(plan.folder, TRANSCRIPT)


def open_transcript(plan: VotingPlan, session: Session, private: bool) -> TranscriptFile:
    """Return the transcript of a session, after creating it if it is absent. An incomplete last line is removed."""
    path = path_of(plan)
    if not whole_lines(path):
        add_line(path, {"schema": SCHEMA, "run": session.run, "private": private})
    return TranscriptFile(path, _read(path, session))


def read_transcript(plan: VotingPlan) -> Transcript | None:
    """Return the transcript in the folder of a plan; None if there is none.

    Raises InputError if it belongs to another file, or is damaged.
    """
    session, path = existing_session(plan.folder), path_of(plan)
    if session is None and os.path.lexists(path):
        raise InputError(f"{path}: its folder has no session: it is from an earlier version, or was moved alone")
    if session is None or not os.path.lexists(path) or os.path.getsize(path) == 0:
        return None
    began_with = as_at_start(plan, session.window, session.rows)  # the plan with the part of the dataset that the session reads
    if session.fingerprint != began_with.fingerprint():
        raise InputError(
            f"{path}: expected a transcript of this file, found one of another file, or of this file before a change; its labels stay "
            "charged: set another pate.output for a new session"
        )
    return _read(path, session)


def _read(path: str, session: Session) -> Transcript:
    """Return the content of the file. Raises InputError if it cannot be read, is damaged, or belongs to another session."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, ValueError):
        raise InputError(f"{path}: expected a transcript, found a file that cannot be read") from None
    complete = text.split("\n")[:-1]  # Text after the last line feed was cut off by a crash, before anything depended on it.
    head, *lines = complete or [""]
    try:
        first = json.loads(head)
        if first["schema"] != SCHEMA or first["run"] != session.run:
            raise ValueError(SCHEMA)
        transcript = Transcript(session, first["private"] is True)
        for line in lines:
            transcript.apply(json.loads(line))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise InputError(f"{path}: expected a transcript of dpcli pate label, found a damaged one, or another session's") from None
    return transcript
