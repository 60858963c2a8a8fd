"""`dpcli.rounds`: the rounds of a federated run.

A *round* is one noisy sum of the updates of some clients. Each is charged in a *ledger*, the account book of the dataset's privacy budget
(dpcli/ledger), before its noise is drawn, and the run stops before a round would exceed the ledger's *cap*. The ledger adds up charges by a
*filter*, a theorem that holds even if a run was chosen from earlier outputs. One charge may pay for several rounds (a *chunk*), such as a
pass over the clients; the least number is the *portion* (federated_plan.py). The *rest* of a file is the entries ([[mechanism]] tables)
that no round performs; it is charged once. Only the process that made a charge may use it: a fork, or a process that continues after a
crash, charges again, because it cannot know which noise was drawn.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from dpcli.base.displayed import Displayed
from dpcli.base.errors import Denied, InputError, InternalError, LedgerError
from dpcli.federated.federated_plan import FederatedPlan, federated_plan
from dpcli.federated.participations import ParticipationCounter, participation_limit
from dpcli.federated.round import Round, ServerDraws, client_batches
from dpcli.federated.run_charges import charge_key, charge_word, charges_of_run, is_charged, is_rest_charged, rest_key, run_name
from dpcli.ledger.budget import DatasetBudget, path_or_url, text_of
from dpcli.ledger.requests import checked_key
from dpcli.ledger.stores.places import open_ledger
from dpcli.sessions.folder import this_process

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.ledger.ledger import Ledger


LARGEST_BITS = 64  # largest size of a whole number that the caller may pass; arbitrary, and checked before the number is printed
# The largest number of keys that one charge tries, because another process may use a key first. After that many attempts nothing is
# charged. The number is arbitrary and affects only the time.
KEY_ATTEMPTS = 1000
_INSTANCES: weakref.WeakSet[Rounds] = weakref.WeakSet()  # all live instances; a forked process replaces their locks


def rounds(
    pipeline: str | os.PathLike[str],
    ledger: str | os.PathLike[str],
    key: str,
    dataset: str | None = None,
    chunk: int | None = None,
    done: int = 0,
    clients: int | None = None,
) -> Rounds:
    """Return the rounds of a file with [federated]. Each round is charged in a ledger before its noise is drawn.

    Args:
        pipeline: Path of the file. The run is stopped by the cap of the ledger, and not by the [budget] of the file.
        ledger: A path, sqlite:///path or postgresql://...
        key: Name of the run. A later process may continue the run under this key. It pays for every round that it repeats.
        dataset: Name of the dataset in the ledger; None for its only dataset.
        chunk: Number of rounds that one charge pays for: a multiple of the rounds of a pass over the clients, or of a run of correlated
            noise. None for the smallest valid number.
        done: Number of rounds of the plan that earlier processes have completed.
        clients: The true number of clients, which is secret under add-remove; None for the declared number.

    Raises:
        InputError: If the file, the key or a number is invalid, the file has no [federated], or its entry costs less than the rounds.
        LedgerError: If the ledger does not exist.
        CannotCertify, NotRepresentable: If the ledger's filter has no cost for a round.
    """
    plan = federated_plan(path_or_url("pipeline", pipeline))
    size = plan.portion if chunk is None else whole_number("chunk", chunk, plan.portion)
    if size % plan.portion:
        raise InputError(
            f"chunk: expected a multiple of {plan.portion}, the number of rounds that one charge pays for, found {chunk}"
        )
    if whole_number("done", done, 0) > plan.rounds:
        raise InputError(f"done: expected at most {plan.rounds:,} rounds, as planned, found {done}")
    if not text_of("key", key):
        raise InputError("key: expected a name for this run, found an empty text")
    checked_key(charge_key(key, 1, size))
    budget = DatasetBudget(path_or_url("ledger", ledger), None if dataset is None else text_of("dataset", dataset))
    return Rounds(plan, budget, key, size, done, None if clients is None else whole_number("clients", clients, 0))


class Rounds(Displayed):
    """The rounds of one run, as `dpcli.rounds` returns them. Threads may share an instance.

    `round` charges the next round and returns it when the charge is durable. Only then may the noise of the round be drawn. Iteration calls
    `round` until the end of the plan.

    Each charge is a ledger entry. Its key is KEY/round-000001 and so on, or KEY/charge-000001 if a charge pays for several rounds. The
    entries of the file that no round performs are charged once, with the first round, under KEY/beside. A key belongs to one file and one
    window of rows. Only one process uses a charge. The rounds of a process that died stay charged. Another process, or a fork of this
    process, is charged again for the rounds that it performs.

    A run may stop when the ledger refuses a charge. A charge may depend on all earlier releases: even then the filter of the ledger never
    lets the sum exceed the cap. The guarantee of a run is therefore the cap, and `epsilon` is only the cost of a plan.

    Attributes:
        taken: Number of rounds of the plan that were returned, including the rounds that earlier processes have completed.

    Source: Feldman & Zrnic 2021, arXiv:2008.11193 (Renyi DP and zCDP); Smith & Thakurta 2022, arXiv:2210.17520, and Koskela et al. 2022,
    arXiv:2209.15596 (Gaussian DP); Rogers et al. 2016, arXiv:1605.08294 (sums of epsilon); Whitehouse et al. 2023, arXiv:2203.05481
    (advanced composition).
    """

    def __init__(self, plan: FederatedPlan, budget: DatasetBudget, key: str, chunk: int, done: int, clients: int | None) -> None:
        self.plan, self.key, self.chunk, self.taken = plan, key, chunk, done
        self._budget, self._clients = budget, clients
        self._lock, self._forked_in_round = threading.Lock(), False
        self._begin()
        _INSTANCES.add(self)

    def _line(self) -> str:  # the text that `repr` shows (base/displayed.py)
        return f"{self.taken:,} of {self.planned:,} rounds, key={self.key!r}"

    def _begin(self) -> None:
        """Reset the state for a process that has paid for no round yet. A forked process calls this method again."""
        self._unused_rounds = 0  # rounds that are charged and not returned yet
        self._paid_rounds = 0  # rounds for which this process has paid
        self._last_key = ""
        self._batches = client_batches(self.plan, self._clients)
        with self._open() as ledger:
            # A cost that the ledger's filter does not know is refused before the first round.
            ledger.cost(self.plan.charge(self.plan.portion, with_rest=False))
            if self.plan.rest is not None:
                ledger.cost(self.plan.rest)
            self._run_key = run_name(ledger, self.key)
            charges = charges_of_run(ledger, self.plan, self._run_key)
        self._last_number = charges.last_numbers[charge_word(self.chunk)]
        self._counter = _participation_counter(self.plan, lambda: self._paid_rounds)
        self._process = this_process()  # assigned last, so that the next `round` calls `_begin` again if it failed

    @property
    def planned(self) -> int:
        """The number of rounds in the plan."""
        return self.plan.rounds

    @property
    def charged(self) -> int:
        """The number of rounds for which all processes have paid under this key, as the ledger states it now."""
        with self._open() as ledger:
            return charges_of_run(ledger, self.plan, self._run_key).rounds

    def round(self) -> Round:
        """Charge the next round, unless an earlier charge pays for it, and return it.

        Raises:
            Denied: If the charge does not fit in the remaining budget. Nothing was written, and no noise may be drawn.
            InputError: If the plan has no further round, or this process was forked while another thread of its parent charged a round.
            LedgerError: If the ledger is missing, locked or damaged, or the key belongs to another run. A later call charges again.
        """
        with self._lock:
            if self._forked_in_round:
                raise InputError(
                    f'"{self.key}": expected a process that was forked between two rounds, found one that was forked while a round was '
                    "charged: call dpcli.rounds again in this process"
                )
            if self.taken >= self.planned:
                raise InputError(f'"{self.key}": expected at most {self.planned:,} rounds, as planned, found one more')
            if self._process != this_process():
                self._begin()
            if not self._unused_rounds:
                self._charge()
            self._unused_rounds -= 1
            self.taken += 1
            clients = self._batches if isinstance(self._batches, ServerDraws) else next(self._batches)
            return Round(self.plan, self.taken, self._last_key, clients, self._counter)

    def __iter__(self) -> Iterator[Round]:
        """Yield the remaining rounds of the plan. Raises Denied if the ledger refuses a round."""
        while self.taken < self.planned:
            yield self.round()

    def epsilon(self) -> float:
        """Return an upper bound on the epsilon of a run that was planned to end after the rounds that are charged now.

        The rounds of all processes count. The bound holds at the file's delta and is not rounded. It is 0.0 before the first round. If the
        outputs decide when the run stops, the guarantee of the run is the cap of the ledger, and not this bound.
        """
        from dpcli.analysis.account import headline

        rounds = self.charged
        if not rounds:
            return 0.0
        pipeline = replace(self.plan.charge(rounds, with_rest=True), budget=self.plan.pipeline.budget)
        return headline(pipeline).upper  # the best bound that the accountants certify

    def _charge(self) -> None:
        """Charge the next rounds under a new key, with the rest of the file if it is not charged yet."""
        count = self._next_count()
        pipeline = self.plan.charge(count, with_rest=False)
        why = f"round {self.taken + 1:,} of {self.planned:,}"
        with self._open() as ledger:
            for _ in range(KEY_ATTEMPTS):
                rest = None if is_rest_charged(ledger, self.plan, self._run_key) else self.plan.rest
                self._last_number += 1  # no number is tried twice
                key = charge_key(self._run_key, self._last_number, self.chunk)
                try:
                    charged_before = self._charge_under(ledger, pipeline, key, why, rest)
                except Denied as refusal:
                    self._last_number -= 1
                    raise Denied(f"round {self.taken + 1:,}: {refusal}") from None
                if not charged_before:
                    break
            else:
                raise LedgerError(f'"{self.key}": other processes have meanwhile charged all {KEY_ATTEMPTS:,} keys that were tried')
            if not is_rest_charged(ledger, self.plan, self._run_key):
                raise LedgerError(f'"{self.key}": the entries of {self.plan.path} that no round performs are not charged')
        self._last_key = key
        self._paid_rounds += count
        pays_for_all = self._paid_rounds >= self.plan.paid_by
        self._unused_rounds = self.planned if pays_for_all else count

    def _charge_under(self, ledger: Ledger, rounds: Pipeline, key: str, why: str, rest: Pipeline | None) -> bool:
        """Charge rounds under a key, with `rest` in the same transaction if it is given. Return whether the key was charged before.

        Another process may have charged the key since. Its charge pays for its own noise, so the caller then tries another key.
        """
        if is_charged(ledger, self.plan, self._run_key, key):
            return True
        if rest is None:
            return ledger.spend(rounds, key, why=why).repeated
        both = replace(rounds, mechanisms=(*rounds.mechanisms, *rest.mechanisms))
        _, charge_of_rounds = ledger.spend_both([(rest, rest_key(self._run_key)), (rounds, key)], both, why)
        return charge_of_rounds.repeated

    def _next_count(self) -> int:
        """Return the number of rounds of the next charge: a chunk, or fewer rounds if they pay for the rest of the plan."""
        unpaid = min(self.planned - self.taken, self.plan.paid_by - self._paid_rounds)  # `paid_by`: rounds that pay for all
        portions = -(-unpaid // self.plan.portion)  # rounded up
        return min(self.chunk, portions * self.plan.portion)

    def _open(self) -> Ledger:
        """Return the open ledger, as a context manager that closes it."""
        return open_ledger(self._budget.url, self._budget.dataset)

    def __reduce__(self) -> NoReturn:
        raise InternalError("rounds cannot be copied, as both copies would draw noise for one charge")


def _participation_counter(plan: FederatedPlan, paid: Callable[[], int]) -> ParticipationCounter | None:
    """Return a counter of participations; None if the server enforces no limit on participations in addition to its draws.

    `paid` returns the number of rounds that are paid for. One pass over the clients pays for one participation of each client. Without
    passes, one round does.
    """
    if not plan.table.enforced_keys:
        return None
    limit = participation_limit(plan.table, plan.rounds, plan.rate, begins_pass=True)
    return ParticipationCounter(limit, lambda: paid() // plan.portion)


def whole_number(name: str, given: object, least: int) -> int:
    """Return the value of argument `name`, a whole number of at least `least`. Raises InputError otherwise."""
    if isinstance(given, int) and given.bit_length() > LARGEST_BITS:
        raise InputError(f"{name}: expected a whole number of at most {LARGEST_BITS} bits, found a larger number")
    if not isinstance(given, int) or isinstance(given, bool) or given < least:
        raise InputError(f"{name}: expected a whole number of at least {least}, found {repr(given)[:60]}")
    return given


def _replace_locks() -> None:
    """Replace the locks in a forked process, because a thread that exists only in the parent may hold them."""
    for rounds in _INSTANCES:
        rounds._forked_in_round = rounds._forked_in_round or rounds._lock.locked()
        rounds._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_replace_locks)
