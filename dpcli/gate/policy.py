"""The policy file: what a privacy team holds every pipeline to, from outside the pipelines.

    format = 1
    epsilon = 3.0                          # a file's own budget holds if it is smaller
    max_increase = 0.25
    max_increase_percent = 10.0            # of the base's epsilon; both hold
    warn_increase_percent = 5.0            # above which a rise is a warning
    require_unit = ["user"]
    forbid_sampling = ["shuffle", "cyclic"]
    waivers = "files"                      # waivers that a pipeline file writes for itself count too
    waiver_author = "another"              # but only if, by git blame, their approver did not write them
    horizon = { every = "week", years = 1, epsilon = 12.0 }

    [[rule]]                               # in place of the caps above, if it matches; of several the smallest cap holds
    files = "ads/*.toml"                   # from the root of the repository; ** spans folders
    epsilon = 1.0

    [[together]]                           # the files of these datasets, added up: what somebody who is in all of them loses
    datasets = ["clicks"]
    epsilon = 6.0

    [[waiver]]
    rule = "budget"
    file = "ads/ranking.toml"
    epsilon = 1.5                          # the waiver holds up to here
    reason = "launch experiment"
    approver = "privacy-board"
    expires = 2030-12-31

Of the caps that flags, the policy and the file state, the tighter one holds; caps at different deltas hold each at its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Annotated, Any, Literal

from dpcli.base.errors import InputError
from dpcli.base.fields import Key
from dpcli.base.registry import SAMPLING
from dpcli.base.values import dataclass
from dpcli.file.keys.annotations import members_of
from dpcli.file.keys.kinds import KeyPlace
from dpcli.file.keys.tables import Members, read_members
from dpcli.file.pipeline.canonical import TOP
from dpcli.file.pipeline.gate_keys import WAIVABLE, Caps, Horizon, Waiver, under
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.read import refuse, toml_document
from dpcli.file.toml.findings import Diagnostic, Findings, InvalidFile, Problem, TooMany
from dpcli.file.toml.limits import escaped_path, read_bytes, title
from dpcli.file.toml.shown import quoted
from dpcli.file.toml.suggest import closest, did_you_mean
from dpcli.gate.caps import SharedCaps, level_problems, name_problems, tightest, with_defaults
from dpcli.gate.verdicts import Condition, JudgedSum
from dpcli.git.command import commit_of, holds, present_files, read_source, roots, work_tree
from dpcli.git.past_files import files_at, touched_paths
from dpcli.lint.catalogue import RULES, waivable
from dpcli.mechanisms.neighbours import Adjacency

POLICY_CHANGE = "policy-change"


@dataclass(frozen=True, slots=True)
class PolicyRule(Caps):
    """Caps for the files that it matches, in place of the policy's general ones; if several match, the smallest of each cap."""

    files: Annotated[str | None, Key("pattern of paths from the root of the repository; ** spans folders")] = None
    unit: Annotated[str | None, Key("only pipelines with this unit")] = None
    adjacency: Annotated[Adjacency | None, Key("only pipelines with this adjacency")] = None

    def problems(self) -> Iterator[Problem]:
        """Yield a rule that matches everything, or caps nothing."""
        if all(selector is None for selector in (self.files, self.unit, self.adjacency)):
            yield (), "files, unit or adjacency", "a rule for everything; state its caps at the top of the file"
        if all(getattr(self, field.name) is None for field in fields(Caps)):
            yield (), "a cap in every rule", "none"
        yield from level_problems(self)

    def applies(self, path: str, pipeline: Pipeline, policy: str) -> bool:
        """Return whether all of its selectors match, by any name of the file. policy: the path of the policy file."""
        return any(self.applies_to(name, path, pipeline) for name in names_of(path, policy))

    def applies_to(self, name: str, path: str, pipeline: Pipeline) -> bool:
        """Return whether all of its selectors match by one of the file's names."""
        privacy = pipeline.privacy
        return (
            (self.files is None or name_matches(self.files, path, name))
            and self.unit in (None, privacy.unit)
            and self.adjacency in (None, privacy.adjacency)
        )


