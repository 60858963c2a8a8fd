"""The gate, which judges each file by its conditions and against its base, applies waivers, and judges the sums over datasets.

`gate` is the entry point: `dpcli gate` and `dpcli comment` call it with paths and `GateTerms`, and get all verdicts (`Gated`). Most
conditions are computed in the other files of this folder. The *base* of a file is its version at a git revision, or in the JSON of an
earlier gate. A *condition* is one requirement of a file, with a verdict of its own (verdicts.py). A *sum* is the joint cost of all files
that name one dataset. The *room* is the answer of a privacy-budget ledger (--ledger): whether the runs of the files still fit. A *horizon*
is a planned number of runs of a file, with a cap on all of them together. Caps come from flags, a policy and the file, and all of them
hold.

The author of a change may edit, move or delete any file, including the policy: so with a revision, removed files get verdicts, changed
files that were not named get a warning, and a policy that the change edits is read at the revision. A file that cannot be read gets a
verdict that does not pass, and the others are judged anyway.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dpcli.analysis.account import Account, headline, large_epsilon
from dpcli.analysis.difference import Priced
from dpcli.base.errors import InputError
from dpcli.base.values import dataclass
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import expand_folders, is_in_folder, located, may_be_pipeline, parse, refuse, toml_document
from dpcli.file.toml.findings import Diagnostic, Findings, InvalidFile
from dpcli.gate import requirements
from dpcli.gate.bases import UnreadableBase, bases_at, bases_from, costs_of
from dpcli.gate.blame import costliest_changes, key_of_costliest, remedy
from dpcli.gate.caps import ExternalCaps, caps_in_force, loosened_caps, require_cap, with_caps_in_force
from dpcli.gate.claims import claim_warnings, restatements
from dpcli.gate.gate_terms import GateTerms, room
from dpcli.gate.input_data import moved_data_warnings, other_data_warnings, shared_source_warnings, sources
from dpcli.gate.policy import empty_sums, policy_that_applies, unmatched_rules
from dpcli.gate.verdicts import Base, Condition, Gated, Judged, JudgedSum, first_finding
from dpcli.gate.waivers import apply_waivers, check_waivers, unused_waivers
from dpcli.git.command import cached_answers, review_of
from dpcli.lint.run import judge as lint
from dpcli.numerics.work import limited

Bases = Mapping[str, Base | UnreadableBase | None]


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A file that was read as a pipeline.

    Attributes:
        written: The pipeline as the file states it, with its own caps.
        pipeline: The pipeline with the caps in force.
        external: The caps of flags and policy.
        diagnostics: The lint findings in the file.
    """

    path: str
    data: bytes
    written: Pipeline
    pipeline: Pipeline
    external: ExternalCaps
    diagnostics: tuple[Diagnostic, ...]


def gate(paths: Sequence[str], terms: GateTerms) -> Gated:
    """Judge files, and pipelines that were removed since the base.

    If no file is named, every pipeline that differs from the base revision is judged. If a folder is named, all pipelines in it are judged.
    A folder without pipelines passes only if the base had pipelines in it. An invalid file gets a verdict, and the gate continues.

    Raises InputError if neither a file nor a revision is given, or a policy, revision or baseline cannot be read.
    """
    ref = terms.base_ref
    expanded = expand_folders(paths or _touched_pipelines(ref), may_be_pipeline)
    # A folder without pipelines passes only if the change removed them, which the base shows. Without a revision it is judged as a file.
    folders = [path for path in expanded if ref is not None and os.path.isdir(path)]
    paths = [path for path in expanded if path not in folders]
    policy, notices = policy_that_applies(terms.policy, ref)
    terms = replace(terms, policy=policy)
    terms = replace(terms, room=room(paths, terms.ledger, terms.dataset, terms.planned))  # planned: the longer external horizon
    if ref is not None:
        paths += _touched_members(ref, expanded, paths, terms)  # the ledger does not judge these
    with cached_answers():  # git is asked only once for each root and each revision
        bases = _bases(paths, terms)
        files = [_judge_file(path, terms, bases) for path in paths]
        others: list[Judged] = []
        if ref is not None:
            removed = _removed_pipelines(ref, paths, bases or {})
            # A folder that had no pipelines at the base either is judged as if it were a file, which gives the verdict "invalid".
            empty = [folder for folder in folders if not any(is_in_folder(pipeline.path, folder) for pipeline in removed)]
            files += [_judge_file(folder, terms, {}) for folder in empty]
            others = [*removed, *_unjudged_changes(ref, files, removed)]
    sums = _sums(files, terms)
    readable = [(file.path, file.written) for file in files if file.written is not None]
    needed: frozenset[int] = frozenset().union(*(file.needed_waivers for file in files))
    notices += (*unmatched_rules(policy, readable), *empty_sums(policy.together, sums), *unused_waivers(policy, paths, needed))
    judged = (*files, *others)
    if not judged:
        nothing_to_judge = Condition("files", "pass", f"no pipeline differs from {ref}", ())
        judged = (Judged(".", None, (nothing_to_judge,)),)  # reported at the working directory
    return Gated(judged, policy.path or None, notices, sums)


