"""The answers of a ledger as documents: to a request, to the import of a history, to the opening, and to a dry run.

A *document* is what a command prints, before a format such as text or JSON is chosen (dpcli/document/document.py). Its `data` is the JSON,
`details` are the lines of the text, `notes` sentences below the tables, `records` the lines of jsonl, and `total` is a single number;
`alerts` are also printed on standard error.

A request charges a run, starts, commits or voids it, or changes the cap, a quota and the like; a *receipt* says what the ledger wrote, and
a denial that it wrote nothing. In a ledger of two persons a request may become a *proposal*, which changes nothing until another person
approves. A *history* is a list of runs that were made before the ledger was opened, and a *certificate* a proof of an epsilon that a small
program can check (`dpcli certify`). A dataset may be cut into *blocks*, each with a cap of its own; a run is charged on the blocks of its
*window*, and the *fullest* block has the largest used share. The `family` in the terms says how the dataset is cut. In *declared mode* all
runs were fixed at the opening. What is left is rounded down.

The exit code is 1 if the request is denied. It is 0 if the request is granted, now or before, and also for a proposal, whose JSON says
"granted": false.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from textwrap import wrap
from typing import TYPE_CHECKING

from dpcli.base.errors import CannotCertify, Denied, NotRepresentable
from dpcli.document.document import Document
from dpcli.file.pipeline.datasets import UNCHECKED
from dpcli.ledger.balance import remaining_room
from dpcli.ledger.blocks.room import window_words
from dpcli.ledger.chain import LedgerEntry
from dpcli.ledger.charges.ledger_run import Run
from dpcli.ledger.denial import OVER_QUOTA, cost_words
from dpcli.ledger.documents.ledger_balance import composition_words, delta_remark, delta_warning, guarantee_words, left_percent
from dpcli.ledger.documents.ledger_data import (
    balance_data,
    entry_data,
    proposal_answer,
    quota_warnings,
    quota_words,
    share_spent_text,
    terms_data,
    uncharged_member_note,
)
from dpcli.ledger.entry_log import Receipt
from dpcli.ledger.governance.proposals import proposal_numbered, subject_of
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.requests import certificate_of
from dpcli.ledger.state import LedgerState
from dpcli.ledger.stores.places import open_ledger
from dpcli.lint.delta import judged_deltas
from dpcli.lint.documents.diagnostics import note

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline

SCHEMA = "dpcli/budget/v2"  # value of "schema" in the JSON output
DETAIL_WIDTH = 110  # characters of a line of a denial on a terminal; arbitrary
# The past participle of each kind of request, for headlines.
PARTICIPLES = {"spend": "charged", "reserve": "reserved", "start": "started", "commit": "committed", "void": "voided"}
PAST_RUNS_NOTE = (
    "the cap also bounds these runs if it was fixed before they were made, or if neither the runs nor the cap depend on outputs"
)
NO_FINGERPRINT_WARNING = "warning: without --data, the same data can be registered twice under different names"


def receipt(ledger: Ledger, ask: Callable[[], Receipt]) -> Document:
    """Make a request by calling `ask`, and return the answer. The request is granted, was granted before, or is denied.

    If the request is denied, nothing was written, and the exit code is 1.
    """
    try:
        result = ask()
    except Denied as denial:
        return _denial_document(ledger, denial, "the run")
    if result.entry is not None and result.entry.kind == "propose":
        return _proposal_document(result, result.entry)
    return _grant_document(ledger, result)


def _proposal_document(result: Receipt, entry: LedgerEntry) -> Document:
    """Return the document of a request that became a proposal, which changes nothing yet."""
    state = result.state
    proposal = proposal_numbered(state.proposals, entry.row.seq)
    assert proposal is not None
    data = {"schema": SCHEMA, "granted": False, "repeated": result.repeated, "entry": entry_data(entry)}
    return Document(
        proposal_answer(proposal, state), {**data, **balance_data(state), "exit_code": 0}, "warn", total=share_spent_text(state)
    )


def _grant_document(ledger: Ledger, result: Receipt) -> Document:
    """Return the document of a granted request, with warnings about delta and quotas."""
    state, run, entry = result.state, result.run, result.entry
    is_charge = entry is not None and entry.kind in ("spend", "reserve")
    warning = delta_warning(state, run) if run is not None and not result.repeated else ""
    lines = [warning] if warning else []
    certificate = certificate_of(run.content) if is_charge and run is not None else None
    if certificate is not None:
        lines.append(f"certificate: sha256:{certificate} (dpcli certify --check)")
    if is_charge and run is not None and run.window:
        lines.append(f"window: {window_words(state, run.window)}; {UNCHECKED}")
    alerts = list(result.notes)
    if entry is not None and entry.kind == "quota":
        alerts += uncharged_member_note(state, state.quotas[subject_of(entry.content)])
    elif is_charge:
        alerts += quota_warnings(state, ledger.who)
    data = {
        "schema": SCHEMA,
        "granted": True,
        "repeated": result.repeated,
        "entry": entry_data(entry),
        "told": list(result.notes),
        **balance_data(state),
        "exit_code": 0,
    }
    return Document(
        _grant_words(result),
        data,
        "warn" if warning or result.notes else "pass",
        total=share_spent_text(state),
        notes=tuple(lines),
        details=tuple(lines),
        alerts=tuple(alerts),
    )


def import_document(ledger: Ledger, ask: Callable[[], Sequence[Receipt]]) -> Document:
    """Charge a history by calling `ask`, and return the answer. All runs are charged, or some were charged before, or all are denied."""
    try:
        receipts = ask()
    except Denied as denial:
        return _denial_document(ledger, denial, "the history")
    state = ledger.state()
    entries = [entry_data(receipt.entry) or {} for receipt in receipts if receipt.entry is not None]
    runs = f"{len(receipts)} {'run' if len(receipts) == 1 else 'runs'} of the history"
    if not entries:
        answer = f"{runs}: charged before, and nothing was written"
    elif len(entries) < len(receipts):
        answer = f"charged {len(entries)} of {runs}, the others were charged before"
    else:
        answer = f"charged {len(entries)} of {runs}"
    left = f"{left_percent(remaining_room(state))} of the cap is left{delta_remark(state)}"
    if state.open_terms().family is not None:
        left += " on the fullest block"
    notes = (PAST_RUNS_NOTE,) if entries else ()
    data = {
        "schema": "dpcli/budget-import/v1",
        "granted": True,
        "entries": entries,
        "runs": len(receipts),
        **balance_data(state),
        "exit_code": 0,
    }
    return Document(
        f"{answer}{guarantee_words(state)}; {left}",
        data,
        "pass",
        total=share_spent_text(state),
        notes=notes,
        details=notes,
        records=entries,
        alerts=quota_warnings(state, ledger.who) if entries else (),
    )


def _denial_document(ledger: Ledger, denial: Denied, subject: str) -> Document:
    """Return the document of a denial. `subject` is what was denied, in words."""
    headline, *reasons = str(denial).split("\n  ")  # the message has a reason in each further line
    state = ledger.state()
    details = []
    for reason in reasons:
        details += wrap(reason, DETAIL_WIDTH, initial_indent="  ", subsequent_indent="    ")
    return Document(
        headline,
        {"schema": SCHEMA, "granted": False, "reason": str(denial), **balance_data(state), "exit_code": denial.exit_code},
        "fail",
        notes=tuple(reasons),
        total=share_spent_text(state),
        exit_code=denial.exit_code,
        # Every message of a denial by a quota contains OVER_QUOTA.
        why=f"denied: {subject} does not fit in what is left{' of a quota' if OVER_QUOTA in headline else ''}",
        details=tuple(details),
    )


def _grant_words(result: Receipt) -> str:
    """Return the headline for a granted request."""
    state, run = result.state, result.run
    left = _left_words(state, run)
    if run is not None:
        return _run_words(result, run, left)
    if result.entry is None:
        has_blocks = state.open_terms().family is not None  # only then blocks can be retired
        return "already retired: nothing was written" if has_blocks else f"{_cap_words(state)}; {left}"
    seq, content = result.entry.row.seq, result.entry.content
    match result.entry.kind:
        case "retire":
            count = len(state.retired)
            return f"retired, entry {seq}: {count} {'block accepts' if count == 1 else 'blocks accept'} no further run"
        case "quota":
            return f"set, entry {seq}: {quota_words(state, state.quotas[subject_of(content)])}"
        case "rate":
            return f"set, entry {seq}: a login may append at most {content['per_day']:,} entries without a cost in a day"
        case "acknowledge":
            return (
                f"acknowledged, entry {seq}: the charges stay as they are, and dpcli budget verify prints the finding as answered"
            )
        case "refuse":
            return f"entry {content['proposal']} is closed by entry {seq}: nobody can approve it; {left}"
        case "moved":
            return f"closed, entry {seq}: the dataset moves to {content['to']}; dpcli budget copy completes the move"
        case "upgrade":
            return f"upgraded: the entries are now guarded by the definitions of version {state.version}; {left}"
        case _:
            return f"{_cap_words(state)}; {left}"


def _left_words(state: LedgerState, run: Run | None) -> str:
    """Return the remaining part of the cap in words. With blocks, it is the part on the fullest block of the run's window."""
    terms = state.open_terms()
    if terms.family is None:
        subject = "declared runs are" if terms.mode == "declared" else "cap is"
        return f"{left_percent(remaining_room(state))} of the {subject} left{delta_remark(state)}"
    window = () if run is None else run.window
    block = f"the fullest of the {len(window)} blocks of its window" if window else "the fullest block"
    return f"{left_percent(remaining_room(state, window))} of the cap is left on {block}"


