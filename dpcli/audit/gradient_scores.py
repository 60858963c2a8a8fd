"""Scores of canaries that are gradients of norm C, and simulations of them for the power of an audit.

A *canary* is inserted into a training run if a fair coin says so. A gradient canary is a vector of norm C, the clipping norm, which the run
adds to the clipped sum of the steps that sample it. train/replay/canaries.py inserts them and scores them by `log_ratios`. power.py
simulates them, to state the *power* of an audit: the smallest loss of noise that it detects.

A score is the log likelihood ratio of a canary's inner products with the noisy sums. Divided by C, the inner product with the sum of a step
is b + s n. Here b is 1 if the canary was in the sum and 0 otherwise, n is a standard normal variable, and s is the noise multiplier. There
is no other term, because the canaries are orthogonal, and the sum of the records' gradients is subtracted.

Source: Nasr et al. 2023, arXiv:2302.07956 (gradient canaries); Steinke, Nasr, Jagielski 2023, arXiv:2305.08846 (many of them in one run).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from dpcli.audit.audit_result import ReplayCheck
from dpcli.numerics.arrays import Array, np

# A pool holds the simulated scores of members (canaries that are in the run), or of the others. Simulated audits draw from both. The sizes
# were chosen by hand. They set the accuracy of the stated power and of the chosen guessing rule, and time and memory, but not soundness.
LARGEST_POOL, SMALLEST_POOL = 4000, 250  # largest and smallest number of scores in a pool
PRODUCTS = 2_000_000  # largest number of inner products that are simulated for a pool, unless SMALLEST_POOL requires more
STEPS_AT_ONCE = 256  # number of steps whose inner products are in memory at the same time


@dataclass(frozen=True, slots=True)
class SampledSteps:
    """A number of steps, each of which samples each canary of the run independently, with equal probability.

    Attributes:
        rate: Probability that a canary of the run is in the sum of a step.
        noise: Standard deviation of the noise over C.
    """

    steps: int
    rate: float
    noise: float


@dataclass(frozen=True, slots=True)
class ObservedRun:
    """The records of a run with gradient canaries, in addition to the scores of the canaries.

    Attributes:
        steps: Steps that sampled the canaries; empty if an audit cannot simulate them.
        checks: Results of the checks of the run's noise, batches and clipping, made while it ran.
        confidence: Confidence of the audit that the run's file stated, with which the checks were made.
    """

    steps: tuple[SampledSteps, ...]
    checks: tuple[ReplayCheck, ...] = ()
    confidence: float = 0.95


def split_significance(confidence: float) -> float:
    """Return half of an audit's significance. The guesses about gradient canaries get one half, and the checks of the run the other."""
    return 0.5 * (1.0 - confidence)


def log_ratios(products: Array, rate: float, noise: float) -> Array:
    """Return the log likelihood ratio of each canary: in the run, against not in the run.

    Args:
        products: Inner products over C, of shape (steps, canaries).
        rate, noise: As in `SampledSteps`.
    """
    with np.errstate(divide="ignore"):  # at rate 1 a canary is in every step, and log(0) is -inf
        absent = np.log1p(-rate)
    # (b - 1/2) / s^2 is the log ratio of the normal densities with means 1 and 0 at a product b. It counts with probability `rate`.
    return np.asarray(np.logaddexp(absent, np.log(rate) + (products - 0.5) / noise**2).sum(axis=0))


class SimulatedScores(NamedTuple):
    """Two pools of scores: of members, which are canaries in the run, and of the other canaries."""

    members: Array
    others: Array


@lru_cache(maxsize=64)
def simulated_scores(steps: tuple[SampledSteps, ...], factor: float) -> SimulatedScores:
    """Return scores in a program with 1 / factor of its noise.

    Every factor uses the same random numbers, so that two factors differ by the noise alone.
    """
    rng = np.random.default_rng(0)  # any fixed seed
    step_count = sum(part.steps for part in steps)
    size = max(SMALLEST_POOL, min(LARGEST_POOL, PRODUCTS // step_count))
    members, others = np.zeros(size), np.zeros(size)
    for part in steps:
        for start in range(0, part.steps, STEPS_AT_ONCE):
            count = min(STEPS_AT_ONCE, part.steps - start)
            member_products, other_products = part.noise / factor * rng.standard_normal((2, count, size))
            member_products += rng.random((count, size)) < part.rate  # 1 if the step samples the canary
            # The attack does not know that noise is missing, so its scores use the declared noise.
            members += log_ratios(member_products, part.rate, part.noise)
            others += log_ratios(other_products, part.rate, part.noise)
    return SimulatedScores(members, others)


class RightGuesses(NamedTuple):
    """Numbers of right guesses in simulated audits, (audits, canaries + 1) each.

    Attributes:
        high: Column k is the number of members among the k highest scores.
        low: Column k is the number of others among the k lowest scores.
    """

    high: Array
    low: Array


def simulated_guesses(steps: Sequence[SampledSteps], factor: float, canaries: int, audits: int, seed: int) -> RightGuesses:
    """Return right guesses about a program with 1 / factor of its noise. A fair coin decides whether a canary is in the run."""
    members, others = simulated_scores(tuple(steps), factor)
    rng, shape = np.random.default_rng(seed), (audits, canaries)
    is_member = rng.random(shape) < 0.5
    scores = np.where(is_member, rng.choice(members, shape), rng.choice(others, shape))
    by_score = np.take_along_axis(is_member, np.argsort(scores, axis=1), axis=1)
    no_guess = np.zeros((audits, 1))  # column 0: no guess, and none is right
    right_high = np.hstack([no_guess, np.cumsum(by_score[:, ::-1], axis=1)])
    right_low = np.hstack([no_guess, np.cumsum(~by_score, axis=1)])
    return RightGuesses(right_high, right_low)
