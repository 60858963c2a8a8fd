"""The state of a ledger, namely its terms, runs and spending, which is computed by applying the entries one after another.

An *entry* is a line of the ledger that never changes (chain.py); its *kind*, such as "spend" or "amend", says what it does. `_CHANGES` has
the method for each kind. `LedgerState.apply` refuses an entry that dpcli would not write in that state. So a ledger that was changed by
hand is noticed when it is read. entry_log.py applies the entries; requests decide from the state whether a run fits.

A *run* is charged under its *key*, its name (charges/ledger_run.py). Costs and caps are decimals by name in the currency of the ledger's
*filter*, the theorem that adds up runs, such as {"rho": 0.1} (amounts.py). A dataset may be cut into *blocks*, each with a cap of its own;
a run is charged on the blocks of its *window*. A *quota* limits what a person or a team may charge. In a *two-person* ledger some entries
are only *proposals* until another person approves them (governance/). A *checkpoint* stores a state (checkpoint.py). The *definitions* are
the tables, triggers and SQL functions that guard the entries.

In a `LedgerEntry`, `content` is the JSON object that was written, and `row` has the number (`seq`) and the hash of the entry.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, cast

from dpcli.base.errors import LedgerError
from dpcli.ledger import amounts
from dpcli.ledger.amounts import ZERO, charged_blocks, cost_on_blocks, most_on_one_block
from dpcli.ledger.chain import Head, LedgerEntry, is_stamp
from dpcli.ledger.charges.ledger_run import DRAWN, STATUS_AFTER, STATUSES_BEFORE, LedgerRuns, Run, UnderWay, payer
from dpcli.ledger.governance.proposals import (
    Proposals,
    is_arrival,
    open_proposals_after,
    proposal_numbered,
    refuse_unapproved,
    subject_of,
)
from dpcli.ledger.governance.quotas import Quota, Quotas, UnknownPeople, quota_of, quotas_of
from dpcli.ledger.terms import LedgerTerms

# What messages say of a ledger without a guarantee, and of one whose cap is below its spending.
UNGUARANTEED = "no epsilon is guaranteed: the cap was raised, and nobody stated that no output had been seen before"
OVERSPENT = "more is spent than the cap allows, as the cap was lowered"
# The kinds of entries that a two-person ledger accepts only if a second person approved them.
APPROVED_KINDS = ("amend", "void", "quota", "moved", "acknowledge", "rate")
KINDS_AFTER_MOVE = ("moved", "copied", "upgrade")  # kinds of entries that may follow the entry by which a dataset moved


@dataclass(frozen=True, slots=True)
class MovedAway:
    """The move of a dataset to another ledger (stores/move_requests.py describes its steps).

    Attributes:
        to: Address of the other ledger.
        closed_at: The entry that closed the dataset at its origin.
        copy: The name of the copy in the other ledger; "" if it is not known yet.
        prepared: The name of this chain, if it is a copy that is not open yet; else "".
    """

    to: str
    closed_at: Head
    copy: str = ""
    prepared: str = ""

    def __str__(self) -> str:
        """Return why the dataset cannot be charged and what to do, as the end of a sentence whose subject is the dataset."""
        if self.prepared:
            return f"is a copy that is not open yet: dpcli budget copy, from its origin to {self.to}, completes the move"
        advice = "charge it there; if the copy is not open yet" if self.copy else "if it is not there yet"
        departure = f"has moved to {self.to} (entry {self.closed_at.seq})"
        return f"{departure}: {advice}, dpcli budget copy completes the move; nothing is charged here"


@dataclass(slots=True)
class LedgerState:
    """The state of a dataset's ledger up to the entry `head`.

    If the dataset is cut into blocks, each block has the caps `caps`, and each key of `spent` and `reserved` consists of an amount and a
    block (dpcli.ledger.amounts). The method `on_blocks` returns a state whose keys are amounts.

    A state without entries has no terms. Methods that need the terms raise LedgerError then.

    Attributes:
        head: The last entry that was applied.
        terms: The terms of the opening entry; None before it.
        caps, spent: The caps and the total spending, by amount, in the currency of the filter.
        epsilon: The current cap on epsilon.
        largest: The larger of two numbers: the ceiling, up to which caps may depend on outputs, and the largest cap on epsilon so far.
        unbounded: Whether a cap above `largest` was set without a statement that no output had been seen. It never becomes False again.
        reserved: The part of `spent` that belongs to runs that have not ended.
        charges: Number of charges, including runs that were voided.
        under_way: The reservations that have not ended, by key.
        runs: All runs, by key.
        last: The run that was charged last.
        latest: The latest time in the field "when" of an entry.
        opening: Hash of the first entry.
        departure: The move of the dataset, after which it cannot be charged in this ledger; None if it has not moved.
        schema, version: Hash and version number of the definitions that guard the entries.
        retired: Blocks that are closed for further runs.
        proposals, quotas: The open proposals and the quotas in force, each by its subject (governance/proposals.py).
        hides: Whether the store hides datasets of other teams, so that a dataset without visible entries may exist.
        people: The total charges by person; None if unknown, because the checkpoint of a ledger without quotas does not contain them.
    """

    dataset: str
    head: Head = field(default_factory=Head)
    terms: LedgerTerms | None = None
    caps: dict[str, Decimal] = field(default_factory=dict)
    epsilon: float = 0.0
    largest: float = 0.0
    unbounded: bool = False
    spent: dict[str, Decimal] = field(default_factory=dict)
    reserved: dict[str, Decimal] = field(default_factory=dict)
    charges: int = 0
    under_way: dict[str, UnderWay] = field(default_factory=dict)
    runs: LedgerRuns = field(default_factory=dict[str, Run])
    last: Run | None = None
    latest: str = ""
    opening: str = ""
    departure: MovedAway | None = None
    schema: str = ""
    version: int = 1
    retired: frozenset[str] = frozenset()
    proposals: Proposals = field(default_factory=dict)
    quotas: Quotas = field(default_factory=dict)
    hides: bool = False
    people: dict[str, dict[str, Decimal]] | None = field(default_factory=dict)

    def apply(self, entry: LedgerEntry) -> None:
        """Apply the next entry. Raises LedgerError, and changes nothing, if the entry contradicts the state."""
        change = _CHANGES.get(entry.kind)
        if change is None:
            raise LedgerError(f'{self._place(entry)}: the kind "{entry.kind}" is unknown to this version: written by a later dpcli')
        if self.departure is not None and entry.kind not in KINDS_AFTER_MOVE:
            raise self._forged(entry, "follows the entry by which the dataset has moved")
        try:
            self._require_approved(entry)
            change(self, entry)
            self.proposals = open_proposals_after(self.proposals, entry)
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise LedgerError(f"{self._place(entry)}: not the content of {entry.kind}: {error!r}") from None
        self.head = Head(entry.row.seq, entry.row.hash)
        when = str(entry.content.get("when", ""))
        if is_stamp(when):
            self.latest = max(self.latest, when)

    def open_terms(self) -> LedgerTerms:
        """Return the terms of the ledger. Raises LedgerError if the dataset has no ledger."""
        if self.terms is not None:
            return self.terms
        hidden = " that this login may see: it does not exist, or belongs to a team that the login is not in" if self.hides else ""
        advice = "dpcli budget overview lists the datasets that have one, dpcli budget init opens one"
        raise LedgerError(f'no ledger for dataset "{self.dataset}"{hidden}: {advice}')

    @property
    def guaranteed(self) -> float | None:
        """The epsilon that bounds the loss of all runs together, even if runs were chosen by earlier outputs; None if there is no bound.

        The theorem of a privacy filter holds for a cap that does not depend on outputs. Caps below `largest` may depend on outputs, because
        they admit no run that `largest` would not admit. If a cap above `largest` is set because of outputs, neither the old nor the new
        cap is a bound. For example, if the cap is raised from 1 to 2, an adversary reaches 1.94 times the ledger's delta at epsilon 2, and
        3,000 times this delta at epsilon 1 (tests/ledger/blocks/test_raised_caps.py has such adversaries).
        """
        return None if self.unbounded else self.largest

    @property
    def guarantee(self) -> str:
        """The basis of `guaranteed`.

        * "cap": the cap at the opening;
        * "ceiling": the ceiling that was fixed at the opening;
        * "stated": a larger cap that was set with the statement that no output had been seen;
        * "none": there is no bound.
        """
        if self.unbounded:
            return "none"
        if self.largest > self.at_opening:
            return "stated"
        return "cap" if self.open_terms().ceiling is None else "ceiling"

    @property
    def at_opening(self) -> float:
        """The epsilon that was guaranteed when the ledger was opened."""
        terms = self.open_terms()
        return terms.epsilon if terms.ceiling is None else terms.ceiling

    @property
    def awaits_opening(self) -> bool:
        """True for a copy that is not open yet. The definitions that guard it are recorded when it is opened."""
        return self.departure is not None and self.departure.prepared != ""

    def refuse_moved(self) -> None:
        """Check that the dataset can be charged in this ledger. Raises LedgerError if it has moved, or is a copy that is not open yet."""
        if self.departure is not None:
            raise LedgerError(f'dataset "{self.dataset}" {self.departure}')

    def left(self) -> dict[str, Decimal]:
        """Return, for each amount, the difference between cap and spending, but at least 0."""
        return {name: max(value, Decimal(0)) for name, value in amounts.subtract(self.caps, self.spent).items()}

    def fits(self, cost: Mapping[str, Decimal]) -> bool:
        """Return whether a further cost fits within the caps, after what is spent."""
        return amounts.exceeded(amounts.add(self.spent, cost), self.caps) is None

    def on_blocks(self, window: Sequence[str]) -> LedgerState:
        """Return the state that decides whether a run on these blocks fits: `state.on_blocks(window).fits(cost)`.

        Its spending is, for each amount, the largest spending on any of the blocks. Without blocks, this state itself is returned.
        """
        if self.terms is None or self.terms.blocks is None:
            return self
        state = copy(self)
        state.spent = most_on_one_block(self.spent, self.caps, window)
        state.reserved = most_on_one_block(self.reserved, self.caps, window)
        return state

    def fullest(self) -> LedgerState:
        """Return the state that decides whether a run on all charged blocks fits. Its spending is the largest on any block, by amount."""
        return self.on_blocks(charged_blocks(self.spent))

    def retired_block(self, window: Sequence[str]) -> str | None:
        """Return the first retired block of a window; None if there is none."""
        return next((block for block in window if block in self.retired), None)

    def over_quota(self, who: str, window: Sequence[str], cost: Mapping[str, Decimal]) -> Quota | None:
        """Return the first quota that a further cost of a person would exceed on the blocks of a window; None if there is none."""
        for quota in quotas_of(self.quotas, who):
            used = self.quota_used(quota, window)
            if amounts.exceeded(amounts.add(used, cost), quota.limits(self.caps)) is not None:
                return quota
        return None

    def quota_used(self, quota: Quota, window: Sequence[str] = ()) -> dict[str, Decimal]:
        """Return the charges that count against a quota. With blocks, they are the largest total on a block of the window.

        An empty window means all charged blocks.
        """
        return quota.used(self.people or {}, self.caps, window, by_block=self.open_terms().blocks is not None)

    def run(self, key: str) -> Run:
        """Return the run with a key. Raises LedgerError if there is none."""
        run = self.runs.get(key)
        if run is None:
            raise LedgerError(f'dataset "{self.dataset}": expected the key of a run, found {key!r}, which no entry has')
        return run

    def rehearsal(self) -> LedgerState:
        """Return a copy to which entries can be applied without changing this state."""
        trial = copy(self)
        # `apply` changes these three in place, and replaces all other attributes. The ChainMap keeps new runs in its first, empty dict.
        trial.people = None if self.people is None else dict(self.people)
        trial.runs, trial.under_way = ChainMap({}, cast("dict[str, Run]", self.runs)), dict(self.under_way)
        return trial

    def _open(self, entry: LedgerEntry) -> None:
        """Apply the opening entry. Raises LedgerError if it is not the first entry, or if its terms are inconsistent."""
        if self.terms is not None or entry.row.seq != 1:
            raise self._forged(entry, "a second opening")
        terms, caps = LedgerTerms.read(entry.content["terms"]), amounts.read(entry.content["caps"])
        terms.refuse_forged(caps)
        self.terms, self.caps, self.epsilon = terms, caps, terms.epsilon
        self.largest = self.at_opening
        self.opening, self.schema, self.version = entry.row.hash, terms.schema, terms.version or 1
        nothing = {} if terms.blocks is not None else dict.fromkeys(caps, ZERO)  # a block appears with its first charge
        self.spent = self.reserved = nothing

    def _charge(self, entry: LedgerEntry) -> None:
        """Apply a charge. Raises LedgerError if its key is missing or in use, a block was retired, or it exceeds a cap or a quota."""
        self.open_terms()
        cost = amounts.read(entry.content["cost"])
        _require_run(entry.content)
        if not entry.key or entry.key in self.runs:
            charged = f"charges the key {entry.key!r} a second time" if entry.key else "charges a run without a key"
            raise self._forged(entry, charged)
        corrects = entry.content.get("corrects")  # the key of the run whose price this charge completes
        if corrects is not None and (entry.kind != "spend" or self.run(corrects).status not in DRAWN):
            raise self._forged(entry, "corrects a run that was not started")
        window = self._window(entry)
        retired = self.retired_block(window)
        if retired is not None and corrects is None:  # a correction is not a further run
            raise self._forged(entry, f"charges the retired block {retired}")
        if not self.on_blocks(window).fits(cost):
            raise self._forged(entry, "overspends the cap")
        if self.over_quota(payer(entry.content), window, cost) is not None:
            raise self._forged(entry, "overspends a quota")
        total = cost_on_blocks(cost, window)
        self._charge_person(entry.content, total, amounts.add)
        self.spent, self.charges = amounts.add(self.spent, total), self.charges + 1
        self.last = self.runs[entry.key] = Run(entry.key, entry.row.seq, STATUS_AFTER[entry.kind], cost, entry.content)
        # With blocks, `spent` gets its keys by the charges. `reserved` gets the same keys, as in the checkpoints that a server makes.
        if window and not total.keys() <= self.reserved.keys():
            self.reserved = {**dict.fromkeys(total, ZERO), **self.reserved}
        if entry.kind == "reserve":
            self.reserved = amounts.add(self.reserved, total)
            self.under_way[entry.key] = UnderWay(entry.row.seq, entry.row.hash, STATUS_AFTER[entry.kind])

    def _change_status(self, entry: LedgerEntry) -> None:
        """Apply the start, commit or void of a run. Raises LedgerError if the status of the run does not allow it."""
        run = self.run(entry.key)
        if run.status not in STATUSES_BEFORE[entry.kind]:
            raise self._forged(entry, f"{entry.kind} of a run that is {run.status}")
        after = self.runs[entry.key] = replace(run, status=STATUS_AFTER[entry.kind])
        if entry.kind == "start":
            self.under_way[entry.key] = replace(self.under_way[entry.key], status=after.status)
            return
        del self.under_way[entry.key]
        self.reserved = amounts.subtract(self.reserved, run.total)
        if entry.kind == "void":
            self.spent = amounts.subtract(self.spent, run.total)
            self._charge_person(run.content, run.total, amounts.subtract)

    def _count(self, entry: LedgerEntry) -> None:
        """Record how many answers a session has been granted. Raises LedgerError if the number does not grow."""
        run, answers, count = self.run(entry.key), str(entry.content["of"]), int(entry.content["count"])
        if run.status not in DRAWN or count <= run.counts.get(answers, 0):
            raise self._forged(entry, f"a count that does not grow, or of a run that is {run.status}")
        self.runs[entry.key] = replace(run, counts={**run.counts, answers: count})

    def _charge_person(
        self,
        content: Mapping[str, Any],
        total: amounts.Amounts,
        change: Callable[[amounts.Amounts, amounts.Amounts], dict[str, Decimal]],
    ) -> None:
        """Add a total to the charges of the person who pays, or subtract it. `change` is `amounts.add` or `amounts.subtract`."""
        if self.people is not None:
            who = payer(content)
            self.people[who] = change(self.people.get(who, {}), total)

    def _quota(self, entry: LedgerEntry) -> None:
        """Apply a quota. Raises UnknownPeople if it is not known how much each person was charged."""
        self.open_terms()
        if self.people is None:
            raise UnknownPeople(f"{self._place(entry)}: a quota after a checkpoint that has no charges by person")
        self.quotas = {**self.quotas, subject_of(entry.content): quota_of(entry)}

    def _amend(self, entry: LedgerEntry) -> None:
        """Apply a new cap. Raises LedgerError if it caps other amounts than the ledger has."""
        self.open_terms()
        caps = amounts.read(entry.content["caps"])
        if set(caps) != set(self.caps):
            raise self._forged(entry, "amends other caps than the ledger has")
        self.caps, self.epsilon = caps, float(entry.content["epsilon"])
        if self.epsilon > self.largest:
            self.largest = self.epsilon
            self.unbounded |= entry.content.get("unseen") is not True  # "unseen" states that no output had been seen

    def _retire(self, entry: LedgerEntry) -> None:
        """Close blocks for further runs. Raises LedgerError if the dataset has no blocks."""
        self.retired |= frozenset(self._window(entry))

    def _window(self, entry: LedgerEntry) -> tuple[str, ...]:
        """Return the blocks of an entry; empty if the dataset has no blocks. Raises LedgerError if the entry states others."""
        family, stated = self.open_terms().family, entry.content.get("window")
        if family is not None:
            wrong = family.window_fault(stated)
        elif stated is not None:
            wrong = "expected no window"
        else:
            wrong = "expected blocks to retire" if entry.kind == "retire" else None
        if wrong is not None:
            raise self._forged(entry, wrong)
        return tuple(stated or ())

    def _require_approved(self, entry: LedgerEntry) -> None:
        """Check that a second person approved the entry, if the ledger needs that.

        Raises LedgerError if no second person approved the entry, or if it refuses a proposal that is not open, or is a proposal or an
        approval in a ledger without the two-person rule.
        """
        is_two_person = self.terms is not None and self.terms.two_person is True
        try:
            # A record that a moved dataset has arrived needs no approval, because the move itself was approved.
            if is_two_person and entry.kind in APPROVED_KINDS and not is_arrival(entry.content):
                refuse_unapproved(self.proposals, entry)
            elif entry.kind == "refuse" and proposal_numbered(self.proposals, entry.content["proposal"]) is None:
                raise LedgerError("refuses a proposal that is not open")
            elif not is_two_person and (entry.kind == "propose" or "proposal" in entry.content):
                raise LedgerError("an entry of a two-person ledger")
        except LedgerError as error:
            raise self._forged(entry, str(error)) from None

    def _no_change(self, entry: LedgerEntry) -> None:
        # `apply` sets the proposals, the database checks a rate, and `verify` reads an acknowledgement.
        self.open_terms()

    def _upgrade(self, entry: LedgerEntry) -> None:
        """Record the hash and the version number of new definitions."""
        self.open_terms()
        self.schema, self.version = str(entry.content["schema"]), int(entry.content["version"])

    def _moved(self, entry: LedgerEntry) -> None:
        """Apply an entry "moved", which is one of three steps of a move (stores/move_requests.py).

        The first one closes the dataset, and names no copy. It is followed by one of the two others, which differ in the field "copy". At
        the origin this is the name of the copy. In the copy it is the hash of the closing entry.

        Raises LedgerError if the entry is none of these steps in this state.
        """
        self.open_terms()
        to, copy_field, departure = str(entry.content["to"]), str(entry.content.get("copy", "")), self.departure
        if departure is None and not copy_field:
            self.departure = MovedAway(to, Head(entry.row.seq, entry.row.hash))
            return
        is_second_step = departure is not None and departure.to == to and copy_field and not (departure.copy or departure.prepared)
        if departure is None or not is_second_step:
            raise self._forged(entry, "moves a dataset that has moved")
        if copy_field == departure.closed_at.hash:  # this chain is the copy
            self.departure = replace(departure, prepared=entry.row.hash)
        else:
            self.departure = replace(departure, copy=copy_field)

    def _copied(self, entry: LedgerEntry) -> None:
        """Apply the opening of a copy. The dataset can be charged in this ledger from then on.

        Raises LedgerError if the dataset has not moved, or this is the chain at the origin.
        """
        if self.departure is None or self.departure.copy:
            raise self._forged(entry, "opens a copy of a dataset that has not moved")
        self._upgrade(entry)
        self.departure = None

    def _place(self, entry: LedgerEntry) -> str:
        return f'dataset "{self.dataset}", entry {entry.row.seq}'

    def _forged(self, entry: LedgerEntry, fault: str) -> LedgerError:
        """Return the error for an entry that dpcli would not have written in this state."""
        return LedgerError(f"{self._place(entry)}: {fault}: the ledger was changed by hand")


def _require_run(content: Mapping[str, Any]) -> None:
    """Check that a charge states its run. Raises TypeError, ValueError or KeyError, which `apply` turns into a LedgerError.

    A delta of 1 or more is accepted, so that the ledger can still be read. `verify` reports it.
    """
    pipeline = content["pipeline"]
    if not (isinstance(pipeline["privacy"], dict) and all(isinstance(entry, dict) for entry in pipeline["mechanism"])):
        raise TypeError("a pipeline without tables")
    if not 0.0 <= float(content["delta"]) < math.inf:
        raise ValueError(f"delta {content['delta']!r}")


# The method that applies each kind of entry.
_CHANGES: dict[str, Callable[[LedgerState, LedgerEntry], None]] = {
    "open": LedgerState._open,
    "moved": LedgerState._moved,
    "copied": LedgerState._copied,
    "spend": LedgerState._charge,
    "reserve": LedgerState._charge,
    "start": LedgerState._change_status,
    "commit": LedgerState._change_status,
    "count": LedgerState._count,
    "void": LedgerState._change_status,
    "amend": LedgerState._amend,
    "retire": LedgerState._retire,
    "upgrade": LedgerState._upgrade,
    "quota": LedgerState._quota,
    "propose": LedgerState._no_change,
    "refuse": LedgerState._no_change,
    "rate": LedgerState._no_change,
    "acknowledge": LedgerState._no_change,
}
