"""What a repository says of one dataset, added up, against the policy's caps on several files together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from dpcli.analysis.account import Account
from dpcli.analysis.together import smallest_delta, together
from dpcli.base.errors import CannotCertify, DpcliError, InputError, NotRepresentable
from dpcli.base.values import dataclass
from dpcli.file.pipeline.gate_keys import Horizon
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import parse
from dpcli.file.toml.findings import InvalidFile
from dpcli.file.toml.looks import looks
from dpcli.file.toml.shown import quoted
from dpcli.gate.caps import cap_conditions, capped, holding
from dpcli.gate.findings import first_of
from dpcli.gate.horizon import runs_of
from dpcli.gate.judgement import Judged, JudgedTogether
from dpcli.gate.merged_caps import Outside
from dpcli.gate.shared_caps import SharedCaps
from dpcli.gate.unjudged import OtherFile, absent, dataset_of, unjudged
from dpcli.gate.verdicts import Condition, Verdict
from dpcli.lint.delta import judged_deltas

NAME = "together"
NAMED = 5  # files of a sum that are named in a sentence


@dataclass(frozen=True, slots=True)
class Counted:
    """A pipeline that is in sums, and whether the gate judges it by itself too."""

    path: str
    pipeline: Pipeline
    judged: bool


def totals(
    caps: Sequence[SharedCaps],
    files: Sequence[Judged],
    horizon: Horizon | None,
    outside: Callable[[str, Pipeline], Outside],
    ref: str | None = None,
) -> tuple[JudgedTogether, ...]:
    """A sum for each table of caps: of the files judged, and of all other pipelines of their repositories that name the datasets.

    Each file counts once, or as often as its horizon plans. What cannot be read or added up is never a pass.

    horizon: of flags or policy. outside: the caps of flags and policy for a file. ref: the revision to compare with.
    """
    if not caps or not files:
        return ()
    unread = [file.path for file in files if file.own is None]
    if unread:
        return tuple(
            _without(one, Condition(NAME, "unknown", f"{one.words}: no sum, as {listed(unread)} cannot be judged", ()), unread[0])
            for one in caps
        )
    judged = list(_judged(files))
    paths = [file.path for file in files]
    try:
        others, hidden = list(unjudged(paths)), sorted(absent(paths))
    except InputError as error:
        return tuple(_refused(one, error, files[0].path) for one in caps)
    if hidden:
        text = f"no sum, as {listed(hidden)} is not checked out (git submodule update --init; submodules: recursive in CI)"
        return tuple(_without(one, Condition(NAME, "unknown", f"{one.words}: {text}", ()), files[0].path) for one in caps)
    return tuple(_compared(one, _total(one, judged, others, horizon, outside, files[0].path), horizon, ref) for one in caps)


def _compared(caps: SharedCaps, found: JudgedTogether, horizon: Horizon | None, ref: str | None) -> JudgedTogether:
    if ref is None or found.account is None:
        return found
    from dpcli.gate.sums_before import before

    base = before(caps, ref, found.members, horizon, found.account)
    return found if base is None else replace(found, base=base, now=found.account.upper)


def _judged(files: Sequence[Judged]) -> Iterator[Counted]:
    """A file that was given twice, or is a link to another, is one file."""
    places: set[str] = set()
    for file in files:
        place = os.path.realpath(file.path)
        if place not in places and file.own is not None:
            places.add(place)
            yield Counted(file.path, file.own, True)


def _members(caps: SharedCaps, judged: Iterable[Counted], others: Iterable[OtherFile]) -> Iterator[Counted]:
    """The files that name one of the datasets. Raises InputError for one that cannot be read, or has a name that looks like one."""
    alike = {looks(name) for name in caps.datasets}
    found = [member for member in judged if looks(member.pipeline.privacy.dataset or "") in alike]
    found += [Counted(one.path, parse(one.data, one.path), False) for one in others if looks(dataset_of(one.tables)) in alike]
    for member in found:
        name = member.pipeline.privacy.dataset
        if name not in caps.datasets:
            wanted = " or ".join(map(quoted, caps.datasets))
            expected = f"expected {wanted}, or a name that does not look like it"
            raise InputError(f"{member.path}: privacy.dataset: {expected}, found {name!a}")
        yield member


def _total(
    caps: SharedCaps,
    judged: Iterable[Counted],
    others: Iterable[OtherFile],
    horizon: Horizon | None,
    outside: Callable[[str, Pipeline], Outside],
    at: str,
) -> JudgedTogether:
    try:
        members = tuple(_members(caps, judged, others))
        parts = [
            (_as_one(_held(member, outside(member.path, member.pipeline)), caps), runs_of(member.pipeline, horizon))
            for member in members
        ]
        smallest = smallest_delta(holding(member.pipeline, outside(member.path, member.pipeline)).delta for member in members)
        budget = replace(caps.budget, delta=smallest if caps.delta is None else caps.delta)
        result = together(parts, budget=budget, rows=False) if parts else None
    except (InputError, CannotCertify, NotRepresentable) as error:
        return _refused(caps, error, at)
    if result is None:
        return _without(caps, Condition(NAME, "pass", f"no file of the repository names {caps.words}", ()), at)
    counted = f"{caps.words}: {_counted(members, [runs for _, runs in parts])}"
    conditions = tuple(cap_conditions(result))
    said = tuple(replace(one, name=NAME, message=f"{counted}: {one.message}", target=None, key=()) for one in conditions)
    said += tuple(_large_delta(caps, result, members))
    return JudgedTogether(
        caps.words, result, said, at=members[0].path, datasets=caps.datasets, members=tuple(m.path for m in members)
    )


def _large_delta(caps: SharedCaps, result: Account, members: Sequence[Counted]) -> Iterator[Condition]:
    """What DP105 says of the delta of a sum, by the largest of its datasets."""
    sizes = [size for member in members if (size := member.pipeline.privacy.dataset_size) is not None]
    for found in judged_deltas({f"{caps.words}: delta": result.delta}, max(sizes, default=None), caps.words):
        yield Condition(found.rule, "fail" if found.severity == "error" else "warn", f"{found.key}: {found.message}", ())


def _held(member: Counted, outside: Outside) -> Pipeline:
    """An adaptive file costs the cap that holds it, whoever states it; any other what it lists."""
    return capped(member.pipeline, outside) if member.pipeline.privacy.adaptive else member.pipeline


def _as_one(pipeline: Pipeline, caps: SharedCaps) -> Pipeline:
    """Several datasets with the same people in them are one to who is in all."""
    return replace(pipeline, privacy=replace(pipeline.privacy, dataset=", ".join(caps.datasets)))


def _counted(members: Sequence[Counted], runs: Sequence[int]) -> str:
    """`3 files (a.toml, b.toml 53 times, c.toml, not judged here)`."""
    said = [
        member.path + (f" {count:,} times" if count > 1 else "") + ("" if member.judged else ", not judged here")
        for member, count in zip(members, runs, strict=True)
    ]
    return f"{len(members)} file{'s' if len(members) > 1 else ''} ({listed(said)})"


def listed(words: Sequence[str]) -> str:
    """Some of them, and how many more."""
    more = f" and {len(words) - NAMED} more" if len(words) > NAMED else ""
    return "; ".join(words[:NAMED]) + more


def _refused(caps: SharedCaps, error: DpcliError, at: str) -> JudgedTogether:
    """No sum, with the reason; shown at the file that cannot be read, where one cannot."""
    verdict: Verdict = "unknown" if isinstance(error, CannotCertify | NotRepresentable) else "invalid"
    if isinstance(error, InvalidFile):
        found = error.diagnostics[0]
        text, at, place = f"{found.path}: {first_of(error.diagnostics)}", found.path, (found.line, found.column)
    else:
        text, place = str(error).removeprefix("--base-ref: "), (1, 1)
    return _without(caps, Condition(NAME, verdict, f"{caps.words}: {text}", (), place), at)


def _without(caps: SharedCaps, said: Condition, at: str) -> JudgedTogether:
    """Datasets of which there is no number."""
    return JudgedTogether(caps.words, None, (said,), at=at, datasets=caps.datasets)
