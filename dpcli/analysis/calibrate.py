"""Calibration: a search for the cheapest value of one parameter that meets a target epsilon. The answer is rounded to the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Literal, NamedTuple, get_args

from dpcli.analysis.account import Account, account, needed_delta, stated_delta
from dpcli.analysis.calibration_search import search
from dpcli.base.displayed import Displayed
from dpcli.base.errors import CannotCertify, InputError
from dpcli.base.lazy import load
from dpcli.base.registry import ACCOUNTANTS
from dpcli.base.rounding import up
from dpcli.base.values import dataclass
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.parts import together
from dpcli.file.pipeline.section import refuse_contradicted
from dpcli.file.toml.shown import first_names
from dpcli.lint.delta import delta_mark
from dpcli.numerics.work import SEARCH, limited_to

Parameter = Literal["noise", "steps", "epochs", "batch-size", "rate", "scale", "radius"]
NEARBY = 1.5  # an accountant that needed too much work at one value is not run at values within this factor of that value
TIGHT = 1e-8  # if an accountant's interval has a smaller relative width, no other accountant is run
COUNTED = frozenset({"steps", "batch-size"})
NOISE_KEYS = ("noise_multiplier", "sigma", "scale")
SOLVED_KEYS = (*NOISE_KEYS, "epsilon")  # keys whose value may be "calibrate"; an epsilon is sensitivity / noise
DRAWN_KEYS = frozenset({"steps", "epochs", "rate", "batch_size"})  # keys that must be equal in entries that share a sample


@dataclass(frozen=True, slots=True)
class Calibration(Displayed):
    """The answer of a calibration, with the nearest cheaper value.

    parameter: the parameter that was solved for.
    targets: the (mechanism, key) pairs that get the value.
    target, delta: the target epsilon and the delta at which it holds.
    value: the cheapest value that meets the target, with seven significant digits, or a whole number for a count.
    upper: the certified epsilon of `value`.
    accountant: the accountant that certifies `upper`.
    cheaper, cheaper_upper: the nearest cheaper value that misses the target, and its epsilon. Both are None if `value` is the cheapest
        possible value, such as a rate of 1.
    adjacent: True if no value of the grid lies between `value` and `cheaper`; False if the search ended early to save work.
    pipeline: the pipeline with the value.
    quantity: the quantity that target, upper and cheaper_upper bound (analysis/goals.py), usually epsilon.
    wording: the name of the quantity in messages.
    """

    parameter: Parameter
    targets: tuple[tuple[str, str], ...]
    target: float
    delta: float | None
    value: float
    upper: float
    accountant: str
    cheaper: float | None
    cheaper_upper: float | None
    adjacent: bool
    pipeline: Pipeline
    group_size: int = 1
    runs: int = 1
    quantity: str = "epsilon"
    wording: str = "epsilon"

    __repr__ = Displayed.__repr__

    def _line(self) -> str:
        at = "" if self.delta is None else f" at delta = {self.delta!r}"
        at += delta_mark(self.delta, self.pipeline.privacy.dataset_size)
        return f"{self.parameter} = {self.value:.10g}: {self.wording} <= {up(self.upper)}{at}, accountant: {self.accountant}"

    @property
    def epsilon(self) -> float | None:
        """The certified epsilon at `delta`; None if the target bounds another quantity."""
        return self.upper if self.quantity == "epsilon" else None

    @property
    def values(self) -> list[tuple[str, str, float]]:
        """The triples (mechanism, key, value) that are written into the file."""
        entries = {entry.name: entry for entry in self.pipeline.mechanisms}
        result = []
        for name, key in self.targets:
            own = getattr(entries[name].spec, key, None)  # keys that share a ratio have different values
            result.append((name, key, self.number(float(own or self.value))))
        return result

    def number(self, value: float) -> float:
        """Return the value as the file states it: an int for a count, otherwise a float."""
        return int(value) if self.parameter in COUNTED else value


@limited_to(SEARCH)
def calibrate(
    pipeline: Pipeline,
    target_epsilon: float,
    delta: float | None = None,
    solve: Parameter = "noise",
    targets: Sequence[tuple[str, str]] | None = None,
    accountants: Sequence[str] | None = None,
    group_size: int = 1,
    runs: int = 1,
    weights: Mapping[str, float] | None = None,
) -> Calibration:
    """Find the smallest noise, or the largest steps, epochs, batch size, rate or radius, that keeps epsilon at most `target_epsilon`.

    Args:
        pipeline: the pipeline. Only the parameter that is solved for changes.
        target_epsilon: the target in nats, > 0.
        delta: the delta at which epsilon is bounded; if None, the delta that `account` chooses.
        solve: the parameter. "noise" and "scale" are minimised, all others are maximised.
        targets: the (mechanism name, key) pairs that get the value. If None, the pipeline must have exactly one candidate.
        accountants: names of the accountants to use; None for all.
        group_size: number of units of privacy that change together.
        runs: number of runs of the whole pipeline, as for `account`.
        weights: weight of each mechanism, by name; the default is 1. Weights determine how several targets share the cost, as described
            in `noise_divisors`.

    Returns:
        A value whose certified epsilon is at most the target, and the next cheaper value, whose certified epsilon is not.

    Raises:
        InputError: there is no candidate, or there are several, or a section such as [federated] contradicts the answer.
        CannotCertify: no value meets the target.
    """
    if not 0.0 < target_epsilon < math.inf:
        raise InputError(f"expected a target epsilon > 0, found {target_epsilon!r}")
    _require_bounds(accountants)
    solved_targets = solvable(pipeline, targets, solve)
    divisors = noise_divisors(solved_targets, weights, (delta if delta is not None else stated_delta(pipeline)) == 0.0)
    epsilons = BoundByValue(EpsilonMeasure(accountants, delta, group_size, runs), pipeline, solved_targets, divisors)
    try:
        return calibration_of(epsilons, target_epsilon, solve, group_size, runs)
    except CannotCertify:
        if epsilons.deltas() == {0.0} and (words := needed_delta(pipeline, 0.0)):
            raise CannotCertify(words) from None
        least = epsilons(1.0) if solve == "steps" else math.inf
        if target_epsilon < least < math.inf:
            raise CannotCertify(
                f"no number of steps meets epsilon = {target_epsilon:g}: one step already costs {up(least)}"
            ) from None
        raise


class ValuedBound(NamedTuple):
    """An upper bound at one value of the parameter.

    upper: the bound; inf if none is certified.
    accountant: the accountant that certifies the bound.
    delta: the delta at which the bound holds; None if the quantity has no delta.
    """

    upper: float
    accountant: str
    delta: float | None = None


class BoundByValue:
    """The upper bound on a quantity as a function of the parameter. Each value is measured only once.

    measure: function that returns the bound for a pipeline in which the value has been set.
    pipeline: the pipeline.
    targets: the (mechanism, key) pairs that get the value.
    divisors: as for `substitute`.
    known: the bounds that were measured so far, by value.
    """

    def __init__(
        self,
        measure: Callable[[Pipeline, float], ValuedBound],
        pipeline: Pipeline,
        targets: tuple[tuple[str, str], ...],
        divisors: Mapping[str, float],
    ) -> None:
        self.measure, self.pipeline, self.targets, self.divisors = measure, pipeline, targets, divisors
        self.known: dict[float, ValuedBound] = {}

    def __call__(self, value: float) -> float:
        """Return the upper bound at a value; inf if no bound is certified, or if the rules of the file refuse the value."""
        if value not in self.known:
            candidate = self.pipeline_at(value)
            if any(True for entry in candidate.mechanisms for _ in entry.spec.problems()):
                return math.inf
            self.known[value] = self.measure(candidate, value)
        return self.known[value].upper

    def pipeline_at(self, value: float) -> Pipeline:
        return substitute(self.pipeline, self.targets, value, self.divisors)

    def deltas(self) -> set[float | None]:
        """Return the deltas at which the measured bounds hold."""
        return {answer.delta for answer in self.known.values()}


def calibration_of(
    bounds: BoundByValue,
    target: float,
    solve: Parameter,
    group_size: int,
    runs: int = 1,
    quantity: str = "epsilon",
    wording: str = "epsilon",
) -> Calibration:
    """Return the calibration of a parameter to a target bound. Raises InputError and CannotCertify as `calibrate` does."""
    pipeline, targets = bounds.pipeline, bounds.targets
    value, cheaper, adjacent = search(bounds, target, solve, _largest(pipeline, solve), _stated_count(pipeline, targets), wording)
    answer = bounds.pipeline_at(value)
    refuse_contradicted(answer)
    upper, accountant, delta = bounds.known[value]
    cheaper_upper = None if cheaper is None else bounds(cheaper)
    outcome = (target, delta, value, upper, accountant, cheaper, cheaper_upper, adjacent)
    return Calibration(solve, targets, *outcome, answer, group_size, runs, quantity, wording)


class EpsilonMeasure:
    """Bounds the epsilon of a pipeline in which a value was set, with as few accountants as possible.

    certifying: name of an accountant whose interval is so narrow that no other could improve it; empty if there is none. Only this
        accountant is run.
    refused: for each accountant, the values at which it needed too much work. It is not run at values nearby.
    """

    def __init__(self, accountants: Sequence[str] | None, delta: float | None, group_size: int, runs: int) -> None:
        self.accountants, self.delta, self.group_size, self.runs = accountants, delta, group_size, runs
        self.certifying = ["exact"] if accountants is None else []
        self.refused: dict[str, list[float]] = {}

    def __call__(self, candidate: Pipeline, value: float) -> ValuedBound:
        result = self._account(candidate, value, self.certifying or self._accountants_near(value))
        if self.certifying and not _is_tight(result):
            self.certifying = []
            result = self._account(candidate, value, self._accountants_near(value))
        row = result.listed
        if row is None:
            return ValuedBound(math.inf, "", result.delta)
        if self.accountants is None and _is_tight(result):
            self.certifying = [row.accountant.name]
        return ValuedBound(row.upper, row.accountant.name, result.delta)

    def _account(self, candidate: Pipeline, value: float, names: Sequence[str] | None) -> Account:
        result = account(candidate, names, self.delta, group_size=self.group_size, runs=self.runs)
        for row in result.rows:
            if row.too_much:
                self.refused.setdefault(row.accountant.name, []).append(value)
        return result

    def _accountants_near(self, value: float) -> Sequence[str] | None:
        """Return the accountants that did not refuse a nearby value; all accountants if each of them refused one."""
        refused = {name for name, values in self.refused.items() if any(value / NEARBY < old < value * NEARBY for old in values)}
        if not refused:
            return self.accountants
        return [name for name in self.accountants or ACCOUNTANTS if name not in refused] or self.accountants


def solvable(pipeline: Pipeline, targets: Sequence[tuple[str, str]] | None, solve: Parameter) -> tuple[tuple[str, str], ...]:
    """Return the (mechanism, key) pairs to solve for, including the pairs of entries that share a sample.

    Raises InputError as `calibrate` does.
    """
    if solve not in get_args(Parameter):
        raise InputError(f"expected a parameter among {', '.join(get_args(Parameter))}, found {solve!r}")
    return _with_companions(pipeline, targets if targets is not None else _find_targets(pipeline, solve))


def _is_tight(result: Account) -> bool:
    """Return whether upper and lower bound are so close that no sound accountant could give a noticeably smaller upper bound."""
    return result.lower is not None and result.upper - result.lower <= TIGHT * result.upper


def _require_bounds(accountants: Sequence[str] | None) -> None:
    """Raise CannotCertify if all named accountants are approximations, which cannot certify that a value meets a target."""
    if not accountants or any(name not in ACCOUNTANTS or load(ACCOUNTANTS[name]).sound for name in accountants):
        return
    names = ", ".join(dict.fromkeys(accountants))
    if len(set(accountants)) == 1:
        why = "is an approximation and cannot answer: its epsilon may be too small"
    else:
        why = "are approximations and cannot answer"
    raise CannotCertify(f"{names} {why}; leave out -a, or name an accountant that gives an upper bound, such as exact or pld")


def _stated_count(pipeline: Pipeline, targets: Sequence[tuple[str, str]]) -> float | None:
    """Return the count that the file states for the key; None if it states none, or if several independent keys are solved for."""
    if not targets or _with_companions(pipeline, targets[:1]) != tuple(targets):
        return None
    name, key = targets[0]
    entry = next((entry for entry in pipeline.mechanisms if entry.name == name), None)
    if entry is None:
        return None
    value = {"steps": entry.steps, "batch_size": getattr(entry.sampling, "batch_size", None)}.get(key)
    return float(value) if isinstance(value, int | float) else None


def noise_divisors(targets: Sequence[tuple[str, str]], weights: Mapping[str, float] | None, pure: bool) -> dict[str, float]:
    """Return the number by which the common ratio of noise to sensitivity is divided, for each mechanism with a weight.

    The rho of a step is proportional to its weight, so its noise is proportional to 1 / sqrt(weight). At delta = 0 (`pure`) its epsilon is
    proportional to its weight, so its noise is proportional to 1 / weight. With a single target, the weights have no effect and the result
    is empty.
    """
    if not weights or len(targets) == 1:
        return {}
    return {name: weight if pure else math.sqrt(weight) for name, weight in weights.items()}


def substitute(
    pipeline: Pipeline, targets: Sequence[tuple[str, str]], value: float, divisors: Mapping[str, float] | None = None
) -> Pipeline:
    """Return the pipeline with `value` set at each target.

    If there are several targets, `value` is their common ratio of noise to sensitivity, and is divided by a mechanism's divisor if it has
    one. A key that is a pure epsilon is set to 1 / ratio. A key that describes how a sample is drawn is set in all entries that share the
    sample.
    """
    keys = dict(_with_companions(pipeline, targets))
    shared = len(keys) > 1
    by_name = divisors or {}
    entries = (
        _with_value(e, keys[e.name], value / by_name.get(e.name, 1.0), shared) if e.name in keys else e for e in pipeline.mechanisms
    )
    return replace(pipeline, mechanisms=tuple(entries))


def _with_companions(pipeline: Pipeline, targets: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the targets, and for each key that describes how a sample is drawn, the same key of every entry that shares the sample."""
    entries = {entry.name: entry for entry in pipeline.mechanisms}
    companions = (
        (other.name, key)
        for name, key in targets
        if name in entries and key in DRAWN_KEYS
        for other in together(entries[name], pipeline.mechanisms)
    )
    return tuple(dict.fromkeys((*targets, *companions)))


