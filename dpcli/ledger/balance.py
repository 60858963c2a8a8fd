"""The balance of a ledger, in terms that a person can plan with, and all datasets of some ledgers at a glance.

Closed forms alone: nothing in this file needs arrays. A dataset that cannot be read hides no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction

from dpcli.base.errors import LedgerError
from dpcli.base.stated import difference
from dpcli.ledger import amounts
from dpcli.ledger.amounts import block_shares
from dpcli.ledger.chain import digest
from dpcli.ledger.filters.filter import Filter
from dpcli.ledger.governance import concerning
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.state import LedgerState, Run
from dpcli.ledger.stores.places import open_store, without_secrets
from dpcli.ledger.stores.store import Store


@dataclass(frozen=True, slots=True)
class Remaining:
    """The part of a cap that may still be spent.

    spent, reserved, left: shares of the cap (the scarcest amount decides); of the number of declared runs in declared mode. There is no
    epsilon of what is spent: at a moment that is chosen from outputs only the cap is a bound. planned: in declared mode the epsilon of the
    whole plan, which was fixed in advance; else None. like_last: further runs like the last one that fit, None where
    none was made. pure: a pure epsilon that certainly fits in one run. Both are 0 where the dataset has moved, or is a copy that is not
    open: nothing is taken there, whatever is left of the cap.
    """

    spent: float
    reserved: float
    left: float
    planned: float | None
    like_last: int | None
    pure: float


def room(state: LedgerState, window: Sequence[str] = ()) -> Remaining:
    """Return what a state leaves; of blocks, the fullest of a window, or of all."""
    terms, closed = state.open_terms(), state.departure is not None
    full = state.over(window) if window else state.fullest()
    declared = terms.mode == "declared"
    spent = share_of(full, full.spent)
    return Remaining(
        spent,
        share_of(full, full.reserved),
        max(0.0, -difference(spent, 1.0)),
        float((terms.certified or {})["epsilon"]) if declared else None,
        None if state.last is None else 0 if closed else runs_like(state, state.last),
        0.0 if declared or closed else _pure(terms.the_filter, full.left()),
    )


def share_of(state: LedgerState, part: amounts.Amounts) -> float:
    """Return the share of the cap that a part of the spending takes; in declared mode, of the number of runs that were declared."""
    if state.open_terms().mode == "declared":
        return float(sum(part.values()) / sum(state.caps.values()))
    return amounts.share(part, state.caps)


def runs_like(state: LedgerState, run: Run) -> int:
    """Return how many more runs of that cost fit, by its maker, whose quotas count; -1 where it costs nothing, and any number does."""
    if state.closed(run.window) is not None:
        return 0
    quotas = concerning(state.quotas, str(run.content["who"]))
    shares = (amounts.add(each.limits(state.caps), state.quota_used(each, run.window), -1) for each in quotas)
    lefts = (state.over(run.window).left(), *shares)
    many = (Fraction(left[name]) // Fraction(cost) for left in lefts for name, cost in run.cost.items() if cost > 0)
    return max(min(many, default=-1), 0) if any(run.cost.values()) else -1


def _pure(rule: Filter, left: amounts.Amounts) -> float:
    return rule.pure_room(amounts.downward(left[rule.currency[0]]))


HIGH = 0.8  # share of a cap above which somebody should look
CHANGED = "the definitions that guard its entries were changed: dpcli budget verify"
UNNOTED = "its definitions are of an earlier version: dpcli budget upgrade"


@dataclass(frozen=True, slots=True)
class Glance:
    """A dataset at a glance. used, reserved: shares of the cap, with blocks of the fullest, `block`. warnings: to look at."""

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
        """The place where it is charged once the move is complete, None where it has not moved."""
        return None if self.state.departure is None else self.state.departure.to

    @property
    def added_up_by(self) -> str:
        """The filter, or "declared"."""
        terms = self.state.open_terms()
        return "declared" if terms.mode == "declared" else terms.filter


@dataclass(frozen=True, slots=True)
class Unread:
    """A dataset that cannot be read, or a whole ledger (dataset None), and why."""

    ledger: str
    dataset: str | None
    why: str


def overview(urls: Sequence[str]) -> tuple[tuple[Unread, ...], tuple[Glance, ...]]:
    """Return what cannot be read, and every dataset, the fullest first; those that have moved come last.

    Raise InputError for what names no ledger at all.
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


def fullest_block(state: LedgerState) -> str | None:
    """Return the first of the blocks of which most is used, None where there are none."""
    if state.open_terms().family is None:
        return None
    shares = {block: amounts.share(spent, state.caps) for block, spent in block_shares(state.spent, state.caps).items()}
    return max(shares, key=lambda block: shares[block], default=None)


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
