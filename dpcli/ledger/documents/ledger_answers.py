"""What a ledger answers to a request: granted, granted before, denied; and its opening."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from textwrap import wrap

from dpcli.base.errors import Denied
from dpcli.document.document import Document
from dpcli.file.pipeline.datasets import UNCHECKED
from dpcli.ledger.blocks.room import window_words
from dpcli.ledger.denial import OVER_QUOTA, costs
from dpcli.ledger.documents.ledger_balance import delta_warning, guaranteed, how, left_percent, scarce
from dpcli.ledger.documents.ledger_data import balance, entry_data, terms, total
from dpcli.ledger.documents.ledger_proposals import proposed
from dpcli.ledger.documents.ledger_quotas import said, strangers, warnings
from dpcli.ledger.ledger import Ledger, Receipt
from dpcli.ledger.proposals import Proposal, numbered, subject_of
from dpcli.ledger.remaining import room
from dpcli.ledger.state import LedgerState
from dpcli.lint.delta import judged_deltas
from dpcli.lint.documents.diagnostics import note

DONE = {
    "spend": "charged",
    "reserve": "reserved",
    "start": "started",
    "commit": "committed",
    "void": "voided",
    "amend": "amended",
    "retire": "retired",
}

EARLIER = "the cap bounds these runs too if it was fixed before they were made, or if neither they nor it were chosen for what they showed"
UNKNOWN = "no --data or --fingerprint: the same data under another name would get a second budget"


def receipt(ledger: Ledger, ask: Callable[[], Receipt]) -> Document:
    """What came of a request: granted, granted before, or denied (exit code 1, nothing written)."""
    try:
        found = ask()
    except Denied as no:
        return _denied(ledger, no, "the run does")
    state, proposal = found.state, _proposal(found)
    if proposal is not None:
        data = {
            "schema": "dpcli/budget/v2",
            "granted": False,
            "repeated": False,
            "entry": entry_data(found.entry),
            **balance(state),
        }
        return Document(proposed(proposal, state), {**data, "exit_code": 0}, "warn", total=total(state))
    data = {
        "schema": "dpcli/budget/v2",
        "granted": True,
        "repeated": found.repeated,
        "entry": entry_data(found.entry),
        "told": list(found.told),
        **balance(state),
    }
    warning = delta_warning(state, found.run) if found.run is not None and not found.repeated else ""
    charged = found.entry is not None and found.entry.kind in ("spend", "reserve")
    window = found.run.window if charged and found.run is not None else ()
    lines = (*((warning,) if warning else ()), *((f"window: {window_words(state, window)}; {UNCHECKED}",) if window else ()))
    return Document(
        _granted(found),
        {**data, "exit_code": 0},
        "warn" if warning or found.told else "pass",
        total=total(state),
        notes=lines,
        details=lines,
        alerts=(*found.told, *_quota_warnings(ledger, found)),
    )


def imported(ledger: Ledger, ask: Callable[[], Sequence[Receipt]]) -> Document:
    """What came of a history: all of it charged, some of it before, or denied as a whole."""
    try:
        found = ask()
    except Denied as no:
        return _denied(ledger, no, "the history does")
    state, entries = ledger.state(), [entry_data(receipt.entry) or {} for receipt in found if receipt.entry is not None]
    left = f"{left_percent(room(state))} of the cap is left{scarce(state)}"
    if state.open_terms().family is not None:
        left = f"{left} on the fullest block"
    runs = f"{len(found)} {'run' if len(found) == 1 else 'runs'} of the history"
    said = f"charged {len(entries)} of {runs}" + (", the others before" if len(found) > len(entries) else "")
    said = said if entries else f"{runs}: charged before, and nothing was written"
    return Document(
        f"{said}{guaranteed(state)}; {left}",
        {
            "schema": "dpcli/budget-import/v1",
            "granted": True,
            "entries": entries,
            "runs": len(found),
            **balance(state),
            "exit_code": 0,
        },
        "pass",
        total=total(state),
        notes=(EARLIER,) if entries else (),
        details=(EARLIER,) if entries else (),
        records=entries,
        alerts=warnings(state, ledger.who) if entries else (),
    )


def _denied(ledger: Ledger, no: Denied, what: str) -> Document:
    data = {
        "schema": "dpcli/budget/v2",
        "granted": False,
        "reason": str(no),
        **balance(ledger.state()),
        "exit_code": no.exit_code,
    }
    said, *why = str(no).split("\n  ")
    return Document(
        said,
        data,
        "fail",
        notes=tuple(why),
        total=total(ledger.state()),
        exit_code=no.exit_code,
        why=f"denied: {what} not fit in what is left{' of a quota' if OVER_QUOTA in said else ''}",
        details=tuple(line for text in why for line in wrap(text, 110, initial_indent="  ", subsequent_indent="    ")),
    )


def _quota_warnings(ledger: Ledger, receipt: Receipt) -> tuple[str, ...]:
    """After a charge, the quotas of whoever made it that are nearly used up; of a new quota, whom it may not hold."""
    if receipt.entry is not None and receipt.entry.kind == "quota":
        return strangers(receipt.state, receipt.state.quotas[subject_of(receipt.entry.content)])
    charged = receipt.entry is not None and receipt.entry.kind in ("spend", "reserve")
    return warnings(receipt.state, ledger.who) if charged else ()


def _proposal(receipt: Receipt) -> Proposal | None:
    """What was only proposed, None where what was asked for was done."""
    if receipt.entry is None or receipt.entry.kind != "propose":
        return None
    return numbered(receipt.state.proposals, receipt.entry.row.seq)


def _granted(receipt: Receipt) -> str:
    state, run = receipt.state, receipt.run
    of = "declared runs" if state.open_terms().mode == "declared" else "cap"
    left = f"{left_percent(room(state))} of the {of} {'are' if of == 'declared runs' else 'is'} left{scarce(state)}"
    if state.open_terms().family is not None:
        left = _left_on_blocks(state, () if run is None else run.window)
    if run is None:
        if state.open_terms().family is not None and (receipt.entry is None or receipt.entry.kind == "retire"):
            return _retired(receipt)
        if receipt.entry is not None and receipt.entry.kind == "quota":
            return f"set, entry {receipt.entry.row.seq}: {said(state, state.quotas[subject_of(receipt.entry.content)])}"
        if receipt.entry is not None and receipt.entry.kind == "refuse":
            return f"entry {receipt.entry.content['proposal']} is closed, by entry {receipt.entry.row.seq}: nobody can approve it; {left}"
        if receipt.entry is not None and receipt.entry.kind == "moved":
            place = receipt.entry.content["to"]
            return f"closed, entry {receipt.entry.row.seq}: the dataset moves to {place}; dpcli budget copy completes that"
        if receipt.entry is not None and receipt.entry.kind == "upgrade":
            return f"upgraded: version {state.version} guards the entries from here on; {left}"
        return f"amended: the cap is epsilon {state.epsilon!r} at delta = {state.open_terms().delta!r}{guaranteed(state)}; {left}"
    what = f'"{run.key}": {costs(run.cost)}'
    if receipt.told:
        when = run.content.get("when")
        before = f'"{run.key}" was charged before, by entry {run.seq} of {when}: nothing was written'
        return f"{before}; {costs(run.cost)} is {run.status}; {left}"
    if receipt.entry is None:
        again = "; a run that draws noise again needs a key of its own" if run.status == "committed" else ""
        return f"{what} (charged by entry {run.seq}) is {run.status} already: nothing was written; {left}{again}"
    return f"{DONE[receipt.entry.kind]} {what}, entry {receipt.entry.row.seq}; {left}"


def _left_on_blocks(state: LedgerState, window: Sequence[str]) -> str:
    of = f"the fullest of the {len(window)} blocks of its window" if window else "the fullest block"
    return f"{left_percent(room(state, window))} of the cap is left on {of}"


def _retired(receipt: Receipt) -> str:
    closed = len(receipt.state.retired)
    if receipt.entry is None:
        return "retired already: nothing was written"
    return f"retired, entry {receipt.entry.row.seq}: {closed} {'block takes' if closed == 1 else 'blocks take'} no further run"


def opening(ledger: Ledger) -> Document:
    """What a new ledger was opened for."""
    state = ledger.state()
    stated = state.open_terms()
    headline = (
        f'opened the ledger of "{ledger.dataset}" in {ledger.store.place}: at most epsilon {stated.epsilon!r} at delta = {stated.delta!r} '
        f"per {stated.unit}, {stated.adjacency}; {how(state)}; fixed for good{guaranteed(state)}"
    )
    lines = () if stated.fingerprint is not None or stated.family is not None else (UNKNOWN,)
    data = {"schema": "dpcli/budget/v2", **terms(state), **balance(state), "told": list(lines), "exit_code": 0}
    delta = stated.delta if stated.dataset_size is not None or stated.family is None else None  # each window has a size of its own
    told = judged_deltas({"--delta": delta}, stated.dataset_size, ledger.store.place)
    return Document(headline, data, "pass", total=total(state), notes=lines, details=lines, alerts=tuple(map(note, told)))
