"""The policy file, in which a privacy team states terms for all pipelines of a repository. For example:

    format = 1
    epsilon = 3.0                          # if the budget of a file is smaller, that budget applies
    max_increase = 0.25
    max_increase_percent = 10.0            # of the base's epsilon; both limits apply
    warn_increase_percent = 5.0            # a larger rise gives a warning
    require_unit = ["user"]
    forbid_sampling = ["shuffle", "cyclic"]
    waivers = "files"                      # waivers in pipeline files are accepted too
    waiver_author = "another"              # but only if, by git blame, their approver did not write them
    horizon = { every = "week", years = 1, epsilon = 12.0 }

    [[rule]]                               # if it matches, it replaces the caps above; of several rules the smallest cap applies
    files = "ads/*.toml"                   # from the root of the repository; ** spans folders
    epsilon = 1.0

    [[together]]                           # a cap on the sum over all files of these datasets
    datasets = ["clicks"]
    epsilon = 6.0

    [[waiver]]
    rule = "budget"
    file = "ads/ranking.toml"
    epsilon = 1.5                          # the waiver is valid up to this epsilon
    reason = "launch experiment"
    approver = "privacy-board"
    expires = 2030-12-31

Of the caps that flags, the policy and the file state, the tightest cap applies. Caps at different deltas all apply, each at its delta.
"""

# The docstring above is the text of the manual page dpcli-policy(5) (explain/commands/man.py), and so are the words of each `Key` below.
#
# gate_terms.py reads the policy (`read_policy`), and judge.py asks for the version that applies (`policy_that_applies`): with a git
# revision to compare with, the *base*, the policy is read there, because the author of the change may have edited it. A *waiver* pardons
# the failures of one condition or rule until a day. A *sum* is the joint cost of all files that name one dataset.

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import Annotated, Literal

from dpcli.base.errors import InputError
from dpcli.base.fields import Key
from dpcli.base.registry import SAMPLING
from dpcli.base.values import dataclass
from dpcli.file.keys.annotations import members_of
from dpcli.file.keys.kinds import KeyPlace
from dpcli.file.keys.tables import Members, nearest, read_members
from dpcli.file.pipeline.canonical import TOP
from dpcli.file.pipeline.gate_keys import WAIVABLE, Caps, Horizon, Waiver, under
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.read import refuse, toml_document
from dpcli.file.toml.findings import Diagnostic, Findings, InvalidFile, Problem, TooMany
from dpcli.file.toml.limits import escaped_path, read_bytes, title
from dpcli.file.toml.shown import quoted
from dpcli.file.toml.suggest import did_you_mean
from dpcli.gate.caps import SharedCaps, level_problems, name_problems, tightest, with_defaults
from dpcli.gate.path_patterns import matches, name_matches, names_of
from dpcli.gate.verdicts import Condition, JudgedSum
from dpcli.git.command import commit_of, present_files
from dpcli.git.past_files import files_at, touched_paths
from dpcli.git.source import read_source
from dpcli.git.work_trees import work_tree
from dpcli.lint.catalogue import RULES, waivable
from dpcli.mechanisms.neighbours import Adjacency

POLICY_CHANGE = "policy-change"


@dataclass(frozen=True, slots=True)
class PolicyRule(Caps):
    """Caps for the files that the rule matches. They replace the general caps of the policy.

    If several rules match a file, the smallest value of each cap applies.
    """

    files: Annotated[str | None, Key("pattern of paths from the root of the repository; ** spans folders")] = None
    unit: Annotated[str | None, Key("only pipelines with this unit")] = None
    adjacency: Annotated[Adjacency | None, Key("only pipelines with this adjacency")] = None

    def problems(self) -> Iterator[Problem]:
        """Yield a problem (key, expected, found) for a rule without selectors, which would match every file, or without caps."""
        if all(selector is None for selector in (self.files, self.unit, self.adjacency)):
            yield (), "files, unit or adjacency", "a rule for all files; state its caps at the top of the file"
        if all(getattr(self, field.name) is None for field in fields(Caps)):
            yield (), "a cap in every rule", "none"
        yield from level_problems(self)

    def applies(self, path: str, pipeline: Pipeline, policy: str) -> bool:
        """Return whether all selectors of the rule match the file under one of its names. `policy` is the path of the policy file.

        A file that is reached through links has several names. One match is enough, so that a link cannot take a file out of a rule.
        """
        return any(self.applies_to(name, path, pipeline) for name in names_of(path, policy))

    def applies_to(self, name: str, path: str, pipeline: Pipeline) -> bool:
        """Return whether all selectors of the rule match the file under this name."""
        privacy = pipeline.privacy
        return (
            (self.files is None or name_matches(self.files, path, name))
            and self.unit in (None, privacy.unit)
            and self.adjacency in (None, privacy.adjacency)
        )


