"""The classes of the pipeline file, format 1. Each field with `Annotated` declares a key of the TOML file and its validation rule.

A `Key` (base/fields.py) holds the words of the manual, the rule, and facts for other commands: `claim` marks what dpcli cannot enforce,
`safer` which changes weaken nothing, `varies` what the runs of a sweep may change. The reader, the manual pages, the JSON Schema and the
messages follow from these declarations (file/keys). read.py makes a `Pipeline` of a file, and resolve.py makes of it the mechanisms that
accountants compose. A key is never renamed or given another meaning within a format: signed files must keep theirs.
"""

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

OWN = "own"  # value of the key `sample` for a sample that no other entry reads
MOST_NAMED = 3  # largest number of mechanisms that the `repr` of a pipeline names; arbitrary


@dataclass(frozen=True, slots=True)
class Privacy:
    """The protected unit, and the change of the data against which it is protected."""

    adjacency: Annotated[Adjacency, Key("which datasets are neighbours: one unit added or removed, replaced, or zeroed out")]
    unit: Annotated[str | None, Key("unit of privacy (example, user, household, ...); printed with every epsilon")] = None
    max_contributions: Annotated[
        int | None, Key("largest number of records that one unit contributes; required unless unit is example or not stated", COUNT)
    ] = None
    dataset_size: Annotated[
        int | None, Key("number of records, declared public; needed for batch_size, epochs and the delta rule", COUNT)
    ] = None
    dataset: Annotated[
        str | None,
        Key("name of the dataset; dpcli account adds up the files that have the same name here", safer="stated"),
    ] = field(default=None, kw_only=True)  # keyword-only, so that positional arguments of older callers keep their meaning
    window: Annotated[
        tuple[str, ...] | None,
        Key(
            "blocks of the dataset that are read, such as 2026-01-01..2026-01-28 or a name; a ledger of blocks charges each of them in full"
        ),
    ] = field(default=None, kw_only=True)
    delta: Annotated[float | None, Key("delta at which epsilon is reported", DELTA, safer="smaller")] = None
    releases: Annotated[Literal["final-model", "all-checkpoints", "outputs"] | None, Key("outputs that leave the private side")] = (
        None
    )
    adaptive: Annotated[
        bool, Key("true if later parameters depend on earlier outputs; only privacy filters are then valid accountants")
    ] = False


