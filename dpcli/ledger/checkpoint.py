"""Checkpoints: what a chain came to at one of its entries, so that whoever trusts that need not read from the first entry on.

A checkpoint is a cache. It is written in the transaction of the entry that it is about, from a state that was itself read and checked; it
names that entry and the opening by their hashes, holds every sum as the exact decimal that the fold has there, and has a digest. A reader
uses it if the digest is right, it is of this dataset and of a format that he knows; then both entries must be there with those hashes,
and what comes after is checked against the chain as ever. One that is damaged, foreign or of a later format is not used: everything is
read, as without one. One that names an entry which is not there, or another, says that entries were lost: that is an error. One that
lies behind the end of the chain is as good as new.

Whoever may write a file may write any chain and any checkpoint into it; against him there is the anchor. `verify` reads all entries and
compares. In a database only the server's own functions write checkpoints, from what they let in.

Runs that are under way are listed: a damaged index, which finds the others by their keys, hides neither a start nor a void from a move.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import Any

from dpcli.base.errors import LedgerError
from dpcli.ledger import amounts
from dpcli.ledger.amounts import amount_of
from dpcli.ledger.chain import Head, StoredRow, canonical, next_entry, single_entry
from dpcli.ledger.governance.proposals import proposal_of, subject_of
from dpcli.ledger.governance.quotas import quota_of
from dpcli.ledger.past_runs import EarlierRuns
from dpcli.ledger.state import LedgerState, UnderWay
from dpcli.ledger.stores.store import Store, StoredCheckpoint

FORMAT, WITH_QUOTAS = 1, 2  # a version that knows no quotas would go on from the second without them
EVERY = 256  # entries from one to the next
SUMS = ("caps", "spent", "reserved")
MOST_DIGITS = 500  # digits before the point of an amount; no sum of entries comes near


def is_due(state: LedgerState, noted: int) -> bool:
    """Check whether one should be written at the end of `state`.

    Never if the dataset has moved: whoever reads on from a checkpoint has to find that entry.

    Args:
        noted: The entry of the last one, 0 if there is none.
    """
    return state.departure is None and state.head.seq - noted >= EVERY


def checkpoint_content(state: LedgerState) -> dict[str, Any]:
    """Return everything about a state that the entries before its head decide."""
    blocks = {} if state.terms is None or state.terms.blocks is None else {"retired": sorted(state.retired)}
    two = {"proposals": {str(each.seq): each.hash for each in state.proposals.values()}} if _is_two_person(state) else {}
    unseen = {"unseen": True} if not state.unbounded and state.largest > state.at_opening else {}
    return {
        **blocks,
        **two,
        **unseen,
        **_quota_content(state),
        "checkpoint": WITH_QUOTAS if state.quotas else FORMAT,
        "dataset": state.dataset,
        "seq": state.head.seq,
        "hash": state.head.hash,
        "opening": state.opening,
        "caps": _amount_texts(state.caps),
        "epsilon": state.epsilon,
        "largest": state.largest,
        "spent": _amount_texts(state.spent),
        "reserved": _amount_texts(state.reserved),
        "charges": state.charges,
        "last": None if state.last is None else state.last.seq,
        "under_way": {key: [run.seq, run.hash, run.status] for key, run in state.under_way.items()},
        "latest": state.latest,
        "schema": state.schema,
        "version": state.version,
    }


def checkpoint_of(state: LedgerState) -> StoredCheckpoint:
    """Return the checkpoint of a state as a backend keeps it."""
    body = canonical(checkpoint_content(state))
    return StoredCheckpoint(body, _digest(body))


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()  # a server writes letters as they are


def usable_content(checkpoint: StoredCheckpoint | None, dataset: str) -> Mapping[str, Any] | None:
    """Return what a checkpoint says; None if there is none, or one that is damaged, of another dataset or of a later format."""
    if checkpoint is None or _digest(checkpoint.body) != checkpoint.digest:
        return None
    try:
        content = json.loads(checkpoint.body)
    except (ValueError, RecursionError):
        return None
    known = type(content) is dict and content.get("checkpoint") in (FORMAT, WITH_QUOTAS) and content.get("dataset") == dataset
    return content if known and type(content.get("seq")) is int else None  # "9" would be read, and compared with no entry


def agrees_with(noted: Mapping[str, Any], state: LedgerState) -> bool:
    """Check whether a checkpoint says what the fold has come to at its entry."""
    sound = checkpoint_content(state)
    try:
        sums = all(_sum_by_name(name, noted, state) == _sum_by_name(name, sound, state) for name in SUMS)
        sums = sums and _read_people(noted.get("people", {}), state) == _read_people(sound.get("people", {}), state)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
        return False
    return sums and all(noted.get(name) == value for name, value in sound.items() if name not in (*SUMS, "people"))


def state_at_checkpoint(store: Store, dataset: str) -> LedgerState | None:
    """Return the state at the checkpoint of a dataset, None if there is none to use.

    Raises:
        LedgerError: If it is about entries that are not there.
    """
    content = usable_content(store.checkpoint(dataset), dataset)
    if content is None:
        return None
    try:
        return _state_of(store, dataset, content)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
        return None


def _state_of(store: Store, dataset: str, content: Mapping[str, Any]) -> LedgerState:
    state = LedgerState(dataset)
    state.apply(next_entry(_row_with_hash(store, dataset, 1, content["opening"]), dataset, Head()))
    terms = state.open_terms()
    seq, under_way = int(content["seq"]), {key: UnderWay(*value) for key, value in content["under_way"].items()}
    head = single_entry(_row_with_hash(store, dataset, seq, content["hash"]), dataset)
    state.head = Head(head.row.seq, head.row.hash)
    state.caps, state.spent, state.reserved = (_sum_by_name(name, content, state) for name in SUMS)
    if terms.blocks is not None:
        state.retired = frozenset(map(str, content["retired"]))
    if _is_two_person(state):
        proposed = (
            single_entry(_row_with_hash(store, dataset, int(seq), hash_), dataset) for seq, hash_ in content["proposals"].items()
        )
        state.proposals = {subject_of(entry.content): proposal_of(entry) for entry in proposed}
    state.people = None
    if content["checkpoint"] == WITH_QUOTAS:
        set_ = (single_entry(_row_with_hash(store, dataset, int(seq), hash_), dataset) for seq, hash_ in content["quotas"].items())
        state.quotas = {subject_of(entry.content): quota_of(entry) for entry in set_}
        state.people = _read_people(content["people"], state)
    state.epsilon, state.largest = float(content["epsilon"]), float(content["largest"])
    state.unbounded = state.largest > state.at_opening and content.get("unseen") is not True
    state.charges, state.latest = int(content["charges"]), str(content["latest"])
    state.schema, state.version = str(content["schema"]), int(content["version"])
    state.under_way = under_way
    state.runs = EarlierRuns(store, dataset, state.head, dict(under_way))
    if content["last"] is not None:
        state.last = state.runs[single_entry(_row_at(store, dataset, int(content["last"])), dataset).key]
    if not max(state.at_opening, state.epsilon) <= state.largest < math.inf:
        raise ValueError("the largest cap is not the largest")
    return state


def _quota_content(state: LedgerState) -> dict[str, Any]:
    """Return the quotas, and what each person has charged; nothing if no quota was ever set."""
    if not state.quotas or state.people is None:
        return {}
    people = {who: _amount_texts(total) for who, total in state.people.items()}
    return {"quotas": {str(each.seq): each.hash for each in state.quotas.values()}, "people": people}


def _read_people(noted: Mapping[str, Mapping[str, str]], state: LedgerState) -> dict[str, dict[str, Decimal]]:
    if any(amount_of(name) not in state.caps for total in noted.values() for name in total):
        raise ValueError("expected amounts that have a cap")
    return {who: _read_amounts(total, dict.fromkeys(total, Decimal(0))) for who, total in noted.items()}


def _is_two_person(state: LedgerState) -> bool:
    return state.terms is not None and state.terms.two_person is True


def _row_with_hash(store: Store, dataset: str, seq: int, hash_: str) -> StoredRow:
    row = _row_at(store, dataset, seq)
    if row.hash != hash_:
        raise LedgerError(
            f'{store.place}: dataset "{dataset}", entry {seq}: is not the one that was there when the totals were noted: the ledger was '
            "damaged, restored in part or changed by hand"
        )
    return row


def _row_at(store: Store, dataset: str, seq: int) -> StoredRow:
    rows = store.after(dataset, seq - 1, 1)
    if not rows or rows[0].seq != seq:
        raise LedgerError(
            f'{store.place}: dataset "{dataset}", entry {seq}: missing, and was there when the totals were noted: the ledger was damaged, '
            "restored in part or changed by hand"
        )
    return rows[0]


def _amount_texts(total: amounts.Amounts) -> dict[str, str]:
    return {name: str(value) for name, value in total.items()}


def _sum_by_name(name: str, noted: Mapping[str, Any], state: LedgerState) -> dict[str, Decimal]:
    """Return a sum by the names of the caps, in their order; what is summed by block, by those of amounts and blocks."""
    if state.terms is None or state.terms.blocks is None or name == "caps":
        return _read_amounts(noted[name], state.caps)
    total: Mapping[str, str] = noted[name]
    if not {amount_of(each) for each in total} <= state.caps.keys():
        raise ValueError("expected amounts that have a cap")
    return _read_amounts(total, total)


def _read_amounts(texts: Mapping[str, str], names: Collection[str]) -> dict[str, Decimal]:
    """Return amounts by these names, in their order. Blocks that were charged alike have one text, which is read once."""
    known = {text: amounts.EXACT.create_decimal(text) for text in set(texts.values())}
    if texts.keys() != set(names) or not all(
        value.is_finite() and value >= 0 and value.adjusted() < MOST_DIGITS for value in known.values()
    ):
        raise ValueError("expected an amount for each cap")
    return {name: known[texts[name]] for name in names}
