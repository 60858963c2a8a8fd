"""Laws of all steps' releases, by enumeration of the samples that a scheme can draw."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Records = tuple[str, ...]  # "x" the record; "y" its other version; "z" its zeroed version, or the place that it left; "o" any other
Release = Callable[[Records], Array]  # records of one sample -> probability of each outcome
Drawn = Callable[[Release, Records], Array]  # of one pass
ONE_STEP_CELLS, SEVERAL_STEPS_CELLS = 4800, 480  # cells into which the noise of an outcome is cut: of one step, of one of several


@dataclass(frozen=True, slots=True, eq=False)
class WayOfSampling:
    """A sampling scheme, small enough to enumerate.

    keys: of the sampling table, None for no table. drawn: the samples of one pass over these records. steps: of one pass. others: records
    that do not change. slots: whether an absent record leaves its place empty; then there are `others` for each that changes.
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

    adjacency: the neighbouring relation.
    draws: how records are sampled.
    contributions: records of one unit.
    group: units that change together.
    """

    adjacency: str
    draws: WayOfSampling
    contributions: int = 1
    group: int = 1

    @property
    def cells(self) -> int:
        return ONE_STEP_CELLS if self.draws.steps == 1 else SEVERAL_STEPS_CELLS

    def changed_units(self, records: Records, letter: str = "x") -> list[bool]:
        """Return for each unit that may change whether its records in the data are `letter`s."""
        return [letter in records[k * self.contributions : (k + 1) * self.contributions] for k in range(self.group)]


def product(laws: Iterable[Array]) -> Array:
    """Return the law of independent releases."""
    return reduce(lambda a, b: np.multiply.outer(a, b).ravel(), laws)


def everybody(release: Release, records: Records) -> Array:
    return release(records)


def poisson(rate: float, most: int | None = None) -> Drawn:
    """Draw each record on its own; a larger sample is cut to `most` at random."""

    def drawn(release: Release, records: Records) -> Array:
        laws = []
        for chosen in itertools.product((False, True), repeat=len(records)):
            sample = tuple(itertools.compress(records, chosen))
            weight = rate ** len(sample) * (1.0 - rate) ** (len(records) - len(sample))
            subsets = list(itertools.combinations(sample, min(len(sample), most if most is not None else len(sample))))
            laws += [weight / len(subsets) * release(part) for part in subsets]
        return np.asarray(sum(laws))

    return drawn


def fixed(size: int) -> Drawn:
    """Draw a sample of one size, without replacement."""

    def drawn(release: Release, records: Records) -> Array:
        samples = list(itertools.combinations(records, size))
        return np.asarray(sum(release(sample) for sample in samples) / len(samples))

    return drawn


def in_order(release: Release, records: Records) -> Array:
    """Release two batches, in the order given."""
    half = (len(records) + 1) // 2
    return product([release(records[:half]), release(records[half:])])


def shuffled(release: Release, records: Records) -> Array:
    """Release two batches, after a shuffle."""
    orders = list(itertools.permutations(records))
    return np.asarray(sum(in_order(release, order) for order in orders) / len(orders))


def bins(release: Release, records: Records) -> Array:
    """Put each record into one of two steps."""
    laws = []
    for second in itertools.product((False, True), repeat=len(records)):
        first = [not place for place in second]
        laws.append(product([release(tuple(itertools.compress(records, places))) for places in (first, second)]))
    return np.asarray(sum(laws) / len(laws))


SCHEMES: dict[str, tuple[WayOfSampling, ...]] = {
    "none": (WayOfSampling("no sampling", None, everybody),),
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
    """Return two neighbouring datasets, which differ in `records` records."""
    other = {"add-remove": "z" if draws.slots else "", "zero-out": "z", "replace-one": "y"}[adjacency]
    rest = ("o",) * (draws.others * records if draws.slots else draws.others)
    return ("x",) * records + rest, (other,) * records + rest if other else rest


def pair(draws: WayOfSampling, release: Release, records: tuple[Records, Records]) -> tuple[Array, Array]:
    """Return the laws of one pass's releases on two datasets; a sample that is drawn twice is released once."""
    known = functools.cache(release)
    present, other = records
    return draws.drawn(known, present), draws.drawn(known, other)


def hockey_stick(p: Array, q: Array, epsilon: float, passes: int = 1) -> float:
    """Return the larger direction of sum (p - e^eps q)+ over the outcomes of one pass, or of two independent ones."""
    return max(_direction(p, q, epsilon, passes), _direction(q, p, epsilon, passes))


def _direction(p: Array, q: Array, epsilon: float, passes: int) -> float:
    if passes == 1:
        return float(np.maximum(p - np.exp(epsilon) * q, 0.0).sum())
    p, q = p[p > 0.0], q[p > 0.0]
    with np.errstate(divide="ignore"):
        losses = np.log(p) - np.log(q)
    order = np.argsort(losses)
    first = np.searchsorted(losses[order], epsilon - losses, side="right")  # of the other pass, for each outcome of one
    above_p, above_q = (np.concatenate((np.cumsum(law[order][::-1])[::-1], [0.0]))[first] for law in (p, q))
    return max(float(p @ above_p - np.exp(epsilon) * (q @ above_q)), 0.0)
