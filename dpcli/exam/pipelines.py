"""Pipelines as values: builders that name their numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpcli.base.lazy import load
from dpcli.base.registry import MECHANISMS
from dpcli.file.pipeline.model import Entry, Pipeline, Privacy
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.mechanisms.sampling.schemes import FixedSize, Poisson
from dpcli.mechanisms.spec import Spec


def entry(kind: str, name: str = "it", steps: int = 1, rate: float | None = None, scheme: str = "poisson", **keys: Any) -> Entry:
    """Return an entry; `keys` are the type's own. rate: of Poisson or fixed-size sampling."""
    spec: Spec = load(MECHANISMS[kind])(**keys)
    sampled: dict[str, type[Poisson | FixedSize]] = {"poisson": Poisson, "fixed-size": FixedSize}
    sampling = None if rate is None else sampled[scheme](scheme, rate)
    return Entry(name, kind, spec, steps=steps, sampling=sampling)


def pipeline(*entries: Entry, adjacency: str = "add-remove", delta: float | None = 1e-5, **privacy: Any) -> Pipeline:
    """Return a pipeline of these entries, renamed so that names are unique."""
    named = tuple(replace(e, name=f"{i}") for i, e in enumerate(entries))
    return Pipeline(Privacy(Adjacency(adjacency), delta=delta, **privacy), named)
