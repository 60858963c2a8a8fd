"""Scores of membership-inference attacks on noisy sums: on correct programs, and on programs with a known privacy bug.

An `Attack` simulates many runs at once: it gets, for each run, whether the record is a member, and returns the score by which the attacker
guesses this. The sums are projected on the record's gradient, so a score is one number. Tests of dpcli/audit check that the audit refutes
the wrong programs, and not the correct ones.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpcli.audit.claim import Claim, file_claim
from dpcli.audit.scores import Scores
from dpcli.file.pipeline.read import parse
from dpcli.mechanisms.neighbours import Adjacency

Array = NDArray[np.float64]
Attack = Callable[[NDArray[np.bool_], np.random.Generator], Array]  # membership in each run, randomness -> scores

STEPS, RATE, SIGMA, BATCH = 20, 0.2, 2.0, 16


def claim(sigma: float = 1.0, steps: int = 1, rate: float | None = None) -> Claim:
    """Return the claim of the accountant about `steps` Gaussian sums, with Poisson sampling if a rate is given."""
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
    """Return the attack on one correct sum, to which the record adds `size`."""
    return lambda member, rng: size * member + noise * rng.normal(size=len(member))


def clipped_batch(member: NDArray[np.bool_], rng: np.random.Generator) -> Array:
    """Attack a sum that is clipped as a whole: the others sum to C, and the record pulls the clipped sum to C in the other direction."""
    return np.where(member, 1.0, -1.0) + rng.normal(size=len(member))


def fixed_seed(member: NDArray[np.bool_], rng: np.random.Generator) -> Array:
    """Attack a program with the same noise in every run."""
    return member + np.full(len(member), 0.3)


def dp_sgd(noise: float = SIGMA) -> Attack:
    """Return the attack on correct DP-SGD: the total of STEPS sums with Poisson sampling."""

    def scores(member: NDArray[np.bool_], rng: np.random.Generator) -> Array:
        return member * rng.binomial(STEPS, RATE, len(member)) + noise * np.sqrt(STEPS) * rng.normal(size=len(member))

    return scores


def noise_once(member: NDArray[np.bool_], rng: np.random.Generator) -> Array:
    """Attack a program with one noise for all steps, where two sums differ only if the record is in one of the batches."""
    taken = member[:, None] & (rng.random((len(member), STEPS)) < RATE)
    noise = SIGMA * rng.normal(size=len(member))
    return np.ptp(taken + noise[:, None], axis=1).round(9)


def empty_skipped(member: NDArray[np.bool_], rng: np.random.Generator) -> Array:
    """Attack a program that releases no sum for an empty batch, with no other records: the score is the number of released sums."""
    return np.asarray(member * rng.binomial(STEPS, RATE, len(member)), dtype=float)


def nan_passed(member: NDArray[np.bool_], rng: np.random.Generator) -> Array:
    """Attack a program that adds a gradient of NaN: the score is whether the sum is NaN."""
    sums = np.where(member & (rng.random(len(member)) < RATE), np.nan, 0.0) + rng.normal(size=len(member))
    return np.isnan(sums).astype(float)


def shuffled(member: NDArray[np.bool_], rng: np.random.Generator) -> Array:
    """Attack shuffled batches of one record: the record adds +C and each other one -C, so the largest sum is the score.

    Source: Chua et al. 2024, arXiv:2403.17673.
    """
    sums = np.full((len(member), 100), -1.0)
    sums[:, 0] = np.where(member, 1.0, 0.0)
    return np.asarray((sums + 0.4 * rng.normal(size=sums.shape)).max(axis=1))


def runs(attack: Attack, each: int, seed: int) -> Scores:
    """Return the scores of `each` runs with the record and `each` runs without it."""
    member = np.repeat([True, False], each)
    return Scores(member, attack(member, np.random.default_rng(seed)))


def canaries(attack: Attack, count: int, seed: int) -> Scores:
    """Return the scores of independent canaries (with orthogonal gradients) in one run, each a member with probability 1/2."""
    rng = np.random.default_rng(seed)
    member = rng.random(count) < 0.5
    return Scores(member, attack(member, rng))
