"""The hash chain: an entry is its canonical bytes, and each names the SHA-256 of the one before.

Source: Haber & Stornetta 1991, How to time-stamp a digital document, Journal of Cryptology 3.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpcli.base.errors import LedgerError

VERSION = 1
GENESIS = "0" * 64


@dataclass(frozen=True, slots=True)
class StoredRow:
    """One entry as a backend keeps it."""

    seq: int
    body: str
    hash: str


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a chain: the number of its last entry (0 where there is none) and that entry's hash."""

    seq: int = 0
    hash: str = GENESIS


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One entry, read: its place in the chain and its content."""

    row: StoredRow
    content: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """open, spend, reserve, start, commit, void or amend."""
        return str(self.content["kind"])

    @property
    def key(self) -> str:
        """The name of the run that it is about; "" where there is none."""
        return str(self.content.get("key", ""))


def canonical(content: Mapping[str, Any]) -> str:
    """The one spelling of a content: JSON, sorted keys, no spaces, ASCII, no infinities."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest(text: str) -> str:
    """SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode("ascii", "backslashreplace")).hexdigest()


def sealed(content: Mapping[str, Any], dataset: str, head: Head) -> LedgerEntry:
    """The entry that follows `head`."""
    whole = {**content, "ledger": VERSION, "dataset": dataset, "seq": head.seq + 1, "previous": head.hash}
    body = canonical(whole)
    return LedgerEntry(StoredRow(head.seq + 1, body, digest(body)), json.loads(body))


def opened(row: StoredRow, dataset: str, head: Head) -> LedgerEntry:
    """The entry in a row that follows `head`. Raises LedgerError where anything in it was changed."""
    place = f'dataset "{dataset}", entry {head.seq + 1}'
    if row.seq != head.seq + 1:
        raise LedgerError(f"{place}: missing from the chain (entry {row.seq} comes next): the ledger was changed by hand")
    if digest(row.body) != row.hash:
        raise LedgerError(f"{place}: its content does not match its hash: the ledger was changed or damaged")
    content = _content(row.body, place)
    if content.get("previous") != head.hash:
        raise LedgerError(f"{place}: does not follow the entry before it: the ledger was changed by hand")
    if content.get("seq") != row.seq or content.get("dataset") != dataset or _spelled(content) != row.body:
        raise LedgerError(f"{place}: its content belongs elsewhere: the ledger was changed by hand")
    return LedgerEntry(row, content)


def entry_of(row: StoredRow, place: str) -> LedgerEntry:
    """The entry in a row, read and no more than that. Raises LedgerError, which begins with `place`, where it is none."""
    return LedgerEntry(row, _content(row.body, place))


def owner_of(body: object) -> str | None:
    """The dataset that an entry says it is of; None where nothing can be made of it."""
    try:
        found = json.loads(str(body))["dataset"]
    except (ValueError, RecursionError, LookupError, TypeError):
        return None
    return found if type(found) is str else None


def _spelled(content: Mapping[str, Any]) -> str | None:
    try:
        return canonical(content)
    except ValueError:  # NaN and infinities, which Python reads and no JSON has
        return None


def _content(body: str, place: str) -> dict[str, Any]:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        content = None
    if type(content) is not dict or type(content.get("kind")) is not str:
        raise LedgerError(f"{place}: expected a JSON object with a kind, found something else")
    if content.get("ledger") != VERSION:
        raise LedgerError(f"{place}: expected format {VERSION}, found {content.get('ledger')!r}: written by a later dpcli")
    return content
