"""Programs that release noisy clipped sums, as DP-SGD does: a correct one (`Right`), and others with bugs that occurred in real programs.

Each yields a `Step` for each release: its exact sum, its batch and its noise. Tests of the audit compare runs on two datasets that differ
in the first record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcli.audit.noise_draws import Step

Array = NDArray[np.float64]
CLIP, SIGMA, RATE, STEPS, COUNT, WIDTH = 1.0, 1.0, 0.05, 200, 20, 16


@dataclass(frozen=True)
class People:
    """Records, of which some are present. An absent record keeps its row, so that the random draws of the others stay the same."""

    rows: Array
    present: NDArray[np.bool_]


def pair(rng: np.random.Generator) -> tuple[People, People]:
    """Return two datasets whose other records all have gradients in one direction, and the first a large one in the opposite direction."""
    rows = np.zeros((COUNT, WIDTH))
    rows[:, 0] = 1.0 + rng.random(COUNT)
    rows[0] = -50.0 * np.eye(WIDTH)[0]
    return _with_and_without(rows)


def broken_pair(rng: np.random.Generator) -> tuple[People, People]:
    """Return two datasets in which the gradient of the first record is NaN."""
    rows = rng.normal(size=(COUNT, WIDTH))
    rows[0] = np.nan
    return _with_and_without(rows)


def _with_and_without(rows: Array) -> tuple[People, People]:
    everyone = People(rows, np.ones(len(rows), dtype=bool))
    return everyone, replace(everyone, present=np.arange(len(rows)) > 0)


@dataclass
class Right:
    """The correct program: Poisson sampling, clipped records, fresh noise in every step, and a release for each empty batch too."""

    def __call__(self, people: People, rng: np.random.Generator) -> Iterator[Step]:
        for step in range(STEPS):
            batch = np.flatnonzero(people.present & self.drawn(step, len(people.rows), rng))
            noise = self.noise(step, rng)
            if self.taken(batch):
                yield Step({"w": self.total(people.rows[batch])}, batch.tolist(), {"w": noise})

    def drawn(self, step: int, count: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        return rng.random(count) < RATE

    def noise(self, step: int, rng: np.random.Generator) -> Array:
        return SIGMA * CLIP * rng.normal(size=WIDTH)

    def taken(self, batch: NDArray[Any]) -> bool:
        return True

    def total(self, rows: Array) -> Array:
        return self.clipped(np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0)).sum(axis=0)

    def clipped(self, rows: Array) -> Array:
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows * np.minimum(1.0, CLIP / np.maximum(norms, 1e-30))


class NoNoise(Right):
    def noise(self, step: int, rng: np.random.Generator) -> Array:
        return 0.0 * super().noise(step, rng)


class HalfNoise(Right):
    def noise(self, step: int, rng: np.random.Generator) -> Array:
        return 0.5 * super().noise(step, rng)


class NoClip(Right):
    def clipped(self, rows: Array) -> Array:
        return rows


class ClipPerBatch(Right):
    def clipped(self, rows: Array) -> Array:
        return super().clipped(rows.sum(axis=0, keepdims=True))


class NoiseOverBatch(Right):
    def noise(self, step: int, rng: np.random.Generator) -> Array:
        return super().noise(step, rng) / (RATE * COUNT * 4)


class FixedSeed(Right):
    def noise(self, step: int, rng: np.random.Generator) -> Array:
        return super().noise(step, np.random.default_rng(step))


class NoiseOnce(Right):
    def noise(self, step: int, rng: np.random.Generator) -> Array:
        self.first = super().noise(step, rng) if step == 0 else self.first
        return self.first


class EmptySkipped(Right):
    def taken(self, batch: NDArray[Any]) -> bool:
        return len(batch) > 0


class NanPassed(Right):
    def total(self, rows: Array) -> Array:
        return self.clipped(rows).sum(axis=0)


class Shuffled(Right):
    def drawn(self, step: int, count: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        size, batches = round(RATE * count), round(1.0 / RATE)
        if step % batches == 0:
            self.order = rng.permutation(count)
        at = step % batches
        return np.isin(np.arange(count), self.order[at * size : (at + 1) * size])


class DrawnTwiceAsOften(Right):
    def drawn(self, step: int, count: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        return rng.random(count) < 2.0 * RATE


class NoiseFollowsData(Right):
    """A program that draws one more random number if the record is present, so that all later draws differ."""

    def __call__(self, people: People, rng: np.random.Generator) -> Iterator[Step]:
        for step in super().__call__(people, rng):
            if people.present[0]:
                rng.random()
            yield step


right, no_noise, half_noise, no_clip, clip_per_batch = Right(), NoNoise(), HalfNoise(), NoClip(), ClipPerBatch()
noise_over_batch, fixed_seed, noise_once = NoiseOverBatch(), FixedSeed(), NoiseOnce()
empty_skipped, nan_passed, shuffled, noise_follows_data = EmptySkipped(), NanPassed(), Shuffled(), NoiseFollowsData()
drawn_twice_as_often = DrawnTwiceAsOften()
FILE = """format = 1
[privacy]
unit = "example"
adjacency = "add-remove"
dataset_size = 20
delta = 1e-5
releases = "final-model"
[[mechanism]]
name = "train"
type = "gaussian"
noise_multiplier = 1.0
steps = 200
sampling = { scheme = "poisson", rate = 0.05 }
[audit]
kind = "replay"
sensitivity = 1.0
seed = 7
data = "tests.audit.sums:pair"
"""