@dataclass(frozen=True, slots=True)
class PolicyWaiver(Waiver):
    """A waiver that the policy grants; as in a pipeline file, and for the files of a pattern."""

    file: Annotated[str | None, Key("pattern of the files that it holds for; all where absent")] = None

    def covers(self, path: str, policy: str) -> bool:
        """Return whether it holds for this file, by each name that links give it. policy: the path of the policy file."""
        return self.file is None or all(name_matches(self.file, path, name) for name in names_of(path, policy))


@dataclass(frozen=True, slots=True)
class Policy(Caps):
    """The terms that every pipeline is held to."""

    horizon: Annotated[Horizon | None, Key("planned repetition of the whole pipeline; a file's own holds too")] = None
    require_unit: Annotated[tuple[str, ...], Key("units that a pipeline may protect; any where empty")] = ()
    require_adjacency: Annotated[tuple[Adjacency, ...], Key("adjacencies that a pipeline may use; any where empty")] = ()
    require_dataset: Annotated[tuple[str, ...], Key("datasets of which a pipeline must name one; none is needed where empty")] = ()
    forbid_sampling: Annotated[tuple[str, ...], Key("sampling schemes that no mechanism may use")] = ()
    waivers: Annotated[
        Literal["files", "policy"] | None,
        Key(
            "files: waivers written in pipeline files count too; policy: its own alone, as where neither this nor waiver_author is stated"
        ),
    ] = None
    waiver_author: Annotated[
        Literal["any", "another"], Key("another: a file's waiver holds only where its approver is not who wrote it, by git blame")
    ] = "any"
    rule: Annotated[tuple[PolicyRule, ...], Key("caps for some pipelines, one [[rule]] table each")] = ()
    together: Annotated[
        tuple[SharedCaps, ...], Key("caps on all files of some datasets together, one [[together]] table each; all hold")
    ] = ()
    waiver: Annotated[tuple[PolicyWaiver, ...], Key("exceptions, one [[waiver]] table each")] = ()
    path: str = ""

    @property
    def takes_from_files(self) -> bool:
        """True if waivers in pipeline files count: whoever raises a number could write one in the same change."""
        return self.waivers == "files" or (self.waivers is None and self.waiver_author == "another")

    def problems(self) -> Iterator[Problem]:
        """Yield keys that contradict each other, and unknown words."""
        yield from level_problems(self)
        yield from under(("horizon",), self.horizon.problems() if self.horizon is not None else ())
        for index, rule in enumerate(self.rule):
            yield from under(("rule", index), rule.problems())
        for index, shared in enumerate(self.together):
            yield from under(("together", index), shared.problems())
        yield from name_problems("require_dataset", self.require_dataset)
        for index, scheme in enumerate(self.forbid_sampling):
            if scheme not in SAMPLING:
                yield ("forbid_sampling", index), f"one of {', '.join(SAMPLING)}", quoted(scheme)
        for index, waiver in enumerate(self.waiver):
            yield from under(("waiver", index), tuple(waiver.problems()) or unwaivable(waiver))

    def caps(self, path: str, pipeline: Pipeline) -> Caps:
        """Return the caps for one file: those of the rules that match, else the general ones; of several names, the smallest."""
        names = names_of(path, self.path) if self.rule else ("",)  # which only rules ask for
        caps = [with_defaults(tightest([r for r in self.rule if r.applies_to(name, path, pipeline)]), self) for name in names]
        return replace(tightest(caps), allow_statement_change=all(level.allow_statement_change for level in caps))


NO_POLICY = Policy(waivers="files")

# The keys at the top of a policy, which no pipeline file has but "format".
KEYS: Members = {"format": TOP["format"], **members_of(Policy)}


def scheme_of(entry: Entry) -> str:
    """Return the word in the file; "none" if every step sees all records."""
    return "none" if entry.sampling is None else entry.sampling.scheme


def unwaivable(waiver: Waiver) -> Iterator[Problem]:
    """Yield a waiver for a rule that does not exist, or without which the number is wrong; its reader has checked the form."""
    code = waiver.rule
    if code in WAIVABLE:
        return
    if code not in RULES:
        hint = did_you_mean(code, RULES)
        yield ("rule",), "the code of a rule", code + (f"; {hint}" if hint else "")
    elif not waivable(code):
        yield ("rule",), "a rule that can be waived", f"{code}, without which the number itself is wrong"


