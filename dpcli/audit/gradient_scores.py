"""Scores of canaries that are gradients of norm C. A score is the log likelihood ratio of a canary's inner products with the noisy sums.

The inner product of a canary and the noisy sum of a step, divided by C, is b + s n. Here b is 1 if the canary was in the sum and 0
otherwise, n is a standard normal variable, and s is the noise multiplier. There is no other term, because the canaries are orthonormal up
to the factor C, and the sum of the records' gradients is subtracted.

Source: Nasr et al. 2023, arXiv:2302.07956 (gradient canaries); Steinke, Nasr, Jagielski 2023, arXiv:2305.08846 (many of them in one run).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from dpcli.numerics.arrays import Array, np

POOL = 4000  # largest number of simulated scores of members, and of others, from which simulated audits draw
STEPS_AT_ONCE = 256  # number of steps whose inner products are in memory at the same time
LEAST_POOL = 250  # smallest number of simulated scores in either pool
PRODUCTS = 2_000_000  # largest number of inner products that are simulated for either pool, unless LEAST_POOL requires more


@dataclass(frozen=True, slots=True)
class SampledSteps:
    """A number of steps whose sums contain a canary with equal and independent probabilities.

    Attributes:
        rate: Probability that a canary of the run is in the sum of a step.
        noise: Standard deviation of the noise over C.
    """

    steps: int
    rate: float
    noise: float


def log_ratios(products: Array, rate: float, noise: float) -> Array:
    """Return the log likelihood ratio of each canary, which compares the hypotheses that the canary is in the run, and that it is not.

    Args:
        products: Inner products over C, of shape (steps, canaries).
        rate: Probability that a canary of the run is in the sum of a step.
        noise: Standard deviation of the noise over C.
    """
    with np.errstate(divide="ignore"):  # at rate 1 a canary is in every step, and log(0) is -inf
        absent = np.log1p(-rate)
    return np.asarray(np.logaddexp(absent, np.log(rate) + (products - 0.5) / noise**2).sum(axis=0))


@lru_cache(maxsize=64)
def pools(steps: Sequence[SampledSteps], factor: float) -> tuple[Array, Array]:
    """Return simulated scores of members and of others for a program with 1 / factor of its noise.

    The same random numbers are used for every factor.
    """
    rng = np.random.default_rng(0)
    step_count = sum(part.steps for part in steps)
    size = max(LEAST_POOL, min(POOL, PRODUCTS // step_count))
    members, others = np.zeros(size), np.zeros(size)
    for part in steps:
        for start in range(0, part.steps, STEPS_AT_ONCE):
            count = min(STEPS_AT_ONCE, part.steps - start)
            of_members, of_others = part.noise / factor * rng.standard_normal((2, count, size))  # inner products
            of_members += rng.random((count, size)) < part.rate
            members += log_ratios(of_members, part.rate, part.noise)
            others += log_ratios(of_others, part.rate, part.noise)
    return members, others


def right_guesses(steps: Sequence[SampledSteps], factor: float, canaries: int, audits: int, seed: int) -> tuple[Array, Array]:
    """Simulate audits of a program with 1 / factor of its noise. A fair coin decides whether a canary is in the run.

    Returns:
        Two arrays of shape (audits, canaries + 1). Column k of the first has the number of members among the k highest scores. Column k of
        the second has the number of others among the k lowest scores.
    """
    inside, outside = pools(tuple(steps), factor)
    rng, shape = np.random.default_rng(seed), (audits, canaries)
    is_member = rng.random(shape) < 0.5
    scores = np.where(is_member, rng.choice(inside, shape), rng.choice(outside, shape))
    by_score = np.take_along_axis(is_member, np.argsort(scores, axis=1), axis=1)
    no_guess = np.zeros((audits, 1))
    among_highest = np.hstack([no_guess, np.cumsum(by_score[:, ::-1], axis=1)])
    among_lowest = np.hstack([no_guess, np.cumsum(~by_score, axis=1)])
    return among_highest, among_lowest
