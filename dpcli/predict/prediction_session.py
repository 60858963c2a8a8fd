"""The common part of the sessions of pate, pmixed, prompt and generate: the charge, the counts of answers, and the file of answers.

A *session* is everything that one charge pays for; it may be interrupted and continued (sessions/charged.py). `begin_session` charges all
of its answers at once, before the first noise, and binds it to the content of its inputs. Every answer (a label or a token, or a whole
text) is then counted durably before it is drawn (query_counts.py), so that a continued session draws no more answers than were charged, and
none twice. The count is in the *ledger* (the record of what was spent on a dataset) if the session has one, else at a *place*: a file or a
PostgreSQL database. pate, prompt and generate also save what they answered (`add_line`); if the count is below that, an earlier state of it
was restored (`require_count_of`).
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import InputError, LedgerError
from dpcli.base.lazy import load
from dpcli.ledger.stores.places import POSTGRES, path_of
from dpcli.predict.models.model_answers import same_content
from dpcli.predict.query_counts import ANSWERS, BUSY_SECONDS, LedgerQueries, require_count
from dpcli.sessions.charged import Session, charge, mark_counted, open_session, reason

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger
    from dpcli.predict.prediction_plan import PredictionPlan
    from dpcli.predict.query_counts import AnswerCounter

Report = Callable[[int, int], None]  # shows progress: (number of parts done, number of parts)
COUNT_FILE, STATEMENT = "queries.db", "statement.md"  # files in a session's folder
# Statements contain this warning if no ledger counts the answers.
RESTORED = (
    "No ledger was charged. dpcli therefore cannot detect that the session's folder was restored to an earlier state and used to answer "
    "again. Protect the folder as you would protect a ledger."
)


@dataclass(frozen=True, slots=True)
class AnswerLimit:
    """A limit on the answers of one kind that a session gives. `open` returns the durable count that enforces it.

    Attributes:
        total: Largest number of answers.
        counted_noun: Plural noun for the answers, for messages.
        name: Name that distinguishes this count from the session's first one, whose name is None.
    """

    total: int
    counted_noun: str = ANSWERS
    name: str | None = None

    def open(self, session: Session, ledger: Ledger | None, place: str | None, moved: bool) -> AnswerCounter:
        """Return the durable count: in the ledger if there is one, else at `place`, else in the session's folder.

        Args:
            place: Path or URL of the count, to which the name of the count, if it has one, is appended; None for the session's folder.
            moved: Whether the user confirms that the file of the count was moved here in its latest state.

        Raises:
            LedgerError: If the count is missing, locked, damaged or a copy, or belongs to another session.
            InputError: If the place cannot be read.
        """
        if ledger is not None:
            return LedgerQueries(ledger, session.run, self.total, self.name or self.counted_noun)
        if place is None:
            path = os.path.join(session.folder, f"{self.name}.db" if self.name else COUNT_FILE)
        else:
            path = f"{place}-{self.name}" if self.name else place
        is_new = not session.counted  # A session that began has its counts already (`mark_counted`).
        return open_queries(path, session.identity, self.total, new=is_new, moved=moved, counted_noun=self.counted_noun)


def open_queries(
    place: str,
    identity: str,
    total: int,
    *,
    new: bool = False,
    moved: bool = False,
    seconds: float = BUSY_SECONDS,
    counted_noun: str = ANSWERS,
) -> AnswerCounter:
    """Return the durable count of a session's answers outside of a ledger.

    Args:
        place: A path, sqlite:///path, or postgresql://user@host/database#name.
        identity: Fingerprint of the session: its models, its data, and every number of the file on which its privacy depends.
        total: Number of answers that the session's charge pays for.
        new: Whether to create a missing count. It is True only before a session's first answer. Afterwards a missing count is refused: it
            may have been removed. An existing count is continued in both cases.
        moved: Whether the user confirms (--moved) that the file was moved to this path in its latest state. dpcli cannot verify this.
        seconds: Longest wait for the locks of other processes, in seconds.
        counted_noun: Plural noun for the answers, for messages.

    Raises:
        LedgerError: If the count is missing, locked, damaged or a copy, belongs to another session, or has another total.
        InputError: If the place cannot be read, or `total` is not valid.
    """
    require_count(total, "total")
    if place.startswith(POSTGRES):
        counter: AnswerCounter = load("dpcli.predict.postgres_queries:PostgresQueries")(
            place, identity, total, new, seconds, counted_noun
        )
        return counter
    from dpcli.predict.sqlite_queries import SqliteQueries, create

    path = path_of(place)
    if new:
        create(path, identity, total, seconds)
    return SqliteQueries(path, identity, total, moved, seconds, counted_noun)


def begin_session(
    plan: PredictionPlan,
    command: str,
    ledger: Ledger | None,
    inputs: Mapping[str, str],
    limits: Sequence[AnswerLimit],
    *,
    resume: bool,
    moved: bool = False,
    place: str | None = None,
    released: str | None = None,
) -> tuple[Session, list[AnswerCounter]]:
    """Charge a new session in full, or continue the session in the plan's folder, and open its counts. Noise may be drawn only afterwards.

    Args:
        command: Name of the command that begins the session, for the ledger.
        ledger: Ledger to charge; None if there is none.
        inputs: Digest of each input other than the file, by name.
        limits: Limits on the answers, one for each kind.
        resume: Whether to continue the session in the folder.
        moved, place: As in `AnswerLimit.open`, for every count.
        released: Path of the file of answers; None if there is none. The first call for a session refuses a file that exists: another
            session wrote it.

    Returns:
        The session, and the durable count for each of `limits`, in their order.

    Raises:
        InputError: If the pipeline file or an input has changed, or the file of answers exists before the session.
        Denied: If the ledger does not allow the session.
        LedgerError: If the ledger or a count cannot be relied on.
    """
    session = open_session(plan.folder, plan.fingerprint(), resume, ledger, inputs, same_content)
    rows = None if plan.rows is None else plan.rows.content()
    # The part of the dataset that the session reads: the names of its blocks, such as days, and their rows.
    session = replace(session, window=plan.pipeline.privacy.window or (), rows=rows)
    if released is not None and not session.counted and os.path.lexists(released):
        raise InputError(f"{released}: was released before this session began, under another charge: use a new folder")
    session = charge(session, plan.pipeline, ledger, reason(command, plan.path, plan.pipeline))
    counters = [limit.open(session, ledger, place, moved) for limit in limits]
    return mark_counted(session), counters  # written to the folder: from now on, a missing count is an error


def require_count_of(path: str, last: int, counter: AnswerCounter) -> None:
    """Raise LedgerError if the file of answers has an answer that the count lacks: an earlier state of the count was then restored.

    If earlier states of both files are restored, this function does not detect it.

    Args:
        path: Path of the file of answers.
        last: Number of the last answer in the file, from 1; 0 if there is none.
    """
    if last > counter.taken():
        raise LedgerError(
            f"{path}: expected at most {counter.taken():,} answers, the number counted, found number {last:,}: the count was restored to "
            "an earlier state, and would grant answers twice; restore its latest state, or begin a new session in another folder"
        )


def add_line(path: str, content: Mapping[str, Any]) -> None:
    """Append a line of JSON to a file of answers, durably. The file is created if it is missing.

    Raises OSError if the line cannot be written. A line that was written in part is removed.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        line = json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
        size_before = os.fstat(descriptor).st_size
        if os.write(descriptor, line) != len(line):
            os.ftruncate(descriptor, size_before)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def whole_lines(path: str) -> list[bytes]:
    """Return the complete lines of a file, without their ends; [] if the file is missing.

    An incomplete last line, which a crash may leave, is removed from the file.
    """
    if not os.path.lexists(path):
        return []
    with open(path, "r+b") as file:
        content = file.read()
        end = content.rfind(b"\n") + 1
        file.truncate(end)
    return content[:end].splitlines()
