"""Judging files: each condition from its own module, then the waivers, then what would pass."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dpcli.analysis.account import Account, headline, large_epsilon
from dpcli.analysis.difference import Priced
from dpcli.base.errors import InputError
from dpcli.base.values import dataclass
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import below, located, may_be_pipeline, parse, refuse, toml_document, unfolded
from dpcli.file.toml.findings import Diagnostic, Findings, InvalidFile
from dpcli.gate.baseline import bases_from
from dpcli.gate.bases import Base, Unpriced, bases_at
from dpcli.gate.binding import binding, unmatched, unnamed
from dpcli.gate.blame import costs_of, dearest_changes, place_of, remedy
from dpcli.gate.caps import cap_conditions, capped, delta_condition, holding, require_cap
from dpcli.gate.claims import claims
from dpcli.gate.findings import finding_conditions, first_of, required_conditions
from dpcli.gate.flags import GateTerms
from dpcli.gate.horizon import held_horizons, horizon_condition
from dpcli.gate.increase import epsilon_now, increase_condition, new_file, statement_conditions
from dpcli.gate.judgement import Gated, Judged, JudgedTogether
from dpcli.gate.ledger import room
from dpcli.gate.links import link_condition
from dpcli.gate.merged_caps import Outside, loosened
from dpcli.gate.one_source import one_source, sources
from dpcli.gate.restatement import restatements
from dpcli.gate.verdicts import Condition
from dpcli.gate.waivers import check_waivers, unused, waived
from dpcli.git.work_tree import asked_once, review_of
from dpcli.lint.run import judge
from dpcli.numerics.work import limited

Bases = Mapping[str, Base | Unpriced | None]


@dataclass(frozen=True, slots=True)
class Opened:
    """A file that can be read: its bytes, its pipeline as it stands and with the caps that hold, the caps from outside, and what the rules
    say of it."""

    path: str
    data: bytes
    own: Pipeline
    pipeline: Pipeline
    outside: Outside
    diagnostics: tuple[Diagnostic, ...]


def gate(paths: Sequence[str], terms: GateTerms) -> Gated:
    """Judge each file, and where none is named every pipeline that differs from the revision; with a revision also those that are gone.

    A folder stands for all pipelines in it. One without any is no pass, unless the base had some that are gone.

    Raises:
        InputError: no paths, and no revision; a policy, a revision or a baseline that cannot be read. What is wrong with a file itself
            is its verdict.
    """
    if not paths and terms.base_ref is None:
        raise InputError("expected FILES, or --base-ref to judge every pipeline that differs from it, found neither")
    if not paths and terms.base_ref is not None:
        from dpcli.gate.repository import touched_pipelines

        paths = touched_pipelines(terms.base_ref)
    found = unfolded(paths, may_be_pipeline)
    bare = [path for path in found if terms.base_ref is not None and os.path.isdir(path)]
    paths = [path for path in found if path not in bare]
    policy, notices = binding(terms.policy, terms.base_ref)
    terms = replace(terms, policy=policy)
    terms = replace(terms, room=room(paths, terms.ledger, terms.dataset, terms.planned))
    if terms.base_ref is not None:
        from dpcli.gate.missed import drawn_in, named_by

        shared = [name for one in policy.together for name in one.datasets]
        paths += drawn_in(terms.base_ref, found, [*shared, *(named_by(paths) if terms.together is not None else ())])
    with asked_once():
        bases = _bases(paths, terms)
        files = tuple(_judged(path, terms, bases) for path in paths)
        deleted = tuple(_gone(paths, terms, bases))
        files += tuple(_judged(path, terms, {}) for path in bare if not any(below(one.path, path) for one in deleted))
        others = tuple(_missed(files, deleted, terms))
    granting: frozenset[int] = frozenset().union(*(file.granting for file in files))
    read = [(file.path, file.own) for file in files if file.own is not None]
    together = _together(files, terms)
    notices += (*unmatched(policy, read), *unnamed(policy.together, together), *unused(policy, paths, granting))
    return Gated((*files, *deleted, *others) or (_nothing(terms),), policy.path or None, notices, together)


def _together(files: Sequence[Judged], terms: GateTerms) -> tuple[JudgedTogether, ...]:
    if not (terms.policy.together or terms.together or any(file.own is not None and file.own.privacy.dataset for file in files)):
        return ()
    from dpcli.gate.shown_at import at_the_change, with_joined
    from dpcli.gate.totals import totals
    from dpcli.gate.uncapped import caps_of, uncapped

    caps = (*terms.policy.together, *caps_of(terms.together, files))
    found = totals(caps, files, terms.planned, lambda path, own: _outside(path, own, terms), terms.base_ref)
    told = uncapped(files, {name for one in caps for name in one.datasets}, terms.planned)
    together = (*found, *told, *one_source(files))
    if terms.base_ref is None and terms.baseline is None:
        return together
    return tuple(with_joined(at_the_change(together, files), files))


def _missed(files: Sequence[Judged], deleted: Sequence[Judged], terms: GateTerms) -> Iterator[Judged]:
    if terms.base_ref is not None:
        from dpcli.gate.missed import missed
        from dpcli.gate.workflows import changed_workflows

        judged, spoken = [file.path for file in files], frozenset(os.path.realpath(one.path) for one in deleted)
        yield from missed(terms.base_ref, judged, spoken)
        yield from changed_workflows(terms.base_ref, judged)


def _nothing(terms: GateTerms) -> Judged:
    """What is said where no file is left to judge, and none is gone or changed."""
    text = f"no pipeline differs from {terms.base_ref}"
    return Judged(".", None, (Condition("files", "pass", text, ()),))


def _gone(paths: Sequence[str], terms: GateTerms, bases: Bases | None) -> Iterator[Judged]:
    if terms.base_ref is not None and bases is not None:
        from dpcli.gate.deleted import gone

        yield from gone(terms.base_ref, paths, (base.renamed for base in bases.values() if isinstance(base, Base)))


def _bases(paths: Sequence[str], terms: GateTerms) -> Bases | None:
    if terms.base_ref is not None:
        return bases_at(terms.base_ref, paths, lambda path, pipeline: capped(pipeline, _outside(path, pipeline, terms)))
    return bases_from(terms.baseline, paths) if terms.baseline is not None else None


def _outside(path: str, pipeline: Pipeline, terms: GateTerms) -> Outside:
    return Outside(terms.caps, terms.policy.caps(path, pipeline))


@limited
def _judged(path: str, terms: GateTerms, bases: Bases | None) -> Judged:
    diagnostics: tuple[Diagnostic, ...] = ()
    try:
        data = terms.room.read(path)
        pipeline = parse(data, path)
        outside = _outside(path, pipeline, terms)
        diagnostics = judge(pipeline, data, _deltas(path, pipeline, outside, terms))
        _check(pipeline, data)
        require_cap(pipeline, outside)
        opened = Opened(path, data, pipeline, capped(pipeline, outside), outside, diagnostics)
        assert opened.pipeline.budget is not None
        result = _unchanged(opened.pipeline, _base(bases, path)) or headline(opened.pipeline, delta=opened.pipeline.budget.delta)
    except InvalidFile as error:
        unread = Condition("file", "invalid", f"the file cannot be read as a pipeline: {first_of(error.diagnostics)}", ())
        return Judged(path, None, (unread,), (*diagnostics, *error.diagnostics))
    except InputError as error:
        # A rule that says why comes before the accountant's own refusal; no waiver makes up for a number that is not there.
        rules = tuple(c for c in finding_conditions(diagnostics, pipeline) if c.verdict == "fail") if diagnostics else ()
        return Judged(path, None, rules or (_unread(path, error),), diagnostics)
    return _accounted(opened, result, terms, bases)


def _deltas(path: str, pipeline: Pipeline, outside: Outside, terms: GateTerms) -> dict[str, float | None]:
    """The deltas outside of the file at which it is judged: those of caps that hold, and the ledger's."""
    caps, answer = holding(pipeline, outside), terms.room.conditions.get(path)
    decisive = {name: delta for name, delta in outside.deltas.items() if caps.judges(delta)}
    return {**decisive, "the ledger's delta": None if answer is None else answer.delta}


