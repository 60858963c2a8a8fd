"""Conditions on changes that affect the guarantee without a change of noise.

Such changes concern claims about data or program that nobody can check, mechanisms that state their own cost, and the input data.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dpcli.analysis.difference import LISTS, Edit, Priced
from dpcli.base.lazy import load
from dpcli.base.registry import RELEASED, SECTIONS
from dpcli.base.rounding import up
from dpcli.file.keys.annotations import members_of
from dpcli.file.keys.tables import Members
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.parts import named
from dpcli.file.toml.findings import Path
from dpcli.file.toml.limits import escaped_path
from dpcli.file.toml.shown import escaped, first_names, shown, without_passwords
from dpcli.gate.blame import edits_in_words, path_of
from dpcli.gate.verdicts import Condition, Judged, JudgedSum, Standing

# The evidence for the cost of a mechanism is 2 if the cost follows from its noise by a theorem, 1 if the cost is stated, and 0 if the
# mechanism is stated to be free.
FREE, PRICED = 0, 2
ROUNDING = 1e-3  # largest difference of epsilon, in nats, that two accounts of equal mechanisms may have by rounding
# The evidence in words, in the present and in the past tense.
EVIDENCE_NOW = {FREE: "claims to be free", 1: "states its own cost", PRICED: "has a cost that follows from its noise"}
EVIDENCE_BEFORE = {FREE: "claimed to be free", 1: "stated its own cost", PRICED: "had a cost that followed from its noise"}
PRIVATE = frozenset({"data", "votes", "path", "url"})  # keys that name private input; other keys name public data
INSIDE = frozenset({"table"})  # keys that name a part of an input
UNNAMED = "and the file names no dataset (privacy.dataset), under which the outputs could be added up"


def claim_warnings(changes: Sequence[Priced], pipeline: Pipeline) -> Iterator[Condition]:
    """Yield a warning for each change of a claim about data or program that no accountant can check.

    A changed number that raises epsilon gets no warning. Any other change gets a warning even if it alone does not lower epsilon, as
    several changes may lower it together. For example, each of several entries on disjoint parts alone costs a little more, but all of them
    together cost as much as one.
    """
    from dpcli.file.pipeline.series import by_name  # imported only if there is a base

    entries = by_name({entry.name: entry for entry in pipeline.mechanisms})
    edits = [edit for change in changes for edit in change.change.edits]
    removed_tables = [edit for edit in edits if edit.path[0] in LISTS and len(edit.path) == 2 and edit.new is None]
    removed_kinds = frozenset(str(edit.path[0]) for edit in removed_tables)
    for change in changes:
        claims = list(_claims(change, entries, removed_kinds))
        raises_by_number = change.increase > ROUNDING and all(map(_is_number, claims))
        if not claims or raises_by_number:
            continue
        if change.epsilon is None:
            effect = "its cost alone cannot be computed"
        else:
            effect = f"alone changes epsilon by {'+' if change.increase > 0.0 else ''}{up(change.increase)}"
        text = f"{edits_in_words(change)}: {effect}, because of a claim about data or program, and not because of noise"
        yield Condition("claim", "warn", text, path_of(change, pipeline))


def _claims(change: Priced, entries: Mapping[str, Entry], removed_kinds: Collection[str]) -> Iterator[Edit]:
    """Yield the edits of a change that concern claims. The arguments are as in `_adds_claim`."""
    is_cheap = change.epsilon is not None and change.increase <= ROUNDING
    # If a file states epochs in place of steps, or steps in place of epochs, the change has both keys and removes no count.
    loses_count = {edit.path[-1] for edit in change.change.edits} in ({"steps"}, {"epochs"})
    for edit in change.change.edits:
        removes_count = loses_count and edit.new is None
        if removes_count or _is_claim(edit, entries) or _adds_claim(edit, entries, removed_kinds, is_cheap):
            yield edit


def _claims_of_section(edit: Edit) -> bool:
    """Return whether an edit of [source], of a query or of a section changes a claim about data or program.

    Other keys are instructions, which commands carry out. A section that contains a claim also counts if it is added or removed.
    """
    members = _members(str(edit.path[0]))
    if len(edit.path) == 1 and edit.path[0] in SECTIONS:
        keys = [*(edit.old or ()), *(edit.new or ())]
    else:  # the key in the section, even if the edit is in a table below the section
        keys = [*edit.path[2 if edit.path[0] in LISTS else 1 :][:1]]
    return any(key in members and members[key].claim for key in keys)


def _is_number(edit: Edit) -> bool:
    """Return whether the old and the new value of an edit are numbers, lists of numbers or absent."""
    old = edit.old if isinstance(edit.old, list) else [edit.old]
    new = edit.new if isinstance(edit.new, list) else [edit.new]
    return all(isinstance(value, int | float | None) for value in (*old, *new))


def _adds_claim(edit: Edit, entries: Mapping[str, Entry], removed_kinds: Collection[str], is_cheap: bool) -> bool:
    """Return whether an edit adds an entry whose low cost depends on a claim.

    Args:
        edit: A change of one key or entry.
        entries: The current entries by name.
        removed_kinds: "mechanism" or "query" if the changes remove such tables, as the entry may replace a removed table. dpcli release
            enforces the bounds of a query, but the bounds of an entry are only stated.
        is_cheap: Whether the change raises epsilon by no more than `ROUNDING`.
    """
    if edit.path[0] != "mechanism" or len(edit.path) != 2 or edit.path[1] not in entries:
        return False
    entry = entries[edit.path[1]]
    is_sampled = entry.sampling is not None
    if entry.spec.evidence == FREE or entry.partition is not None or (removed_kinds and is_sampled):
        return True
    has_claim = entry.spec.evidence < PRICED or is_sampled or getattr(entry.spec, "sensitivity", None) is not None
    return has_claim and (is_cheap or "query" in removed_kinds)


def _is_claim(edit: Edit, entries: Mapping[str, Entry]) -> bool:
    """Return whether an edit changes a claim about data or program. All keys of a mechanism that states its own cost are such claims."""
    if edit.path[0] in RELEASED or edit.path[0] in SECTIONS:
        return _claims_of_section(edit)
    if edit.path[0] != "mechanism" or len(edit.path) < 3 or edit.path[1] not in entries:
        return False
    entry, key = entries[edit.path[1]], edit.path[2]
    if key == "sampling":
        scheme: type = type(entry.sampling)
        members: Members = {} if entry.sampling is None else members_of(scheme)
        inner = edit.path[3] if len(edit.path) > 3 else "scheme"
        return inner in members and members[inner].claim
    kind: type = type(entry.spec)
    spec_members = members_of(kind)
    member = spec_members.get(key) or members_of(Entry).get(key)
    states_cost = key in spec_members and bool(entry.spec.evidence < PRICED)
    return member is None or member.claim or states_cost


def standings_of(pipeline: Pipeline) -> dict[str, Standing]:
    """Return the type and the evidence of every entry by name.

    If an entry refers to other entries, its evidence is the weakest evidence among itself and those entries.
    """
    entries = {entry.name: entry for entry in pipeline.mechanisms}
    return {name: Standing(entry.type, _evidence(entry, entries)) for name, entry in entries.items()}


def _evidence(entry: Entry, entries: Mapping[str, Entry]) -> int:
    parts = (entries[name] for name in named(entry.spec) if name in entries)
    return min((entry.spec.evidence, *(_evidence(part, entries) for part in parts)))


def restatements(before: Mapping[str, Standing], pipeline: Pipeline) -> Iterator[Condition]:
    """Yield a failed condition for each entry whose evidence is weaker than at the base, and a warning for each removed entry.

    For example, a cost that followed from the noise is now only stated. A new entry also fails if it may replace a removed entry that had
    another type and stronger evidence.

    Args:
        before: The types and evidence of the earlier version's entries (`standings_of`).
        pipeline: The current file.
    """
    from dpcli.file.pipeline.series import counterparts  # imported only if there is a base

    now = standings_of(pipeline)
    places = {entry.name: ("mechanism", index) for index, entry in enumerate(pipeline.mechanisms)}
    earlier = {name: before[was] for name, was in counterparts(now, before).items()}
    remaining = counterparts(before, now)
    removed = {name: standing for name, standing in before.items() if name not in remaining}
    for name, standing in now.items():
        present, key = f"{escaped(name)}: it {EVIDENCE_NOW[standing.evidence]}", (*places[name], "type")
        if name in earlier:
            if standing.evidence < earlier[name].evidence:
                yield _restatement(f"{present}, and {_past_words(earlier[name])}", key)
            continue
        for removed_name, was in removed.items():
            if was.type != standing.type and standing.evidence < was.evidence:
                yield _restatement(f"{present}, and {escaped(removed_name)}, which was removed, {_past_words(was)}", key)
    for name, was in removed.items():
        yield Condition(
            "mechanism", "warn", f"{escaped(name)} ({was.type}) was removed: nothing counts its outputs", ("mechanism",)
        )


def _past_words(was: Standing) -> str:
    return f"as {was.type} it {EVIDENCE_BEFORE[was.evidence]}"


def _restatement(message: str, key: Path) -> Condition:
    return Condition("restatement", "fail", f'{message} (allowed with a waiver of "restatement")', key)


def other_data_warnings(
    changes: Sequence[Priced], pipeline: Pipeline, path: str = "", was: str | None = None
) -> Iterator[Condition]:
    """Yield a warning for each key by which the file reads other data than at the base, as they may be the data of other people.

    Two spellings of one path or address mean the same data.

    Args:
        changes: The changes since the base.
        pipeline: The current file.
        path: The current path of the file.
        was: The path of the file at the base; None if it was not renamed.
    """
    edits = [edit for change in changes for edit in change.change.edits]
    dataset = pipeline.privacy.dataset
    if any(edit.path == ("privacy", "dataset") for edit in edits):  # the name changes with the data
        dataset_words = ""
    elif dataset is None:
        dataset_words = f", {UNNAMED}"
    else:
        dataset_words = f", under the dataset {shown(dataset)} as before"
    for edit in edits:
        for source in _edited_sources(edit):
            if source.path[-1] in INSIDE or not _is_one_place(was or path, source.old, path, source.new):
                before = "none" if source.old is None else shown(source.old)
                text = f"{'.'.join(source.path)} {before} -> {shown(source.new)}: other data are read{dataset_words}"
                yield Condition("data", "warn", text, source.path)


def moved_data_warnings(changes: Sequence[Priced], tables: Mapping[str, Any], path: str, was: str) -> Iterator[Condition]:
    """Yield a warning for each unchanged key that leads to other data because the file was moved from `was` to `path`.

    There is no warning if the data were moved with the file, that is, if they exist at the new place and no longer at the old one.
    """
    edited = {edit.path[:2] for change in changes for edit in change.change.edits}
    for name in (*SECTIONS, "source"):
        table = tables.get(name)
        if not isinstance(table, dict):
            continue
        for key, member in _members(name).items():
            value = table.get(key)
            is_edited = (name,) in edited or (name, key) in edited
            if not member.reads or key in INSIDE or is_edited or not isinstance(value, str):
                continue
            old, new = place_of(was, value), place_of(path, value)
            if old != new and (os.path.exists(old) or not os.path.exists(new)):
                moved = f"{shown(value)} is relative to the file, which was moved from {escaped_path(was)}"
                yield Condition("data", "warn", f"{name}.{key} {moved}: other data are read", (name, key))


def _is_one_place(was: str, old: Any, path: str, new: Any) -> bool:
    return isinstance(old, str) and isinstance(new, str) and place_of(was, old) == place_of(path, new)


class EditedSource(NamedTuple):
    """A changed key that names input data, with its path, its old value and its new value."""

    path: tuple[str, str]
    old: Any
    new: Any


def _edited_sources(edit: Edit) -> Iterator[EditedSource]:
    """Yield each key that names input data and that the edit changes. Removed keys are left out."""
    table = str(edit.path[0])
    if (table not in SECTIONS and table != "source") or len(edit.path) > 2:
        return
    old, new = edit.old, edit.new
    if len(edit.path) == 2:  # the edit of one key; else that of a whole table
        old, new = {edit.path[1]: old}, {edit.path[1]: new}
    if not isinstance(new, dict):
        return
    before = old if isinstance(old, dict) else {}
    members = _members(table)
    for key, value in new.items():
        if key in members and members[key].reads and value is not None and value != before.get(key):
            yield EditedSource((table, key), before.get(key), value)


def _members(table: str) -> Members:
    """Return the keys of a section or of a table that names what is released."""
    return members_of(load({**RELEASED, **SECTIONS}[table]))


def sources(path: str, tables: Mapping[str, Any]) -> frozenset[str]:
    """Return the paths and addresses of the private data that commands read for a file at `path`. Paths are resolved to real paths."""
    places = set()
    for name in (*SECTIONS, "source"):
        table = tables.get(name)
        if not isinstance(table, dict):
            continue
        for key in PRIVATE & table.keys():
            value = table[key]
            if isinstance(value, str) and _members(name)[key].reads:
                place = place_of(path, value)
                places.add(f"{place}#{table.get('table', '')}" if "://" in value else place)
    return frozenset(places)


def place_of(path: str, value: str) -> str:
    """Return the real path or the address of the data that a file at `path` names by `value`.

    Links are resolved, so that two spellings of one path have one result. A password in an address is left out.
    """
    if "://" in value or not set("./:") & set(value):
        return without_passwords(value)  # an address, or the name of a data set that comes with dpcli
    file, colon, function = (value, "", "") if "/" in value else value.partition(":")
    return os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(path)), file)) + colon + function


def shared_source_warnings(files: Sequence[Judged]) -> Iterator[JudgedSum]:
    """Yield a warning for each source that files read under different dataset names, as no sum then contains the costs of all files."""
    readers: dict[str, list[Judged]] = {}
    for file in files:
        for source in file.sources:
            readers.setdefault(source, []).append(file)
    for source, reading in sorted(readers.items()):
        names = {file.path: file.written.privacy.dataset for file in reading if file.written is not None}
        if len(set(names.values())) < 2:
            continue
        stated = [f"{escaped_path(path)}: {'no dataset' if name is None else shown(name)}" for path, name in sorted(names.items())]
        place = shown(source) if "://" in source else escaped_path(os.path.relpath(source) if os.path.isabs(source) else source)
        text = f"{place} is read as different datasets ({first_names(stated)}): their costs are not added up"
        datasets = tuple(sorted({name for name in names.values() if name is not None}))
        condition = Condition("together", "warn", text, ())
        yield JudgedSum("data", None, (condition,), reported_at=reading[0].path, datasets=datasets, members=tuple(names))
