"""The settings that a sweep tries, and the check of the pipeline file that each of them gives.

`dpcli sweep` trains with several settings of one file. A *setting* is a list of changes to values of the file. The [sweep] table states
settings one by one, or as a grid: a list of values for each key, whose combinations are the settings. `settings_of` returns them for the
plan of a sweep (sweep_plan.py). `judge_values` is the quicker check of [sweep] whenever a file is read (plugin.py).

A dotted key names a value: "mechanism.sgd.epochs" is the key `epochs` of the [[mechanism]] entry named sgd. Its *path* in the file is
("mechanism", 0, "epochs"). A *place* is a path in the [sweep] table: ("sweep", "grid", "mechanism.sgd.epochs", 1) is the second value of
the list. A *finding* is an error with the code of its rule: DP002 unknown key, DP003 wrong type, DP004 value out of range, DP005 keys that
contradict each other. It is reported at the place in [sweep] that causes it. `Findings` raises TooMany when it is full.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from dpcli.file.keys.annotations import members_of
from dpcli.file.keys.tables import KeyTable, SelectedTable
from dpcli.file.pipeline.canonical import TOP, read_document
from dpcli.file.pipeline.consistency import check
from dpcli.file.pipeline.model import Entry
from dpcli.file.pipeline.placeholders import with_placeholders
from dpcli.file.pipeline.section import MECHANISM_TYPES, SectionTable
from dpcli.file.toml.findings import Findings, KeyFinding, Path, TooMany
from dpcli.file.toml.shown import key_text, shown
from dpcli.file.toml.write import value_text
from dpcli.sweep.sweep_settings import Sweep

UNKNOWN_KEY = "DP002"  # the rule about unknown keys
MOST_SETTINGS = 1000  # largest number of combinations of a grid, because the file of each is checked; affects speed alone


@dataclass(frozen=True, slots=True)
class KeyChange:
    """A new value for one key of the file.

    Attributes:
        dotted: Dotted key, as the sweep writes it, such as "train.learning_rate".
        path: Path of the key in the file, such as ("train", "learning_rate").
        value: New value of the key.
        place: Place of the value in [sweep]. It ends in an index if the value is one of a list.
    """

    dotted: str
    path: Path
    value: Any
    place: Path

    @property
    def key_place(self) -> Path:
        """Return the place of the key in [sweep], which is that of the list if the value is one of a list."""
        return self.place[:-1] if isinstance(self.place[-1], int) else self.place


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of a sweep, which is a list of changes to the file.

    Attributes:
        epsilon: Epsilon at which the setting is tried; None for every epsilon.
        place: Place of the setting.
    """

    changes: tuple[KeyChange, ...]
    epsilon: float | None = None
    place: Path = ("sweep",)

    @property
    def label(self) -> str:
        """Return the setting in words: "learning_rate 0.5, norm 1.0". Keys that end with the same part are written in full."""
        last_parts = [change.dotted.rpartition(".")[2] for change in self.changes]
        pairs = []
        for change, last_part in zip(self.changes, last_parts, strict=True):
            name = last_part if last_parts.count(last_part) == 1 else change.dotted
            pairs.append(f"{name} {value_text(change.value)}")
        return ", ".join(pairs) or "as in the file"

    def applied(self, tables: Any) -> Any:
        """Return the tables of the file with the changes of this setting."""
        for change in self.changes:
            tables = with_value(tables, change.path, change.value)
        return tables

    def is_for(self, epsilon: float) -> bool:
        return self.epsilon in (None, epsilon)

    def shares_epsilon(self, setting: Setting) -> bool:
        """Return whether there may be an epsilon at which both settings are tried."""
        return self.epsilon is None or setting.is_for(self.epsilon)


def with_value(tables: Any, path: Path, value: Any) -> Any:
    """Return a copy of the tables with another value at `path`; missing tables are made: ({}, ("a", "b"), 3) -> {"a": {"b": 3}}."""
    if not path:
        return value
    head, inner_path = path[0], path[1:]
    if isinstance(tables, list):
        return [with_value(item, inner_path, value) if index == head else item for index, item in enumerate(tables)]
    inner = tables.get(head, {})
    return {**tables, head: with_value(inner if isinstance(inner, dict | list) else {}, inner_path, value)}


