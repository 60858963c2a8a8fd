"""What was charged and what was answered, line by line, each durable before the next thing happens.

A query is charged before noise is drawn for it, and its answer too; a line with what came of it follows. What was charged and has no such
line is lost: a crash came between, and the charge stands. No query is put twice: whoever asks again gets the line that is there. It is for
the eyes of its owner: it names what was charged, and in what order.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpcli.errors import InputError
from dpcli.ledger.stores.sqlite import sync_folder
from dpcli.sessions.whereabouts import whereabouts
from dpcli.sessions.window import as_begun

if TYPE_CHECKING:
    from dpcli.predict.pate.plan import VotingPlan

TRANSCRIPT = "transcript.jsonl"
SCHEMA = "dpcli/pate-transcript/v2"
OWN = 0o600


@dataclass(slots=True)
class Transcript:
    """What stands in a transcript.

    run: its name in a ledger. ledger: whether one was charged. private: whether nobody can know the noise. asked: queries that were
    charged, in their order. answered: those whose answer was charged. labels: of those that have one. ended: queries with an outcome.
    predictions: what the student said about a query before it was asked. reinforced: labels that are the student's own prediction.
    home: the machine and the file that it began as; a copy has another.
    """

    run: str
    ledger: bool
    private: bool
    home: tuple[object, object] = (None, None)
    asked: list[int] = field(default_factory=list)
    answered: set[int] = field(default_factory=set)
    labels: dict[int, int] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    predictions: dict[int, list[float]] = field(default_factory=dict)
    reinforced: dict[int, int] = field(default_factory=dict)
    closed: bool = False

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
            case "end":
                self.closed = True
            case other:
                raise ValueError(f"unknown line {other}")


class TranscriptFile:
    """The transcript of one session, to be written by one process at a time."""

    def __init__(self, path: str, content: Transcript) -> None:
        self.path, self.content = path, content
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND)

    def close(self) -> None:
        os.close(self._file)

    def add(self, line: Mapping[str, Any]) -> None:
        """Append a line; returns when it is durable."""
        text = (json.dumps(line) + "\n").encode()
        if os.write(self._file, text) != len(text):
            raise OSError(28, "No space left on device", self.path)
        os.fsync(self._file)
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


def begin(plan: VotingPlan, run: str, ledger: bool, private: bool) -> TranscriptFile:
    """A new transcript, whose first line says whose it is."""
    path = path_of(plan)
    draft = f"{path}.new"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, OWN), "wb") as file:
        here = whereabouts(draft)  # it keeps its number when it gets its name
        window = plan.pipeline.privacy.window
        head: dict[str, Any] = {
            "schema": SCHEMA,
            "fingerprint": plan.fingerprint(),
            "run": run,
            "ledger": ledger,
            "private": private,
        }
        head |= {} if window is None else {"window": list(window)}
        file.write((json.dumps({**head, "machine": here.machine, "inode": here.inode}) + "\n").encode())
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
    sync_folder(os.path.dirname(path))
    return TranscriptFile(path, Transcript(run, ledger, private, (here.machine, here.inode)))


def require_original(plan: VotingPlan, content: Transcript) -> None:
    """Raise InputError where the transcript is a copy: it and the first would answer the same queries twice for one charge."""
    here = whereabouts(path_of(plan))
    if content.home != (here.machine, here.inode):
        raise InputError(
            f"{path_of(plan)}: expected the session's own file, found a copy of it: go on with the first, which may be moved on its disk, "
            "or name another pate.output for a new session; labels stay charged"
        )


def resume(plan: VotingPlan, content: Transcript) -> TranscriptFile:
    """The transcript that is there, without a last line that a crash cut off. Raises InputError where it is a copy."""
    path = path_of(plan)
    require_original(plan, content)
    with open(path, "rb+") as file:
        whole = file.read()
        os.fchmod(file.fileno(), OWN)
        file.truncate(whole.rfind(b"\n") + 1)
        os.fsync(file.fileno())
    return TranscriptFile(path, content)


def read_transcript(plan: VotingPlan) -> Transcript | None:
    """What stands in the folder of a plan, None where there is nothing.

    Raises InputError where it is another file's, or damaged.
    """
    path = path_of(plan)
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        raise InputError(f"{path}: expected a transcript, found a file that cannot be read") from None
    head, *lines = text.split("\n")[:-1] or [
        ""
    ]  # what follows the last line feed was cut off by a crash, before anything depended on it
    try:
        said = json.loads(head)
        if said["schema"] != SCHEMA:
            raise ValueError(SCHEMA)
        found = Transcript(str(said["run"]), said["ledger"] is True, said["private"] is True, (said["machine"], said["inode"]))
        same = said["fingerprint"] == as_begun(plan, said.get("window", ()), None).fingerprint()
        for line in lines:
            found.apply(json.loads(line))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise InputError(f"{path}: expected a transcript of dpcli pate label, found a damaged one or another file") from None
    if not same:
        raise InputError(
            f"{path}: expected the session of this file, found one of another, or of this one before it was changed; its labels stay "
            "charged: name another pate.output for a new session"
        )
    return found
