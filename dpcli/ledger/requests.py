"""Requests to a ledger about runs, blocks, findings and definitions.

governance/amendments.py has the requests that change its cap and quotas, and stores/move_requests.py those that move a dataset. A request
says what a person wants, such as to charge a run. Its method `entry` decides: it reads the *state* of the ledger, that is, what all entries
add up to (state.py), and returns the content of the entry to append, or None if the request was granted before. `Ledger` (ledger.py) builds
most requests, and `EntryLog.append_all` (entry_log.py) appends their entries.

A *run* is charged under its *key*, its name: at once ("spend"), or in steps: "reserve" charges it, "start" permits its noise, "commit"
records its end, and "void" refunds a reservation that was not started. A dataset may be cut into *blocks*, each with a cap of its own; a
run is charged on the blocks of its *window*, and a block that was *retired* accepts no run. A *quota* limits what a person or a team may
charge. A *session* (dpcli/sessions) is a run of a command under one charge; its answers, if it gives any, are counted. The *definitions*
are the tables, triggers and SQL functions that guard the entries in their file or database.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from dpcli.base.errors import Denied, InputError, LedgerError
from dpcli.file.keys.words import has_words
from dpcli.ledger import amounts
from dpcli.ledger.chain import canonical
from dpcli.ledger.charges.ledger_run import DRAWN, STATUS_AFTER, Run
from dpcli.ledger.filters.filter import Cost
from dpcli.ledger.grammar import LONGEST_NAME
from dpcli.ledger.state import LedgerState

# The end of messages about a run that must not be made again under its key.
OWN_KEY = "noise may have been drawn, and a run that draws noise again needs a key of its own"
SCOPE = "//"  # between the login and the key in the name of a run in a database, as in "ada//week-7"
CERTIFICATE = re.compile(r"(?:^|; )certificate sha256:([0-9a-f]{64})\Z", re.ASCII)  # the end of an entry's `detail`


def certificate_of(content: Mapping[str, Any]) -> str | None:
    """Return the SHA-256 of the certificate that the entry of a charge names, in hexadecimal digits; None if it names none.

    The SHA-256 is a part of `detail`, the free text of an entry, after the words about the cost. A field of its own would be a new version
    of the definitions, which every database has to install, and a reader of an earlier version would refuse it.
    """
    match = CERTIFICATE.search(str(content.get("detail", "")))
    return None if match is None else match[1]


class LedgerRequest(Protocol):
    """A request to a ledger. It is asked in one state, and again in a later one if others have appended meanwhile (`HeadMoved`)."""

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        """Return the content of the entry to append; None if the request was granted before, or has nothing to change.

        Args:
            state: The state of the ledger before the entry. It is not changed.
            now: The current time in the form of entries.

        Raises:
            Denied: The request exceeds the budget.
            LedgerError: An entry of the ledger contradicts the request.
            InputError: A required reason is missing, or a value is invalid.
        """


def checked_key(key: str) -> str:
    """Return the key of a run. Raises InputError if it is blank or too long, or if a character is not printable.

    Characters that are not printable could steer a terminal.
    """
    if not key.strip() or len(key) > LONGEST_NAME or not key.isprintable():
        raise InputError(f"--key: expected a name of at most {LONGEST_NAME} printable characters for this run, found {key[:60]!r}")
    return key


def key_scope(login: str) -> str:
    """Return the start of the names of a login's runs in a database. No other login may charge a run with such a name.

    A login may contain a slash, which is escaped, so that the first two slashes of a name end its login.
    """
    return f"{login.replace('%', '%25').replace('/', '%2F')}{SCOPE}"


def nonempty(**optional: Any) -> dict[str, Any]:
    """Return the fields of an entry that are not empty, as entries leave out an optional field without a value."""
    return {name: value for name, value in optional.items() if value}


@dataclass(frozen=True, slots=True)
class Charge:
    """A charge for a run.

    Attributes:
        kind: "spend" for a run that is made at once, "reserve" for a long run that is about to start.
        key: Name of the run. A request with the same key, body and person (`who`) as an earlier one is not charged again. A request with
            the same key but another body or person is an error.
        expires: ISO time after which a reservation cannot be voided and counts in full.
        window: The blocks that the run reads, sorted; empty if the dataset has no blocks.
        corrects: Key of the run whose price this charge completes; "" for a run of its own. `cost` is what was missing from that price.
        certificate: SHA-256 of a certificate about the run (dpcli certify), in hexadecimal digits; "" for none. It changes no cost.
        made, maker: When and by whom the run was made, if it was made before the ledger was opened; else "". In a file such a run is
            charged once, even if several people import it.
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
    certificate: str = ""
    corrects: str = ""

    def body(self) -> dict[str, Any]:
        """Return the part of the content that must be equal if the charge is repeated under its key."""
        body = {"kind": self.kind, "key": self.key, "pipeline": self.pipeline, "delta": repr(self.delta)}
        return {**body, **nonempty(window=list(self.window), made=self.made, maker=self.maker, corrects=self.corrects)}

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        if self.key in state.runs:
            self._require_same_charge(state.runs[self.key])
            return None
        corrected = state.run(self.corrects) if self.corrects else None
        if corrected is not None and corrected.status not in DRAWN:
            raise LedgerError(f'key "{self.corrects}": expected a run that was started, found one that is {corrected.status}')
        closed = state.retired_block(self.window)
        if closed is not None and corrected is None:  # a correction is not a further run
            raise Denied(f"block {closed} was retired")
        wanted = amounts.read(self.cost.amounts)
        if not state.on_blocks(self.window).fits(wanted):
            raise Denied("over the cap")
        if state.over_quota(self.who, self.window, wanted) is not None:
            raise Denied("over a quota")
        proof = f"certificate sha256:{self.certificate}" if self.certificate else ""
        cost = {"cost": dict(self.cost.amounts), "detail": "; ".join(filter(None, (self.cost.detail, proof)))}
        return {**self.body(), **cost, **nonempty(why=self.why, expires=self.expires)}

    def notes_on_repetition(self, run: Run) -> tuple[str, ...]:
        """Return notes for the user about this request, which repeats the charge of `run`, so that nothing was written.

        The first note says so. A further note is added if `expires` or `certificate` differs from the entry, and so has no effect.
        """
        lines = [
            f'"{self.key}" was charged before, by entry {run.seq} of {run.content.get("when")}: nothing is charged now, and a run that '
            "draws noise again needs a key of its own"
        ]
        reserved_until = run.content.get("expires")
        if self.kind == "reserve" and self.expires != reserved_until:
            given, first = self.expires or "none", reserved_until or "none: it can be voided until it is started"
            lines.append(f'"{self.key}" keeps the --expires of its reservation ({first}); the new value, {given}, changes nothing')
        certificate_in_entry = certificate_of(run.content)
        if self.certificate and self.certificate != certificate_in_entry:
            kept = "no certificate" if certificate_in_entry is None else f"the certificate sha256:{certificate_in_entry}"
            lines.append(f'"{self.key}" names {kept} in its entry; --certificate changes nothing')
        return tuple(lines)

    def _require_same_charge(self, run: Run) -> None:
        """Check that `run`, which has this key, was charged by an equal request. Raises LedgerError if not.

        LedgerError is also raised if the run was voided, or if this request is a reservation and the run was started or has ended.
        """
        body = {"made": None, "maker": None, "corrects": None, **self.body()}  # the first three, even if only the entry has them
        # Values are compared as they are written, because a request may hold a tuple where the entry has a list.
        differing = sorted(name for name in body if canonical({"": run.content.get(name)}) != canonical({"": body[name]}))
        if differing:
            raise LedgerError(
                f'key "{self.key}": expected the run that entry {run.seq} charged under it, found a run that differs in '
                f"{' and '.join(differing)}: a new run needs a key of its own"
            )
        if not self.made and run.content.get("who") != self.who:  # several people may import the same run of a history
            raise LedgerError(
                f'key "{self.key}": expected a run of {self.who}, found a run that was charged to {run.content.get("who")}: '
                "a new run needs a key of its own"
            )
        if run.status == "void":
            raise LedgerError(f'key "{self.key}": expected a new key, found the key of a voided reservation')
        if self.kind == "reserve" and run.status != "reserved":  # a second start would draw noise again
            raise LedgerError(
                f'key "{self.key}": expected a reservation that was not started, found a run that is {run.status}: {OWN_KEY}'
            )