def settings_of(sweep: Sweep, tables: Mapping[str, Any], findings: Findings) -> list[Setting]:
    """Return every setting of the sweep, and add a finding for each invalid setting. `tables` are those of a valid file."""
    try:
        if sweep.setting:
            settings = list(_single_settings(sweep, tables, findings))
        else:
            axes = _axes(sweep.grid or {}, tables, findings)
            settings = [Setting(changes, place=("sweep", "grid")) for changes in itertools.product(*axes)]
        if not findings.items:
            _check_files(settings, tables, findings)
            _check_coverage(sweep, settings, tables, findings)
    except TooMany:
        return []
    return settings


def judge_values(sweep: Sweep, tables: Mapping[str, Any], findings: Findings) -> None:
    """Add a finding for each wrong value of a grid, and each wrong single setting, in a file that is valid otherwise.

    Each value of a grid is checked once, with the first value of each other key. The time therefore grows with the number of values and not
    with the number of combinations. `settings_of` checks all combinations.
    """
    if sweep.setting:
        settings = list(_single_settings(sweep, tables, findings))
    else:
        settings = _settings_with_each_value(_axes(sweep.grid or {}, tables, findings))
    if not findings.items:
        _check_files(settings, tables, findings)
        if sweep.setting:
            _check_coverage(sweep, settings, tables, findings)


def _settings_with_each_value(axes: list[tuple[KeyChange, ...]]) -> list[Setting]:
    """Return the first combination of a grid, and for each further value of a key the first combination with that value."""
    first_changes = tuple(axis[0] for axis in axes if axis)
    combinations = [first_changes]
    for index, axis in enumerate(axes):
        combinations += [(*first_changes[:index], change, *first_changes[index + 1 :]) for change in axis[1:]]
    return [Setting(changes, place=("sweep", "grid")) for changes in combinations]


def _axes(grid: Mapping[str, Any], tables: Mapping[str, Any], findings: Findings) -> list[tuple[KeyChange, ...]]:
    """Return the changes by each key of a grid. If there are too many combinations, add a finding and return []."""
    axes = [_axis(key, tables, findings) for key in dotted_keys(grid, ("sweep", "grid"))]
    combinations = math.prod(map(len, axes))
    if combinations <= MOST_SETTINGS:
        return axes
    findings.add("DP004", ("sweep", "grid"), f"at most {MOST_SETTINGS:,} combinations", f"{combinations:,}")
    return []


def _axis(key: DottedKey, tables: Mapping[str, Any], findings: Findings) -> tuple[KeyChange, ...]:
    """Return the changes by one key of a grid, and add a finding for each problem."""
    dotted, place, values = key
    is_list = type(values) is list
    path = changed_path(dotted, place, tables, findings, values if is_list else ())
    if not is_list:
        findings.add("DP003", place, "a list of values", shown(values))
        return ()
    typed = [(type(value) is bool, value) for value in values]  # in Python, true equals 1
    if not values or any(value in typed[:index] for index, value in enumerate(typed)):
        findings.add("DP004", place, "one or more different values", "a repeated value" if values else "an empty list")
    return tuple(KeyChange(dotted, path, value, (*place, index)) for index, value in enumerate(values))


def _single_settings(sweep: Sweep, tables: Mapping[str, Any], findings: Findings) -> Iterator[Setting]:
    """Yield the single settings of a sweep, and add a finding for each invalid key."""
    for index, table in enumerate(sweep.setting):
        place: Path = ("sweep", "setting", index)
        epsilon = _epsilon(table, place, sweep, findings)
        keys = {key: value for key, value in table.items() if key != "epsilon"}
        changes = [
            KeyChange(dotted, changed_path(dotted, key_place, tables, findings, [value]), value, key_place)
            for dotted, key_place, value in dotted_keys(keys, place)
        ]
        yield Setting(tuple(changes), epsilon, place)