def _touched_pipelines(ref: str | None) -> Sequence[str]:
    if ref is None:
        raise InputError("expected FILES, or --base-ref to judge every pipeline that differs from a revision")
    from dpcli.gate.repository import touched_pipelines

    return touched_pipelines(ref)


def _touched_members(ref: str, expanded: Sequence[str], paths: Sequence[str], terms: GateTerms) -> Iterator[str]:
    """Yield the touched files that belong to a capped sum, without the files that the gate was asked to judge (`expanded`)."""
    from dpcli.gate.repository import datasets_of, touched_members

    datasets = [name for caps in terms.policy.together for name in caps.datasets]
    if terms.together is not None:
        datasets += datasets_of(paths)
    return touched_members(ref, expanded, datasets)


def _removed_pipelines(ref: str, paths: Sequence[str], bases: Bases) -> list[Judged]:
    from dpcli.gate.coverage import removed_pipelines

    earlier_paths = [base.earlier_path for base in bases.values() if isinstance(base, Base)]
    return list(removed_pipelines(ref, paths, earlier_paths))


def _unjudged_changes(ref: str, files: Sequence[Judged], removed: Sequence[Judged]) -> Iterator[Judged]:
    """Yield the verdicts on changed pipelines that the gate was not asked to judge, and on changed workflows."""
    from dpcli.gate.coverage import changed_workflows, missed_pipelines

    judged = [file.path for file in files]
    removed_places = frozenset(os.path.realpath(pipeline.path) for pipeline in removed)
    yield from missed_pipelines(ref, judged, removed_places)
    yield from changed_workflows(ref, judged)


def _sums(files: Sequence[Judged], terms: GateTerms) -> tuple[JudgedSum, ...]:
    """Return the verdicts on the sums over datasets. If neither a cap nor a file names a dataset, there are no sums."""
    names_dataset = any(file.written is not None and file.written.privacy.dataset for file in files)
    if not (terms.policy.together or terms.together or names_dataset):
        return ()
    from dpcli.gate.totals import capped_sums, caps_of, uncapped_sums, with_joined_files, with_report_places

    caps = (*terms.policy.together, *caps_of(terms.together, files))
    sums = (  # begins with one sum for each [[together]] table of the policy, as `empty_sums` expects
        *capped_sums(caps, files, terms.planned, lambda path, pipeline: _external_caps(path, pipeline, terms), terms.base_ref),
        *uncapped_sums(files, {name for shared in caps for name in shared.datasets}, terms.planned),
        *shared_source_warnings(files),
    )
    if terms.base_ref is None and terms.baseline is None:
        return sums
    return tuple(with_joined_files(with_report_places(sums, files), files))


def _bases(paths: Sequence[str], terms: GateTerms) -> Bases | None:
    """Return the base of each file, from a git revision or a baseline; None if the gate has neither.

    The account at a git revision is computed under the current caps of flags and policy, so that an unchanged file keeps its account.
    """
    if terms.base_ref is not None:
        return bases_at(
            terms.base_ref, paths, lambda path, pipeline: with_caps_in_force(pipeline, _external_caps(path, pipeline, terms))
        )
    return bases_from(terms.baseline, paths) if terms.baseline is not None else None


def _external_caps(path: str, pipeline: Pipeline, terms: GateTerms) -> ExternalCaps:
    return ExternalCaps(terms.caps, terms.policy.caps(path, pipeline))