def _with_value(entry: Entry, key: str, value: float, is_ratio: bool) -> Entry:
    """Return the entry with the key set to a value.

    is_ratio: whether the value is a ratio of noise to sensitivity, so that a sigma or scale is the value times the sensitivity.
    """
    sampling: Any = entry.sampling
    if key == "steps":
        return replace(entry, steps=int(value), epochs=None)
    if key == "epochs":
        return replace(entry, epochs=value)
    if key == "rate":
        return replace(entry, sampling=replace(sampling, rate=value, batch_size=None))
    if key == "batch_size":
        return replace(entry, sampling=replace(sampling, rate=None, batch_size=int(value)))
    spec: Any = entry.spec
    if key == "epsilon":
        return replace(entry, spec=replace(spec, epsilon=1.0 / value))
    if is_ratio and key in ("sigma", "scale"):
        sensitivities = (getattr(spec, name, None) for name in ("sensitivity", "l2_sensitivity"))
        value *= next((sensitivity for sensitivity in sensitivities if sensitivity is not None), None) or 1.0
    return replace(entry, spec=replace(spec, **{key: value}))


def _find_targets(pipeline: Pipeline, solve: Parameter) -> tuple[tuple[str, str], ...]:
    """Return the only candidate, with the entries that share its sample. Raises InputError if there is none, or more than one."""
    result = [(entry.name, key) for entry in pipeline.mechanisms if (key := parameter_key(entry, solve)) is not None]
    if not result:
        raise InputError(missing_parameter(pipeline.mechanisms, solve))
    if not set(_with_companions(pipeline, result[:1])) >= set(result):
        names = first_names(name for name, _ in result)
        raise InputError(f"expected one mechanism whose {solve} can be solved for, found {names}: name one (--mechanism NAME)")
    return tuple(result)


