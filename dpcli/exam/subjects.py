"""Pipelines for the exam. They are built from given numbers, or drawn at random from the values that the keys of a type allow."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from dpcli.accountants.base import Steps
from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import MECHANISMS, SAMPLING
from dpcli.exam.drawn_files import Drawing, text_of
from dpcli.file.pipeline.model import Entry, Pipeline, Privacy
from dpcli.file.pipeline.read import parse
from dpcli.file.pipeline.resolve import resolve, steps_of
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.mechanisms.sampling.schemes import FixedSize, Poisson
from dpcli.mechanisms.spec import Spec

# The seed of all random choices. The environment variable repeats an earlier exam; by default, every exam has a fresh seed.
SEED = int(os.environ.get("DPCLI_EXAM_SEED") or int.from_bytes(os.urandom(4), "big"))
TRIES = 12  # number of attempts to draw a valid pipeline for one scheme and adjacency


def entry(kind: str, name: str = "it", steps: int = 1, rate: float | None = None, scheme: str = "poisson", **keys: Any) -> Entry:
    """Return an entry.

    Args:
        rate: Rate of Poisson or fixed-size sampling; None for no sampling.
        keys: Keys of the mechanism type.
    """
    spec: Spec = load(MECHANISMS[kind])(**keys)
    schemes: dict[str, type[Poisson | FixedSize]] = {"poisson": Poisson, "fixed-size": FixedSize}
    sampling = None if rate is None else schemes[scheme](scheme, rate)
    return Entry(name, kind, spec, steps=steps, sampling=sampling)


def pipeline(*entries: Entry, adjacency: str = "add-remove", delta: float | None = 1e-5, **privacy: Any) -> Pipeline:
    """Return a pipeline of the given entries, which get unique names."""
    named = tuple(replace(e, name=f"{i}") for i, e in enumerate(entries))
    return Pipeline(Privacy(Adjacency(adjacency), delta=delta, **privacy), named)


@dataclass(frozen=True, slots=True)
class Subject:
    """A valid pipeline for one mechanism type, adjacency and scheme.

    Attributes:
        text: Text of the pipeline file.
        steps: Steps of the pipeline, as accountants receive them.
        source: Seed and text, for messages.
    """

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
    """Return a random pipeline of the type for each scheme and adjacency. A combination is left out if no attempt is valid."""
    return tuple(_drawn(kind, seed))


def _drawn(kind: str, seed: str) -> Iterator[Subject]:
    """Yield the pipelines of `drawn`."""
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
                table = {"name": "it", "type": kind, **keys, "sampling": drawing.sampling(privacy, scheme), "steps": 3}
                named = [base] if "base" in str(keys) else []
                text = text_of({"format": 1, "privacy": privacy, "mechanism": [*named, table]})
                try:
                    subject = parse(text.encode(), "it.toml")
                    charges = resolve(subject)
                except InputError:
                    continue
                steps = steps_of(charges)
                yield Subject(kind, adjacency.value, scheme, text, subject, steps)
                break
