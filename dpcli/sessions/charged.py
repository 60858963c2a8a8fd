"""The charge of a session, and the file in its folder that names the charged run.

A *session* is everything that one charge pays for: a training run, a set of answers, or texts. In the *ledger* (dpcli/ledger), the account
book of a dataset's privacy budget, it is a *run*: `reserve` charges it in full, `start` permits its noise, and `commit` records its end.
The order is the guarantee: the file is written first, then the run is reserved and started, then the first noise is drawn. So after a crash
at any point, the folder names the run, and the ledger has it if it was charged. A session goes on only with the same *fingerprint* (a hash
of what must not change, priced.py) and inputs, and with a ledger if and only if it began with one. A *window* is the part of the dataset
that a session reads; it consists of *blocks*, such as days.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import CannotCertify, Denied, InputError, LedgerError, NotRepresentable
from dpcli.ledger.blocks.rows import rows_from_content
from dpcli.sessions.folder import replace_file

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.ledger.ledger import Ledger


RUN = "run.json"  # name of the file of a session
# Errors by which a ledger refuses a charge. Nothing is written to the ledger then.
REFUSALS = (Denied, InputError, CannotCertify, NotRepresentable)


@dataclass(frozen=True, slots=True)
class Session:
    """A session and its charge.

    Attributes:
        run: Key of its run in the ledger.
        fingerprint: Fingerprint of the tables of the file on which its privacy depends.
        charged: Whether the session has a ledger.
        counted: Whether the run was charged and the counts of its answers exist, if it gives answers (dpcli/predict/query_counts.py). The
            counts keep an answer from being given twice. Once `counted` is set, a missing count or run is therefore an error. Before, it
            means that the session has only begun.
        inputs: Digests of the inputs other than the file, by name.
        window: Blocks on which the session was charged.
        rows: Rows of these blocks in the form of RowWindow.content; None if all rows are read.
    """

    folder: str
    run: str
    fingerprint: str
    charged: bool
    counted: bool = False
    inputs: dict[str, str] = field(default_factory=dict)
    window: tuple[str, ...] = ()
    rows: dict[str, Any] | None = None

    def require_same(self, inputs: Mapping[str, str], are_equal: Callable[[str, str], bool] = str.__eq__) -> None:
        """Check that the inputs have the same content as at the start of the session. Raises InputError if one has changed.

        Args:
            are_equal: Function that returns whether two digests are of equal content.
        """
        changed = [name for name, content in inputs.items() if not are_equal(self.inputs.get(name, ""), content)]
        if changed:
            raise InputError(
                f"{self.folder}: expected the {' and the '.join(changed)} with which its session began, found changed content: restore "
                "the old content, or begin a new session in another folder, which is charged again"
            )

    @property
    def identity(self) -> str:
        """Return the name under which the session's answers are counted. It is unique among the sessions of a file."""
        return hashlib.sha256(f"{self.run} {self.fingerprint}".encode()).hexdigest()

    def write(self) -> None:
        """Write the session durably to its folder. Raises LedgerError if this fails. The caller must then draw no noise."""
        content = {name: value for name, value in asdict(self).items() if name != "folder"}
        path = os.path.join(self.folder, RUN)
        try:
            replace_file(path, json.dumps(content, indent=1).encode(), 0o600)
        except OSError as error:
            raise LedgerError(f"{path}: cannot be written ({error.strerror}): nothing was drawn") from None


def existing_session(folder: str) -> Session | None:
    """Return the session in a folder; None if there is none. Raises InputError if its file lacks the form that dpcli writes."""
    path = os.path.join(folder, RUN)
    return _read_session(path, folder) if os.path.lexists(path) else None


def open_session(
    folder: str,
    fingerprint: str,
    resume: bool,
    ledger: Ledger | None,
    inputs: Mapping[str, str] | None = None,
    are_equal: Callable[[str, str], bool] = str.__eq__,
) -> Session:
    """Return a new session or, with --resume, the existing one. The caller must hold the lock of the folder.

    Args:
        fingerprint: Present fingerprint of the file.
        inputs: Present digests of the inputs other than the file, by name.
        are_equal: Function that returns whether two digests are of equal content.

    Raises:
        InputError: Without --resume, the folder already has a session. With --resume, it has no session that can be read. Or the file or
            an input has changed since the session began. Or only one of the two, the start and --resume, has a ledger.
    """
    inputs = inputs or {}
    path = os.path.join(folder, RUN)
    if not os.path.lexists(path):
        if resume:
            raise InputError(f"--resume: expected a session in {folder}; there is none")
        return Session(folder, uuid.uuid4().hex, fingerprint, ledger is not None, inputs=dict(inputs))
    if not resume:
        raise InputError(
            f"{folder}: expected a new folder, found a session: continue it with --resume, or begin another session in another folder, "
            "which is charged again"
        )
    session = _read_session(path, folder)
    if session.fingerprint != fingerprint:
        raise InputError(
            f"--resume: {path}: expected the file and the window with which the session began, found a change: begin a new session"
        )
    session.require_same(inputs, are_equal)
    require_same_ledger("--resume", session.charged, ledger, "session")
    return session


