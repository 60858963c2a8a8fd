"""A release from the charge to the answers: reserve and start the charge, compute the answers, store them, commit the charge.

This order is the guarantee. A *session* is the record of the charge in the folder of the release, and a *run* is the charge in the ledger
(reserved, started, committed). The folder records the run before the ledger does. The ledger is charged and the run started before a row
is read (only the header of a csv is read earlier). Answers are shown only once they are stored. So a crash may lose answers, but they are
never given twice with different noise, and never without a charge. A repeated call returns what is stored.

An error that depends on private values is an answer without noise. So `_readable` has one message for all unreadable data, and
`call_quietly` drops the messages of libraries.
"""

from __future__ import annotations

import os
import secrets
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from dpcli.base.errors import Denied, DpcliError, InputError, InternalError, LedgerError
from dpcli.release.group_keys import in_declared_order
from dpcli.release.query_answer import CROISSANT, STATEMENT, StoredAnswers, store, stored_answers
from dpcli.release.release_plan import ReleaseOutcome, ReleasePlan, require_expressions
from dpcli.sessions.charged import REFUSALS, RUN, Session, commit, existing_session, open_session, reason
from dpcli.sessions.folder import exclusive, replace_file

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger
    from dpcli.release.query_answer import QueryAnswer

Result = TypeVar("Result")
# Length of the secret of the hash that draws which rows count. 16 bytes cannot be guessed. With them, the text that is hashed, which also
# has the unit and the key, fits into one block of SHA-256 if these are short. Two blocks would take twice the time.
SECRET_BYTES = 16
Progress = Callable[[int, int], None]  # receives the number of queries answered so far, and the number of all queries
LOST = (
    "was charged, but no answer was stored: the answer was lost before anybody saw it; a release in another folder is charged again"
)
UNREADABLE = (
    "expected a table that can be read to its end (a csv: UTF-8, equally many cells in each line, line ends of one kind, closed "
    "quotes), found an unreadable table; the place and the cause are private. This release stays charged and has no answer; a release "
    "in another folder is charged again"
)
INTERRUPTED = "this release stays charged; the next call returns the answers if they were stored, and reports if they were lost"
NEW_RELEASE = "a release with another name or source.output is a new release with a new charge"


def release(
    plan: ReleasePlan, ledger: Ledger | None = None, key: str | None = None, progress: Progress = lambda done, total: None
) -> ReleaseOutcome:
    """Answer the queries of a plan. If the answers are stored already, return the stored answers.

    ledger: ledger that is charged in full before any data are read. If its dataset has blocks, only rows of the window are read.
    key: key of the charge; a random one if None.

    Raises:
        InputError: The file asks for something that cannot be done.
        Denied: The file's budget or the ledger refuses the charge.
        CannotCertify, NotRepresentable: The release has no cost under the terms of the ledger.
        LedgerError: The ledger or the folder is not reliable, or the release was charged and its answers are lost.
        Unavailable: A package is missing.
        InternalError: A library raised an error of its own; its message is not shown, because it may quote the data.
    """
    plan.require_budget()
    plan = plan.with_window(ledger)
    with exclusive(plan.folder):
        session = _session(plan, ledger, key)
        stored = stored_answers(plan.folder)
        if stored is not None:
            _require_stored_by(stored, session, plan)
            _require_charged_to(ledger, session)
            # An earlier call may have ended between these steps. Each of them does nothing if it was done before.
            _write_documents(plan, stored.answers)
            commit(session, ledger)
            return ReleaseOutcome(plan, plan.folder, stored.run, stored.answers, fresh=False)
        if session.counted:  # the folder records that an earlier call charged the run, but has no answers
            _require_unstarted(session, plan, ledger)
        call_quietly(lambda: require_ready(plan), plan.path, "nothing was charged")
        _start(session, plan, ledger)
        try:
            answers = call_quietly(lambda: _compute_answers(plan, progress), plan.folder, f"this release {LOST}")
            store(plan.folder, StoredAnswers(session.run, session.fingerprint, answers, plan.data))
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"{plan.folder}: {INTERRUPTED}") from None
        _write_documents(plan, answers)
        commit(session, ledger)
    return ReleaseOutcome(plan, plan.folder, session.run, answers, fresh=True)


def charged_before(plan: ReleasePlan) -> str:
    """Return the key of the run that began this release in its folder; "" if there is none."""
    session = existing_session(plan.folder)
    return session.run if session is not None and session.fingerprint == plan.fingerprint() else ""


