"""Changes that make a file cheaper by what it says of data and program: no noise is added, and no accountant can tell if it is true."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dpcli.changes import Edit
from dpcli.difference import Priced
from dpcli.gate.blame import edits, path_of
from dpcli.gate.verdicts import Condition
from dpcli.pipeline.annotations import members_of
from dpcli.pipeline.member import Members
from dpcli.pipeline.model import Entry, Pipeline
from dpcli.rounding import up

PRICED = 2  # evidence of a charge that a theorem prices
ROUNDING = 1e-3  # nats by which two accounts of one thing may differ


def claims(changes: Sequence[Priced], pipeline: Pipeline) -> Iterator[Condition]:
    """A warning for each change of a claim that does not raise epsilon alone: two that do nothing alone may do much together."""
    entries = {entry.name: entry for entry in pipeline.mechanisms}
    for one in changes:
        if one.increase > ROUNDING or not any(_is_claim(edit, entries) for edit in one.change.edits):
            continue
        effect = f"changes epsilon by {up(one.increase)} alone" if one.increase <= ROUNDING else "cannot be priced alone"
        text = f"{edits(one)}: {effect}, by what the file says of its data or program, and not by noise"
        yield Condition("claim", "warn", text, path_of(one, pipeline))


def _is_claim(edit: Edit, entries: Mapping[str, Entry]) -> bool:
    """Whether the key states what data or program are; every number of a guarantee that somebody states is such a key."""
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
