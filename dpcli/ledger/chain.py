"""The hash chain of a ledger, and the format of the times in its entries.

An *entry* is a line of a ledger, such as the charge for a run; its *content* is a JSON object, and what it means is up to state.py. Each
entry is stored as JSON in one canonical spelling, and contains the SHA-256 of the entry before it. So a change, removal or insertion of an
entry changes the hash of every later entry. To *seal* an entry is to add its number and that hash (`seal`); entry_log.py does it for every
new entry, and reads entries by `next_entry` or `linked_entry`, which check both. The *head* is the number and hash of the last entry.
Removing the last entries, or recomputing all of the chain, is not visible here: compare with an anchor, an earlier head that someone keeps
elsewhere (verify.py).

Source: Haber & Stornetta 1991, How to time-stamp a digital document, Journal of Cryptology 3.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from dpcli.base.errors import InputError, LedgerError

VERSION = 1  # version of the format of entries, which each entry states in its field "ledger"
GENESIS = "0" * 64  # the field "previous" of the first entry, which has no entry before it
# Sorted keys, no spaces, ASCII: so equal contents have equal texts, and thus equal hashes.
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
STAMP = "%Y-%m-%dT%H:%M:%SZ"  # times are in UTC, to the second


@dataclass(frozen=True, slots=True)
class StoredRow:
    """An entry as a store keeps it: its number, which counts from 1, its canonical JSON, and the SHA-256 of that JSON."""

    seq: int
    body: str
    hash: str


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a chain: the number of its last entry (0 if there is none) and that entry's hash."""

    seq: int = 0
    hash: str = GENESIS


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """An entry that was read: its stored row and its content."""

    row: StoredRow
    content: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """The kind of the entry, such as "open" or "spend". dpcli.ledger.grammar lists the kinds."""
        return str(self.content["kind"])

    @property
    def key(self) -> str:
        """The key of the run that the entry is about; "" if it is not about a run."""
        return str(self.content.get("key", ""))


def canonical(content: Mapping[str, Any]) -> str:
    """Return the canonical spelling of an entry's content: JSON in ASCII with sorted keys and without spaces.

    Raises ValueError for NaN and infinities.
    """
    return _ENCODER.encode(content)


