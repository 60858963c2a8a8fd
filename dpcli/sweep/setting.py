"""The settings that a sweep tries: a grid's combinations, or single ones, each judged as the file that it would make.

A dotted key names the value of the file that it changes, where runs of a sweep may differ in it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dpcli.file.keys.annotations import members_of
from dpcli.file.keys.tables import KeyTable, SelectedTable
from dpcli.file.pipeline.canonical import TOP, read_document
from dpcli.file.pipeline.consistency import check
from dpcli.file.pipeline.model import Entry
from dpcli.file.pipeline.section import MECHANISMS, SectionTable
from dpcli.file.pipeline.series import stood_in
from dpcli.file.toml.findings import Fault, Findings, Path, TooMany
from dpcli.file.toml.shown import key_text, shown
from dpcli.file.toml.write import value_text
from dpcli.sweep.sweep_settings import Sweep


@dataclass(frozen=True, slots=True)
class KeyChange:
    """A value for one key of the file. place: where the sweep states the value, in a list or alone."""

    dotted: str
    target: Path
    value: Any
    place: Path

    @property
    def key(self) -> Path:
        """Return where the sweep states the key."""
        return self.place[:-1] if isinstance(self.place[-1], int) else self.place


def spelled(table: Mapping[str, Any], place: Path, prefix: str = "") -> Iterator[tuple[str, Path, Any]]:
    """Yield every dotted key with its place and its value; `a.b = 1` is the same as `"a.b" = 1`."""
    for key, value in table.items():
        if type(value) is dict:
            yield from spelled(value, (*place, key), f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", (*place, key), value


def target(dotted: str, place: Path, tables: Mapping[str, Any], findings: Findings, *values: Any) -> Path:
    """Return the path of the value that a dotted key changes; () after a finding where there is none that may be changed so."""
    head, _, rest = dotted.partition(".")
    path = _in_train(rest) if head == "train" else _in_mechanism(rest, tables) if head == "mechanism" else ()
    if not path:
        findings.add("DP002", place, "train.KEY or mechanism.NAME.KEY, with the name of an entry of the file", f"'{dotted}'")
    elif path[-1] == "" or not _varies(path, tables, values):
        findings.add("DP005", place, "a key that may differ between the runs of a sweep", f"'{dotted}'")
        return ()
    return path


def _varies(path: Path, tables: Mapping[str, Any], values: Iterable[Any]) -> bool:
    """Return whether a run may have another value there, as its key and those of the tables around and in it say.

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
    """Return whether a key within a table may differ between runs, whichever word selects the table."""
    if not isinstance(kind, SelectedTable | KeyTable):
        return True
    if not keys:
        return type(value) is not dict or all(_inner_varies(kind, (key,), inner) for key, inner in value.items())
    classes = [kind.members] if isinstance(kind, KeyTable) else [kind.own(name) for name in kind.registry]
    inner = [members[str(keys[0])] for members in classes if str(keys[0]) in members]
    return all(member.varies and _inner_varies(member.kind, keys[1:], value) for member in inner)


def _in_train(rest: str) -> Path:
    return ("train", *rest.split(".")) if rest else ()


def _in_mechanism(rest: str, tables: Mapping[str, Any]) -> Path:
    """Return the path in the entry with the longest name that fits: names may hold dots."""
    names = {entry["name"]: index for index, entry in enumerate(tables["mechanism"])}
    fitting = [name for name in names if rest.startswith(f"{name}.")]
    name = max(fitting, key=len, default=None)
    return ("mechanism", names[name], *rest[len(name) + 1 :].split(".")) if name is not None else ()


def changed(tables: Any, path: Path, value: Any) -> Any:
    """Return the tables with another value at `path`; the originals stay as they are."""
    if not path:
        return value
    head, *rest = path
    if isinstance(tables, list):
        return [changed(item, tuple(rest), value) if index == head else item for index, item in enumerate(tables)]
    inner = tables.get(head, {})
    return {**tables, head: changed(inner if isinstance(inner, dict | list) else {}, tuple(rest), value)}


UNKNOWN = "DP002"  # the rule about keys, and not their values
MOST = 1000  # settings, which are judged one by one


