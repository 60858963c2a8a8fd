"""Which data a file has a command read: no number depends on it, and whose data they are does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dpcli.analysis.changes import Edit
from dpcli.analysis.difference import Priced
from dpcli.gate.verdicts import Condition
from dpcli.keys.annotations import members_of
from dpcli.pipeline.model import Pipeline
from dpcli.registry import RELEASED, SECTIONS, load
from dpcli.toml.findings import Path
from dpcli.toml.shown import shown

NONE = "and the file names no dataset (privacy.dataset), by which what is released of them is added up"


def other_data(changes: Sequence[Priced], pipeline: Pipeline) -> Iterator[Condition]:
    """A warning for each key by which other data are read than at the base, whatever epsilon does."""
    edits = [edit for one in changes for edit in one.change.edits]
    renamed = any(edit.path == ("privacy", "dataset") for edit in edits)
    name = pipeline.privacy.dataset
    meant = "" if renamed else f", {NONE if name is None else f'under the dataset {shown(name)} as before'}"
    for edit in edits:
        for path, old, new in _sources(edit):
            was = "none" if old is None else shown(old)
            yield Condition("data", "warn", f"{'.'.join(map(str, path))} {was} -> {shown(new)}: other data are read{meant}", path)


def _sources(edit: Edit) -> Iterator[tuple[Path, Any, Any]]:
    """Place, old and new value of each key that says what is read; of one that is gone nothing is read."""
    table = str(edit.path[0])
    if table not in SECTIONS and table != "source":
        return
    members = members_of(load({**RELEASED, **SECTIONS}[table]))
    old, new = ({edit.path[1]: value} if len(edit.path) == 2 else value for value in (edit.old, edit.new))
    if len(edit.path) > 2 or not isinstance(new, dict):
        return
    before = old if isinstance(old, dict) else {}
    for key, value in new.items():
        if key in members and members[key].reads and value is not None and value != before.get(key):
            yield (table, key), before.get(key), value