@dataclass(frozen=True, slots=True)
class RunStep:
    """The start, commit or void of a reservation.

    A person who did not make the reservation has to give a reason. A start is granted once. A repeated commit or void writes nothing.

    Attributes:
        kind: "start", "commit" or "void".
        who: The person who makes the request.
        why: Reason; "" if there is none.
    """

    kind: str
    key: str
    who: str
    why: str = ""

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        run = state.run(self.key)
        owner = run.content.get("who")
        if owner != self.who and not has_words(self.why):  # a database also requires that the login is an administrator
            raise InputError(f'--reason: state why, as "{self.key}" is a reservation of {owner}')
        if self.kind == "start" and run.status == "started":  # of two people who share a reservation only one may draw noise
            raise LedgerError(
                f'key "{self.key}": expected a reservation that was not started, found one that was started: {OWN_KEY}'
            )
        if run.status == STATUS_AFTER[self.kind]:
            return None
        if self.kind == "commit" and run.status == "reserved" and not has_words(self.why):
            raise InputError(
                f'--reason: state why, as "{self.key}" was never started: run dpcli budget start before the first noise is drawn. It is '
                "granted once, so that two people who share a reservation cannot both draw noise"
            )
        if self.kind == "void":
            self._refuse_void(run, now)
        if run.status == "void" or (self.kind == "start" and run.status == "committed"):
            raise LedgerError(f'key "{self.key}": expected a reservation to {self.kind}, found a run that is {run.status}')
        return {"kind": self.kind, "key": self.key, **nonempty(why=self.why)}

    def _refuse_void(self, run: Run, now: str) -> None:
        """Check that the reservation can be voided. Raises InputError without a reason, LedgerError if it has expired or was started."""
        if not has_words(self.why):
            raise InputError("--reason: state why no noise was drawn")
        if run.expired(now):
            raise LedgerError(
                f'key "{self.key}": expected a reservation within its time, found one that has expired: it counts in full'
            )
        if run.status != "reserved":
            raise LedgerError(
                f'key "{self.key}": expected a reservation before any noise was drawn, found a run that is {run.status}'
            )


