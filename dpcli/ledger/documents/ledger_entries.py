"""The entries of a ledger as documents: the log, the export, the head, and the results of verification, upgrade and move.

For the log and the export the entries are read twice, first to check the chain, and again while the document is written. So they need not
fit in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from dpcli.document.document import Document, Table, Walked
from dpcli.ledger import amounts
from dpcli.ledger.chain import LedgerEntry
from dpcli.ledger.denial import costs
from dpcli.ledger.documents.ledger_balance import guarantee_words
from dpcli.ledger.documents.ledger_data import entry_data
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.requests import certificate_of
from dpcli.ledger.state import LedgerState

if TYPE_CHECKING:
    from dpcli.ledger.stores.copying import MovedDataset
    from dpcli.ledger.verify import Verified

Shown = TypeVar("Shown")
# The number of the last entry that counts answers of a session, by the key of the session's run and the name of the answers.
Sessions = dict[tuple[str, str], int]


def log(ledger: Ledger) -> Document:
    """Return the document of all entries. The table shows only the last count of a session, which contains the earlier counts."""
    state, last, counts = _check_chain(ledger)
    head = state.head

    def rows() -> Iterator[tuple[str, ...]]:
        return (_table_row(e) for e in ledger.reread(head) if e.kind != "count" or last[_session(e)] == e.row.seq)

    lines = head.seq - counts + len(last)
    return Document(
        headline=f"{ledger.dataset}: {head.seq} entries, head {head.hash[:16] if head.seq else 'none'}{guarantee_words(state)}",
        data=_data("dpcli/budget-log/v1", state, _reread_entries(ledger, state, entry_data)),
        tables=(Table("entries", ("entry", "kind", "run", "cost", "who", "when", "why"), Walked(lines, rows), frozenset({0})),),
        records=_reread_entries(ledger, state, lambda e: entry_data(e) or {}),
        log=Walked(lines, lambda: map("  ".join, rows())),
        long=True,
    )


def export(ledger: Ledger) -> Document:
    """Return the document of all entries with their canonical texts and hashes."""
    state, _, _ = _check_chain(ledger)
    entries = _reread_entries(ledger, state, _export_data)
    rows = _reread_entries(ledger, state, lambda e: (*_table_row(e)[:3], *_table_row(e)[4:], e.row.body, e.row.hash))
    return Document(
        headline=f"{ledger.dataset}: {state.head.seq} entries{guarantee_words(state)}",
        data=_data("dpcli/budget-export/v1", state, entries),
        tables=(Table("entries", ("entry", "kind", "run", "who", "when", "why", "body", "hash"), rows, frozenset({0})),),
        records=entries,
        long=True,
    )


def _export_data(e: LedgerEntry) -> dict[str, Any]:
    return {"seq": e.row.seq, "hash": e.row.hash, "body": e.row.body, "content": e.content}


def _check_chain(ledger: Ledger) -> tuple[LedgerState, Sessions, int]:
    """Read and check all of the chain. Return its state, the last count entry of each session, and the number of count entries."""
    state, last, counts = LedgerState(ledger.dataset, hides=ledger.store.hides), Sessions(), 0
    for entry, after in ledger.replay():
        state = after
        if entry.kind == "count":
            last[_session(entry)], counts = entry.row.seq, counts + 1
    state.open_terms()
    return state, last, counts


def _session(entry: LedgerEntry) -> tuple[str, str]:
    return entry.key, str(entry.content["of"])


def _data(schema: str, state: LedgerState, entries: Sequence[Any]) -> dict[str, Any]:
    guarantee = {"epsilon_guaranteed": state.guaranteed, "guarantee": state.guarantee}
    return {"schema": schema, "dataset": state.dataset, **guarantee, "entries": entries, "exit_code": 0}


def _reread_entries(ledger: Ledger, state: LedgerState, show: Callable[[LedgerEntry], Shown]) -> Walked[Shown]:
    head = state.head  # a copy, as the state may change before the entries are read again
    return Walked(head.seq, lambda: map(show, ledger.reread(head)))


def anchor(ledger: Ledger) -> Document:
    """Return the document of an anchor, that is, of the head of the chain."""
    from dpcli.ledger.verify import anchor_of

    head = anchor_of(ledger)
    return Document(f"{head['dataset']}: entry {head['seq']}, {head['hash']}", {**head, "exit_code": 0})


def upgrade_document(names: tuple[str, ...]) -> Document:
    """Return the document of an upgrade, which was recorded in the datasets `names`."""
    done = f"recorded for {', '.join(names)}" if names else "nothing to do"
    return Document(
        f"the definitions are those of this version: {done}",
        {"schema": "dpcli/budget-upgrade/v1", "datasets": list(names), "exit_code": 0},
    )


def verification_document(ledger: Ledger, result: Verified) -> Document:
    """Return the document of a verification."""
    problems, departure = result.problems, ledger.state().departure
    wrong = f"; {len(problems)} {'problem' if len(problems) == 1 else 'problems'}: more was spent than the entries state"
    closed = {} if departure is None else {"closed": str(departure)}
    headline = f"{ledger.dataset}: {result.entries} entries intact, head {result.head.hash[:16]}; {_costs_words(result)}"
    data = {"schema": "dpcli/budget-verify/v1", "dataset": ledger.dataset, "entries": result.entries, "head": result.head.hash}
    code, lines = int(bool(problems)), (*problems, *result.notes)
    return Document(
        "; ".join((f"{headline}{wrong if problems else ''}", *closed.values())),
        {**data, **closed, "costs": result.costs, "problems": list(problems), "notes": list(result.notes), "exit_code": code},
        "fail" if problems else "pass",
        notes=lines,
        log=lines,
        exit_code=code,
    )


def move_document(copies: Sequence[MovedDataset]) -> Document:
    """Return the document of a move, with the last copied entry of each dataset and the results of verifying the copies."""
    lines = [_moved_line(copy) for copy in copies]
    problems = [f"{copy.dataset}: {problem}" for copy in copies for problem in (*copy.verified.problems, *copy.verified.notes)]
    code = int(any(copy.verified.problems for copy in copies))
    records = [_moved_record(copy) for copy in copies]
    return Document(
        lines[0] if len(lines) == 1 else f"{len(lines)} datasets are in {copies[0].to}",
        {"schema": "dpcli/budget-copy/v1", "datasets": records, "exit_code": code},
        "fail" if code else "pass",
        notes=tuple(problems),
        records=records,
        details=(*(lines if len(lines) > 1 else ()), *problems),
        log=tuple(problems),
        exit_code=code,
        why="the copies are complete, but more was spent than the entries state" if code else "",
    )


def _costs_words(result: Verified) -> str:
    return f"{result.costs} cost{'' if result.costs == 1 else 's'} computed again"


def _moved_line(dataset: MovedDataset) -> str:
    done, end = "had moved before" if dataset.repeated else "moved", f"{dataset.at.seq} entries, head {dataset.at.hash[:16]}"
    return f"{dataset.dataset}: {done} to {dataset.to}, {end}; the copy has {dataset.verified.entries}, {_costs_words(dataset.verified)}"


def _moved_record(dataset: MovedDataset) -> dict[str, Any]:
    return {
        "dataset": dataset.dataset,
        "to": dataset.to,
        "entries": dataset.at.seq,
        "head": dataset.at.hash,
        "repeated": dataset.repeated,
        "copy": {
            "entries": dataset.verified.entries,
            "head": dataset.verified.head.hash,
            "problems": list(dataset.verified.problems),
        },
    }


def _table_row(e: LedgerEntry) -> tuple[str, ...]:
    return str(e.row.seq), e.kind, e.key, _cost(e), str(e.content.get("who", "")), str(e.content.get("when", "")), _reason(e)


def _reason(entry: LedgerEntry) -> str:
    """Return the reason of an entry, with the origin of a copy or run, the target of a move, the proposal and approval, and the
    certificate of a run, if any."""
    content, why = entry.content, str(entry.content.get("why", ""))
    if entry.kind == "propose":
        return f"{_change(content['asks'])}: {content['asks'].get('why', '')} (until {content['expires']})"
    if entry.kind == "refuse":
        return f"{why} (closes entry {content['proposal']})"
    if "proposal" in content:
        approved = f"approved by {content.get('who')}: {content.get('approval', '')}"
        why += f" ({approved}; proposed in entry {content['proposal']})"
    elif "approver" in content:
        why += f" (stated approver: {content['approver']})"
    digest = certificate_of(content)
    why += "" if digest is None else f"{' ' if why else ''}(certificate sha256:{digest})"
    return ": ".join(filter(None, (_origin(content), why)))


def _origin(content: Mapping[str, Any]) -> str:
    """Return the target or origin of a moved dataset, or when and by whom an imported run was made, in words; else ""."""
    if "made" in content:
        maker = f" by {content['maker']}" if "maker" in content else ""
        return f"made {content['made'].removesuffix('T00:00:00Z')}{maker}"
    return next((f"{word} {content[word]}" for word in ("to", "from") if word in content), "")


def _change(asks: Mapping[str, Any]) -> str:
    if asks["kind"] == "quota":
        return _quota(asks)
    if asks["kind"] == "moved":
        return f"move to {asks['to']}"
    return f"cap epsilon {asks['epsilon']!r}" if asks["kind"] == "amend" else f'cancel "{asks["key"]}"'


def _quota(asks: Mapping[str, Any]) -> str:
    members = f" ({', '.join(asks['members'])})" if asks["of"] == "team" else ""
    return f"{asks['share']} of the cap for {asks['of']} {asks['name']}{members}"


def _cost(entry: LedgerEntry) -> str:
    """Return the text of the column "cost": the cost of a charge, a cap, a quota or a number of answers; else ""."""
    content = entry.content
    if "caps" in content:
        stated = content.get("terms", {})
        unseen = ", no output seen, as stated" if "unseen" in content else ""
        ceiling = stated.get("ceiling")
        limit = "" if ceiling is None else f", ceiling {ceiling!r}"
        return f"cap: epsilon {content.get('epsilon', stated.get('epsilon'))!r}{limit}{unseen}"
    if entry.kind == "quota":
        return _quota(content)
    if entry.kind == "count":
        return f"{content['count']:,} {content['of']}"
    return costs(amounts.read(content["cost"])) if "cost" in content else ""