def require_same_ledger(place: str, charged: bool, ledger: Ledger | None, what: str) -> None:
    """Check that a ledger is given if and only if the session has one. Raises InputError otherwise.

    Args:
        place: Start of the message, such as "--resume" or a folder.
        charged: Whether the session began with a ledger.
        what: Kind of session, for the message, such as "run".
    """
    if charged == (ledger is not None):
        return
    expected = f"the --ledger that was charged for this {what}" if charged else "no --ledger, as at its start"
    given = "none" if ledger is None else "one"
    raise InputError(f"{place}: expected {expected}, found {given}")


def require_unfinished(place: str, run: str, ledger: Ledger, what: str) -> None:
    """Check that a run may draw more noise. Raises InputError if the run has ended in the ledger, or if another person reserved it.

    A message begins with `place`, such as "--resume", and calls the session `what`, such as "run".
    """
    reserved = ledger.state().run(run)
    ends = {"committed": "has ended (this folder is a copy)", "void": "was voided"}
    if reserved.status in ends:
        raise InputError(
            f"{place}: expected a {what} that is charged and unfinished, found one that {ends[reserved.status]}: "
            "begin a new one in another folder"
        )
    owner = reserved.content.get("who")
    if owner != ledger.who:
        raise InputError(
            f"{place}: expected the login that reserved this {what}, {owner}, found {ledger.who}, who may not commit it: "
            f"log in as {owner}, or begin a new {what} in another folder"
        )


def charge(session: Session, pipeline: Pipeline, ledger: Ledger | None, why: str) -> Session:
    """Reserve and start the run of a session in the ledger, unless this was done before. Return the session.

    The session is written to its folder before the ledger is charged. If the ledger refuses the charge, a new session is removed again.

    Raises:
        LedgerError: The session cannot be written. Or its answers are already counted, but the ledger does not have its run. Or as in
            `charge_run`.
        Denied, InputError, CannotCertify, NotRepresentable: As in `charge_run`.
    """
    path = os.path.join(session.folder, RUN)
    is_new = not os.path.lexists(path)
    session.write()
    if ledger is None:
        return session
    if session.counted and ledger.state().runs.get(session.run) is None:
        raise LedgerError(f'dataset "{ledger.dataset}": has no run {session.run[:12]}, but this session was charged under it')
    try:
        charge_run(ledger, session.run, pipeline, why)
    except REFUSALS:
        if is_new and session.run not in ledger.state().runs:  # nothing was charged, so another session may use the folder
            os.remove(path)
        raise
    return session


def charge_run(ledger: Ledger, run: str, pipeline: Pipeline, why: str) -> None:
    """Reserve and start a run, unless the ledger already has it. Call this before the first noise is drawn, and again after a crash.

    Raises:
        Denied: The run does not fit in the ledger's budget.
        InputError, CannotCertify, NotRepresentable: The ledger cannot price the pipeline.
        LedgerError: The run was voided, so no noise may be drawn for it.
    """
    charged = ledger.state().runs.get(run)
    if charged is None:
        charged = ledger.reserve(pipeline, run, why=why).run
    if charged is not None and charged.status == "reserved":
        ledger.start(run)
    require_charged(ledger, run)


def commit(session: Session, ledger: Ledger | None) -> None:
    """Record in the ledger that the session has ended. The run stays charged in full.

    Do nothing without a ledger, or if the run is not in progress.
    """
    if ledger is not None and ledger.state().run(session.run).status == "started":
        ledger.commit(session.run)


def mark_counted(session: Session) -> Session:
    """Set `counted` in the folder of the session, and return the session with it. Raises LedgerError if it cannot be written."""
    counted = replace(session, counted=True)
    counted.write()
    return counted


def require_charged(ledger: Ledger, run: str) -> None:
    """Check that the ledger has charged and started the run. Raises LedgerError if it has not.

    A copy of the session's folder has the same run. The ledger therefore counts the answers of all copies together.
    """
    status = ledger.state().run(run).status
    if status not in ("started", "committed"):
        raise LedgerError(
            f'dataset "{ledger.dataset}": expected the run {run[:12]} of this session to be charged and started, '
            f"found it {status}: no answer is given"
        )


def reason(command: str, path: str, pipeline: Pipeline) -> str:
    """Return the reason of a charge for the ledger's log, such as "dpcli train week.toml (clicks-week)".

    The reason contains the name of the pipeline, because the pipeline in a ledger's entry has no name.
    """
    name = f" ({pipeline.name})" if pipeline.name else ""
    return f"dpcli {command} {os.path.basename(path)}{name}"


def _read_session(path: str, folder: str) -> Session:
    """Return the session in a file. Raises InputError if the file lacks the form that dpcli writes."""
    wrong_form = InputError(f"{path}: not as dpcli wrote it: no further answers are given from this folder")
    try:
        with open(path, "rb") as file:
            content = json.load(file)
        session = Session(folder=folder, **{**content, "window": tuple(content.get("window", ()))})
        rows_from_content(session.rows, session.window)
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        raise wrong_form from None
    if not _has_written_types(session):
        raise wrong_form
    return session


def _has_written_types(session: Session) -> bool:
    """Return whether the values of a session that was read from a file have the types that dpcli writes. The window is checked before."""
    return (
        isinstance(session.run, str)
        and isinstance(session.fingerprint, str)
        and isinstance(session.charged, bool)
        and isinstance(session.counted, bool)
        and isinstance(session.inputs, dict)
        and all(isinstance(digest, str) for digest in session.inputs.values())
    )
