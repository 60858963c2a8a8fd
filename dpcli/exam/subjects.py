"""Pipelines for the exam and for tests. They are built from given numbers (`entry`, `pipeline`) or drawn at random (`drawn`).

An *entry* is one mechanism of a pipeline, with its keys and its number of steps. A *subject* is a random pipeline for one mechanism type,
adjacency and sampling scheme; drawn_files.py draws its keys from the values that the type allows. By default, an exam draws with a fresh
seed, which it prints.
"""

from __future__ import annotations

import functools
import itertools
import os
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from dpcli.accountants.base import Steps
from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import MECHANISMS, SAMPLING
from dpcli.exam.drawn_files import Drawing
from dpcli.file.pipeline.model import Entry, Pipeline, Privacy
from dpcli.file.pipeline.read import parse
from dpcli.file.pipeline.resolve import resolve, steps_of
from dpcli.file.toml.write import toml_text
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.mechanisms.sampling.schemes import FixedSize, Poisson
from dpcli.mechanisms.spec import Spec

# The seed of all random choices. The environment variable repeats an earlier exam; by default, every exam has a fresh seed.
SEED = int(os.environ.get("DPCLI_EXAM_SEED") or int.from_bytes(os.urandom(4), "big"))
TRIES = 12  # number of attempts to draw a valid pipeline for one scheme and adjacency; more find rarer ones, and take longer


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
    named = tuple(replace(unnamed, name=f"{index}") for index, unnamed in enumerate(entries))
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
    subjects = []
    for scheme, adjacency in itertools.product(SAMPLING, Adjacency):
        drawing = Drawing(Random(f"{seed}/{kind}/{scheme}/{adjacency.value}"))
        attempts = (_attempt(drawing, kind, scheme, adjacency.value) for _ in range(TRIES))
        subject = next((attempt for attempt in attempts if attempt is not None), None)
        if subject is not None:
            subjects.append(subject)
    return tuple(subjects)


def _attempt(drawing: Drawing, kind: str, scheme: str, adjacency: str) -> Subject | None:
    """Draw a pipeline with moderate numbers. Return None if it is not valid."""
    drawing.scale, drawing.count = (-1.0, 1.0), 2.0  # exponents of ten, of numbers and of whole numbers
    privacy: dict[str, Any] = {"adjacency": adjacency, "delta": 1e-6, "dataset_size": 1000}
    keys = drawing.keys(kind, adjacency, ["base"])
    if keys is None:
        return None
    table = {"name": "it", "type": kind, **keys, "sampling": drawing.sampling(privacy, scheme), "steps": 3}
    base = {"name": "base", "type": "gaussian", "noise_multiplier": 2.0}
    tables = [base, table] if "base" in str(keys) else [table]  # a key may name the other entry
    text = toml_text({"format": 1, "privacy": privacy, "mechanism": tables})
    try:
        subject = parse(text.encode(), "it.toml")
        return Subject(kind, adjacency, scheme, text, subject, steps_of(resolve(subject)))
    except InputError:
        return None