def missing_parameter(entries: Sequence[Entry], solve: Parameter, name: str | None = None) -> str:
    """Return the message for a parameter that no entry, or not the named entry, has. It lists the parameters that can be solved for."""
    article = "a " if solve in ("scale", "rate", "batch-size", "radius") else ""
    refusal = f"no mechanism has {article}{solve}" if name is None else f'"{name}" has no {solve}'
    others = [other for other in get_args(Parameter) if any(parameter_key(entry, other) for entry in entries)]
    if not others:
        return refusal
    choices = f"{', '.join(others[:-1])} or {others[-1]}" if len(others) > 1 else others[0]
    return f"{refusal}; use --solve {choices}"


def parameter_key(entry: Entry, solve: Parameter) -> str | None:
    """Return the key of an entry that `solve` would change; None if the entry has no such key."""
    if solve in ("noise", "scale"):
        if entry.spec.fixed_threshold:
            return None
        keys = NOISE_KEYS if solve == "noise" else ("scale",)
        stated = [f.name for f in fields(entry.spec) if f.name in keys and getattr(entry.spec, f.name) is not None]  # type: ignore[arg-type]
        return stated[0] if stated else None
    if solve == "steps":
        return None if entry.spec.free else "steps"
    if solve == "radius":
        return "radius" if hasattr(entry.spec, "radius") else None
    if entry.sampling is None or not hasattr(entry.sampling, "rate"):
        return None
    return {"epochs": "epochs", "rate": "rate", "batch-size": "batch_size"}[solve]


def _largest(pipeline: Pipeline, solve: Parameter) -> float:
    """Return the largest value that the parameter may have. Raises InputError if it depends on an unknown dataset size."""
    if solve == "batch-size":
        if pipeline.privacy.dataset_size is None:
            raise InputError("privacy.dataset_size is missing: solving for the batch size needs it")
        return pipeline.privacy.dataset_size
    return 1.0 if solve == "rate" else math.inf