def _session(plan: ReleasePlan, ledger: Ledger | None, key: str | None) -> Session:
    """Return the session that the folder records for this release, or a new session.

    Raises InputError if the folder's release has another fingerprint or another key, was charged to a ledger and none is given, or was
    charged to none and one is given.
    """
    session, place = existing_session(plan.folder), plan.folder
    if session is None:
        session = open_session(plan.folder, plan.fingerprint(), resume=False, ledger=ledger)
        return session if key is None else replace(session, run=_own_key(ledger, key))
    if session.fingerprint != plan.fingerprint():
        unchanged = ["the file"]
        if plan.joined:
            unchanged.append("the joined tables")
        if plan.window is not None:
            unchanged.append("the window")
        raise InputError(
            f"{place}: expected {' and '.join(unchanged)} with which this release began, found a change, or a version of dpcli that adds "
            f"different noise: without the change, the stored answers are given; {NEW_RELEASE}"
        )
    if session.charged != (ledger is not None):  # `charged`: whether the release began with a ledger
        if session.charged:
            expected, given = "the --ledger that was charged for this release", "none"
        else:
            expected, given = "no --ledger", f"one: this release was charged to no ledger; {NEW_RELEASE}"
        raise InputError(f"{place}: expected {expected}, found {given}")
    if key is not None and session.run not in (key, _own_key(ledger, key)):
        raise InputError(f'{place}: expected the key "{session.run}" of the release in this folder, found "{key}"; {NEW_RELEASE}')
    return session


def _own_key(ledger: Ledger | None, key: str) -> str:
    """Return the key of the run for a key that the user gave. A ledger in a database puts the user's login before it."""
    return key if ledger is None else ledger.own_key(key)


def _require_stored_by(stored: StoredAnswers, session: Session, plan: ReleasePlan) -> None:
    """Raise InputError unless the stored answers belong to the session, and to the plan's data or a file that is gone."""
    if (stored.run, stored.fingerprint) != (session.run, session.fingerprint):
        raise InputError(
            f"{plan.folder}: expected the answers of the release that was charged in this folder, found answers of another release"
        )
    if stored.data not in ("", plan.data) and os.path.lexists(stored.data):  # a file that is gone was moved with its data
        raise InputError(f"{plan.folder}: the stored answers are about {stored.data}, not about {plan.data}; {NEW_RELEASE}")


def _write_documents(plan: ReleasePlan, answers: tuple[QueryAnswer, ...]) -> None:
    """Write the statement and the Croissant description into the folder of the answers, each unless it exists.

    Raises LedgerError if a file cannot be written.
    """
    from dpcli.release.documents.croissant import croissant
    from dpcli.release.documents.release import statement

    for name, text_of in ((STATEMENT, statement), (CROISSANT, croissant)):
        path = os.path.join(plan.folder, name)
        if os.path.lexists(path):
            continue
        try:
            text = text_of(plan, answers)
            if text is not None:
                replace_file(path, text.encode())
        except OSError as error:
            raise LedgerError(
                f"{path}: cannot be written ({error.strerror}): the answers are stored, and the next call returns them"
            ) from None


def _require_unstarted(session: Session, plan: ReleasePlan, ledger: Ledger | None) -> None:
    """Raise LedgerError unless the ledger states that the charge was made and the release was not started.

    A release that was started may have read the data, and its answers are lost. Without a ledger, it is unknown whether it was started.
    """
    _require_charged_to(ledger, session)
    if ledger is None or ledger.state().runs[session.run].status != "reserved":
        raise LedgerError(f"{plan.folder}: this release {LOST}")


def _require_charged_to(ledger: Ledger | None, session: Session) -> None:
    """Raise LedgerError if the ledger does not have the run of the session, whose charge the folder records."""
    if ledger is not None and session.run not in ledger.state().runs:
        raise LedgerError(
            f'dataset "{ledger.dataset}": the ledger has no run {session.run[:12]}, which this release was charged as: it is another '
            f"ledger, or was restored to an earlier state; {NEW_RELEASE}"
        )


