"""Rounds that are charged one by one, each before its noise: a run stops before the round that would pass the cap."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

from dpcli.errors import Denied, InputError, InternalError, LedgerError
from dpcli.federated.plan import FederatedPlan, federated_plan
from dpcli.federated.round import Round
from dpcli.federated.server import drawn
from dpcli.ledger.budget import DatasetBudget
from dpcli.ledger.handed import path_or_url, text_of
from dpcli.ledger.requests import checked_key
from dpcli.ledger.stores.places import open_ledger

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger

TRIES = 1000  # keys that another process may have charged meanwhile


class Rounds:
    """The rounds of one run; `dpcli.rounds` makes it.

    `round` charges the next one and returns it once the charge is durable; only then may its noise be drawn. To iterate is to call `round`
    until the plan has ended. Each charge is an entry of the ledger, with the key KEY/round-000001 and so on (KEY/charge-000001 where one
    pays for several rounds), and is used once: what a process that died was charged for stays charged, and what comes next in another
    process, or in a fork of this one, is charged anew. Threads may share it.

    To stop when the ledger says no is sound: whether and what is charged next may depend on all that was released before, and what its
    filter adds up never passes the cap all the same. Source: Feldman & Zrnic 2021, arXiv:2008.11193 (Renyi DP and zCDP); Smith & Thakurta
    2022, arXiv:2210.17520, and Koskela et al. 2022, arXiv:2209.15596 (Gaussian DP); Rogers et al. 2016, arXiv:1605.08294 (sums of epsilon);
    Whitehouse et al. 2023, arXiv:2203.05481 (advanced composition). What is guaranteed of the run is the cap; `epsilon` is of a plan.
    """

    def __init__(self, plan: FederatedPlan, budget: DatasetBudget, key: str, chunk: int, done: int, clients: int | None) -> None:
        self.plan, self.key, self.chunk, self.taken = plan, key, chunk, done
        self._budget, self._clients, self._lock = budget, clients, threading.Lock()
        self._begin()

    def _begin(self) -> None:
        """As a process that has paid for nothing yet."""
        self._process, self._left, self._paid, self._last = os.getpid(), 0, 0, ""
        self._draws = drawn(self.plan, self._clients)
        with self._open() as ledger:
            ledger.cost(self.plan.charge(self.plan.portion, beside=True))
            self._charges = charges_made(ledger, self.key, self.chunk)
        self._earlier, self._beside = self._charges * self.chunk, not self._charges

    @property
    def planned(self) -> int:
        """Rounds of the whole plan."""
        return self.plan.rounds

    @property
    def charged(self) -> int:
        """Rounds that were paid for under this key, those of processes that died among them, each of whose charges counts as `chunk`."""
        return self._earlier + self._paid

    def round(self) -> Round:
        """Charge the next round, if no earlier charge pays for it, and return it.

        Raises:
            Denied: it does not fit in what is left: nothing was written, and no noise may be drawn.
            InputError: the plan has no further round.
            LedgerError: the ledger is missing, locked or damaged. Where it is asked again later, that is another charge.
        """
        with self._lock:
            if self.taken >= self.planned:
                raise InputError(f'"{self.key}": expected at most the {self.planned:,} rounds that are planned, found one more')
            if self._process != os.getpid():
                self._begin()
            if not self._left:
                self._charge()
            self._left -= 1
            self.taken += 1
            return Round(self.plan, self.taken, self._last, self._draws if isinstance(self._draws, str) else next(self._draws))

    def __iter__(self) -> Iterator[Round]:
        """The rounds that the plan still has; Denied where the ledger says no."""
        while self.taken < self.planned:
            yield self.round()

    def epsilon(self) -> float:
        """Upper bound, unrounded, on the epsilon of a run that was planned to have the rounds that were charged, at the file's delta; 0.0
        before the first.

        Whoever stops for what he saw in the outputs has the ledger's cap as his guarantee, and not this.
        """
        from dpcli.analysis.account import headline

        return headline(self.plan.charge(self.charged, beside=True)).upper if self.charged else 0.0

    def _charge(self) -> None:
        """One more entry in the ledger, of a key that nobody has."""
        count = self._next_count()
        pipeline, why = self.plan.charge(count, self._beside), f"round {self.taken + 1:,} of {self.planned:,}"
        with self._open() as ledger:
            window = ledger.stated_window(pipeline)
            for _ in range(TRIES):
                self._charges += 1  # whatever becomes of it, a number is asked for once
                key = charge_key(self.key, self._charges, self.chunk)
                try:
                    receipt = ledger.spend(pipeline, key, why=why, window=window)
                except Denied as refusal:
                    self._charges -= 1
                    raise Denied(f"round {self.taken + 1:,}: {refusal}") from None
                if not receipt.repeated:
                    break
            else:
                raise LedgerError(f'"{self.key}": expected a key that nobody charged within {TRIES:,} tries, found none')
        self._last, self._paid, self._beside = key, self._paid + count, False
        self._left = count if self._paid < self.plan.paid_by else self.planned

    def _next_count(self) -> int:
        """Rounds of the next charge: a chunk, or as few portions as pay for all that is left."""
        left = min(self.planned - self.taken, self.plan.paid_by - self._paid)
        return min(self.chunk, -(-left // self.plan.portion) * self.plan.portion)

    def _open(self) -> Ledger:
        return open_ledger(self._budget.url, self._budget.dataset)

    def __reduce__(self) -> NoReturn:
        raise InternalError("rounds are never copied: what one copy was charged for, both would draw noise for")


def rounds(
    pipeline: str | os.PathLike[str],
    ledger: str | os.PathLike[str],
    key: str,
    dataset: str | None = None,
    chunk: int | None = None,
    done: int = 0,
    clients: int | None = None,
) -> Rounds:
    """The rounds of a file with [federated], each charged in a ledger before its noise is drawn.

    Args:
        pipeline: the path of the file. Its own [budget] stops nothing here: the ledger does.
        ledger: a path, sqlite:///path or postgresql://... dataset: its name there; the only one where None.
        key: names the run. A later process that goes on with it under the same key pays for every round that it does again.
        chunk: rounds of one charge: a multiple of a pass, or of a run of correlated noise, where the entry has one; the least where None.
        done: rounds of the plan that earlier processes brought to their end.
        clients: how many there really are; the declared number where None. Private under add-remove.

    Raises:
        InputError: the file, the key or a number is wrong, the file has no [federated], or it charges less than that says is done.
        LedgerError: the ledger is not there. CannotCertify, NotRepresentable: its filter has no cost for a round.
    """
    plan = federated_plan(path_or_url("pipeline", pipeline))
    size = plan.portion if chunk is None else whole("chunk", chunk, plan.portion)
    if size % plan.portion:
        raise InputError(
            f"chunk: expected a multiple of {plan.portion}, rounds that cost what the first of them costs, found {chunk}"
        )
    if whole("done", done, 0) > plan.rounds:
        raise InputError(f"done: expected at most the {plan.rounds:,} rounds that are planned, found {done}")
    checked_key(charge_key(text_of("key", key), 1, size))
    found = DatasetBudget(path_or_url("ledger", ledger), None if dataset is None else text_of("dataset", dataset))
    return Rounds(plan, found, key, size, done, None if clients is None else whole("clients", clients, 0))


def whole(name: str, given: object, least: int) -> int:
    """A whole number of at least so much. Raises InputError for anything else."""
    if not isinstance(given, int) or isinstance(given, bool) or given < least:
        raise InputError(f"{name}: expected a whole number of at least {least}, found {repr(given)[:60]}")
    return given


def charge_key(key: str, number: int, chunk: int) -> str:
    """The key of a run's charge, by its number from 1."""
    return f"{key}/{'round' if chunk == 1 else 'charge'}-{number:06d}"


def charges_made(ledger: Ledger, key: str, chunk: int) -> int:
    """How many charges of a run the ledger has: the last of those numbered one after the other, by a search that looks at few."""
    runs = ledger.state().runs
    low, high = 0, 1
    while charge_key(key, high, chunk) in runs:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if charge_key(key, middle, chunk) in runs else (low, middle)
    return low