@dataclass(frozen=True, slots=True)
class PolicyWaiver(Waiver):
    """A waiver that the policy grants to the files that match a pattern."""

    file: Annotated[str | None, Key("pattern of the files for which the waiver is valid; all files if absent")] = None

    def covers(self, path: str, policy: str) -> bool:
        """Return whether the waiver is valid for the file at `path`: its pattern must match every name of the file.

        Otherwise a link with a matching name would bring a file under the waiver.

        Args:
            policy: The path of the policy file.
        """
        return self.file is None or all(name_matches(self.file, path, name) for name in names_of(path, policy))


@dataclass(frozen=True, slots=True)
class Policy(Caps):
    """The terms for all pipelines, as the policy file states them. `path` is where it was read; "" without a policy."""

    horizon: Annotated[Horizon | None, Key("planned repetition of a pipeline; a horizon in the file applies too")] = None
    require_unit: Annotated[tuple[str, ...], Key("units that a pipeline may protect; any unit if empty")] = ()
    require_adjacency: Annotated[tuple[Adjacency, ...], Key("adjacencies that a pipeline may use; any adjacency if empty")] = ()
    require_dataset: Annotated[
        tuple[str, ...], Key("datasets of which a pipeline must name one; if empty, no name is required")
    ] = ()
    forbid_sampling: Annotated[tuple[str, ...], Key("sampling schemes that no mechanism may use")] = ()
    waivers: Annotated[
        Literal["files", "policy"] | None,
        Key(
            "files: waivers in pipeline files are accepted too; policy: only waivers in the policy (the default without waiver_author)"
        ),
    ] = None
    waiver_author: Annotated[
        Literal["any", "another"], Key("another: a waiver in a file is valid only if, by git blame, its approver did not write it")
    ] = "any"
    rule: Annotated[tuple[PolicyRule, ...], Key("caps for some pipelines, one [[rule]] table for each rule")] = ()
    together: Annotated[
        tuple[SharedCaps, ...],
        Key("caps on all files of some datasets together, one [[together]] table for each cap; all of them apply"),
    ] = ()
    waiver: Annotated[tuple[PolicyWaiver, ...], Key("exceptions, one [[waiver]] table for each exception")] = ()
    path: str = ""

    @property
    def accepts_file_waivers(self) -> bool:
        """True if waivers in pipeline files are accepted, although the author of a change could grant the change such a waiver."""
        return self.waivers == "files" or (self.waivers is None and self.waiver_author == "another")

    def problems(self) -> Iterator[Problem]:
        """Yield a problem for keys that contradict each other, and for unknown names and rules."""
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
        """Return the caps for one file.

        They come from the matching rules. A cap that no matching rule states is the general cap of the policy. If several rules match, or
        if the file has several names, the smallest value of each cap applies.
        """
        names = names_of(path, self.path) if self.rule else ("",)  # only rules depend on the names
        caps_by_name = []
        for name in names:
            rules = [rule for rule in self.rule if rule.applies_to(name, path, pipeline)]
            caps_by_name.append(with_defaults(tightest(rules), self))
        # A change of the statement, the keys that say what epsilon means, is allowed only if it is allowed under every name. Here None
        # allows nothing, like False, while `tightest` passes over None and would return the True of another name.
        allowed = all(caps.allow_statement_change for caps in caps_by_name)
        return replace(tightest(caps_by_name), allow_statement_change=allowed)


NO_POLICY = Policy(waivers="files")  # used if the gate has no policy

# The keys at the top of a policy file, by which other_files.py recognises a policy. A pipeline file has none of them except "format".
KEYS: Members = {"format": TOP["format"], **members_of(Policy)}


def scheme_of(entry: Entry) -> str:
    """Return the name of a mechanism's sampling scheme; "none" if every step uses all records."""
    return "none" if entry.sampling is None else entry.sampling.scheme


def unwaivable(waiver: Waiver) -> Iterator[Problem]:
    """Yield a problem for a waiver of a rule that does not exist, or whose findings mean that epsilon itself is wrong."""
    code = waiver.rule
    if code in WAIVABLE:
        return
    if code not in RULES:
        hint = did_you_mean(code, RULES)
        yield ("rule",), "the code of a rule", code + (f"; {hint}" if hint else "")
    elif not waivable(code):
        yield ("rule",), "a rule that can be waived", f"{code}, whose findings mean that epsilon itself is wrong"


def read_policy(source: str) -> Policy:
    """Return a policy.

    Args:
        source: The path of a file, "-" for standard input, or REVISION:PATH for a file at a git revision, which the change under review
            cannot touch.

    Raises:
        InputError: The file does not exist.
        InvalidFile: The file is not a valid policy. The error contains every problem with its place.
    """
    return read_policy_bytes(read_source(source, "a policy file"), source)


