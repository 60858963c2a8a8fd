"""The rounds of a federated run. Each round is charged before its noise is drawn, and the run stops before a round would exceed the cap.

The ledger states which rounds a run has paid for. Every ledger entry under the run's key is compared with the current file.
"""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

from dpcli.base.displayed import Displayed
from dpcli.base.errors import Denied, InputError, InternalError, LedgerError
from dpcli.federated.federated_plan import FederatedPlan, federated_plan
from dpcli.federated.round import Round, client_batches, client_counter
from dpcli.file.pipeline.canonical import tables_of
from dpcli.ledger.budget import DatasetBudget, path_or_url, text_of
from dpcli.ledger.chain import canonical
from dpcli.ledger.requests import checked_key
from dpcli.ledger.stores.places import open_ledger
from dpcli.sessions.folder import this_process

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.ledger.ledger import Ledger
    from dpcli.ledger.state import Run


KINDS = ("round", "charge")  # words in the keys of charges that pay for one round, and for several rounds
CHARGE_NAME = re.compile(rf"({'|'.join(KINDS)})-([0-9]{{6,}})|beside")


@dataclass(slots=True)
class Charged:
    """The charges that the ledger holds under the key of one run.

    Attributes:
        rounds: Number of rounds that the charges pay for.
        rest: True if the entries of the file that no round performs are charged.
        last: Highest number of a charge, for each of KINDS; 0 if there is none.
    """

    rounds: int = 0
    rest: bool = False
    last: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))


def charged_under(ledger: Ledger, plan: FederatedPlan, key: str) -> Charged:
    """Return the charges of a run, by any process. Entries under other keys are not read.

    Raises:
        LedgerError: A charge was made for another file or window. Its rounds would be counted at this file's price.
    """
    charged, window, tables = Charged(), ledger.stated_window(plan.pipeline), ChargedTables(plan)
    for run in ledger.runs_beginning(f"{key}/"):
        name = CHARGE_NAME.fullmatch(run.key[len(key) + 1 :])
        if name is None:
            continue
        charged.rounds += tables.rounds(run, key, window)
        kind, number = name.groups()
        if kind is None:
            charged.rest = True
        else:
            charged.last[kind] = max(charged.last[kind], int(number))
    return charged


def is_charged(ledger: Ledger, plan: FederatedPlan, key: str, name: str) -> bool:
    """Check whether the ledger holds the charge `name` of the run `key`.

    Raises:
        LedgerError: The charge was made for another file or window.
    """
    runs = ledger.state().runs
    if name in runs:
        ChargedTables(plan).rounds(runs[name], key, ledger.stated_window(plan.pipeline))
        return True
    return False


def rest_is_charged(ledger: Ledger, plan: FederatedPlan, key: str) -> bool:
    """Check whether the entries that no round performs are charged; True if the file has none. Raises LedgerError as `is_charged` does."""
    return is_charged(ledger, plan, key, rest_key(key)) or plan.rest is None


def charge_key(key: str, number: int, chunk: int) -> str:
    """Return the ledger key of a run's charge for `chunk` rounds. Charges are numbered from 1."""
    return f"{key}/{kind_of(chunk)}-{number:06d}"


def rest_key(key: str) -> str:
    """Return the ledger key of the charge for the entries of the file that no round performs."""
    return f"{key}/beside"


def kind_of(chunk: int) -> str:
    """Return the word, one of KINDS, that stands in the key of a charge for `chunk` rounds."""
    return "round" if chunk == 1 else "charge"


class ChargedTables:
    """Recognises the ledger entries that were charged for the current file, by their mechanism tables."""

    def __init__(self, plan: FederatedPlan) -> None:
        self._plan, self._texts = plan, dict[int, str]()
        self._rest_text = None if plan.rest is None else canonical(tables_of(plan.rest))

    def rounds(self, run: Run, key: str, window: tuple[str, ...]) -> int:
        """Return how many rounds a charge pays for; 0 if it pays for the entries that no round performs.

        Raises:
            LedgerError: The entry was charged for another file or window.
        """
        if run.key == rest_key(key):
            rounds = 0 if canonical(run.pipeline) == self._rest_text else None
        else:
            rounds = self.rounds_of(run.pipeline)
        if rounds is None or run.window != window or run.content.get("kind") != "spend":
            raise LedgerError(
                f'key "{key}": expected charges of {self._plan.path} as it stands, found entry {run.seq} ("{run.key}"), which was charged '
                "for another file or window: another run needs a key of its own"
            )
        return rounds

    def rounds_of(self, tables: Mapping[str, Any]) -> int | None:
        """Return how many rounds of the file these tables charge for; None if they are not tables of this file's rounds."""
        steps = next((entry.get("steps", 1) for entry in tables["mechanism"]), None)
        if type(steps) is not int or steps < 1:
            return None
        rounds = steps * self._plan.per_step
        if steps not in self._texts:
            self._texts[steps] = canonical(tables_of(self._plan.charge(rounds, with_rest=False)))
        return rounds if canonical(tables) == self._texts[steps] else None


