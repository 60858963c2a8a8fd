"""The best adversary of a ledger: one who chooses each step (stop, run another mechanism, amend the cap) from the outputs so far.

For a policy of such choices, the delta at epsilon is E (1 - e^(epsilon - L))+ of the loss L, to which each run adds. The largest delta of
all policies is computed by dynamic programming over the runs so far, the cap in force and L. Losses lie on a grid: those of randomised
response exactly, those of a Gaussian by a sum over the grid, whose error is far below the slack that a test allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dpcli.ledger import amounts
from dpcli.ledger.amounts import Amounts

STEP = 0.02  # of the grid of losses
Losses = NDArray[np.float64]
Telling = Callable[[float, Losses], Losses]  # what an end with these losses counts for, where that epsilon is claimed


@dataclass(frozen=True)
class Attempt:
    """A mechanism that may be run: its cost, the chances of losses 0, STEP, ... from `first` steps on, and of an infinite one."""

    cost: Amounts
    first: int
    chances: Losses
    infinite: float = 0.0


def of_gaussian(mu: float, cost: Amounts) -> Attempt:
    """Gaussian noise: its loss is normal with mean mu^2 / 2 and standard deviation mu."""
    middle, reach = round(0.5 * mu * mu / STEP), math.ceil(9.0 * mu / STEP)
    losses = STEP * np.arange(middle - reach, middle + reach + 1)
    density = np.exp(-0.5 * ((losses - 0.5 * mu * mu) / mu) ** 2)
    return Attempt(cost, middle - reach, density / density.sum())


def of_response(steps: int, cost: Amounts) -> Attempt:
    """Randomised response at epsilon = steps * STEP."""
    chances = np.zeros(2 * steps + 1)
    chances[-1] = 1.0 / (1.0 + math.exp(-steps * STEP))
    chances[0] = 1.0 - chances[-1]
    return Attempt(cost, -steps, chances)


def of_failure(delta: float, cost: Amounts) -> Attempt:
    """What gives everything away with probability delta, and nothing else."""
    return Attempt(cost, 0, np.array([1.0 - delta]), delta)


def worst(
    attempts: Sequence[Attempt],
    caps: Sequence[Amounts],
    epsilons: Sequence[float],
    raises: Callable[[int], Sequence[int]],
    widest: float,
) -> float:
    """The largest E (1 - e^(epsilons[cap at the end] - L))+ over all policies.

    caps: in order; the first is in force at the start. raises: for the one in force, which may take its place, whatever the outputs were.
    widest: the largest |loss| that matters.
    """
    grid = _grid(widest)

    @cache
    def value(counts: tuple[int, ...], cap: int) -> Losses:
        found = given_away(epsilons[cap], grid)
        for other in raises(cap):
            found = np.maximum(found, value(counts, other))
        for i, attempt in enumerate(attempts):
            more = tuple(count + (i == j) for j, count in enumerate(counts))
            if amounts.exceeded(_spent(attempts, more), caps[cap]) is None:
                found = np.maximum(found, _after(attempt, value(more, cap)))
        return found

    return float(value((0,) * len(attempts), 0)[len(grid) // 2])


def at_any_moment(
    attempts: Sequence[Attempt], cap: Amounts, claimed: Callable[[Amounts], float], told: Telling, widest: float
) -> float:
    """The largest E told(epsilon, L) over all policies within a cap, where epsilon is what is claimed of the costs at the end."""
    grid = _grid(widest)

    @cache
    def value(counts: tuple[int, ...]) -> Losses:
        result = told(claimed(_spent(attempts, counts)), grid)
        for i, attempt in enumerate(attempts):
            more = tuple(count + (i == j) for j, count in enumerate(counts))
            if amounts.exceeded(_spent(attempts, more), cap) is None:
                result = np.maximum(result, _after(attempt, value(more)))
        return result

    return float(value((0,) * len(attempts))[len(grid) // 2])


def staged(stages: Sequence[Sequence[Attempt]], epsilons: Sequence[float], widest: float, told: Telling | None = None) -> float:
    """The largest E told(epsilon, L) of who runs one attempt of each stage, in their order, and goes on or stops after any of them.

    epsilons: what is claimed where that is the end, for each stage. told: `given_away` if None.
    """
    grid, told = _grid(widest), told or given_away
    value = told(epsilons[-1], grid)
    for stage, epsilon in zip(reversed(stages[1:]), reversed(epsilons[:-1]), strict=True):
        value = np.maximum(told(epsilon, grid), np.maximum.reduce([_after(attempt, value) for attempt in stage]))
    return float(max(_after(attempt, value)[len(grid) // 2] for attempt in stages[0]))


def _grid(widest: float) -> Losses:
    return STEP * np.arange(-round(widest / STEP), round(widest / STEP) + 1)


def given_away(epsilon: float, losses: Losses) -> Losses:
    """What an end gives away at epsilon: (1 - e^(epsilon - L))+."""
    return np.maximum(0.0, -np.expm1(epsilon - losses))


def exceeded(epsilon: float, losses: Losses) -> Losses:
    """1 where the loss is above epsilon, so that its mean is the probability that the loss ever is."""
    return (losses > epsilon + 1e-9).astype(np.float64)


def _after(attempt: Attempt, value: Losses) -> Losses:
    """The expected value after one more attempt."""
    reach = max(abs(attempt.first), abs(attempt.first + len(attempt.chances) - 1))
    every = np.convolve(np.pad(value, reach, mode="edge"), attempt.chances[::-1], mode="valid")
    start = reach + attempt.first
    return attempt.infinite + every[start : start + len(value)]


def _spent(attempts: Sequence[Attempt], counts: Sequence[int]) -> Amounts:
    names = attempts[0].cost
    return {
        name: sum((attempt.cost[name] * count for attempt, count in zip(attempts, counts, strict=True)), Decimal(0))
        for name in names
    }
