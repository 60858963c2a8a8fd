"""A DpEvent of dp-accounting as a tree: the name of its class, and its fields by name, without the classes of dp_accounting.

An event is dp-accounting's description of a mechanism or a composition. It arrives as an object, a named tuple, or JSON in several forms;
`tree_of` makes one form of them. An event is accepted if EVENTS has its class by this name, with these fields and no others: a field that
this version does not know could change the meaning. Where a form states the module of the class, it must be HOME.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dpcli.base.errors import InputError
from dpcli.exchange.foreign import LARGEST_NUMBER, ForeignTable, in_words
from dpcli.file.toml.shown import escaped, shown

Value = Any  # a number, a list of numbers, an EventTree, or a list of these


class EventFields(NamedTuple):
    """The names of the fields of a class of events."""

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


# The classes of dp_accounting.dp_event (version 0.6, and its source since then), each with its fields.
EVENTS: dict[str, EventFields] = {
    "NoOpDpEvent": EventFields(),
    "NonPrivateDpEvent": EventFields(),
    "UnsupportedDpEvent": EventFields(),
    "GaussianDpEvent": EventFields(("noise_multiplier",)),
    "LaplaceDpEvent": EventFields(("noise_multiplier",)),
    "DiscreteLaplaceDpEvent": EventFields(("noise_parameter", "sensitivity")),
    "DiscreteGaussianDpEvent": EventFields(("sigma",), ("sensitivity", "dimension")),
    "RandomizedResponseDpEvent": EventFields(("noise_parameter", "num_buckets")),
    "EpsilonDeltaDpEvent": EventFields(("epsilon", "delta")),
    "ZCDpEvent": EventFields(("rho",), ("xi",)),
    "ExponentialMechanismDpEvent": EventFields(("epsilon",)),
    "PermuteAndFlipDpEvent": EventFields(("epsilon",)),
    "MixtureOfGaussiansDpEvent": EventFields(("standard_deviation", "sensitivities", "sampling_probs")),
    "TruncatedSubsampledGaussianDpEvent": EventFields(
        ("dataset_size", "sampling_probability", "truncated_batch_size", "noise_multiplier")
    ),
    "SingleEpochTreeAggregationDpEvent": EventFields(("noise_multiplier", "step_counts")),
    "SelfComposedDpEvent": EventFields(("event", "count")),
    "ComposedDpEvent": EventFields(("events",)),
    "PoissonSampledDpEvent": EventFields(("sampling_probability", "event")),
    "SampledWithReplacementDpEvent": EventFields(("source_dataset_size", "sample_size", "event")),
    "SampledWithoutReplacementDpEvent": EventFields(("source_dataset_size", "sample_size", "event")),
    "RepeatAndSelectDpEvent": EventFields(("event", "mean", "shape")),
}
DEPTH = 60  # largest depth of nested events, so that the recursion ends on any input; arbitrary
HOME = "dp_accounting.dp_event"  # the module that has the classes of events
# Advice for messages: how to write an event to a file.
SNIPPET = """in Python:

    import json
    with open("event.json", "w") as file:
        json.dump(event.to_named_tuple(), file)"""


@dataclass(frozen=True, slots=True)
class EventTree(ForeignTable):
    """An event. The name of the table is the name of the event's class.

    Attributes:
        fields: The values by field. Numbers are int or float, sequences are tuples, and inner events are EventTree. A field without a
            value is None.
    """

    def __getitem__(self, field: str) -> Value:
        return self.fields[field]

    def number(self, field: str) -> float:
        """Return the field as a number, which may be infinite. Raises InputError for any other value."""
        value = self.fields[field]
        if not is_number(value):
            raise self.refused(f"expected {field} to be a number, found {in_words(value)}")
        return float(value)

    def event(self) -> EventTree:
        """Return the inner event. Raises InputError if the field is not an event."""
        value = self.fields["event"]
        if not isinstance(value, EventTree):
            raise self.refused(f"expected event to be a DpEvent, found {in_words(value)}")
        return value


def tree_of(event: Any, depth: int = 0) -> EventTree:
    """Return the tree of a DpEvent. The class is identified by its name, and dp_accounting is not imported.

    Args:
        event: A DpEvent, its named tuple, its JSON table or its JSON list. The table names the class as "type", or as "class_name" like
            to_named_tuple. The list is the output of json.dump for the named tuple: the names of the module and the class, and the values
            of all fields in their order.
        depth: Depth of the event in an outer one.

    Raises InputError if `event` is no DpEvent, a field is missing, or the class has no such field.
    """
    if depth > DEPTH:
        raise InputError(f"expected events at most {DEPTH} deep, found more")
    name, fields = _parts(event)
    if name not in EVENTS:
        raise InputError(f"expected a class of dp_accounting.dp_event, found {escaped(name)}")
    required, optional = EVENTS[name]
    missing_fields = [field for field in required if field not in fields]
    unknown_fields = [field for field in fields if field not in (*required, *optional)]
    if missing_fields or unknown_fields:
        expected = ", ".join((*required, *optional)) or "no field"
        fault = f"found no {missing_fields[0]}" if missing_fields else f"found {escaped(unknown_fields[0])} too"
        raise InputError(f"{name}: expected {expected}, {fault}")
    return EventTree(name, {field: _value(value, depth + 1) for field, value in fields.items()})


def _parts(event: Any) -> tuple[str, dict[str, Any]]:
    """Return the class name and the fields of an event in any of its forms."""
    if isinstance(event, EventTree):
        return event.name, dict(event.fields)
    if isinstance(event, dict):
        fields = {key: value for key, value in event.items() if key not in ("type", "class_name", "module_name")}
        named = [event[key] for key in ("type", "class_name") if key in event]
        if not named or not all(type(key) is str for key in fields):
            raise InputError(
                f'expected a DpEvent as a table {{ "type": "GaussianDpEvent", ... }}, found no "type" in it; {SNIPPET}'
            )
        _require_home(event.get("module_name", HOME))
        return _one_name(named), fields
    if isinstance(event, list):
        return _parts_of_list(event)
    tuple_fields = getattr(event, "_fields", None)
    if isinstance(tuple_fields, tuple) and "class_name" in tuple_fields:
        _require_home(getattr(event, "module_name", HOME))
        names = [field for field in tuple_fields if field not in ("module_name", "class_name")]
        return str(event.class_name), {field: getattr(event, field) for field in names}
    name = type(event).__name__
    required, optional = EVENTS.get(name, EventFields())
    # Unknown fields are read too, and refused later, because a new field of dp_accounting may change the meaning of the event.
    stated = [field.name for field in getattr(type(event), "__attrs_attrs__", ())]
    known = [field for field in dict.fromkeys((*required, *optional, *stated)) if hasattr(event, field)]
    return name, {field: getattr(event, field) for field in known}


def _parts_of_list(values: list[Any]) -> tuple[str, dict[str, Any]]:
    """Return the class name and the fields of a JSON list. Raises InputError if the list does not have a value for each field."""
    if not _is_event_list(values):
        raise InputError(f'expected a DpEvent as a list ["{HOME}", "GaussianDpEvent", ...], found {shown(values)}; {SNIPPET}')
    module, name, *field_values = values
    _require_home(module)
    names = [*EVENTS[name].required, *EVENTS[name].optional] if name in EVENTS else []
    if name in EVENTS and len(field_values) != len(names):
        raise InputError(f"{name}: expected {len(names)} values, found {len(field_values)}")
    return name, dict(zip(names, field_values, strict=False))  # `tree_of` refuses an unknown class, so its values need no names


def _is_event(value: Any) -> bool:
    """Return whether a value has one of the forms of an event."""
    of_class = isinstance(value, dict | EventTree) or hasattr(value, "_fields") or type(value).__name__.endswith("Event")
    return of_class or _is_event_list(value)


def _is_event_list(value: Any) -> bool:
    """Return whether a value is a list that begins like the named tuple of an event."""
    return isinstance(value, list) and len(value) >= 2 and all(type(item) is str for item in value[:2])  # the module and the class


def _one_name(names: list[Any]) -> str:
    """Return the name of the class. Raises InputError if a table states two different names."""
    first, *_ = names
    if type(first) is not str or any(name != first for name in names):
        raise InputError(f"expected the name of one class of {HOME}, found {', '.join(map(shown, names))}")
    return first


def _require_home(module: Any) -> None:
    """Raise InputError for another module than HOME, whose classes may have other meanings."""
    if module != HOME:
        raise InputError(f"expected an event of {HOME}, found one of {shown(module)}")


def is_number(value: Any) -> bool:
    """Return whether a value is a number that fits into a float, or infinity. NaN and bools are not."""
    if type(value) is int:
        return abs(value) < LARGEST_NUMBER
    return type(value) is float and not math.isnan(value)


def _value(value: Any, depth: int) -> Value:
    """Return the value of a field in the form of `EventTree.fields`."""
    if value is None or type(value) in (bool, str, int, float):
        return math.inf if value == "inf" else value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return _float(value)
    if _is_event(value):
        return tree_of(value, depth)
    if isinstance(value, Sequence):
        if any(isinstance(item, Sequence) and not _is_event(item) for item in value):
            raise InputError("expected a list of numbers or of events, found a list or a text in the list")
        return tuple(_value(item, depth) for item in value)
    if hasattr(value, "tolist"):  # such as an array of numpy or jax
        return _value(value.tolist(), depth)
    return tree_of(value, depth)  # which refuses any other value


def _float(value: numbers.Real) -> float:
    try:
        return float(value)
    except OverflowError:
        raise InputError("expected a number that fits into a float, found a larger one") from None


def plain_of(tree: EventTree) -> dict[str, Any]:
    """Return the tree as JSON values, with "inf" for infinity."""
    return {"type": tree.name, **{field: _plain(value) for field, value in tree.fields.items()}}


def _plain(value: Value) -> Any:
    if isinstance(value, EventTree):
        return plain_of(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return "inf" if value == math.inf else value
