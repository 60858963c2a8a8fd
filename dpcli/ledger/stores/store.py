"""The interface of a store, which contains the chains of datasets. Rows are appended at the end and never change.

A row is an entry of a ledger as text, with its number and its hash (dpcli/ledger/chain.py). A store knows nothing about privacy. It returns
rows in order, and appends those that follow the end of a chain. `writing` ends only when the appended rows would survive a power failure.
The *definitions* that guard the rows are the tables, triggers and functions in the file or database. sqlite.py and postgres.py have a store
each, and both pass the same tests. dpcli/ledger/entry_log.py reads and appends through this interface.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from dpcli.base.errors import LedgerError
from dpcli.ledger.chain import StoredRow

# Parts of messages. UNSURE is for a commit without an answer.
NOTHING = "nothing was written"
UNSURE = (
    "nothing is acknowledged, and the entry may be written or not: dpcli budget log shows it; if the same request is repeated under its "
    "key, it is charged once"
)
STANDS = "earlier entries remain valid"  # for an error after an earlier commit
NOT_READ_BACK = "an entry was written, but cannot be read back: the ledger's definitions were changed"


class HeadMoved(LedgerError):
    """Raised if others have appended since a writer read the chain, so that it must read again. Nothing was written."""


def error_after_write(error: LedgerError) -> LedgerError:
    """Return the error with the addition that earlier entries were written and remain valid.

    An error with UNSURE in its message is returned without the addition. So is an error that has the addition already.
    """
    text = str(error)
    if UNSURE in text or STANDS in text:
        return error
    return type(error)(text.replace(NOTHING, f"nothing more was written, and {STANDS}") if NOTHING in text else f"{text}; {STANDS}")


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A checkpoint of a chain (dpcli.ledger.checkpoint) as a store keeps it: a text, and the SHA-256 of the text."""

    body: str
    digest: str


class Tail(Protocol):
    """The end of one dataset's chain, to which a writer appends."""

    @property
    def new(self) -> Sequence[StoredRow]:
        """The appended rows. After the end of `Store.writing` they are as stored: with later numbers if others appended meanwhile."""

    def after(self, seq: int) -> Sequence[StoredRow]:
        """Return the rows after number `seq`, in ascending order."""

    def append(self, row: StoredRow) -> None:
        """Append a new row. It is written at the latest when `Store.writing` ends."""

    def append_copied(self, row: StoredRow) -> None:
        """Append a row that is copied from another store (dpcli.ledger.stores.copying)."""

    def put_checkpoint(self, checkpoint: StoredCheckpoint) -> None:
        """Replace the checkpoint of the dataset. A store that makes its own checkpoints does nothing."""


class Store(Protocol):
    """A store of chains, in a file or a database. Every method raises LedgerError if the store is missing, locked or damaged.

    A request reads rows (`after`, or `checkpoint` and the rows after it), decides, and appends inside `writing`. A file is locked
    meanwhile. A database raises HeadMoved there if others have appended what may change the decision, and the request decides again: so no
    two runs are charged to the same rest of a cap.
    """

    scopes_keys: bool
    """True if the store distinguishes logins, so that each login has its own keys (dpcli.ledger.requests.key_scope)."""
    wrote: bool
    """True after this object has written an entry. The messages of later errors then state this."""
    hides: bool
    """True if the store may hide datasets from a login."""

    @property
    def place(self) -> str:
        """The name of the ledger in messages. It never contains a password."""

    @property
    def address(self) -> str:
        """The name of the ledger in entries. It does not depend on the working directory or the login."""

    @property
    def identity(self) -> tuple[object, ...]:
        """A value that is equal for two store objects if and only if they share their rows."""

    @property
    def who(self) -> str | None:
        """The login; None if the store does not know it."""

    def datasets(self) -> tuple[str, ...]:
        """Return the names of the datasets, sorted."""

    def after(self, dataset: str, seq: int, most: int | None = None) -> Sequence[StoredRow]:
        """Return the rows of one dataset after number `seq`, in ascending order, but at most the first `most` rows.

        All rows are read at one moment. An unknown dataset has no rows.
        """

    def rows_of_key(self, dataset: str, key: str) -> Sequence[StoredRow]:
        """Return the rows that name a key, in ascending order. Other rows are not read."""

    def rows_of_prefix(self, dataset: str, prefix: str) -> Sequence[StoredRow]:
        """Return the rows whose key begins with `prefix`, as `rows_of_key` does. The last character of `prefix` must be ASCII."""

    def checkpoint(self, dataset: str) -> StoredCheckpoint | None:
        """Return the last checkpoint of a dataset, without a check of it; None if there is none."""

    def writing(self, dataset: str) -> AbstractContextManager[Tail]:
        """Open the end of a chain. The end of the context writes its rows durably, all or none. After an exception none is written.

        Raises:
            HeadMoved: Others have appended since the writer read, and it must read again. A file is locked, so that others cannot.
            LedgerError: Also if a row was written that cannot be read back.
        """

    def schema(self) -> str:
        """Return the definitions that guard the rows, as text. The opening entry states their hash, and `verify` compares it."""

    @property
    def version(self) -> int:
        """The version number of the definitions that guard the rows."""

    @property
    def outdated(self) -> str:
        """A clause which states that the definitions are of an earlier version; "" if they are current."""

    def now(self) -> str:
        """Return the current time in the form of entries (STAMP), by the clock of the server or, for a file, of this machine."""

    def check(self, dataset: str | None = None) -> tuple[str, ...]:
        """Return the faults that the store's own integrity check finds in a dataset, or in all datasets if None."""

    def close(self) -> None:
        """Release the connection."""
