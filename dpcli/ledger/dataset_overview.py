"""An overview of the datasets in several ledgers. If a dataset cannot be read, the others are still shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from dpcli.base.errors import LedgerError
from dpcli.ledger.balance import fullest_block, share_of
from dpcli.ledger.chain import digest
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.state import OVERSPENT, UNGUARANTEED, LedgerState
from dpcli.ledger.stores.places import open_store, without_secrets
from dpcli.ledger.stores.store import Store

HIGH_SHARE = 0.8  # used share of a cap above which the overview shows a warning
CHANGED_DEFINITIONS = "the definitions that guard its entries were changed: run dpcli budget verify"
OLD_DEFINITIONS = "its definitions are of an earlier version: run dpcli budget upgrade"


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """A dataset in the overview.

    Attributes:
        ledger: Path or URL of the ledger, without passwords.
        used, reserved: The spent and the reserved share of the cap. If the dataset has blocks, they are the shares of the fullest block.
        block: The fullest block; None if the dataset has no blocks, or no block was charged.
        warnings: Warnings about the dataset.
    """

    ledger: str
    state: LedgerState
    used: float
    reserved: float
    block: str | None
    warnings: tuple[str, ...]

    @property
    def dataset(self) -> str:
        return self.state.dataset

    @property
    def moved_to(self) -> str | None:
        """The ledger to which the dataset has moved; None if it has not moved."""
        return None if self.state.departure is None else self.state.departure.to

    @property
    def added_up_by(self) -> str:
        """The name of the filter, or "declared" in declared mode."""
        terms = self.state.open_terms()
        return "declared" if terms.mode == "declared" else terms.filter


@dataclass(frozen=True, slots=True)
class UnreadableDataset:
    """A dataset that cannot be read, with the reason. If the ledger itself cannot be read, `dataset` is None."""

    ledger: str
    dataset: str | None
    why: str


def overview(urls: Sequence[str]) -> tuple[tuple[UnreadableDataset, ...], tuple[DatasetSummary, ...]]:
    """Return the datasets and ledgers that cannot be read, and all other datasets.

    The datasets are sorted by the used share of their caps in descending order. Datasets that have moved come last.

    Raises:
        InputError: A URL is not the path or URL of a ledger.
    """
    datasets: list[UnreadableDataset | DatasetSummary] = []
    for url in dict.fromkeys(urls):
        datasets += _of_ledger(url)
    unread = tuple(dataset for dataset in datasets if isinstance(dataset, UnreadableDataset))
    summaries = [dataset for dataset in datasets if isinstance(dataset, DatasetSummary)]
    summaries.sort(key=lambda summary: (summary.moved_to is not None, -summary.used, summary.dataset, summary.ledger))
    return unread, tuple(summaries)


def _of_ledger(url: str) -> Iterator[UnreadableDataset | DatasetSummary]:
    """Yield the datasets of one ledger. If the ledger itself cannot be read, yield it as unreadable."""
    try:
        store = open_store(url)
    except LedgerError as error:
        yield UnreadableDataset(without_secrets(url), None, str(error))
        return
    with closing(store):
        try:
            names, schema, store_warning = store.datasets(), digest(store.schema()), store.outdated
        except LedgerError as error:
            yield UnreadableDataset(store.place, None, str(error))
            return
        for name in names:
            try:
                yield _summary_of(store, name, schema, store_warning)
            except LedgerError as error:
                yield UnreadableDataset(store.place, name, str(error))


def _summary_of(store: Store, name: str, schema: str, store_warning: str) -> DatasetSummary:
    state = Ledger(store, name).state()
    full = state.fullest()
    used, reserved = share_of(full, full.spent), share_of(full, full.reserved)
    warnings = tuple(_warnings(store, state, used, schema, store_warning))
    return DatasetSummary(store.place, state, used, reserved, fullest_block(state), warnings)


def _warnings(store: Store, state: LedgerState, used: float, schema: str, store_warning: str) -> Iterator[str]:
    """Yield the warnings about one dataset, whose used share of the cap is `used`."""
    if state.departure is not None:
        yield str(state.departure)
    elif used > 1.0:
        yield OVERSPENT
    elif used > HIGH_SHARE:
        yield "used up" if used == 1.0 else f"more than {100.0 * HIGH_SHARE:.0f} % is used"
    if state.guaranteed is None:
        yield UNGUARANTEED
    now = store.now() if state.proposals else ""
    waiting = sum(proposal.expires > now for proposal in state.proposals.values())
    if waiting:
        yield f"{waiting} {'proposal waits' if waiting == 1 else 'proposals wait'} for another person's approval"
    if store_warning:
        yield store_warning
    if state.schema != schema and not state.not_open:
        yield OLD_DEFINITIONS if store.version > state.version else CHANGED_DEFINITIONS