def read_policy(source: str) -> Policy:
    """Return the policy in a file, on standard input ("-"), or at REVISION:PATH, where no change under review can touch it.

    Raises InputError if there is no such file, InvalidFile with every problem at its place.
    """
    return read_policy_bytes(read_source(source, "a policy file"), source)


def read_policy_bytes(data: bytes, source: str) -> Policy:
    """Return the policy in the bytes of a file that messages call `source`. Raises InvalidFile as `read_policy` does."""
    text, tables = toml_document(data, source)
    from dpcli.file.pipeline.other_files import instead_of_policy

    other = instead_of_policy(tables)
    if other is not None:
        raise InvalidFile((Diagnostic("DP001", "error", f"expected a policy file, found {other}", title(source)),))
    findings = Findings(advice=_advice)
    values: dict[str, Any] = {}
    try:
        values = read_members(KEYS, tables, KeyPlace((), findings))
        for key, expected, value in _policy(values).problems() if not findings.items else ():
            findings.add("DP005", key, expected, value)
    except TooMany:
        pass
    refuse(findings, tables, text, source)
    return replace(_policy(values), path=source)


def _policy(values: dict[str, Any]) -> Policy:
    return Policy(**{key: value for key, value in values.items() if key != "format"})


def _advice(key: str, known: Iterable[str]) -> tuple[str | None, str]:
    near = closest(key, known)
    return (near, f"did you mean '{near}'") if near else (None, "")


def policy_that_applies(policy: Policy, ref: str | None) -> tuple[Policy, tuple[Condition, ...]]:
    """Return the policy that applies, and warnings about a change of it.

    A policy file of a repository is compared with itself at the base: nobody loosens what he is judged by in the change that is judged.
    One on standard input, at REVISION:PATH or outside of every repository is the caller's own choice. Raises InputError if the base's
    policy cannot be read by this version, or git knows no such base.
    """
    if ref is None or not os.path.isfile(policy.path) or work_tree(os.path.dirname(os.path.abspath(policy.path))) is None:
        return policy, tuple(_changed_elsewhere(policy.path, ref))
    past_file = files_at(ref, [policy.path])[policy.path]
    if past_file is None:
        return policy, (_change_warning(f"new in this change: {ref} has no such policy, so it applies as written"),)
    if past_file.data == read_bytes(policy.path, "a policy file"):
        return policy, ()
    name = past_file.renamed or policy.path
    earlier = replace(read_policy_bytes(past_file.data, f"{ref}:{name}"), path=policy.path)
    return earlier, (_change_warning(f"the policy changed: its version at {ref} applies (--policy REVISION:PATH chooses another)"),)


def _changed_elsewhere(path: str, ref: str | None) -> Iterator[Condition]:
    """Warn if the policy is at REVISION:PATH and the change under review has another one there."""
    revision, colon, name = path.partition(":")
    current = work_tree(os.path.realpath(os.getcwd()))
    if ref is None or current is None or not colon or os.path.lexists(path):
        return
    inside = os.path.relpath(os.path.realpath(name), current) if name.startswith("./") else name
    if inside in touched_paths(current, commit_of(current, ref)):
        yield _change_warning(f"{escaped_path(name)} changed: its version at {revision} applies")


def unmatched_rules(policy: Policy, judged: Sequence[tuple[str, Pipeline]]) -> Iterator[Condition]:
    """Warn of each rule that holds for none of these files, unless its pattern means other files of the repository."""
    for index, rule in enumerate(policy.rule):
        if any(rule.applies(path, pipeline, policy.path) for path, pipeline in judged):
            continue
        matching = [path for path, _ in judged if rule.files is None or matches(rule.files, path, policy.path)]
        selectors = (("files", rule.files), ("unit", rule.unit), ("adjacency", rule.adjacency and rule.adjacency.value))
        stated = ", ".join(f'{key} = "{escaped_path(value)}"' for key, value in selectors if value is not None)
        if matching or rule.files is None:
            yield _warning(f"rule[{index + 1}] ({stated}) holds for none of the files judged here")
        elif not _matches_elsewhere(rule.files, policy.path):
            yield _warning(f"rule[{index + 1}] ({stated}) matches no file: nothing is held to it")