def _epsilon(table: Mapping[str, Any], place: Path, sweep: Sweep, findings: Findings) -> float | None:
    """Return the epsilon of a single setting; None if it has no epsilon.

    If the sweep does not have the epsilon of the setting, add a finding and return None.
    """
    value = table.get("epsilon")
    if value is None:
        return None
    if type(value) in (int, float) and value in sweep.epsilon:
        return float(value)
    findings.add("DP004", (*place, "epsilon"), "one of sweep.epsilon", shown(value))
    return None


class DottedKey(NamedTuple):
    """A dotted key of a sweep, with its place, and its value: in a grid, the list of its values."""

    dotted: str
    place: Path
    value: Any


def dotted_keys(table: Mapping[str, Any], place: Path, prefix: str = "") -> Iterator[DottedKey]:
    """Yield every dotted key of a table: `a.b = 1` is "a.b" at (*place, "a", "b"), and `"a.b" = 1` is "a.b" at (*place, "a.b")."""
    for key, value in table.items():
        if type(value) is dict:
            yield from dotted_keys(value, (*place, key), f"{prefix}{key}.")
        else:
            yield DottedKey(f"{prefix}{key}", (*place, key), value)


def changed_path(dotted: str, place: Path, tables: Mapping[str, Any], findings: Findings, values: Iterable[Any]) -> Path:
    """Return the path in the file of the value that a dotted key changes. If a sweep cannot change it, add a finding and return ().

    `values` are the new values of the key. If they are tables, a sweep must be allowed to change the keys in them.
    """
    table, _, key = dotted.partition(".")
    path: Path = ()
    if table == "train" and key:
        path = ("train", *key.split("."))
    elif table == "mechanism":
        path = _mechanism_path(key, tables)
    if not path:
        findings.add(UNKNOWN_KEY, place, "train.KEY or mechanism.NAME.KEY, with the name of an entry of the file", f"'{dotted}'")
    elif path[-1] == "" or not _varies(path, tables, values):
        findings.add("DP005", place, "a key that may differ between the runs of a sweep", f"'{dotted}'")
        return ()
    return path


def _mechanism_path(dotted: str, tables: Mapping[str, Any]) -> Path:
    """Return the path for NAME.KEY, such as ("mechanism", 0, "epochs") for "sgd.epochs"; () if no entry has the name.

    Names may contain dots. The longest name that fits is used.
    """
    indices = {entry["name"]: index for index, entry in enumerate(tables["mechanism"])}
    name = max((name for name in indices if dotted.startswith(f"{name}.")), key=len, default=None)
    return () if name is None else ("mechanism", indices[name], *dotted.removeprefix(f"{name}.").split("."))


def _varies(path: Path, tables: Mapping[str, Any], values: Iterable[Any]) -> bool:
    """Return whether the key at `path`, the tables that contain it, and the keys in its values may differ between runs.

    The annotation of a key decides (`Key.varies`). The result is True for an unknown key, which the check of the file reports.
    """
    if path[0] == "train":
        _, *keys = path
        kind = TOP["train"].kind
        assert isinstance(kind, SectionTable) and isinstance(kind.table, SelectedTable)
        members = kind.table.members(kind.table.selected(tables.get("train", {})))  # the keys of [train] depend on its task
    else:
        _, index, *keys = path
        entry = tables["mechanism"][index]
        members = {**members_of(Entry), **MECHANISM_TYPES.class_members(entry["type"])}
    key, *inner_keys = keys
    member = members.get(str(key))
    if member is None:
        return True
    # None stands for a value without keys, so that `path` is checked itself; each value checks its own keys too.
    return member.varies and all(_inner_varies(member.kind, tuple(inner_keys), value) for value in [None, *values])


