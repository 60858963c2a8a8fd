"""A session's folder: under which run it is charged, settled before the first noise, and what the ledger says of that."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import CannotCertify, Denied, InputError, LedgerError, NotRepresentable
from dpcli.ledger.blocks.rows import kept_rows
from dpcli.sessions.folder import replaced

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.ledger.ledger import Ledger


RUN = "run.json"
UNCHARGED = (Denied, InputError, CannotCertify, NotRepresentable)  # by which a ledger says that it wrote nothing


@dataclass(frozen=True, slots=True)
class Session:
    """A charge, and what it is for.

    Attributes:
        fingerprint: Fingerprint of every table that its privacy depends on.
        charged: Whether a ledger was.
        counted: Whether the count was made by which no answer is given twice: from then on it must be there, and the ledger must know the
            run.
        inputs: What it was begun with besides the file, by name and digest.
        window: The blocks that it was charged on.
        rows: Rows of these, where dpcli has chosen them.
    """

    folder: str
    run: str
    fingerprint: str
    charged: bool
    counted: bool = False
    inputs: dict[str, str] = field(default_factory=dict)
    window: tuple[str, ...] = ()
    rows: dict[str, Any] | None = None

    def require_same(self, inputs: Mapping[str, str], same: Callable[[str, str], bool] = str.__eq__) -> None:
        """Raise InputError if one of these is not what the session began with.

        Args:
            same: Whether two are one.
        """
        others = [name for name, content in inputs.items() if not same(self.inputs.get(name, ""), content)]
        if others:
            raise InputError(
                f"{self.folder}: expected the {' and the '.join(others)} that its session began with, found changed content: go on with "
                "what it was, or begin anew in another folder, which is another charge"
            )

    @property
    def identity(self) -> str:
        """The name that its answers are counted under, which no other session of the same file has."""
        return hashlib.sha256(f"{self.run} {self.fingerprint}".encode()).hexdigest()

    def write(self) -> None:
        """Write it durably. Raises LedgerError if the disk takes nothing: the caller draws nothing then."""
        content = {name: value for name, value in asdict(self).items() if name != "folder"}
        path = os.path.join(self.folder, RUN)
        try:
            replaced(path, json.dumps(content, indent=1).encode(), 0o600)
        except OSError as error:
            raise LedgerError(f"{path}: cannot be written ({error.strerror}): nothing was drawn") from None


def session_there(folder: str) -> Session | None:
    """Return the session of a folder, None if there is none. Raises InputError if it is not as dpcli wrote it."""
    path = os.path.join(folder, RUN)
    return _read(path, folder) if os.path.lexists(path) else None


def session_in(
    folder: str,
    fingerprint: str,
    resume: bool,
    ledger: Ledger | None,
    inputs: Mapping[str, str] | None = None,
    same: Callable[[str, str], bool] = str.__eq__,
) -> Session:
    """Return a new session, or under --resume the one that is there. The folder is locked by the caller.

    Args:
        inputs, same: As in `Session.require_same`.

    Raises:
        InputError: If it is not what was asked for, or of a file that has changed since.
    """
    inputs = inputs or {}
    path = os.path.join(folder, RUN)
    if not os.path.lexists(path):
        if resume:
            raise InputError(f"--resume: expected a session in {folder}; there is none")
        return Session(folder, uuid.uuid4().hex, fingerprint, ledger is not None, inputs=dict(inputs))
    if not resume:
        raise InputError(
            f"{folder}: expected a new folder, found a session: --resume goes on with it; a second one is another charge, in another folder"
        )
    session = _read(path, folder)
    if session.fingerprint != fingerprint:
        raise InputError(
            f"--resume: {path}: expected the file as it was when the session began, and its window, found it changed: begin anew"
        )
    session.require_same(inputs, same)
    require_same_books("--resume", session.charged, ledger, "session")
    return session


def require_same_books(place: str, charged: bool, ledger: Ledger | None, what: str) -> None:
    """Raise InputError if a session goes on with a ledger that was not charged for it, or without the one that was.

    Args:
        place: Where a message begins.
        what: What goes on, in a word.
    """
    if charged != (ledger is not None):
        stated = (f"the --ledger that was charged for this {what}", "none") if charged else ("no --ledger, as at its start", "one")
        raise InputError(f"{place}: expected {stated[0]}, found {stated[1]}")


def require_going_on(place: str, run: str, ledger: Ledger, what: str) -> None:
    """Raise InputError if a run that draws more noise has ended in the ledger that was charged, or is somebody else's.

    Args:
        place: Where a message begins.
        what: What goes on, in a word.
    """
    reserved = ledger.state().run(run)
    if reserved.status in ("committed", "void"):
        ended = "has ended, so that this is a copy of it" if reserved.status == "committed" else "was voided"
        raise InputError(
            f"{place}: expected a {what} that is charged and goes on, found one that {ended}: begin a new one in another folder"
        )
    owner = reserved.content.get("who")
    if owner != ledger.who:
        raise InputError(
            f"{place}: expected the login that reserved this {what}, {owner}, found {ledger.who}, who could not commit it at its end: "
            f"log in as {owner}, or begin a new one in another folder"
        )


def charge(session: Session, pipeline: Pipeline, ledger: Ledger | None, why: str) -> Session:
    """Reserve and start the session in the ledger, once, and return it; its folder knows the run before the ledger does."""
    path = os.path.join(session.folder, RUN)
    new = not os.path.lexists(path)
    session.write()
    if ledger is None:
        return session
    known = ledger.state().runs.get(session.run)
    if known is None and session.counted:
        raise LedgerError(f'dataset "{ledger.dataset}": has no run {session.run[:12]}, under which this session was charged')
    try:
        charge_run(ledger, session.run, pipeline, why)
    except UNCHARGED:
        if new and session.run not in ledger.state().runs:  # nothing was charged: the folder is as good as new
            os.remove(path)
        raise
    return session


def charge_run(ledger: Ledger, run: str, pipeline: Pipeline, why: str) -> None:
    """Reserve and start a run, whichever of it the ledger has not seen yet. Call it before the first noise, again after a crash.

    Raises:
        Denied: If the ledger says no.
        LedgerError: If the run was voided: nothing may be drawn under it.
    """
    known = ledger.state().runs.get(run)
    if known is None:
        known = ledger.reserve(pipeline, run, why=why).run
    if known is not None and known.status == "reserved":
        ledger.start(run)
    require_charged(ledger, run)


def commit(session: Session, ledger: Ledger | None) -> None:
    """Note that all was answered; the run stays charged in full."""
    if ledger is not None and ledger.state().run(session.run).status == "started":
        ledger.commit(session.run)


def noted(session: Session) -> Session:
    """Return the session, which remembers that its counts are there."""
    counted = replace(session, counted=True)
    counted.write()
    return counted


def _read(path: str, folder: str) -> Session:
    try:
        with open(path, "rb") as file:
            content = json.load(file)
        content.pop("home", None)  # of earlier versions
        session = Session(folder=folder, **{**content, "window": tuple(content.get("window", ()))})
        kept_rows(session.rows, session.window)
        known = (session.run, session.fingerprint, session.charged, session.counted, session.inputs)
        types = [type(value) for value in known] + [type(value) for value in session.inputs.values()]
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        types = []
    if types[:5] != [str, str, bool, bool, dict] or {*types[5:]} - {str}:
        raise InputError(f"{path}: is not as dpcli wrote it: nothing more is answered in this folder")
    return session


def require_charged(ledger: Ledger, run: str) -> None:
    """Raise LedgerError unless the ledger holds the run, charged for, as one whose noise is being drawn or was.

    A copied folder is the same run: its answers are counted in the ledger, for all copies together.
    """
    status = ledger.state().run(run).status
    if status not in ("started", "committed"):
        raise LedgerError(
            f'dataset "{ledger.dataset}": expected the run {run[:12]} that this system was fitted under, charged and started, '
            f"found it {status}: nothing is answered"
        )


def reason(command: str, path: str, pipeline: Pipeline) -> str:
    """Return why a run is charged, for the log, as "dpcli train week.toml (clicks-week)": a stored pipeline has no name."""
    name = f" ({pipeline.name})" if pipeline.name else ""
    return f"dpcli {command} {os.path.basename(path)}{name}"
