"""Dotted keys of a sweep: which value of the file each one changes, and which may be changed at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dpcli.file.keys.annotations import members_of
from dpcli.file.keys.tables import KeyTable, SelectedTable
from dpcli.file.pipeline.document import TOP
from dpcli.file.pipeline.model import Entry
from dpcli.file.pipeline.section import MECHANISMS, SectionTable
from dpcli.file.toml.findings import Findings, Path


@dataclass(frozen=True, slots=True)
class KeyChange:
    """One value for one key of the file. place: where the sweep states the value, in a list or alone."""

    dotted: str
    target: Path
    value: Any
    place: Path

    @property
    def key(self) -> Path:
        """Where the sweep states the key."""
        return self.place[:-1] if isinstance(self.place[-1], int) else self.place


def spelled(table: Mapping[str, Any], place: Path, prefix: str = "") -> Iterator[tuple[str, Path, Any]]:
    """Every dotted key with its place and its value; `a.b = 1` is the same as `"a.b" = 1`."""
    for key, value in table.items():
        if type(value) is dict:
            yield from spelled(value, (*place, key), f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", (*place, key), value


def target(dotted: str, place: Path, tables: Mapping[str, Any], findings: Findings, *values: Any) -> Path:
    """The path of the value that a dotted key changes; () after a finding where there is none that may be changed to the values."""
    head, _, rest = dotted.partition(".")
    path = _in_train(rest) if head == "train" else _in_mechanism(rest, tables) if head == "mechanism" else ()
    if not path:
        findings.add("DP002", place, "train.KEY or mechanism.NAME.KEY, with the name of an entry of the file", f"'{dotted}'")
    elif path[-1] == "" or not _varies(path, tables, values):
        findings.add("DP005", place, "a key that may differ between the runs of a sweep", f"'{dotted}'")
        return ()
    return path


def _varies(path: Path, tables: Mapping[str, Any], values: Iterable[Any]) -> bool:
    """Whether a run of a sweep may have another value there, as its key and those of the tables around and in it say.

    Edge cases: a key that no table of its kind has is said to be unknown elsewhere, and passes.
    """
    if path[0] == "train":
        kind = TOP["train"].kind
        assert isinstance(kind, SectionTable) and isinstance(kind.table, SelectedTable)
        members, keys = kind.table.members(kind.table.selected(tables.get("train", {}))), path[1:]
    else:
        entry = tables["mechanism"][path[1]]
        members, keys = {**members_of(Entry), **MECHANISMS.own(entry["type"])}, path[2:]
    member = members.get(str(keys[0]))
    return member is None or (member.varies and all(_inner_varies(member.kind, keys[1:], value) for value in [None, *values]))


def _inner_varies(kind: Any, keys: Path, value: Any) -> bool:
    """The same within a table, whichever word selects it."""
    if not isinstance(kind, SelectedTable | KeyTable):
        return True
    if not keys:
        return type(value) is not dict or all(_inner_varies(kind, (key,), inner) for key, inner in value.items())
    classes = [kind.members] if isinstance(kind, KeyTable) else [kind.own(name) for name in kind.registry]
    found = [members[str(keys[0])] for members in classes if str(keys[0]) in members]
    return all(member.varies and _inner_varies(member.kind, keys[1:], value) for member in found)


def _in_train(rest: str) -> Path:
    return ("train", *rest.split(".")) if rest else ()


def _in_mechanism(rest: str, tables: Mapping[str, Any]) -> Path:
    """Names may hold dots: the longest one that fits."""
    names = {entry["name"]: index for index, entry in enumerate(tables["mechanism"])}
    fitting = [name for name in names if rest.startswith(f"{name}.")]
    name = max(fitting, key=len, default=None)
    return ("mechanism", names[name], *rest[len(name) + 1 :].split(".")) if name is not None else ()


def changed(tables: Any, path: Path, value: Any) -> Any:
    """The same tables with another value at `path`; the originals stay as they are."""
    if not path:
        return value
    head, *rest = path
    if isinstance(tables, list):
        return [changed(item, tuple(rest), value) if index == head else item for index, item in enumerate(tables)]
    inner = tables.get(head, {})
    return {**tables, head: changed(inner if isinstance(inner, dict | list) else {}, tuple(rest), value)}
