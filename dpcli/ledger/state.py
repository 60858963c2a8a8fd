"""The state of a ledger: its terms, every run, and what is spent. A fold over the entries, and the only reading of them."""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Protocol, cast

from dpcli.base.errors import LedgerError
from dpcli.ledger import amounts
from dpcli.ledger.amounts import ZERO, charged_blocks, cost_on_blocks, most_on_one_block
from dpcli.ledger.chain import Head, LedgerEntry, is_stamp
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

LONGEST = 200  # characters of a run's mechanisms in print
# What may become of a run. All but a void one count in full: a reservation is never unspent because nobody came back to it.
NEXT = {"reserve": "reserved", "spend": "committed", "start": "started", "commit": "committed", "void": "void"}
TWO_PERSONS = ("amend", "void", "quota", "moved")  # what a ledger of two persons takes on the word of both
COUNTED = ("started", "committed")  # runs whose answers may be counted
BEFORE = {"start": ("reserved",), "commit": ("reserved", "started"), "void": ("reserved",)}


@dataclass(frozen=True, slots=True)
class Run:
    """A charge, and where it stands: reserved, started (noise may have been drawn), committed or void.

    Attributes:
        counts: How many answers of its session were granted, by what they are called.
    """

    key: str
    seq: int
    status: str
    cost: Mapping[str, Decimal]
    content: Mapping[str, Any]
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def pipeline(self) -> Mapping[str, Any]:
        """The tables of its pipeline."""
        tables: Mapping[str, Any] = self.content["pipeline"]
        return tables

    @property
    def window(self) -> tuple[str, ...]:
        """The blocks that it reads; none if the dataset has none."""
        return tuple(self.content.get("window", ()))

    @property
    def total(self) -> Mapping[str, Decimal]:
        """The amounts that it adds to the spending: its cost, on each block of its window."""
        return cost_on_blocks(self.cost, self.window)

    @property
    def name(self) -> str:
        """The pipeline's mechanisms, in a word."""
        return mechanism_names(self.pipeline)

    def expired(self, now: str) -> bool:
        """Check whether its reservation is past its day: then it is charged in full and cannot be voided."""
        return "expires" in self.content and self.status == "reserved" and str(self.content["expires"]) <= now