LARGEST_BITS = 64  # size of a whole number that the caller may pass
KEY_ATTEMPTS = 1000  # most keys that one charge tries, since other processes may charge the same keys at the same time
_INSTANCES: weakref.WeakSet[Rounds] = weakref.WeakSet()  # all live instances, whose locks a forked process replaces


class Rounds(Displayed):
    """The rounds of one run, as `dpcli.rounds` returns them. Threads may share an instance.

    `round` charges the next round and returns it once the charge is durable. Only then may the noise of the round be drawn. Iteration
    calls `round` until the end of the plan.

    Each charge is a ledger entry. Its key is KEY/round-000001 and so on, or KEY/charge-000001 if a charge pays for several rounds. A charge
    is used by one process only. Rounds that a dead process was charged for stay charged, and another process, or a fork of this one, is
    charged again for the rounds that it performs. The entries of the file that no round performs are charged once, with the first round,
    under KEY/beside. A key belongs to one file and one window, and their charges must not change.

    Stopping when the ledger refuses a charge is sound. The next charge may depend on all earlier releases, and still the ledger's filter
    never lets the sum exceed the cap. So the guarantee of a run is the cap; `epsilon` is the cost of a plan.

    Source: Feldman & Zrnic 2021, arXiv:2008.11193 (Renyi DP and zCDP); Smith & Thakurta 2022, arXiv:2210.17520, and Koskela et al. 2022,
    arXiv:2209.15596 (Gaussian DP); Rogers et al. 2016, arXiv:1605.08294 (sums of epsilon); Whitehouse et al. 2023, arXiv:2203.05481
    (advanced composition).
    """

    def __init__(self, plan: FederatedPlan, budget: DatasetBudget, key: str, chunk: int, done: int, clients: int | None) -> None:
        self.plan, self.key, self.chunk, self.taken = plan, key, chunk, done
        self._budget, self._clients, self._lock, self._forked_in_round = budget, clients, threading.Lock(), False
        self._begin()
        _INSTANCES.add(self)

    def _line(self) -> str:
        return f"{self.taken:,} of {self.planned:,} rounds, key={self.key!r}"

    def _begin(self) -> None:
        """Reset the state of this process, in which no round is paid for yet. A forked process calls this again."""
        self._charge_left, self._paid_by_process, self._last_key = 0, 0, ""
        self._batches = client_batches(self.plan, self._clients)
        with self._open() as ledger:
            ledger.cost(self.plan.charge(self.plan.portion, with_rest=False))
            if self.plan.rest is not None:
                ledger.cost(self.plan.rest)
            before = charged_under(ledger, self.plan, self.key)
        self._last_number = before.last[kind_of(self.chunk)]
        self._counter = client_counter(self.plan, lambda: self._paid_by_process)
        self._process = this_process()  # assigned last, so that the next `round` calls `_begin` again if it failed

    @property
    def planned(self) -> int:
        """Return the number of rounds in the plan."""
        return self.plan.rounds

    @property
    def charged(self) -> int:
        """Return how many rounds all processes have paid for under this key, as the ledger states now."""
        return self._entries().rounds

    def round(self) -> Round:
        """Charge the next round, unless an earlier charge pays for it, and return it.

        Raises:
            Denied: The charge does not fit in the remaining budget. Nothing was written, and no noise may be drawn.
            InputError: The plan has no further round, or this process was forked while another thread of its parent charged a round.
            LedgerError: The ledger is missing, locked or damaged, or the key belongs to another run. A later call makes another charge.
        """
        with self._lock:
            if self._forked_in_round:
                raise InputError(
                    f'"{self.key}": expected a process that was forked between two rounds, found one that was forked while a round was '
                    "charged: make another dpcli.rounds in it"
                )
            if self.taken >= self.planned:
                raise InputError(f'"{self.key}": expected at most the {self.planned:,} rounds that are planned, found one more')
            if self._process != this_process():
                self._begin()
            if not self._charge_left:
                self._charge()
            self._charge_left -= 1
            self.taken += 1
            clients = self._batches if isinstance(self._batches, str) else next(self._batches)
            return Round(self.plan, self.taken, self._last_key, clients, self._counter)

    def __iter__(self) -> Iterator[Round]:
        """Yield the remaining rounds of the plan. Raises Denied if the ledger refuses one."""
        while self.taken < self.planned:
            yield self.round()

    def epsilon(self) -> float:
        """Return an upper bound on the epsilon of a run that was planned to end after the rounds charged so far.

        Rounds charged by all processes count. The bound holds at the file's delta and is not rounded; before the first round it is 0.0. If
        the outputs decide when the run stops, this bound is not its guarantee: the ledger's cap is.
        """
        from dpcli.analysis.account import headline

        entries = self._entries()
        charged = replace(self.plan.charge(entries.rounds, with_rest=True), budget=self.plan.pipeline.budget)
        return headline(charged).upper if entries.rounds else 0.0

    def _entries(self) -> Charged:
        with self._open() as ledger:
            return charged_under(ledger, self.plan, self.key)

    def _charge(self) -> None:
        """Charge the next rounds in a ledger entry with a new key."""
        count = self._next_count()
        pipeline, why = self.plan.charge(count, with_rest=False), f"round {self.taken + 1:,} of {self.planned:,}"
        with self._open() as ledger:
            for _ in range(KEY_ATTEMPTS):
                rest = None if rest_is_charged(ledger, self.plan, self.key) else self.plan.rest
                self._last_number += 1  # no number is tried twice
                key = charge_key(self.key, self._last_number, self.chunk)
                try:
                    charged_before = self._charge_under(ledger, pipeline, key, why, rest)
                except Denied as refusal:
                    self._last_number -= 1
                    raise Denied(f"round {self.taken + 1:,}: {refusal}") from None
                if not charged_before:
                    break
            else:
                raise LedgerError(f'"{self.key}": all {KEY_ATTEMPTS:,} keys tried were charged meanwhile by other processes')
            if not rest_is_charged(ledger, self.plan, self.key):
                raise LedgerError(f'"{self.key}": what else {self.plan.path} releases is not charged')
        self._last_key, self._paid_by_process = key, self._paid_by_process + count
        self._charge_left = count if self._paid_by_process < self.plan.paid_by else self.planned

    def _charge_under(self, ledger: Ledger, rounds: Pipeline, key: str, why: str, rest: Pipeline | None) -> bool:
        """Charge rounds under a key, and `rest`, if given, in the same transaction. Return whether the key had been charged before."""
        if is_charged(ledger, self.plan, self.key, key):
            return True
        if rest is None:
            return ledger.spend(rounds, key, why=why).repeated
        both = replace(rounds, mechanisms=(*rounds.mechanisms, *rest.mechanisms))
        return ledger.spend_both([(rest, rest_key(self.key)), (rounds, key)], both, why)[-1].repeated

    def _next_count(self) -> int:
        """Return how many rounds the next charge pays for: a chunk, or fewer if fewer portions pay for all remaining rounds."""
        left = min(self.planned - self.taken, self.plan.paid_by - self._paid_by_process)
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
    """Return the rounds of a file with [federated]. Each round is charged in a ledger before its noise is drawn.

    Args:
        pipeline: Path of the file. The cap of the ledger stops the run, and not the file's own [budget].
        ledger: A path, sqlite:///path or postgresql://...
        dataset: Name of the dataset in the ledger; None if the ledger has only one.
        key: Name of the run. A later process may continue the run under the same key, and pays for every round that it repeats.
        chunk: Number of rounds that one charge pays for. It must be a multiple of the rounds of a pass over the clients, or of a run of
            correlated noise, if the entry has one. None means the smallest such number.
        done: Number of rounds of the plan that earlier processes have completed.
        clients: The true number of clients, which is private under add-remove; None for the declared number.

    Raises:
        InputError: The file, the key or a number is wrong, or the file has no [federated] or charges less than that table requires.
        LedgerError: There is no ledger at this place.
        CannotCertify, NotRepresentable: The ledger's filter has no cost for a round.
    """
    plan = federated_plan(path_or_url("pipeline", pipeline))
    size = plan.portion if chunk is None else whole_number("chunk", chunk, plan.portion)
    if size % plan.portion:
        raise InputError(
            f"chunk: expected a multiple of {plan.portion}, rounds that cost what the first of them costs, found {chunk}"
        )
    if whole_number("done", done, 0) > plan.rounds:
        raise InputError(f"done: expected at most the {plan.rounds:,} rounds that are planned, found {done}")
    if not text_of("key", key):
        raise InputError("key: an empty name; name this run")
    checked_key(charge_key(key, 1, size))
    budget = DatasetBudget(path_or_url("ledger", ledger), None if dataset is None else text_of("dataset", dataset))
    return Rounds(plan, budget, key, size, done, None if clients is None else whole_number("clients", clients, 0))


def whole_number(name: str, given: object, least: int) -> int:
    """Return a whole number of at least `least`. Raises InputError for anything else."""
    if isinstance(given, int) and given.bit_length() > LARGEST_BITS:
        raise InputError(f"{name}: expected a whole number of at most {LARGEST_BITS} bits, found a larger one")
    if not isinstance(given, int) or isinstance(given, bool) or given < least:
        raise InputError(f"{name}: expected a whole number of at least {least}, found {repr(given)[:60]}")
    return given


def _forked() -> None:
    """Replace the locks in a forked process, since a thread that the parent alone has may hold them."""
    for rounds in _INSTANCES:
        rounds._forked_in_round = rounds._forked_in_round or rounds._lock.locked()
        rounds._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