@dataclass(frozen=True, slots=True)
class CountAnswers:
    """A grant of further answers of a session. One charge pays for all answers of the session.

    Attributes:
        key: Key of the session's run.
        of: Name of the answers.
        count: Number of further answers.
        total: Largest number of answers that the charge pays for.
        who: The person who makes the request, and who must have been charged for the run.
    """

    key: str
    of: str
    count: int
    total: int
    who: str

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        run = state.run(self.key)
        if run.status not in DRAWN:
            raise LedgerError(
                f'key "{self.key}": expected a run that was started, found a run that is {run.status}: nothing is answered'
            )
        owner = run.content.get("who")
        if owner != self.who:
            raise LedgerError(
                f'key "{self.key}": expected a request of {owner}, who was charged for the run, found one of {self.who}: nothing is '
                "answered"
            )
        granted = run.counts.get(self.of, 0)
        if granted + self.count > self.total:
            raise Denied(f"{granted:,} of {self.total:,} {self.of} are spent, and {self.count:,} more were requested")
        return {"kind": "count", "key": self.key, "of": self.of, "count": granted + self.count}


@dataclass(frozen=True, slots=True)
class Retire:
    """The permanent closing of blocks for further runs. Their earlier charges remain. If all are closed already, nothing is written."""

    window: tuple[str, ...]
    why: str

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        if state.open_terms().family is None:
            raise InputError(f'expected a dataset of blocks, found "{state.dataset}", which has none')
        if not has_words(self.why):
            raise InputError("--reason: state why the blocks are retired")
        if state.retired.issuperset(self.window):
            return None
        return {"kind": "retire", "window": list(self.window), "why": self.why}


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """The answer of an administrator to a finding of `dpcli budget verify`, by its text. It changes no charge and no cap."""

    finding: str
    why: str

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        state.open_terms()
        if not has_words(self.why):
            raise InputError("--reason: state why, in words")
        return {"kind": "acknowledge", "finding": self.finding, "why": self.why}


@dataclass(frozen=True, slots=True)
class Upgrade:
    """A record that dpcli has installed a new version of the definitions that guard the entries.

    Attributes:
        schema: Hash of the new definitions.
        version: Version number of the new definitions.
    """

    schema: str
    version: int

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        state.open_terms()
        if state.schema == self.schema or state.awaits_opening:  # the entry that opens a copy records its definitions
            return None
        if state.version >= self.version:
            raise LedgerError(
                f"the definitions that guard the entries were changed since the ledger was opened, and not by dpcli: the ledger already "
                f"has the definitions of version {self.version}"
            )
        return {"kind": "upgrade", "schema": self.schema, "version": self.version}
