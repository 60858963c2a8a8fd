"""The entries of a ledger as documents: the log, the export, the head, and the results of verification, upgrade and move.

A *document* is what a command prints, before a format such as text or JSON is chosen (dpcli/document/document.py). Its `data` is the JSON,
`details` are the lines of the text, `log` those of a log, `notes` sentences below the tables, and `records` the lines of jsonl. The *chain*
is the list of entries, each with the hash of the one before, and the *head* is its end (dpcli/ledger/chain.py). A *proposal* is an entry
that changes nothing until another person approves it. A *session* is a run of a command under one charge; entries of the kind "count" count
its answers. For the log and the export the entries are read twice, first to check the chain, and again while the document is written: a
`Walked` is a list whose items are computed when a format reads them. So they need not fit in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from dpcli.document.document import Document, Table, Walked
from dpcli.ledger import amounts
from dpcli.ledger.chain import LedgerEntry
from dpcli.ledger.denial import cost_words
from dpcli.ledger.documents.ledger_balance import SHOWN_DIGITS, guarantee_words
from dpcli.ledger.documents.ledger_data import entry_data
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.requests import certificate_of
from dpcli.ledger.state import LedgerState

if TYPE_CHECKING:
    from dpcli.ledger.stores.copying import MovedDataset
    from dpcli.ledger.verify import Verified

Shown = TypeVar("Shown")


class CheckedChain(NamedTuple):
    """The result of the first reading of a chain.

    Attributes:
        state: The state after all entries.
        last_counts: The number of the last entry "count" of each session, by the key of its run and the name of the answers.
        count_entries: The number of entries "count".
    """

    state: LedgerState
    last_counts: dict[tuple[str, str], int]
    count_entries: int


def log(ledger: Ledger) -> Document:
    """Return the document of all entries. The table shows only the last count of a session, which contains the earlier counts."""
    state, last_counts, count_entries = _check_chain(ledger)
    head = state.head

    def rows() -> Iterator[tuple[str, ...]]:
        for entry in ledger.reread(head):
            if entry.kind != "count" or last_counts[_session(entry)] == entry.row.seq:
                yield _table_row(entry)

    row_count = head.seq - count_entries + len(last_counts)
    columns = ("entry", "kind", "run", "cost", "who", "when", "why")
    return Document(
        headline=f"{ledger.dataset}: {head.seq} entries, head {head.hash[:SHOWN_DIGITS] if head.seq else 'none'}{guarantee_words(state)}",
        data=_entries_data("dpcli/budget-log/v1", state, _reread_entries(ledger, state, entry_data)),
        tables=(Table("entries", columns, Walked(row_count, rows), numeric=frozenset({0})),),
        records=_reread_entries(ledger, state, lambda entry: entry_data(entry) or {}),
        log=Walked(row_count, lambda: map("  ".join, rows())),
        long=True,
    )


def export(ledger: Ledger) -> Document:
    """Return the document of all entries with their canonical texts and hashes."""
    state = _check_chain(ledger).state
    entries = _reread_entries(ledger, state, _export_data)
    rows = _reread_entries(ledger, state, _export_row)
    columns = ("entry", "kind", "run", "who", "when", "why", "body", "hash")
    return Document(
        headline=f"{ledger.dataset}: {state.head.seq} entries{guarantee_words(state)}",
        data=_entries_data("dpcli/budget-export/v1", state, entries),
        tables=(Table("entries", columns, rows, numeric=frozenset({0})),),
        records=entries,
        long=True,
    )


def _export_data(entry: LedgerEntry) -> dict[str, Any]:
    return {"seq": entry.row.seq, "hash": entry.row.hash, "body": entry.row.body, "content": entry.content}


def _export_row(entry: LedgerEntry) -> tuple[str, ...]:
    """Return the row of an entry as in the log, without its cost, and with its canonical text and its hash."""
    number, kind, key, _, who, when, why = _table_row(entry)
    return number, kind, key, who, when, why, entry.row.body, entry.row.hash


def _check_chain(ledger: Ledger) -> CheckedChain:
    """Read and check all of the chain. Raises LedgerError if it is broken."""
    state = LedgerState(ledger.dataset, hides=ledger.store.hides)  # `hides` only changes the message about a missing ledger
    last_counts: dict[tuple[str, str], int] = {}
    count_entries = 0
    for entry, after in ledger.replay():
        state = after
        if entry.kind == "count":
            last_counts[_session(entry)] = entry.row.seq
            count_entries += 1
    state.open_terms()  # raises LedgerError if there is no entry
    return CheckedChain(state, last_counts, count_entries)


def _session(entry: LedgerEntry) -> tuple[str, str]:
    """Return the key of the run, and the name of the answers that an entry "count" counts."""
    return entry.key, str(entry.content["of"])


def _entries_data(schema: str, state: LedgerState, entries: Sequence[Any]) -> dict[str, Any]:
    guarantee = {"epsilon_guaranteed": state.guaranteed, "guarantee": state.guarantee}
    return {"schema": schema, "dataset": state.dataset, **guarantee, "entries": entries, "exit_code": 0}


def _reread_entries(ledger: Ledger, state: LedgerState, show: Callable[[LedgerEntry], Shown]) -> Walked[Shown]:
    head = state.head  # kept, because the state may change before the entries are read again
    return Walked(head.seq, lambda: map(show, ledger.reread(head)))


def anchor(ledger: Ledger) -> Document:
    """Return the document of an anchor, that is, of the head of the chain."""
    from dpcli.ledger.verify import anchor_of

    head = anchor_of(ledger)
    return Document(f"{head['dataset']}: entry {head['seq']}, {head['hash']}", {**head, "exit_code": 0})


def upgrade_document(names: tuple[str, ...]) -> Document:
    """Return the document of an upgrade, which was recorded in the datasets `names`."""
    outcome = f"recorded for {', '.join(names)}" if names else "nothing to do"
    return Document(
        f"the definitions are those of this version: {outcome}",
        {"schema": "dpcli/budget-upgrade/v1", "datasets": list(names), "exit_code": 0},
    )


def verification_document(ledger: Ledger, result: Verified) -> Document:
    """Return the document of a verification."""
    problems, departure = result.problems, ledger.state().departure
    headline = f"{ledger.dataset}: {result.entries} entries intact, head {result.head.hash[:SHOWN_DIGITS]}; {_costs_words(result)}"
    data: dict[str, Any] = {
        "schema": "dpcli/budget-verify/v1",
        "dataset": ledger.dataset,
        "entries": result.entries,
        "head": result.head.hash,
    }
    if problems:
        headline += f"; {len(problems)} {'problem' if len(problems) == 1 else 'problems'}: more was spent than the entries state"
    if result.acknowledged:
        count = len(result.acknowledged)
        headline += f"; {count} {'problem' if count == 1 else 'problems'} answered"
    if departure is not None:
        headline += f"; {departure}"
        data["closed"] = str(departure)
    exit_code = 1 if problems else 0
    data |= {"costs": result.costs, "problems": list(problems), "notes": list(result.notes), "exit_code": exit_code}
    data["acknowledged"] = [{"finding": finding, "entry": seq} for finding, seq in result.acknowledged]
    answered = [f"answered by entry {seq}: {finding}" for finding, seq in result.acknowledged]
    lines = (*problems, *answered, *result.notes)
    return Document(headline, data, "fail" if problems else "pass", notes=lines, log=lines, exit_code=exit_code)


def move_document(copies: Sequence[MovedDataset]) -> Document:
    """Return the document of a move, with the last copied entry of each dataset and the results of verifying the copies."""
    lines = [_moved_line(copy) for copy in copies]
    findings = []
    for copy in copies:
        findings += [f"{copy.dataset}: {text}" for text in (*copy.verified.problems, *copy.verified.notes)]
    records = [_moved_record(copy) for copy in copies]
    has_problems = any(copy.verified.problems for copy in copies)
    exit_code = 1 if has_problems else 0
    is_single = len(copies) == 1
    return Document(
        headline=lines[0] if is_single else f"{len(copies)} datasets are in {copies[0].to}",
        data={"schema": "dpcli/budget-copy/v1", "datasets": records, "exit_code": exit_code},
        verdict="fail" if has_problems else "pass",
        notes=tuple(findings),
        records=records,
        details=tuple(findings) if is_single else (*lines, *findings),
        log=tuple(findings),
        exit_code=exit_code,
        why="the copies are complete, but more was spent than the entries state" if has_problems else "",
    )


def _costs_words(result: Verified) -> str:
    return f"{result.costs} cost{'' if result.costs == 1 else 's'} computed again"


def _moved_line(dataset: MovedDataset) -> str:
    verb = "had moved before" if dataset.repeated else "moved"
    copied = f"{dataset.closed_at.seq} entries, head {dataset.closed_at.hash[:SHOWN_DIGITS]}"
    verified = f"the copy has {dataset.verified.entries}, {_costs_words(dataset.verified)}"
    return f"{dataset.dataset}: {verb} to {dataset.to}, {copied}; {verified}"


def _moved_record(dataset: MovedDataset) -> dict[str, Any]:
    return {
        "dataset": dataset.dataset,
        "to": dataset.to,
        "entries": dataset.closed_at.seq,
        "head": dataset.closed_at.hash,
        "repeated": dataset.repeated,
        "copy": {
            "entries": dataset.verified.entries,
            "head": dataset.verified.head.hash,
            "problems": list(dataset.verified.problems),
        },
    }


def _table_row(entry: LedgerEntry) -> tuple[str, ...]:
    """Return the number, kind, key, cost, author, time and reason of an entry as texts."""
    who, when = str(entry.content.get("who", "")), str(entry.content.get("when", ""))
    return str(entry.row.seq), entry.kind, entry.key, _cost_column(entry), who, when, _reason_column(entry)


def _reason_column(entry: LedgerEntry) -> str:
    """Return the text of the column "why": the reason of an entry and, if stated, its origin or target, proposal and certificate."""
    content, why = entry.content, str(entry.content.get("why", ""))
    if entry.kind == "propose":
        return f"{_proposed_change_words(content['asks'])}: {content['asks'].get('why', '')} (until {content['expires']})"
    if entry.kind == "refuse":
        return f"{why} (closes entry {content['proposal']})"
    if "proposal" in content:
        approved = f"approved by {content.get('who')}: {content.get('approval', '')}"
        why += f" ({approved}; proposed in entry {content['proposal']})"
    elif "approver" in content:
        why += f" (stated approver: {content['approver']})"
    if entry.kind == "acknowledge":
        why += f" (finding: {content['finding']})"
    digest = certificate_of(content)
    why += "" if digest is None else f"{' ' if why else ''}(certificate sha256:{digest})"
    return ": ".join(filter(None, (_origin_words(content), why)))


def _origin_words(content: Mapping[str, Any]) -> str:
    """Return the origin or target of an entry in words, such as when an imported run was made, or which run is corrected; else ""."""
    if "corrects" in content:
        return f'corrects "{content["corrects"]}"'
    if "made" in content:
        maker = f" by {content['maker']}" if "maker" in content else ""
        return f"made {content['made'].removesuffix('T00:00:00Z')}{maker}"
    return next((f"{word} {content[word]}" for word in ("to", "from") if word in content), "")


def _proposed_change_words(asks: Mapping[str, Any]) -> str:
    match asks["kind"]:
        case "quota":
            return _quota_words(asks)
        case "moved":
            return f"move to {asks['to']}"
        case "acknowledge":
            return f"acknowledge: {asks['finding']}"
        case "rate":
            return _rate_words(asks)
        case "amend":
            return f"cap epsilon {asks['epsilon']!r}"
        case _:  # void
            return f'cancel "{asks["key"]}"'


def _quota_words(asks: Mapping[str, Any]) -> str:
    members = f" ({', '.join(asks['members'])})" if asks["of"] == "team" else ""
    return f"{asks['share']} of the cap for {asks['of']} {asks['name']}{members}"


def _rate_words(asks: Mapping[str, Any]) -> str:
    return f"{asks['per_day']:,} entries without a cost a day"


def _cost_column(entry: LedgerEntry) -> str:
    """Return the text of the column "cost": the cost of a charge, a cap, a quota, a rate or a number of answers; else ""."""
    content = entry.content
    if "caps" in content:  # an opening or an amendment
        terms = content.get("terms", {})
        unseen = ", no output seen, as stated" if "unseen" in content else ""
        ceiling = "" if terms.get("ceiling") is None else f", ceiling {terms['ceiling']!r}"
        return f"cap: epsilon {content.get('epsilon', terms.get('epsilon'))!r}{ceiling}{unseen}"
    if entry.kind == "quota":
        return _quota_words(content)
    if entry.kind == "rate":
        return _rate_words(content)
    if entry.kind == "count":
        return f"{content['count']:,} {content['of']}"
    return cost_words(amounts.read(content["cost"])) if "cost" in content else ""