def _start(session: Session, plan: ReleasePlan, ledger: Ledger | None) -> None:
    """Charge the release and mark it as started. Only one process can start a release.

    The folder records the charge before the ledger does, and the ledger records it before any data are read.

    Raises:
        Denied: The key belongs to an earlier release, or the budget does not allow the charge.
        InputError, CannotCertify, NotRepresentable: The ledger refuses the file.
        LedgerError: The ledger or the folder is not reliable, or another process started this release.
    """
    if ledger is None:  # there is nothing to charge, but a second call must not draw noise again
        session.write()
        replace(session, counted=True).write()
        return
    recorded = ledger.state().runs.get(session.run)
    if recorded is not None and not session.counted and recorded.status != "reserved":
        raise Denied(
            f'dataset "{ledger.dataset}": expected a new key, found "{session.run}", which was charged before: the answers are in the '
            "folder of that release; another key is a new charge"
        )
    session.write()
    try:
        # A run that an earlier call reserved is not charged again.
        ledger.reserve(plan.pipeline, session.run, why=reason("release", plan.path, plan.pipeline))
    except REFUSALS:  # the ledger refused the charge, and wrote nothing
        if recorded is None and not session.counted:  # nothing was charged, so another release may use the folder
            os.remove(os.path.join(plan.folder, RUN))
        raise
    replace(session, counted=True).write()  # `counted`: the folder records that the run was charged
    # `Ledger.start` raises LedgerError for a run that was started. A receipt that says `repeated`, granted before, would mean the same.
    if ledger.start(session.run).repeated:
        raise Denied(f'dataset "{ledger.dataset}": "{session.run}" was started by another process, which answers in its own folder')


def _compute_answers(plan: ReleasePlan, progress: Progress) -> tuple[QueryAnswer, ...]:
    """Return the answers to all queries. The release is charged already. The caller hides the messages of errors of libraries."""
    from dpcli.release.engines.source_engine import open_source

    answers, aggregations = [], [priced.query.aggregation(priced.setting) for priced in plan.queries]
    with open_source(plan.source, plan.path, plan.window, plan.given) as engine:
        _readable(lambda: engine.limit_columns(aggregations), plan.path)
        for number, (priced, aggregation) in enumerate(zip(plan.queries, aggregations, strict=True), start=1):
            secret = secrets.token_bytes(SECRET_BYTES)  # a new one for each query, so that the rows that count are drawn anew
            totals = _readable(partial(engine.totals, aggregation, secret), plan.path)
            answer = priced.query.answer(priced.setting, totals)
            answers.append(in_declared_order(answer, aggregation.keys, priced.query.by))
            progress(number, len(plan.queries))
    return tuple(answers)


def _readable(action: Callable[[], Result], path: str) -> Result:
    """Return the result of `action`, which uses the data.

    Raises InputError if the data cannot be read. The message is always UNREADABLE, since the cause may reveal private rows. The charge is
    not refunded: a refund, or a test before the charge, would reveal at no cost whether all rows can be read.
    """
    try:
        return action()
    except InputError:
        failure = InputError(f"{path}: source: {UNREADABLE}")
    raise failure  # outside of the except clause, so that the engine's error is not attached as context


def require_ready(plan: ReleasePlan) -> None:
    """Check everything that a release needs, without reading a row.

    Raises:
        InputError: An expression is refused, or the source cannot be opened or lacks a column.
        Unavailable: A package is missing.
    """
    from dpcli.release.aggregate import totals_of
    from dpcli.release.engines.source_engine import require_source
    from dpcli.release.noise.samplers import require_samplers

    require_samplers()
    require_expressions(plan.source, plan.queries, plan.path)
    aggregations = [priced.query.aggregation(priced.setting) for priced in plan.queries]
    require_source(plan.source, plan.path, aggregations, plan.window, plan.given)
    for priced, aggregation in zip(plan.queries, aggregations, strict=True):
        # Each answer is computed on no data, so that an error that does not depend on the data comes before the charge.
        priced.query.expected_error(priced.setting)
        priced.query.answer(priced.setting, totals_of((), aggregation))


def call_quietly(action: Callable[[], Result], place: str, charge: str) -> Result:
    """Return the result of `action`. Errors of libraries are replaced, since their messages may quote the data.

    place: file or folder that messages name.
    charge: clause for messages that says what happened to the charge.

    Raises:
        DpcliError: Errors of dpcli in `action` are passed on unchanged.
        LedgerError: `action` raised an OSError. The message has the system's description.
        InternalError: `action` raised any other error. The message names only its type and line.
    """
    try:
        return action()
    except DpcliError:
        raise
    except OSError as error:
        failure: DpcliError = LedgerError(f"{place}: cannot be answered ({error.strerror or type(error).__name__}): {charge}")
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        line = f"{os.path.basename(frame.filename)}:{frame.lineno}"
        failure = InternalError(
            f"{place}: internal error ({type(error).__name__}, {line}); its message is not shown, since it may quote the data: {charge}"
        )
    raise failure
