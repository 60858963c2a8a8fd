"""The rounds of a federated run, each charged before its noise is drawn. A run stops before the round that would exceed the cap.

The rounds that a run has paid for are read from the ledger. Each entry under its key is compared with the current file.
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


KINDS = ("round", "charge")  # of entries that pay for one round, and for several
NAME = re.compile(rf"({'|'.join(KINDS)})-([0-9]{{6,}})|beside")


@dataclass(slots=True)
class Charged:
    """The charges under the key of a run.

    Attributes:
        rounds: Rounds that the entries pay for.
        rest: The rest of the file is charged.
        last: Highest number of a charge of each kind.
    """

    rounds: int = 0
    rest: bool = False
    last: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))


def charged_under(ledger: Ledger, plan: FederatedPlan, key: str) -> Charged:
    """Return what all entries of a run pay for, whichever process wrote them; entries of other keys are not read.

    Raises:
        LedgerError: If one was charged for another file or window: its rounds would be counted at this file's price.
    """
    charged, window, tables = Charged(), ledger.stated_window(plan.pipeline), ChargedTables(plan)
    for run in ledger.runs_beginning(f"{key}/"):
        name = NAME.fullmatch(run.key[len(key) + 1 :])
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
    """Check whether the ledger has the key of a run. Raises LedgerError if it was charged for another file or window."""
    runs = ledger.state().runs
    if name in runs:
        ChargedTables(plan).rounds(runs[name], key, ledger.stated_window(plan.pipeline))
        return True
    return False


def rest_is_charged(ledger: Ledger, plan: FederatedPlan, key: str) -> bool:
    """Check whether the rest of the file is charged; True if there is no rest. Raises LedgerError as `is_charged`."""
    return is_charged(ledger, plan, key, rest_key(key)) or plan.rest is None


def charge_key(key: str, number: int, chunk: int) -> str:
    """Return the key of a run's charge for `chunk` rounds, by its number from 1."""
    return f"{key}/{kind_of(chunk)}-{number:06d}"


def rest_key(key: str) -> str:
    """Return the key of what the file releases besides its rounds."""
    return f"{key}/beside"


def kind_of(chunk: int) -> str:
    """Return the word for a charge of `chunk` rounds in its key."""
    return "round" if chunk == 1 else "charge"


class ChargedTables:
    """The tables of a file's charges, used to recognise entries of the ledger."""

    def __init__(self, plan: FederatedPlan) -> None:
        self._plan, self._texts = plan, dict[int, str]()
        self._rest_text = None if plan.rest is None else canonical(tables_of(plan.rest))

    def rounds(self, run: Run, key: str, window: tuple[str, ...]) -> int:
        """Return how many rounds a charge under `key` pays for, 0 for the rest of the file. Raises LedgerError for another run's."""
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
        """Return the number of rounds of the file that the tables charge for; None for other tables."""
        steps = next((entry.get("steps", 1) for entry in tables["mechanism"]), None)
        if type(steps) is not int or steps < 1:
            return None
        rounds = steps * self._plan.per_step
        if steps not in self._texts:
            self._texts[steps] = canonical(tables_of(self._plan.charge(rounds, with_rest=False)))
        return rounds if canonical(tables) == self._texts[steps] else None


BITS = 64  # of a whole number that the caller gives
KEY_ATTEMPTS = 1000  # of keys, which other processes may have charged meanwhile
_OPEN: weakref.WeakSet[Rounds] = weakref.WeakSet()  # of this process; a forked one looks at them


