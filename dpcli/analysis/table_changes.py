"""The changes from one pipeline file to another, as edits of TOML tables.

difference.py prices these changes for `dpcli diff`, and dpcli/gate names them when epsilon rises. An *edit* is one key with its old and its
new value. A *change* is a set of edits that are valid only together, such as `steps` in place of `epochs`, and can be applied to the tables
of the old file. No edit may be lost, since the gate would then not see it: an edit of an unknown kind is a change of its own. The tables
are those of two files in comparable form, in which lists and [defaults] were expanded (`comparable_tables` in file/pipeline/series.py). An
*entry* is one [[mechanism]] or [[query]] table, and a *sample* with a name is drawn once for all entries that state the name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dpcli.base.values import dataclass
from dpcli.file.pipeline.model import OWN
from dpcli.file.toml.shown import escaped, key_text

Path = tuple[str, ...]
Tables = Mapping[str, Any]

# Sets of alternative keys, of which an entry states one. Replacing a key by an alternative is one change. An alternative that is missing
# here would make two changes, each of which is then priced or refused by itself.
ALTERNATIVES = (
    frozenset({"steps", "epochs"}),
    frozenset({"rate", "batch_size"}),
    frozenset({"noise_multiplier", "sigma", "scale", "sensitivity", "l2_sensitivity"}),
    frozenset({"epsilon", "keep", "rho", "orders", "values", "weight", "error"}),
)
UNIT_KEYS = frozenset({"unit", "max_contributions"})  # changed together, since a unit with several records needs max_contributions
LISTS = ("mechanism", "query")  # kinds of tables of which a file has several
# Keys that must change together in all entries that share a sample: those in which they must agree, and the name of the sample.
SAMPLE_KEYS = frozenset({"steps", "epochs", "sampling", "partition", "sample"})
TYPELESS_KEYS = SAMPLE_KEYS | {"description"}  # keys that entries of every type have


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of one key, or of a whole table that was added or removed.

    path: path of the key: ("mechanism", name, key, ...) or (section, key, ...). Its parts are `section`, `name` and `keys`.
    old, new: values before and after the change; None if the key is absent.
    """

    path: Path
    old: Any
    new: Any

    @property
    def section(self) -> str:
        """The section of the file, such as "mechanism" or "privacy", or the top-level key."""
        return self.path[0]

    @property
    def name(self) -> str:
        """The name of the mechanism or query; "" in a section of which a file has only one."""
        return self.path[1] if self.section in LISTS else ""

    @property
    def keys(self) -> Path:
        """The path of the key within its table, such as ("sampling", "rate"); empty for a whole table or a top-level key."""
        return self.path[2:] if self.section in LISTS else self.path[1:]

    @property
    def key(self) -> str:
        """The key in full, such as `mechanism["train"].sampling.rate`."""
        if self.section not in LISTS:
            return key_text(self.path)
        key_in_table = key_text(self.keys)
        return f'{self.section}["{escaped(self.name)}"]' + (f".{key_in_table}" if key_in_table else "")

    @property
    def label(self) -> str:
        """The key for a narrow table, such as `train: sampling.rate` or `mechanism train`."""
        if self.section not in LISTS:
            return self.key
        name, key_in_table = escaped(self.name), key_text(self.keys)
        return f"{name}: {key_in_table}" if key_in_table else f"{self.section} {name}"


@dataclass(frozen=True, slots=True)
class Change:
    """A set of edits that are only valid together."""

    edits: tuple[Edit, ...]

    def applied(self, tables: Tables) -> Tables:
        """Return a copy of the tables in which this change has been made."""
        for edit in self.edits:
            tables = _edited(tables, edit.path, edit.new)
        return tables

    @property
    def free(self) -> bool:
        """Return whether no epsilon of a file that is not adaptive depends on this change."""
        return all(map(_is_free, self.edits))


def changes(old: Tables, new: Tables) -> tuple[Change, ...]:
    """Return all changes from the tables of one file to the tables of another. Mechanisms and queries are matched by name."""
    result = list(_key_changes(_without_lists(old), _without_lists(new), path=()))
    list_changes: list[Change] = []
    for kind in LISTS:
        list_changes += _list_changes(kind, _by_name(old, kind), _by_name(new, kind))
    result += _grouped_by_sample(list_changes, _by_name(old, "mechanism"), _by_name(new, "mechanism"))
    return tuple(result)


def _grouped_by_sample(
    list_changes: Iterable[Change], before: Mapping[str, Tables], after: Mapping[str, Tables]
) -> Iterator[Change]:
    """Yield the changes. Changes of the same keys in entries that share a sample are joined, since none of them is valid alone.

    Adding or removing such an entry counts as a change of the shared sample.
    """
    groups: dict[Any, list[Edit]] = {}  # by (sample, keys), or by position for a change that is joined with no other
    for position, change in enumerate(list_changes):
        first = change.edits[0]
        keys = tuple(edit.keys or ("sample",) for edit in change.edits)
        sample = _named_sample(first.name, before, after) if first.section == "mechanism" else None
        concerns_sample = sample is not None and all(key[0] in SAMPLE_KEYS for key in keys)
        group = (sample, keys) if concerns_sample else position
        groups.setdefault(group, []).extend(change.edits)
    for edits in groups.values():
        yield Change(tuple(edits))


def _named_sample(name: str, before: Mapping[str, Tables], after: Mapping[str, Tables]) -> str | None:
    """Return the sample that an entry shares with others, before or after the change; None if it shares none."""
    for table in (before.get(name, {}), after.get(name, {})):
        sample: str | None = table.get("sample")
        if sample not in (None, OWN):
            return sample
    return None


