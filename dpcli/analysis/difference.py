"""The changes between two pipelines, made to the first one at a time, and what each costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from dpcli.analysis.account import Account, headline
from dpcli.base.errors import CannotCertify, InputError, NotRepresentable
from dpcli.base.values import dataclass
from dpcli.file.pipeline.canonical import pipeline_of
from dpcli.file.pipeline.consistency import values_of
from dpcli.file.pipeline.model import OWN, Pipeline
from dpcli.file.pipeline.read import parse, toml_document
from dpcli.file.toml.findings import Findings, TooMany
from dpcli.file.toml.shown import key_text
from dpcli.git.command import read_source
from dpcli.numerics.work import limited


def statement_of(pipeline: Pipeline) -> dict[str, Any]:
    """Unit, adjacency, contributions, size, delta and adaptivity: change one of these and it is another number."""
    privacy = pipeline.privacy
    return {
        "unit": privacy.unit,
        "adjacency": privacy.adjacency.value,
        "max_contributions": privacy.max_contributions,
        "dataset_size": privacy.dataset_size,
        "delta": pipeline.budget.delta if pipeline.budget and pipeline.budget.delta is not None else privacy.delta,
        "adaptive": privacy.adaptive,
    }


Path = tuple[str, ...]
Tables = Mapping[str, Any]

# Keys of which a file states one: a new one in place of an old one is one change.
ALTERNATIVES = (
    frozenset({"steps", "epochs"}),
    frozenset({"rate", "batch_size"}),
    frozenset({"noise_multiplier", "sigma", "scale", "sensitivity", "l2_sensitivity"}),
    frozenset({"epsilon", "keep", "rho", "orders", "values", "weight", "error"}),
)
TOGETHER = frozenset({"unit", "max_contributions"})  # a unit that may own several records says how many
LISTS = ("mechanism", "query")  # tables of which a file has several, matched by name
DRAWN = frozenset({"steps", "epochs", "sampling", "partition", "sample"})  # keys that entries which share a sample change together
SHARED = DRAWN | {"description"}  # keys that outlive a change of type


@dataclass(frozen=True, slots=True)
class Edit:
    """A key and its value before and after, None if it is absent. path: (a list, name, key, ...) or (table, key, ...)."""

    path: Path
    old: Any
    new: Any

    @property
    def key(self) -> str:
        """`mechanism["train"].sampling.rate`."""
        from dpcli.file.toml.shown import escaped, key_text

        if self.path[0] not in LISTS:
            return key_text(self.path)
        rest = key_text(self.path[2:])
        return f'{self.path[0]}["{escaped(self.path[1])}"]' + (f".{rest}" if rest else "")

    @property
    def label(self) -> str:
        """The key for a narrow table: `train: sampling.rate`, `mechanism train`."""
        from dpcli.file.toml.shown import escaped, key_text

        if self.path[0] not in LISTS:
            return self.key
        name, rest = escaped(self.path[1]), key_text(self.path[2:])
        return f"{name}: {rest}" if rest else f"{self.path[0]} {name}"


@dataclass(frozen=True, slots=True)
class Change:
    """Edits that belong together."""

    edits: tuple[Edit, ...]

    def applied(self, tables: Tables) -> Tables:
        """The tables with this change made to them."""
        for edit in self.edits:
            tables = _edited(tables, edit.path, edit.new)
        return tables

    @property
    def free(self) -> bool:
        """Return whether no epsilon at a given delta can depend on the change."""
        return all(_free(edit.path) for edit in self.edits)


def changes(old: Tables, new: Tables) -> tuple[Change, ...]:
    """Every change from one file's tables to another's; mechanisms and queries are matched by name, and their order means nothing."""
    rest = _between(_without(old), _without(new), ())
    listed = (change for kind in LISTS for change in _listed(kind, _named(old, kind), _named(new, kind)))
    return (*rest, *_of_one_sample(listed, _named(old, "mechanism"), _named(new, "mechanism")))


def _of_one_sample(items: Iterable[Change], before: Mapping[str, Tables], after: Mapping[str, Tables]) -> Iterator[Change]:
    """Changes of the same keys of entries that share a sample, made together: alone, each would leave them at odds. An entry that comes
    or goes is a change of who shares."""
    joined: dict[Any, list[Edit]] = {}
    for number, change in enumerate(items):
        (kind, name, *_), keys = change.edits[0].path, tuple(edit.path[2:] or ("sample",) for edit in change.edits)
        tables = (before.get(name, {}), after.get(name, {})) if kind == "mechanism" else ()
        sample = next((table["sample"] for table in tables if table.get("sample") not in (None, OWN)), None)
        drawn = sample is not None and all(key[0] in DRAWN for key in keys)
        joined.setdefault((sample, keys) if drawn else number, []).extend(change.edits)
    yield from (Change(tuple(edits)) for edits in joined.values())


def _listed(kind: str, before: Mapping[str, Tables], after: Mapping[str, Tables]) -> Iterator[Change]:
    """The changes of one list of tables."""
    renamed = dict(_renamed(before, after))
    for name in (name for name in before if name in after):
        yield from _entry(kind, name, before[name], after[name])
    for name in (name for name in before if name not in after):
        target = renamed.get(name)
        yield Change((Edit((kind, name), before[name], None) if target is None else Edit((kind, name, "name"), name, target),))
    for name in (name for name in after if name not in before and name not in renamed.values()):
        yield Change((Edit((kind, name), None, after[name]),))


def _named(tables: Tables, kind: str) -> dict[str, Tables]:
    return {table["name"]: table for table in tables.get(kind, ())}


def _without(tables: Tables) -> Tables:
    return {key: value for key, value in tables.items() if key not in LISTS}


def _renamed(before: Mapping[str, Tables], after: Mapping[str, Tables]) -> Iterator[tuple[str, str]]:
    """(old name, new name) of mechanisms that are equal in everything else."""
    left = [name for name in after if name not in before]
    for name in (name for name in before if name not in after):
        same = next((other for other in left if _same({**before[name], "name": other}, after[other])), None)
        if same is not None:
            left.remove(same)
            yield name, same


def _same(a: Any, b: Any) -> bool:
    return bool(a == b) or repr(a) == repr(b)  # NaN, which the sections of other commands may hold, equals itself here


def _entry(kind: str, name: str, old: Tables, new: Tables) -> Iterator[Change]:
    """A change of a mechanism's type, or a query's measure, takes its own keys with it."""
    path = (kind, name)
    if (old.get("type"), old.get("measure")) == (new.get("type"), new.get("measure")):
        yield from _between(old, new, path)
        return
    own = [key for key in {**old, **new} if key not in SHARED and not _same(old.get(key), new.get(key))]
    yield Change(tuple(Edit((*path, key), old.get(key), new.get(key)) for key in own))
    yield from _between({k: v for k, v in old.items() if k in SHARED}, {k: v for k, v in new.items() if k in SHARED}, path)


def _between(old: Tables, new: Tables, path: Path) -> Iterator[Change]:
    """Changes key by key; a table on both sides is looked into, unless another scheme makes it another table."""
    edits: list[Edit] = []
    for key in {**old, **new}:
        before, after = old.get(key), new.get(key)
        if _same(before, after):
            continue
        if isinstance(before, dict) and isinstance(after, dict) and before.get("scheme") == after.get("scheme"):
            yield from _between(before, after, (*path, key))
        else:
            edits.append(Edit((*path, key), before, after))
    yield from map(Change, _joined(edits))


def _joined(edits: Sequence[Edit]) -> Iterator[tuple[Edit, ...]]:
    """Edits that put one alternative in place of another are made together."""
    left = list(edits)
    for keys in (*ALTERNATIVES, TOGETHER):
        members = tuple(edit for edit in left if edit.path[-1] in keys)
        replaced = any(edit.old is None for edit in members) and any(edit.new is None for edit in members)
        if replaced or (keys is TOGETHER and len(members) > 1):
            left = [edit for edit in left if edit not in members]
            yield members
    yield from ((edit,) for edit in left)


def _edited(tables: Tables, path: Path, value: Any) -> Tables:
    """A copy with one key set, or taken out where the value is None."""
    if path[0] in LISTS and len(path) > 1 and isinstance(tables.get(path[0], []), list):
        return {**tables, path[0]: list(_entries(tables.get(path[0], ()), path[1:], value))}
    head, *rest = path
    if rest:
        value = _edited(tables.get(head) or {}, tuple(rest), value)
    return {**{k: v for k, v in tables.items() if k != head}, **({} if value is None else {head: value})}


def _entries(entries: Sequence[Tables], path: Path, value: Any) -> Iterator[Tables]:
    name, *rest = path
    for entry in entries:
        if entry["name"] != name:
            yield entry
        elif rest:
            yield _edited(entry, tuple(rest), value)
    if not rest and value is not None:
        yield value


def _free(path: Path) -> bool:
    """Names, texts, caps, sections of other commands, and delta, which is held still."""
    if path[0] in LISTS:
        return path[2:] == ("description",)
    if path[0] == "source":
        return False
    return path[0] != "privacy" or path[1:] in (("delta",), ("releases",))


MOST = 40  # changes that are priced one at a time


@dataclass(frozen=True, slots=True)
class Priced:
    """A change made alone to the first file.

    epsilon: the first file's at the common delta with this change made, inf where nothing is certified, None where the change cannot
    stand alone (`reason`). increase: over the first file's epsilon, NaN where that means nothing.
    """

    change: Change
    epsilon: float | None
    increase: float
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """Two pipelines at the first one's delta.

    statement: what makes the two epsilons statements about different things, empty where they can be compared.
    increase: of epsilon, all changes together. interaction: what the single increases leave of it; NaN where one of them is unknown.
    """

    before: Account
    after: Account
    priced: tuple[Priced, ...]
    statement: tuple[str, ...]
    increase: float
    interaction: float

    @property
    def exit_code(self) -> int:
        """For a script that must know: 3 where it cannot be said, 1 where the second file costs more, else 0."""
        if self.statement or math.isnan(self.increase) or math.isinf(self.after.upper):
            return 3
        return 1 if self.increase > 0.0 else 0


@limited
def difference(a: str, b: str, delta: float | None = None) -> Difference:
    """Compare the pipelines at `a` and `b`: files, "-", or REVISION:PATH.

    Args:
        delta: at which both are compared; the first file's where None, else the second's.

    Raises:
        InputError: a file cannot be read, makes no sense, or no delta is stated.
    """
    if a == b == "-":
        raise InputError("expected one pipeline on standard input, found both")
    old, new = read_source(a), read_source(b)
    before, after = parse(old, a), parse(new, b)
    at = next((value for value in (delta, _delta(before), _delta(after)) if value is not None), None)
    first, second = headline(before, delta=at), headline(after, delta=at)
    assert first.delta is not None
    priced = priced_changes(old, new, first)
    increase = second.upper - first.upper  # NaN where both are infinite
    return Difference(
        first,
        second,
        priced,
        _statement(before, after, delta),
        increase,
        _interaction(increase, [one.increase for one in priced]),
    )


def priced_changes(old: bytes, new: bytes, before: Account) -> tuple[Priced, ...]:
    """Price each change from one file's bytes to another's at the delta of `before`, the account of the first; the largest first."""
    from dpcli.file.pipeline.series import paired

    tables, after = paired(_tables(old), _tables(new))
    listed = changes(tables, after)
    priced = [_priced(change, tables, before) for change in listed[:MOST]]
    priced += [Priced(change, None, math.nan, f"not priced: more than {MOST} changes") for change in listed[MOST:]]
    return tuple(sorted(priced, key=_size))


def _interaction(increase: float, alone: list[float]) -> float:
    return increase - math.fsum(alone) if all(map(math.isfinite, (increase, *alone))) else math.nan


def _delta(pipeline: Pipeline) -> float | None:
    """The delta that `account` would report at."""
    return pipeline.privacy.delta if pipeline.privacy.delta is not None or pipeline.budget is None else pipeline.budget.delta


def _statement(before: Pipeline, after: Pipeline, delta: float | None) -> tuple[str, ...]:
    """Return the changes in what an epsilon means; of delta, if neither a flag nor the files settle on one."""
    old, new = ({**statement_of(pipeline), "delta": _delta(pipeline) if delta is None else delta} for pipeline in (before, after))
    return tuple(f"{key} {_word(old[key])} -> {_word(new[key])}" for key in old if old[key] != new[key])


def _word(value: Any) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _tables(data: bytes) -> Tables:
    return toml_document(data, "")[1]


def _priced(change: Change, tables: Tables, first: Account) -> Priced:
    if change.free:
        return Priced(change, first.upper, 0.0)
    try:
        pipeline = replace(_pipeline(change.applied(tables)), path=first.pipeline.path)
        epsilon = headline(pipeline, delta=first.delta).upper
    except (InputError, CannotCertify, NotRepresentable) as error:
        return Priced(change, None, math.nan, f"cannot stand alone: {error}")
    return Priced(change, epsilon, epsilon - first.upper)


def _pipeline(tables: Tables) -> Pipeline:
    """The pipeline that these tables are. Raises InputError with the first thing that is wrong with them."""
    from dpcli.file.pipeline.series import plain_entries

    tables, findings, values = plain_entries(tables), Findings(), {}
    with suppress(TooMany):
        values = values_of(tables, findings)
    if findings.items:
        names = {index: table["name"] for index, table in enumerate(tables.get("mechanism", ()))}
        first = findings.items[0]
        raise InputError(f"{key_text(first.key, names)}: {first.message}")
    return pipeline_of(values, tables)


def _size(priced: Priced) -> tuple[int, float]:
    """The largest first, whatever its sign; then those without a number, then those without effect."""
    if math.isnan(priced.increase):
        return 1, 0.0
    return (0, -abs(priced.increase)) if priced.increase else (2, 0.0)
