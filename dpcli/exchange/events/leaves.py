"""The conversion of events of one mechanism to entries, and back.

dp-accounting states noise over C, the bound on one record's values; so does `noise_multiplier`, and the adjacency decides how far a
record moves the sum: by C if it comes, goes or is zeroed, by 2 C if it is replaced. Its PLDAccountant counts so. Its RdpAccountant
counts C under replace-one as well, which is less than the event says.

If a number has to be converted it is rounded to less noise, so that neither form claims more privacy than the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpcli.base.errors import InputError
from dpcli.exchange.events.event_tree import EventTree, is_number
from dpcli.exchange.rounded import rounded_down, rounded_up

Keys = dict[str, Any]
LEAST_OF_KEEP = 1e-3  # noise parameter, from which `keep` states it to 13 digits


@dataclass(frozen=True, slots=True)
class RecordChange:
    """The neighbouring relation, as far as a conversion depends on it."""

    replaces: bool
    contributions: int = 1

    @property
    def moved(self) -> int:
        """The distance in C that one record moves a sum."""
        return 2 if self.replaces else 1


@dataclass(frozen=True, slots=True)
class Leaf:
    """A class of events and the type of mechanism that it means.

    keys: makes the entry's keys of an event. fields: makes the event's fields of keys, and removes the keys that it used; the event cannot
    express those that are left. Both raise InputError for what the other form cannot express.
    """

    type: str
    keys: Callable[[EventTree, RecordChange], Keys]
    fields: Callable[[Keys, RecordChange], dict[str, Any]]


def _noise(event: EventTree, _: RecordChange) -> Keys:
    return {"noise_multiplier": event.number("noise_multiplier")}


def _noise_fields(name: str) -> Callable[[Keys, RecordChange], dict[str, Any]]:
    def fields(keys: Keys, side: RecordChange) -> dict[str, Any]:
        if "noise_multiplier" in keys:
            return {"noise_multiplier": keys.pop("noise_multiplier")}
        noise, sensitivity = keys.pop(name), keys.pop("sensitivity")
        return {"noise_multiplier": rounded_down(Fraction(noise) * side.moved / Fraction(sensitivity))}

    return fields


def _require_one_record(event: EventTree, side: RecordChange) -> None:
    """Raises InputError for several records of a unit: the file's sensitivity is that of a unit, the event's that of one record."""
    if side.contributions > 1:
        raise event.refused(
            "it bounds what one record moves, not what several of one unit do: expected no max_contributions above 1"
        )


def _discrete_laplace_keys(event: EventTree, side: RecordChange) -> Keys:
    _require_one_record(event, side)
    parameter = event.number("noise_parameter")
    if not 0.0 < parameter < math.inf:
        raise event.refused(f"expected noise_parameter > 0, found {parameter!r}: without noise nothing is private")
    return {"scale": rounded_down(1 / Fraction(parameter)), "sensitivity": event.count("sensitivity") * side.moved}


def _discrete_laplace_fields(keys: Keys, side: RecordChange) -> dict[str, Any]:
    sensitivity = keys.pop("sensitivity")
    if sensitivity % side.moved:
        raise InputError("its sensitivity is odd: under replace-one it is twice the bound on one record, which is a whole number")
    return {"noise_parameter": rounded_up(1 / Fraction(keys.pop("scale"))), "sensitivity": sensitivity // side.moved}


def _discrete_gaussian_keys(event: EventTree, side: RecordChange) -> Keys:
    _require_one_record(event, side)
    sensitivity = event.number("sensitivity") if "sensitivity" in event.fields else 1.0
    dimension = None if event.fields.get("dimension") is None else event.count("dimension")
    if dimension == 1 and sensitivity.is_integer():
        bound: Keys = {"sensitivity": int(sensitivity), "dimension": 1}
    else:
        bound = {"l2_sensitivity": sensitivity, **({} if dimension is None else {"dimension": dimension})}
    return {"sigma": event.number("sigma"), **bound}


def _discrete_gaussian_fields(keys: Keys, side: RecordChange) -> dict[str, Any]:
    sensitivity = keys.pop("sensitivity") if "sensitivity" in keys else keys.pop("l2_sensitivity")
    return {"sigma": keys.pop("sigma"), "sensitivity": float(sensitivity), "dimension": keys.pop("dimension", None)}


def _response_keys(event: EventTree, side: RecordChange) -> Keys:
    probability, buckets = event.number("noise_parameter"), event.count("num_buckets")
    if not 0 < probability < 1 or buckets < 2:
        raise event.refused("expected noise_parameter in (0, 1) and at least 2 buckets: 0 is no privacy, 1 no information")
    parameter = Fraction(probability)
    keep = rounded_up(1 - parameter + parameter / buckets)
    if parameter >= LEAST_OF_KEEP and keep < 1.0:
        return {"keep": keep, "categories": buckets}
    odds = rounded_up(buckets * (1 - parameter) / parameter)
    return {"epsilon": math.log1p(odds) * (1.0 + 1e-15), "categories": buckets}


def _response_fields(keys: Keys, side: RecordChange) -> dict[str, Any]:
    categories = keys.pop("categories", 2)
    if "keep" in keys:
        parameter = rounded_down((1 - Fraction(keys.pop("keep"))) * categories / (categories - 1))
    else:
        epsilon = keys.pop("epsilon")
        parameter = categories / (math.expm1(epsilon) + categories) * (1.0 - 1e-15) if epsilon < 700.0 else 0.0
    if parameter <= 0.0:
        raise InputError("its noise is too small to be a noise_parameter > 0")
    return {"noise_parameter": parameter, "num_buckets": categories}


def _stated(*names: str) -> Callable[[EventTree, RecordChange], Keys]:
    """Return a function that makes the keys of a stated guarantee, which is one record's."""

    def keys(event: EventTree, side: RecordChange) -> Keys:
        numbers = {name: event.number(name) for name in names}
        return numbers if side.contributions == 1 else {**numbers, "stated_for": "record"}

    return keys