def empty_sums(caps: Sequence[SharedCaps], together: Sequence[JudgedSum]) -> Iterator[Condition]:
    """Warn of each table of caps on files together that no file of the repository is in."""
    for index, (shared, judged) in enumerate(zip(caps, together, strict=False)):
        if judged.account is None and judged.verdict == "pass":
            yield _warning(f"together[{index + 1}] ({shared.words}): no file of the repository names it: nothing is held to it")


def _matches_elsewhere(pattern: str, policy: str) -> bool:
    """Return whether the pattern matches a file of the repository that was not given."""
    top = work_tree(os.path.dirname(os.path.abspath(policy)) if os.path.isfile(policy) else os.getcwd())
    if top is None:
        return False
    try:
        names = present_files(top)
    except InputError:
        return False
    return any(matches(pattern, os.path.join(top, name), policy) for name in names)


def _warning(text: str) -> Condition:
    return Condition("policy", "warn", text, ())


def _change_warning(text: str) -> Condition:
    return Condition(POLICY_CHANGE, "warn", text, ())


def matches(pattern: str, path: str, policy: str = "") -> bool:
    """Return whether a pattern such as "ads/*.toml" of the policy file `policy` matches the file at `path`.

    The pattern counts from the root of the repository that holds both the policy and the file, so that a repository inside it (a
    submodule, a clone left behind) gets no patterns of its own; else of the one around the working directory, else of the file's own;
    from the working directory if there is none. "*" and "?" stay within one folder, "**" spans folders. Standard input matches no
    pattern but "**".
    """
    return any(name_matches(pattern, path, name) for name in names_of(path, policy))


def names_of(path: str, policy: str = "") -> tuple[str, ...]:
    """Return a path from that root: without the links among its folders, as spelled, and without any link.

    More than one only if links are in it: what holds for a file then is what holds for each of its names.
    """
    if path == "-":
        return (path,)
    spelled = os.path.abspath(path)
    real = os.path.join(os.path.realpath(os.path.dirname(spelled)), os.path.basename(spelled))
    root = next((top for top in roots(real, policy) if holds(top, real)), os.path.realpath(os.getcwd()))
    places = (real, _under(root, spelled), os.path.realpath(spelled))
    return tuple(dict.fromkeys(os.path.relpath(place, root) for place in places if place is not None))


def _under(root: str, spelled: str) -> str | None:
    """Return the spelled path if it comes through the root, however the folders above the root are spelled."""
    above = spelled
    while above != (above := os.path.dirname(above)):
        if os.path.realpath(above) == root:
            return os.path.join(root, os.path.relpath(spelled, above))
    return None


def name_matches(pattern: str, path: str, name: str) -> bool:
    """Return whether a pattern matches the file at `path` by one of its names."""
    if path == "-":
        return pattern == "**"
    if os.path.isabs(pattern):
        return _matches_all(os.path.normpath(pattern), os.path.abspath(path))
    return _matches_all(os.path.normpath(pattern), name)


def _matches_all(pattern: str, path: str) -> bool:
    """Match the whole path, by all places that each part may end at, so that nothing is tried twice."""
    places = {0}
    for part in re.findall(r"\*\*/|\*\*|\*|\?|.", pattern, re.DOTALL):
        places = _after(part, path, places)
    return len(path) in places


def _after(part: str, path: str, places: set[int]) -> set[int]:
    """Return where a part of a pattern may end that begins at one of the places."""
    if not places:
        return places
    if part == "**":
        return set(range(min(places), len(path) + 1))
    if part == "**/":
        start = min((at for at in places if path[at : at + 1] != "/"), default=len(path))
        return places | {at + 1 for at in range(start, len(path)) if path[at] == "/"}
    if part == "*":
        return _along(path, places)
    return {at + 1 for at in places if at < len(path) and (path[at] == part or (part == "?" and path[at] != "/"))}


def _along(path: str, places: set[int]) -> set[int]:
    """Return the places, and all that follow one of them within its folder."""
    reached, inside = set(places), False
    for at in range(min(places), len(path)):
        inside = (inside or at in places) and path[at] != "/"
        if inside:
            reached.add(at + 1)
    return reached
