"""Conditions on the input data: a file must read the data of the base, and files that read the same data must name one dataset.

Otherwise the outputs may be about other people, or a sum over a dataset lacks the cost of some files. A key that names input is marked
where it is declared (`Key.names_data`). Paths are compared by the places to which they lead from their file (`place_of`), so that a moved
file may lead to other data by an unchanged key. All conditions here are warnings: the gate does not open the data. A *change* (`Priced`) is
a set of edits since the base, the earlier version of the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dpcli.analysis.difference import Priced
from dpcli.analysis.table_changes import Edit
from dpcli.base.registry import SECTIONS
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.toml.limits import escaped_path
from dpcli.file.toml.shown import first_names, shown, without_passwords
from dpcli.gate.claims import keys_of_table
from dpcli.gate.verdicts import Condition, Judged, JudgedSum

PRIVATE = frozenset({"data", "votes", "path", "url"})  # keys that name private input; other keys name public data
INSIDE = frozenset({"table"})  # keys that name a part of an input, such as a table of a database, and no path
TABLES = (*SECTIONS, "source")  # tables that can name input data: those of commands, such as [train], and [source] of dpcli release
UNNAMED = "and the file names no dataset (privacy.dataset), under which the outputs could be added up"


def other_data_warnings(
    changes: Sequence[Priced], pipeline: Pipeline, path: str = "", path_at_base: str | None = None
) -> Iterator[Condition]:
    """Yield a warning for each key by which the file reads other data than at the base. Two spellings of one path mean the same data.

    Args:
        path: The current path of the file.
        path_at_base: The path of the file at the base; None if it was not renamed.
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
            if source.path[-1] in INSIDE or not _is_same_place(path_at_base or path, source.old, path, source.new):
                before = "none" if source.old is None else shown(source.old)
                text = f"{'.'.join(source.path)} {before} -> {shown(source.new)}: other data are read{dataset_words}"
                yield Condition("data", "warn", text, source.path)


class EditedSource(NamedTuple):
    """A changed key that names input data."""

    path: tuple[str, str]
    old: Any
    new: Any


def _edited_sources(edit: Edit) -> Iterator[EditedSource]:
    """Yield each key that names input data and that the edit changes. Removed keys are left out."""
    table = edit.section
    if table not in TABLES or len(edit.keys) > 1:
        return
    old, new = edit.old, edit.new
    if edit.keys:  # the edit is about one key, and not about the table
        (key,) = edit.keys
        old, new = {key: old}, {key: new}
    if not isinstance(new, dict):
        return
    before = old if isinstance(old, dict) else {}
    members = keys_of_table(table)
    for key, value in new.items():
        if key in members and members[key].names_data and value is not None and value != before.get(key):
            yield EditedSource((table, key), before.get(key), value)


def _is_same_place(old_path: str, old: Any, path: str, new: Any) -> bool:
    """Return whether the value `old` in the file at `old_path` names the same data as `new` in the file at `path`."""
    return isinstance(old, str) and isinstance(new, str) and place_of(old_path, old) == place_of(path, new)


def moved_data_warnings(changes: Sequence[Priced], tables: Mapping[str, Any], path: str, old_path: str) -> Iterator[Condition]:
    """Yield a warning for each unchanged key that leads to other data because the file was moved from `old_path` to `path`.

    There is no warning if the data were moved with the file, that is, if they exist at the new place and no longer at the old one.
    """
    edited = {edit.path[:2] for change in changes for edit in change.change.edits}
    for name in TABLES:
        table = tables.get(name)
        if not isinstance(table, dict):
            continue
        for key, member in keys_of_table(name).items():
            value = table.get(key)
            is_edited = (name,) in edited or (name, key) in edited
            if not member.names_data or key in INSIDE or is_edited or not isinstance(value, str):
                continue
            old, new = place_of(old_path, value), place_of(path, value)
            if old != new and (os.path.exists(old) or not os.path.exists(new)):
                moved = f"{shown(value)} is relative to the file, which was moved from {escaped_path(old_path)}"
                yield Condition("data", "warn", f"{name}.{key} {moved}: other data are read", (name, key))


def sources(path: str, tables: Mapping[str, Any]) -> frozenset[str]:
    """Return the paths and addresses of the private data that commands read for a file at `path`. Paths are resolved to real paths.

    Two tables of one database are different data, so an address is followed by `#` and the name of the table.
    """
    places = set()
    for name in TABLES:
        table = tables.get(name)
        if not isinstance(table, dict):
            continue
        for key in PRIVATE & table.keys():
            value = table[key]
            if isinstance(value, str) and keys_of_table(name)[key].names_data:
                place = place_of(path, value)
                places.add(f"{place}#{table.get('table', '')}" if "://" in value else place)
    return frozenset(places)


def place_of(path: str, value: str) -> str:
    """Return the real path or the address of the data that a file at `path` names by `value`.

    Links are resolved, so that two spellings of one path have one result. A password in an address is left out.
    """
    if "://" in value or not set("./:") & set(value):
        return without_passwords(value)  # an address, or the name of a data set that comes with dpcli
    # A value is a path, or "module:function" for a function in a Python module.
    file, colon, function = (value, "", "") if "/" in value else value.partition(":")
    return os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(path)), file)) + colon + function


def shared_source_warnings(files: Sequence[Judged]) -> Iterator[JudgedSum]:
    """Yield a warning for each source that files read under different dataset names. No sum then contains the costs of all files."""
    readers: dict[str, list[Judged]] = {}
    for file in files:
        for source in file.sources:
            readers.setdefault(source, []).append(file)
    for source, files_with_source in sorted(readers.items()):
        names = {file.path: file.written.privacy.dataset for file in files_with_source if file.written is not None}
        if len(set(names.values())) < 2:
            continue
        stated = [f"{escaped_path(path)}: {'no dataset' if name is None else shown(name)}" for path, name in sorted(names.items())]
        place = shown(source) if "://" in source else escaped_path(os.path.relpath(source) if os.path.isabs(source) else source)
        text = f"{place} is read as different datasets ({first_names(stated)}): their costs are not added up"
        datasets = tuple(sorted({name for name in names.values() if name is not None}))
        condition = Condition("together", "warn", text, ())
        yield JudgedSum("data", None, (condition,), reported_at=files_with_source[0].path, datasets=datasets, members=tuple(names))
