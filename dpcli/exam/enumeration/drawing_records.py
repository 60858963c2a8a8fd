"""Joint probability laws of the releases of all steps, by enumeration of the samples that a sampling scheme can draw.

A dataset is a tuple of letters, one for each record (`Records`). A *release* maps the records of one sample to the probability of each
outcome, and a `WayOfSampling` draws the samples of one *pass* over the data. `pair` gives the law of a pass on two neighbouring datasets,
and `hockey_stick` the delta between these laws. Nothing here uses an amplification theorem: every sample is counted.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
# The letters of records: one that changes, the one that replaces it, its zeroed version or its empty place, and any other record.
CHANGING, REPLACING, BLANK, OTHER = "x", "y", "z", "o"
Records = tuple[str, ...]
Release = Callable[[Records], Array]  # records of one sample -> probability of each outcome
Drawn = Callable[[Release, Records], Array]  # a release and the records -> probability of each outcome of one pass
# Number of cells into which the noise of an outcome is divided. The joint law of several steps has cells^steps outcomes, so each step has
# fewer cells.
ONE_STEP_CELLS, SEVERAL_STEPS_CELLS = 4800, 480


@dataclass(frozen=True, slots=True, eq=False)
class WayOfSampling:
    """A sampling scheme with parameters that are small enough to enumerate.

    Attributes:
        keys: Keys of the sampling table; None if there is no table.
        drawn: Function that returns the law of the releases of one pass over the records.
        steps: Number of steps of one pass.
        passes: Number of independent passes, 1 or 2. With 2, composition is tested too.
        others: Number of records that do not change.
        slots: Whether an absent record leaves an empty place (BLANK) in its batch. `others` then counts for each changing record.
    """

    label: str
    keys: dict[str, object] | None
    drawn: Drawn
    steps: int = 1
    passes: int = 2
    others: int = 0
    slots: bool = False


@dataclass(frozen=True, slots=True)
class Situation:
    """A setting in which a release is used.

    Attributes:
        adjacency: The neighbouring relation.
        draws: The sampling scheme.
        contributions: Number of records of a unit.
        group: Number of units that change together.
    """

    adjacency: str
    draws: WayOfSampling
    contributions: int = 1
    group: int = 1

    @property
    def cells(self) -> int:
        return ONE_STEP_CELLS if self.draws.steps == 1 else SEVERAL_STEPS_CELLS

    def changed_units(self, records: Records, letter: str = CHANGING) -> list[bool]:
        """Return, for each unit that may change, whether one of its records in the data is a `letter`."""
        return [letter in records[k * self.contributions : (k + 1) * self.contributions] for k in range(self.group)]


def product(laws: Iterable[Array]) -> Array:
    """Return the joint law of independent releases."""
    return reduce(lambda a, b: np.multiply.outer(a, b).ravel(), laws)


def all_records(release: Release, records: Records) -> Array:
    """Release all records in one step."""
    return release(records)


def poisson(rate: float, most: int | None = None) -> Drawn:
    """Return a pass that draws each record independently. A sample of more than `most` records is cut to `most` at random."""

    def drawn(release: Release, records: Records) -> Array:
        laws = []
        for chosen in itertools.product((False, True), repeat=len(records)):
            sample = tuple(itertools.compress(records, chosen))
            weight = rate ** len(sample) * (1.0 - rate) ** (len(records) - len(sample))
            used = len(sample) if most is None else min(len(sample), most)
            subsets = list(itertools.combinations(sample, used))
            laws += [weight / len(subsets) * release(part) for part in subsets]
        return np.asarray(sum(laws))

    return drawn


def fixed(size: int) -> Drawn:
    """Return a pass that draws `size` records without replacement."""

    def drawn(release: Release, records: Records) -> Array:
        samples = list(itertools.combinations(records, size))
        return np.asarray(sum(release(sample) for sample in samples) / len(samples))

    return drawn


def in_order(release: Release, records: Records) -> Array:
    """Release the records in two batches, in their order."""
    half = (len(records) + 1) // 2
    return product([release(records[:half]), release(records[half:])])


def shuffled(release: Release, records: Records) -> Array:
    """Release the records in two batches, after a uniformly random shuffle."""
    orders = list(itertools.permutations(records))
    return np.asarray(sum(in_order(release, order) for order in orders) / len(orders))


def bins(release: Release, records: Records) -> Array:
    """Release the records in two steps, each record in one of them at random."""
    laws = []
    for in_second in itertools.product((False, True), repeat=len(records)):
        in_first = [not chosen for chosen in in_second]
        samples = [tuple(itertools.compress(records, chosen)) for chosen in (in_first, in_second)]
        laws.append(product(map(release, samples)))
    return np.asarray(sum(laws) / len(laws))


SCHEMES: dict[str, tuple[WayOfSampling, ...]] = {
    "none": (WayOfSampling("no sampling", None, all_records),),
    "poisson": (
        WayOfSampling("rate .3", {"rate": 0.3}, poisson(0.3)),
        WayOfSampling("rate .5, at most 1 of 2", {"rate": 0.5, "max_batch_size": 1}, poisson(0.5, 1), passes=1, others=1),
    ),
    "fixed-size": (WayOfSampling("1 of all", {"batch_size": 1}, fixed(1), others=1),),
    "shuffle": (WayOfSampling("2 batches", {"rate": 0.5}, shuffled, steps=2, passes=1, others=1, slots=True),),
    "cyclic": (WayOfSampling("2 batches", {"rate": 0.5}, in_order, steps=2, passes=1, others=1, slots=True),),
    "balls-in-bins": (WayOfSampling("2 steps", {"rate": 0.5}, bins, steps=2, passes=1),),
}


def datasets(adjacency: str, records: int, draws: WayOfSampling) -> tuple[Records, Records]:
    """Return two neighbouring datasets that differ in `records` records, such as (CHANGING, OTHER) and (REPLACING, OTHER)."""
    unchanged = (OTHER,) * (draws.others * records if draws.slots else draws.others)
    present = (CHANGING,) * records + unchanged
    if adjacency == "add-remove" and not draws.slots:
        return present, unchanged
    replacement = REPLACING if adjacency == "replace-one" else BLANK
    return present, (replacement,) * records + unchanged


def pair(draws: WayOfSampling, release: Release, records: tuple[Records, Records]) -> tuple[Array, Array]:
    """Return the law of one pass's releases on each of two datasets."""
    cached = functools.cache(release)  # many draws give the same sample
    present, changed = records
    return draws.drawn(cached, present), draws.drawn(cached, changed)