class Rounds(Displayed):
    """The rounds of one run; `dpcli.rounds` makes it.

    `round` charges the next one and returns it once the charge is durable; only then may its noise be drawn. Iteration calls `round`
    until the plan has ended. Each charge is an entry of the ledger, with the key KEY/round-000001 and so on (KEY/charge-000001 where one
    pays for several rounds), and is used once: what a process that died was charged for stays charged, and what comes next in another
    process, or in a fork of this one, is charged anew. Threads may share it. What else the file releases is charged once, with the first
    round, as KEY/beside. A key is of one file and one window: what they charge may not change under it.

    To stop when the ledger says no is sound: whether and what is charged next may depend on all that was released before, and what its
    filter adds up never passes the cap all the same. Source: Feldman & Zrnic 2021, arXiv:2008.11193 (Renyi DP and zCDP); Smith & Thakurta
    2022, arXiv:2210.17520, and Koskela et al. 2022, arXiv:2209.15596 (Gaussian DP); Rogers et al. 2016, arXiv:1605.08294 (sums of epsilon);
    Whitehouse et al. 2023, arXiv:2203.05481 (advanced composition). What is guaranteed of the run is the cap; `epsilon` is of a plan.
    """

    def __init__(self, plan: FederatedPlan, budget: DatasetBudget, key: str, chunk: int, done: int, clients: int | None) -> None:
        self.plan, self.key, self.chunk, self.taken = plan, key, chunk, done
        self._budget, self._clients, self._lock, self._torn = budget, clients, threading.Lock(), False
        self._begin()
        _OPEN.add(self)

    def _line(self) -> str:
        return f"{self.taken:,} of {self.planned:,} rounds, key={self.key!r}"

    def _begin(self) -> None:
        """Reset the state, also in a forked process: no round is paid for yet."""
        self._left, self._paid, self._last = 0, 0, ""
        self._batches = client_batches(self.plan, self._clients)
        with self._open() as ledger:
            ledger.cost(self.plan.charge(self.plan.portion, with_rest=False))
            if self.plan.rest is not None:
                ledger.cost(self.plan.rest)
            before = charged_under(ledger, self.plan, self.key)
        self._charges = before.last[kind_of(self.chunk)]
        self._counter = client_counter(self.plan, lambda: self._paid)
        self._process = this_process()  # last, so that after a failure all of this is done again

    @property
    def planned(self) -> int:
        """Return the rounds of the whole plan."""
        return self.plan.rounds

    @property
    def charged(self) -> int:
        """Return the number of rounds that any process has paid for under this key, as the ledger states now."""
        return self._entries().rounds

    def round(self) -> Round:
        """Charge the next round, if no earlier charge pays for it, and return it.

        Raises:
            Denied: It does not fit in what is left: nothing was written, and no noise may be drawn.
            InputError: The plan has no further round, or this process was forked while another thread of its parent was in here.
            LedgerError: The ledger is missing, locked or damaged, or the key is another run's. Where it is asked again later, that is
                another charge.
        """
        with self._lock:
            if self._torn:
                raise InputError(
                    f'"{self.key}": expected a process that was forked between two rounds, found one that was forked while a round was '
                    "charged: make another dpcli.rounds in it"
                )
            if self.taken >= self.planned:
                raise InputError(f'"{self.key}": expected at most the {self.planned:,} rounds that are planned, found one more')
            if self._process != this_process():
                self._begin()
            if not self._left:
                self._charge()
            self._left -= 1
            self.taken += 1
            clients = self._batches if isinstance(self._batches, str) else next(self._batches)
            return Round(self.plan, self.taken, self._last, clients, self._counter)

    def __iter__(self) -> Iterator[Round]:
        """Yield the remaining rounds of the plan. Raises Denied if the ledger refuses one."""
        while self.taken < self.planned:
            yield self.round()

    def epsilon(self) -> float:
        """Return an upper bound, unrounded, on the epsilon of a run that was planned to have the rounds charged so far, by any process.

        It is at the file's delta; 0.0 before the first round. Where the run stops because of its outputs, the guarantee is the ledger's cap
        and not this.
        """
        from dpcli.analysis.account import headline

        entries = self._entries()
        charged = replace(self.plan.charge(entries.rounds, with_rest=True), budget=self.plan.pipeline.budget)
        return headline(charged).upper if entries.rounds else 0.0

    def _entries(self) -> Charged:
        with self._open() as ledger:
            return charged_under(ledger, self.plan, self.key)

    def _charge(self) -> None:
        """Charge the next rounds as an entry of the ledger under a new key."""
        count = self._next_count()
        pipeline, why = self.plan.charge(count, with_rest=False), f"round {self.taken + 1:,} of {self.planned:,}"
        with self._open() as ledger:
            for _ in range(KEY_ATTEMPTS):
                rest = None if rest_is_charged(ledger, self.plan, self.key) else self.plan.rest
                self._charges += 1  # each number is tried once
                key = charge_key(self.key, self._charges, self.chunk)
                try:
                    charged_before = self._charge_under(ledger, pipeline, key, why, rest)
                except Denied as refusal:
                    self._charges -= 1
                    raise Denied(f"round {self.taken + 1:,}: {refusal}") from None
                if not charged_before:
                    break
            else:
                raise LedgerError(f'"{self.key}": all {KEY_ATTEMPTS:,} keys tried were charged meanwhile by other processes')
            if not rest_is_charged(ledger, self.plan, self.key):
                raise LedgerError(f'"{self.key}": what else {self.plan.path} releases is not charged')
        self._last, self._paid = key, self._paid + count
        self._left = count if self._paid < self.plan.paid_by else self.planned

    def _charge_under(self, ledger: Ledger, rounds: Pipeline, key: str, why: str, rest: Pipeline | None) -> bool:
        """Charge rounds under a key, in one transaction with the rest of the file if given; return whether the key was charged before."""
        if is_charged(ledger, self.plan, self.key, key):
            return True
        if rest is None:
            return ledger.spend(rounds, key, why=why).repeated
        both = replace(rounds, mechanisms=(*rounds.mechanisms, *rest.mechanisms))
        return ledger.spend_both([(rest, rest_key(self.key)), (rounds, key)], both, why)[-1].repeated

    def _next_count(self) -> int:
        """Return the number of rounds of the next charge: a chunk, or the fewest portions that pay for all remaining rounds."""
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
    """Return the rounds of a file with [federated], each charged in a ledger before its noise is drawn.

    Args:
        pipeline: The path of the file. Its own [budget] stops nothing here: the ledger does.
        ledger: A path, sqlite:///path or postgresql://...
        dataset: Its name there; the only one if None.
        key: Names the run. A later process that goes on with it under the same key pays for every round that it does again.
        chunk: Rounds of one charge: a multiple of a pass, or of a run of correlated noise, if the entry has one; the least if None.
        done: Rounds of the plan that earlier processes brought to their end.
        clients: How many there really are; the declared number if None. Private under add-remove.

    Raises:
        InputError: The file, the key or a number is wrong, the file has no [federated], or it charges less than that says is done.
        LedgerError: The ledger is not there. CannotCertify, NotRepresentable: its filter has no cost for a round.
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
    if isinstance(given, int) and given.bit_length() > BITS:
        raise InputError(f"{name}: expected a whole number of at most {BITS} bits, found a larger one")
    if not isinstance(given, int) or isinstance(given, bool) or given < least:
        raise InputError(f"{name}: expected a whole number of at least {least}, found {repr(given)[:60]}")
    return given


def _forked() -> None:
    """Replace the locks in a forked process, where another thread of the parent may have held them."""
    for rounds in _OPEN:
        rounds._torn = rounds._torn or rounds._lock.locked()
        rounds._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