class LedgerRuns(Protocol):
    """The runs of a state by their keys, in the order in which they were charged: a dictionary, or what answers like one."""

    def __getitem__(self, key: str, /) -> Run: ...

    def __setitem__(self, key: str, run: Run, /) -> None: ...

    def __contains__(self, key: object, /) -> bool: ...

    def __iter__(self) -> Iterator[str]: ...

    def __len__(self) -> int: ...

    def get(self, key: str, /) -> Run | None: ...

    def values(self) -> Collection[Run]: ...


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A reservation that has not ended: the place and hash of its entry, and whether it is reserved or started."""

    seq: int
    hash: str
    status: str


AWAY = ("moved", "copied", "upgrade")  # what may follow the entry by which a dataset has moved


@dataclass(frozen=True, slots=True)
class MovedAway:
    """A dataset that has moved `to` another place, `at` an entry.

    Attributes:
        copy: The name of its copy there, once that is known.
        prepared: Its own name, where this is a copy that was not opened yet.
    """

    to: str
    at: Head
    copy: str = ""
    prepared: str = ""

    def __str__(self) -> str:
        """Say why nothing more is charged, and what to do, after the name of the dataset. Only the copy says whether it is open."""
        if self.prepared:
            return f"is a copy that is not open yet: dpcli budget copy, from where it comes from to {self.to}, completes the move"
        charged = "it is charged there, and where that is not open yet" if self.copy else "where it is not there yet"
        return f"has moved to {self.to} (entry {self.at.seq}): {charged}, dpcli budget copy completes the move; nothing more is taken here"


@dataclass(slots=True)
class LedgerState:
    """The ledger of a dataset up to `head`. Built by `apply`, which refuses an entry that no sound ledger can hold.

    Attributes:
        reserved: What of `spent` is under way.
        charges: How many runs there are. Where the dataset is cut into blocks, caps are those of each block, and spent and reserved name
            amount and block (dpcli.ledger.amounts): `over` a window they name amounts, as without blocks.
    """

    dataset: str
    head: Head = field(default_factory=Head)
    terms: LedgerTerms | None = None
    caps: dict[str, Decimal] = field(default_factory=dict)
    epsilon: float = 0.0  # the cap as last amended
    largest: float = 0.0  # the largest cap that there was, or that may be set whatever the outputs show
    unbounded: bool = False  # whether it was set with nobody's word that no output had been seen
    spent: dict[str, Decimal] = field(default_factory=dict)
    reserved: dict[str, Decimal] = field(default_factory=dict)
    charges: int = 0
    under_way: dict[str, UnderWay] = field(default_factory=dict)
    runs: LedgerRuns = field(default_factory=dict[str, Run])
    last: Run | None = None
    latest: str = ""  # the latest time that an entry states
    opening: str = ""  # the hash of the first entry
    departure: MovedAway | None = None  # where it has moved: nothing is charged here then
    schema: str = ""  # the hash of the definitions that guard the entries
    version: int = 1  # of those definitions
    retired: frozenset[str] = frozenset()  # blocks that were closed by hand
    proposals: Proposals = field(default_factory=dict)  # those that are open, in a ledger of two persons
    quotas: Quotas = field(default_factory=dict)
    hides: bool = False  # whether its store hides datasets of other teams: one without entries is then not known to be absent
    people: dict[str, dict[str, Decimal]] | None = field(default_factory=dict)  # None: not known, and no quota needs them

    def apply(self, entry: LedgerEntry) -> None:
        """Take in the next entry. Raises LedgerError if it makes no sense here, and then changes nothing."""
        change = _CHANGES.get(entry.kind)
        if change is None:
            raise LedgerError(f'{self._place(entry)}: "{entry.kind}" is unknown to this version: written by a later dpcli')
        if self.departure is not None and entry.kind not in AWAY:
            raise LedgerError(
                f"{self._place(entry)}: follows the entry by which the dataset has moved: the ledger was changed by hand"
            )
        try:
            self._refuse_alone(entry)
            change(self, entry)
            self.proposals = open_proposals_after(self.proposals, entry)
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise LedgerError(f"{self._place(entry)}: not the content of {entry.kind}: {error!r}") from None
        self.head = Head(entry.row.seq, entry.row.hash)
        when = str(entry.content.get("when", ""))
        self.latest = max(self.latest, when) if is_stamp(when) else self.latest

    def open_terms(self) -> LedgerTerms:
        """Return the terms. Raises LedgerError if the dataset has no ledger."""
        if self.terms is None:
            unseen = (
                " that this login may see: it does not exist, or belongs to a team that the login is not in" if self.hides else ""
            )
            raise LedgerError(f'no ledger for dataset "{self.dataset}"{unseen}: dpcli budget init opens one')
        return self.terms

    @property
    def guaranteed(self) -> float | None:
        """The epsilon that bounds everything together, whatever is chosen from outputs; None if nothing does.

        A filter's theorem is about a cap that no output decides. Caps below `largest` may follow from anything: no run that they let
        through exceeds it. Raised because of what was seen, neither the old cap nor the new one is a bound: over caps 1 and 2 an adversary
        reaches 1.94 times delta at the cap that is in force in the end, and 3,000 times at the first.
        """
        return None if self.unbounded else self.largest

    @property
    def guarantee(self) -> str:
        """The kind of `guaranteed`: the cap, a ceiling fixed at the opening, the largest cap on somebody's word ("stated"), or "none"."""
        if self.unbounded:
            return "none"
        if self.largest > self.at_opening:
            return "stated"
        return "cap" if self.open_terms().ceiling is None else "ceiling"

    @property
    def at_opening(self) -> float:
        """The epsilon that was guaranteed on the first day."""
        terms = self.open_terms()
        return terms.epsilon if terms.ceiling is None else terms.ceiling

    @property
    def not_open(self) -> bool:
        """True of a copy that nothing opened yet: what guards it is noted when that is done."""
        return self.departure is not None and self.departure.prepared != ""

    def refuse_moved(self) -> None:
        """Raise LedgerError if the dataset has moved, or is a copy that is not open yet."""
        if self.departure is not None:
            raise LedgerError(f'dataset "{self.dataset}" {self.departure}')

    def left(self) -> dict[str, Decimal]:
        """Return what remains of each cap, 0 if nothing does."""
        return {name: max(value, Decimal(0)) for name, value in amounts.add(self.caps, self.spent, -1).items()}

    def fits(self, cost: Mapping[str, Decimal]) -> bool:
        """Check whether a cost may still be added."""
        return amounts.exceeded(amounts.add(self.spent, cost), self.caps) is None

    def over(self, window: Sequence[str]) -> LedgerState:
        """Return the balance for a run that reads these blocks: what the fullest of them has. Without blocks, the balance."""
        if self.terms is None or self.terms.blocks is None:
            return self
        flat = copy(self)
        flat.spent, flat.reserved = (most_on_one_block(total, self.caps, window) for total in (self.spent, self.reserved))
        return flat

    def fullest(self) -> LedgerState:
        """Return the balance over all blocks; without blocks, the balance."""
        return self.over(charged_blocks(self.spent))

    def closed(self, window: Sequence[str]) -> str | None:
        """Return the first block that was retired, None if none was."""
        return next((block for block in window if block in self.retired), None)

    def over_quota(self, who: str, window: Sequence[str], cost: Mapping[str, Decimal]) -> Quota | None:
        """Return the first quota that a further cost of somebody exceeds, None if none is."""
        for quota in quotas_of(self.quotas, who):
            used = self.quota_used(quota, window)
            if amounts.exceeded(amounts.add(used, cost), quota.limits(self.caps)) is not None:
                return quota
        return None

    def quota_used(self, quota: Quota, window: Sequence[str] = ()) -> dict[str, Decimal]:
        """Return what is charged to a quota; of blocks, on the fullest of a window, or of all."""
        return quota.used(self.people or {}, self.caps, window, self.open_terms().blocks is not None)

    def run(self, key: str) -> Run:
        """Return the run of that key. Raises LedgerError if there is none."""
        run = self.runs.get(key)
        if run is None:
            raise LedgerError(f'dataset "{self.dataset}": expected the key of a run, found {key!r}, which no entry has')
        return run

    def rehearsal(self) -> LedgerState:
        """Return a copy to try an entry on."""
        trial = copy(self)
        trial.people = None if self.people is None else dict(self.people)
        trial.runs, trial.under_way = ChainMap({}, cast("dict[str, Run]", self.runs)), dict(self.under_way)
        return trial

    def _open(self, entry: LedgerEntry) -> None:
        if self.terms is not None or entry.row.seq != 1:
            raise LedgerError(f"{self._place(entry)}: a second opening: the ledger was changed by hand")
        terms, caps = LedgerTerms.read(entry.content["terms"]), amounts.read(entry.content["caps"])
        terms.refuse_forged(caps)
        self.terms, self.caps, self.epsilon = terms, caps, terms.epsilon
        self.largest = self.at_opening
        self.opening, self.schema, self.version = entry.row.hash, terms.schema, terms.version or 1
        self.spent = self.reserved = dict.fromkeys(self.caps, ZERO) if terms.blocks is None else {}

    def _charge(self, entry: LedgerEntry) -> None:
        self.open_terms()
        cost = amounts.read(entry.content["cost"])
        _refuse_no_run(entry.content)
        if not entry.key or entry.key in self.runs:
            raise LedgerError(f"{self._place(entry)}: charges the key {entry.key!r} again: the ledger was changed by hand")
        window = self._window(entry)
        if self.closed(window) is not None or not self.over(window).fits(cost):
            raise LedgerError(f"{self._place(entry)}: overspends the cap: the ledger was changed by hand")
        if self.over_quota(payer(entry.content), window, cost) is not None:
            raise LedgerError(f"{self._place(entry)}: overspends a quota: the ledger was changed by hand")
        total = cost_on_blocks(cost, window)
        self._paid(entry.content, total, 1)
        self.spent, self.charges = amounts.add(self.spent, total), self.charges + 1
        self.last = self.runs[entry.key] = Run(entry.key, entry.row.seq, NEXT[entry.kind], cost, entry.content)
        if window and not total.keys() <= self.reserved.keys():
            self.reserved = {**dict.fromkeys(total, ZERO), **self.reserved}
        if entry.kind == "reserve":
            self.reserved = amounts.add(self.reserved, total)
            self.under_way[entry.key] = UnderWay(entry.row.seq, entry.row.hash, NEXT[entry.kind])

    def _move(self, entry: LedgerEntry) -> None:
        run = self.run(entry.key)
        if run.status not in BEFORE[entry.kind]:
            raise LedgerError(f"{self._place(entry)}: {entry.kind} of a run that is {run.status}: the ledger was changed by hand")
        moved = self.runs[entry.key] = replace(run, status=NEXT[entry.kind])
        if entry.kind == "start":
            self.under_way[entry.key] = replace(self.under_way[entry.key], status=moved.status)
            return
        del self.under_way[entry.key]
        self.reserved = amounts.add(self.reserved, run.total, -1)
        if entry.kind == "void":
            self.spent = amounts.add(self.spent, run.total, -1)
            self._paid(run.content, run.total, -1)

    def _count(self, entry: LedgerEntry) -> None:
        """Note how far a session has gone: never back."""
        run, of, count = self.run(entry.key), str(entry.content["of"]), int(entry.content["count"])
        if run.status not in COUNTED or count <= run.counts.get(of, 0):
            raise LedgerError(
                f"{self._place(entry)}: counts back, or for a run that is {run.status}: the ledger was changed by hand"
            )
        self.runs[entry.key] = replace(run, counts={**run.counts, of: count})

    def _paid(self, content: Mapping[str, Any], total: Mapping[str, Decimal], sign: int) -> None:
        if self.people is not None:
            who = payer(content)
            self.people[who] = amounts.add(self.people.get(who, {}), total, sign)

    def _quota(self, entry: LedgerEntry) -> None:
        self.open_terms()
        if self.people is None:
            raise UnknownPeople(f"{self._place(entry)}: a quota, and what was noted before it says nothing of persons")
        self.quotas = {**self.quotas, subject_of(entry.content): quota_of(entry)}

    def _amend(self, entry: LedgerEntry) -> None:
        self.open_terms()
        caps = amounts.read(entry.content["caps"])
        if set(caps) != set(self.caps):
            raise LedgerError(f"{self._place(entry)}: amends other caps than the ledger has: the ledger was changed by hand")
        self.caps, self.epsilon = caps, float(entry.content["epsilon"])
        if self.epsilon > self.largest:
            self.largest = self.epsilon
            self.unbounded |= entry.content.get("unseen") is not True

    def _retire(self, entry: LedgerEntry) -> None:
        self.retired |= frozenset(self._window(entry))

    def _window(self, entry: LedgerEntry) -> tuple[str, ...]:
        """Return the blocks of an entry; none if the dataset has none."""
        family, stated = self.open_terms().family, entry.content.get("window")
        wrong = ("expected no window" if stated is not None else None) if family is None else family.wrong(stated)
        if wrong is not None or (family is None and entry.kind == "retire"):
            raise LedgerError(f"{self._place(entry)}: {wrong or 'expected blocks to retire'}: the ledger was changed by hand")
        return tuple(stated or ())

    def _refuse_alone(self, entry: LedgerEntry) -> None:
        """Raise LedgerError if what takes two persons was not approved by a second one, or something is proposed without that term."""
        two = self.terms is not None and self.terms.two_person is True
        try:
            if two and entry.kind in TWO_PERSONS and not is_arrival(entry.content):
                refuse_unapproved(self.proposals, entry)
            elif entry.kind == "refuse" and proposal_numbered(self.proposals, entry.content["proposal"]) is None:
                raise LedgerError("refuses nothing that is proposed")
            elif not two and (entry.kind == "propose" or "proposal" in entry.content):
                raise LedgerError("is of a ledger of two persons")
        except LedgerError as error:
            raise LedgerError(f"{self._place(entry)}: {error}: the ledger was changed by hand") from None

    def _propose(self, entry: LedgerEntry) -> None:
        self.open_terms()  # what is proposed or refused changes nothing else

    def _upgrade(self, entry: LedgerEntry) -> None:
        self.open_terms()
        self.schema, self.version = str(entry.content["schema"]), int(entry.content["version"])

    def _moved(self, entry: LedgerEntry) -> None:
        self.open_terms()
        to, copy_ = str(entry.content["to"]), str(entry.content.get("copy", ""))
        if self.departure is None and not copy_:
            self.departure = MovedAway(to, Head(entry.row.seq, entry.row.hash))
        elif (
            self.departure is not None
            and self.departure.to == to
            and copy_
            and not (self.departure.copy or self.departure.prepared)
        ):
            own = copy_ == self.departure.at.hash  # no entry names its own chain's but a copy's first
            self.departure = replace(self.departure, prepared=entry.row.hash) if own else replace(self.departure, copy=copy_)
        else:
            raise LedgerError(f"{self._place(entry)}: moves what has moved: the ledger was changed by hand")

    def _copied(self, entry: LedgerEntry) -> None:
        if self.departure is None or self.departure.copy:
            raise LedgerError(f"{self._place(entry)}: a copy of what has not moved: the ledger was changed by hand")
        self._upgrade(entry)
        self.departure = None

    def _place(self, entry: LedgerEntry) -> str:
        return f'dataset "{self.dataset}", entry {entry.row.seq}'