def _unread(path: str, error: InputError) -> Condition:
    """Of a file as a whole: it has no line, and whoever shows it names the file."""
    return Condition("file", "invalid", str(error).removeprefix(f"{path}: "), (), place=(0, 0))


def _unchanged(pipeline: Pipeline, base: Base | None) -> Account | None:
    """The account of the base where the file still says all that it said there, caps included."""
    if base is None or base.account is None:
        return None
    was = base.account.pipeline
    return (
        replace(base.account, pipeline=pipeline) if replace(was, path=pipeline.path, sha256=pipeline.sha256) == pipeline else None
    )


def _check(pipeline: Pipeline, data: bytes) -> None:
    """Raise InvalidFile for waivers of what cannot be waived."""
    findings = Findings()
    check_waivers(pipeline, findings)
    if findings.items:
        path = pipeline.path or "<file>"
        text, tables = toml_document(data, path)
        refuse(findings, tables, text, path)


def _accounted(opened: Opened, result: Account, terms: GateTerms, bases: Bases | None) -> Judged:
    opened = replace(opened, diagnostics=(*opened.diagnostics, *large_epsilon(result, opened.diagnostics)))
    base = _base(bases, opened.path)
    now = None if base is None else epsilon_now(result, base)
    changes = () if base is None else costs_of(base, opened.data)
    said = list(_conditions(opened, result, terms))
    if bases is not None:
        from dpcli.gate.data_read import moved_data, other_data

        was = _was(opened.path, base)
        said += [
            *_against(opened, result, base or bases.get(opened.path), now, terms),
            *claims(changes, opened.pipeline),
            *other_data(changes, opened.pipeline, opened.path, was),
        ]
        if was != opened.path:
            said += moved_data(changes, toml_document(opened.data, opened.path)[1], opened.path, os.path.relpath(was))
    said = [_blamed(condition, changes, opened.pipeline) for condition in said]
    after = waived(said, opened.path, opened.pipeline, terms.policy, base, terms.as_of, opened.data)
    conditions = _placed(_remedied(after.conditions, result, changes), opened)
    read = sources(opened.path, toml_document(opened.data, opened.path)[1])
    return Judged(opened.path, result, conditions, opened.diagnostics, base, now, changes, after.granting, opened.own, read)