def _list_changes(kind: str, before: Mapping[str, Tables], after: Mapping[str, Tables]) -> Iterator[Change]:
    """Yield the changes of tables of one kind: first of tables in both files, then of removed or renamed tables, then of new tables."""
    new_names = _renamed(before, after)
    for name in before:
        if name in after:
            yield from _entry_changes(kind, name, before[name], after[name])
    for name in before:
        if name in new_names:
            yield Change((Edit((kind, name, "name"), name, new_names[name]),))
        elif name not in after:
            yield Change((Edit((kind, name), before[name], None),))
    for name in after:
        if name not in before and name not in new_names.values():
            yield Change((Edit((kind, name), None, after[name]),))


def _by_name(tables: Tables, kind: str) -> dict[str, Tables]:
    """Return the tables of one kind by their names."""
    return {table["name"]: table for table in tables.get(kind, ())}


def _without_lists(tables: Tables) -> Tables:
    """Return the tables without those of which a file has several."""
    return {key: value for key, value in tables.items() if key not in LISTS}


def _renamed(before: Mapping[str, Tables], after: Mapping[str, Tables]) -> dict[str, str]:
    """Return the new name of each removed table that equals a new table except for the name."""
    result: dict[str, str] = {}
    added = [name for name in after if name not in before]
    for name in before:
        if name in after:
            continue
        new_name = next((candidate for candidate in added if _same({**before[name], "name": candidate}, after[candidate])), None)
        if new_name is not None:
            added.remove(new_name)  # a new table is the successor of one removed table only
            result[name] = new_name
    return result


def _same(a: Any, b: Any) -> bool:
    """Return whether two values of a file are equal. NaN, which some sections may contain, equals NaN here."""
    return bool(a == b) or repr(a) == repr(b)


def _entry_changes(kind: str, name: str, old: Tables, new: Tables) -> Iterator[Change]:
    """Yield the changes of one mechanism or query. If its type or measure has changed, all keys of the type form one change.

    A mechanism has a `type`, and a query a `measure`, which decides about its other keys.
    """
    path = (kind, name)
    if (old.get("type"), old.get("measure")) == (new.get("type"), new.get("measure")):
        yield from _key_changes(old, new, path)
        return
    changed_keys = [key for key in {**old, **new} if key not in TYPELESS_KEYS and not _same(old.get(key), new.get(key))]
    yield Change(tuple(Edit((*path, key), old.get(key), new.get(key)) for key in changed_keys))
    typeless_before, typeless_after = ({key: value for key, value in table.items() if key in TYPELESS_KEYS} for table in (old, new))
    yield from _key_changes(typeless_before, typeless_after, path)


def _key_changes(old: Tables, new: Tables, path: Path) -> Iterator[Change]:
    """Yield the changes of each key. A table in both versions is compared key by key, unless its scheme has changed.

    The keys of a sampling table depend on its scheme, so that another scheme is one change of the whole table.

    path: path of the table whose versions are `old` and `new`.
    """
    edits: list[Edit] = []
    for key in {**old, **new}:
        before, after = old.get(key), new.get(key)
        if _same(before, after):
            continue
        if isinstance(before, dict) and isinstance(after, dict) and before.get("scheme") == after.get("scheme"):
            yield from _key_changes(before, after, (*path, key))
        else:
            edits.append(Edit((*path, key), before, after))
    yield from map(Change, _grouped_edits(edits))


def _grouped_edits(edits: Sequence[Edit]) -> Iterator[tuple[Edit, ...]]:
    """Yield groups of edits. Edits that replace a key by an alternative key form one group. Every other edit is its own group."""
    ungrouped = list(edits)
    for keys in (*ALTERNATIVES, UNIT_KEYS):
        members = tuple(edit for edit in ungrouped if edit.path[-1] in keys)
        is_replacement = any(edit.old is None for edit in members) and any(edit.new is None for edit in members)
        if is_replacement or (keys is UNIT_KEYS and len(members) > 1):
            ungrouped = [edit for edit in ungrouped if edit not in members]
            yield members
    yield from ((edit,) for edit in ungrouped)


def _edited(tables: Tables, path: Path, value: Any) -> Tables:
    """Return a copy of the tables in which the key at `path` has the value, or is removed if the value is None."""
    key, *inner_path = path
    # An inner table may have a key that is called like a list. Its value is then no list.
    if key in LISTS and inner_path and isinstance(tables.get(key, []), list):
        return {**tables, key: list(_edited_entries(tables.get(key, ()), tuple(inner_path), value))}
    if inner_path:
        value = _edited(tables.get(key) or {}, tuple(inner_path), value)
    others = {other_key: other for other_key, other in tables.items() if other_key != key}
    return others if value is None else {**others, key: value}


def _edited_entries(entries: Sequence[Tables], path: Path, value: Any) -> Iterator[Tables]:
    """Yield the entries of a list after an edit at `path`, which starts with an entry's name. An added entry comes last."""
    name, *inner_path = path
    for entry in entries:
        if entry["name"] != name:
            yield entry
        elif inner_path:
            yield _edited(entry, tuple(inner_path), value)
        # otherwise the whole entry is removed
    if not inner_path and value is not None:
        yield value


def _is_free(edit: Edit) -> bool:
    """Return whether no epsilon of a file that is not adaptive depends on the key that is edited.

    Such keys are descriptions, the sections of other commands, `releases`, and delta, since all epsilons are compared at one delta. Caps
    are such keys too: only the epsilon of an adaptive file, which is its cap, depends on them.
    """
    if edit.section in LISTS:
        return edit.keys == ("description",)
    if edit.section == "source":  # the table that queries read: their mechanisms follow from it
        return False
    return edit.section != "privacy" or edit.keys in (("delta",), ("releases",))
