"""Changes that make a file cheaper by what it says of data and program: no noise is added, and no accountant can tell if it is true."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from dpcli.analysis.difference import LISTS, Edit, Priced
from dpcli.base.lazy import load
from dpcli.base.registry import RELEASED, SECTIONS
from dpcli.base.rounding import up
from dpcli.file.keys.annotations import members_of
from dpcli.file.keys.tables import Members
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.gate.blame import edits, path_of
from dpcli.gate.verdicts import Condition

PRICED = 2  # evidence of a charge that a theorem prices
ROUNDING = 1e-3  # nats by which two accounts of one thing may differ


def claims(changes: Sequence[Priced], pipeline: Pipeline) -> Iterator[Condition]:
    """A warning for each change of a claim, but for a number that raises epsilon.

    Two changes that do nothing alone may do much together; so may one that raises epsilon alone, where it is a word or a table: entries
    on disjoint parts are each a little dearer alone, and all of them cost what one does.
    """
    from dpcli.file.pipeline.series import by_name  # only against a base

    entries = by_name({entry.name: entry for entry in pipeline.mechanisms})
    gone = frozenset(
        str(edit.path[0])
        for one in changes
        for edit in one.change.edits
        if edit.path[0] in LISTS and len(edit.path) == 2 and edit.new is None
    )
    for one in changes:
        cheap = one.epsilon is not None and one.increase <= ROUNDING
        uncounted = {edit.path[-1] for edit in one.change.edits} in ({"steps"}, {"epochs"})  # not one of them in place of the other
        stated = [
            edit
            for edit in one.change.edits
            if _is_claim(edit, entries) or _comes_in(edit, entries, gone, cheap) or (uncounted and edit.new is None)
        ]
        if not stated or (one.increase > ROUNDING and all(map(_is_number, stated))):
            continue
        sign = "+" if one.increase > 0.0 else ""
        effect = "cannot be priced alone" if one.epsilon is None else f"changes epsilon by {sign}{up(one.increase)} alone"
        text = f"{edits(one)}: {effect}, by what the file says of its data or program, and not by noise"
        yield Condition("claim", "warn", text, path_of(one, pipeline))


def _says_whose(edit: Edit) -> bool:
    """Whether a key of [source], of a query or of a section states what data or program are: the rest of them is done as they say. So does
    a section that comes or goes with such a key."""
    members = members_of(load({**RELEASED, **SECTIONS}[str(edit.path[0])]))
    if len(edit.path) == 1 and edit.path[0] in SECTIONS:
        return any(key in members and members[key].claim for table in (edit.old, edit.new) for key in table or ())
    stated = edit.path[2 if edit.path[0] in LISTS else 1 :][:1]  # also of a table below it
    return any(key in members and members[key].claim for key in stated)


def _is_number(edit: Edit) -> bool:
    values = (each for value in (edit.old, edit.new) for each in (value if isinstance(value, list) else [value]))
    return all(isinstance(value, int | float | None) for value in values)


def _comes_in(edit: Edit, entries: Mapping[str, Entry], gone: Collection[str], cheap: bool) -> bool:
    """Whether an entry is new that costs nothing by its own word, or, where another one is gone, less by what it says.

    gone: whether the change takes mechanisms or queries away, whose place it may take: what bounds a query, dpcli release sees to, and
    of an entry somebody states it. cheap: whether it costs next to nothing.
    """
    if edit.path[0] != "mechanism" or len(edit.path) != 2 or edit.path[1] not in entries:
        return False
    entry = entries[edit.path[1]]
    sampled = entry.sampling is not None
    told = entry.spec.evidence < PRICED or sampled or getattr(entry.spec, "sensitivity", None) is not None
    return (
        entry.spec.evidence == 0 or entry.partition is not None or (bool(gone) and sampled) or (told and (cheap or "query" in gone))
    )


def _is_claim(edit: Edit, entries: Mapping[str, Entry]) -> bool:
    """Whether the key states what data or program are; every number of a guarantee that somebody states is such a key."""
    if edit.path[0] in RELEASED or edit.path[0] in SECTIONS:
        return _says_whose(edit)
    if edit.path[0] != "mechanism" or len(edit.path) < 3 or edit.path[1] not in entries:
        return False
    entry, key = entries[edit.path[1]], edit.path[2]
    if key == "sampling":
        scheme: type = type(entry.sampling)
        members: Members = {} if entry.sampling is None else members_of(scheme)
        inner = edit.path[3] if len(edit.path) > 3 else "scheme"
        return inner in members and members[inner].claim
    kind: type = type(entry.spec)
    own = members_of(kind)
    member = own.get(key) or members_of(Entry).get(key)
    return member is None or member.claim or (key in own and bool(entry.spec.evidence < PRICED))