def _conditions(opened: Opened, result: Account, terms: GateTerms) -> Iterator[Condition]:
    """What a file must satisfy whatever it was before."""
    yield from link_condition(opened.path, terms.base_ref is not None)
    yield from cap_conditions(result, holding(opened.own, opened.outside))
    yield from delta_condition(opened.own, opened.outside)
    yield from finding_conditions(opened.diagnostics, opened.pipeline)
    yield from required_conditions(terms.policy, opened.pipeline)
    for horizon in held_horizons(terms.horizon, terms.policy.horizon, opened.own.gate.horizon):
        yield horizon_condition(result, horizon)
    if opened.path in terms.room.conditions:
        yield terms.room.conditions[opened.path]


def _base(bases: Bases | None, path: str) -> Base | None:
    """What a file is compared with; None where that has no epsilon."""
    base = bases.get(path) if bases else None
    return base if isinstance(base, Base) else None


def _against(
    opened: Opened, result: Account, base: Base | Unpriced | None, now: float | None, terms: GateTerms
) -> Iterator[Condition]:
    """What a file must satisfy against the base."""
    if base is None or isinstance(base, Unpriced) or now is None:
        yield new_file(result, opened.outside, "" if base is None or isinstance(base, Base) else base.reason)
        return
    horizons = held_horizons(terms.horizon, terms.policy.horizon)
    yield from statement_conditions(result, opened.own, base, opened.outside, horizons, _escaped(opened, base, terms))
    yield from restatements(base.standings, opened.own)
    yield increase_condition(result, base, now, opened.outside)


def _escaped(opened: Opened, base: Base, terms: GateTerms) -> list[str]:
    """The caps of the policy that held the file as it was, under its name then, and are looser or gone now."""
    if base.account is None:
        return []
    was = _outside(_was(opened.path, base), base.account.pipeline, terms)
    return [f"the policy's {words}" for words in loosened(was.tightest, opened.outside.tightest)]


def _was(path: str, base: Base | None) -> str:
    """Where the file was at the base."""
    return os.path.join(review_of(path)[0], base.renamed) if base is not None and base.renamed else path


def _blamed(condition: Condition, changes: Sequence[Priced], pipeline: Pipeline) -> Condition:
    """A no to a number, with the changes that made it and at the line of the dearest."""
    if condition.verdict != "fail" or condition.target is None:
        return condition
    key = place_of(changes, pipeline, condition.key)
    return replace(condition, key=key, message=condition.message + dearest_changes(changes))


def _remedied(conditions: Sequence[Condition], result: Account, changes: Sequence[Priced]) -> tuple[Condition, ...]:
    """The first no to a number with what would turn them all into a yes."""
    failing = [c for c in conditions if c.verdict == "fail" and c.target is not None]
    words = remedy(result, changes, [c.target for c in failing if c.target is not None]) if failing else ""
    return tuple(replace(c, message=c.message + words) if failing and c is failing[0] else c for c in conditions)


def _placed(conditions: Sequence[Condition], opened: Opened) -> tuple[Condition, ...]:
    """Line and column of what each is about; a rule's finding has them already."""
    stated = [opened.pipeline.stated_at(c.key) for c in conditions]
    places = located(opened.data.decode().replace("\r\n", "\n"), stated)
    return tuple(c if c.name.startswith("DP") else replace(c, place=places[key]) for c, key in zip(conditions, stated, strict=True))