def _cap_words(state: LedgerState) -> str:
    return f"amended: the cap is epsilon {state.epsilon!r} at delta = {state.open_terms().delta!r}{guarantee_words(state)}"


def _run_words(result: Receipt, run: Run, left: str) -> str:
    """Return the headline for a granted request about a run. `left` says what is left of the cap."""
    cost = cost_words(run.cost)
    if result.notes:  # the receipt of a repeated charge has notes, and no other
        before = f'"{run.key}" was charged before, by entry {run.seq} of {run.content.get("when")}: nothing was written'
        return f"{before}; {cost} is {run.status}; {left}"
    if result.entry is None:
        advice = "; a run that draws noise again needs a key of its own" if run.status == "committed" else ""
        return f'"{run.key}": {cost} (charged by entry {run.seq}) is already {run.status}: nothing was written; {left}{advice}'
    return f'{PARTICIPLES[result.entry.kind]} "{run.key}": {cost}, entry {result.entry.row.seq}; {left}'


def opening_document(ledger: Ledger) -> Document:
    """Return the document of the opening of a ledger, with its terms."""
    state = ledger.state()
    terms = state.open_terms()
    headline = (
        f'opened the ledger of "{ledger.dataset}" in {ledger.store.place}: at most epsilon {terms.epsilon!r} at delta = {terms.delta!r} '
        f"per {terms.unit}, {terms.adjacency}; {composition_words(state)}; these terms cannot be changed{guarantee_words(state)}"
    )
    lines = (NO_FINGERPRINT_WARNING,) if terms.fingerprint is None and terms.family is None else ()
    data = {"schema": SCHEMA, **terms_data(state), **balance_data(state), "told": list(lines), "exit_code": 0}
    windows_differ = terms.family is not None and terms.dataset_size is None  # each window has its own size
    deltas = {"--delta": None if windows_differ else terms.delta}
    # Lint findings about a delta that is too large for the number of records, or that cannot be compared with it, as lines.
    alerts = tuple(map(note, judged_deltas(deltas, terms.dataset_size, ledger.store.place)))
    return Document(headline, data, "pass", total=share_spent_text(state), notes=lines, details=lines, alerts=alerts)


