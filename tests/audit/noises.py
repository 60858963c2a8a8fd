"""Noise of programs with two tensors, correct (RIGHT) and with a known bug (WRONG), for tests of the statistics that must find the bugs.

A `Noise` function changes independent standard normals of shape (runs, steps, width) into the noise of a program. WRONG also names the
statistic that must find each bug.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpcli.audit.noise_draws import Draws
from dpcli.audit.noise_statistics import statistics

Array = NDArray[np.float64]
Noise = Callable[[Array], Array]

RUNS, STEPS, WEIGHTS, BIASES = 5, 20, 600, 6
WIDTH = WEIGHTS + BIASES


def bias_alone(change: Noise) -> Noise:
    return lambda z: np.concatenate([z[..., :WEIGHTS], change(z[..., WEIGHTS:])], axis=-1)


def over_time(factors: Callable[[Array], Array]) -> Noise:
    return lambda z: z * factors(np.arange(STEPS))[:, None]


def turned_and_shared(z: Array) -> Array:
    return np.concatenate([z[..., :WEIGHTS], -z[..., 100 : 100 + BIASES]], axis=-1)


def every_other_step_again(z: Array) -> Array:
    return np.repeat(z[:, ::2], 2, axis=1)


def alternating(z: Array) -> Array:
    again = every_other_step_again(z)
    again[:, 1::2] *= -1.0
    return again


def runs_alike(z: Array) -> Array:
    """Return noise whose third run repeats the first one."""
    return np.concatenate([z[:2], z[:1], z[3:]])


def smooth(z: Array) -> Array:
    return np.asarray((z + 0.3 * np.roll(z, 1, axis=-1)) / np.sqrt(1.09))


def students(z: Array) -> Array:
    """Return noise with heavy tails and variance 1: Student's t with 5 degrees of freedom, seeded by the first normal."""
    chance = np.random.default_rng(int(1e6 * abs(z[0, 0, 0])))
    return np.asarray(chance.standard_t(5, z.shape) * np.sqrt(3.0 / 5.0))


def uniform(z: Array) -> Array:
    chance = np.random.default_rng(int(1e6 * abs(z[0, 0, 0])))
    return np.asarray((chance.random(z.shape) - 0.5) * np.sqrt(12.0))


SIZE, TIME, COORDINATE = "size of the noise", "size of the noise over time", "size of the noise by coordinate"
MEAN, SHAPE, TAILS = "mean of the noise", "distribution of the noise", "tails of the noise"
PRECISION, OWN, STEP = "precision of the noise", "noise of its own in each coordinate", "noise of its own in each step"

WRONG: dict[str, tuple[Noise, str]] = {
    "half": (lambda z: 0.5 * z, SIZE),
    "none on the biases": (bias_alone(lambda z: 0.0 * z), SIZE),
    "half on one weight": (lambda z: z * np.where(np.arange(WIDTH) == 7, 0.5, 1.0), COORDINATE),
    "fading": (over_time(lambda t: 0.97**t), TIME),
    "not in the last step": (over_time(lambda t: 1.0 * (t < STEPS - 1)), TIME),
    "half in every other step, double in the others": (over_time(lambda t: np.where(t % 2, 0.5, 2.0)), TIME),
    "shared by two tensors, turned": (turned_and_shared, OWN),
    "smooth": (smooth, OWN),
    "rounded to .01": (lambda z: np.round(100.0 * z) / 100.0, PRECISION),
    "in half precision": (lambda z: z.astype(np.float16).astype(float), PRECISION),
    "clipped at 3": (lambda z: np.clip(z, -3.0, 3.0), TAILS),
    "uniform": (uniform, SHAPE),
    "with heavy tails": (students, TAILS),
    "shifted": (lambda z: z + 0.1, MEAN),
    "shifted in every coordinate by its own": (lambda z: z + 0.3 * np.sin(np.arange(WIDTH)), MEAN),
    "the same in two steps in a row": (every_other_step_again, STEP),
    "of alternating sign": (alternating, STEP),
    "the same in two runs": (runs_alike, STEP),
}

RIGHT: dict[str, Noise] = {
    "as declared": lambda z: z,
    "in single precision": lambda z: z.astype(np.float32).astype(float),
    "a difference of sums in single precision": lambda z: (np.float32(30.0) + z.astype(np.float32) - np.float32(30.0)).astype(
        float
    ),
    "twice as much": lambda z: 2.0 * z,
    "more on the biases": bias_alone(lambda z: 3.0 * z),
}


def table(noise: Noise, seed: int, runs: int = RUNS, steps: int = STEPS, width: int = WIDTH) -> Draws:
    """Return the noise that a replay of a program with this noise would record."""
    found = noise(np.random.default_rng(seed).normal(size=(runs, steps, width))).reshape(runs * steps, width)
    tensors = {"weight": found[:, :-BIASES], "bias": found[:, -BIASES:]} if width > BIASES else {"weight": found}
    return Draws(tensors, np.tile(np.arange(steps), runs), 3e-6)


def refuted(draws: Draws, significance: float = 0.05) -> set[str]:
    """Return the names of the statistics that refute the noise, at a significance that is divided by their number."""
    found = list(statistics(draws))
    return {one.name for one in found if one.p <= significance / len(found)}