def _zcdp_keys(event: EventTree, side: RecordChange) -> Keys:
    if "xi" in event.fields and event.number("xi") != 0.0:
        raise event.refused("expected xi = 0: a mechanism of type zcdp has rho alone")
    return _stated("rho")(event, side)


def _same(*names: str) -> Callable[[Keys, RecordChange], dict[str, Any]]:
    return lambda keys, side: {name: keys.pop(name) for name in names}


def _contribution_of_one_version(event: str, side: RecordChange) -> None:
    if side.replaces:
        raise InputError(f"{event}: it says what a record moves that comes or goes, not one that is replaced")


def _mixture_keys(event: EventTree, side: RecordChange) -> Keys:
    _contribution_of_one_version(event.name, side)
    return {
        "sigma": event.number("standard_deviation"),
        "sensitivities": _numbers(event, "sensitivities"),
        "probabilities": _numbers(event, "sampling_probs"),
    }


def _numbers(event: EventTree, field: str) -> list[float]:
    values = event[field]
    if not isinstance(values, tuple) or not all(map(is_number, values)):
        raise event.refused(f"expected {field} to be numbers")
    return [float(value) for value in values]


def _mixture_fields(keys: Keys, side: RecordChange) -> dict[str, Any]:
    _contribution_of_one_version("MixtureOfGaussiansDpEvent", side)
    sensitivities, probabilities = keys.pop("sensitivities"), keys.pop("probabilities")
    return {
        "standard_deviation": keys.pop("sigma"),
        "sensitivities": tuple(sensitivities),
        "sampling_probs": tuple(probabilities),
    }


def _tree_keys(event: EventTree, side: RecordChange) -> Keys:
    _contribution_of_one_version(event.name, side)
    steps = event["step_counts"]
    if isinstance(steps, tuple) and len(steps) != 1:
        raise event.refused("expected one tree, found several that share no record, which no mechanism type says")
    if isinstance(steps, tuple):
        event = EventTree(event.name, {**event.fields, "step_counts": steps[0]})
    return {"noise_multiplier": event.number("noise_multiplier"), "iterations": event.count("step_counts"), "max_participations": 1}


def _tree_fields(keys: Keys, side: RecordChange) -> dict[str, Any]:
    _contribution_of_one_version("SingleEpochTreeAggregationDpEvent", side)
    if keys.pop("max_participations") != 1:
        raise InputError("a record takes part more than once in its tree, which SingleEpochTreeAggregationDpEvent excludes")
    keys.pop("min_separation", None)
    return {"noise_multiplier": keys.pop("noise_multiplier"), "step_counts": keys.pop("iterations")}


LEAVES: Mapping[str, Leaf] = {
    "NoOpDpEvent": Leaf("post-processing", lambda event, side: {}, lambda keys, side: {}),
    "GaussianDpEvent": Leaf("gaussian", _noise, _noise_fields("sigma")),
    "LaplaceDpEvent": Leaf("laplace", _noise, _noise_fields("scale")),
    "DiscreteLaplaceDpEvent": Leaf("discrete-laplace", _discrete_laplace_keys, _discrete_laplace_fields),
    "DiscreteGaussianDpEvent": Leaf("discrete-gaussian", _discrete_gaussian_keys, _discrete_gaussian_fields),
    "RandomizedResponseDpEvent": Leaf("randomized-response", _response_keys, _response_fields),
    "ZCDpEvent": Leaf("zcdp", _zcdp_keys, _same("rho")),
    "EpsilonDeltaDpEvent": Leaf("approx-dp", _stated("epsilon", "delta"), _same("epsilon", "delta")),
    "ExponentialMechanismDpEvent": Leaf("exponential", _stated("epsilon"), _same("epsilon")),
    "PermuteAndFlipDpEvent": Leaf("permute-and-flip", _stated("epsilon"), _same("epsilon")),
    "MixtureOfGaussiansDpEvent": Leaf("gaussian-mixture", _mixture_keys, _mixture_fields),
    "SingleEpochTreeAggregationDpEvent": Leaf("tree-aggregation", _tree_keys, _tree_fields),
}
# epsilon at delta = 0 is an event of approx-dp, and a type of its own.
PURE = Leaf("pure-dp", _stated("epsilon"), lambda keys, side: {"epsilon": keys.pop("epsilon"), "delta": 0.0})