def _inner_varies(kind: Any, keys: Path, value: Any) -> bool:
    """Return whether a key within a table may differ between runs, for every class that the table may have.

    Args:
        kind: The kind of the value in which `keys` is a path. Only tables have inner keys.
        value: The new value, whose own keys count too if `keys` is empty.
    """
    if not isinstance(kind, SelectedTable | KeyTable):
        return True
    if not keys:
        return type(value) is not dict or all(_inner_varies(kind, (key,), inner) for key, inner in value.items())
    classes = [kind.members] if isinstance(kind, KeyTable) else [kind.class_members(name) for name in kind.registry]
    inner_members = [members[str(keys[0])] for members in classes if str(keys[0]) in members]
    return all(member.varies and _inner_varies(member.kind, keys[1:], value) for member in inner_members)


def _check_coverage(sweep: Sweep, settings: list[Setting], tables: Mapping[str, Any], findings: Findings) -> None:
    """Add a finding for each epsilon without a setting, and for each single setting that repeats another.

    Two settings with the same file would share its runs. The combinations of a grid always differ.
    """
    for epsilon in sweep.epsilon:
        if not any(setting.is_for(epsilon) for setting in settings):
            findings.add("DP005", ("sweep", "setting"), f"a setting for epsilon = {epsilon!r}", "none")
    if not sweep.setting:
        return
    earlier_settings: list[tuple[Setting, Any]] = []  # with the tables of their files
    for setting in settings:
        changed_tables = setting.applied(tables)
        if any(tables_before == changed_tables and setting.shares_epsilon(earlier) for earlier, tables_before in earlier_settings):
            findings.add("DP005", setting.place, "a setting that differs from all others", f"{setting.label} again")
        earlier_settings.append((setting, changed_tables))


def _check_files(settings: list[Setting], tables: Mapping[str, Any], findings: Findings) -> None:
    """Add a finding for each problem in the file of a setting, at the key of the sweep that causes it. No finding is repeated."""
    # Numbers replace "calibrate" before the changes. A change that sets a key to "calibrate" is thus refused.
    numeric_tables = with_placeholders(tables)
    reported = set()
    for setting in settings:
        for earlier, later in _overlapping(setting):
            if (later.place, "") not in reported:  # "" stands for the message about overlapping changes
                reported.add((later.place, ""))
                findings.add("DP005", later.place, f"{later.dotted} once in a setting", f"{earlier.dotted} as well")
        for finding in _findings_of_run(setting.applied(numeric_tables)):
            place = _cause(setting, finding)
            if (place, finding.message) not in reported:
                reported.add((place, finding.message))
                # If no change causes the problem, the finding is at the place of the setting, and its message names the key.
                expected = f"{key_text(finding.key)}: {finding.expected}" if place == setting.place else finding.expected
                findings.add(finding.rule, place, expected, finding.actual, finding.hint)


def _overlapping(setting: Setting) -> Iterator[tuple[KeyChange, KeyChange]]:
    """Yield pairs of changes to one value, or to a table and a value in it. Only one change of a pair would take effect."""
    for earlier, later in itertools.combinations(setting.changes, 2):
        shorter = min(len(earlier.path), len(later.path))
        if shorter and earlier.path[:shorter] == later.path[:shorter]:
            yield earlier, later


def _findings_of_run(tables: Mapping[str, Any]) -> list[KeyFinding]:
    """Return the findings of the file of a run, which has [train] and no [sweep]."""
    findings = Findings()
    run_tables = {name: table for name, table in tables.items() if name != "sweep"}
    with suppress(TooMany):
        check(run_tables, read_document(run_tables, findings), findings)
    return findings.items


def _cause(setting: Setting, finding: KeyFinding) -> Path:
    """Return the place of the key or value that causes a finding; the place of the setting if no change causes it."""
    for change in setting.changes:
        shorter = min(len(change.path), len(finding.key))
        if change.path[:shorter] == finding.key[:shorter]:
            # The changed key itself is unknown, or a table that contains it. Its value is not the cause.
            is_key_unknown = finding.rule == UNKNOWN_KEY and shorter == len(finding.key)
            return change.key_place if is_key_unknown else change.place
    return setting.place
