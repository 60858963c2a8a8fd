"""An overview of all datasets of some ledgers. If a dataset cannot be read, the others are still shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from dpcli.base.errors import LedgerError
from dpcli.ledger.balance import fullest_block, share_of
from dpcli.ledger.chain import digest
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.state import LedgerState
from dpcli.ledger.stores.places import open_store, without_secrets
from dpcli.ledger.stores.store import Store

HIGH = 0.8  # share of a cap above which the overview warns
CHANGED = "the definitions that guard its entries were changed: dpcli budget verify"
UNNOTED = "its definitions are of an earlier version: dpcli budget upgrade"


@dataclass(frozen=True, slots=True)
class Glance:
    """A dataset in the overview.

    Attributes:
        ledger: The ledger in messages.
        used, reserved: The spent and the reserved share of the cap. With blocks, they are those of the fullest block, `block`.
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
        """The ledger where the dataset is charged when its move is complete; None if it has not moved."""
        return None if self.state.departure is None else self.state.departure.to

    @property
    def added_up_by(self) -> str:
        """The name of the filter, or "declared" in declared mode."""
        terms = self.state.open_terms()
        return "declared" if terms.mode == "declared" else terms.filter


@dataclass(frozen=True, slots=True)
class Unread:
    """A dataset that cannot be read, with the reason. If a whole ledger cannot be read, `dataset` is None."""

    ledger: str
    dataset: str | None
    why: str


def overview(urls: Sequence[str]) -> tuple[tuple[Unread, ...], tuple[Glance, ...]]:
    """Return the datasets and ledgers that cannot be read, and all other datasets.

    The datasets are sorted by the used share of their caps, the largest first. Moved datasets come last.

    Raises:
        InputError: A URL is not the path or URL of a ledger.
    """
    datasets = [each for url in dict.fromkeys(urls) for each in _of_ledger(url)]
    glances = [each for each in datasets if isinstance(each, Glance)]
    unread = tuple(each for each in datasets if isinstance(each, Unread))
    return unread, tuple(
        sorted(glances, key=lambda glance: (glance.moved_to is not None, -glance.used, glance.dataset, glance.ledger))
    )


def _of_ledger(url: str) -> Iterator[Unread | Glance]:
    try:
        store = open_store(url)
    except LedgerError as error:
        yield Unread(without_secrets(url), None, str(error))
        return
    with closing(store):
        try:
            names, schema, amiss = store.datasets(), digest(store.schema()), store.outdated
        except LedgerError as error:
            yield Unread(store.place, None, str(error))
            return
        for name in names:
            try:
                yield _glance(store, name, schema, amiss)
            except LedgerError as error:
                yield Unread(store.place, name, str(error))


def _glance(store: Store, name: str, schema: str, amiss: str) -> Glance:
    state = Ledger(store, name).state()
    full = state.fullest()
    used, reserved = share_of(full, full.spent), share_of(full, full.reserved)
    return Glance(store.place, state, used, reserved, fullest_block(state), tuple(_warnings(store, state, used, schema, amiss)))


def _warnings(store: Store, state: LedgerState, used: float, schema: str, amiss: str) -> Iterator[str]:
    if state.departure is not None:
        yield str(state.departure)
    elif used > 1.0:
        yield "more is spent than the cap allows since it was lowered"
    elif used > HIGH:
        yield "used up" if used == 1.0 else f"more than {100.0 * HIGH:.0f} % is used"
    if state.guaranteed is None:
        yield "no epsilon is guaranteed: the cap was raised, and nobody stated that no output had been seen before"
    now = store.now() if state.proposals else ""
    waiting = sum(each.expires > now for each in state.proposals.values())
    if waiting:
        yield f"{waiting} {'proposal waits' if waiting == 1 else 'proposals wait'} for another person's approval"
    if amiss:
        yield amiss
    if state.schema != schema and not state.not_open:
        yield UNNOTED if store.version > state.version else CHANGED
