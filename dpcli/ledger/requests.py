"""What may be asked of a ledger. Each request looks at the state and gives the entry to append, or None where it was granted before."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from dpcli.base.errors import Denied, InputError, LedgerError
from dpcli.file.toml.looks import looks
from dpcli.ledger import amounts
from dpcli.ledger.chain import canonical
from dpcli.ledger.filters.filter import Cost
from dpcli.ledger.state import COUNTED, NEXT, LedgerState, Run

LONGEST = 200


class LedgerRequest(Protocol):
    """Raises Denied where the budget says no, LedgerError where the ledger holds something that contradicts it."""

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None: ...


@dataclass(frozen=True, slots=True)
class Charge:
    """Spend at once, or reserve for a long run (`kind`: spend or reserve).

    key: the name of the run; the same key with the same body is charged once, to whoever (`who`) was charged first: two people under one
    key make two runs. expires: ISO time after which a reservation cannot be voided; it then counts in full.
    window: the blocks that it reads, sorted; none where the dataset has none.
    made, maker: when and by whom, of a run that was made before there was a ledger; whoever charges it, it is charged once.
    """

    kind: str
    key: str
    pipeline: Mapping[str, Any]
    delta: float
    cost: Cost
    who: str
    why: str = ""
    expires: str | None = None
    window: tuple[str, ...] = ()
    made: str = ""
    maker: str = ""

    def body(self) -> dict[str, Any]:
        """What makes two charges the same."""
        body = {"kind": self.kind, "key": self.key, "pipeline": self.pipeline, "delta": repr(self.delta)}
        optional = {"window": list(self.window), "made": self.made, "maker": self.maker}
        return {**body, **{name: value for name, value in optional.items() if value}}

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        if self.key in state.runs:
            self._refuse_other(state)
            self._refuse_begun(state)
            return None
        closed = state.closed(self.window)
        if closed is not None:
            raise Denied(f"block {closed} was retired")
        if not state.over(self.window).fits(amounts.read(self.cost.amounts)):
            raise Denied("over the cap")
        if state.over_quota(self.who, self.window, amounts.read(self.cost.amounts)) is not None:
            raise Denied("over a quota")
        optional = {"why": self.why, "expires": self.expires}
        stated = {name: value for name, value in optional.items() if value}
        return {**self.body(), "cost": dict(self.cost.amounts), "detail": self.cost.detail, **stated}

    def told(self, run: Run) -> tuple[str, ...]:
        """What whoever asked has to know where his run was charged before, and nothing is written."""
        said = f'"{self.key}" was charged before, by entry {run.seq} of {run.content.get("when")}'
        lines: tuple[str, ...] = (f"{said}: this is no new run, and one that draws noise again needs a key of its own",)
        end = run.content.get("expires")
        if self.kind == "reserve" and self.expires != end:
            asked, first = self.expires or "none", end or "none: it can be voided until it is started"
            lines += (f'"{self.key}" keeps the --expires of its reservation, {first}; found {asked}, which changes nothing',)
        return lines

    def _refuse_other(self, state: LedgerState) -> None:
        run = state.runs[self.key]
        body = {**dict.fromkeys(("made", "maker")), **self.body()}
        if canonical({name: run.content.get(name) for name in body}) != canonical(body):
            raise LedgerError(
                f'key "{self.key}": expected the run that entry {run.seq} charged under it, found another: '
                "a new run needs a key of its own"
            )
        if not self.made and run.content.get("who") != self.who:
            raise LedgerError(
                f'key "{self.key}": expected a run of {self.who}, found one that {run.content.get("who")} was charged for: '
                "a new run needs a key of its own"
            )
        if run.status == "void":
            raise LedgerError(f'key "{self.key}": expected a new key, found one whose reservation was voided')

    def _refuse_begun(self, state: LedgerState) -> None:
        """A reservation is asked for again by a run that starts again: what drew noise before is paid for, what it draws now is not."""
        run = state.runs[self.key]
        if self.kind == "reserve" and run.status != "reserved":
            raise LedgerError(
                f'key "{self.key}": expected a reservation that has not begun, found one that is {run.status}: noise may have been drawn, '
                "and a run that draws noise again needs a key of its own"
            )


@dataclass(frozen=True, slots=True)
class Move:
    """start, commit or void a reservation (`kind`): by whoever made it, or by an administrator who says why.

    despite_clock: void it although a later entry is dated after its end: some clock was wrong.
    """

    kind: str
    key: str
    who: str
    why: str = ""
    despite_clock: bool = False

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        run = state.run(self.key)
        self._refuse_other(run)
        if self.kind == "start" and run.status == "started":
            raise LedgerError(
                f'key "{self.key}": expected a reservation that was not started, found one that was: noise may have been drawn, '
                "and a run that draws noise again needs a key of its own"
            )
        if run.status == NEXT[self.kind]:
            return None
        if self.kind == "commit" and run.status == "reserved" and not _in_words(self.why):
            raise InputError(
                f'--reason: expected why, as "{self.key}" was never started, found nothing: dpcli budget start comes before the first '
                "noise, and is granted once; without it two who hold one reservation may both have drawn noise"
            )
        if self.kind == "void":
            # A clock that was set back brings nothing back.
            self._refuse_void(run.status, run.expired(now), not self.despite_clock and run.expired(max(now, state.latest)))
        if run.status == "void" or (self.kind == "start" and run.status == "committed"):
            raise LedgerError(f'key "{self.key}": expected a reservation to {self.kind}, found one that is {run.status}')
        return {"kind": self.kind, "key": self.key, **({"why": self.why} if self.why else {})}

    def _refuse_other(self, run: Run) -> None:
        """Whether somebody is an administrator, a database knows; of a file he is whoever may write it."""
        owner = run.content.get("who")
        if owner != self.who and not _in_words(self.why):
            raise InputError(f'--reason: expected why, as "{self.key}" is a reservation of {owner}, found nothing')

    def _refuse_void(self, status: str, expired: bool, outdated: bool) -> None:
        if not _in_words(self.why):
            raise InputError("--reason: expected why no noise was drawn, found nothing")
        if expired:
            raise LedgerError(
                f'key "{self.key}": expected a reservation within its time, found one that expired: it counts in full'
            )
        if outdated:
            raise LedgerError(
                f'key "{self.key}": expected a reservation within its time, found one that expired before a later entry was written; '
                "where that entry was dated by a wrong clock: --despite-clock"
            )
        if status != "reserved":
            raise LedgerError(f'key "{self.key}": expected a reservation before any noise was drawn, found one that is {status}')


@dataclass(frozen=True, slots=True)
class CountAnswers:
    """Grant `count` more answers (`of`: as they are called) of a session that was charged as a whole, of `total`."""

    key: str
    of: str
    count: int
    total: int
    who: str

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        run = state.run(self.key)
        if run.status not in COUNTED:
            raise LedgerError(
                f'key "{self.key}": expected a run that was started, found one that is {run.status}: nothing is answered'
            )
        owner = run.content.get("who")
        if owner != self.who:
            raise LedgerError(f'key "{self.key}": expected {owner}, who was charged for it, found {self.who}: nothing is answered')
        taken = run.counts.get(self.of, 0)
        if taken + self.count > self.total:
            raise Denied(f"{taken:,} of {self.total:,} {self.of} are spent, found {self.count:,} asked for")
        return {"kind": "count", "key": self.key, "of": self.of, "count": taken + self.count}


@dataclass(frozen=True, slots=True)
class Amend:
    """Another cap on epsilon; everything else of a ledger is fixed for good.

    who: whoever asks. unseen: the word that no output had been seen when the cap was raised. acknowledged: that a cap which is raised after
    outputs bounds nothing, or that a lower one does not mean less privacy loss: it stops further runs, and what was released keeps its
    guarantee.
    """

    epsilon: float
    why: str
    approver: str
    who: str
    unseen: bool = False
    acknowledged: bool = False

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        terms = state.open_terms()
        if terms.mode == "declared":
            raise InputError("expected a ledger in adaptive mode to amend, found declared mode: its set of runs is fixed for good")
        if not 0.0 < self.epsilon < float("inf"):
            raise InputError(f"--epsilon: expected a number > 0, found {self.epsilon!r}")
        if self.epsilon < state.epsilon and not self.acknowledged:
            raise InputError(
                f"--epsilon: a cap of {self.epsilon!r} would stop further runs, and means nothing for those that were made, as what they "
                f"showed may be why they stop: they are guaranteed {_bound(state)}; --acknowledge lowers the cap all the same"
            )
        caps = terms.caps(self.epsilon)
        asks = {"kind": "amend", "epsilon": self.epsilon, "caps": caps, "why": self.why}
        if terms.two_person:
            self._refuse_alone()
            return asks
        return {**asks, "approver": self._approver(), **raised(self.epsilon, state, self.unseen, self.acknowledged)}

    def _refuse_alone(self) -> None:
        """In a ledger of two persons whoever approves says who that is, and what was seen."""
        for flag, given in (("--approver", self.approver), ("--no-output-seen", self.unseen)):
            if given:
                raise InputError(
                    f"{flag}: expected none in a ledger of two persons, found one: another person approves with dpcli budget approve"
                )
        if not _in_words(self.why):
            raise InputError("expected --reason in words, found nothing")

    def _approver(self) -> str:
        """Who is said to have allowed it: nobody checks that, but it is not whoever asks."""
        if not _in_words(self.why) or not _in_words(self.approver):
            raise InputError("expected --reason and --approver in words, found nothing")
        if looks(self.approver) == looks(self.who):
            raise InputError(f"--approver: expected another person than {self.who}, who asks for it, found {self.approver!a}")
        return self.approver


def raised(epsilon: float, state: LedgerState, unseen: bool, acknowledged: bool) -> dict[str, bool]:
    """What an amendment says of the outputs where it raises the cap above all that is guaranteed.

    Before the first charge there is no output. Raises InputError where nobody says whether one was seen.
    """
    if state.guaranteed is None or epsilon <= state.largest:
        return {}
    if unseen or not state.charges:
        return {"unseen": True}
    if acknowledged:
        return {}
    raise InputError(
        f"--epsilon: expected at most {state.largest!r}, which is guaranteed, found {epsilon!r}: a cap that is raised because of an output "
        "bounds nothing, neither as it was nor as it will be; --no-output-seen, where nobody who decides this has seen an output of a run "
        "that was charged here; else --acknowledge, after which no epsilon is guaranteed"
    )


def _bound(state: LedgerState) -> str:
    return "nothing" if state.guaranteed is None else f"the largest cap there was, epsilon {state.guaranteed!r}"


@dataclass(frozen=True, slots=True)
class SetQuota:
    """The most that a person, or the members of a team together, may charge: `share` of the cap, a decimal from 0 to 1; 1 lifts it.

    of: person or team. members: of a team, sorted; a person's own name.
    """

    of: str
    name: str
    members: tuple[str, ...]
    share: str
    alert_at: str
    why: str

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        if state.open_terms().mode == "declared":
            raise InputError("expected a ledger in adaptive mode for quotas, found declared mode: each of its runs is fixed")
        if not _in_words(self.why):
            raise InputError("--reason: expected why, in words, found nothing")
        _refuse_lookalikes(self.members, state.people or {})
        asks = {"of": self.of, "name": self.name, "members": list(self.members)}
        return {"kind": "quota", **asks, "share": self.share, "alert_at": self.alert_at, "why": self.why}


def _refuse_lookalikes(members: tuple[str, ...], known: Collection[str]) -> None:
    """Raise InputError for a name that was never charged and looks like one that was: its quota would hold nobody."""
    for name in members:
        other = next((who for who in known if who != name and looks(who) == looks(name)), None)
        if other is not None and name not in known:
            raise InputError(f"expected {other!a}, who has charged runs here, found {name!a}, which only looks alike")


@dataclass(frozen=True, slots=True)
class Retire:
    """Close blocks for good: no further run reads them. What was charged stays charged."""

    window: tuple[str, ...]
    why: str

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        if state.open_terms().family is None:
            raise InputError(f'expected a dataset of blocks, found "{state.dataset}", which has none')
        if not _in_words(self.why):
            raise InputError("--reason: expected why the blocks are retired, found nothing")
        if state.retired.issuperset(self.window):
            return None
        return {"kind": "retire", "window": list(self.window), "why": self.why}


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The definitions that guard the entries were made again by a later version (`version`): their hash is `schema` from here on."""

    schema: str
    version: int

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        state.open_terms()
        if state.schema == self.schema or state.not_open:  # as a copy is opened, what guards it is noted
            return None
        if state.version >= self.version:
            raise LedgerError(
                f"the definitions that guard the entries were changed since the ledger was opened, and no version of dpcli did that: "
                f"they are those of version {self.version} already"
            )
        return {"kind": "upgrade", "schema": self.schema, "version": self.version}


def _in_words(text: str) -> bool:
    from dpcli.file.keys.words import has_words

    return has_words(text)


def checked_key(key: str) -> str:
    """A key as an entry may hold it. Raises InputError for one that is empty, long, or holds what a terminal would act on."""
    if not key.strip() or len(key) > LONGEST or not key.isprintable():
        raise InputError(f"--key: expected a name of at most {LONGEST} printable characters for this run, found {key[:60]!r}")
    return key
