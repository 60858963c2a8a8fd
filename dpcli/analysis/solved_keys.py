"""The keys that a calibration solves for: the key of each parameter, the entries that get its value, and a pipeline with a value.

calibrate.py asks which keys to change (`solvable`), and for the pipeline with a value that it tries (`substitute`). A *parameter* is what
the user asks for, such as "noise"; a *target* is an entry (a [[mechanism]] table, by name) with the key that gets the value, such as sigma.
If several entries get noise, the value is their common ratio of noise to sensitivity, divided by each entry's *divisor*, which follows from
the weights in the file (`noise_divisors`). Keys of a *sample* that several entries read together change in all of them, because they must
agree on how it is drawn. The noise of a type whose cost may rise with more noise is not a candidate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Literal, get_args

from dpcli.base.errors import InputError
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.parts import sample_readers
from dpcli.file.toml.shown import first_names
from dpcli.mechanisms.spec import Spec

Parameter = Literal["noise", "steps", "epochs", "batch-size", "rate", "scale", "radius"]
Target = tuple[str, str]  # the name of a mechanism, and its key that gets the value

NOISE_KEYS = ("noise_multiplier", "sigma", "scale")
NOISE_PARAMETERS = ("noise", "scale")  # the parameters that stand for a key of NOISE_KEYS
SOLVED_KEYS = (*NOISE_KEYS, "epsilon")  # keys whose value may be "calibrate"; an epsilon is sensitivity / noise
DRAWN_KEYS = frozenset({"steps", "epochs", "rate", "batch_size"})  # keys that must be equal in entries that share a sample


def solvable(pipeline: Pipeline, targets: Sequence[Target] | None, solve: Parameter) -> tuple[Target, ...]:
    """Return the targets, or the only candidate if `targets` is None, with the targets in entries that share a sample.

    Raises InputError for an unknown parameter, or if there is no candidate, or more than one.
    """
    if solve not in get_args(Parameter):
        raise InputError(f"expected a parameter among {', '.join(get_args(Parameter))}, found {solve!r}")
    return _with_companions(pipeline, targets if targets is not None else _only_candidate(pipeline, solve))


def substitute(
    pipeline: Pipeline, targets: Sequence[Target], value: float, divisors: Mapping[str, float] | None = None
) -> Pipeline:
    """Return the pipeline with `value` set at each target.

    If there are several targets, `value` is their common ratio of noise to sensitivity, and is divided by a mechanism's divisor if it has
    one. A key that is a pure epsilon is set to 1 / ratio. A key that describes how a sample is drawn is set in all entries that share the
    sample.
    """
    key_of = dict(_with_companions(pipeline, targets))
    is_ratio = len(key_of) > 1
    divisor_of = divisors or {}
    entries = []
    for entry in pipeline.mechanisms:
        if entry.name in key_of:
            entries.append(_with_value(entry, key_of[entry.name], value / divisor_of.get(entry.name, 1.0), is_ratio))
        else:
            entries.append(entry)
    return replace(pipeline, mechanisms=tuple(entries))


def parameter_key(entry: Entry, solve: Parameter) -> str | None:
    """Return the key of an entry that `solve` would change; None if the entry has no such key.

    "epochs", "rate" and "batch-size" need a sampling scheme with a rate.
    """
    spec = entry.spec
    match solve:
        case "noise":
            return _noise_key(spec, NOISE_KEYS)
        case "scale":
            return _noise_key(spec, ("scale",))
        case "steps":
            return None if spec.free else "steps"
        case "radius":
            return "radius" if hasattr(spec, "radius") else None
        case "epochs" | "rate" | "batch-size":
            return solve.replace("-", "_") if hasattr(entry.sampling, "rate") else None


def missing_parameter(entries: Sequence[Entry], solve: Parameter, name: str | None = None) -> str:
    """Return the message for a parameter that no entry, or not the named entry, has. It lists the parameters that can be solved for."""
    article = "a " if solve in ("scale", "rate", "batch-size", "radius") else ""
    unsolvable = [entry.name for entry in entries if solve in NOISE_PARAMETERS and entry.spec.fixed_threshold]
    if unsolvable:
        refusal = f"more noise may cost more in {first_names(unsolvable)}, since more values may cross its threshold"
    elif name is None:
        refusal = f"no mechanism has {article}{solve}"
    else:
        refusal = f'"{name}" has no {solve}'
    others = [other for other in get_args(Parameter) if any(parameter_key(entry, other) for entry in entries)]
    if not others:
        return refusal
    choices = f"{', '.join(others[:-1])} or {others[-1]}" if len(others) > 1 else others[0]
    return f"{refusal}; use --solve {choices}"


def noise_divisors(targets: Sequence[Target], weights: Mapping[str, float] | None, pure: bool) -> dict[str, float]:
    """Return the number by which the common ratio of noise to sensitivity is divided, for each mechanism with a weight.

    The weights say how the entries share the cost: the rho (zCDP) of a step is proportional to its weight, and rho to 1 / noise^2. So the
    noise of a step is proportional to 1 / sqrt(weight). At delta = 0 (`pure`) its epsilon is proportional to its weight, so its noise is
    proportional to 1 / weight. With a single target, the weights have no effect and the result is empty.
    """
    if not weights or len(targets) == 1:
        return {}
    return {name: weight if pure else math.sqrt(weight) for name, weight in weights.items()}


def largest_value(pipeline: Pipeline, solve: Parameter) -> float:
    """Return the largest value that the parameter may have. Raises InputError if it depends on an unknown dataset size."""
    if solve == "batch-size":
        if pipeline.privacy.dataset_size is None:
            raise InputError("privacy.dataset_size is missing: solving for the batch size needs it")
        return pipeline.privacy.dataset_size
    return 1.0 if solve == "rate" else math.inf


def stated_count(pipeline: Pipeline, targets: Sequence[Target]) -> float | None:
    """Return the count that the file states for the key; None if it states none, or if several independent keys are solved for."""
    if not targets or _with_companions(pipeline, targets[:1]) != tuple(targets):
        return None
    name, key = targets[0]
    entry = next((entry for entry in pipeline.mechanisms if entry.name == name), None)
    if entry is None:
        return None
    value = {"steps": entry.steps, "batch_size": getattr(entry.sampling, "batch_size", None)}.get(key)
    return None if value is None else float(value)


def _only_candidate(pipeline: Pipeline, solve: Parameter) -> tuple[Target, ...]:
    """Return the only candidate, with the entries that share its sample. Raises InputError if there is none, or more than one."""
    candidates = [(entry.name, key) for entry in pipeline.mechanisms if (key := parameter_key(entry, solve)) is not None]
    if not candidates:
        raise InputError(missing_parameter(pipeline.mechanisms, solve))
    if not set(_with_companions(pipeline, candidates[:1])) >= set(candidates):
        names = first_names(name for name, _ in candidates)
        raise InputError(f"expected one mechanism whose {solve} can be solved for, found {names}: name one (--mechanism NAME)")
    return tuple(candidates)


def _with_companions(pipeline: Pipeline, targets: Sequence[Target]) -> tuple[Target, ...]:
    """Return the targets, and for each key that describes how a sample is drawn, the same key of every entry that shares the sample."""
    entries = {entry.name: entry for entry in pipeline.mechanisms}
    result = list(targets)
    for name, key in targets:
        if name in entries and key in DRAWN_KEYS:
            result += [(companion.name, key) for companion in sample_readers(entries[name], pipeline.mechanisms)]
    return tuple(dict.fromkeys(result))


def _with_value(entry: Entry, key: str, value: float, is_ratio: bool) -> Entry:
    """Return the entry with the key set to a value.

    is_ratio: whether the value is a ratio of noise to sensitivity, so that a sigma or scale is the value times the sensitivity.
    """
    sampling: Any = entry.sampling
    spec: Any = entry.spec
    match key:
        case "steps":
            return replace(entry, steps=int(value), epochs=None)
        case "epochs":
            return replace(entry, epochs=value)
        case "rate":
            return replace(entry, sampling=replace(sampling, rate=value, batch_size=None))
        case "batch_size":
            return replace(entry, sampling=replace(sampling, rate=None, batch_size=int(value)))
        case "epsilon":
            return replace(entry, spec=replace(spec, epsilon=1.0 / value))
        case "sigma" | "scale" if is_ratio:
            return replace(entry, spec=replace(spec, **{key: value * _stated_sensitivity(spec)}))
    return replace(entry, spec=replace(spec, **{key: value}))


def _stated_sensitivity(spec: Spec) -> float:
    """Return the sensitivity to which the noise of a mechanism is relative; 1 if the mechanism states none, or 0, which needs no noise."""
    for key in ("sensitivity", "l2_sensitivity"):
        sensitivity: float | None = getattr(spec, key, None)
        if sensitivity is not None:
            return sensitivity or 1.0
    return 1.0


def _noise_key(spec: Spec, keys: Sequence[str]) -> str | None:
    """Return the first stated key of a mechanism among `keys`; None if there is none, or if more noise may cost more."""
    if spec.fixed_threshold:
        return None
    stated = (field.name for field in fields(spec) if field.name in keys and getattr(spec, field.name) is not None)  # type: ignore[arg-type]
    return next(stated, None)
