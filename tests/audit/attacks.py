"""Scores of the best attack on noisy sums, thousands at a time: on a program that is right, and on ones that are not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpcli.audit.claim import Claim, file_claim
from dpcli.audit.scores import Scores
from dpcli.file.pipeline.read import parse
from dpcli.mechanisms.neighbours import Adjacency

Array = NDArray[np.float64]
Attack = Callable[[NDArray[np.bool_], np.random.Generator], Array]  # who is in, randomness -> scores

STEPS, RATE, SIGMA, BATCH = 20, 0.2, 2.0, 16


def claim(sigma: float = 1.0, steps: int = 1, rate: float | None = None) -> Claim:
    """What the accountant claims of so many Gaussian sums."""
    sampling = f'sampling = {{ scheme = "poisson", rate = {rate} }}' if rate is not None else ""
    text = f"""format = 1
[privacy]
adjacency = "add-remove"
delta = 1e-5
[[mechanism]]
name = "sums"
type = "gaussian"
noise_multiplier = {sigma}
steps = {steps}
{sampling}
"""
    return file_claim(parse(text.encode(), "sums.toml"), None, Adjacency.ADD_REMOVE)


def one_sum(size: float = 1.0, noise: float = 1.0) -> Attack:
    """One sum, projected on the record: `size` where it is in, and the noise."""
    return lambda member, rng: size * member + noise * rng.normal(size=len(member))


def clipped_batch(member: NDArray[np.bool_], rng: np.random.Generator) -> Array:
    """All others sum to C one way and the record pulls the sum, clipped as a whole, to C the other way."""
    return np.where(member, 1.0, -1.0) + rng.normal(size=len(member))


def fixed_seed(member: NDArray[np.bool_], rng: np.random.Generator) -> Array:
    """The same noise in every run."""
    return member + np.full(len(member), 0.3)


def dp_sgd(noise: float = SIGMA) -> Attack:
    """STEPS Poisson sampled sums, added up."""

    def scores(member: NDArray[np.bool_], rng: np.random.Generator) -> Array:
        return member * rng.binomial(STEPS, RATE, len(member)) + noise * np.sqrt(STEPS) * rng.normal(size=len(member))

    return scores


def noise_once(member: NDArray[np.bool_], rng: np.random.Generator) -> Array:
    """With one noise for all steps, two sums differ exactly where the record is in one of the batches."""
    taken = member[:, None] & (rng.random((len(member), STEPS)) < RATE)
    noise = SIGMA * rng.normal(size=len(member))
    return np.ptp(taken + noise[:, None], axis=1).round(9)


def empty_skipped(member: NDArray[np.bool_], rng: np.random.Generator) -> Array:
    """A record that is alone: the number of sums that were released at all."""
    return np.asarray(member * rng.binomial(STEPS, RATE, len(member)), dtype=float)


def nan_passed(member: NDArray[np.bool_], rng: np.random.Generator) -> Array:
    """Whether the released sum is a number."""
    sums = np.where(member & (rng.random(len(member)) < RATE), np.nan, 0.0) + rng.normal(size=len(member))
    return np.isnan(sums).astype(float)


def shuffled(member: NDArray[np.bool_], rng: np.random.Generator) -> Array:
    """Batches of one: the record gives +C, every other one -C, so the largest sum shows it (Chua et al. 2024, arXiv:2403.17673)."""
    sums = np.full((len(member), 100), -1.0)
    sums[:, 0] = np.where(member, 1.0, 0.0)
    return np.asarray((sums + 0.4 * rng.normal(size=sums.shape)).max(axis=1))


def runs(attack: Attack, each: int, seed: int) -> Scores:
    """So many runs with the record, and as many without."""
    member = np.repeat([True, False], each)
    return Scores(member, attack(member, np.random.default_rng(seed)))


def canaries(attack: Attack, count: int, seed: int) -> Scores:
    """One run with canaries that do not disturb each other: orthogonal gradients, a coin each."""
    rng = np.random.default_rng(seed)
    member = rng.random(count) < 0.5
    return Scores(member, attack(member, rng))
