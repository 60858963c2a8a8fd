"""The tables of the file that one command reads, such as [train]: every command checks them, none pays for those that are not there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dpcli.fields import Constraint
from dpcli.keys.annotations import kind_of
from dpcli.keys.kinds import KeyPlace, Kind
from dpcli.pipeline.gate_keys import under
from dpcli.registry import JUDGED_IN_FILE, SECTIONS, load
from dpcli.toml.findings import Findings, Path, Problem


@dataclass(frozen=True, slots=True)
class SectionTable:
    """A table that becomes the registered dataclass of its name, which is imported where a file has the table."""

    name: str
    text: str = "a table"

    @property
    def table(self) -> Kind:
        return kind_of(load(SECTIONS[self.name]))

    @property
    def takes(self) -> str:
        return "table"

    def read(self, value: Any, place: KeyPlace) -> Any:
        if type(value) is not dict:
            place.wrong_type(self.text, value)
        return self.table.read(value, place)

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return self.table.schema(rule)


def section_problems(values: Mapping[str, Any]) -> Iterator[Problem]:
    """What the keys of each section do not agree on among themselves."""
    for name in SECTIONS:
        if name in values:
            from dpcli.keys.idle import idle

            yield from under((name,), idle(values[name]))
            yield from under((name,), values[name].problems())


def judge_sections(values: Mapping[str, Any], tables: Mapping[str, Any], findings: Findings) -> None:
    """Add what is wrong with a section as part of its file, which is valid but for that."""
    for name, target in JUDGED_IN_FILE.items():
        if name in values:
            load(target)(values[name], tables, findings)


def in_section(path: Path) -> bool:
    """Whether a key stands in a table that no number depends on, as another command reads it."""
    return bool(path) and path[0] in SECTIONS