def digest(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal. Characters outside ASCII are escaped first."""
    return hashlib.sha256(text.encode("ascii", "backslashreplace")).hexdigest()


def seal(content: Mapping[str, Any], dataset: str, head: Head) -> LedgerEntry:
    """Return the entry with this content that follows `head`, with its number, the hash of `head`, and its own hash."""
    chained = {**content, "ledger": VERSION, "dataset": dataset, "seq": head.seq + 1, "previous": head.hash}
    body = canonical(chained)
    return LedgerEntry(StoredRow(head.seq + 1, body, digest(body)), json.loads(body))


def next_entry(row: StoredRow, dataset: str, head: Head) -> LedgerEntry:
    """Return the entry in a row that must follow `head`. Raises LedgerError if the row was changed, or does not follow `head`."""
    entry = linked_entry(row, dataset, head)
    if _canonical_or_none(entry.content) != row.body:
        raise LedgerError(
            f'dataset "{dataset}", entry {row.seq}: its content is not in canonical form: the ledger was changed by hand'
        )
    return entry


def linked_entry(row: StoredRow, dataset: str, head: Head) -> LedgerEntry:
    """Return the entry in a row as `next_entry` does, but without the check of its canonical form, which takes half of the time.

    It is for rows that `next_entry` has checked before (`EntryLog.reread`).
    """
    place = f'dataset "{dataset}", entry {head.seq + 1}'
    if row.seq != head.seq + 1:
        raise LedgerError(f"{place}: missing from the chain (entry {row.seq} comes next): the ledger was changed by hand")
    entry = single_entry(row, dataset)
    if entry.content.get("previous") != head.hash:
        raise LedgerError(f"{place}: does not follow the entry before it: the ledger was changed by hand")
    return entry


def is_sealed_again(row: StoredRow, stored: StoredRow) -> bool:
    """Return whether a stored row is `row`, or differs from it only by its number, its time, and the hash of the row before it.

    A database seals a row again if others have appended rows since it was made (stores/postgres.py). Any other difference would make it
    another entry than the one that was sent.
    """
    if stored == row:
        return True
    try:
        other = json.loads(stored.body)
        at_other_place = {name: other[name] for name in ("seq", "previous", "when")}
    except (ValueError, RecursionError, LookupError, TypeError):
        return False
    return canonical({**json.loads(row.body), **at_other_place}) == stored.body


def single_entry(row: StoredRow, dataset: str) -> LedgerEntry:
    """Return the entry in a row. Its hash, number and dataset are checked, but not its link to the entry before.

    Raises LedgerError if the hash, the number or the dataset is wrong.
    """
    place = f'dataset "{dataset}", entry {row.seq}'
    if digest(row.body) != row.hash:
        raise LedgerError(f"{place}: its content does not match its hash: the ledger was changed or damaged")
    entry = unchecked_entry(row, place)
    if entry.content.get("seq") != row.seq or entry.content.get("dataset") != dataset:
        raise LedgerError(f"{place}: its content states another number or dataset: the ledger was changed by hand")
    return entry


def unchecked_entry(row: StoredRow, place: str) -> LedgerEntry:
    """Return the entry in a row without a check of its hash.

    Raises LedgerError if the row is not an entry of a known format. The message begins with `place`.
    """
    try:
        content = json.loads(row.body)
    except (ValueError, RecursionError):
        content = None
    if type(content) is not dict or type(content.get("kind")) is not str:
        raise LedgerError(f"{place}: not a JSON object with a kind: {row.body[:40]!a}")
    if content.get("ledger") != VERSION:
        raise LedgerError(f"{place}: expected format {VERSION}, found {content.get('ledger')!r}: written by a later dpcli")
    return LedgerEntry(row, content)


def stated_dataset(body: object) -> str | None:
    """Return the dataset that the text of an entry names; None if the text is not an entry."""
    try:
        dataset = json.loads(str(body))["dataset"]
    except (ValueError, RecursionError, LookupError, TypeError):
        return None
    return dataset if type(dataset) is str else None


def _canonical_or_none(content: Mapping[str, Any]) -> str | None:
    try:
        return canonical(content)
    except ValueError:  # NaN or an infinity, which Python's parser accepts although JSON does not
        return None


def utc_now() -> str:
    """Return the time by this machine's clock, in UTC, to the second."""
    return datetime.now(UTC).strftime(STAMP)


def is_stamp(text: str) -> bool:
    """Return whether a text is a time in the form of entries (STAMP)."""
    try:
        datetime.strptime(text, STAMP)
    except ValueError:
        return False
    return len(text) == len("2030-01-01T00:00:00Z")  # strptime accepts numbers without leading zeros as well


def time_after(now: str, days: float) -> str:
    """Return the time `days` after `now`, or `now` if the sum is beyond the year 9999. Times are in the form of entries."""
    try:
        return (datetime.strptime(now, STAMP) + timedelta(days)).strftime(STAMP)
    except OverflowError:
        return now


def expiry_time(text: str | None, now: str) -> str | None:
    """Return a time in UTC, to the second; None if `text` is None.

    Args:
        text: An ISO time, in UTC if it has no zone, or a number of days or hours after `now` ("14d", "36h").

    Raises:
        InputError: The text has another form, or the time is not after `now`.
    """
    if text is None:
        return None
    start = datetime.strptime(now, STAMP).replace(tzinfo=UTC)
    try:
        end = _relative_time(text, start) or _absolute_time(text)
    except (ValueError, OverflowError):
        end = start  # refused below
    if end <= start:
        raise InputError(f"--expires: expected a time in the future (2030-12-31T00:00:00Z, 14d or 36h), found {text[:40]!r}")
    return end.strftime(STAMP)


def _relative_time(text: str, start: datetime) -> datetime | None:
    """Return the time a number of days or hours after `start`; None if the text states no such number."""
    match = re.fullmatch(r"([0-9]{1,5})([dh])", text)  # five digits, an arbitrary limit, are 273 years of days
    if match is None:
        return None
    count = int(match[1])
    return start + (timedelta(days=count) if match[2] == "d" else timedelta(hours=count))


def _absolute_time(text: str) -> datetime:
    """Return an ISO time in UTC. A time without a zone is taken to be in UTC. Raises ValueError for any other text."""
    time = datetime.fromisoformat(text)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