def read_policy_bytes(data: bytes, source: str) -> Policy:
    """Return the policy in the content of a file. Messages name the file `source`. Raises InvalidFile if it is not a valid policy."""
    text, tables = toml_document(data, source)
    from dpcli.file.pipeline.other_files import instead_of_policy  # not needed without a policy

    other_kind = instead_of_policy(tables)
    if other_kind is not None:
        raise InvalidFile((Diagnostic("DP001", "error", f"expected a policy file, found {other_kind}", title(source)),))
    findings = Findings(advice=nearest)
    policy = Policy()
    with suppress(TooMany):  # `refuse` reports the findings that were collected until then
        values = read_members(KEYS, tables, KeyPlace((), findings))
        if not findings.items:
            policy = Policy(**{key: value for key, value in values.items() if key != "format"})
            for key, expected, value in policy.problems():
                findings.add("DP005", key, expected, value)  # keys that contradict one another
    refuse(findings, tables, text, source)
    return replace(policy, path=source)


def policy_that_applies(policy: Policy, ref: str | None) -> tuple[Policy, tuple[Condition, ...]]:
    """Return the policy that applies, and warnings if the policy has changed.

    If the policy file is in a repository, its version at the base `ref` applies, so that a change cannot loosen the policy by which it is
    judged. A policy on standard input, at REVISION:PATH or outside of every repository applies as the caller gave it. Raises InputError if
    git does not know the revision, or this version cannot read the policy at the base.
    """
    if ref is None or not os.path.isfile(policy.path) or work_tree(os.path.dirname(os.path.abspath(policy.path))) is None:
        return policy, tuple(_changed_elsewhere(policy.path, ref))
    past_file = files_at(ref, [policy.path])[policy.path]
    if past_file is None:
        return policy, (_change_warning(f"the policy is new in this change, as {ref} does not have it: it applies as written"),)
    if past_file.data == read_bytes(policy.path, "a policy file"):
        return policy, ()
    name = past_file.earlier_path or policy.path
    earlier = replace(read_policy_bytes(past_file.data, f"{ref}:{name}"), path=policy.path)
    return earlier, (_change_warning(f"the policy changed: its version at {ref} applies (--policy REVISION:PATH chooses another)"),)


def _changed_elsewhere(path: str, ref: str | None) -> Iterator[Condition]:
    """Yield a warning if the policy is at REVISION:PATH and the change under review changes the file at that path."""
    revision, colon, name = path.partition(":")
    current = work_tree(os.path.realpath(os.getcwd()))
    if ref is None or current is None or not colon or os.path.lexists(path):
        return
    # Git reads the path of REVISION:PATH from the root of the repository or, if it begins with "./", from the working directory.
    inside = os.path.relpath(os.path.realpath(name), current) if name.startswith("./") else name
    if inside in touched_paths(current, commit_of(current, ref)):
        yield _change_warning(f"{escaped_path(name)} changed: its version at {revision} applies")


def unmatched_rules(policy: Policy, judged: Sequence[tuple[str, Pipeline]]) -> Iterator[Condition]:
    """Yield a warning for each rule that applies to none of the judged files.

    There is none for a rule whose pattern matches other files of the repository, but no judged file.
    """
    for index, rule in enumerate(policy.rule):
        if any(rule.applies(path, pipeline, policy.path) for path, pipeline in judged):
            continue
        selectors = {"files": rule.files, "unit": rule.unit, "adjacency": rule.adjacency and rule.adjacency.value}
        stated = ", ".join(f'{key} = "{escaped_path(value)}"' for key, value in selectors.items() if value is not None)
        if rule.files is None or any(matches(rule.files, path, policy.path) for path, _ in judged):
            yield _warning(f"rule[{index + 1}] ({stated}) applies to none of the judged files")
        elif not _matches_elsewhere(rule.files, policy.path):
            yield _warning(f"rule[{index + 1}] ({stated}) matches no file, and has no effect")


def empty_sums(caps: Sequence[SharedCaps], together: Sequence[JudgedSum]) -> Iterator[Condition]:
    """Yield a warning for each [[together]] table whose datasets no file of the repository names.

    Args:
        caps: The [[together]] tables.
        together: The sums that the gate judged, which begin with one sum for each table.
    """
    for index, (shared, judged) in enumerate(zip(caps, together, strict=False)):
        if judged.account is None and judged.verdict == "pass":  # a sum with a cap and with files has an account, or does not pass
            yield _warning(f"together[{index + 1}] ({shared.words}): no file of the repository names it, and the cap has no effect")


def _matches_elsewhere(pattern: str, policy: str) -> bool:
    """Return whether the pattern matches any file of the repository, including files that the gate was not asked to judge.

    The result is False outside of a repository, and if git cannot list its files.
    """
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
