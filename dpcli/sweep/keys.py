"""Dotted keys of a sweep: which value of the file each one changes, and which may be changed at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dpcli.keys.tables import SelectedTable
from dpcli.pipeline.document import TOP
from dpcli.pipeline.section import SectionTable
from dpcli.toml.findings import Findings, Path

FIXED_IN_MECHANISM = frozenset(
    {
        "name",
        "type",
        "noise_multiplier",
        "sigma",
        "scale",
        "sensitivity",
        "l2_sensitivity",
        "dimension",
        "partition",
        "mechanism",
        "mechanisms",
        "trials",
        "epsilon",
        "delta",
    }
)


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


def target(dotted: str, place: Path, tables: Mapping[str, Any], findings: Findings) -> Path:
    """The path of the value that a dotted key changes; () after a finding where there is none that may be changed."""
    head, _, rest = dotted.partition(".")
    path = _in_train(rest) if head == "train" else _in_mechanism(rest, tables) if head == "mechanism" else ()
    if not path:
        findings.add("DP002", place, "train.KEY or mechanism.NAME.KEY, with the name of an entry of the file", f"'{dotted}'")
    elif path[-1] == "" or (_fixed_in_train(path, tables) if head == "train" else path[2] in FIXED_IN_MECHANISM):
        findings.add("DP005", place, "a key that may differ between the runs of a sweep", f"'{dotted}'")
        return ()
    return path


def _fixed_in_train(path: Path, tables: Mapping[str, Any]) -> bool:
    """Whether [train] has the key, and no run of a sweep another value for it than the others."""
    kind, key = TOP["train"].kind, path[1]
    assert isinstance(kind, SectionTable) and isinstance(kind.table, SelectedTable)
    member = kind.table.members(kind.table.selected(tables.get("train", {}))).get(str(key))
    return member is not None and not member.varies


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
