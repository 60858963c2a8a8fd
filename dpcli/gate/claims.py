"""Conditions on changes that lower epsilon by a claim and not by noise, which would be the cheapest way past a cap.

judge.py calls `claim_warnings` with the changes of one file since its *base*, the earlier version. A *change* is a set of *edits* that are
only valid together, with its cost if it alone were made to the base (`Priced`). An *edit* is a changed key, or a table that was added or
removed. A *claim* is a statement of the file about data or program that no accountant can check, such as a sensitivity, a sampling scheme
or a partition (`Key.claim` marks these keys). A changed claim gives a warning, for a reviewer to judge. An *entry* is one [[mechanism]]
table of a file. Its *evidence* (`CostEvidence`) says where its cost comes from. From the weakest to the strongest, it is the statement that
the entry is free, a stated number, or noise. An entry whose cost followed from noise at the base and is only stated now is a *restatement*
(`restatements`), which fails unless a waiver covers it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from dpcli.analysis.difference import Priced
from dpcli.analysis.table_changes import LISTS, Edit
from dpcli.base.lazy import load
from dpcli.base.registry import RELEASED, SECTIONS
from dpcli.base.rounding import up
from dpcli.file.keys.annotations import members_of
from dpcli.file.keys.tables import Members
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.parts import part_names
from dpcli.file.toml.findings import Path
from dpcli.file.toml.shown import escaped
from dpcli.gate.blame import edits_in_words, path_of
from dpcli.gate.verdicts import Condition, Standing
from dpcli.mechanisms.spec import CostEvidence

# A rise of epsilon by at most this number of nats counts as none, because two accounts of equal mechanisms may differ by rounding. The
# value was chosen by hand. It decides about warnings alone.
ROUNDING = 1e-3
# The evidence for the cost of a mechanism in words, in the present and in the past tense.
EVIDENCE_NOW = {
    CostEvidence.FREE: "claims to be free",
    CostEvidence.STATED: "states its own cost",
    CostEvidence.PRICED: "has a cost that follows from its noise",
}
EVIDENCE_BEFORE = {
    CostEvidence.FREE: "claimed to be free",
    CostEvidence.STATED: "stated its own cost",
    CostEvidence.PRICED: "had a cost that followed from its noise",
}


def claim_warnings(changes: Sequence[Priced], pipeline: Pipeline) -> Iterator[Condition]:
    """Yield a warning for each change of a claim about data or program that no accountant can check.

    A changed number that raises epsilon gets no warning. Any other change gets one even if it alone does not lower epsilon, because several
    changes may lower it together. For example, entries on disjoint parts of the data together cost only as much as one of them.
    """
    from dpcli.file.pipeline.series import by_name  # imported only if there is a base

    entries = by_name({entry.name: entry for entry in pipeline.mechanisms})
    # In LISTS, an edit without keys adds or removes a whole mechanism or query. Its `new` is None if this was removed.
    edits = [edit for change in changes for edit in change.change.edits]
    removed_kinds = frozenset(edit.section for edit in edits if edit.section in LISTS and not edit.keys and edit.new is None)
    for change in changes:
        claims = list(_claims_in(change, entries, removed_kinds))
        raises_by_number = change.increase > ROUNDING and all(map(_is_numeric, claims))
        if not claims or raises_by_number:
            continue
        if change.epsilon is None:
            effect = "its cost alone cannot be computed"
        else:
            effect = f"alone changes epsilon by {'+' if change.increase > 0.0 else ''}{up(change.increase)}"
        text = f"{edits_in_words(change)}: {effect}, because of a claim about data or program, and not because of noise"
        yield Condition("claim", "warn", text, path_of(change, pipeline))


def _claims_in(change: Priced, entries: Mapping[str, Entry], removed_kinds: Collection[str]) -> Iterator[Edit]:
    """Yield the edits of a change that concern claims.

    `entries` are the current entries by name, and `removed_kinds` has "mechanism" or "query" if the changes remove such a table.
    """
    is_cheap = change.epsilon is not None and change.increase <= ROUNDING
    # Without a count, a mechanism runs once, which is a claim about the program. If a file states epochs in place of steps, or steps in
    # place of epochs, the change has both keys and removes no count.
    edits_one_count = {edit.path[-1] for edit in change.change.edits} in ({"steps"}, {"epochs"})
    for edit in change.change.edits:
        removes_count = edits_one_count and edit.new is None
        if removes_count or _changes_claim(edit, entries) or _adds_claim(edit, entries, removed_kinds, is_cheap):
            yield edit


def _is_numeric(edit: Edit) -> bool:
    """Return whether the old and the new value of an edit are numbers, lists of numbers or absent."""
    old = edit.old if isinstance(edit.old, list) else [edit.old]
    new = edit.new if isinstance(edit.new, list) else [edit.new]
    return all(isinstance(value, int | float | None) for value in (*old, *new))


def _adds_claim(edit: Edit, entries: Mapping[str, Entry], removed_kinds: Collection[str], is_cheap: bool) -> bool:
    """Return whether an edit adds an entry whose low cost depends on a claim.

    Args:
        entries: The current entries by name.
        removed_kinds: "mechanism" or "query" if the changes remove such a table, which the entry may replace. `dpcli release` answers
            queries and enforces their bounds, but the bounds of an entry are only stated: in place of a query it need not be cheap.
        is_cheap: Whether the change raises epsilon by no more than `ROUNDING`.
    """
    if edit.section != "mechanism" or edit.keys or edit.name not in entries:
        return False
    entry = entries[edit.name]
    is_sampled = entry.sampling is not None
    # The increase of this change alone is no criterion here: parts of a partition cost less together than alone, and an entry that replaces
    # another raises epsilon, since the removed one is still counted.
    if entry.spec.evidence == CostEvidence.FREE or entry.partition is not None or (removed_kinds and is_sampled):
        return True
    has_claim = entry.spec.evidence < CostEvidence.PRICED or is_sampled or getattr(entry.spec, "sensitivity", None) is not None
    return has_claim and (is_cheap or "query" in removed_kinds)


def _changes_claim(edit: Edit, entries: Mapping[str, Entry]) -> bool:
    """Return whether an edit changes a claim about data or program. All keys of an entry that states its own cost are such claims.

    So is a key that the entry's current type does not have, such as one that was removed with the earlier type. An edit of a mechanism
    without keys adds or removes the whole entry, which `_adds_claim` judges.
    """
    if edit.section in RELEASED or edit.section in SECTIONS:  # [source] and [[query]] of dpcli release, or a table such as [train]
        return _changes_claim_of_section(edit)
    if edit.section != "mechanism" or not edit.keys or edit.name not in entries:
        return False
    entry, (key, *inner_keys) = entries[edit.name], edit.keys
    if key == "sampling":
        scheme: type = type(entry.sampling)
        members: Members = {} if entry.sampling is None else members_of(scheme)
        inner = inner_keys[0] if inner_keys else "scheme"  # an edit of the whole sampling table counts as one of its scheme
        return inner in members and members[inner].claim
    spec_type: type = type(entry.spec)
    spec_members = members_of(spec_type)  # the keys of the mechanism's type, besides those of every entry
    member = spec_members.get(key) or members_of(Entry).get(key)
    states_cost = key in spec_members and bool(entry.spec.evidence < CostEvidence.PRICED)
    return member is None or member.claim or states_cost


def _changes_claim_of_section(edit: Edit) -> bool:
    """Return whether an edit of [source], of a query or of a section, such as [train], changes a claim about data or program.

    The other keys of these tables are instructions, which commands carry out. A section with a claim counts if it is added or removed.
    """
    members = keys_of_table(edit.section)
    changed = edit.keys[:1]
    if not changed and edit.section in SECTIONS:
        changed = (*(edit.old or ()), *(edit.new or ()))
    return any(key in members and members[key].claim for key in changed)


def standings_of(pipeline: Pipeline) -> dict[str, Standing]:
    """Return the type and the evidence of every entry by name.

    If an entry refers to other entries, its evidence is the weakest evidence among itself and those entries.
    """
    entries = {entry.name: entry for entry in pipeline.mechanisms}
    return {name: Standing(entry.type, _weakest_evidence(entry, entries)) for name, entry in entries.items()}


def _weakest_evidence(entry: Entry, entries: Mapping[str, Entry]) -> CostEvidence:
    parts = (entries[name] for name in part_names(entry.spec) if name in entries)
    return min((entry.spec.evidence, *(_weakest_evidence(part, entries) for part in parts)))


def restatements(before: Mapping[str, Standing], pipeline: Pipeline) -> Iterator[Condition]:
    """Yield a failed condition for each entry whose evidence is weaker than at the base, and a warning for each removed entry.

    For example, a cost that followed from the noise is now only stated. A new entry also fails if it may replace a removed entry that had
    another type and stronger evidence.

    Args:
        before: The types and evidence of the earlier version's entries (`standings_of`).
    """
    from dpcli.file.pipeline.series import counterparts  # imported only if there is a base

    current = standings_of(pipeline)
    # `counterparts` finds the old name of a current entry, and in the other direction the current name of an old one.
    places = {entry.name: ("mechanism", index) for index, entry in enumerate(pipeline.mechanisms)}
    earlier = {name: before[old_name] for name, old_name in counterparts(current, before).items()}
    names_now = counterparts(before, current)
    removed = {name: standing for name, standing in before.items() if name not in names_now}
    for name, standing in current.items():
        present, key = f"{escaped(name)}: it {EVIDENCE_NOW[standing.evidence]}", (*places[name], "type")
        if name in earlier:
            if standing.evidence < earlier[name].evidence:
                yield _restatement(f"{present}, and {_past_words(earlier[name])}", key)
            continue
        for removed_name, old in removed.items():
            if old.type != standing.type and standing.evidence < old.evidence:
                yield _restatement(f"{present}, and {escaped(removed_name)}, which was removed, {_past_words(old)}", key)
    for name, old in removed.items():
        yield Condition(
            "mechanism", "warn", f"{escaped(name)} ({old.type}) was removed: nothing counts its outputs", ("mechanism",)
        )


def _past_words(old: Standing) -> str:
    return f"as {old.type} it {EVIDENCE_BEFORE[old.evidence]}"


def _restatement(message: str, key: Path) -> Condition:
    return Condition("restatement", "fail", f'{message} (allowed with a waiver of "restatement")', key)


def keys_of_table(table: str) -> Members:
    """Return the keys of a table that a command carries out: a section such as [train], [source] or a [[query]]."""
    return members_of(load({**RELEASED, **SECTIONS}[table]))
