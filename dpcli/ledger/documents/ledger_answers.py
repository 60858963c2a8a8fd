"""The answers of a ledger as documents: to a request, to the import of a history, to the opening, and to a dry run."""

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
from dpcli.ledger.denial import OVER_QUOTA, costs
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
from dpcli.ledger.governance.proposals import proposal_numbered, subject_of
from dpcli.ledger.ledger import Ledger, Receipt
from dpcli.ledger.requests import certificate_of
from dpcli.ledger.state import LedgerState, Run
from dpcli.ledger.stores.places import open_ledger
from dpcli.lint.delta import judged_deltas
from dpcli.lint.documents.diagnostics import note

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline

SCHEMA = "dpcli/budget/v2"  # value of "schema" in the JSON output
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
        return _denial_document(ledger, denial, "the run does")
    state, run, kind = result.state, result.run, _entry_kind(result)
    data = {"schema": SCHEMA, "granted": kind != "propose", "repeated": result.repeated, "entry": entry_data(result.entry)}
    if kind == "propose" and result.entry is not None:
        proposal = proposal_numbered(state.proposals, result.entry.row.seq)
        assert proposal is not None
        return Document(
            proposal_answer(proposal, state), {**data, **balance_data(state), "exit_code": 0}, "warn", total=share_spent_text(state)
        )
    charged = kind in ("spend", "reserve")
    warning = delta_warning(state, run) if run is not None and not result.repeated else ""
    window = run.window if charged and run is not None else ()
    named = certificate_of(run.content) if charged and run is not None else None
    lines = (
        *((warning,) if warning else ()),
        *(() if named is None else (f"certificate: sha256:{named} (dpcli certify --check)",)),
        *((f"window: {window_words(state, window)}; {UNCHECKED}",) if window else ()),
    )
    quota = state.quotas[subject_of(result.entry.content)] if kind == "quota" and result.entry is not None else None
    alerts = uncharged_member_note(state, quota) if quota is not None else quota_warnings(state, ledger.who) if charged else ()
    return Document(
        _grant_words(result, kind),
        {**data, "told": list(result.notes), **balance_data(state), "exit_code": 0},
        "warn" if warning or result.notes else "pass",
        total=share_spent_text(state),
        notes=lines,
        details=lines,
        alerts=(*result.notes, *alerts),
    )


def _entry_kind(result: Receipt) -> str:
    return "" if result.entry is None else result.entry.kind


def import_document(ledger: Ledger, ask: Callable[[], Sequence[Receipt]]) -> Document:
    """Charge a history by calling `ask`, and return the answer. All runs are charged, or some were charged before, or all are denied."""
    try:
        receipts = ask()
    except Denied as denial:
        return _denial_document(ledger, denial, "the history does")
    state, entries = ledger.state(), [entry_data(each.entry) or {} for each in receipts if each.entry is not None]
    runs = f"{len(receipts)} {'run' if len(receipts) == 1 else 'runs'} of the history"
    charged = f"charged {len(entries)} of {runs}" + (", the others were charged before" if len(receipts) > len(entries) else "")
    done = charged if entries else f"{runs}: charged before, and nothing was written"
    notes = (PAST_RUNS_NOTE,) if entries else ()
    fullest = "" if state.open_terms().family is None else " on the fullest block"
    return Document(
        f"{done}{guarantee_words(state)}; {left_percent(remaining_room(state))} of the cap is left{delta_remark(state)}{fullest}",
        {
            "schema": "dpcli/budget-import/v1",
            "granted": True,
            "entries": entries,
            "runs": len(receipts),
            **balance_data(state),
            "exit_code": 0,
        },
        "pass",
        total=share_spent_text(state),
        notes=notes,
        details=notes,
        records=entries,
        alerts=quota_warnings(state, ledger.who) if entries else (),
    )


def _denial_document(ledger: Ledger, denial: Denied, subject: str) -> Document:
    """Return the document of a denial. `subject` begins the reason, for example "the run does"."""
    headline, *why = str(denial).split("\n  ")
    state = ledger.state()
    return Document(
        headline,
        {"schema": SCHEMA, "granted": False, "reason": str(denial), **balance_data(state), "exit_code": denial.exit_code},
        "fail",
        notes=tuple(why),
        total=share_spent_text(state),
        exit_code=denial.exit_code,
        why=f"denied: {subject} not fit in what is left{' of a quota' if OVER_QUOTA in headline else ''}",
        details=tuple(line for text in why for line in wrap(text, 110, initial_indent="  ", subsequent_indent="    ")),
    )


