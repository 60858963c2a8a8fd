"""Files that read the same private data and do not say so alike: under several names of datasets, what they release is not added up."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dpcli.base.lazy import load
from dpcli.base.registry import RELEASED, SECTIONS
from dpcli.file.keys.annotations import members_of
from dpcli.file.toml.limits import escaped_path
from dpcli.file.toml.shown import shown, without_passwords
from dpcli.gate.judgement import Judged, JudgedTogether
from dpcli.gate.verdicts import Condition

PRIVATE = frozenset({"data", "votes", "path", "url"})  # of the keys that say what is read, those of what is not declared public


def sources(path: str, tables: Mapping[str, Any]) -> frozenset[str]:
    """The private data that the tables of a file at `path` have commands read; a file of data by where it is."""
    return frozenset(
        _place(path, value, table)
        for name in (*SECTIONS, "source")
        if isinstance(table := tables.get(name), dict) and not PRIVATE.isdisjoint(table)
        for key, value in table.items()
        if key in PRIVATE and isinstance(value, str) and members_of(load({**RELEASED, **SECTIONS}[name]))[key].reads
    )


def _place(path: str, value: str, table: Mapping[str, Any]) -> str:
    return f"{place_of(path, value)}#{table.get('table', '')}" if "://" in value else place_of(path, value)


def place_of(path: str, value: str) -> str:
    """Where the data are that a file at `path` names so, whatever the spelling: links are followed."""
    if "://" in value or not set("./:") & set(value):
        return without_passwords(value)  # an address, or data that dpcli itself has
    file, colon, function = (value, "", "") if "/" in value else value.partition(":")
    return os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(path)), file)) + colon + function


def one_source(files: Sequence[Judged]) -> Iterator[JudgedTogether]:
    """A warning for each source that files read as different datasets, of which one at least has a name."""
    from dpcli.gate.totals import NAME, listed  # which adds up: only where files name datasets

    readers: dict[str, list[Judged]] = {}
    for file in files:
        for source in file.sources:
            readers.setdefault(source, []).append(file)
    for source, found in sorted(readers.items()):
        names = {file.path: file.own.privacy.dataset for file in found if file.own is not None}
        if len(set(names.values())) < 2:
            continue
        said = [f"{escaped_path(path)}: {'no dataset' if name is None else shown(name)}" for path, name in sorted(names.items())]
        place = shown(source) if "://" in source else escaped_path(os.path.relpath(source) if os.path.isabs(source) else source)
        text = f"{place} is read as different datasets ({listed(said)}): what they release is not added up"
        datasets = tuple(sorted({name for name in names.values() if name is not None}))
        yield JudgedTogether(
            "data", None, (Condition(NAME, "warn", text, ()),), at=found[0].path, datasets=datasets, members=tuple(names)
        )