@limited
def _judge_file(path: str, terms: GateTerms, bases: Bases | None) -> Judged:
    """Return the verdict on one file. A file that cannot be read, or whose account fails, gets the verdict "invalid" or "fail".

    `limited` bounds the numerical work for one file.
    """
    diagnostics: tuple[Diagnostic, ...] = ()
    try:
        data = terms.room.read(path)  # the bytes that the ledger judged, if it did
        pipeline = parse(data, path)
        external = _external_caps(path, pipeline, terms)
        diagnostics = lint(pipeline, data, _deltas(path, pipeline, external, terms))
        _require_waivable(pipeline, data)
        require_cap(pipeline, external)
        capped = with_caps_in_force(pipeline, external)
        assert capped.budget is not None
        result = _account_of_unchanged(capped, _readable_base(bases, path)) or headline(capped, delta=capped.budget.delta)
    except InvalidFile as error:
        unreadable = Condition("file", "invalid", f"the file cannot be read as a pipeline: {first_finding(error.diagnostics)}", ())
        return Judged(path, None, (unreadable,), (*diagnostics, *error.diagnostics))
    except InputError as error:
        # A failed lint rule explains the refusal better than the accountant does. Without an account, waivers are not applied. There are
        # diagnostics only if the file was parsed, so `pipeline` is then bound.
        lint_conditions = requirements.finding_conditions(diagnostics, pipeline) if diagnostics else ()
        failed_rules = tuple(condition for condition in lint_conditions if condition.verdict == "fail")
        # The condition is about all of the file, so it has no line. The caller prints the path.
        unreadable = Condition("file", "invalid", str(error).removeprefix(f"{path}: "), (), place=(0, 0))
        return Judged(path, None, failed_rules or (unreadable,), diagnostics)
    diagnostics = (*diagnostics, *large_epsilon(result, diagnostics))  # a lint rule about the account's epsilon
    return _judge_account(OpenedFile(path, data, pipeline, capped, external, diagnostics), result, terms, bases)


def _deltas(path: str, pipeline: Pipeline, external: ExternalCaps, terms: GateTerms) -> dict[str, float | None]:
    """Return the deltas of flags, policy and ledger at which a file is judged, by their names in messages."""
    caps, ledger_condition = caps_in_force(pipeline, external), terms.room.conditions.get(path)
    decisive = {name: delta for name, delta in external.deltas.items() if caps.judges(delta)}
    return {**decisive, "the ledger's delta": None if ledger_condition is None else ledger_condition.delta}


def _account_of_unchanged(pipeline: Pipeline, base: Base | None) -> Account | None:
    """Return the account of the base, to save time, if the file and its caps are unchanged; None if the account must be computed."""
    if base is None or base.account is None:
        return None
    # The account does not depend on the path or on the digest of the bytes, and a comment changes the digest.
    earlier_pipeline = replace(base.account.pipeline, path=pipeline.path, sha256=pipeline.sha256)
    return replace(base.account, pipeline=pipeline) if earlier_pipeline == pipeline else None


def _require_waivable(pipeline: Pipeline, data: bytes) -> None:
    """Check that the file waives only rules that can be waived. Raises InvalidFile if not."""
    findings = Findings()
    check_waivers(pipeline, findings)
    if findings.items:
        path = pipeline.path or "<file>"
        text, tables = toml_document(data, path)
        refuse(findings, tables, text, path)


def _judge_account(opened_file: OpenedFile, result: Account, terms: GateTerms, bases: Bases | None) -> Judged:
    path, pipeline = opened_file.path, opened_file.pipeline
    tables = toml_document(opened_file.data, path).tables
    base = _readable_base(bases, path)
    epsilon_at_base_delta = None if base is None else requirements.epsilon_now(result, base)
    changes = () if base is None else costs_of(base, opened_file.data)
    unwaived = list(_conditions(opened_file, result, terms))
    if bases is not None:
        path_at_base = _path_at_base(path, base)
        unwaived += _base_conditions(opened_file, result, base or bases.get(path), epsilon_at_base_delta, terms)
        unwaived += claim_warnings(changes, pipeline)
        unwaived += other_data_warnings(changes, pipeline, path, path_at_base)
        if path_at_base != path:
            unwaived += moved_data_warnings(changes, tables, path, os.path.relpath(path_at_base))
    unwaived = [_with_blame(condition, changes, pipeline) for condition in unwaived]
    waived = apply_waivers(unwaived, path, pipeline, terms.policy, base, terms.as_of, opened_file.data)
    return Judged(
        path,
        result,
        _with_places(_with_remedy(waived.conditions, result, changes), opened_file),
        opened_file.diagnostics,
        base,
        epsilon_at_base_delta,
        changes,
        needed_waivers=waived.needed_waivers,
        written=opened_file.written,
        sources=sources(path, tables),
    )


