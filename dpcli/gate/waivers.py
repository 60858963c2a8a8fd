"""The application of waivers to failed conditions, and warnings about the waivers themselves.

judge.py calls `apply_waivers` with all conditions of one file. A *condition* is one requirement that the gate checked, with a verdict
(verdicts.py). A *waiver* pardons the failures of one condition or lint rule, with a reason, an approver and an expiry; it is in the policy
or, if the policy accepts it, in the file. A waiver that a change adds to a file with a base is valid, and reported as new (`Grant.is_new`).
If the policy asks for it, git blame checks that nobody has approved their own waiver in a file: a name that looks like the author's counts
as the author, and an unknown author gives a warning only.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from dpcli.base.rounding import up
from dpcli.base.values import dataclass
from dpcli.file.pipeline.gate_keys import Waiver
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.toml.confusables import skeleton
from dpcli.file.toml.findings import Findings, Path
from dpcli.file.toml.positions import locate
from dpcli.gate.bases import waiver_data
from dpcli.gate.policy import Policy, unwaivable
from dpcli.gate.verdicts import Base, Condition, Pardon
from dpcli.git.authors import Author, authors_of, spellings_of_address

# A used waiver gives a warning from this number of days before its expiry on. Chosen by hand; it decides about warnings alone.
WARNING_DAYS = 14
# The keys that decide what a waiver grants. If the policy's waiver_author is "another", the approver must have written none of their lines.
# Anyone may edit the reason.
GRANTING_KEYS = ("rule", "approver", "expires", "epsilon", "mechanism")
# Names in an approver's text are separated by matches of _BETWEEN. The characters in _AROUND are removed around a name.
_BETWEEN = re.compile(r"[<>()\[\]{},;&|:]|\s(?:and|or|for|by|[-\u2013\u2014])\s|^by\s", re.IGNORECASE)
_AROUND = " \t\r\n.\"'`<>()[]"


@dataclass(frozen=True, slots=True)
class Grant:
    """A waiver and its origin.

    Attributes:
        index: The position of the waiver among the waivers of its file.
        in_policy: Whether the waiver is in the policy, and not in the pipeline file.
        is_new: Whether the change under review adds the waiver.
        writers: The authors of the waiver; empty if git does not know them; None if the policy does not require this check.
    """

    waiver: Waiver
    index: int
    in_policy: bool
    is_new: bool
    writers: tuple[Author, ...] | None = None

    @property
    def key(self) -> Path:
        """The place of the waiver in the pipeline file; empty if the waiver is in the policy."""
        return () if self.in_policy else ("gate", "waiver", self.index)

    def concerns(self, condition: Condition) -> bool:
        """Return whether the waiver is for this condition. A lint finding may warn or fail; any other condition must fail."""
        lint = condition.name.startswith("DP")
        return (
            condition.name == self.waiver.rule
            and (condition.verdict == "fail" or (lint and condition.verdict == "warn"))
            and self.waiver.mechanism in (None, condition.mechanism)
        )

    def objection(self, condition: Condition, as_of: datetime.date) -> str | None:
        """Return the reason why the waiver does not hold for this condition; None if it holds."""
        name = f"the waiver approved by {self.waiver.approver}"
        writer = self_approver(self.waiver.approver, self.writers or ())
        if writer is not None:
            return f"{name} was written by {writer.name} <{writer.mail}>: the policy's waiver_author asks for another person's approval"
        if as_of > self.waiver.expires:
            return f"{name} expired on {self.waiver.expires} ({_days((as_of - self.waiver.expires).days)} ago)"
        bound = self.waiver.epsilon
        if bound is not None and not (condition.measured is not None and condition.measured <= bound):
            measured = "no epsilon" if condition.measured is None else up(condition.measured)
            return f"{name} is valid up to epsilon {bound!r}, found {measured}"
        return None


@dataclass(frozen=True, slots=True)
class Waived:
    """The conditions after waivers were applied, and warnings about the waivers themselves.

    Attributes:
        needed_waivers: The indices of the policy's waivers that concern one of the conditions, whether or not they hold for it.
    """

    conditions: tuple[Condition, ...]
    needed_waivers: frozenset[int]


def apply_waivers(
    conditions: Sequence[Condition],
    path: str,
    pipeline: Pipeline,
    policy: Policy,
    base: Base | None,
    as_of: datetime.date,
    data: bytes,
) -> Waived:
    """Return the conditions with the verdict "waived" for each failure that a waiver covers.

    Unknown and invalid conditions cannot be waived.

    Args:
        base: The earlier version, which shows whether the change adds a waiver; None if there is no earlier version.
        as_of: The day on which the expiry of waivers is judged.
    """
    grants = [*_policy_grants(path, policy), *_file_grants(pipeline, policy, base, path, data)]
    judged = [_after_waivers(condition, grants, as_of) for condition in conditions]
    # By identity, because a file may state the same waiver twice, of which only the first is used.
    used_waivers = {id(condition.pardon.waiver) for condition in judged if condition.pardon is not None}
    needed = {grant.index for grant in grants if grant.in_policy and any(map(grant.concerns, conditions))}
    notices: list[Condition] = []
    for grant in grants:
        notices += _notices(grant, conditions, id(grant.waiver) in used_waivers, as_of)
    if not policy.accepts_file_waivers:
        ignored = "is not valid: the policy accepts no waivers in pipeline files"
        notices += [_notice(ignored, ("gate", "waiver", index)) for index in range(len(pipeline.gate.waiver))]
    return Waived((*judged, *notices), frozenset(needed))


def _policy_grants(path: str, policy: Policy) -> Iterator[Grant]:
    for index, waiver in enumerate(policy.waiver):
        if waiver.covers(path, policy.path):
            yield Grant(waiver, index, in_policy=True, is_new=False)


def _file_grants(pipeline: Pipeline, policy: Policy, base: Base | None, path: str, data: bytes) -> Iterator[Grant]:
    if not policy.accepts_file_waivers:
        return
    writers = writers_of(pipeline, path, data) if policy.waiver_author == "another" else [None] * len(pipeline.gate.waiver)
    for index, waiver in enumerate(pipeline.gate.waiver):
        is_new = base is not None and waiver_data(waiver) not in base.waivers
        yield Grant(waiver, index, in_policy=False, is_new=is_new, writers=writers[index])


def _after_waivers(condition: Condition, grants: Sequence[Grant], as_of: datetime.date) -> Condition:
    """Return the condition after the first valid waiver was applied. Without one, the message states why each waiver is not valid."""
    objections = []
    for grant in grants:
        if not grant.concerns(condition):
            continue
        objection = grant.objection(condition, as_of)
        if objection is None:
            days = (grant.waiver.expires - as_of).days
            pardon = Pardon(grant.waiver, days, grant.is_new, grant.in_policy)
            return replace(condition, verdict="waived", message=f"{condition.message}; {pardon_words(pardon)}", pardon=pardon)
        objections.append(objection)
    return replace(condition, message="; ".join([condition.message, *objections]))


def pardon_words(pardon: Pardon) -> str:
    """Return a waiver in words: its approver, its expiry and its reason."""
    waiver = pardon.waiver
    status = "new waiver, added by this change" if pardon.is_new else "waived"
    until = f"until {waiver.expires} ({_days(pardon.days_left)} left)"
    bound = "" if waiver.epsilon is None else f" up to epsilon {waiver.epsilon!r}"
    return f"{status}: approved by {waiver.approver} {until}{bound}: {' '.join(waiver.reason.split())}"


def _notices(grant: Grant, conditions: Sequence[Condition], is_used: bool, as_of: datetime.date) -> Iterator[Condition]:
    """Yield a warning for a waiver that expires soon, whose author is unknown, or that is not needed.

    A waiver of the policy covers several files, so `unused_waivers` decides whether it is needed, after all of them.
    """
    waiver, days = grant.waiver, (grant.waiver.expires - as_of).days
    waiver_name = f"the {'policy' if grant.in_policy else 'file'}'s waiver of {waiver.rule}"
    if is_used and days <= WARNING_DAYS:
        yield _notice(f"{waiver_name} expires {f'in {_days(days)}' if days else 'today'} ({waiver.expires})", grant.key)
    if is_used and grant.writers == ():  # the check was asked for, and no author is known
        why = "not committed yet, or a shallow clone (fetch-depth: 0)"
        yield _notice(f"{waiver_name} may have been written by its approver: git does not know its author ({why})", grant.key)
    if not grant.in_policy and not any(map(grant.concerns, conditions)):
        expiry_note = f", and expired on {waiver.expires}" if days < 0 else ""
        fresh = " (new waiver, added by this change)" if grant.is_new else ""
        yield _notice(f"{waiver_name} is not needed{expiry_note}{fresh}: remove it", grant.key)


def _notice(text: str, key: Path = ()) -> Condition:
    return Condition("waiver", "warn", text, key)


def unused_waivers(policy: Policy, paths: Sequence[str], needed: frozenset[int]) -> Iterator[Condition]:
    """Yield a warning for each waiver of the policy that covers a judged file but concerns none of its conditions.

    `needed` has the indices of those that concern a condition. A waiver that covers no judged file may be needed for one not judged here.
    """
    for index, waiver in enumerate(policy.waiver):
        if index not in needed and any(waiver.covers(path, policy.path) for path in paths):
            yield _notice(f"waiver[{index + 1}]: the waiver of {waiver.rule} is not needed: remove it")


def check_waivers(pipeline: Pipeline, findings: Findings) -> None:
    """Add a finding for each waiver in a file whose rule cannot be waived."""
    for index, waiver in enumerate(pipeline.gate.waiver):
        for key, expected, value in unwaivable(waiver):
            findings.add("DP005", ("gate", "waiver", index, *key), expected, value)


def _days(count: int) -> str:
    return f"{count} day{'s' if count != 1 else ''}"


def writers_of(pipeline: Pipeline, path: str, data: bytes) -> tuple[tuple[Author, ...], ...]:
    """Return, for each waiver in a file, the authors of its lines with `GRANTING_KEYS`.

    If a line of a waiver is not committed, or if git does not know its commit, the authors of this waiver are unknown and left out.
    """
    count = len(pipeline.gate.waiver)
    if path == "-" or not count:
        return ((),) * count
    keys = [("gate", "waiver", index, key) for index in range(count) for key in GRANTING_KEYS]
    places = locate(data.decode("utf-8", "replace").replace("\r\n", "\n"), keys)
    authors = authors_of(path, [line for line, _ in places.values()])
    writers = []
    for index in range(count):
        lines = set()
        for key in GRANTING_KEYS:
            line, _ = places["gate", "waiver", index, key]
            lines.add(line)
        writers.append(_authors_of_lines(lines, authors))
    return tuple(writers)


def _authors_of_lines(lines: set[int], author_of_line: dict[int, Author]) -> tuple[Author, ...]:
    """Return the authors and co-authors of all lines, each once. If the author of a line is unknown, return an empty tuple."""
    if not lines <= set(author_of_line):
        return ()
    authors: list[Author] = []
    for line in sorted(lines):
        authors += [author_of_line[line], *author_of_line[line].co_authors]
    return tuple(dict.fromkeys(authors))


def self_approver(approver: str, writers: tuple[Author, ...]) -> Author | None:
    """Return the first writer whose name occurs in the approver's text, also in a confusable spelling; None if there is no such writer."""
    # Names that look alike have one skeleton. The skeleton of a name that consists of invisible characters is empty.
    approvers = {skeleton(name) for name in _names_in(approver)} - {""}
    return next((author for author in writers if any(skeleton(name) in approvers for name in author.names)), None)


def _names_in(approver: str) -> tuple[str, ...]:
    """Return all names in an approver's text, such as "Name <address>", "@login", "Last, First" or "Name (office)".

    If the text names several people, all names are returned. If the writer is one of them, the waiver counts as self-approved, because it
    is unknown whether the other person approved it.
    """
    names = [approver]
    for part in _BETWEEN.split(approver):
        names += [part, *part.split("/")]
    last, comma, first = approver.partition(",")
    if comma:
        names.append(f"{first.strip()} {last.strip()}")
    for word in re.split(r"[\s<>(),;]", approver):
        if "@" in word:
            mail = word.strip(_AROUND).removeprefix("mailto:")
            names += [mail, *spellings_of_address(mail)]
            if mail:
                names.append(approver.replace(mail, " "))  # the names around the address
    plain = [name.strip(_AROUND).removeprefix("@") for name in names]  # "@login" names an account of a forge
    return tuple(name for name in plain if name)
