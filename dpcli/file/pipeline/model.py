"""The pipeline file, format 1, as values. Field names are the TOML keys; `Annotated` keys are the validation rules."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, Literal

from dpcli.base.displayed import Displayed
from dpcli.base.fields import COUNT, DELTA, POSITIVE, RATE, Key, Note, Prose
from dpcli.base.values import dataclass
from dpcli.file.pipeline.gate_keys import NO_GATE
from dpcli.file.pipeline.gate_keys import Gate as Gate
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.mechanisms.sampling.schemes import Runs, Scheme
from dpcli.mechanisms.spec import Spec

OWN = "own"  # the sample that no other entry reads


@dataclass(frozen=True, slots=True)
class Privacy:
    """The protected unit, and the change of the data that it is protected against."""

    adjacency: Annotated[Adjacency, Key("which datasets are neighbours: one unit added or removed, replaced, or zeroed out")]
    unit: Annotated[str | None, Key("what one individual is (example, user, household, ...); printed with every epsilon")] = None
    max_contributions: Annotated[
        int | None, Key("most records that one unit contributes; required unless unit is example or not stated", COUNT)
    ] = None
    dataset_size: Annotated[
        int | None, Key("number of records, declared public; needed for batch_size, epochs and the delta rule", COUNT)
    ] = None
    dataset: Annotated[
        str | None,
        Key("name of the dataset that is read; dpcli account adds up the files that name the same one", safer="stated"),
    ] = field(default=None, kw_only=True)  # what is given by its place keeps its meaning
    window: Annotated[
        tuple[str, ...] | None,
        Key(
            "the blocks of the dataset that are read, as 2026-01-01..2026-01-28 or one name; a ledger of blocks charges each in full"
        ),
    ] = field(default=None, kw_only=True)
    delta: Annotated[float | None, Key("delta at which epsilon is reported", DELTA, "smaller")] = None
    releases: Annotated[Literal["final-model", "all-checkpoints", "outputs"] | None, Key("what leaves the private side")] = None
    adaptive: Annotated[
        bool, Key("true where later parameters depend on earlier outputs: only valid privacy filters may then add them up")
    ] = False


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that the pipeline may spend: of epsilon, of rho, or of both."""

    epsilon: Annotated[float | None, Key("cap on epsilon; rho may take its place", POSITIVE, "smaller")] = None
    delta: Annotated[float | None, Key("delta of the cap; privacy.delta where absent", DELTA, "smaller")] = None
    warn_at: Annotated[float, Key("share of the cap above which a warning is given", RATE, "smaller")] = 0.8
    rho: Annotated[
        float | None,
        Key("cap on rho of all entries together, in zCDP, instead of epsilon or beside it; both hold then", POSITIVE, "smaller"),
    ] = None


@dataclass(frozen=True, slots=True)
class Disclosure:
    """Text for readers of `dpcli report` besides the numbers; a key that is missing is reported as NOT STATED."""

    controller: Annotated[Prose | None, Key("who answers for the data and for the release")] = None
    contact: Annotated[Prose | None, Key("where questions go")] = None
    purpose: Annotated[Prose | None, Key("what the release is meant for")] = None
    data: Annotated[Prose | None, Key("whose data they are and what a record holds")] = None
    product: Annotated[Prose | None, Key("what is released, to whom and how: a model, a table, a dashboard")] = None
    published: Annotated[datetime.date | None, Key("day of the release")] = None
    privacy_model: Annotated[
        Literal["central", "local", "shuffle", "distributed", "secure-computation"] | None,
        Key("who is trusted with raw data: central (a curator), local (nobody), or something between"),
    ] = None
    query_model: Annotated[
        Literal["one-release", "interactive"] | None,
        Key("whether the questions are fixed beforehand (one-release) or analysts put their own (interactive)"),
    ] = None
    clipping: Annotated[
        Prose | None, Key("how the program bounds what one unit contributes: norms, sampling a unit's records, and where")
    ] = None
    data_accesses: Annotated[
        Prose | None, Key("every use of the private data, and which of them the mechanisms of the file do not count")
    ] = None
    tuning: Annotated[Prose | None, Key("how hyperparameters were chosen, and where that is counted")] = None
    other_releases: Annotated[Prose | None, Key("what else is published from the same data, with or without noise")] = None
    invariants: Annotated[Prose | None, Key("what is released exactly or taken as public: counts, domains, keys")] = None
    justification: Annotated[Prose | None, Key("why these parameters are enough for this purpose")] = None
    implementation: Annotated[Prose | None, Key("library and version that adds the noise and draws the samples")] = None
    sampler: Annotated[Prose | None, Key("how the program draws its batches, to compare with the sampling that is accounted")] = (
        None
    )
    randomness: Annotated[Prose | None, Key("where random numbers come from: generator, seeds, who may know them")] = None
    floating_point: Annotated[
        Prose | None, Key("how noise survives finite precision: discrete noise, snapping, exact arithmetic")
    ] = None
    side_channels: Annotated[Prose | None, Key("what else an observer could see: running time, errors, logs, memory")] = None
    code: Annotated[Prose | None, Key("where the code can be read")] = None
    verification: Annotated[Prose | None, Key("tests, audits and reviews of the implementation, with their results")] = None
    access: Annotated[Prose | None, Key("who can reach the raw data and what the run leaves behind")] = None
    security: Annotated[Prose | None, Key("how raw data are protected when stored and in use")] = None
    collection: Annotated[Prose | None, Key("how the data were collected, by whom, and who saw them before noise was added")] = None
    retention: Annotated[Prose | None, Key("how long raw data and intermediate results are kept")] = None
    utility: Annotated[Prose | None, Key("how accurate the release is, and how that was measured")] = None
    bias: Annotated[Prose | None, Key("what noise and clipping do to small groups")] = None


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """A part of the data, one of several disjoint ones; entries with the same `of` and different `part` compose in parallel."""

    of: Annotated[str, Key("the attribute that splits the data into disjoint parts")]
    part: Annotated[str, Key("the part that this mechanism sees")]


