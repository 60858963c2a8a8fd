"""An overview of the datasets in several ledgers, for `dpcli budget overview`: how much of each budget is used, and what needs attention.

A ledger file or database may hold several datasets, each with a cap of its own. If a dataset or a ledger cannot be read, the others are
still shown. documents/ledger_overview.py prints the overview. A dataset may be cut into *blocks*, such as days, each with a cap of its own;
the *fullest* block is the one with the largest used share. A dataset that has *moved* (`LedgerState.departure`) is charged in another
ledger. The *definitions* are the tables, triggers and SQL functions that guard the entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from dpcli.base.errors import LedgerError
from dpcli.ledger.balance import fullest_block, share_of
from dpcli.ledger.chain import digest
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.state import OVERSPENT, UNGUARANTEED, LedgerState
from dpcli.ledger.stores.places import open_store, without_secrets
from dpcli.ledger.stores.store import Store

if TYPE_CHECKING:
    from dpcli.document.document import Document

    BalanceMaker = Callable[[Ledger], Document]  # returns the document of the balance of an open ledger

# The used share of a cap above which a warning is shown: late enough to be rare, and early enough to plan. It affects warnings alone.
HIGH_SHARE = 0.8
# Warnings about the definitions in a store that guard the entries of a dataset.
CHANGED_DEFINITIONS = "the definitions that guard its entries were changed: run dpcli budget verify"
OLD_DEFINITIONS = "its definitions are of an earlier version: run dpcli budget upgrade"


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """A dataset in the overview.

    Attributes:
        ledger: Path or URL of the ledger, without passwords.
        state: The state of the dataset's ledger.
        used: The spent share of the cap, for the amount with the largest share. It includes the reserved share. It exceeds 1 if the cap was
            lowered below the spending. If the dataset has blocks, all blocks that were charged are taken together, each amount at its
            largest.
        reserved: The share of the cap that belongs to runs that have not ended, with blocks as in `used`.
        block: The fullest block; None if the dataset has no blocks, or no block was charged.
        warnings: What needs attention, as sentences without a full stop.
        balance: The document of the dataset's balance; None if it was not asked for.
    """

    ledger: str
    state: LedgerState
    used: float
    reserved: float
    block: str | None
    warnings: tuple[str, ...]
    balance: Document | None = None

    @property
    def dataset(self) -> str:
        """The name of the dataset."""
        return self.state.dataset

    @property
    def moved_to(self) -> str | None:
        """The ledger to which the dataset has moved; None if it has not moved. For a copy that is not open yet, its own ledger."""
        return None if self.state.departure is None else self.state.departure.to

    @property
    def added_up_by(self) -> str:
        """The name of the filter, or "declared" in declared mode."""
        terms = self.state.open_terms()
        return "declared" if terms.mode == "declared" else terms.filter


@dataclass(frozen=True, slots=True)
class UnreadableDataset:
    """A dataset that cannot be read, with the reason.

    Attributes:
        ledger: Path or URL of the ledger, without passwords.
        dataset: The name of the dataset; None if the ledger itself cannot be read.
        why: The message of the error.
    """

    ledger: str
    dataset: str | None
    why: str


class Overview(NamedTuple):
    """The datasets and ledgers that cannot be read, and the summaries of all other datasets.

    The summaries are sorted by the used share of the cap, the largest first. Datasets that have moved come last.
    """

    unread: tuple[UnreadableDataset, ...]
    summaries: tuple[DatasetSummary, ...]


def overview(urls: Sequence[str], balance_of: BalanceMaker | None = None) -> Overview:
    """Return the overview of all datasets of some ledgers.

    Args:
        urls: Paths or URLs of ledgers. If one is repeated, it is read once.
        balance_of: Function that returns the document of a dataset's balance from its open ledger; None for no such documents.

    Raises:
        InputError: A URL is not the path or URL of a ledger.
    """
    datasets: list[UnreadableDataset | DatasetSummary] = []
    for url in dict.fromkeys(urls):
        datasets += _datasets_of(url, balance_of)
    unreadable = tuple(dataset for dataset in datasets if isinstance(dataset, UnreadableDataset))
    summaries = [dataset for dataset in datasets if isinstance(dataset, DatasetSummary)]
    summaries.sort(key=lambda summary: (summary.moved_to is not None, -summary.used, summary.dataset, summary.ledger))
    return Overview(unreadable, tuple(summaries))


def _datasets_of(url: str, balance_of: BalanceMaker | None) -> Iterator[UnreadableDataset | DatasetSummary]:
    """Yield the datasets of one ledger. If the ledger itself cannot be read, yield it as unreadable. Raises InputError for a wrong URL."""
    try:
        store = open_store(url)
    except LedgerError as error:
        yield UnreadableDataset(without_secrets(url), None, str(error))
        return
    with closing(store):
        try:
            names, schema_hash = store.datasets(), digest(store.schema())
            store_warning = store.outdated
        except LedgerError as error:
            yield UnreadableDataset(store.place, None, str(error))
            return
        for name in names:
            try:
                yield _summary_of(store, name, schema_hash, store_warning, balance_of)
            except LedgerError as error:
                yield UnreadableDataset(store.place, name, str(error))


def _summary_of(store: Store, name: str, schema_hash: str, store_warning: str, balance_of: BalanceMaker | None) -> DatasetSummary:
    """Return the summary of one dataset. Raises LedgerError if the dataset cannot be read.

    `schema_hash` is the hash of the definitions in the store, and `store_warning` a warning about all of its datasets, or "".
    """
    ledger = Ledger(store, name)
    state = ledger.state()
    full = state.fullest()
    used, reserved = share_of(full, full.spent), share_of(full, full.reserved)
    warnings = [*_warnings_about_budget(state, used)]
    waiting = _count_waiting_proposals(store, state)
    if waiting:
        warnings.append(f"{waiting} {'proposal waits' if waiting == 1 else 'proposals wait'} for another person's approval")
    if store_warning:
        warnings.append(store_warning)
    if state.schema != schema_hash and not state.awaits_opening:
        warnings.append(OLD_DEFINITIONS if store.version > state.version else CHANGED_DEFINITIONS)
    balance = None if balance_of is None else balance_of(ledger)
    return DatasetSummary(store.place, state, used, reserved, fullest_block(state), tuple(warnings), balance)


def _warnings_about_budget(state: LedgerState, used: float) -> Iterator[str]:
    """Yield the warnings about the move, the spending and the guarantee of a dataset, whose used share of the cap is `used`."""
    if state.departure is not None:
        yield str(state.departure)
    elif used > 1.0:
        yield OVERSPENT
    elif used > HIGH_SHARE:
        yield "used up" if used == 1.0 else f"more than {100.0 * HIGH_SHARE:.0f} % is used"
    if state.guaranteed is None:
        yield UNGUARANTEED


def _count_waiting_proposals(store: Store, state: LedgerState) -> int:
    """Return the number of proposals that have not expired. The store is asked for the time only if there is a proposal."""
    if not state.proposals:
        return 0
    now = store.now()
    return sum(proposal.expires > now for proposal in state.proposals.values())
