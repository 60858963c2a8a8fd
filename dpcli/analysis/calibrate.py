"""Calibration: a search for the cheapest value of one parameter that meets a target epsilon. The answer is rounded to the safe side.

`calibrate` is the function of the Python interface; calibrate_file.py serves the commands. A *parameter* is what is solved for, such as
noise or steps, and a *cheaper* value is a smaller noise or scale, or a larger value of another parameter. *Targets* are the (mechanism,
key) pairs that get the value; keys that share a ratio of noise to sensitivity may get different numbers (solved_keys.py).

`BoundByValue` is the upper bound on epsilon as a function of the value, and calibration_search.py searches it for the crossing of the
target. No answer relies on there being only one crossing: the bound at the returned value was computed there. A value at which every
accountant refuses counts as inf, that is, as missing the target. The nearest cheaper value that was seen to miss it, if any, is reported
with its own bound.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from dpcli.analysis.account import Account, account, stated_delta, why_delta_is_needed
from dpcli.analysis.calibration_search import search
from dpcli.analysis.solved_keys import Parameter, Target, largest_value, noise_divisors, solvable, stated_count, substitute
from dpcli.base.displayed import Displayed
from dpcli.base.errors import CannotCertify, InputError
from dpcli.base.lazy import load
from dpcli.base.registry import ACCOUNTANTS
from dpcli.base.rounding import up
from dpcli.base.values import dataclass
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.section import refuse_contradicted
from dpcli.lint.delta import delta_mark
from dpcli.numerics.work import SEARCH, limited_to

# An accountant that needed too much work at one value is not run at values within this factor of it. Arbitrary; it touches speed, and
# accuracy where the accountant would have answered after all.
NEARBY = 1.5
# If an accountant's interval has a smaller relative width, no other accountant is run: it could lower the bound by at most this share.
TIGHT = 1e-8
COUNTED = frozenset({"steps", "batch-size"})  # parameters whose values are whole numbers


@dataclass(frozen=True, slots=True)
class Calibration(Displayed):
    """The answer of a calibration, with the nearest cheaper value.

    targets: the (mechanism, key) pairs that get the value.
    target, delta: the target, and the delta at which it holds; None if the quantity has no delta.
    value: the cheapest value that meets the target, with seven significant digits, or a whole number for a count.
    upper: the certified upper bound on the quantity at `value`, at most `target`.
    accountant: the accountant that certifies `upper`.
    cheaper, cheaper_upper: the nearest cheaper value that misses the target, and its bound; inf if none is certified. Both are None if
        `value` is the cheapest possible value, such as a rate of 1.
    adjacent: True if no value of the grid lies between `value` and `cheaper`; False if the search ended early to save work.
    pipeline: the pipeline with the value.
    group_size, runs: as for `calibrate`.
    quantity: the quantity that target, upper and cheaper_upper bound (analysis/goals.py), usually epsilon.
    wording: the name of the quantity in messages.
    """

    parameter: Parameter
    targets: tuple[Target, ...]
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

    __repr__ = Displayed.__repr__  # stated here, because the dataclass would make a `__repr__` with all fields

    def _line(self) -> str:
        """Return the text of the `repr`."""
        at = "" if self.delta is None else f" at delta = {self.delta!r}"
        at += delta_mark(self.delta, self.pipeline.privacy.dataset_size)
        return f"{self.parameter} = {self.value:.10g}: {self.wording} <= {up(self.upper)}{at}, accountant: {self.accountant}"

    @property
    def epsilon(self) -> float | None:
        """The certified epsilon at `delta`; None if the target bounds another quantity."""
        return self.upper if self.quantity == "epsilon" else None

    @property
    def values(self) -> list[tuple[str, str, float]]:
        """The triples (mechanism, key, value) that are written into the file. Keys that share a ratio have different values."""
        specs = {entry.name: entry.spec for entry in self.pipeline.mechanisms}
        result = []
        for name, key in self.targets:
            value: float = getattr(specs[name], key, None) or self.value  # a key of a sample, such as steps, is not in the spec
            result.append((name, key, self.number(float(value))))
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
    targets: Sequence[Target] | None = None,
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
        InputError: the target is not positive and finite, there is no candidate, or there are several, or a section such as [federated]
            contradicts the answer.
        CannotCertify: no value meets the target, or all named accountants are approximations.
    """
    if not 0.0 < target_epsilon < math.inf:
        raise InputError(f"expected a target epsilon > 0, found {target_epsilon!r}")
    _require_bounds(accountants)
    solved_targets = solvable(pipeline, targets, solve)
    chosen_delta = stated_delta(pipeline) if delta is None else delta
    divisors = noise_divisors(solved_targets, weights, pure=chosen_delta == 0.0)
    epsilons = BoundByValue(EpsilonMeasure(accountants, delta, group_size, runs), pipeline, solved_targets, divisors)
    try:
        return calibration_of(epsilons, target_epsilon, solve, group_size, runs)
    except CannotCertify:
        reason = _why_none_meets(epsilons, target_epsilon, solve)
        if not reason:
            raise
        raise CannotCertify(reason) from None


def _why_none_meets(epsilons: BoundByValue, target_epsilon: float, solve: Parameter) -> str:
    """Return why no value meets the target, if delta = 0 or the cost of a single step is the reason; otherwise ""."""
    if epsilons.deltas() == {0.0} and (reason := why_delta_is_needed(epsilons.pipeline, 0.0)):
        return reason
    if solve != "steps":
        return ""
    least = epsilons(1.0)
    if not target_epsilon < least < math.inf:
        return ""
    return f"no number of steps meets epsilon = {target_epsilon:g}: one step already costs {up(least)}"


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


