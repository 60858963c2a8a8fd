"""The sums of the privacy loss over all pipelines of a dataset, which bound the loss of a person whose records all of them read.

judge.py calls these functions when it has judged the files, and gets a verdict on each sum (`JudgedSum`). The *members* of a sum with a cap
are all .toml pipelines of the repositories that name one of its datasets, whether or not the gate was asked to judge them: a file that is
left out would make the sum too small. Such a sum never passes if it cannot be computed. Without a cap, the sum of the judged files can only
give a warning (`uncapped_sums`). If the gate compares with a git revision, the *base*, a sum with a cap is compared with the sum at the
revision.

A member counts as often as its *horizon*, a planned number of runs, says. An *adaptive* pipeline counts with its cap, which is the largest
cost that it may have. Two names of datasets with one *skeleton* look alike, which could hide a member, so they are an error.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from dpcli.analysis.account import Account
from dpcli.analysis.dataset_sum import FIXED, account_of_dataset, smallest_delta
from dpcli.base.errors import CannotCertify, DpcliError, InputError, NotRepresentable
from dpcli.base.rounding import up
from dpcli.base.values import dataclass
from dpcli.file.pipeline.canonical import is_pipeline
from dpcli.file.pipeline.datasets import by_dataset
from dpcli.file.pipeline.gate_keys import Horizon
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import parse, toml_document, toml_name
from dpcli.file.toml.confusables import skeleton
from dpcli.file.toml.findings import InvalidFile
from dpcli.file.toml.shown import first_names, quoted
from dpcli.gate.caps import ExternalCaps, SharedCaps, caps_in_force, with_caps_in_force
from dpcli.gate.repository import OtherFile, dataset_of, missing_from_checkout, other_pipelines, tops_of
from dpcli.gate.requirements import cap_conditions, runs_of
from dpcli.gate.verdicts import Base, Condition, Judged, JudgedSum, Verdict, first_finding
from dpcli.git.command import commit_of, tree_entries
from dpcli.git.past_files import contents_in, is_based_on
from dpcli.lint.delta import judged_deltas

NAME = "together"  # the name of the condition, a key of CONDITIONS in verdicts.py
REMEDY = "cap the sum by --max-together, or by [[together]] in a policy"


@dataclass(frozen=True, slots=True)
class SumMember:
    """A pipeline in a sum, with the path of its file, and whether the gate also judges the file by itself."""

    path: str
    pipeline: Pipeline
    is_judged: bool


def caps_of(cap: float | None, files: Sequence[Judged]) -> tuple[SharedCaps, ...]:
    """Return the cap of --max-together for each dataset that the files name. Raises InputError if no file names a dataset."""
    if cap is None or all(file.written is None for file in files):  # unreadable files have their own verdicts
        return ()
    names = dict.fromkeys(file.written.privacy.dataset for file in files if file.written is not None)
    caps = tuple(SharedCaps((name,), cap) for name in names if name is not None)
    if not caps:
        raise InputError("--max-together: no file names a dataset (privacy.dataset)")
    return caps


def capped_sums(
    caps: Sequence[SharedCaps],
    files: Sequence[Judged],
    horizon: Horizon | None,
    external_caps: Callable[[str, Pipeline], ExternalCaps],
    ref: str | None = None,
) -> tuple[JudgedSum, ...]:
    """Return the verdict on a sum for each table of caps.

    Args:
        horizon: The horizon of flags or policy.
        external_caps: A function that returns the caps of flags and policy for the file at a path.
        ref: The git revision to compare with; None if there is none.
    """
    if not caps or not files:
        return ()
    unreadable = [file.path for file in files if file.written is None]
    if unreadable:
        return tuple(_unknown(shared, f"no sum, as {first_names(unreadable)} cannot be judged", unreadable[0]) for shared in caps)
    judged = list(_judged_members(files))
    paths = [file.path for file in files]
    try:
        others, hidden = list(other_pipelines(paths)), sorted(missing_from_checkout(paths))
    except InputError as error:
        return tuple(_sum_with_error(shared, error, files[0].path) for shared in caps)
    if hidden:
        text = f"no sum, as {first_names(hidden)} is not checked out (git submodule update --init; submodules: recursive in CI)"
        return tuple(_unknown(shared, text, files[0].path) for shared in caps)
    sums = ((shared, _capped_sum(shared, judged, others, horizon, external_caps, files[0].path)) for shared in caps)
    return tuple(total if ref is None else _with_base(shared, total, horizon, ref) for shared, total in sums)


def _judged_members(files: Sequence[Judged]) -> Iterator[SumMember]:
    """Yield each judged file once, even if it was given twice or through a link."""
    real_paths: set[str] = set()
    for file in files:
        real_path = os.path.realpath(file.path)
        if real_path not in real_paths and file.written is not None:
            real_paths.add(real_path)
            yield SumMember(file.path, file.written, is_judged=True)


def _members(caps: SharedCaps, judged: Iterable[SumMember], others: Iterable[OtherFile]) -> Iterator[SumMember]:
    """Yield the files that name one of the datasets. Raises InputError for an unreadable file or a name that only looks the same."""
    skeletons = {skeleton(name) for name in caps.datasets}
    members = [member for member in judged if skeleton(member.pipeline.privacy.dataset or "") in skeletons]
    members += [
        SumMember(file.path, parse(file.data, file.path), is_judged=False)
        for file in others
        if skeleton(dataset_of(file.tables)) in skeletons
        or (not file.tables and any(name.encode() in file.data for name in caps.datasets))  # invalid TOML, which `parse` refuses
    ]
    for member in members:
        name = member.pipeline.privacy.dataset
        if name not in caps.datasets:
            wanted = " or ".join(map(quoted, caps.datasets))
            expected = f"expected {wanted}, or a name that does not look like it"
            raise InputError(f"{member.path}: privacy.dataset: {expected}, found {name!a}")
        yield member


def _capped_sum(
    caps: SharedCaps,
    judged: Iterable[SumMember],
    others: Iterable[OtherFile],
    horizon: Horizon | None,
    external_caps: Callable[[str, Pipeline], ExternalCaps],
    first_path: str,
) -> JudgedSum:
    """Return the verdict on one sum. If the sum has no members, it is reported at the first judged file."""
    try:
        members = tuple(_members(caps, judged, others))
        if not members:
            nothing = Condition(NAME, "pass", f"no file of the repository names {caps.words}", ())
            return _sum_without_account(caps, nothing, first_path)
        runs = [runs_of(member.pipeline, horizon) for member in members]
        result = _account_of_members(caps, members, runs, external_caps)
    except (InputError, CannotCertify, NotRepresentable) as error:
        return _sum_with_error(caps, error, first_path)
    subject = f"{caps.words}: {_members_in_words(members, runs)}"
    conditions = [
        replace(condition, name=NAME, message=f"{subject}: {condition.message}", target=None, key=())
        for condition in cap_conditions(result)  # without a target, because remedies are computed for files only
    ]
    conditions += _large_delta(caps, result, members)
    paths = tuple(member.path for member in members)
    return JudgedSum(caps.words, result, tuple(conditions), reported_at=paths[0], datasets=caps.datasets, members=paths)


def _account_of_members(
    caps: SharedCaps, members: Sequence[SumMember], runs: Sequence[int], external_caps: Callable[[str, Pipeline], ExternalCaps]
) -> Account:
    """Return the account of all runs of the members, at the delta of the cap or the smallest delta of the members.

    Raises InputError, CannotCertify or NotRepresentable if the sum cannot be computed.
    """
    parts: list[tuple[Pipeline, int]] = []
    deltas: list[float | None] = []
    for member, count in zip(members, runs, strict=True):
        pipeline, external = member.pipeline, external_caps(member.path, member.pipeline)
        deltas.append(caps_in_force(pipeline, external).delta)
        if pipeline.privacy.adaptive:  # an adaptive file costs its cap in force
            pipeline = with_caps_in_force(pipeline, external)
        # The sum bounds the loss of a person who is in all datasets. `account_of_dataset` adds files of one dataset, so all get one name.
        parts.append((_under_name(pipeline, caps.datasets), count))
    budget = replace(caps.budget, delta=smallest_delta(deltas) if caps.delta is None else caps.delta)
    return account_of_dataset(parts, budget=budget, with_rows=False)  # the rows of all accountants are shown nowhere


def _under_name(pipeline: Pipeline, datasets: Sequence[str]) -> Pipeline:
    """Return the pipeline with all datasets of a sum as the name of its dataset."""
    return replace(pipeline, privacy=replace(pipeline.privacy, dataset=", ".join(datasets)))


def _large_delta(caps: SharedCaps, result: Account, members: Sequence[SumMember]) -> Iterator[Condition]:
    """Yield the lint findings about the delta of a sum: DP105, for the largest dataset_size of its files, or DP306, if none states one."""
    sizes = [member.pipeline.privacy.dataset_size for member in members]
    largest = max((size for size in sizes if size is not None), default=None)
    for diagnostic in judged_deltas({f"{caps.words}: delta": result.delta}, largest, caps.words):
        verdict: Verdict = "fail" if diagnostic.severity == "error" else "warn"
        yield Condition(diagnostic.rule, verdict, f"{diagnostic.key}: {diagnostic.message}", ())


def _members_in_words(members: Sequence[SumMember], runs: Sequence[int]) -> str:
    """Return the members in words, for example `3 files (a.toml, b.toml 53 times, c.toml (not judged here))`."""
    words = []
    for member, count in zip(members, runs, strict=True):
        times = f" {count:,} times" if count > 1 else ""
        words.append(f"{member.path}{times}{'' if member.is_judged else ' (not judged here)'}")
    return f"{len(members)} file{'s' if len(members) > 1 else ''} ({first_names(words)})"


def _sum_with_error(caps: SharedCaps, error: DpcliError, first_path: str) -> JudgedSum:
    """Return the verdict on a sum that cannot be computed, with the reason. If a file cannot be read, the sum is reported at that file."""
    if isinstance(error, InvalidFile):
        finding = error.diagnostics[0]
        text = f"{caps.words}: {finding.path}: {first_finding(error.diagnostics)}"
        return _sum_without_account(caps, Condition(NAME, "invalid", text, (), (finding.line, finding.column)), finding.path)
    verdict: Verdict = "unknown" if isinstance(error, CannotCertify | NotRepresentable) else "invalid"
    text = f"{caps.words}: {str(error).removeprefix('--base-ref: ')}"  # an error of git names this flag, which need not be given
    return _sum_without_account(caps, Condition(NAME, verdict, text, ()), first_path)


def _unknown(caps: SharedCaps, text: str, reported_at: str) -> JudgedSum:
    return _sum_without_account(caps, Condition(NAME, "unknown", f"{caps.words}: {text}", ()), reported_at)


def _sum_without_account(caps: SharedCaps, condition: Condition, reported_at: str) -> JudgedSum:
    return JudgedSum(caps.words, None, (condition,), reported_at=reported_at, datasets=caps.datasets)


def _with_base(caps: SharedCaps, total: JudgedSum, horizon: Horizon | None, ref: str) -> JudgedSum:
    """Return a sum with the sum at the revision, if that can be computed."""
    if total.account is None:
        return total
    base = sum_at_base(caps, ref, total.members, horizon, total.account)
    return total if base is None else replace(total, base=base, epsilon_at_base_delta=total.account.upper)


def sum_at_base(caps: SharedCaps, ref: str, paths: Sequence[str], horizon: Horizon | None, current: Account) -> Base | None:
    """Return the sum at the revision, at the delta of the current sum; None if the sum had no members or cannot be computed.

    The sum is computed only if all files are plain .toml files of one repository, and the revision is an ancestor of the work tree's
    commit.

    Args:
        current: The account of the current sum.
    """
    tops = tops_of(paths)
    are_plain = all(toml_name(path) and not os.path.islink(path) for path in paths)
    if len(tops) != 1 or current.delta is None or not are_plain or not is_based_on(tops[0], commit_of(tops[0], ref)):
        return None
    try:
        members = [(_under_name(member, caps.datasets), runs_of(member, horizon)) for member in _members_at(caps, ref, tops[0])]
        total = account_of_dataset(members, delta=current.delta, with_rows=False) if members else None
    except DpcliError:
        return None
    return None if total is None else Base(total.upper, total.delta, statement={}, terms={}, standings={})


def _members_at(caps: SharedCaps, ref: str, top: str) -> Iterator[Pipeline]:
    """Yield the pipelines at the revision, in the repository with the root `top`, that name one of the datasets."""
    tree, skeletons = commit_of(top, ref), {skeleton(name) for name in caps.datasets}
    names = [entry.path for entry in tree_entries(top, tree) if entry.is_file and toml_name(entry.path)]
    for name, data in contents_in(top, tree, names).items():
        try:
            tables = toml_document(data or b"", name).tables
        except InvalidFile:
            continue
        if is_pipeline(tables) and skeleton(dataset_of(tables)) in skeletons:
            yield parse(data or b"", f"{ref}:{name}")


def uncapped_sums(files: Sequence[Judged], capped: Collection[str], horizon: Horizon | None = None) -> Iterator[JudgedSum]:
    """Yield a warning for each dataset whose sum has no cap, if the sum exceeds the cap of each file or cannot be computed.

    Args:
        capped: The datasets that have a cap on their sum.
    """
    by_skeleton: dict[str, list[Judged]] = {}
    for file in files:
        dataset = None if file.account is None or file.written is None else file.written.privacy.dataset
        if dataset is not None and dataset not in capped:
            by_skeleton.setdefault(skeleton(dataset), []).append(file)
    for members in by_skeleton.values():
        if len(members) > 1:
            yield from _uncapped_sum(members, horizon)


def _uncapped_sum(files: Sequence[Judged], horizon: Horizon | None) -> Iterator[JudgedSum]:
    """Yield a warning if the sum of these files exceeds the cap of each file, or if it cannot be computed."""
    paths = tuple(file.path for file in files)
    pipelines = [file.written for file in files if file.written is not None]
    names = tuple(dict.fromkeys(pipeline.privacy.dataset or "" for pipeline in pipelines))
    dataset = f"dataset {', '.join(names)}"

    def warning(text: str, total: Account | None = None) -> JudgedSum:
        condition = Condition(NAME, "warn", f"{dataset}: {len(paths)} files ({first_names(paths)}): {text}", ())
        return JudgedSum(dataset, None, (condition,), reported_at=paths[0], datasets=names, members=paths, uncapped=total)

    try:
        by_dataset(pipelines)  # raises InputError if two names only look equal
        parts = [
            (_without_cap(file, pipeline), runs_of(pipeline, horizon)) for file, pipeline in zip(files, pipelines, strict=True)
        ]
        total = account_of_dataset(parts, with_rows=False)
    except (InputError, CannotCertify, NotRepresentable) as error:
        yield warning(f"no sum: {error}")
        return
    budgets = [file.account.budget for file in files if file.account is not None and file.account.budget is not None]
    # The largest cap of any file; inf, which no sum exceeds, if no file has such a cap.
    epsilon = max((budget.epsilon.cap for budget in budgets if budget.epsilon is not None), default=math.inf)
    rho = max((budget.rho.cap for budget in budgets if budget.rho is not None), default=math.inf)
    above = []
    if total.upper > epsilon:
        above.append(f"epsilon {up(total.upper)} at delta = {total.delta!r}, above the cap of each file (at most {epsilon!r})")
    if total.rho.value > rho:
        above.append(f"rho {up(total.rho.value)}, above the cap of each file (at most {rho!r})")
    if above:
        yield warning(f"{' and '.join(above)}; {REMEDY}", total)


def _without_cap(file: Judged, pipeline: Pipeline) -> Pipeline:
    """Return the pipeline without its budget. An adaptive file keeps its cap in force, because this cap is its cost."""
    if pipeline.privacy.adaptive and file.account is not None:
        return file.account.pipeline
    return replace(pipeline, budget=None)


def with_report_places(together: Iterable[JudgedSum], files: Sequence[Judged]) -> Iterator[JudgedSum]:
    """Yield each sum with the file at which it is reported, which is the member whose epsilon rose most since the base.

    A new file counts as a rise by its epsilon. If no epsilon rose, the sum is reported at a member that changed at equal cost, or that
    joined the dataset. Otherwise the sum stays at its first file.
    """
    for total in together:
        largest, reported_at = UNCHANGED, total.reported_at
        for file in files:
            rise = _rise(file, total.datasets)
            if file.path in total.members and rise > largest:
                largest, reported_at = rise, file.path
        yield replace(total, reported_at=reported_at)


def with_joined_files(together: Iterable[JudgedSum], files: Sequence[Judged]) -> Iterator[JudgedSum]:
    """Yield each sum, with a warning if files have joined it since the base.

    The sum is a bound for files that are fixed in advance. A file that joins later may have been chosen because of results of the others.
    """
    for total in together:
        members = [file for file in files if file.path in total.members]
        joined = [file.path for file in members if file.base is None or _joins(file, total.datasets)]
        has_sum = total.account is not None or total.uncapped is not None
        if has_sum and 0 < len(joined) < len(total.members):
            text = f"{total.path}: these files were not in the sum at the base: {first_names(joined)}; {FIXED}"
            yield replace(total, conditions=(*total.conditions, Condition("joined", "warn", text, ())))
        else:
            yield total


class Rise(NamedTuple):
    """The rise of a file's epsilon over the base, and whether the file has changed. At equal rises, a changed file compares as greater."""

    epsilon: float
    has_changed: bool


UNCHANGED = Rise(0.0, has_changed=False)


def _rise(file: Judged, datasets: Sequence[str]) -> Rise:
    """Return the rise of a file. It is negative if epsilon fell, and at least 0 for a file that joins one of the datasets."""
    if file.base is None:
        return Rise(0.0 if file.account is None else file.account.upper, has_changed=True)
    epsilon = file.epsilon_at_base_delta
    if epsilon is None or epsilon == file.base.epsilon:  # the difference of two infinities would be NaN
        return Rise(0.0, bool(file.changes))
    rise = epsilon - file.base.epsilon
    return Rise(max(rise, 0.0) if _joins(file, datasets) else rise, has_changed=True)


def _joins(file: Judged, datasets: Sequence[str]) -> bool:
    """Return whether the file names one of the datasets now, and named another dataset or none at the base."""
    edits = [edit for change in file.changes for edit in change.change.edits if edit.path == ("privacy", "dataset")]
    return any(edit.old not in datasets for edit in edits)
