"""The session of every command of private prediction: charged once, bound to what it reads by content, and its answers counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from dpcli.predict.models.content import same_content
from dpcli.predict.queries.ledger import require_counting
from dpcli.sessions.charged import Session, session_in

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger
    from dpcli.sessions.window import Resumable

# What a statement says where no ledger counts.
RESTORED = (
    "No ledger was charged: whether the session's folder was put back as a whole to an earlier state, and answered again, nothing can "
    "tell; keep it as one keeps a ledger."
)


def session_of(plan: Resumable, folder: str, resume: bool, ledger: Ledger | None, inputs: Mapping[str, str]) -> Session:
    """A new session of a plan, or the one in its folder that goes on; nothing is charged yet.

    inputs: what it reads beside its file, by name and content. Raises InputError where the file or one of these has changed, and
    LedgerError where the ledger cannot count answers.
    """
    if ledger is not None:
        require_counting(ledger)
    found = session_in(folder, plan.fingerprint(), resume, ledger, inputs, same_content)
    rows = None if plan.rows is None else plan.rows.content()
    return replace(found, window=plan.pipeline.privacy.window or (), rows=rows)
