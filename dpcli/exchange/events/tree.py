"""A DpEvent of dp-accounting as a value: the name of its class, and its fields by their own names."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpcli.errors import InputError
from dpcli.toml.shown import escaped, shown

Value = Any  # a number, a list of numbers, an EventTree, or a list of these

# The classes of dp_accounting.dp_event (0.6, and what its source has since), with the fields that must be there and may be there.
EVENTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "NoOpDpEvent": ((), ()),
    "NonPrivateDpEvent": ((), ()),
    "UnsupportedDpEvent": ((), ()),
    "GaussianDpEvent": (("noise_multiplier",), ()),
    "LaplaceDpEvent": (("noise_multiplier",), ()),
    "DiscreteLaplaceDpEvent": (("noise_parameter", "sensitivity"), ()),
    "DiscreteGaussianDpEvent": (("sigma",), ("sensitivity", "dimension")),
    "RandomizedResponseDpEvent": (("noise_parameter", "num_buckets"), ()),
    "EpsilonDeltaDpEvent": (("epsilon", "delta"), ()),
    "ZCDpEvent": (("rho",), ("xi",)),
    "ExponentialMechanismDpEvent": (("epsilon",), ()),
    "PermuteAndFlipDpEvent": (("epsilon",), ()),
    "MixtureOfGaussiansDpEvent": (("standard_deviation", "sensitivities", "sampling_probs"), ()),
    "TruncatedSubsampledGaussianDpEvent": (
        ("dataset_size", "sampling_probability", "truncated_batch_size", "noise_multiplier"),
        (),
    ),
    "SingleEpochTreeAggregationDpEvent": (("noise_multiplier", "step_counts"), ()),
    "SelfComposedDpEvent": (("event", "count"), ()),
    "ComposedDpEvent": (("events",), ()),
    "PoissonSampledDpEvent": (("sampling_probability", "event"), ()),
    "SampledWithReplacementDpEvent": (("source_dataset_size", "sample_size", "event"), ()),
    "SampledWithoutReplacementDpEvent": (("source_dataset_size", "sample_size", "event"), ()),
    "RepeatAndSelectDpEvent": (("event", "mean", "shape"), ()),
}
DEPTH = 60  # events inside of events


@dataclass(frozen=True, slots=True)
class EventTree:
    """One event. fields: numbers as int or float, sequences as tuples, inner events as EventTree; None where a field has no value."""

    name: str
    fields: Mapping[str, Value]

    def __getitem__(self, field: str) -> Value:
        return self.fields[field]

    def number(self, field: str) -> float:
        """A field that holds a number. Raises InputError where it does not."""
        value = self.fields[field]
        if type(value) not in (int, float) or math.isnan(value):
            raise self.refused(f"expected {field} to be a number, found {_told(value)}")
        return float(value)

    def whole(self, field: str) -> int:
        """A field that holds a whole number >= 1."""
        value = self.fields[field]
        if type(value) is not int or value < 1:
            raise self.refused(f"expected {field} to be a whole number, at least 1, found {_told(value)}")
        return value

    def event(self) -> EventTree:
        """The event inside."""
        value = self.fields["event"]
        if not isinstance(value, EventTree):
            raise self.refused(f"expected event to be a DpEvent, found {_told(value)}")
        return value

    def refused(self, why: str) -> InputError:
        return InputError(f"{self.name}: {why}")


def tree_of(event: Any, depth: int = 0) -> EventTree:
    """The value of a DpEvent, of its named tuple, or of the table that JSON has for it; known by its name, dp_accounting is not imported.

    A table names the class as "type" (or "class_name", as to_named_tuple does).

    Raises InputError where it is none, a field is missing, or a field is there that the class does not have.
    """
    if depth > DEPTH:
        raise InputError(f"expected events at most {DEPTH} deep, found more")
    name, found = _parts(event)
    if name not in EVENTS:
        raise InputError(f"expected a class of dp_accounting.dp_event, found {escaped(name)}")
    needed, optional = EVENTS[name]
    missing = [field for field in needed if field not in found]
    strange = [field for field in found if field not in (*needed, *optional)]
    if missing or strange:
        wanted = ", ".join((*needed, *optional)) or "no field"
        fault = f"found no {missing[0]}" if missing else f"found {escaped(strange[0])} too"
        raise InputError(f"{name}: expected {wanted}, {fault}")
    return EventTree(name, {field: _value(value, depth + 1) for field, value in found.items()})


def _parts(event: Any) -> tuple[str, dict[str, Any]]:
    """Name and fields, whatever form the event has."""
    if isinstance(event, EventTree):
        return event.name, dict(event.fields)
    if isinstance(event, dict):
        own = {key: value for key, value in event.items() if key not in ("type", "class_name", "module_name")}
        name = event.get("type", event.get("class_name"))
        if type(name) is not str or not all(type(key) is str for key in own):
            raise InputError('expected a DpEvent as a table { "type": "GaussianDpEvent", ... }, found no "type" in it')
        return name, own
    fields = getattr(event, "_fields", None)
    if isinstance(fields, tuple) and "class_name" in fields:
        return str(event.class_name), {each: getattr(event, each) for each in fields if each not in ("module_name", "class_name")}
    name = type(event).__name__
    needed, optional = EVENTS.get(name, ((), ()))
    stated = [
        field.name for field in getattr(type(event), "__attrs_attrs__", ())
    ]  # all of them: a new one may change what it means
    return name, {each: getattr(event, each) for each in dict.fromkeys((*needed, *optional, *stated)) if hasattr(event, each)}


def _value(value: Any, depth: int) -> Value:
    if value is None or type(value) in (bool, str, int, float):
        return math.inf if value == "inf" else value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    is_event = isinstance(value, dict) or hasattr(value, "_fields") or type(value).__name__.endswith("Event")
    if is_event or isinstance(value, EventTree):
        return tree_of(value, depth)
    if isinstance(value, Sequence):
        return tuple(_value(each, depth) for each in value)
    if hasattr(value, "tolist"):
        return _value(value.tolist(), depth)
    return tree_of(value, depth)


def plain_of(tree: EventTree) -> dict[str, Any]:
    """The tree as JSON has it, infinities as "inf"."""
    return {"type": tree.name, **{field: _plain(value) for field, value in tree.fields.items()}}


def _plain(value: Value) -> Any:
    if isinstance(value, EventTree):
        return plain_of(value)
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return "inf" if value == math.inf else value


def _told(value: Value) -> str:
    return value.name if isinstance(value, EventTree) else "a list" if isinstance(value, tuple) else shown(value)
