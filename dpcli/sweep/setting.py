"""The settings that a sweep tries: a grid's combinations, or single ones, each judged as the file that it would make."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dpcli.file.pipeline.consistency import check
from dpcli.file.pipeline.document import read_document
from dpcli.file.pipeline.series import stood_in
from dpcli.file.toml.findings import Fault, Findings, Path, TooMany
from dpcli.file.toml.shown import key_text, shown
from dpcli.file.toml.write import value_text
from dpcli.sweep.keys import KeyChange, changed, spelled, target
from dpcli.sweep.settings import Sweep

UNKNOWN = "DP002"  # the rule about keys, and not their values
MOST = 1000  # settings, which are judged one by one


@dataclass(frozen=True, slots=True)
class Setting:
    """What differs from the file. epsilon: the one that it is for; None for every one. place: where the file says so."""

    changes: tuple[KeyChange, ...]
    epsilon: float | None = None
    place: Path = ("sweep",)

    @property
    def label(self) -> str:
        """Its values, by the last part of each key, the whole key where others end alike."""
        lasts = [change.dotted.rpartition(".")[2] for change in self.changes]
        names = [last if lasts.count(last) == 1 else change.dotted for last, change in zip(lasts, self.changes, strict=True)]
        pairs = (f"{name} {value_text(change.value)}" for name, change in zip(names, self.changes, strict=True))
        return ", ".join(pairs) or "as in the file"

    def of(self, tables: Any) -> Any:
        """The tables with these values."""
        for change in self.changes:
            tables = changed(tables, change.target, change.value)
        return tables


def settings_of(sweep: Sweep, tables: Mapping[str, Any], findings: Findings) -> list[Setting]:
    """Every setting of the sweep, with a finding for each that is none; `tables` are those of a valid file."""
    try:
        found = list(_single(sweep, tables, findings) if sweep.setting else _grid(sweep.grid or {}, tables, findings))
        if not findings.items:
            _judge(found, tables, findings)
            _cover(sweep, found, tables, findings)
    except TooMany:
        return []
    return found


def judge_values(sweep: Sweep, tables: Mapping[str, Any], findings: Findings) -> None:
    """A finding for whatever is wrong with a value of a grid, or with a single setting, in a file that is valid otherwise.

    Each value of a grid is judged once, beside the first one of each other key: in the time of reading the file that often.
    `settings_of` judges all combinations.
    """
    settings = list(_single(sweep, tables, findings)) if sweep.setting else _each_value(_axes(sweep.grid or {}, tables, findings))
    if not findings.items:
        _judge(settings, tables, findings)
        if sweep.setting:
            _cover(sweep, settings, tables, findings)


def _each_value(axes: list[tuple[KeyChange, ...]]) -> list[Setting]:
    """The first combination, then each further value in it."""
    first = tuple(axis[0] for axis in axes if axis)
    further = ((*first[:index], change, *first[index + 1 :]) for index, axis in enumerate(axes) for change in axis[1:])
    return [Setting(changes, place=("sweep", "grid")) for changes in (first, *further)]


def _grid(grid: Mapping[str, Any], tables: Mapping[str, Any], findings: Findings) -> Iterator[Setting]:
    yield from (Setting(chosen, place=("sweep", "grid")) for chosen in itertools.product(*_axes(grid, tables, findings)))


def _axes(grid: Mapping[str, Any], tables: Mapping[str, Any], findings: Findings) -> list[tuple[KeyChange, ...]]:
    """The changes that each key of a grid makes; none, with a finding, where they make too many combinations."""
    axes = [_axis(dotted, place, values, tables, findings) for dotted, place, values in spelled(grid, ("sweep", "grid"))]
    if math.prod(map(len, axes)) <= MOST:
        return axes
    findings.add("DP004", ("sweep", "grid"), f"at most {MOST:,} combinations", f"{math.prod(map(len, axes)):,}")
    return []


def _axis(dotted: str, place: Path, values: Any, tables: Mapping[str, Any], findings: Findings) -> tuple[KeyChange, ...]:
    path = target(dotted, place, tables, findings, *(values if type(values) is list else ()))
    if type(values) is not list:
        findings.add("DP003", place, "a list of values", shown(values))
        return ()
    if not values or any(value in values[:index] for index, value in enumerate(values)):
        findings.add("DP004", place, "one or more different values", "one of them twice" if values else "an empty list")
    return tuple(KeyChange(dotted, path, value, (*place, index)) for index, value in enumerate(values))


def _single(sweep: Sweep, tables: Mapping[str, Any], findings: Findings) -> Iterator[Setting]:
    for index, table in enumerate(sweep.setting):
        place: Path = ("sweep", "setting", index)
        epsilon = _epsilon(table, place, sweep, findings)
        stated = spelled({key: value for key, value in table.items() if key != "epsilon"}, place)
        changes = (
            KeyChange(dotted, target(dotted, where, tables, findings, value), value, where) for dotted, where, value in stated
        )
        yield Setting(tuple(changes), epsilon, place)


def _epsilon(table: Mapping[str, Any], place: Path, sweep: Sweep, findings: Findings) -> float | None:
    value = table.get("epsilon")
    if value is None or (type(value) in (int, float) and value in sweep.epsilon):
        return None if value is None else float(value)
    findings.add("DP004", (*place, "epsilon"), "one of sweep.epsilon", shown(value))
    return None


def _cover(sweep: Sweep, settings: list[Setting], tables: Mapping[str, Any], findings: Findings) -> None:
    """No epsilon without a setting, no setting twice: two that make one file would share its runs. A grid's values differ already."""
    for epsilon in sweep.epsilon:
        if not any(setting.epsilon in (None, epsilon) for setting in settings):
            findings.add("DP005", ("sweep", "setting"), f"a setting for epsilon = {epsilon!r}", "none")
    files = [setting.of(tables) for setting in settings] if sweep.setting else []
    for index, file in enumerate(files):
        for other in range(index):
            if files[other] == file and (
                None in (pair := (settings[index].epsilon, settings[other].epsilon)) or pair[0] == pair[1]
            ):
                place, label = settings[index].place, settings[index].label
                findings.add("DP005", place, "a setting that no other repeats", f"{label} again")
                break


