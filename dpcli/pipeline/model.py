"""The pipeline file, format 1, as values. Field names are the TOML keys; `Annotated` keys are the validation rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from dpcli.fields import COUNT, DELTA, NON_NEGATIVE, POSITIVE, RATE, Key
from dpcli.mechanisms.base import Adjacency, Spec
from dpcli.mechanisms.sampling import Scheme


@dataclass(frozen=True, slots=True)
class Privacy:
    """What is protected, and against which change of the data."""

    adjacency: Annotated[Adjacency, Key("which datasets are neighbours: one unit added or removed, replaced, or zeroed out")]
    unit: Annotated[str | None, Key("what one individual is (example, user, household, ...); printed beside every epsilon")] = None
    max_contributions: Annotated[
        int | None, Key("records that one unit may own; required unless unit is example or not stated", COUNT)
    ] = None
    dataset_size: Annotated[
        int | None, Key("number of records, declared public; needed for batch_size, epochs and the delta rule", COUNT)
    ] = None
    delta: Annotated[float | None, Key("delta at which epsilon is reported", DELTA)] = None
    releases: Annotated[Literal["final-model", "all-checkpoints", "outputs"] | None, Key("what leaves the private side")] = None
    adaptive: Annotated[
        bool, Key("true where later parameters depend on earlier outputs: only valid privacy filters may then add them up")
    ] = False


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that the pipeline may spend."""

    epsilon: Annotated[float, Key("cap on epsilon", POSITIVE)]
    delta: Annotated[float | None, Key("delta of the cap; privacy.delta where absent", DELTA)] = None
    warn_at: Annotated[float, Key("share of the cap above which a warning is given", RATE)] = 0.8


@dataclass(frozen=True, slots=True)
class Gate:
    """Conditions that `dpcli gate` adds to the budget."""

    max_increase: Annotated[float | None, Key("largest rise of epsilon over the base that passes, in nats", NON_NEGATIVE)] = None


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """One of several disjoint parts of the data; entries of the same `of` and different `part` compose in parallel."""

    of: Annotated[str, Key("the attribute that splits the data into disjoint parts")]
    part: Annotated[str, Key("the part that this mechanism sees")]


@dataclass(frozen=True, slots=True)
class Entry:
    """One [[mechanism]] table: the keys that every type shares, and the type's own keys in `spec`."""

    name: Annotated[str, Key("unique name, shown in tables")]
    type: Annotated[str, Key("mechanism type")]
    spec: Spec
    steps: Annotated[int, Key("how often it runs", COUNT)] = 1
    epochs: Annotated[
        float | None, Key("passes over the data instead of steps; needs a sampling rate; rounded up to whole steps", POSITIVE)
    ] = None
    sampling: Annotated[Scheme | None, Key("how the records of one step are chosen; absent: every step sees all records")] = None
    partition: Annotated[
        str | PartitionKey | None,
        Key("the attribute on whose disjoint parts it runs, once each: a name (all parts, one cost), or { of, part } for one part"),
    ] = None
    description: Annotated[str | None, Key("free text")] = None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A whole file."""

    privacy: Privacy
    mechanisms: tuple[Entry, ...]
    name: Annotated[str | None, Key("name of the pipeline")] = None
    budget: Budget | None = None
    gate: Gate = Gate()
    sections: tuple[tuple[str, Mapping[str, Any]], ...] = ()  # [train], [pate], [pmixed], [audit]: read by their own commands
    path: str | None = None
    sha256: str | None = None