def with_quote(document: Document, ledger: str | None, dataset: str | None, pipeline: Pipeline, run: str = "") -> Document:
    """Return the document of a dry run with the answer of a ledger, which states whether the run would fit.

    Without a ledger, the document is returned unchanged. If the run was charged before, under the key `run`, it fits, because nothing more
    would be charged.

    Raises LedgerError if the ledger cannot be read, and InputError if the dataset must be named, or the run has another unit or adjacency.
    """
    if ledger is None:
        return document
    from dpcli.ledger.planning.quote import quote

    if run:
        with open_ledger(ledger, dataset) as book:
            known = book.state().runs.get(run)
        if known is not None and known.status != "void":
            return _with_answer(document, f"charged before under the key {run[:12]}: nothing more would be charged", code=0)
    try:
        answer = quote(ledger, dataset, pipeline)
        return _with_answer(document, answer.message, code=0 if answer.fits else 1)
    except (CannotCertify, NotRepresentable) as refusal:
        return _with_answer(document, str(refusal), refusal.exit_code)


def _with_answer(document: Document, message: str, code: int) -> Document:
    """Return the document of a dry run with the answer of the ledger. `code` is the exit code of the answer, which is 0 if the run fits."""
    fits, exit_code = code == 0, document.exit_code or code
    line = f"{'fits in the ledger' if fits else 'the ledger would deny it'}: {message}"
    extended = replace(
        document,
        data={**document.data, "ledger": {"fits": fits, "message": message}, "exit_code": exit_code},
        notes=(*document.notes, line),
        details=(*document.details, line),
    )
    if fits:
        return extended
    headline = f"{document.headline}; the ledger would deny it"
    return replace(extended, headline=headline, verdict="fail", exit_code=exit_code, why=document.why or "the ledger would deny it")
