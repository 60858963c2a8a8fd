"""Waivers against the conditions of a file: what one lets through, and what is to be said of each."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpcli.base.rounding import up
from dpcli.base.values import dataclass
from dpcli.file.pipeline.gate_keys import Waiver
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.toml.findings import Findings, Path
from dpcli.gate.bases import Base, waiver_data
from dpcli.gate.policy import Policy
from dpcli.gate.verdicts import Condition, Pardon
from dpcli.gate.waivable import problem_of

if TYPE_CHECKING:
    from dpcli.git.authors import Author

SOON = 14  # days before its end from which a waiver is a warning


@dataclass(frozen=True, slots=True)
class Grant:
    """A waiver and where it is written: the policy, or the file, where the change itself may have added it.

    writers: who wrote it there, empty where nobody knows; None where nobody asks.
    """

    waiver: Waiver
    index: int
    external: bool
    new: bool
    writers: tuple[Author, ...] | None = None

    @property
    def key(self) -> Path:
        """Its place in the pipeline file; none where it stands in the policy."""
        return () if self.external else ("gate", "waiver", self.index)

    def concerns(self, condition: Condition) -> bool:
        """Whether it was written for such a condition: a lint code also where it only warns, a cap only where it says no."""
        lint = condition.name.startswith("DP")
        return (
            condition.name == self.waiver.rule
            and (condition.verdict == "fail" or (lint and condition.verdict == "warn"))
            and self.waiver.mechanism in (None, condition.mechanism)
        )

    def objection(self, condition: Condition, as_of: datetime.date) -> str | None:
        """Why it does not hold here, if it does not."""
        name = f"the waiver approved by {self.waiver.approver}"
        own = self._own_author()
        if own is not None:
            return (
                f"{name} was written by {own.name} <{own.mail}>: the policy's waiver_author asks for the approval of another person"
            )
        if as_of > self.waiver.expires:
            return f"{name} expired on {self.waiver.expires} ({_days(as_of - self.waiver.expires)} ago)"
        bound = self.waiver.epsilon
        if bound is not None and not (condition.measured is not None and condition.measured <= bound):
            measured = "nothing that can be compared" if condition.measured is None else f"{up(condition.measured)}"
            return f"{name} holds up to epsilon {bound!r}, found {measured}"
        return None

    def _own_author(self) -> Author | None:
        """The approver himself, where he is who wrote it."""
        if not self.writers:
            return None
        from dpcli.gate.waiver_authors import self_approved

        return self_approved(self.waiver.approver, self.writers)


@dataclass(frozen=True, slots=True)
class Waived:
    """The conditions after the waivers, with a warning for each waiver that needs one; granting: those of the policy with a say."""

    conditions: tuple[Condition, ...]
    granting: frozenset[int]


def waived(
    conditions: Sequence[Condition],
    path: str,
    pipeline: Pipeline,
    policy: Policy,
    base: Base | None,
    as_of: datetime.date,
    data: bytes,
) -> Waived:
    """Turn each no that a waiver covers into "waived"; what is unknown or invalid stays so.

    base: what the file was, for telling which waivers the change itself adds; None where it is not compared, or new. data: what it is.
    """
    grants = [*_external(path, policy), *_own(pipeline, policy, base, path, data)]
    judged = [_judged(condition, grants, as_of) for condition in conditions]
    used = {id(c.pardon.waiver) for c in judged if c.pardon is not None}
    granting = {grant.index for grant in grants if grant.external and any(map(grant.concerns, conditions))}
    notices = [notice for grant in grants for notice in _notices(grant, conditions, id(grant.waiver) in used, as_of)]
    ignored = [_ignored(index) for index in range(len(pipeline.gate.waiver)) if not policy.takes_from_files]
    return Waived((*judged, *notices, *ignored), frozenset(granting))


def _external(path: str, policy: Policy) -> Iterator[Grant]:
    for index, waiver in enumerate(policy.waiver):
        if waiver.covers(path, policy.path):
            yield Grant(waiver, index, True, False)


def _own(pipeline: Pipeline, policy: Policy, base: Base | None, path: str, data: bytes) -> Iterator[Grant]:
    asked = bool(pipeline.gate.waiver) and policy.takes_from_files and policy.waiver_author == "another"
    writers = _writers(pipeline, path, data) if asked else ()
    known: Sequence[Mapping[str, Any]] = base.waivers if base is not None else ()
    for index, waiver in enumerate(pipeline.gate.waiver if policy.takes_from_files else ()):
        yield Grant(waiver, index, False, base is not None and waiver_data(waiver) not in known, writers[index] if asked else None)


def _writers(pipeline: Pipeline, path: str, data: bytes) -> tuple[tuple[Author, ...], ...]:
    from dpcli.gate.waiver_authors import writers_of  # only where a policy asks

    return writers_of(pipeline, path, data)


def _judged(condition: Condition, grants: Sequence[Grant], as_of: datetime.date) -> Condition:
    """The condition as the first waiver that holds makes it; where none does, with what each lacks."""
    objections = []
    for grant in grants:
        if not grant.concerns(condition):
            continue
        objection = grant.objection(condition, as_of)
        if objection is None:
            days = (grant.waiver.expires - as_of).days
            pardon = Pardon(grant.waiver, days, grant.new, grant.external)
            return replace(condition, verdict="waived", message=f"{condition.message}; {pardon_words(pardon)}", pardon=pardon)
        objections.append(objection)
    return replace(condition, message="; ".join([condition.message, *objections]))


def pardon_words(pardon: Pardon) -> str:
    """Who waived it, until when, and why."""
    waiver, kind = pardon.waiver, "new waiver, added by this change" if pardon.new else "waived"
    until = f"until {waiver.expires} ({_count(pardon.days)} left)"
    bound = "" if waiver.epsilon is None else f" up to epsilon {waiver.epsilon!r}"
    return f"{kind}: approved by {waiver.approver} {until}{bound}: {' '.join(waiver.reason.split())}"


def _notices(grant: Grant, conditions: Sequence[Condition], used: bool, as_of: datetime.date) -> Iterator[Condition]:
    waiver, days = grant.waiver, (grant.waiver.expires - as_of).days
    whose = f"the {'policy' if grant.external else 'file'}'s waiver of {waiver.rule}"
    if used and days <= SOON:
        yield Condition(
            "waiver", "warn", f"{whose} expires {f'in {_count(days)}' if days else 'today'} ({waiver.expires})", grant.key
        )
    if used and grant.writers == ():
        why = "not committed yet, or a shallow clone (fetch-depth: 0)"
        yield Condition("waiver", "warn", f"{whose} may be its approver's own: git does not say who wrote it ({why})", grant.key)
    if not grant.external and not any(map(grant.concerns, conditions)):
        late = f", and expired on {waiver.expires}" if days < 0 else ""
        fresh = " (new waiver, added by this change)" if grant.new else ""
        yield Condition("waiver", "warn", f"{whose} is not needed{late}{fresh}: remove it", grant.key)


def _ignored(index: int) -> Condition:
    return Condition("waiver", "warn", "does not count: the policy takes no waivers from pipeline files", ("gate", "waiver", index))


def unused(policy: Policy, paths: Sequence[str], granting: frozenset[int]) -> Iterator[Condition]:
    """A warning for each waiver of the policy that covers one of the files and was needed by none."""
    for index, waiver in enumerate(policy.waiver):
        if index not in granting and any(waiver.covers(path, policy.path) for path in paths):
            yield Condition("waiver", "warn", f"waiver[{index + 1}]: the waiver of {waiver.rule} is not needed: remove it", ())


def check_waivers(pipeline: Pipeline, findings: Findings) -> None:
    """Add a finding for each waiver of something that cannot be waived."""
    for index, waiver in enumerate(pipeline.gate.waiver):
        problem = problem_of(waiver.rule)
        if problem is not None:
            findings.add("DP005", ("gate", "waiver", index, "rule"), *problem)


def _days(span: datetime.timedelta) -> str:
    return _count(span.days)


def _count(days: int) -> str:
    return f"{days} day{'s' if days != 1 else ''}"
