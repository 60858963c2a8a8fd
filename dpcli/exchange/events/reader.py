"""Import from dp-accounting: conversion of a tree of DpEvents to the tables of a pipeline file.

A *DpEvent* is dp-accounting's description of a mechanism or a composition; an *entry* is the [[mechanism]] table of a pipeline file that
states one. dp_event.py calls `tables_of_event`. An event becomes *drafts*, entries of the new file with their steps, sampling and *parts*
(the entries that they run). A leaf is a mechanism (leaves.py), and NESTED has the classes that contain other events or a sample. The entry
must cost at least as much as the event under the stated adjacency; an event for which dpcli has no such entry is refused with the reason
(REFUSED), and never approximated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Any

from dpcli.base.errors import InputError
from dpcli.exchange.events.event_tree import EventTree
from dpcli.exchange.events.leaves import LEAVES, PURE, SHAPES, Keys, RecordChange
from dpcli.exchange.foreign import Asserted
from dpcli.file.toml.shown import first_names

REFUSED = {
    "NonPrivateDpEvent": "it is not private, and no mechanism of a pipeline file can express this",
    "UnsupportedDpEvent": "its privacy loss is not defined",
    "SampledWithReplacementDpEvent": "dpcli has no proof of amplification for samples drawn with replacement",
}
DISTRIBUTION_OF_SHAPE = {shape: distribution for distribution, shape in SHAPES.items()}
MOST_RUNS = 10**18  # largest number of repetitions of an event; the most steps that a pipeline file may state

WITH_DELTA = LEAVES["EpsilonDeltaDpEvent"].type  # type of a guarantee (epsilon, delta), for which `drafts` puts PURE if delta is 0


@dataclass(frozen=True, slots=True)
class Draft:
    """An entry of the new file.

    Attributes:
        type: Mechanism type.
        keys: Keys of the type.
        steps: Number of runs.
        sample: Its sampling table; None without sampling.
        parts: The entries that it names.
        naming: The key that names `parts`.
    """

    type: str
    keys: Keys
    steps: int = 1
    sample: Mapping[str, Any] | None = None
    parts: tuple[Draft, ...] = ()
    naming: str = ""


@dataclass(frozen=True, slots=True)
class EventReader:
    """The conversion of one tree.

    Attributes:
        change: The neighbouring relation, as far as the conversion depends on it.
        sizes: The dataset sizes that the samples of the tree state. They are collected during the conversion.
    """

    change: RecordChange
    sizes: set[int]

    def drafts(self, event: EventTree, count: int = 1) -> tuple[Draft, ...]:
        """Return the entries for `count` runs of an event. Raises InputError if no entry can express the event."""
        if event.name in REFUSED:
            raise event.refused(REFUSED[event.name])
        if event.name in NESTED:
            return NESTED[event.name](self, event, count)
        leaf = LEAVES[event.name]
        keys = leaf.keys(event, self.change)
        if leaf.type == WITH_DELTA and keys.get("delta") == 0.0:
            leaf, keys = PURE, PURE.keys(event, self.change)
        return (Draft(leaf.type, keys, count),)

    def self_composed(self, event: EventTree, count: int) -> tuple[Draft, ...]:
        """Return the entries of a self-composed event, with multiplied steps."""
        times = count * event.count("count")
        if times > MOST_RUNS:
            raise event.refused("expected at most 10^18 runs, found more")
        return self.drafts(event.event(), times)

    def composed(self, event: EventTree, count: int) -> tuple[Draft, ...]:
        """Return the entries of a composed event."""
        events = event["events"]
        if not isinstance(events, tuple) or not all(isinstance(event, EventTree) for event in events):
            raise event.refused("expected events to be a list of DpEvents")
        return merged(chain.from_iterable(self.drafts(event, count) for event in events))

    def sampled(self, event: EventTree, count: int, sample: Mapping[str, Any]) -> tuple[Draft, ...]:
        """Return the entry that runs the inner event on one sample. Several mechanisms become a composed entry."""
        inner = self.drafts(event.event())
        if any(_has_sample(draft) for draft in inner):
            raise event.refused(
                "expected no sample of a sample: state one sample with the rate at which a record is in the inner sample"
            )
        types_with_parts = [draft.type for draft in inner if draft.parts]
        if types_with_parts:
            raise event.refused(f"expected mechanisms in a sample, found {types_with_parts[0]}")
        if len(inner) == 1 and inner[0].steps == 1:
            return (replace(inner[0], steps=count, sample=sample),)
        if not inner:
            return ()
        return (Draft("composed", {}, count, sample, parts=inner, naming="mechanisms"),)

    def poisson(self, event: EventTree, count: int) -> tuple[Draft, ...]:
        """Return the entry of a Poisson sample."""
        return self.sampled(event, count, {"scheme": "poisson", "rate": event.number("sampling_probability")})

    def without_replacement(self, event: EventTree, count: int) -> tuple[Draft, ...]:
        """Return the entry of a sample of fixed size."""
        self.sizes.add(event.count("source_dataset_size"))
        return self.sampled(event, count, {"scheme": "fixed-size", "batch_size": event.count("sample_size")})

    def truncated(self, event: EventTree, count: int) -> tuple[Draft, ...]:
        """Return the entry of Gaussian noise on truncated Poisson samples."""
        self.sizes.add(event.count("dataset_size"))
        rate, most = event.number("sampling_probability"), event.count("truncated_batch_size")
        sample = {"scheme": "poisson", "rate": rate, "max_batch_size": most}
        return (Draft("gaussian", {"noise_multiplier": event.number("noise_multiplier")}, count, sample),)

    def selected(self, event: EventTree, count: int) -> tuple[Draft, ...]:
        """Return the entry of repeat-and-select."""
        inner = self.drafts(event.event())
        if not inner:
            raise event.refused("it contains no mechanism")
        if len(inner) > 1 and any(_has_sample(draft) or draft.parts for draft in inner):
            raise event.refused("expected one mechanism to be repeated, or several without sampling of their own")
        run = inner if len(inner) == 1 else (Draft("composed", {}, parts=inner, naming="mechanisms"),)
        shape, mean = event.number("shape"), event.number("mean")
        trials: dict[str, Any] = {"distribution": DISTRIBUTION_OF_SHAPE.get(shape, "truncated-negative-binomial"), "mean": mean}
        if shape not in DISTRIBUTION_OF_SHAPE:
            trials["eta"] = shape
        return (Draft("repeat-and-select", {"trials": trials}, count, parts=run, naming="mechanism"),)


Nested = Callable[[EventReader, EventTree, int], tuple[Draft, ...]]
NESTED: dict[str, Nested] = {
    "SelfComposedDpEvent": EventReader.self_composed,
    "ComposedDpEvent": EventReader.composed,
    "PoissonSampledDpEvent": EventReader.poisson,
    "SampledWithoutReplacementDpEvent": EventReader.without_replacement,
    "TruncatedSubsampledGaussianDpEvent": EventReader.truncated,
    "RepeatAndSelectDpEvent": EventReader.selected,
}


def _has_sample(draft: Draft) -> bool:
    return draft.sample is not None or any(_has_sample(part) for part in draft.parts)


def merged(drafts: Iterable[Draft]) -> tuple[Draft, ...]:
    """Merge consecutive entries that differ only in their steps. The steps are added up. Entries are equal if their texts are."""
    groups = [list(group) for _, group in groupby(drafts, key=lambda draft: repr(replace(draft, steps=1)))]
    return tuple(replace(group[0], steps=sum(draft.steps for draft in group)) for group in groups)


def tables_of_event(event: EventTree, asserted: Asserted) -> dict[str, Any]:
    """Return the tables of the pipeline file for an event under the stated adjacency.

    Raises InputError if the user states no adjacency, or no mechanism can express the event.
    """
    if asserted.adjacency is None:
        raise InputError(
            "the event does not state its adjacency: give --adjacency add-remove, unless the accountant of dp-accounting used another"
        )
    change = RecordChange(replaces=asserted.adjacency == "replace-one", contributions=asserted.max_contributions or 1)
    reader = EventReader(change, sizes=set())
    drafts = reader.drafts(event)
    if not drafts:
        raise event.refused("it contains no mechanism")
    sizes = set(reader.sizes)
    if asserted.dataset_size is not None:
        sizes.add(asserted.dataset_size)
    if len(sizes) > 1:
        raise InputError(
            f"expected one dataset size, found {first_names(map(str, sorted(sizes)))}: a pipeline file describes one dataset"
        )
    privacy = asserted.table
    if sizes:
        privacy["dataset_size"] = sizes.pop()
    return {"format": 1, "privacy": privacy, "mechanism": list(_entries(drafts))}


def _entries(drafts: tuple[Draft, ...]) -> Iterator[dict[str, Any]]:
    """Yield the [[mechanism]] tables. Each is named by its type, with a number if several have the type. Parts come before their owners."""
    ordered = list(chain.from_iterable(map(_with_parts, drafts)))
    draws_several_samples = sum(draft.sample is not None for draft in ordered) > 1
    count_of_type = Counter(draft.type for draft in ordered)
    numbers: Counter[str] = Counter()
    names: dict[int, str] = {}  # by the identity of the draft, because equal drafts are different entries
    for draft in ordered:
        numbers[draft.type] += 1
        name = draft.type if count_of_type[draft.type] == 1 else f"{draft.type}-{numbers[draft.type]}"
        names[id(draft)] = name
        table: dict[str, Any] = {"name": name, "type": draft.type, **draft.keys}
        if draft.parts:
            parts = [names[id(part)] for part in draft.parts]
            table[draft.naming] = parts if draft.naming == "mechanisms" else parts[0]
        if draft.steps != 1:
            table["steps"] = draft.steps
        if draft.sample is not None:
            table["sampling"] = dict(draft.sample)
            if draws_several_samples:
                table["sample"] = "own"  # every event draws a separate sample
        yield table


def _with_parts(draft: Draft) -> Iterator[Draft]:
    """Yield an entry after all entries that it runs, and that these run."""
    for part in draft.parts:
        yield from _with_parts(part)
    yield draft