def _judge(settings: list[Setting], tables: Mapping[str, Any], findings: Findings) -> None:
    """A finding, at the key of the sweep that causes it, for whatever is wrong with the file of a setting; each once."""
    said, known = set(), stood_in(tables)  # before the changes: only the file may leave a number to be solved for
    for setting in settings:
        for change, other in _overlapping(setting):
            if (change.place, "") not in said:
                said.add((change.place, ""))
                findings.add("DP005", change.place, f"{change.dotted} once in a setting", f"{other.dotted} as well")
        for fault in _faults(setting.of(known)):
            place = _cause(setting, fault)
            if (place, fault.message) not in said:
                said.add((place, fault.message))
                # Where no change is about the key, the place does not name it.
                named = f"{key_text(fault.key)}: {fault.expected}" if place == setting.place else fault.expected
                findings.add(fault.rule, place, named, fault.found, fault.hint)


def _overlapping(setting: Setting) -> Iterator[tuple[KeyChange, KeyChange]]:
    """Changes of what another one changes, or of a part of it: one of them would be named and not made."""
    for change, other in itertools.combinations(setting.changes, 2):
        shorter = min(len(change.target), len(other.target))
        if shorter and change.target[:shorter] == other.target[:shorter]:
            yield other, change


def _faults(tables: Mapping[str, Any]) -> list[Fault]:
    """What is wrong with a whole file, [train] included, and [sweep] not: a run has none."""
    findings, tables = Findings(), {name: table for name, table in tables.items() if name != "sweep"}
    with suppress(TooMany):
        check(tables, read_document(tables, findings), findings)
    return findings.items


def _cause(setting: Setting, fault: Fault) -> Path:
    """Where the sweep states the change that a finding is about, its key or its value; where it states the setting, if about none."""
    for change in setting.changes:
        if change.target[: len(fault.key)] == fault.key or fault.key[: len(change.target)] == change.target:
            return change.key if fault.rule == UNKNOWN and len(fault.key) <= len(change.target) else change.place
    return setting.place
