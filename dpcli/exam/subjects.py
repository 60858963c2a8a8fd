"""Pipelines of every registered type, drawn from what its keys may be."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from dpcli.accountants.base import Steps
from dpcli.base.errors import InputError
from dpcli.base.registry import SAMPLING
from dpcli.exam.drawn_files import Drawing, text_of
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import parse
from dpcli.file.pipeline.resolve import resolve, steps_of
from dpcli.mechanisms.neighbours import Adjacency

SEED = int(
    os.environ.get("DPCLI_EXAM_SEED") or int.from_bytes(os.urandom(4), "big")
)  # of an exam that is to be repeated, or a fresh one
TRIES = 12


@dataclass(frozen=True, slots=True)
class Subject:
    """A pipeline that somebody could write. source: how to draw it again."""

    kind: str
    adjacency: str
    scheme: str
    text: str
    pipeline: Pipeline
    steps: Steps

    @property
    def source(self) -> str:
        return f"(seed {SEED}):\n{self.text}"


@functools.cache
def drawn(kind: str, seed: str) -> tuple[Subject, ...]:
    """Draw a pipeline of the type for each scheme and adjacency, if one is not refused."""
    return tuple(_drawn(kind, seed))


def _drawn(kind: str, seed: str) -> Iterator[Subject]:
    for scheme in SAMPLING:
        for adjacency in Adjacency:
            drawing = Drawing(Random(f"{seed}/{kind}/{scheme}/{adjacency.value}"))
            for _ in range(TRIES):
                drawing.scale, drawing.count = (-1.0, 1.0), 2.0
                privacy: dict[str, Any] = {"adjacency": adjacency.value, "delta": 1e-6, "dataset_size": 1000}
                base = {"name": "base", "type": "gaussian", "noise_multiplier": 2.0}
                keys = drawing.keys(kind, adjacency.value, ["base"])
                if keys is None:
                    continue
                entry = {"name": "it", "type": kind, **keys, "sampling": drawing.sampling(privacy, scheme), "steps": 3}
                named = [base] if "base" in str(keys) else []
                text = text_of({"format": 1, "privacy": privacy, "mechanism": [*named, entry]})
                try:
                    subject = parse(text.encode(), "it.toml")
                    charges = resolve(subject)
                except InputError:
                    continue
                steps = steps_of(charges)
                yield Subject(kind, adjacency.value, scheme, text, subject, steps)
                break
