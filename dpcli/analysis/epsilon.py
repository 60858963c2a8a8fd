"""The function `dpcli.epsilon`: bounds on epsilon for arrays of DP-SGD settings (Gaussian noise on Poisson samples).

A *setting* is a noise multiplier, a sampling rate, a number of steps and a delta. Settings with equal noise and rate share work: one
contour integral (numerics/contour) answers many pairs of steps and delta, and as epsilon grows with the steps, bounds at two numbers of
steps hold for all between them. Settings whose intervals are wider than CLOSE are computed again without sharing, as many as the tolerance
needs. `upper` is always an upper bound and may be claimed; `lower` is a lower bound on the true epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from dpcli.accountants.exact import ends_of
from dpcli.analysis.inquiry import tightest
from dpcli.base.displayed import Displayed
from dpcli.base.errors import InputError, NotRepresentable
from dpcli.base.rounding import up
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.numerics.arrays import Array, BoolArray, IndexArray, np
from dpcli.numerics.contour.counts import epsilons_between

CLOSE = 1e-7  # an interval from shared contours with a larger relative width is computed again separately
MOST_STEPS = 10**15  # floats represent every whole number up to this one, so a number of steps is never rounded
# Up to this number of settings with equal noise and rate, no contours are shared. Arbitrary; it touches speed, and the widths of intervals
# up to CLOSE.
FEW_SETTINGS = 16


class EpsilonInterval(NamedTuple):
    """A lower and an upper bound on one epsilon; 0 and inf if nothing is certified."""

    lower: float
    upper: float


NO_BOUNDS = EpsilonInterval(0.0, math.inf)

# The allowed values of each argument: in words, and as a function that returns which values of an array are allowed.
RANGES: dict[str, tuple[str, Callable[[Array], BoolArray]]] = {
    "noise_multiplier": ("numbers > 0", lambda x: (x > 0.0) & (x < math.inf)),
    "sampling_rate": ("numbers in (0, 1]", lambda x: (x > 0.0) & (x <= 1.0)),
    "steps": ("whole numbers from 1 to 10^15", lambda x: (x >= 1.0) & (x <= MOST_STEPS) & (x == np.floor(x))),
    "delta": ("numbers in (0, 0.5]", lambda x: (x > 0.0) & (x <= 0.5)),
}


@dataclass(frozen=True, slots=True, eq=False)
class Epsilons(Displayed):
    """Certified bounds on epsilon in nats, as arrays of the shape to which the arguments broadcast.

    upper: upper bounds, which are the epsilons to claim; inf if none is certified.
    lower: lower bounds on the true epsilons; 0 if nothing is certified.
    delta: the deltas at which the bounds hold.
    """

    upper: Array
    lower: Array
    delta: Array

    __repr__ = Displayed.__repr__

    def _line(self) -> str:
        if not self.upper.size:
            return "no settings"
        return f"epsilon <= {_range(self.upper, up)} at delta = {_range(self.delta, repr)}, shape {self.upper.shape}"

    @property
    def epsilon(self) -> Array:
        """The upper bounds on epsilon at `delta`."""
        return self.upper


def epsilon(
    noise_multiplier: Any,
    sampling_rate: Any = 1.0,
    steps: Any = 1,
    *,
    delta: Any,
    adjacency: str = "add-remove",
    tolerance: float = 1e-3,
) -> Epsilons:
    """Return bounds on the epsilon of a number of Gaussian releases on Poisson samples. Arguments are numbers or arrays.

    >>> import dpcli
    >>> dpcli.epsilon(1.1, 256 / 60000, [1, 1000, 14040], delta=1e-5).upper   # doctest: +SKIP
    array([0.0483, 0.5987, 2.3796])

    Settings with equal noise and rate share their contours, so epsilon after each of 10^5 steps takes seconds.

    Args:
        noise_multiplier: standard deviation of the noise over C, the bound on the L2 norm of one record's contribution; > 0.
        sampling_rate: probability, in (0, 1], that a record is in the sample of a step; 1 if every step uses all records.
        steps: number of steps, a whole number from 1 to 10^15.
        delta: the delta at which epsilon is bounded, in (0, 1/2].
        adjacency: "add-remove", "replace-one" or "zero-out".
        tolerance: sufficient relative width of an interval, in [0, 1). Most intervals are narrower than 1e-9 for any tolerance. If steps
            are few and weak, each number of steps costs 5 to 50 ms. Then only some numbers of steps are computed. The numbers between two
            computed ones get the upper bound of the larger number, and the lower bound of the smaller one.

    Returns:
        Upper bounds and certified lower bounds, as `account` computes them for each setting.

    Raises:
        InputError: a value is out of range, or the shapes do not broadcast.
    """
    neighbours = Neighbours(_adjacency(adjacency))
    if not 0.0 <= tolerance < 1.0:
        raise InputError(f"expected a tolerance in [0, 1), found {tolerance!r}")
    arguments = {"noise_multiplier": noise_multiplier, "sampling_rate": sampling_rate, "steps": steps, "delta": delta}
    arrays = _broadcast({name: _numbers(name, value) for name, value in arguments.items()})
    *_, deltas = arrays
    # One row for each different setting, with the columns in the order of `arguments`. `np.unique` sorts the rows, so that those with equal
    # noise and rate are adjacent.
    settings, setting_of_place = np.unique(np.stack([array.ravel() for array in arrays], axis=1), axis=0, return_inverse=True)
    noise_and_rate, step_counts, setting_deltas = settings[:, :2], settings[:, 2], settings[:, 3]
    lower, upper = np.zeros(len(settings)), np.full(len(settings), math.inf)
    for rows in _groups(noise_and_rate):
        noise, rate = noise_and_rate[rows[0]].tolist()
        mechanism = GaussianSpec(noise_multiplier=noise).poisson(rate, neighbours)
        lower[rows], upper[rows] = _bounds_for(mechanism, step_counts[rows], setting_deltas[rows], tolerance)
    place = setting_of_place.ravel()
    return Epsilons(upper[place].reshape(deltas.shape), lower[place].reshape(deltas.shape), deltas.copy())


def _range(values: Array, shown: Callable[[float], str]) -> str:
    """Return the smallest and the largest value in words, such as `1e-06 to 1e-05`, or one of them if both are shown equally."""
    ends = (shown(float(values.min())), shown(float(values.max())))
    return " to ".join(dict.fromkeys(ends))


def _adjacency(name: str) -> Adjacency:
    """Return the adjacency of this name. Raises InputError if there is none."""
    try:
        return Adjacency(name)
    except ValueError:
        choices = ", ".join(adjacency.value for adjacency in Adjacency)
        raise InputError(f"expected an adjacency among {choices}, found {name!r}") from None


def _numbers(name: str, value: Any) -> Array:
    """Return an argument as an array of floats. Raises InputError if a value is no number or out of range."""
    words, is_allowed = RANGES[name]
    try:
        array = np.asarray(value)
    except ValueError:
        raise InputError(f"{name}: expected {words}, found rows of different lengths") from None
    if array.dtype.kind not in "iuf":  # signed or unsigned whole numbers, or floats
        raise InputError(f"{name}: expected {words}, found {value!r}")
    refused = array[~is_allowed(array.astype(float))].tolist()
    if refused:
        raise InputError(f"{name}: expected {words}, found {refused[0]!r}")
    return np.asarray(array, dtype=float)


def _broadcast(arrays: dict[str, Array]) -> tuple[Array, ...]:
    """Return the arrays in their common shape. Raises InputError if they have none."""
    try:
        return tuple(np.broadcast_arrays(*arrays.values()))
    except ValueError:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise InputError(f"expected shapes that broadcast, found {shapes}") from None


def _groups(keys: Array) -> list[IndexArray]:
    """Return the indices of the rows of each key. Rows with equal keys must be adjacent."""
    if not len(keys):
        return []
    differs_from_previous = np.any(np.diff(keys, axis=0) != 0.0, axis=1)
    return np.split(np.arange(len(keys)), np.flatnonzero(differs_from_previous) + 1)


def _bounds_for(mechanism: Mechanism, counts: Array, deltas: Array, tolerance: float) -> tuple[Array, Array]:
    """Return lower and upper bounds for one mechanism at pairs of a count and a delta.

    The bounds come from shared contours. Pairs for which these intervals are wide are computed one by one. A mechanism has one or two
    privacy losses, for the two directions of a change of the data, and the larger bounds count.
    """
    lower, upper = np.zeros(len(counts)), np.full(len(counts), math.inf)
    wide = np.ones(len(counts), dtype=bool)
    if len(counts) > FEW_SETTINGS:
        intervals = [_on_shared_contours(loss, counts, np.log(deltas)) for loss in mechanism.losses()]
        lower = np.maximum.reduce([low for low, _ in intervals])
        upper = np.maximum.reduce([high for _, high in intervals])
        wide = ~((upper - lower <= CLOSE * upper) & np.isfinite(upper))
        if not mechanism.attained():
            lower = np.zeros(len(counts))
    for delta in np.unique(deltas[wide]).tolist():
        rows = np.flatnonzero(wide & (deltas == delta))
        rows = rows[np.argsort(counts[rows], kind="stable")]
        low, high = _between(partial(_one_setting, mechanism, delta=delta), counts[rows], tolerance)
        lower[rows], upper[rows] = np.maximum(lower[rows], low), np.minimum(upper[rows], high)
    return np.minimum(lower, upper), upper


def _on_shared_contours(loss: Any, counts: Array, log_deltas: Array) -> tuple[Array, Array]:
    """Return lower and upper bounds for one privacy loss at pairs of a count and a delta; 0 and inf if no contour gives any."""
    try:
        return epsilons_between(loss, counts, log_deltas)
    except NotRepresentable:
        return np.zeros(len(counts)), np.full(len(counts), math.inf)


def _one_setting(mechanism: Mechanism, count: int, delta: float) -> EpsilonInterval:
    """Return the interval of one setting, from the exact accountant if it is finite, otherwise from the tightest accountant."""
    result = _exact_interval(mechanism, count, delta)
    if not math.isfinite(result.upper):
        row = tightest(((mechanism, count),), delta)
        if row is None or row.bound is None:
            return NO_BOUNDS
        result = EpsilonInterval(row.bound.lower or 0.0, row.bound.upper)
    return result if mechanism.attained() else result._replace(lower=0.0)


def _exact_interval(mechanism: Mechanism, count: int, delta: float) -> EpsilonInterval:
    """Return the interval of the exact accountant for the dominating pairs, whose upper end is inf if it has no bound.

    Its lower end is true for the mechanism only if some data attain the pairs.
    """
    try:
        # One interval for each direction of a change of the data.
        intervals = [ends_of(((loss, count),), math.log(delta)) for loss in mechanism.losses()]
    except NotRepresentable:
        return NO_BOUNDS
    return EpsilonInterval(max(interval.lower for interval in intervals), max(interval.upper for interval in intervals))


def _between(bound: Callable[[int], EpsilonInterval], counts: Array, tolerance: float) -> tuple[Array, Array]:
    """Return lower and upper bounds at increasing counts, by evaluating `bound` at as few of them as the tolerance allows.

    Epsilon grows with the number of steps, so bounds at two counts imply bounds at all counts between them.
    """
    lower, upper = np.zeros(len(counts)), np.full(len(counts), math.inf)
    last = len(counts) - 1
    for i in {0, last}:
        lower[i], upper[i] = bound(int(counts[i]))
    ranges = [(0, last)]  # indices of counts with bounds, between which no count has bounds yet
    while ranges:
        begin, end = ranges.pop()
        if end - begin < 2:
            continue
        if upper[end] - lower[begin] <= tolerance * upper[end] < math.inf:
            lower[begin + 1 : end], upper[begin + 1 : end] = lower[begin], upper[end]
            continue
        middle = (begin + end) // 2
        lower[middle], upper[middle] = bound(int(counts[middle]))
        ranges += [(begin, middle), (middle, end)]
    return lower, upper