class ValuedBound(NamedTuple):
    """An upper bound at one value of the parameter.

    upper: the bound; inf if none is certified.
    delta: the delta at which the bound holds; None if the quantity has no delta.
    """

    upper: float
    accountant: str
    delta: float | None = None


class BoundByValue:
    """The upper bound on a quantity as a function of the parameter. No value is measured twice.

    measure: function of a pipeline in which the value has been set, and of the value, that returns the bound.
    divisors: for each mechanism, the number by which the value is divided (`noise_divisors`).
    known: the bounds that were measured so far, by value.
    """

    def __init__(
        self,
        measure: Callable[[Pipeline, float], ValuedBound],
        pipeline: Pipeline,
        targets: tuple[Target, ...],
        divisors: Mapping[str, float],
    ) -> None:
        self.measure, self.pipeline, self.targets, self.divisors = measure, pipeline, targets, divisors
        self.known: dict[float, ValuedBound] = {}

    def __call__(self, value: float) -> float:
        """Return the upper bound at a value; inf if no bound is certified, or if the rules of the file refuse the value."""
        if value not in self.known:
            candidate = self.pipeline_at(value)
            # The reader of files checked the keys before this value was set. Some types refuse, for example, very little noise.
            problems = itertools.chain.from_iterable(entry.spec.problems() for entry in candidate.mechanisms)
            if next(problems, None) is not None:
                return math.inf
            self.known[value] = self.measure(candidate, value)
        return self.known[value].upper

    def pipeline_at(self, value: float) -> Pipeline:
        """Return the pipeline in which the targets have the value."""
        return substitute(self.pipeline, self.targets, value, self.divisors)

    def deltas(self) -> set[float | None]:
        """Return the deltas at which the measured bounds hold."""
        return {bound.delta for bound in self.known.values()}


def calibration_of(
    bounds: BoundByValue,
    target: float,
    solve: Parameter,
    group_size: int,
    runs: int = 1,
    quantity: str = "epsilon",
    wording: str = "epsilon",
) -> Calibration:
    """Return the calibration to a target bound. Raises CannotCertify if no value meets it, InputError if a section contradicts it."""
    largest = largest_value(bounds.pipeline, solve)
    first_count = stated_count(bounds.pipeline, bounds.targets)
    value, cheaper, adjacent = search(bounds, target, solve, largest, first_count, wording)
    solved = bounds.pipeline_at(value)
    refuse_contradicted(solved)  # sections such as [train] describe a run, which must agree with the new value
    bound = bounds.known[value]
    return Calibration(
        parameter=solve,
        targets=bounds.targets,
        target=target,
        delta=bound.delta,
        value=value,
        upper=bound.upper,
        accountant=bound.accountant,
        cheaper=cheaper,
        cheaper_upper=None if cheaper is None else bounds(cheaper),
        adjacent=adjacent,
        pipeline=solved,
        group_size=group_size,
        runs=runs,
        quantity=quantity,
        wording=wording,
    )


class EpsilonMeasure:
    """Bounds the epsilon of a pipeline in which a value was set, with as few accountants as possible.

    certifying: name of the accountant that is run alone, as long as its interval is so narrow that no other could improve it (TIGHT); None
        if there is no such accountant.
    refused: for each accountant, the values at which it needed too much work. It is not run at values nearby.
    """

    def __init__(self, accountants: Sequence[str] | None, delta: float | None, group_size: int, runs: int) -> None:
        self.accountants, self.delta, self.group_size, self.runs = accountants, delta, group_size, runs
        self.certifying = "exact" if accountants is None else None  # of accountants that the user named, none is run alone
        self.refused: dict[str, list[float]] = {}

    def __call__(self, candidate: Pipeline, value: float) -> ValuedBound:
        """Return the smallest bound of the accountants that are run; inf, of accountant "", if none of them has one."""
        result = None if self.certifying is None else self._account(candidate, value, [self.certifying])
        if result is None or not _is_tight(result):
            self.certifying = None
            result = self._account(candidate, value, self._accountants_near(value))
        row = result.listed  # for an adaptive file, the cost of its mechanisms; its guarantee would be its cap, whatever the noise
        if row is None:
            return ValuedBound(math.inf, "", result.delta)
        if self.accountants is None and _is_tight(result):
            self.certifying = row.accountant.name
        return ValuedBound(row.upper, row.accountant.name, result.delta)

    def _account(self, candidate: Pipeline, value: float, names: Sequence[str] | None) -> Account:
        """Return the account, and note in `refused` the accountants that needed too much work."""
        result = account(candidate, names, self.delta, group_size=self.group_size, runs=self.runs)
        for row in result.rows:
            if row.too_much:
                self.refused.setdefault(row.accountant.name, []).append(value)
        return result

    def _accountants_near(self, value: float) -> Sequence[str] | None:
        """Return the accountants that did not refuse a nearby value; all accountants if each of them refused one."""
        refused = {
            name for name, values in self.refused.items() if any(value / NEARBY < earlier < value * NEARBY for earlier in values)
        }
        if not refused:
            return self.accountants
        return [name for name in self.accountants or ACCOUNTANTS if name not in refused] or self.accountants


def _is_tight(result: Account) -> bool:
    """Return whether upper and lower bound are so close that no sound accountant could give a noticeably smaller upper bound."""
    return result.lower is not None and result.upper - result.lower <= TIGHT * result.upper
