"""Checkpoints, which store the state of a ledger at one of its entries. A reader continues from there and skips the entries before.

The *state* (state.py) is what the entries add up to: caps, spending, open reservations. A ledger with years of runs would otherwise be read
from its first entry by every command. entry_log.py reads checkpoints and, in a file, writes them; verify.py checks them.

A checkpoint is a cache. It is computed from a state that was read and checked, and it is written in the transaction of the entry that it
describes. It contains the hashes of that entry and of the opening entry, and every sum as an exact decimal. A digest protects its text.

A reader uses a checkpoint under these rules:

* If the checkpoint is damaged, of another dataset or of a later format, it is ignored, and all entries are read.
* Otherwise the ledger must have both entries, with the stated hashes. LedgerError is raised if one is missing or has another hash.
* Later entries are checked against the chain as usual. So a checkpoint need not be at the end of the chain.

Anyone who can write the ledger file can write any chain and any checkpoint into it. `verify` reveals such a forgery, because it reads all
entries and compares the totals. In a database only the server's own functions write checkpoints, from accepted entries.

A checkpoint lists the runs that have not ended. Other runs are looked up by an index of *keys*, the names of runs. Without the list, a
damaged index could hide that a reservation was started or voided. Under "people" it has the charges of each person, but only if the ledger
has *quotas*, which limit what a person or a team may charge. In a two-person ledger it lists the open *proposals*, which wait for a second
person's approval. A dataset may be cut into *blocks*, each with a cap of its own; `retired` blocks accept no further run.
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
from dpcli.ledger.chain import Head, LedgerEntry, StoredRow, canonical, next_entry, single_entry
from dpcli.ledger.charges.ledger_run import UnderWay
from dpcli.ledger.charges.past_runs import EarlierRuns
from dpcli.ledger.governance.proposals import proposal_of, subject_of
from dpcli.ledger.governance.quotas import quota_of
from dpcli.ledger.state import LedgerState
from dpcli.ledger.stores.store import Store, StoredCheckpoint

# The formats of checkpoints without and with quotas. A version of dpcli that does not know quotas ignores a checkpoint of format 2.
FORMAT, WITH_QUOTAS = 1, 2
# The number of entries between two checkpoints. It affects speed alone: a reader usually applies fewer entries than this. The SQL function
# dpcli.every returns this number too.
EVERY = 256
SUMS = ("caps", "spent", "reserved")  # the fields that map names to amounts
# The largest number of digits before the point of an amount. No sum of real costs comes near, because each is at most 1e310 (LARGEST_AMOUNT
# in grammar.py). A checkpoint with a larger amount is ignored.
MOST_DIGITS = 500


def is_due(state: LedgerState, last_seq: int) -> bool:
    """Return whether a checkpoint should be written at the end of `state`.

    `last_seq` is the number of the entry that the last checkpoint describes, or 0. No checkpoint is written if the dataset has moved, so
    that a reader who continues from a checkpoint always reads the entry of the move.
    """
    return state.departure is None and state.head.seq - last_seq >= EVERY


def checkpoint_content(state: LedgerState) -> dict[str, Any]:
    """Return the content of the checkpoint of a state, from which `state_at_checkpoint` restores the state.

    Most fields have the name of the attribute of `LedgerState` that they store. A database writes the same fields (SQL function standing).
    """
    content: dict[str, Any] = {
        "checkpoint": WITH_QUOTAS if state.quotas else FORMAT,
        "dataset": state.dataset,
        "seq": state.head.seq,
        "hash": state.head.hash,
        "opening": state.opening,
        "caps": amounts.texts(state.caps),
        "epsilon": state.epsilon,
        "largest": state.largest,
        "spent": amounts.texts(state.spent),
        "reserved": amounts.texts(state.reserved),
        "charges": state.charges,
        "last": None if state.last is None else state.last.seq,
        "under_way": {key: [run.seq, run.hash, run.status] for key, run in state.under_way.items()},
        "latest": state.latest,
        "schema": state.schema,
        "version": state.version,
    }
    # Fields that not every ledger needs are left out.
    if state.terms is not None and state.terms.blocks is not None:
        content["retired"] = sorted(state.retired)
    if _is_two_person(state):
        content["proposals"] = {str(proposal.seq): proposal.hash for proposal in state.proposals.values()}
    if state.largest > state.at_opening and not state.unbounded:
        content["unseen"] = True  # each raise above the guarantee stated that nobody who decides on the cap had seen an output
    if state.quotas and state.people is not None:
        content["quotas"] = {str(quota.seq): quota.hash for quota in state.quotas.values()}
        content["people"] = {who: amounts.texts(total) for who, total in state.people.items()}
    return content


def checkpoint_of(state: LedgerState) -> StoredCheckpoint:
    """Return the checkpoint of a state in the form that a store keeps."""
    body = canonical(checkpoint_content(state))
    return StoredCheckpoint(body, _digest(body))


def _digest(body: str) -> str:
    # `chain.digest` escapes characters outside ASCII first. The functions of a server hash the text as it is, so this does too.
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()


def usable_content(checkpoint: StoredCheckpoint | None, dataset: str) -> Mapping[str, Any] | None:
    """Return the content of a checkpoint.

    Return None if there is no checkpoint, or if it is damaged, of another dataset or of a later format.
    """
    if checkpoint is None or _digest(checkpoint.body) != checkpoint.digest:
        return None
    try:
        content = json.loads(checkpoint.body)
    except (ValueError, RecursionError):
        return None
    if type(content) is not dict or content.get("checkpoint") not in (FORMAT, WITH_QUOTAS) or content.get("dataset") != dataset:
        return None
    # A text such as "9" is refused, because `verify` would compare it with the number of an entry.
    return content if type(content.get("seq")) is int else None


def agrees_with(content: Mapping[str, Any], state: LedgerState) -> bool:
    """Return whether the content of a checkpoint agrees with a state that was computed from all entries up to the checkpoint."""
    expected = checkpoint_content(state)
    other_fields = expected.keys() - {*SUMS, "people"}
    if any(content.get(name) != expected[name] for name in other_fields):
        return False
    try:
        return _sums(content, state) == _sums(expected, state)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
        return False


def _sums(content: Mapping[str, Any], state: LedgerState) -> list[object]:
    """Return all sums of a checkpoint as numbers, because equal numbers may have different texts. Raises as `_sum_by_name`."""
    return [*(_sum_by_name(name, content, state) for name in SUMS), _read_people(content.get("people", {}), state)]


def state_at_checkpoint(store: Store, dataset: str) -> LedgerState | None:
    """Return the state at the checkpoint of a dataset; None if there is no usable checkpoint.

    Raises LedgerError if the entries that the checkpoint names are missing or were changed.
    """
    content = usable_content(store.checkpoint(dataset), dataset)
    if content is None:
        return None
    try:
        return _state_of(store, dataset, content)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
        return None


def _state_of(store: Store, dataset: str, content: Mapping[str, Any]) -> LedgerState:
    """Return the state that the content of a checkpoint describes.

    Raises:
        LedgerError: As `state_at_checkpoint`.
        KeyError, TypeError, ValueError, AttributeError, ArithmeticError: A value is wrong.
    """
    state = LedgerState(dataset)
    # The opening entry gives the state its terms.
    state.apply(next_entry(_row_with_hash(store, dataset, 1, content["opening"]), dataset, Head()))
    terms = state.open_terms()
    head = single_entry(_row_with_hash(store, dataset, int(content["seq"]), content["hash"]), dataset)
    state.head = Head(head.row.seq, head.row.hash)
    state.caps, state.spent, state.reserved = (_sum_by_name(name, content, state) for name in SUMS)
    if terms.blocks is not None:
        state.retired = frozenset(map(str, content["retired"]))
    if _is_two_person(state):
        entries = _entries_with_hashes(store, dataset, content["proposals"])
        state.proposals = {subject_of(entry.content): proposal_of(entry) for entry in entries}
    state.people = None  # unknown, unless the checkpoint has the charges by person
    if content["checkpoint"] == WITH_QUOTAS:
        entries = _entries_with_hashes(store, dataset, content["quotas"])
        state.quotas = {subject_of(entry.content): quota_of(entry) for entry in entries}
        state.people = _read_people(content["people"], state)
    state.epsilon, state.largest = float(content["epsilon"]), float(content["largest"])
    state.unbounded = state.largest > state.at_opening and content.get("unseen") is not True
    state.charges, state.latest = int(content["charges"]), str(content["latest"])
    state.schema, state.version = str(content["schema"]), int(content["version"])
    state.under_way = {key: UnderWay(*values) for key, values in content["under_way"].items()}
    state.runs = EarlierRuns(store, dataset, state.head, dict(state.under_way))  # a copy: later entries change `under_way`
    if content["last"] is not None:
        state.last = state.runs[single_entry(_row_at(store, dataset, int(content["last"])), dataset).key]
    if not max(state.at_opening, state.epsilon) <= state.largest < math.inf:
        raise ValueError("expected `largest` to be finite and at least as large as the other caps")
    return state


def _read_people(people: Mapping[str, Mapping[str, str]], state: LedgerState) -> dict[str, dict[str, Decimal]]:
    """Return the total charges of each person. Raises ValueError for an amount without a cap, and as `_read_amounts`."""
    if any(amount_of(name) not in state.caps for total in people.values() for name in total):
        raise ValueError("expected amounts that have a cap")
    return {who: _read_amounts(total, dict.fromkeys(total, Decimal(0))) for who, total in people.items()}


def _is_two_person(state: LedgerState) -> bool:
    return state.terms is not None and state.terms.two_person is True


def _entries_with_hashes(store: Store, dataset: str, hashes: Mapping[str, str]) -> list[LedgerEntry]:
    """Return the entries with these numbers. Raises LedgerError if one is missing or has another hash."""
    return [single_entry(_row_with_hash(store, dataset, int(seq), hash_), dataset) for seq, hash_ in hashes.items()]


def _row_with_hash(store: Store, dataset: str, seq: int, hash_: str) -> StoredRow:
    """Return the row with a number. Raises LedgerError if it is missing or has another hash."""
    row = _row_at(store, dataset, seq)
    if row.hash != hash_:
        raise LedgerError(
            f'{store.place}: dataset "{dataset}", entry {seq}: is not the entry that the checkpoint names: the ledger was '
            "damaged, restored in part or changed by hand"
        )
    return row


def _row_at(store: Store, dataset: str, seq: int) -> StoredRow:
    """Return the row with a number. Raises LedgerError if it is missing."""
    rows = store.after(dataset, seq - 1, 1)
    if not rows or rows[0].seq != seq:
        raise LedgerError(
            f'{store.place}: dataset "{dataset}", entry {seq}: missing, but the checkpoint names it: the ledger was damaged, '
            "restored in part or changed by hand"
        )
    return rows[0]


def _sum_by_name(name: str, content: Mapping[str, Any], state: LedgerState) -> dict[str, Decimal]:
    """Return one of the fields `SUMS` of a checkpoint as numbers.

    The result has the names of the caps, in their order. But if the dataset is cut into blocks, each name in "spent" and "reserved"
    consists of an amount and a block (dpcli.ledger.amounts), in the order of the checkpoint.

    Raises:
        ValueError: An amount has no cap, a cap has no amount, or a number is negative, not finite or too large.
        decimal.InvalidOperation: A text is not a number.
    """
    if state.terms is None or state.terms.blocks is None or name == "caps":
        return _read_amounts(content[name], state.caps)
    total: Mapping[str, str] = content[name]
    if not {amount_of(name_on_block) for name_on_block in total} <= state.caps.keys():
        raise ValueError("expected amounts that have a cap")
    return _read_amounts(total, total)


def _read_amounts(texts: Mapping[str, str], names: Collection[str]) -> dict[str, Decimal]:
    """Return the amounts in the order of `names`.

    Each different text is converted once, because blocks with equal charges have equal texts.

    Raises:
        ValueError: A name is missing or unknown, or a number is negative, not finite or too large.
        decimal.InvalidOperation: A text is not a number.
    """
    value_of = {text: amounts.EXACT.create_decimal(text) for text in set(texts.values())}
    all_valid = all(value.is_finite() and value >= 0 and value.adjusted() < MOST_DIGITS for value in value_of.values())
    if texts.keys() != set(names) or not all_valid:
        raise ValueError("expected an amount for each cap")
    return {name: value_of[texts[name]] for name in names}
