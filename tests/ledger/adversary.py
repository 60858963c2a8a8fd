"""The best adversary of a ledger: one who chooses each step (stop, run another mechanism, amend the cap) from the outputs so far.

For a policy of such choices, the delta at epsilon is E (1 - e^(epsilon - L))+, where L is the total privacy loss of the runs. The largest
delta of all policies is computed by dynamic programming over the runs so far, the cap in force and L. A privacy filter must keep it below
its delta. Losses lie on a grid: those of randomised response exactly, those of a Gaussian by a sum over the grid, whose error is far below
the slack that a test allows.
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

STEP = 0.02  # distance of the points of the grid of losses
Losses = NDArray[np.float64]
Telling = Callable[[float, Losses], Losses]  # claimed epsilon, losses at the end -> the quantity whose expectation is maximised


@dataclass(frozen=True)
class Attempt:
    """A mechanism that may be run.

    first: The smallest finite loss, in steps of the grid.
    chances: The probability of each finite loss, from `first` on.
    infinite: The probability of an infinite loss.
    """

    cost: Amounts
    first: int
    chances: Losses
    infinite: float = 0.0


def of_gaussian(mu: float, cost: Amounts) -> Attempt:
    """Return Gaussian noise, whose loss is normal with mean mu^2 / 2 and standard deviation mu."""
    middle, reach = round(0.5 * mu * mu / STEP), math.ceil(9.0 * mu / STEP)
    losses = STEP * np.arange(middle - reach, middle + reach + 1)
    density = np.exp(-0.5 * ((losses - 0.5 * mu * mu) / mu) ** 2)
    return Attempt(cost, middle - reach, density / density.sum())


def of_response(steps: int, cost: Amounts) -> Attempt:
    """Return randomised response at epsilon = steps * STEP."""
    chances = np.zeros(2 * steps + 1)
    chances[-1] = 1.0 / (1.0 + math.exp(-steps * STEP))
    chances[0] = 1.0 - chances[-1]
    return Attempt(cost, -steps, chances)


def of_failure(delta: float, cost: Amounts) -> Attempt:
    """Return a mechanism that reveals everything with probability delta, and nothing otherwise."""
    return Attempt(cost, 0, np.array([1.0 - delta]), delta)


def worst(
    attempts: Sequence[Attempt],
    caps: Sequence[Amounts],
    epsilons: Sequence[float],
    raises: Callable[[int], Sequence[int]],
    widest: float,
) -> float:
    """Return the largest E (1 - e^(epsilons[cap at the end] - L))+ over all policies.

    Args:
        caps: The caps on the amounts; the first is in force at the start.
        epsilons: The epsilon that is claimed under each cap.
        raises: Function from a cap to the caps by which the adversary may replace it.
        widest: The largest |loss| on the grid.
    """
    grid = _grid(widest)

    @cache
    def value(counts: tuple[int, ...], cap: int) -> Losses:
        result = given_away(epsilons[cap], grid)
        for other in raises(cap):
            result = np.maximum(result, value(counts, other))
        for i, attempt in enumerate(attempts):
            more = tuple(count + (i == j) for j, count in enumerate(counts))
            if amounts.exceeded(_spent(attempts, more), caps[cap]) is None:
                result = np.maximum(result, _after(attempt, value(more, cap)))
        return result

    return float(value((0,) * len(attempts), 0)[len(grid) // 2])


def at_any_moment(
    attempts: Sequence[Attempt], cap: Amounts, claimed: Callable[[Amounts], float], told: Telling, widest: float
) -> float:
    """Return the largest E told(epsilon, L) over all policies within a cap, where epsilon is the claim for the costs at the end."""
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
    """Return the largest E told(epsilon, L) of an adversary who runs one attempt of each stage in order, and may stop after any stage.

    Args:
        epsilons: The epsilon that is claimed after each stage.
        told: The quantity; `given_away` if None.
    """
    grid, told = _grid(widest), told or given_away
    value = told(epsilons[-1], grid)
    for stage, epsilon in zip(reversed(stages[1:]), reversed(epsilons[:-1]), strict=True):
        value = np.maximum(told(epsilon, grid), np.maximum.reduce([_after(attempt, value) for attempt in stage]))
    return float(max(_after(attempt, value)[len(grid) // 2] for attempt in stages[0]))


def _grid(widest: float) -> Losses:
    return STEP * np.arange(-round(widest / STEP), round(widest / STEP) + 1)


def given_away(epsilon: float, losses: Losses) -> Losses:
    """Return (1 - e^(epsilon - L))+, whose expectation is delta at epsilon."""
    return np.maximum(0.0, -np.expm1(epsilon - losses))


def exceeded(epsilon: float, losses: Losses) -> Losses:
    """Return 1 where the loss is above epsilon, and 0 elsewhere. The expectation is the probability of such a loss."""
    return (losses > epsilon + 1e-9).astype(np.float64)


def _after(attempt: Attempt, value: Losses) -> Losses:
    """Return the expectation of `value` after one more attempt, as a function of the loss before it."""
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
