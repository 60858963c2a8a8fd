"""Which data a file has a command read: no number depends on it, and whose data they are does."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dpcli.analysis.difference import Edit, Priced
from dpcli.base.lazy import load
from dpcli.base.registry import RELEASED, SECTIONS
from dpcli.file.keys.annotations import members_of
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.toml.findings import Path
from dpcli.file.toml.limits import escaped_path
from dpcli.file.toml.shown import shown
from dpcli.gate.one_source import place_of
from dpcli.gate.verdicts import Condition

INSIDE = frozenset({"table"})  # of the keys that say what is read, that within a place and not a place
NONE = "and the file names no dataset (privacy.dataset), by which what is released of them is added up"


def other_data(changes: Sequence[Priced], pipeline: Pipeline, path: str = "", was: str | None = None) -> Iterator[Condition]:
    """A warning for each key by which other data are read than at the base, whatever epsilon does.

    path, was: of the file now and at the base. One place in another spelling is the same data.
    """
    edits = [edit for one in changes for edit in one.change.edits]
    renamed = any(edit.path == ("privacy", "dataset") for edit in edits)
    name = pipeline.privacy.dataset
    meant = "" if renamed else f", {NONE if name is None else f'under the dataset {shown(name)} as before'}"
    for edit in edits:
        for key, old, new in _sources(edit):
            if key[-1] in INSIDE or not _one_place(was or path, old, path, new):
                before = "none" if old is None else shown(old)
                yield Condition("data", "warn", f"{_name(key)} {before} -> {shown(new)}: other data are read{meant}", key)


def moved_data(changes: Sequence[Priced], tables: Mapping[str, Any], path: str, was: str) -> Iterator[Condition]:
    """A warning for each key that is as it was and leads elsewhere, since the file was moved from `was` to `path`.

    Where the old place is empty and the new one is not, the data were moved along.
    """
    edited = {edit.path[:2] for one in changes for edit in one.change.edits}
    for table in (*SECTIONS, "source"):
        whole = tables.get(table)
        if not isinstance(whole, dict):
            continue
        for key, member in members_of(load({**RELEASED, **SECTIONS}[table])).items():
            value = whole.get(key)
            if not member.reads or key in INSIDE or not {(table,), (table, key)}.isdisjoint(edited) or not isinstance(value, str):
                continue
            old, new = place_of(was, value), place_of(path, value)
            if old != new and (os.path.exists(old) or not os.path.exists(new)):
                moved = f"{shown(value)} is read beside the file, which was moved from {escaped_path(was)}"
                yield Condition("data", "warn", f"{table}.{key} {moved}: other data are read", (table, key))


def _one_place(was: str, old: Any, path: str, new: Any) -> bool:
    return isinstance(old, str) and isinstance(new, str) and place_of(was, old) == place_of(path, new)


def _name(key: Path) -> str:
    return ".".join(map(str, key))


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
