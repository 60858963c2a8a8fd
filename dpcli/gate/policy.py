"""The policy file: what a privacy team holds every pipeline to, from outside the pipelines.

    format = 1
    epsilon = 3.0                          # a file's own budget holds where it is smaller
    max_increase = 0.25
    max_increase_percent = 10.0            # of the base's epsilon; both hold
    warn_increase_percent = 5.0            # above which a rise is told, and passes
    require_unit = ["user"]
    forbid_sampling = ["shuffle", "cyclic"]
    waivers = "files"                      # waivers that a pipeline file writes for itself count too
    waiver_author = "another"              # but only where, by git blame, somebody else wrote them than approves them
    horizon = { every = "week", years = 1, epsilon = 12.0 }

    [[rule]]                               # in place of the caps above, where it matches; of several the smallest cap holds
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

from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from typing import Annotated, Literal

from dpcli.base.fields import Key
from dpcli.base.registry import SAMPLING
from dpcli.base.values import dataclass
from dpcli.file.pipeline.gate_keys import Caps, Horizon, Waiver, under
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.toml.findings import Problem
from dpcli.file.toml.shown import quoted
from dpcli.gate.merged_caps import over, tightest
from dpcli.gate.places import meant, names_of
from dpcli.gate.rises import level_problems
from dpcli.gate.shared_caps import SharedCaps, name_problems
from dpcli.gate.waivable import problem_of
from dpcli.mechanisms.neighbours import Adjacency


@dataclass(frozen=True, slots=True)
class PolicyRule(Caps):
    """Caps for the files that it matches, in place of the policy's general ones; where several match, the smallest of each cap."""

    files: Annotated[str | None, Key("pattern of paths from the root of the repository; ** spans folders")] = None
    unit: Annotated[str | None, Key("only pipelines with this unit")] = None
    adjacency: Annotated[Adjacency | None, Key("only pipelines with this adjacency")] = None

    def problems(self) -> Iterator[Problem]:
        """A rule must match something and cap something."""
        if all(selector is None for selector in (self.files, self.unit, self.adjacency)):
            yield (), "files, unit or adjacency", "a rule for everything; state its caps at the top of the file"
        if all(getattr(self, field.name) is None for field in fields(Caps)):
            yield (), "a cap in every rule", "none"
        yield from level_problems(self)

    def applies(self, path: str, pipeline: Pipeline, policy: str) -> bool:
        """Whether all of its selectors match, by any name of the file. policy: the path of the policy file."""
        return any(self.applies_to(name, path, pipeline) for name in names_of(path, policy))

    def applies_to(self, name: str, path: str, pipeline: Pipeline) -> bool:
        """Whether all of its selectors match by one of the file's names."""
        privacy = pipeline.privacy
        return (
            (self.files is None or meant(self.files, path, name))
            and self.unit in (None, privacy.unit)
            and self.adjacency in (None, privacy.adjacency)
        )


@dataclass(frozen=True, slots=True)
class PolicyWaiver(Waiver):
    """A waiver that the policy grants; as in a pipeline file, and for the files of a pattern."""

    file: Annotated[str | None, Key("pattern of the files that it holds for; all where absent")] = None

    def covers(self, path: str, policy: str) -> bool:
        """Whether it holds for this file, by each name that links give it. policy: the path of the policy file."""
        return self.file is None or all(meant(self.file, path, name) for name in names_of(path, policy))


@dataclass(frozen=True, slots=True)
class Policy(Caps):
    """What every pipeline is held to."""

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
        """Whether a waiver that a pipeline file writes for itself counts: whoever raises a number could write it in the same change."""
        return self.waivers == "files" or (self.waivers is None and self.waiver_author == "another")

    def problems(self) -> Iterator[Problem]:
        """What its keys do not agree on, and words that nothing goes by."""
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
            yield from under(("waiver", index), tuple(waiver.problems()) or _unwaivable(waiver))

    def caps(self, path: str, pipeline: Pipeline) -> Caps:
        """The caps for one file: those of the rules that match, else the general ones; of a file with several names, the smallest."""
        names = names_of(path, self.path) if self.rule else ("",)  # which only rules ask for
        found = [over(tightest([r for r in self.rule if r.applies_to(name, path, pipeline)]), self) for name in names]
        return replace(tightest(found), allow_statement_change=all(caps.allow_statement_change for caps in found))


NO_POLICY = Policy(waivers="files")


def _unwaivable(waiver: Waiver) -> Iterable[Problem]:
    problem = problem_of(waiver.rule)
    return () if problem is None else ((("rule",), *problem),)


def scheme_of(entry: Entry) -> str:
    """The word in the file; "none" where every step sees all records."""
    return "none" if entry.sampling is None else entry.sampling.scheme
