"""Entries that share a sample: they agree on how it is drawn and how often, and are priced as one mechanism that runs on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dpcli.file.pipeline.model import OWN, Entry
from dpcli.file.toml.findings import Problem
from dpcli.file.toml.looks import looks
from dpcli.file.toml.shown import escaped, quoted
from dpcli.file.toml.suggest import did_you_mean
from dpcli.mechanisms.sampling.schemes import Unsampled

DRAWN = ("sampling", "steps", "epochs", "partition")  # keys that entries of one sample have in common


def samples_of(entries: Iterable[Entry]) -> dict[str | None, tuple[Entry, ...]]:
    """The entries that read each sample of a name, in their order."""
    found: dict[str | None, list[Entry]] = {}
    for entry in entries:
        if entry.sample not in (None, OWN):
            found.setdefault(entry.sample, []).append(entry)
    return {name: tuple(one) for name, one in found.items()}


def together(entry: Entry, entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The entries that read the sample of `entry`, itself among them, in their order."""
    return (entry,) if entry.sample in (None, OWN) else tuple(one for one in entries if one.sample == entry.sample)


def sample_problems(entries: Mapping[int, Entry], tables: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    """Samples of what is not sampled, of one entry alone, of names that look alike, and of entries that draw in different ways."""
    stated = Counter(table["sample"] for table in tables if type(table.get("sample")) is str)
    seen = {looks(OWN): OWN}
    first: dict[str, Entry] = {}
    for index, entry in entries.items():
        if entry.sample is None:
            continue
        here = ("mechanism", index)
        if isinstance(entry.sampling, Unsampled | None):
            yield (*here, "sample"), "sampling with sample", "none: every step sees all records"
        elif (alike := seen.setdefault(looks(entry.sample), entry.sample)) != entry.sample:
            yield (*here, "sample"), f"{quoted(alike)}, or a name that does not look like it", quoted(entry.sample)
        elif entry.sample != OWN and stated[entry.sample] < 2:
            hint = did_you_mean(entry.sample, [name for name in stated if name != entry.sample])
            found = f"{quoted(entry.sample)}, which no other mechanism has" + (f"; {hint}" if hint else "")
            yield (*here, "sample"), 'the sample that another mechanism has too, or "own"', found
        elif entry.sample != OWN and (one := first.setdefault(entry.sample, entry)) is not entry:
            yield from (((*here, key), expected, found) for key, expected, found in differing(one, entry))


def differing(first: Entry, entry: Entry) -> Iterator[tuple[str, str, str]]:
    """What two entries of one sample do not agree on, as (key, expected, found), with the place of the first."""
    for key in DRAWN:
        if _stated(first, key) != _stated(entry, key):
            place = f'mechanism["{escaped(first.name)}"].{key}'
            yield key, f'{_shown(first, key)}, as {place}: both have sample = "{escaped(first.sample or "")}"', _shown(entry, key)


def _stated(entry: Entry, key: str) -> Any:
    """The value that counts: epochs take the place of steps."""
    return None if key == "steps" and entry.epochs is not None else getattr(entry, key)


def _shown(entry: Entry, key: str) -> str:
    from dpcli.file.keys.plain import plain
    from dpcli.file.toml.write import value_text

    value = _stated(entry, key)
    return "none" if value is None else value_text(plain(value))