def hockey_stick(p: Array, q: Array, epsilon: float, passes: int = 1) -> float:
    """Return the hockey-stick divergence sum (p - e^eps q)+ in the larger direction, over one pass or two independent passes."""
    return max(_direction(p, q, epsilon, passes), _direction(q, p, epsilon, passes))


def _direction(p: Array, q: Array, epsilon: float, passes: int) -> float:
    """Return the hockey-stick divergence of p from q over one pass, or over two passes by sorted privacy losses.

    The joint law of two passes would have n^2 outcomes. Sorted losses need a time of n log n.
    """
    if passes == 1:
        return float(np.maximum(p - np.exp(epsilon) * q, 0.0).sum())
    p, q = p[p > 0.0], q[p > 0.0]  # outcomes that p never has add nothing
    with np.errstate(divide="ignore"):
        losses = np.log(p) - np.log(q)
    order = np.argsort(losses)
    # For each outcome of one pass: the first outcome of the other pass at which the sum of both losses exceeds epsilon.
    smallest_partner = np.searchsorted(losses[order], epsilon - losses, side="right")
    above_p, above_q = (_upper_sums(law[order])[smallest_partner] for law in (p, q))
    return max(float(p @ above_p - np.exp(epsilon) * (q @ above_q)), 0.0)


def _upper_sums(values: Array) -> Array:
    """Return the sum of values[k:] for k = 0, ..., len(values)."""
    return np.concatenate((np.cumsum(values[::-1])[::-1], [0.0]))
