"""Entries that depend on each other: entries that are parts of others, and entries that share a sample.

A *part* is an entry that another one names, such as a member of a composed mechanism: it is charged there, and by itself costs nothing. A
*sample* with a name is drawn once and read by all entries that state the name, which must then agree on how it is drawn. A part that does
not exist, a cycle of parts, or two draws under one name would make the account leave out a cost, so each is a problem: a triple of the path
of a key, the text after "expected", and the text after "found". consistency.py asks for the problems while a file is read; resolve.py, lint
and the commands ask which entries belong together. The *spec* of an entry holds the keys of its mechanism type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from dpcli.file.pipeline.model import OWN, Entry, Pipeline
from dpcli.file.toml.confusables import skeleton
from dpcli.file.toml.findings import Problem
from dpcli.file.toml.shown import escaped, quoted
from dpcli.file.toml.suggest import did_you_mean
from dpcli.mechanisms.sampling.schemes import Unsampled
from dpcli.mechanisms.spec import Spec

SAMPLING_KEYS = ("sampling", "steps", "epochs", "partition")  # keys in which entries of one sample must agree


def part_problems(entries: Mapping[int, Entry], tables: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    """Yield a problem for each name of a part that does not exist or cannot be a part, and for each cycle of parts."""
    # `tables` has every entry, and `entries` those that can be read. A name stays known if its entry has some other mistake.
    index_of = {table["name"]: index for index, table in enumerate(tables) if type(table.get("name")) is str}
    edges: dict[str, list[str]] = {}  # the parts of each entry, by name
    for index, entry in entries.items():
        for position, name in enumerate(part_names(entry.spec)):
            part = entries.get(index_of[name]) if name in index_of else None
            actual = _why_no_part(entry, name, part, index_of)
            if actual:
                yield ("mechanism", index, *entry.spec.part_path(position)), "the name of another mechanism", actual
            else:
                edges.setdefault(entry.name, []).append(name)
    for cycle in _cycles(edges):  # reported once, at the entry of the cycle that comes first in the file
        first = min(index_of[name] for name in cycle)
        first_entry = next(entry for entry in entries.values() if index_of[entry.name] == first)
        key = first_entry.spec.part_path(0)[0]  # the key with the list of parts, not the element of the list
        yield ("mechanism", first, key), "parts that do not contain this mechanism", " -> ".join(map(quoted, cycle))


def part_names(spec: Spec) -> list[str]:
    """Return the names of the entries that are parts of this mechanism.

    Each mechanism type has its own keys for them. `Spec.bind`, which looks up the spec and the steps of each part, is the one way to list
    them for all types; its result is not used here.
    """
    names: list[str] = []

    def record_name(name: str) -> tuple[Spec, int]:
        names.append(name)
        return Spec(), 1

    spec.bind(record_name)
    return names


def entry_that_shows_blanks(entries: Sequence[Entry]) -> str | None:
    """Return the name of the first entry whose release may reveal whether a blank record is in its data; None if there is none.

    Under zero-out a record is replaced by a blank, which contributes nothing. If the noise is stated relative to the bound on one record's
    contribution (`contribution_form`), the release is a sum to which a blank adds 0. So such an entry, and an entry that runs such entries,
    reveals nothing. The exception is a batch of limited size, in which a blank takes a place.
    """
    for entry in entries:
        sums_contributions = entry.spec.contribution_form or part_names(entry.spec)
        is_limited = getattr(entry.sampling, "max_batch_size", None) is not None
        if is_limited or not sums_contributions:
            return entry.name
    return None


def shares_its_price(entry: Entry, pipeline: Pipeline) -> bool:
    """Return whether an entry is part of a partition, of a shared sample, or of another entry.

    The account may then charge less for the entry than it would cost alone.
    """
    if entry.partition is not None or len(sample_readers(entry, pipeline.mechanisms)) > 1:
        return True
    return any(entry.name in part_names(mechanism.spec) for mechanism in pipeline.mechanisms)


def scheme_names(pipeline: Pipeline) -> str:
    """Return the names of the sampling schemes of the entries that read data, joined by "and"; "none" without sampling.

    An entry that only runs other entries is left out, because they state the schemes.
    """
    entries = [entry for entry in pipeline.mechanisms if not entry.spec.free and not _runs_others(entry)]
    names = {"none" if entry.sampling is None else entry.sampling.scheme for entry in entries}
    return " and ".join(sorted(names)) or "none"


def _runs_others(entry: Entry) -> bool:
    """Return whether an entry has no sampling of its own and names others that it runs, by the keys `mechanisms` or `mechanism`."""
    return entry.sampling is None and (hasattr(entry.spec, "mechanisms") or hasattr(entry.spec, "mechanism"))


def _why_no_part(owner: Entry, name: str, part: Entry | None, names: Collection[str]) -> str | None:
    """Return the reason why the entry with this name cannot be a part of `owner`, as the text after "found"; None if it can.

    `names` are those of all entries. `part` is None if the entry does not exist, or has mistakes, which are reported there.
    """
    if name == owner.name:
        return "its own name"
    if name not in names:
        return f"{quoted(name)}, which no mechanism has{_hint(name, names)}"
    if part is None:
        return None
    if part.sampling is not None and not owner.spec.whole_runs:  # `whole_runs`: each part runs with its own sampling and steps
        return f"{quoted(name)}, which has sampling of its own; state it on the composed entry"
    if part.sample not in (None, OWN):
        return f"{quoted(name)}, which shares a sample; a part runs without the others"
    if part.partition is not None:
        return f"{quoted(name)}, which has a partition of its own; state it on the composed entry"
    return None


def _hint(name: str, names: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: a suggestion, or "" if no name is similar."""
    hint = did_you_mean(name, names)
    return f"; {hint}" if hint else ""