def _grant_words(result: Receipt, kind: str) -> str:
    """Return the headline for a granted request. `kind` is the kind of the entry, or "" if nothing was written."""
    state, run = result.state, result.run
    cut, declared = state.open_terms().family is not None, state.open_terms().mode == "declared"
    if cut:
        window = () if run is None else run.window
        of = f"the fullest of the {len(window)} blocks of its window" if window else "the fullest block"
        left = f"{left_percent(remaining_room(state, window))} of the cap is left on {of}"
    else:
        left = f"{left_percent(remaining_room(state))} of the {'declared runs are' if declared else 'cap is'} left{delta_remark(state)}"
    if run is not None:
        return _run_words(result, run, left)
    if result.entry is None:
        return "already retired: nothing was written" if cut else f"{_cap_words(state)}; {left}"
    seq, content = result.entry.row.seq, result.entry.content
    if kind == "retire":
        closed = len(state.retired)
        return f"retired, entry {seq}: {closed} {'block accepts' if closed == 1 else 'blocks accept'} no further run"
    if kind == "quota":
        return f"set, entry {seq}: {quota_words(state, state.quotas[subject_of(content)])}"
    if kind == "refuse":
        return f"entry {content['proposal']} is closed by entry {seq}: nobody can approve it; {left}"
    if kind == "moved":
        return f"closed, entry {seq}: the dataset moves to {content['to']}; dpcli budget copy completes the move"
    if kind == "upgrade":
        return f"upgraded: the entries are now guarded by the definitions of version {state.version}; {left}"
    return f"{_cap_words(state)}; {left}"


def _cap_words(state: LedgerState) -> str:
    return f"amended: the cap is epsilon {state.epsilon!r} at delta = {state.open_terms().delta!r}{guarantee_words(state)}"


def _run_words(result: Receipt, run: Run, left: str) -> str:
    """Return the headline for a granted request about a run."""
    cost = costs(run.cost)
    if result.notes:
        before = f'"{run.key}" was charged before, by entry {run.seq} of {run.content.get("when")}: nothing was written'
        return f"{before}; {cost} is {run.status}; {left}"
    if result.entry is None:
        again = "; a run that draws noise again needs a key of its own" if run.status == "committed" else ""
        return f'"{run.key}": {cost} (charged by entry {run.seq}) is already {run.status}: nothing was written; {left}{again}'
    return f'{PARTICIPLES[result.entry.kind]} "{run.key}": {cost}, entry {result.entry.row.seq}; {left}'


def opening_document(ledger: Ledger) -> Document:
    """Return the document of the opening of a ledger, with its terms."""
    state = ledger.state()
    stated = state.open_terms()
    headline = (
        f'opened the ledger of "{ledger.dataset}" in {ledger.store.place}: at most epsilon {stated.epsilon!r} at delta = {stated.delta!r} '
        f"per {stated.unit}, {stated.adjacency}; {composition_words(state)}; these terms cannot be changed{guarantee_words(state)}"
    )
    lines = () if stated.fingerprint is not None or stated.family is not None else (NO_FINGERPRINT_WARNING,)
    data = {"schema": SCHEMA, **terms_data(state), **balance_data(state), "told": list(lines), "exit_code": 0}
    delta = stated.delta if stated.dataset_size is not None or stated.family is None else None  # each window has its own size
    problems = judged_deltas({"--delta": delta}, stated.dataset_size, ledger.store.place)
    return Document(
        headline, data, "pass", total=share_spent_text(state), notes=lines, details=lines, alerts=tuple(map(note, problems))
    )


def with_quote(document: Document, ledger: str | None, dataset: str | None, pipeline: Pipeline, run: str = "") -> Document:
    """Return the document of a dry run with the answer of a ledger, which states whether the run would fit.

    Args:
        document: The document without the answer.
        ledger: Path or URL of the ledger. If it is None, the document is returned unchanged.
        dataset: Name of the dataset; None for the only dataset of the ledger.
        pipeline: The pipeline of the run.
        run: The key under which the run may have been charged before. If it was, the run fits, as nothing more would be charged.

    Raises:
        LedgerError: The ledger cannot be read.
        InputError: The dataset must be named, or the run states another unit or adjacency.
    """
    if ledger is None:
        return document
    from dpcli.ledger.planning.quote import quote

    if run:
        with open_ledger(ledger, dataset) as book:
            known = book.state().runs.get(run)
        if known is not None and known.status != "void":
            return _with_answer(document, True, f"charged before under the key {run[:12]}: nothing more would be charged")
    try:
        answer = quote(ledger, dataset, pipeline)
        return _with_answer(document, answer.fits, answer.message)
    except (CannotCertify, NotRepresentable) as refusal:
        return _with_answer(document, False, str(refusal), refusal.exit_code)


def _with_answer(document: Document, fits: bool, message: str, code: int = 1) -> Document:
    """Return the document of a dry run with the answer of the ledger. `code` is the exit code if the run does not fit."""
    line = f"{'fits in the ledger' if fits else 'the ledger would deny it'}: {message}"
    exit_code = document.exit_code if fits or document.exit_code else code
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