@dataclass(frozen=True, slots=True)
class Entry:
    """A [[mechanism]] table: the keys that every type shares. Each type has keys of its own, listed under its name."""

    name: Annotated[str, Key("unique name, shown in tables")]
    type: Annotated[str, Key("mechanism type")]
    spec: Spec
    steps: Annotated[int, Key("how often it runs", COUNT, varies=True)] = 1
    epochs: Annotated[
        float | None,
        Key(
            "passes over the data instead of steps; needs a sampling rate; rounded up to a whole number of steps",
            POSITIVE,
            varies=True,
        ),
    ] = None
    sampling: Annotated[
        Scheme | None,
        Key(
            "how the records of one step are chosen, afresh for every entry (those of one `sample` share it); absent: all records",
            varies=True,
        ),
    ] = None
    sample: Annotated[
        str | None,
        Key(
            'name of the sample that it reads with every entry of the same name, or "own", which no other entry reads; absent: as "own"',
            claim=True,
        ),
    ] = field(default=None, kw_only=True)  # what is given by its place keeps its meaning
    partition: Annotated[
        str | PartitionKey | None,
        Key(
            "the attribute on whose disjoint parts it runs, once each: a name (all parts; see explain partition), or { of, part }",
            claim=True,
        ),
    ] = None
    description: Annotated[Note | None, Key("free text")] = None
    uncounted: bool = field(default=False, kw_only=True, compare=False)  # whether the file states neither steps nor epochs

    def runs(self, dataset_size: int | None) -> Runs:
        """Return how often the entry runs, by steps or by epochs."""
        return Runs(None if self.epochs is not None else self.steps, self.epochs, dataset_size)


@dataclass(frozen=True, slots=True)
class Pipeline(Displayed):
    """A whole file.

    Attributes:
        queries: Queries of the last mechanisms, one for each, the place of the [[query]] that it comes from.
    """

    privacy: Privacy
    mechanisms: tuple[Entry, ...]
    name: Annotated[str | None, Key("name of the pipeline")] = None
    budget: Budget | None = None
    gate: Gate = NO_GATE
    disclosure: Disclosure = Disclosure()
    sections: tuple[tuple[str, Mapping[str, Any]], ...] = ()  # [train], [audit], ... as written
    queries: tuple[int, ...] = ()
    path: str | None = None
    sha256: str | None = None

    __repr__ = Displayed.__repr__

    def _line(self) -> str:
        names = ", ".join(entry.name for entry in self.mechanisms[:3]) + (", ..." if len(self.mechanisms) > 3 else "")
        privacy = self.privacy
        return f"{self.name or self.path!r}, per {privacy.unit or 'record'!r}, {privacy.adjacency.value}, mechanisms: {names!r}"

    @property
    def cap_delta(self) -> float | None:
        """The delta at which the file's cap on epsilon holds: that of [budget], else that of [privacy]."""
        stated = None if self.budget is None else self.budget.delta
        return self.privacy.delta if stated is None else stated

    def stated_at(self, key: tuple[str | int, ...]) -> tuple[str | int, ...]:
        """Return the place of a mechanism's key in the file: in its own table, or in that of its query."""
        if key[0:1] != ("mechanism",) or len(key) < 2 or not isinstance(key[1], int):
            return key
        own = len(self.mechanisms) - len(self.queries)
        return key if key[1] < own else ("query", self.queries[key[1] - own])
