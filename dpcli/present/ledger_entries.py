"""A ledger's entries as documents: the log, the export, the head, and what a verification found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcli.document.document import Document, Table
from dpcli.ledger import amounts
from dpcli.ledger.chain import LedgerEntry
from dpcli.ledger.denial import costs
from dpcli.ledger.ledger import Ledger
from dpcli.present.ledger_data import entry_data

if TYPE_CHECKING:
    from dpcli.ledger.verify import Verified


def log(ledger: Ledger) -> Document:
    """Every entry."""
    entries = ledger.entries()
    rows = tuple((str(e.row.seq), e.kind, e.key, _amounts(e), _text(e, "who"), _text(e, "when"), _why(e)) for e in entries)
    return Document(
        headline=f"{ledger.dataset}: {len(entries)} entries, head {entries[-1].row.hash[:16] if entries else 'none'}",
        data={
            "schema": "dpcli/budget-log/v1",
            "dataset": ledger.dataset,
            "entries": [entry_data(e) for e in entries],
            "exit_code": 0,
        },
        tables=(Table("entries", ("entry", "kind", "run", "cost", "who", "when", "why"), rows, frozenset({0})),),
        records=[entry_data(e) or {} for e in entries],
        log=tuple("  ".join(row) for row in rows),
    )


def export(ledger: Ledger) -> Document:
    """Every entry with its canonical text and hash."""
    entries = ledger.entries()
    whole = [{"seq": e.row.seq, "hash": e.row.hash, "body": e.row.body, "content": e.content} for e in entries]
    rows = tuple(
        (str(e.row.seq), e.kind, e.key, _text(e, "who"), _text(e, "when"), _why(e), e.row.body, e.row.hash) for e in entries
    )
    return Document(
        headline=f"{ledger.dataset}: {len(entries)} entries",
        data={"schema": "dpcli/budget-export/v1", "dataset": ledger.dataset, "entries": whole, "exit_code": 0},
        tables=(Table("entries", ("entry", "kind", "run", "who", "when", "why", "body", "hash"), rows, frozenset({0})),),
        records=whole,
    )


def anchor(ledger: Ledger) -> Document:
    """The head of the chain."""
    from dpcli.ledger.verify import anchor_of

    found = anchor_of(ledger)
    return Document(f"{found['dataset']}: entry {found['seq']}, {found['hash']}", {**found, "exit_code": 0})


def upgraded(names: tuple[str, ...]) -> Document:
    """What an upgrade came to."""
    said = f"noted in {', '.join(names)}" if names else "nothing to do"
    return Document(
        f"the checks are those of this version: {said}",
        {"schema": "dpcli/budget-upgrade/v1", "datasets": list(names), "exit_code": 0},
    )


def verified(ledger: Ledger, found: Verified) -> Document:
    """What a verification came to."""
    problems = found.problems
    wrong = f"; {len(problems)} {'problem' if len(problems) == 1 else 'problems'}: more was spent than the entries say"
    said = f"{found.costs} cost{'' if found.costs == 1 else 's'} computed again{wrong if problems else ''}"
    headline = f"{ledger.dataset}: {found.entries} entries whole, head {found.head.hash[:16]}; {said}"
    data = {"schema": "dpcli/budget-verify/v1", "dataset": ledger.dataset, "entries": found.entries, "head": found.head.hash}
    code = 1 if problems else 0
    return Document(
        headline,
        {**data, "costs": found.costs, "problems": list(problems), "notes": list(found.notes), "exit_code": code},
        "fail" if problems else "pass",
        notes=(*problems, *found.notes),
        log=(*problems, *found.notes),
        exit_code=code,
    )


def _text(entry: LedgerEntry, name: str) -> str:
    return str(entry.content.get(name, ""))


def _why(entry: LedgerEntry) -> str:
    approver = f" (approved by {entry.content['approver']})" if "approver" in entry.content else ""
    return _text(entry, "why") + approver


def _amounts(entry: LedgerEntry) -> str:
    """What a charge costs, or what an opening or an amendment allows."""
    if "caps" in entry.content:
        epsilon = entry.content.get("epsilon", entry.content.get("terms", {}).get("epsilon"))
        return f"cap: epsilon {epsilon!r}"
    return costs(amounts.read(entry.content["cost"])) if "cost" in entry.content else ""
