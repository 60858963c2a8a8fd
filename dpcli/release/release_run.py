"""The order of a release: reserve and start the charge, compute the answers, store them, commit. Only stored answers are shown."""

from __future__ import annotations

import os
import secrets
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from dpcli.base.errors import Denied, DpcliError, InputError, InternalError, LedgerError
from dpcli.release.group_keys import in_declared_order
from dpcli.release.query_answer import STATEMENT, Stored, store, stored_in
from dpcli.release.release_plan import ReleaseOutcome, ReleasePlan, require_expressions
from dpcli.sessions.charged import RUN, UNCHARGED, Session, commit, reason, require_same_books, session_in, session_there
from dpcli.sessions.folder import exclusive, replace_file

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger
    from dpcli.release.aggregate import Aggregation, Totals
    from dpcli.release.engines.sql_engine import SqlEngine
    from dpcli.release.query_answer import QueryAnswer

Result = TypeVar("Result")
KEY_BYTES = 32  # of the hash by which contributions are chosen
Report = Callable[[int, int], None]
LOST = "was charged and no answer was stored: it was lost before anybody saw it; in another folder it is another charge"
UNREADABLE = (
    "expected a table that can be read to its end (in a csv: in each line as many cells as in the first, line ends of one kind, "
    "quotes that end, UTF-8), found one that cannot; where, and why, is private. This release stays charged, without an answer; "
    "in another folder it is another charge"
)
INTERRUPTED = "this release stays charged; asked again, it gives the answers if they were stored, and says so if they were lost"
ANOTHER = "another name, or source.output, is another release and another charge"


def release(
    plan: ReleasePlan, ledger: Ledger | None = None, key: str | None = None, report: Report = lambda done, all_: None
) -> ReleaseOutcome:
    """Answer the queries once; where answers are stored already, return those.

    Args:
        ledger: Charged in full before the data are touched. Where its dataset is cut into blocks, only rows of the window are read.
        key: Key of the charge; random if None.
        report: Called with the queries done, and their number.

    Raises:
        InputError: What the file asks for cannot be done.
        Denied: Its budget or the ledger says no.
        LedgerError: Ledger or folder cannot be relied on, or the release was charged and its answers are lost.
    """
    plan.require_budget()
    plan = plan.reading(ledger)
    with exclusive(plan.folder):
        session = _session(plan, ledger, key)
        stored = stored_in(plan.folder)
        if stored is None or ledger is not None:
            require_same_books(plan.folder, session.charged, ledger, "release")
        if stored is not None:
            _require_stored_by(stored, session, plan)
            _write_statement(plan, stored.answers)
            commit(session, ledger)
            return ReleaseOutcome(plan, plan.folder, stored.run, stored.answers, fresh=False)
        if session.counted:
            _require_unstarted(session, plan, ledger)
        quietly(lambda: require_ready(plan), plan.path, "nothing was charged")
        _start(session, plan, ledger)
        try:
            answers = quietly(lambda: _compute_answers(plan, report), plan.folder, f"this release {LOST}")
            store(plan.folder, Stored(session.run, session.fingerprint, answers, plan.data))
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"{plan.folder}: {INTERRUPTED}") from None
        _write_statement(plan, answers)
        commit(session, ledger)
    return ReleaseOutcome(plan, plan.folder, session.run, answers, fresh=True)


def charged_before(plan: ReleasePlan) -> str:
    """Return the run under which this release was begun in its folder, "" if it was not."""
    session = session_there(plan.folder)
    return session.run if session is not None and session.fingerprint == plan.fingerprint() else ""


def _session(plan: ReleasePlan, ledger: Ledger | None, key: str | None) -> Session:
    """Return the session of the release in the folder, or a new one."""
    session, place = session_there(plan.folder), plan.folder
    if session is None:
        session = session_in(plan.folder, plan.fingerprint(), False, ledger)
        return session if key is None else replace(session, run=key)
    if session.fingerprint != plan.fingerprint():
        raise InputError(
            f"{place}: expected the file as it was when this release began{_and_window(plan)}, found it changed, or a version of dpcli "
            f"that adds other noise: as it was, it gives the same answers; {ANOTHER}"
        )
    if session.charged != (ledger is not None):
        stated = ("the --ledger that was charged for this release", "none") if session.charged else ("no --ledger", "one")
        why = "" if session.charged else f": this release was charged to none; {ANOTHER}"
        raise InputError(f"{place}: expected {stated[0]}, found {stated[1]}{why}")
    if key not in (None, session.run):
        raise InputError(f'{place}: expected the key "{session.run}" of the release that is there, found "{key}"; {ANOTHER}')
    return session


def _and_window(plan: ReleasePlan) -> str:
    return "" if plan.window is None else ", and its window"


def _require_stored_by(stored: Stored, session: Session, plan: ReleasePlan) -> None:
    if (stored.run, stored.fingerprint) != (session.run, session.fingerprint):
        raise InputError(f"{plan.folder}: expected the answers of the release that was charged here, found those of another")
    if stored.data not in ("", plan.data) and os.path.lexists(stored.data):  # else they were moved, and the file with them
        raise InputError(
            f"{plan.folder}: the answers there are about {stored.data}, not about {plan.data}, of which nothing was "
            f"answered; {ANOTHER}"
        )