@dataclass(frozen=True, slots=True)
class Budget:
    """Caps on the privacy loss of the pipeline: on epsilon, on rho, or on both."""

    epsilon: Annotated[float | None, Key("cap on epsilon; required unless rho is stated", POSITIVE, safer="smaller")] = None
    delta: Annotated[float | None, Key("delta of the cap; privacy.delta if absent", DELTA, safer="smaller")] = None
    warn_at: Annotated[float, Key("share of the cap above which there is a warning", RATE, safer="smaller")] = 0.8
    rho: Annotated[
        float | None,
        Key(
            "cap on rho of all entries together, in zCDP; it may replace a cap on epsilon or hold in addition to it",
            POSITIVE,
            safer="smaller",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class Disclosure:
    """Answers for readers of `dpcli report`, in addition to the numbers. A missing key is reported as NOT STATED."""

    controller: Annotated[Prose | None, Key("who is responsible for the data and the release")] = None
    contact: Annotated[Prose | None, Key("address for questions")] = None
    purpose: Annotated[Prose | None, Key("purpose of the release")] = None
    data: Annotated[Prose | None, Key("whose data they are, and the content of a record")] = None
    product: Annotated[
        Prose | None, Key("the released product (a model, a table, a dashboard), its recipients, and the way of the release")
    ] = None
    published: Annotated[datetime.date | None, Key("day of the release")] = None
    privacy_model: Annotated[
        Literal["central", "local", "shuffle", "distributed", "secure-computation"] | None,
        Key("who is trusted with raw data: central (a curator), local (nobody), or an arrangement in between"),
    ] = None
    query_model: Annotated[
        Literal["one-release", "interactive"] | None,
        Key("whether the queries are fixed beforehand (one-release) or analysts choose them (interactive)"),
    ] = None
    clipping: Annotated[
        Prose | None, Key("how and where the program bounds the contribution of one unit: norms, sampling of its records")
    ] = None
    data_accesses: Annotated[
        Prose | None, Key("every use of the private data, and the uses that the mechanisms of the file do not count")
    ] = None
    tuning: Annotated[Prose | None, Key("how hyperparameters were chosen, and where the cost of the choice is counted")] = None
    other_releases: Annotated[Prose | None, Key("other releases from the same data, with or without noise")] = None
    invariants: Annotated[Prose | None, Key("values that are released exactly or taken as public: counts, domains, keys")] = None
    justification: Annotated[Prose | None, Key("why these parameters protect enough for this purpose")] = None
    implementation: Annotated[Prose | None, Key("library that adds the noise and draws the samples, with its version")] = None
    sampler: Annotated[Prose | None, Key("how the program draws its batches, for comparison with the accounted sampling")] = None
    randomness: Annotated[Prose | None, Key("source of random numbers: generator, seeds, and who may know them")] = None
    floating_point: Annotated[
        Prose | None, Key("protection against attacks on floating-point noise: discrete noise, snapping, exact arithmetic")
    ] = None
    side_channels: Annotated[Prose | None, Key("other things that an observer could see: running time, errors, logs, memory")] = (
        None
    )
    code: Annotated[Prose | None, Key("place where the code can be read")] = None
    verification: Annotated[Prose | None, Key("tests, audits and reviews of the implementation, with their results")] = None
    access: Annotated[Prose | None, Key("who has access to the raw data and to the files of the run")] = None
    security: Annotated[Prose | None, Key("how raw data are protected in storage and in use")] = None
    collection: Annotated[Prose | None, Key("how the data were collected, by whom, and who saw them before noise was added")] = None
    retention: Annotated[Prose | None, Key("how long raw data and intermediate results are kept")] = None
    utility: Annotated[Prose | None, Key("how accurate the release is, and how that was measured")] = None
    bias: Annotated[Prose | None, Key("effect of noise and clipping on small groups")] = None
    license: Annotated[str | None, Key("licence of the answers of dpcli release, best as a URL; croissant.json states it")] = None
    url: Annotated[str | None, Key("web page of the answers of dpcli release; croissant.json states it")] = None


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """A part of the data, disjoint from all other parts. Entries with the same `of` and different `part` compose in parallel."""

    of: Annotated[str, Key("the attribute that splits the data into disjoint parts")]
    part: Annotated[str, Key("the part that this mechanism reads")]


@dataclass(frozen=True, slots=True)
class Entry:
    """A [[mechanism]] table: the keys that all types have. The further keys of each type are listed under its name."""

    name: Annotated[str, Key("unique name, shown in tables")]
    type: Annotated[str, Key("mechanism type")]
    spec: Spec
    steps: Annotated[int, Key("number of times that the mechanism runs", COUNT, varies=True)] = 1
    epochs: Annotated[
        float | None,
        Key(
            "number of passes over the data, instead of steps; needs a sampling rate; rounded up to a whole number of steps",
            POSITIVE,
            varies=True,
        ),
    ] = None
    sampling: Annotated[
        Scheme | None,
        Key(
            "how the records of one step are chosen; each entry draws its own sample unless entries name the same `sample`; "
            "absent: all records",
            varies=True,
        ),
    ] = None
    sample: Annotated[
        str | None,
        Key(
            'name of a sample, which all entries with this name read together; "own", also if absent: a sample that no other entry reads',
            claim=True,
        ),
    ] = field(default=None, kw_only=True)
    partition: Annotated[
        str | PartitionKey | None,
        Key(
            "attribute that splits the data into disjoint parts: its name, to run once on each part (see explain partition), or "
            "{ of, part }, to run on one part",
            claim=True,
        ),
    ] = None
    description: Annotated[Note | None, Key("free text")] = None
    # True if the file states neither steps nor epochs, for a warning of lint. An entry with an explicit steps = 1 is equal to one without.
    uncounted: bool = field(default=False, kw_only=True, compare=False)

    def runs(self, dataset_size: int | None) -> Runs:
        """Return the number of runs of the entry, stated by steps or by epochs."""
        return Runs(None if self.epochs is not None else self.steps, self.epochs, dataset_size)


@dataclass(frozen=True, slots=True)
class Pipeline(Displayed):
    """A pipeline file.

    Attributes:
        sections: The tables of plugins, such as [train], unchanged.
        queries: The indices of the [[query]] tables from which the last mechanisms come, one for each of these mechanisms.
        path, sha256: Path of the file, and the digest of its bytes; None for a pipeline that was not read from a file.
    """

    privacy: Privacy
    mechanisms: tuple[Entry, ...]
    name: Annotated[str | None, Key("name of the pipeline")] = None
    budget: Budget | None = None
    gate: Gate = NO_GATE
    disclosure: Disclosure = Disclosure()
    sections: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    queries: tuple[int, ...] = ()
    path: str | None = None
    sha256: str | None = None

    __repr__ = Displayed.__repr__  # stated here, because the dataclass would make a `__repr__` with all fields

    def _line(self) -> str:
        """Return the text of the `repr`."""
        more = ", ..." if len(self.mechanisms) > MOST_NAMED else ""
        names = ", ".join(entry.name for entry in self.mechanisms[:MOST_NAMED]) + more
        privacy = self.privacy
        return f"{self.name or self.path!r}, per {privacy.unit or 'record'!r}, {privacy.adjacency.value}, mechanisms: {names!r}"

    @property
    def cap_delta(self) -> float | None:
        """The delta at which the cap on epsilon holds: budget.delta or, if it is absent, privacy.delta."""
        stated = None if self.budget is None else self.budget.delta
        return self.privacy.delta if stated is None else stated

    def stated_at(self, key: tuple[str | int, ...]) -> tuple[str | int, ...]:
        """Return the place of a key in the file. The place of a mechanism that comes from a query is the table of the query."""
        if key[0:1] != ("mechanism",) or len(key) < 2 or not isinstance(key[1], int):
            return key
        position = key[1]
        first_of_queries = len(self.mechanisms) - len(self.queries)
        return key if position < first_of_queries else ("query", self.queries[position - first_of_queries])
