"""Learners whose next step depends on what earlier steps released, for tests of the audit of adaptive programs.

A `Learner` yields a `Step` for each release, as a program under audit does: its exact sum, the batch, and the noise. RIGHT names the
correct ones, and WRONG those with a privacy bug.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpcli.audit.noise_draws import Step
from tests.audit.sums import CLIP, SIGMA, STEPS, Array, People

RATE, WIDTH, COUNT = 0.3, 8, 40


def pair(rng: np.random.Generator) -> tuple[People, People]:
    """Return random records, with and without the first one, which is three times as large as usual."""
    rows = rng.normal(size=(COUNT, WIDTH))
    rows[0] *= 3.0
    everyone = np.ones(COUNT, dtype=bool)
    return People(rows, everyone), People(rows, everyone & (np.arange(COUNT) > 0))


@dataclass(frozen=True)
class Learner:
    """Logistic regression by noisy sums.

    adapts: Whether the clipping norm follows a noisy count of the records that are not clipped.
    stops: Whether the learner stops at a released sum with a small norm.
    states_batch: Whether a step states the records in its batch.
    bound: The clipping norm.
    centred: Whether the mean of the batch is subtracted from its records, a bug by which a record changes the gradients of others.
    """

    momentum: float = 0.0
    rate: float = 2.0
    adapts: bool = False
    stops: bool = False
    states_batch: bool = True
    bound: float = CLIP
    centred: bool = False

    def __call__(self, people: People, rng: np.random.Generator) -> Iterator[Step]:
        weights, moved, clip = np.zeros(WIDTH), np.zeros(WIDTH), self.bound
        for _ in range(STEPS):
            batch = np.flatnonzero(people.present & (rng.random(COUNT) < RATE))
            drawn, counted = rng.normal(size=WIDTH), rng.normal()
            gradients = self.gradients(people.rows[batch], weights)
            lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
            total = (gradients * np.minimum(1.0, clip / np.maximum(lengths, 1e-30))).sum(axis=0)
            noise = SIGMA * clip / self.bound * drawn
            scale = self.bound / clip if self.adapts else 1.0
            yield Step({"w": total * scale}, batch.tolist() if self.states_batch else (), {"w": noise * scale})
            moved = self.momentum * moved + (total + noise) / (RATE * COUNT)
            weights = weights - self.rate * moved
            if self.adapts:
                clip *= float(np.exp(-0.2 * ((lengths <= clip).sum() + 4.0 * counted - 0.5 * RATE * COUNT) / (RATE * COUNT)))
            if self.stops and np.linalg.norm(total + noise) < 2.0:
                return

    def gradients(self, rows: Array, weights: Array) -> Array:
        inputs = rows - rows.mean(axis=0) if self.centred and len(rows) else rows
        chances = 1.0 / (1.0 + np.exp(-np.clip(inputs @ weights, -50.0, 50.0)))
        return (chances - (rows[:, 0] > 0.0))[:, None] * inputs


plain, momentum, adaptive = Learner(), Learner(0.9), Learner(adapts=True)
stopping, silent = Learner(stops=True), Learner(0.9, states_batch=False)
unclipped, mixing = Learner(bound=1e6), Learner(0.9, centred=True)
RIGHT, WRONG = ("plain", "momentum", "adaptive", "stopping", "silent"), ("unclipped", "mixing")
