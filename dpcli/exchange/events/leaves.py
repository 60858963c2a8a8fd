"""The conversion of leaf events of dp-accounting, which stand for one mechanism, to entries of a pipeline file and back.

LEAVES has a pair of functions for each class of events: reader.py calls `keys` for an import, and writer.py `fields` for an export. The
*keys* are those of an *entry*, the [[mechanism]] table of a file; the *fields* are those of an event.

dp-accounting states noise relative to C, the bound on the values of one record, as `noise_multiplier` does. The adjacency decides how far a
record moves the sum: by C if the record is added, removed or zeroed, and by 2 C if it is replaced. PLDAccountant computes with these
distances. RdpAccountant uses C under replace-one too, which understates the event.

A number that must be converted is rounded towards less noise, so that neither form claims more privacy than the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpcli.base.errors import InputError
from dpcli.exchange.events.event_tree import EventTree, is_number
from dpcli.exchange.foreign import rounded_down, rounded_up

Keys = dict[str, Any]
# The field `shape` of RepeatAndSelectDpEvent, by dpcli's name of the distribution of the number of trials. Other shapes are truncated
# negative binomial distributions.
SHAPES = {"poisson": math.inf, "geometric": 1.0, "logarithmic": 0.0}
# Smallest noise parameter p of randomized response that becomes the key `keep`, near 1 - p. Doubles near 1 have 16 digits, so that p then
# has 13; for a smaller one epsilon is stated. Accuracy alone: both are rounded to the safe side.
LEAST_OF_KEEP = 1e-3
MARGIN = 1e-15  # relative, for the errors of log1p and expm1; a smaller one would touch soundness


@dataclass(frozen=True, slots=True)
class RecordChange:
    """The neighbouring relation, as far as a conversion depends on it.

    Attributes:
        replaces: Whether neighbours differ by the replacement of a record.
        contributions: Largest number of records that one unit contributes.
    """

    replaces: bool
    contributions: int = 1

    @property
    def moved(self) -> int:
        """The distance by which one record moves a sum, in units of C."""
        return 2 if self.replaces else 1


@dataclass(frozen=True, slots=True)
class Leaf:
    """The mechanism type that corresponds to a class of events. Both functions raise InputError if the other form cannot express a value.

    Attributes:
        type: The mechanism type.
        keys: Function that returns the keys of the entry for an event.
        fields: Function that returns the fields of the event for the keys of an entry. It removes the keys that it uses; the event cannot
            express the remaining keys.
    """

    type: str
    keys: Callable[[EventTree, RecordChange], Keys]
    fields: Callable[[Keys, RecordChange], dict[str, Any]]


def _noise_keys(event: EventTree, _: RecordChange) -> Keys:
    return {"noise_multiplier": event.number("noise_multiplier")}


def _noise_fields(name: str) -> Callable[[Keys, RecordChange], dict[str, Any]]:
    """Return a function that makes the field noise_multiplier. `name` is the key of noise in units of the query: sigma or scale."""

    def fields(keys: Keys, change: RecordChange) -> dict[str, Any]:
        if "noise_multiplier" in keys:
            return {"noise_multiplier": keys.pop("noise_multiplier")}
        noise, sensitivity = keys.pop(name), keys.pop("sensitivity")
        return {"noise_multiplier": rounded_down(Fraction(noise) * change.moved / Fraction(sensitivity))}

    return fields


def _require_one_record(event: EventTree, change: RecordChange) -> None:
    """Raise InputError if a unit may contribute several records: a sensitivity is that of a unit in a file, of a record in an event."""
    if change.contributions > 1:
        raise event.refused(
            "its sensitivity is that of one record, not of several records of a unit: expected no max_contributions above 1"
        )


def _discrete_laplace_keys(event: EventTree, change: RecordChange) -> Keys:
    """Return the keys of discrete Laplace noise. noise_parameter is 1 / scale."""
    _require_one_record(event, change)
    parameter = event.number("noise_parameter")
    if not 0.0 < parameter < math.inf:
        raise event.refused(f"expected noise_parameter > 0, found {parameter!r}: without noise nothing is private")
    return {"scale": rounded_down(1 / Fraction(parameter)), "sensitivity": event.count("sensitivity") * change.moved}


def _discrete_laplace_fields(keys: Keys, change: RecordChange) -> dict[str, Any]:
    """Return the fields of discrete Laplace noise. The event states the bound on one record, and the file the sensitivity."""
    sensitivity = keys.pop("sensitivity")
    if sensitivity % change.moved:
        raise InputError("its sensitivity is odd: under replace-one it must be twice the bound on one record, a whole number")
    return {"noise_parameter": rounded_up(1 / Fraction(keys.pop("scale"))), "sensitivity": sensitivity // change.moved}


def _discrete_gaussian_keys(event: EventTree, change: RecordChange) -> Keys:
    """Return the keys of discrete Gaussian noise. Only one integer with a whole sensitivity has the key `sensitivity`.

    Unlike in the other events, `sensitivity` is that of the released function, which already depends on the adjacency.
    """
    _require_one_record(event, change)
    sensitivity = event.number("sensitivity") if "sensitivity" in event.fields else 1.0
    dimension = None if event.fields.get("dimension") is None else event.count("dimension")
    keys: Keys = {"sigma": event.number("sigma")}
    if dimension == 1 and sensitivity.is_integer():
        keys["sensitivity"] = int(sensitivity)
    else:
        keys["l2_sensitivity"] = sensitivity
    if dimension is not None:
        keys["dimension"] = dimension
    return keys


def _discrete_gaussian_fields(keys: Keys, change: RecordChange) -> dict[str, Any]:
    sensitivity = keys.pop("sensitivity") if "sensitivity" in keys else keys.pop("l2_sensitivity")
    return {"sigma": keys.pop("sigma"), "sensitivity": float(sensitivity), "dimension": keys.pop("dimension", None)}


def _response_keys(event: EventTree, change: RecordChange) -> Keys:
    """Return the keys of randomized response.

    With probability p = noise_parameter the event replaces the value by a uniform bucket. So `keep` is 1 - p + p / num_buckets. If this is
    too close to 1 to be stated with enough digits, epsilon is stated instead.
    """
    probability, buckets = event.number("noise_parameter"), event.count("num_buckets")
    if not 0 < probability < 1 or buckets < 2:
        raise event.refused("expected noise_parameter in (0, 1) and at least 2 buckets: 0 gives no privacy, and 1 no information")
    parameter = Fraction(probability)
    keep = rounded_up(1 - parameter + parameter / buckets)
    if parameter >= LEAST_OF_KEEP and keep < 1.0:
        return {"keep": keep, "categories": buckets}
    exp_minus_1 = rounded_up(buckets * (1 - parameter) / parameter)  # e^epsilon - 1
    return {"epsilon": math.log1p(exp_minus_1) * (1.0 + MARGIN), "categories": buckets}  # rounded up


def _response_fields(keys: Keys, change: RecordChange) -> dict[str, Any]:
    """Return the fields of randomized response, by the inverse of the formula of `_response_keys`."""
    categories = keys.pop("categories", 2)
    if "keep" in keys:
        parameter = rounded_down((1 - Fraction(keys.pop("keep"))) * categories / (categories - 1))
    else:
        epsilon = keys.pop("epsilon")
        # Rounded down. e^epsilon is a finite double only up to an epsilon of about 709.
        parameter = categories / (math.expm1(epsilon) + categories) * (1.0 - MARGIN) if epsilon < 700.0 else 0.0
    if parameter <= 0.0:
        raise InputError("its noise is too small to be a noise_parameter > 0")
    return {"noise_parameter": parameter, "num_buckets": categories}


def _guarantee_keys(*names: str) -> Callable[[EventTree, RecordChange], Keys]:
    """Return a function that makes the keys of a stated guarantee for one record."""

    def keys(event: EventTree, change: RecordChange) -> Keys:
        numbers = {name: event.number(name) for name in names}
        return numbers if change.contributions == 1 else {**numbers, "stated_for": "record"}

    return keys


def _zcdp_keys(event: EventTree, change: RecordChange) -> Keys:
    """Return the keys of zCDP. Its Renyi divergences are at most xi + rho times the order, in the event and in the file."""
    xi = event.number("xi") if "xi" in event.fields else 0.0
    return {**_guarantee_keys("rho")(event, change), **({"xi": xi} if xi != 0.0 else {})}


def _zcdp_fields(keys: Keys, change: RecordChange) -> dict[str, Any]:
    fields = {"rho": keys.pop("rho")}
    return fields | {"xi": keys.pop("xi")} if "xi" in keys else fields


def _same_fields(*names: str) -> Callable[[Keys, RecordChange], dict[str, Any]]:
    """Return a function that makes the fields of an event from keys of the same names."""
    return lambda keys, change: {name: keys.pop(name) for name in names}


def _require_no_replacement(event: str, change: RecordChange) -> None:
    """Raise InputError under replace-one, for an event that is defined by the contribution of one version of a record."""
    if change.replaces:
        raise InputError(f"{event}: it describes records that are added or removed, not records that are replaced")


def _mixture_keys(event: EventTree, change: RecordChange) -> Keys:
    _require_no_replacement(event.name, change)
    return {
        "sigma": event.number("standard_deviation"),
        "sensitivities": _numbers(event, "sensitivities"),
        "probabilities": _numbers(event, "sampling_probs"),
    }


def _numbers(event: EventTree, field: str) -> list[float]:
    """Return a field as a list of numbers. Raises InputError for any other value."""
    values = event[field]
    if not isinstance(values, tuple) or not all(map(is_number, values)):
        raise event.refused(f"expected {field} to be numbers")
    return [float(value) for value in values]


def _mixture_fields(keys: Keys, change: RecordChange) -> dict[str, Any]:
    _require_no_replacement("MixtureOfGaussiansDpEvent", change)
    sensitivities, probabilities = keys.pop("sensitivities"), keys.pop("probabilities")
    return {"standard_deviation": keys.pop("sigma"), "sensitivities": tuple(sensitivities), "sampling_probs": tuple(probabilities)}


def _tree_keys(event: EventTree, change: RecordChange) -> Keys:
    """Return the keys of tree aggregation over one epoch, in which each record takes part once, in one of the trees."""
    _require_no_replacement(event.name, change)
    steps = event["step_counts"]
    trees = steps if isinstance(steps, tuple) else (steps,)
    counts = [EventTree(event.name, {"step_counts": tree}).count("step_counts") for tree in trees]
    keys: Keys = {"noise_multiplier": event.number("noise_multiplier"), "iterations": sum(counts), "max_participations": 1}
    return keys if len(counts) == 1 else {**keys, "trees": counts}


def _tree_fields(keys: Keys, change: RecordChange) -> dict[str, Any]:
    """Return the fields of tree aggregation. With one participation, the smallest distance of two (min_separation) has no meaning."""
    _require_no_replacement("SingleEpochTreeAggregationDpEvent", change)
    if keys.pop("max_participations") != 1:
        raise InputError("a record takes part in several steps of its tree, which SingleEpochTreeAggregationDpEvent excludes")
    keys.pop("min_separation", None)
    iterations, trees = keys.pop("iterations"), keys.pop("trees", None)
    return {"noise_multiplier": keys.pop("noise_multiplier"), "step_counts": [*trees] if trees else iterations}


LEAVES: Mapping[str, Leaf] = {
    "NoOpDpEvent": Leaf("post-processing", lambda event, change: {}, lambda keys, change: {}),
    "GaussianDpEvent": Leaf("gaussian", _noise_keys, _noise_fields("sigma")),
    "LaplaceDpEvent": Leaf("laplace", _noise_keys, _noise_fields("scale")),
    "DiscreteLaplaceDpEvent": Leaf("discrete-laplace", _discrete_laplace_keys, _discrete_laplace_fields),
    "DiscreteGaussianDpEvent": Leaf("discrete-gaussian", _discrete_gaussian_keys, _discrete_gaussian_fields),
    "RandomizedResponseDpEvent": Leaf("randomized-response", _response_keys, _response_fields),
    "ZCDpEvent": Leaf("zcdp", _zcdp_keys, _zcdp_fields),
    "EpsilonDeltaDpEvent": Leaf("approx-dp", _guarantee_keys("epsilon", "delta"), _same_fields("epsilon", "delta")),
    "ExponentialMechanismDpEvent": Leaf("exponential", _guarantee_keys("epsilon"), _same_fields("epsilon")),
    "PermuteAndFlipDpEvent": Leaf("permute-and-flip", _guarantee_keys("epsilon"), _same_fields("epsilon")),
    "MixtureOfGaussiansDpEvent": Leaf("gaussian-mixture", _mixture_keys, _mixture_fields),
    "SingleEpochTreeAggregationDpEvent": Leaf("tree-aggregation", _tree_keys, _tree_fields),
}
# A guarantee with delta = 0 is an EpsilonDeltaDpEvent too, but a file has the type pure-dp for it.
PURE = Leaf("pure-dp", _guarantee_keys("epsilon"), lambda keys, change: {"epsilon": keys.pop("epsilon"), "delta": 0.0})