@dataclass(frozen=True, slots=True)
class Setting:
    """A difference from the file. epsilon: the one that it is for; None for every one. place: where the file states it."""

    changes: tuple[KeyChange, ...]
    epsilon: float | None = None
    place: Path = ("sweep",)

    @property
    def label(self) -> str:
        """Return the values, by the last part of each key, the whole key where others end alike."""
        lasts = [change.dotted.rpartition(".")[2] for change in self.changes]
        names = [last if lasts.count(last) == 1 else change.dotted for last, change in zip(lasts, self.changes, strict=True)]
        pairs = (f"{name} {value_text(change.value)}" for name, change in zip(names, self.changes, strict=True))
        return ", ".join(pairs) or "as in the file"

    def of(self, tables: Any) -> Any:
        """Return the tables with these values."""
        for change in self.changes:
            tables = changed(tables, change.target, change.value)
        return tables


def settings_of(sweep: Sweep, tables: Mapping[str, Any], findings: Findings) -> list[Setting]:
    """Return every setting of the sweep, with a finding for each that is none; `tables` are those of a valid file."""
    try:
        settings = list(_single(sweep, tables, findings) if sweep.setting else _grid(sweep.grid or {}, tables, findings))
        if not findings.items:
            _judge(settings, tables, findings)
            _cover(sweep, settings, tables, findings)
    except TooMany:
        return []
    return settings


def judge_values(sweep: Sweep, tables: Mapping[str, Any], findings: Findings) -> None:
    """Add a finding for each wrong value of a grid, and each wrong single setting, in a file that is valid otherwise.

    Each value of a grid is judged once, beside the first one of each other key: in the time of reading the file that often.
    `settings_of` judges all combinations.
    """
    settings = list(_single(sweep, tables, findings)) if sweep.setting else _each_value(_axes(sweep.grid or {}, tables, findings))
    if not findings.items:
        _judge(settings, tables, findings)
        if sweep.setting:
            _cover(sweep, settings, tables, findings)


def _each_value(axes: list[tuple[KeyChange, ...]]) -> list[Setting]:
    """Return the first combination, then each further value in it."""
    first = tuple(axis[0] for axis in axes if axis)
    further = ((*first[:index], change, *first[index + 1 :]) for index, axis in enumerate(axes) for change in axis[1:])
    return [Setting(changes, place=("sweep", "grid")) for changes in (first, *further)]


def _grid(grid: Mapping[str, Any], tables: Mapping[str, Any], findings: Findings) -> Iterator[Setting]:
    yield from (Setting(chosen, place=("sweep", "grid")) for chosen in itertools.product(*_axes(grid, tables, findings)))


def _axes(grid: Mapping[str, Any], tables: Mapping[str, Any], findings: Findings) -> list[tuple[KeyChange, ...]]:
    """Return the changes that each key of a grid makes; none, with a finding, where they make too many combinations."""
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
    """Require a setting for each epsilon, and none twice: two that make one file would share its runs. A grid's values differ already."""
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
    """Add a finding, at the key of the sweep that causes it, for whatever is wrong with the file of a setting; each once."""
    reported, known = set(), stood_in(tables)  # before the changes: only the file may leave a number to be solved for
    for setting in settings:
        for change, other in _overlapping(setting):
            if (change.place, "") not in reported:
                reported.add((change.place, ""))
                findings.add("DP005", change.place, f"{change.dotted} once in a setting", f"{other.dotted} as well")
        for fault in _faults(setting.of(known)):
            place = _cause(setting, fault)
            if (place, fault.message) not in reported:
                reported.add((place, fault.message))
                # Where no change is about the key, the place does not name it.
                named = f"{key_text(fault.key)}: {fault.expected}" if place == setting.place else fault.expected
                findings.add(fault.rule, place, named, fault.actual, fault.hint)


def _overlapping(setting: Setting) -> Iterator[tuple[KeyChange, KeyChange]]:
    """Yield changes of what another one changes, or of a part of it: one of them would be named and not made."""
    for change, other in itertools.combinations(setting.changes, 2):
        shorter = min(len(change.target), len(other.target))
        if shorter and change.target[:shorter] == other.target[:shorter]:
            yield other, change


def _faults(tables: Mapping[str, Any]) -> list[Fault]:
    """Return what is wrong with the file of a run: with [train], and without [sweep]."""
    findings, tables = Findings(), {name: table for name, table in tables.items() if name != "sweep"}
    with suppress(TooMany):
        check(tables, read_document(tables, findings), findings)
    return findings.items


def _cause(setting: Setting, fault: Fault) -> Path:
    """Return where the sweep states the change, key or value, that a finding is about; the setting's place if about none."""
    for change in setting.changes:
        if change.target[: len(fault.key)] == fault.key or fault.key[: len(change.target)] == change.target:
            return change.key if fault.rule == UNKNOWN and len(fault.key) <= len(change.target) else change.place
    return setting.place