def payer(content: Mapping[str, Any]) -> str:
    """Return who is charged for a run."""
    return str(content.get("who", ""))


def mechanism_names(pipeline: Mapping[str, Any]) -> str:
    """Return the names of a pipeline's mechanisms, cut where they are longer than anybody reads: a spender may write anything."""
    text = " + ".join(str(entry.get("name", "?")) for entry in pipeline["mechanism"])
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def _refuse_no_run(content: Mapping[str, Any]) -> None:
    """Raise what `apply` explains where a charge does not say for which run.

    A delta of 1 and more says nothing, and `verify` reports it; here it stops nobody from reading on.
    """
    pipeline = content["pipeline"]
    if not (isinstance(pipeline["privacy"], dict) and all(isinstance(entry, dict) for entry in pipeline["mechanism"])):
        raise TypeError("a pipeline without tables")
    if not 0.0 <= float(content["delta"]) < math.inf:
        raise ValueError(f"delta {content['delta']!r}")


_CHANGES: dict[str, Callable[[LedgerState, LedgerEntry], None]] = {
    "open": LedgerState._open,
    "moved": LedgerState._moved,
    "copied": LedgerState._copied,
    "spend": LedgerState._charge,
    "reserve": LedgerState._charge,
    "start": LedgerState._move,
    "commit": LedgerState._move,
    "count": LedgerState._count,
    "void": LedgerState._move,
    "amend": LedgerState._amend,
    "retire": LedgerState._retire,
    "upgrade": LedgerState._upgrade,
    "quota": LedgerState._quota,
    "propose": LedgerState._propose,
    "refuse": LedgerState._propose,
}
