"""A charged run of a ledger, with its status.

A run is charged under its *key*, its name. A run that is made at once is charged by an entry "spend". A long run is charged by a
reservation ("reserve"), which is started before its noise is drawn ("start") and ended ("commit"), or cancelled before the start ("void").
`LedgerState` (state.py) changes the status of a run when it applies these entries; past_runs.py looks up runs of a long history. Costs are
decimals by name in the currency of the ledger's filter, such as {"rho": 0.1} (amounts.py). If the dataset is cut into *blocks*, such as
days, a run is charged on each block of its *window*. A *session* (dpcli/sessions) is a run of a command under one charge, which may grant
answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol

from dpcli.ledger.amounts import cost_on_blocks

LONGEST_NAMES = 200  # largest number of characters of the text that names a run's mechanisms; affects what is shown alone
# The status of a run after each kind of entry. All runs except void ones are charged in full, including abandoned reservations.
STATUS_AFTER = {"reserve": "reserved", "spend": "committed", "start": "started", "commit": "committed", "void": "void"}
DRAWN = ("started", "committed")  # statuses of a run that may have drawn noise: answers may be counted, and its price be corrected
# The statuses that a run may have before each kind of entry that changes its status.
STATUSES_BEFORE = {"start": ("reserved",), "commit": ("reserved", "started"), "void": ("reserved",)}


@dataclass(frozen=True, slots=True)
class Run:
    """A charged run.

    Attributes:
        key: Name of the run.
        seq: Number of the entry that charged the run.
        status: "reserved", "started" (noise may have been drawn), "committed" or "void".
        cost: The cost, by amount. With blocks, this cost is charged on each block of the window.
        content: Content of the entry that charged the run.
        counts: Number of granted answers of the run's session, by the name of the answers.
    """

    key: str
    seq: int
    status: str
    cost: Mapping[str, Decimal]
    content: Mapping[str, Any]
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def pipeline(self) -> Mapping[str, Any]:
        """The tables of the pipeline: {"privacy": {...}, "mechanism": [{...}, ...]}."""
        tables: Mapping[str, Any] = self.content["pipeline"]
        return tables

    @property
    def window(self) -> tuple[str, ...]:
        """The blocks that the run reads; empty if the dataset has no blocks."""
        return tuple(self.content.get("window", ()))

    @property
    def total(self) -> Mapping[str, Decimal]:
        """The amounts that the run adds to the spending. With blocks, its full cost is added on each block of its window."""
        return cost_on_blocks(self.cost, self.window)

    @property
    def name(self) -> str:
        """The names of the pipeline's mechanisms, such as "counts + mean"."""
        return mechanism_names(self.pipeline)

    def expired(self, now: str) -> bool:
        """Return whether the run is a reservation that has expired. Such a run stays charged in full and cannot be voided."""
        # Times in the form of entries sort as texts.
        return "expires" in self.content and self.status == "reserved" and str(self.content["expires"]) <= now


class LedgerRuns(Protocol):
    """A mapping from keys to runs, in the order in which they were charged: a dict, or a class of past_runs.py that needs less memory."""

    def __getitem__(self, key: str, /) -> Run: ...

    def __setitem__(self, key: str, run: Run, /) -> None: ...

    def __contains__(self, key: object, /) -> bool: ...

    def __iter__(self) -> Iterator[str]: ...

    def __len__(self) -> int: ...

    def get(self, key: str, /) -> Run | None: ...

    def values(self) -> Collection[Run]: ...


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A reservation that has not ended, in the form in which a checkpoint (checkpoint.py) stores it.

    Attributes:
        seq, hash: Number and hash of the entry that charged it, from which a reader of the checkpoint restores the run.
        status: "reserved" or "started".
    """

    seq: int
    hash: str
    status: str


def payer(content: Mapping[str, Any]) -> str:
    """Return the person who is charged for a run, from the content of its entry."""
    return str(content.get("who", ""))


def mechanism_names(pipeline: Mapping[str, Any]) -> str:
    """Return the names of a pipeline's mechanisms, cut to `LONGEST_NAMES`, because a pipeline can have names of any length."""
    text = " + ".join(str(entry.get("name", "?")) for entry in pipeline["mechanism"])
    return text if len(text) <= LONGEST_NAMES else text[: LONGEST_NAMES - 3] + "..."
