"""Export to dp-accounting: conversion of a pipeline to a tree of DpEvents, the inverse of reader.py.

A *DpEvent* is dp-accounting's description of a mechanism or a composition; an *entry* is the [[mechanism]] table of a pipeline file that
states one. dp_event.py calls `tree_of_pipeline`. Steps become self-composed events, sampling becomes an event around the mechanism, and
entries that share a sample are composed inside it. Every key of an entry must be expressed by its event, or else the export is refused
(`_event_of`). A sampling rate is rounded up, so that the event does not claim more privacy. The adjacency is not part of an event:
dp_event.py writes it next to the event, as the accountant of dp-accounting takes it (RELATIONS).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from dpcli.base.errors import InputError
from dpcli.exchange.events.event_tree import EventTree
from dpcli.exchange.events.leaves import LEAVES, PURE, SHAPES, Keys, RecordChange
from dpcli.exchange.foreign import rate_of
from dpcli.file.pipeline.canonical import tables_of
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.parts import entries_by_sample, part_names
from dpcli.file.pipeline.resolve import resolve
from dpcli.file.toml.shown import first_names, quoted
from dpcli.mechanisms.sampling.schemes import Batched, FixedSize, Poisson, Unsampled

RELATIONS = {"add-remove": "ADD_OR_REMOVE_ONE", "replace-one": "REPLACE_ONE", "zero-out": "REPLACE_SPECIAL"}
EVENT_OF = {leaf.type: name for name, leaf in LEAVES.items()}  # class of events by mechanism type
# Keys of every entry that the structure of the event expresses, or that do not matter.
SHARED = ("name", "type", "steps", "epochs", "sampling", "sample", "description")


def tree_of_pipeline(pipeline: Pipeline) -> EventTree:
    """Return the event for all mechanisms of a pipeline, to be composed under the relation of its adjacency (RELATIONS).

    Raises InputError if no event can express the pipeline, or dpcli itself cannot account for it.
    """
    if (pipeline.privacy.max_contributions or 1) > 1:
        raise InputError("an event describes the change of one record: expected max_contributions = 1, or no such key")
    if pipeline.privacy.adaptive:
        raise InputError("an event describes mechanisms that were fixed beforehand: expected adaptive = false, found true")
    resolve(pipeline)  # raises InputError if dpcli cannot account for the pipeline
    writer = EventWriter.for_pipeline(pipeline)
    parts = {name for entry in pipeline.mechanisms for name in part_names(entry.spec)}  # entries that other entries run
    entries_of_sample = entries_by_sample(pipeline.mechanisms)
    events = []
    for entry in pipeline.mechanisms:
        together = entries_of_sample.get(entry.sample, (entry,))  # the entries on the same sample, which become one event
        if entry.name not in parts and entry is together[0]:
            events.append(writer.event(*(member.name for member in together)))
    return _composed(events)


def _composed(events: Sequence[EventTree]) -> EventTree:
    """Return the composition of events, or the only event."""
    return events[0] if len(events) == 1 else EventTree("ComposedDpEvent", {"events": tuple(events)})


@dataclass(frozen=True, slots=True)
class EventWriter:
    """The conversion of one pipeline.

    Attributes:
        entries, tables: The entries and their plain tables, by name.
        change: The neighbouring relation.
        size: Number of records in the dataset, if the file states it.
    """

    entries: Mapping[str, Entry]
    tables: Mapping[str, Mapping[str, Any]]
    change: RecordChange
    size: int | None

    @classmethod
    def for_pipeline(cls, pipeline: Pipeline) -> EventWriter:
        privacy = pipeline.privacy
        tables = {table["name"]: table for table in tables_of(pipeline)["mechanism"]}
        change = RecordChange(replaces=privacy.adjacency.value == "replace-one")
        return cls({entry.name: entry for entry in pipeline.mechanisms}, tables, change, privacy.dataset_size)

    def event(self, *names: str) -> EventTree:
        """Return the event of all steps of an entry or, with several names, of entries that share a sample."""
        inner = _composed([self._event_of(name) for name in names])
        first, *_ = names  # entries that share a sample have equal steps and sampling
        try:
            return self._all_steps(self.entries[first], inner)
        except InputError as error:
            raise _refusal(first, error) from None

    def _event_of(self, name: str) -> EventTree:
        """Return the event of one run of an entry on all of the data."""
        keys = {key: value for key, value in self.tables[name].items() if key not in SHARED}
        try:
            inner = self._mechanism_event(self.entries[name].type, keys)
            if keys:
                raise InputError(f"no DpEvent can express {first_names(sorted(keys))}")
        except InputError as error:
            raise _refusal(name, error) from None
        return inner

    def _mechanism_event(self, mechanism_type: str, keys: Keys) -> EventTree:
        """Return the event of one run on all of the data. The keys that it expresses are removed from `keys`."""
        if mechanism_type in COMPOUNDS:
            return COMPOUNDS[mechanism_type](self, keys)
        if mechanism_type == PURE.type:
            return EventTree(EVENT_OF["approx-dp"], PURE.fields(keys, self.change))
        if mechanism_type not in EVENT_OF:
            raise InputError(f"dp-accounting has no event for {mechanism_type}")
        event = EVENT_OF[mechanism_type]
        fields = LEAVES[event].fields(keys, self.change)
        return EventTree(event, {field: value for field, value in fields.items() if value is not None})

    def _all_steps(self, entry: Entry, inner: EventTree) -> EventTree:
        """Return the event of all steps of an entry, given the event of one step on all of the data."""
        step, sampling, runs = inner, entry.sampling, entry.runs(self.size)
        if isinstance(sampling, Unsampled | None):
            count = runs.steps_at(None)
        elif isinstance(sampling, Batched) and type(sampling) in SAMPLES:
            step = SAMPLES[type(sampling)](self, sampling, inner)
            count = runs.steps_at(sampling.lower_rate(self.size))  # at a smaller rate, epochs have more steps
        else:
            raise InputError(f"dp-accounting has no event for the sampling scheme {sampling.scheme}")
        return step if count == 1 else EventTree("SelfComposedDpEvent", {"event": step, "count": count})

    def poisson(self, sampling: Poisson, inner: EventTree) -> EventTree:
        """Return the event of one step on a Poisson sample, truncated if the scheme has max_batch_size."""
        rate = rate_of(sampling, self.size)
        if sampling.max_batch_size is None:
            return EventTree("PoissonSampledDpEvent", {"sampling_probability": rate, "event": inner})
        if inner.name != "GaussianDpEvent":
            raise InputError("dp-accounting has truncated batches (max_batch_size) only for Gaussian noise")
        fields = {
            "dataset_size": self.size,
            "sampling_probability": rate,
            "truncated_batch_size": sampling.max_batch_size,
            "noise_multiplier": inner["noise_multiplier"],
        }
        return EventTree("TruncatedSubsampledGaussianDpEvent", fields)

    def fixed_size(self, sampling: FixedSize, inner: EventTree) -> EventTree:
        """Return the event of one step on a sample of fixed size."""
        rate = sampling.exact_rate(self.size)
        if self.size is None or rate is None:
            raise InputError("SampledWithoutReplacementDpEvent counts records: state privacy.dataset_size, and batch_size")
        fields = {"source_dataset_size": self.size, "sample_size": ceil(rate * self.size), "event": inner}
        return EventTree("SampledWithoutReplacementDpEvent", fields)

    def composed(self, keys: Keys) -> EventTree:
        """Return the event of a composed entry."""
        return EventTree("ComposedDpEvent", {"events": tuple(self.event(name) for name in keys.pop("mechanisms"))})

    def selected(self, keys: Keys) -> EventTree:
        """Return the event of a repeat-and-select entry."""
        trials = keys.pop("trials")
        if "mean" not in trials:
            raise InputError("RepeatAndSelectDpEvent has the mean number of trials: state mean instead of gamma")
        if "most" in trials:
            raise InputError("RepeatAndSelectDpEvent has no binomial number of trials")
        shape = SHAPES.get(trials["distribution"], trials.get("eta"))
        fields = {"event": self.event(keys.pop("mechanism")), "mean": trials["mean"], "shape": shape}
        return EventTree("RepeatAndSelectDpEvent", fields)


def _refusal(name: str, error: InputError) -> InputError:
    return InputError(f"mechanism {quoted(name)} cannot be a DpEvent: {error}")


# Mechanism types that run other entries.
COMPOUNDS: dict[str, Callable[[EventWriter, Keys], EventTree]] = {
    "composed": EventWriter.composed,
    "repeat-and-select": EventWriter.selected,
}
SAMPLES: dict[type, Callable[[EventWriter, Any, EventTree], EventTree]] = {
    Poisson: EventWriter.poisson,
    FixedSize: EventWriter.fixed_size,
}
