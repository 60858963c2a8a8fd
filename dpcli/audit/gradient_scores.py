"""Scores of canaries that are gradients of norm C: likelihood ratios of their inner products with the noisy sums, with them and without.

A product of a step, over C, is b + s n: b whether the canary was in the step's sum, n standard normal, s the noise multiplier. Directions
are orthonormal and the sum of the records themselves is taken off, so nothing else is in it.

Source: Nasr et al. 2023, arXiv:2302.07956 (gradient canaries); Steinke, Nasr, Jagielski 2023, arXiv:2305.08846 (many of them in one run).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from dpcli.numerics.arrays import Array, np

POOL = 4000  # most scores of members, and as many of others, from which simulated audits draw
LEAST_POOL = 250
PRODUCTS = 2_000_000  # inner products that are simulated for either pool, at most


@dataclass(frozen=True, slots=True)
class SampledSteps:
    """A number of steps, each with a canary in its sum with probability `rate` by itself.

    Attributes:
        noise: Standard deviation over C.
    """

    steps: int
    rate: float
    noise: float


def log_ratios(products: Array, rate: float, noise: float) -> Array:
    """Return log of the likelihood with each canary over that without it.

    Args:
        products: (steps, canaries), over C.
    """
    with np.errstate(divide="ignore"):  # at rate 1 a canary is in every step
        absent = np.log1p(-rate)
    return np.asarray(np.logaddexp(absent, np.log(rate) + (products - 0.5) / noise**2).sum(axis=0))


@lru_cache(maxsize=64)
def pools(steps: Sequence[SampledSteps], factor: float) -> tuple[Array, Array]:
    """Return simulated scores of members and of others, with 1 / factor of the noise; the same random numbers for every factor."""
    chance, size = np.random.default_rng(0), max(LEAST_POOL, min(POOL, PRODUCTS // sum(step.steps for step in steps)))
    scores = np.zeros((2, size))
    for step in steps:
        for start in range(0, step.steps, 256):
            count = min(256, step.steps - start)
            noise = step.noise / factor * chance.standard_normal((2, count, size))
            noise[0] += chance.random((count, size)) < step.rate
            scores[0] += log_ratios(noise[0], step.rate, step.noise)
            scores[1] += log_ratios(noise[1], step.rate, step.noise)
    return scores[0], scores[1]


def right_guesses(steps: Sequence[SampledSteps], factor: float, canaries: int, audits: int, seed: int) -> tuple[Array, Array]:
    """Simulate audits of a program with 1 / factor of its noise, with a fair coin for each canary.

    Returns how many of the k highest scores are members', and how many of the k lowest are others'; each (audits, canaries + 1), by k.
    """
    inside, outside = pools(tuple(steps), factor)
    chance, shape = np.random.default_rng(seed), (audits, canaries)
    member = chance.random(shape) < 0.5
    scores = np.where(member, chance.choice(inside, shape), chance.choice(outside, shape))
    ordered = np.take_along_axis(member, np.argsort(scores, axis=1), axis=1)
    none = np.zeros((audits, 1))
    return np.hstack([none, np.cumsum(ordered[:, ::-1], axis=1)]), np.hstack([none, np.cumsum(~ordered, axis=1)])