def _write_statement(plan: ReleasePlan, answers: tuple[QueryAnswer, ...]) -> None:
    """Write the statement beside the answers, unless it exists."""
    from dpcli.release.documents.release import statement

    path = os.path.join(plan.folder, STATEMENT)
    if os.path.lexists(path):
        return
    try:
        replace_file(path, statement(plan, answers).encode())
    except OSError as error:
        raise LedgerError(
            f"{path}: cannot be written ({error.strerror}): the answers are stored, and given when asked again"
        ) from None


def _require_unstarted(session: Session, plan: ReleasePlan, ledger: Ledger | None) -> None:
    """Raise LedgerError unless the charge was made and not started: from its start on the data may have been touched.

    The folder notes that the ledger was charged. A ledger without that charge is another one, or was restored from an earlier state.
    """
    run = None if ledger is None else ledger.state().runs.get(session.run)
    if ledger is not None and run is None:
        raise LedgerError(
            f'dataset "{ledger.dataset}": no run {session.run[:12]}, under which this release was charged: another ledger, or an '
            "earlier state of it"
        )
    if run is None or run.status != "reserved":
        raise LedgerError(f"{plan.folder}: this release {LOST}")


def _start(session: Session, plan: ReleasePlan, ledger: Ledger | None) -> None:
    """Charge the release and start it, which only one process can.

    The folder records the charge before the ledger does, and the ledger before any data are touched.
    """
    if ledger is None:
        session.write()
        replace(session, counted=True).write()
        return
    known = ledger.state().runs.get(session.run)
    if known is not None and not session.counted and known.status != "reserved":
        raise Denied(
            f'dataset "{ledger.dataset}": expected a new key, found "{session.run}", which was charged before: its answers are in the '
            "folder where it was released; another key is another charge"
        )
    session.write()
    try:
        ledger.reserve(plan.pipeline, session.run, why=reason("release", plan.path, plan.pipeline))
    except UNCHARGED:
        if known is None and not session.counted:  # nothing was charged: another release may use the folder
            os.remove(os.path.join(plan.folder, RUN))
        raise
    replace(session, counted=True).write()
    if ledger.start(session.run).repeated:
        raise Denied(f'dataset "{ledger.dataset}": "{session.run}" was started by another process: it answers, in its own folder')


def _compute_answers(plan: ReleasePlan, report: Report) -> tuple[QueryAnswer, ...]:
    """Compute every answer in memory. The charge is made by now, and no error tells anything about the data."""
    from dpcli.release.engines.source_engine import opened

    answers = []
    with opened(plan.source, plan.path, plan.window) as engine:
        for number, one in enumerate(plan.queries):
            question = one.query.aggregation(one.setting)
            answer = one.query.answer(one.setting, _totals(engine, question, plan.path))
            answers.append(in_declared_order(answer, question.keys, one.query.by))
            report(number + 1, len(plan.queries))
    return tuple(answers)


def _totals(engine: SqlEngine, question: Aggregation, path: str) -> Totals:
    """Return exact totals. Raises InputError in the same words whatever went wrong, as the engine has read private rows.

    The charge stands: to refund it, or to test before it, would tell for free whether all rows can be read.
    """
    try:
        return engine.totals(question, secrets.token_bytes(KEY_BYTES))
    except InputError:
        failure = InputError(f"{path}: source: {UNREADABLE}")
    raise failure  # outside of except, else it would hold the engine's error


def require_ready(plan: ReleasePlan) -> None:
    """Raise InputError if an expression is refused or the source cannot be opened or lacks a column; Unavailable if a package is
    missing. No row is read.
    """
    from dpcli.release.aggregate import totals_of
    from dpcli.release.engines.source_engine import require_source
    from dpcli.release.noise.samplers import require_samplers

    require_samplers()
    require_expressions(plan.source, plan.queries, plan.path)
    questions = [priced.query.aggregation(priced.setting) for priced in plan.queries]
    require_source(plan.source, plan.path, questions, plan.window)
    for priced, question in zip(plan.queries, questions, strict=True):  # errors that need no data must come before the charge
        priced.query.answer(priced.setting, totals_of((), question))
        priced.query.expected_error(priced.setting)


def quietly(done: Callable[[], Result], place: str, charge: str) -> Result:
    """Call `done` so that no error of a library quotes the data.

    Raises DpcliError as `done` does; LedgerError with the system's words for an OSError; for any other error InternalError, which names its
    type and line and holds nothing else of it.

    Args:
        place: For messages.
        charge: What became of the charge, a clause.
    """
    try:
        return done()
    except DpcliError:
        raise
    except OSError as error:
        failure: DpcliError = LedgerError(f"{place}: cannot be answered ({error.strerror or type(error).__name__}): {charge}")
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(last.filename)}:{last.lineno}"
        failure = InternalError(
            f"{place}: internal error ({type(error).__name__}, {where}), whose words may quote the data: {charge}"
        )
    raise failure
