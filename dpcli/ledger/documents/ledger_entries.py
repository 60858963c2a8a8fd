"""A ledger's entries as documents: the log, the export, the head, and what a verification found.

Log and export are read once to check the chain, and again while they are written; none of that is held.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from dpcli.document.document import Document, Table, Walked
from dpcli.ledger import amounts
from dpcli.ledger.chain import Head, LedgerEntry
from dpcli.ledger.denial import costs
from dpcli.ledger.documents.ledger_balance import guaranteed
from dpcli.ledger.documents.ledger_data import entry_data
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.state import LedgerState

if TYPE_CHECKING:
    from dpcli.ledger.verify import Verified

Said = TypeVar("Said")


def log(ledger: Ledger) -> Document:
    """Every entry."""
    state = _checked(ledger)
    head = state.head
    rows = _walked(ledger, head, _row)
    return Document(
        headline=f"{ledger.dataset}: {head.seq} entries, head {head.hash[:16] if head.seq else 'none'}{guaranteed(state)}",
        data={
            "schema": "dpcli/budget-log/v1",
            "dataset": ledger.dataset,
            **_guarantee(state),
            "entries": _walked(ledger, head, entry_data),
            "exit_code": 0,
        },
        tables=(Table("entries", ("entry", "kind", "run", "cost", "who", "when", "why"), rows, frozenset({0})),),
        records=_walked(ledger, head, lambda e: entry_data(e) or {}),
        log=_walked(ledger, head, lambda e: "  ".join(_row(e))),
        long=True,
    )


def export(ledger: Ledger) -> Document:
    """Every entry with its canonical text and hash."""
    state = _checked(ledger)
    head = state.head
    whole = _walked(ledger, head, _whole)
    rows = _walked(ledger, head, _whole_row)
    return Document(
        headline=f"{ledger.dataset}: {head.seq} entries{guaranteed(state)}",
        data={
            "schema": "dpcli/budget-export/v1",
            "dataset": ledger.dataset,
            **_guarantee(state),
            "entries": whole,
            "exit_code": 0,
        },
        tables=(Table("entries", ("entry", "kind", "run", "who", "when", "why", "body", "hash"), rows, frozenset({0})),),
        records=whole,
        long=True,
    )


def _checked(ledger: Ledger) -> LedgerState:
    """What the chain comes to, all of which was read once before anything of it is written."""
    state = LedgerState(ledger.dataset, hides=ledger.store.hides)
    for _, after in ledger.replay():
        state = after
    state.open_terms()
    return state


def _guarantee(state: LedgerState) -> dict[str, Any]:
    return {"epsilon_guaranteed": state.guaranteed, "guarantee": state.guarantee}


def _walked(ledger: Ledger, head: Head, said: Callable[[LedgerEntry], Said]) -> Walked[Said]:
    return Walked(head.seq, lambda: map(said, ledger.again(head)))


def _row(e: LedgerEntry) -> tuple[str, ...]:
    return str(e.row.seq), e.kind, e.key, _amounts(e), _text(e, "who"), _text(e, "when"), _why(e)


def _whole_row(e: LedgerEntry) -> tuple[str, ...]:
    return str(e.row.seq), e.kind, e.key, _text(e, "who"), _text(e, "when"), _why(e), e.row.body, e.row.hash


def _whole(e: LedgerEntry) -> dict[str, Any]:
    return {"seq": e.row.seq, "hash": e.row.hash, "body": e.row.body, "content": e.content}


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
    departure = ledger.state().departure
    closed = {} if departure is None else {"closed": str(departure)}
    headline = f"{ledger.dataset}: {found.entries} entries whole, head {found.head.hash[:16]}; {said}"
    data = {"schema": "dpcli/budget-verify/v1", "dataset": ledger.dataset, "entries": found.entries, "head": found.head.hash}
    code = 1 if problems else 0
    return Document(
        "; ".join((headline, *closed.values())),
        {**data, **closed, "costs": found.costs, "problems": list(problems), "notes": list(found.notes), "exit_code": code},
        "fail" if problems else "pass",
        notes=(*problems, *found.notes),
        log=(*problems, *found.notes),
        exit_code=code,
    )


def _text(entry: LedgerEntry, name: str) -> str:
    return str(entry.content.get(name, ""))


def _why(entry: LedgerEntry) -> str:
    """The reason, and where from or where to; in a ledger of two persons also what was proposed, and where."""
    content, why = entry.content, _text(entry, "why")
    if entry.kind == "propose":
        return f"{_asks(content['asks'])}: {content['asks'].get('why', '')} (until {content['expires']})"
    if entry.kind == "refuse":
        return f"{why} (closes entry {content['proposal']})"
    if "proposal" in content:
        said = f"approved by {content.get('who')}: {content.get('approval', '')}"
        signed = f"{why} ({said}; proposed in entry {content['proposal']})"
        return ": ".join(filter(None, (_origin(content), signed)))
    approver = f" (stated approver: {content['approver']})" if "approver" in content else ""
    return ": ".join(filter(None, (_origin(content), why + approver)))


def _origin(content: Mapping[str, Any]) -> str:
    """Where a dataset moved, or when and by whom an imported run was made."""
    if "made" in content:
        maker = f" by {content['maker']}" if "maker" in content else ""
        return f"made {content['made'].removesuffix('T00:00:00Z')}{maker}"
    return next((f"{word} {content[word]}" for word in ("to", "from") if word in content), "")


def _asks(asks: Mapping[str, Any]) -> str:
    if asks["kind"] == "quota":
        return _quota(asks)
    if asks["kind"] == "moved":
        return f"move to {asks['to']}"
    return f"cap epsilon {asks['epsilon']!r}" if asks["kind"] == "amend" else f'give back "{asks["key"]}"'


def _quota(asks: Mapping[str, Any]) -> str:
    members = f" ({', '.join(asks['members'])})" if asks["of"] == "team" else ""
    return f"{asks['share']} of the cap for {asks['of']} {asks['name']}{members}"


def _amounts(entry: LedgerEntry) -> str:
    """What a charge costs, or what an opening or an amendment allows."""
    if "caps" in entry.content:
        epsilon = entry.content.get("epsilon", entry.content.get("terms", {}).get("epsilon"))
        unseen = ", no output seen, as stated" if "unseen" in entry.content else ""
        ceiling = entry.content.get("terms", {}).get("ceiling")
        return f"cap: epsilon {epsilon!r}{'' if ceiling is None else f', ceiling {ceiling!r}'}{unseen}"
    if entry.kind == "quota":
        return _quota(entry.content)
    if entry.kind == "count":
        return f"{entry.content['count']:,} {entry.content['of']}"
    return costs(amounts.read(entry.content["cost"])) if "cost" in entry.content else ""