def _cycles(edges: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """Yield the cycles that a depth-first search meets, one for each edge back into the current path. The search uses no recursion."""
    finished: set[str] = set()
    for start in edges:
        path = {} if start in finished else {start: iter(edges[start])}  # names on the current path, with the edges to follow
        while path:
            last = next(reversed(path))
            part = next(path[last], None)
            if part is None:
                finished.add(last)
                path.popitem()
            elif part in path:
                names = list(path)
                yield [*names[names.index(part) :], part]
            elif part not in finished:
                path[part] = iter(edges.get(part, ()))


def entries_by_sample(entries: Iterable[Entry]) -> dict[str | None, tuple[Entry, ...]]:
    """Return the entries that read each named sample, in their order. Entries without `sample`, or with "own", are left out."""
    result: dict[str | None, list[Entry]] = {}
    for entry in entries:
        if entry.sample not in (None, OWN):
            result.setdefault(entry.sample, []).append(entry)
    return {name: tuple(members) for name, members in result.items()}


def sample_readers(entry: Entry, entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Return the entries that read the sample of `entry`, including `entry`, in their order."""
    if entry.sample in (None, OWN):
        return (entry,)
    return tuple(other for other in entries if other.sample == entry.sample)


def sample_problems(entries: Mapping[int, Entry], tables: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    """Yield the problems of named samples.

    An entry with a sample must have sampling. A sample needs at least two entries, which must agree in `SAMPLING_KEYS`. Names of samples
    must not look alike, since people who read the file would take two draws for one; names that look alike have the same `skeleton`.
    """
    uses = Counter(table["sample"] for table in tables if type(table.get("sample")) is str)
    by_skeleton = {skeleton(OWN): OWN}  # the first name of each look; "own" is reserved for a sample that no other entry reads
    first_reader: dict[str, Entry] = {}
    for index, entry in entries.items():
        sample = entry.sample
        if sample is None:
            continue
        path = ("mechanism", index, "sample")
        if isinstance(entry.sampling, Unsampled | None):
            yield path, "sampling with sample", "none: every step reads all records"
            continue
        similar = by_skeleton.setdefault(skeleton(sample), sample)
        if similar != sample:
            yield path, f"{quoted(similar)}, or a name that does not look like it", quoted(sample)
        elif sample != OWN and uses[sample] < 2:
            hint = _hint(sample, [name for name in uses if name != sample])
            actual = f"{quoted(sample)}, which no other mechanism has{hint}"
            yield path, 'a sample that another mechanism has too, or "own"', actual
        elif sample != OWN:
            first = first_reader.setdefault(sample, entry)
            for key, expected, actual in sampling_differences(first, entry):
                yield ("mechanism", index, key), expected, actual


def sampling_differences(first: Entry, entry: Entry) -> Iterator[tuple[str, str, str]]:
    """Yield the keys of `SAMPLING_KEYS` in which two entries of one sample differ, as (key, expected, found)."""
    for key in SAMPLING_KEYS:
        if _stated(first, key) != _stated(entry, key):
            place = f'mechanism["{escaped(first.name)}"].{key}'
            yield key, f'{_shown(first, key)}, as {place}: both have sample = "{escaped(first.sample or "")}"', _shown(entry, key)


def _stated(entry: Entry, key: str) -> Any:
    """Return the effective value of a key. `steps` has no effect if the entry states `epochs`."""
    return None if key == "steps" and entry.epochs is not None else getattr(entry, key)


def _shown(entry: Entry, key: str) -> str:
    """Return the effective value of a key as a file writes it; "none" if there is none."""
    from dpcli.file.keys.tables import plain
    from dpcli.file.toml.write import value_text

    value = _stated(entry, key)
    return "none" if value is None else value_text(plain(value))
