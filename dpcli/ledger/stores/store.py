"""The port: what a backend must do. Rows go in at the end and never change.

A backend knows nothing of privacy: it keeps rows in order, lets one writer at a time look and append, and returns from `writing` only when
what was appended would survive a power failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from dpcli.base.errors import LedgerError
from dpcli.ledger.chain import StoredRow

# What somebody knows who has no answer: to anything before a commit, and to the commit itself.
NOTHING = "nothing was written"
UNSURE = (
    "nothing is acknowledged, and the entry may be written or not: dpcli budget log shows it, and the same request under the same key "
    "charges once"
)
STANDS = "what was written before stands"


def error_after_write(error: LedgerError) -> LedgerError:
    """Return the error of a request that came after something was written."""
    text = str(error)
    if UNSURE in text or STANDS in text:
        return error
    return LedgerError(text.replace(NOTHING, f"nothing more was written, and {STANDS}") if NOTHING in text else f"{text}; {STANDS}")


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A checkpoint of a chain (dpcli.ledger.checkpoint), as a backend keeps it: a text, and the SHA-256 of it."""

    body: str
    digest: str


class Tail(Protocol):
    """The end of one dataset's chain, held by one writer."""

    def after(self, seq: int) -> Sequence[StoredRow]:
        """Return the rows with a number above `seq`, ascending."""
        ...

    def append(self, row: StoredRow) -> None:
        """Add a row at the end."""
        ...

    def take(self, row: StoredRow) -> None:
        """Add a row of another place at the end of a chain that is being copied here (dpcli.ledger.stores.copying)."""
        ...

    def note(self, checkpoint: StoredCheckpoint) -> None:
        """Keep a checkpoint in place of the last one; nothing where the store makes its own."""
        ...


class Store(Protocol):
    """A place where chains are kept. Every method raises LedgerError if the place is missing, locked or damaged."""

    wrote: bool
    """True once something was written by it: what fails later says so."""
    hides: bool
    """True where it shows a login only some datasets: one that is not seen may be there."""

    @property
    def place(self) -> str:
        """The ledger as messages call it; never holds a password."""
        ...

    @property
    def address(self) -> str:
        """The place from everywhere on this machine, and whoever is logged in: what an entry calls it."""
        ...

    @property
    def identity(self) -> tuple[object, ...]:
        """An identity that two stores share where a row that is written to one is in the other."""
        ...

    @property
    def who(self) -> str | None:
        """The login, None if the backend cannot know it."""
        ...

    def datasets(self) -> tuple[str, ...]:
        """Return the names, sorted."""
        ...

    def after(self, dataset: str, seq: int, most: int | None = None) -> Sequence[StoredRow]:
        """Return the rows of one dataset with a number above `seq`, ascending, as of one moment, up to `most` from the first.

        Empty for an unknown dataset.
        """
        ...

    def about(self, dataset: str, key: str) -> Sequence[StoredRow]:
        """Return the rows that name a key, ascending, without reading the others."""
        ...

    def beginning(self, dataset: str, start: str) -> Sequence[StoredRow]:
        """Return the rows that name a key which begins with `start`, an ASCII character at its end; otherwise as `about`."""
        ...

    def checkpoint(self, dataset: str) -> StoredCheckpoint | None:
        """Return the last one of a dataset, as it was kept; None if there is none."""
        ...

    def writing(self, dataset: str) -> AbstractContextManager[Tail]:
        """Open the transaction of one writer: what `after` answers stays true until its end, which commits durably; an error rolls back."""
        ...

    def schema(self) -> str:
        """Return the definitions that guard the rows, as text: hashed at `init`, compared by `verify`."""
        ...

    @property
    def version(self) -> int:
        """The version of the definitions that guard the rows."""
        ...

    @property
    def outdated(self) -> str:
        """A sentence where a later version has better definitions, which dpcli budget upgrade would make; "" if it has not."""
        ...

    def now(self) -> str:
        """Return the time that an entry is given (STAMP): the server's if there is one, else this machine's."""
        ...

    def check(self, dataset: str | None = None) -> tuple[str, ...]:
        """Return what the backend's own integrity check finds wrong about a dataset, or about all; nothing if all is well."""
        ...

    def close(self) -> None:
        """Release the connection."""
        ...