def _conditions(opened_file: OpenedFile, result: Account, terms: GateTerms) -> Iterator[Condition]:
    """Yield the conditions that do not depend on the base."""
    yield from requirements.link_condition(opened_file.path, is_compared=terms.base_ref is not None)
    yield from requirements.cap_conditions(result, caps_in_force(opened_file.written, opened_file.external))
    yield from requirements.delta_condition(opened_file.written, opened_file.external)
    yield from requirements.finding_conditions(opened_file.diagnostics, opened_file.pipeline)
    yield from requirements.required_conditions(terms.policy, opened_file.pipeline)
    for horizon in requirements.binding_horizons(terms.horizon, terms.policy.horizon, opened_file.written.gate.horizon):
        yield requirements.horizon_condition(result, horizon)
    if opened_file.path in terms.room.conditions:
        yield terms.room.conditions[opened_file.path]
    if terms.require_proof or terms.certificates:
        yield requirements.proof_condition(result, terms.certificates)


def _readable_base(bases: Bases | None, path: str) -> Base | None:
    """Return the base of a file; None if there is no base, or if the version at the base cannot be read as a pipeline."""
    base = bases.get(path) if bases else None
    return base if isinstance(base, Base) else None


def _base_conditions(
    opened_file: OpenedFile, result: Account, base: Base | UnreadableBase | None, epsilon: float | None, terms: GateTerms
) -> Iterator[Condition]:
    """Yield the conditions that compare a file with its base. `epsilon` is the current epsilon at the delta of the base."""
    if not isinstance(base, Base) or epsilon is None:
        reason = base.reason if isinstance(base, UnreadableBase) else ""
        yield requirements.new_file_condition(result, opened_file.external, reason)
        return
    horizons = requirements.binding_horizons(terms.horizon, terms.policy.horizon)
    yield from requirements.statement_conditions(
        result, opened_file.written, base, opened_file.external, horizons, _loosened_by_move(opened_file, base, terms)
    )
    yield from restatements(base.standings, opened_file.written)
    yield requirements.increase_condition(result, base, epsilon, opened_file.external)


def _loosened_by_move(opened_file: OpenedFile, base: Base, terms: GateTerms) -> list[str]:
    """Return, in words, the caps of the policy that are looser for the current file than for its version at the base, or absent.

    The caps of a policy can depend on the path, unit and adjacency of a file.
    """
    if base.account is None:  # a base from JSON has no pipeline, whose unit and adjacency select the rules of the policy
        return []
    earlier_caps = _external_caps(_path_at_base(opened_file.path, base), base.account.pipeline, terms)
    return [f"the policy's {words}" for words in loosened_caps(earlier_caps.tightest, opened_file.external.tightest)]


def _path_at_base(path: str, base: Base | None) -> str:
    """Return the path of a file at the base, which differs if the file was renamed."""
    return os.path.join(review_of(path).top, base.earlier_path) if base is not None and base.earlier_path else path


def _with_blame(condition: Condition, changes: Sequence[Priced], pipeline: Pipeline) -> Condition:
    """Return a failed condition on a number with the costliest changes in its message, at the line of the costliest change.

    Any other condition is returned unchanged.
    """
    if condition.verdict != "fail" or condition.target is None:
        return condition
    key = key_of_costliest(changes, pipeline, condition.key)
    return replace(condition, key=key, message=condition.message + costliest_changes(changes))


def _with_remedy(judged: Sequence[Condition], result: Account, changes: Sequence[Priced]) -> tuple[Condition, ...]:
    """Return the conditions. The first one that fails by a number also states a *remedy*: values with which all such ones would pass."""
    failing = [condition for condition in judged if condition.verdict == "fail" and condition.target is not None]
    if not failing:
        return tuple(judged)
    words = remedy(result, changes, [condition.target for condition in failing if condition.target is not None])
    first = failing[0]
    return tuple(replace(first, message=first.message + words) if condition is first else condition for condition in judged)


def _with_places(judged: Sequence[Condition], opened_file: OpenedFile) -> tuple[Condition, ...]:
    """Return the conditions, each with the line and column of its key. Lint findings already have their places."""
    # A mechanism that comes from a query is stated in the table of the query.
    keys = [opened_file.pipeline.stated_at(condition.key) for condition in judged]
    places = located(opened_file.data.decode().replace("\r\n", "\n"), keys)
    return tuple(
        condition if condition.name.startswith("DP") else replace(condition, place=places[key])
        for condition, key in zip(judged, keys, strict=True)
    )
