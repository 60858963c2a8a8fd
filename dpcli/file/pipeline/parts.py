"""Entries that depend on each other: entries that are parts of others, and entries that share a sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dpcli.file.pipeline.model import OWN, Entry, Pipeline
from dpcli.file.toml.findings import Problem
from dpcli.file.toml.looks import looks
from dpcli.file.toml.shown import escaped, quoted
from dpcli.file.toml.suggest import did_you_mean
from dpcli.mechanisms.sampling.schemes import Unsampled
from dpcli.mechanisms.spec import Spec


def part_problems(entries: Mapping[int, Entry], tables: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    """Yield a problem for each name of a part that does not exist or cannot be a part, and for each cycle of parts."""
    places = {table["name"]: index for index, table in enumerate(tables) if type(table.get("name")) is str}
    edges: dict[str, list[str]] = {}
    for index, entry in entries.items():
        for position, name in enumerate(named(entry.spec)):
            problem = _part(entry, name, entries.get(places.get(name, -1)), places)
            if problem:
                yield ("mechanism", index, *entry.spec.part_path(position)), "the name of another mechanism", problem
            else:
                edges.setdefault(entry.name, []).append(name)
    for cycle in _cycles(edges):
        start = min(places[name] for name in cycle)
        (key, *_) = next(entry for entry in entries.values() if places[entry.name] == start).spec.part_path(0)
        yield ("mechanism", start, key), "parts that do not contain this mechanism", " -> ".join(map(quoted, cycle))


def named(spec: Spec) -> list[str]:
    """Return the names of the entries that are parts of this mechanism."""
    names: list[str] = []

    def record_name(name: str) -> tuple[Spec, int]:
        names.append(name)
        return Spec(), 1

    spec.bind(record_name)
    return names


def marked_by_a_blank(entries: Sequence[Entry]) -> str | None:
    """Return the name of the first entry whose release may differ between a blank record and no record; None if there is none.

    A blank adds 0 to a sum with noise per contribution, and therefore to entries that run such sums. The exception is a batch of limited
    size, in which a blank takes a place.
    """
    for entry in entries:
        if not (entry.spec.contribution_form or named(entry.spec)) or getattr(entry.sampling, "max_batch_size", None) is not None:
            return entry.name
    return None


def shares_its_price(entry: Entry, pipeline: Pipeline) -> bool:
    """Return whether an entry is part of a partition, of a shared sample, or of another entry.

    The account may then charge less for the entry than it would cost alone.
    """
    shared = entry.partition is not None or len(together(entry, pipeline.mechanisms)) > 1
    return shared or any(entry.name in named(mechanism.spec) for mechanism in pipeline.mechanisms)


def schemes(pipeline: Pipeline) -> str:
    """Return the sampling schemes of the entries that read data, joined by "and"; "none" without sampling.

    An entry that only runs other entries is left out, as they state the schemes.
    """
    entries = [entry for entry in pipeline.mechanisms if not entry.spec.free and not _runs_others(entry)]
    return " and ".join(sorted({entry.sampling.scheme if entry.sampling else "none" for entry in entries})) or "none"


def _runs_others(entry: Entry) -> bool:
    return entry.sampling is None and (hasattr(entry.spec, "mechanisms") or hasattr(entry.spec, "mechanism"))


def _part(owner: Entry, name: str, part: Entry | None, known: Mapping[str, int]) -> str | None:
    """Return the reason why `name` cannot be a part of `owner`; None if it can."""
    if name == owner.name:
        return "its own name"
    if name not in known:
        hint = did_you_mean(name, known)
        return f"{quoted(name)}, which no mechanism has" + (f"; {hint}" if hint else "")
    if part is not None and part.sampling is not None and not owner.spec.whole_runs:
        return f"{quoted(name)}, which has sampling of its own; state it on the composed entry"
    if part is not None and part.sample not in (None, OWN):
        return f"{quoted(name)}, which shares a sample; a part runs without the others"
    if part is not None and part.partition is not None:
        return f"{quoted(name)}, which has a partition of its own; state it on the composed entry"
    return None


def _cycles(edges: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """Yield the cycles that a depth-first search meets, one for each edge back into the current path. The search uses no recursion."""
    finished: set[str] = set()
    for start in edges:
        walk = {} if start in finished else {start: iter(edges[start])}
        while walk:
            last = next(reversed(walk))
            part = next(walk[last], None)
            if part is None:
                finished.add(last)
                walk.popitem()
            elif part in walk:
                names = list(walk)
                yield [*names[names.index(part) :], part]
            elif part not in finished:
                walk[part] = iter(edges.get(part, ()))


DRAWN = ("sampling", "steps", "epochs", "partition")  # keys in which entries of one sample must agree


def samples_of(entries: Iterable[Entry]) -> dict[str | None, tuple[Entry, ...]]:
    """Return the entries that read each named sample, in their order."""
    result: dict[str | None, list[Entry]] = {}
    for entry in entries:
        if entry.sample not in (None, OWN):
            result.setdefault(entry.sample, []).append(entry)
    return {name: tuple(one) for name, one in result.items()}


def together(entry: Entry, entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Return the entries that read the sample of `entry`, including `entry`, in their order."""
    return (entry,) if entry.sample in (None, OWN) else tuple(one for one in entries if one.sample == entry.sample)


def sample_problems(entries: Mapping[int, Entry], tables: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    """Yield the problems of named samples.

    An entry with a sample must have sampling. A sample needs at least two entries, which must agree in `DRAWN`. Names of samples must not
    look alike.
    """
    stated = Counter(table["sample"] for table in tables if type(table.get("sample")) is str)
    by_skeleton = {looks(OWN): OWN}
    first: dict[str, Entry] = {}
    for index, entry in entries.items():
        if entry.sample is None:
            continue
        path = ("mechanism", index)
        if isinstance(entry.sampling, Unsampled | None):
            yield (*path, "sample"), "sampling with sample", "none: every step reads all records"
        elif (similar := by_skeleton.setdefault(looks(entry.sample), entry.sample)) != entry.sample:
            yield (*path, "sample"), f"{quoted(similar)}, or a name that does not look like it", quoted(entry.sample)
        elif entry.sample != OWN and stated[entry.sample] < 2:
            hint = did_you_mean(entry.sample, [name for name in stated if name != entry.sample])
            actual = f"{quoted(entry.sample)}, which no other mechanism has" + (f"; {hint}" if hint else "")
            yield (*path, "sample"), 'a sample that another mechanism has too, or "own"', actual
        elif entry.sample != OWN and (one := first.setdefault(entry.sample, entry)) is not entry:
            yield from (((*path, key), expected, actual) for key, expected, actual in differing(one, entry))


def differing(first: Entry, entry: Entry) -> Iterator[tuple[str, str, str]]:
    """Yield the keys of `DRAWN` in which two entries of one sample differ, as (key, expected, found)."""
    for key in DRAWN:
        if _stated(first, key) != _stated(entry, key):
            place = f'mechanism["{escaped(first.name)}"].{key}'
            yield key, f'{_shown(first, key)}, as {place}: both have sample = "{escaped(first.sample or "")}"', _shown(entry, key)


def _stated(entry: Entry, key: str) -> Any:
    """Return the effective value of a key. `steps` has no effect if the entry states `epochs`."""
    return None if key == "steps" and entry.epochs is not None else getattr(entry, key)


def _shown(entry: Entry, key: str) -> str:
    from dpcli.file.keys.tables import plain
    from dpcli.file.toml.write import value_text

    value = _stated(entry, key)
    return "none" if value is None else value_text(plain(value))
