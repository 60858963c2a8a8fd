"""The keys that every [[query]] shares, and what each kind of measure says of itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from dpcli.base.fields import COUNT, OPEN_UNIT, POSITIVE, Key, Note, Reader, Selection
from dpcli.base.rounding import figures
from dpcli.file.toml.findings import Problem
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.release.answers.intervals import expected_error
from dpcli.release.data_source import KEYED, Column
from dpcli.release.plugin import MEASURES

if TYPE_CHECKING:
    from dpcli.release.aggregate import Aggregation, Totals
    from dpcli.release.cost import QueryCost
    from dpcli.release.data_source import Source
    from dpcli.release.noise.laws import NoiseLaw
    from dpcli.release.query_answer import QueryAnswer

MEASURE = Key("what is asked of the rows")
CONFIDENCE = OPEN_UNIT
COSTS = ("epsilon", "rho", "weight", "error")
SOME_ROWS = 1000  # for an error in proportion to 1 / rows, where their number is not public

OF_KEYS = Reader("by", lambda query: query.keyed or bool(getattr(query, "by", ())))


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorTarget:
    """Noise that is as large as the answer allows."""

    within: Annotated[float, Key("the noise stays below this, in units of the answer", POSITIVE)]
    confidence: Annotated[float, Key("with this probability", CONFIDENCE)] = 0.95


@dataclass(frozen=True, slots=True)
class QuerySetting:
    """The source that a query is asked of, and what its cost may be.

    cost: what epsilon, rho or weight come to; None where error decides. dataset_size: of rows, where that is declared public.
    """

    source: Source
    adjacency: Adjacency
    cost: QueryCost | None
    folder: str = ""
    dataset_size: int | None = None


@dataclass(frozen=True, slots=True)
class QueryRelease:
    """A mechanism of a query.

    suffix: of the query's name, "" for the only one. type, keys: of the [[mechanism]] table that prices it. steps: how often it runs.
    why: how its sensitivity comes about, a line for each step. law: of the noise that is added, None where a value is chosen. unit: of the
    answer per whole number that it is added to.
    """

    suffix: str
    type: str
    keys: Mapping[str, Any]
    why: tuple[str, ...]
    law: NoiseLaw | None = None
    unit: float = 1.0
    steps: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question to the table of [source]; what it costs is stated as epsilon, rho, a weight or an error.

    Noise is scaled to what one unit may change: see dpcli explain query FILE.
    """

    selection: ClassVar[Selection] = Selection("measure", MEASURES)
    # Tables that between them state every key of the measure, but for name and measure.
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ()
    keyed: ClassVar[bool] = False  # its answer is by key even without by: bins, or the values of a column
    counts_rows: ClassVar[bool] = True  # a unit's rows add up, so that their number matters
    undeclared: ClassVar[str] = ""  # how it is asked about values that nobody declares, for messages; "" where it cannot be

    name: Annotated[str, Key("unique name of the query and of its answer")]
    measure: Annotated[str, MEASURE]
    where: Annotated[Note | None, Key("SQL condition on columns; rows that it is not true for are out")] = None
    epsilon: Annotated[
        float | None, Key("what it may cost: pure epsilon; with Gaussian noise the rho of it, epsilon^2 / 2", POSITIVE)
    ] = None
    rho: Annotated[float | None, Key("what it may cost: rho of zCDP", POSITIVE)] = None
    weight: Annotated[
        float | None, Key("what it may cost: its share of [budget] among the queries that state a weight", POSITIVE)
    ] = None
    max_groups: Annotated[
        int | None,
        Key(
            "keys of by that the rows of one unit count in at most; further ones are left out at random; 1 where max_contributions is 1",
            COUNT,
            reader=OF_KEYS,
        ),
    ] = None
    max_rows: Annotated[
        int | None,
        Key(
            "rows of one unit that count in each key at most; further ones are left out at random; 1 where max_contributions is 1",
            COUNT,
        ),
    ] = None
    confidence: Annotated[float, Key("probability that the interval covers, of the noise alone", CONFIDENCE)] = 0.95

    def problems(self) -> Iterator[Problem]:
        stated = [name for name in COSTS if getattr(self, name, None) is not None]
        if len(stated) != 1:
            possible = [name for name in COSTS if hasattr(self, name)]
            yield ("epsilon",), f"one of {', '.join(possible)}", " and ".join(stated) or "none"

    def needs(self, source: Source) -> Iterator[Problem]:
        """Yield what the query lacks for this source."""
        for place, name in self.columns():
            if name not in source.columns:
                yield place, "a column of [source.columns]", f'"{name}"'
        if source.unit is None and self.max_rows not in (None, 1):
            yield ("max_rows",), "no number where each row is a unit of its own", str(self.max_rows)
        elif source.unit is not None and self.counts_rows and self.max_rows is None:
            yield ("max_rows",), f'the most rows of one "{source.unit}" that count', "none"

        if source.unit is None and self.max_groups not in (None, 1):
            yield ("max_groups",), "no number where each row is a unit of its own", str(self.max_groups)
        elif source.unit is not None and (self.keyed or bool(getattr(self, "by", None))) and self.max_groups is None:
            yield ("max_groups",), f'the most keys that one "{source.unit}" may count in', "none"

    def columns(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Yield the columns that the query names, each with the key that does."""
        yield from ((("by", position), name) for position, name in enumerate(getattr(self, "by", ())))
        if getattr(self, "column", None) is not None:
            yield ("column",), self.column  # type: ignore[attr-defined]

    @property
    def rows(self) -> int:
        """Rows of one unit in a key at most."""
        return self.max_rows or 1

    @property
    def groups(self) -> int:
        """Keys that one unit counts in at most."""
        return self.max_groups or 1

    def releases(self, setting: QuerySetting) -> tuple[QueryRelease, ...]:
        """The mechanisms that answer it. Raises InputError where there is none."""
        raise NotImplementedError

    def aggregation(self, setting: QuerySetting) -> Aggregation:
        """Return what an engine computes for the query: whole numbers by key."""
        raise NotImplementedError

    def answer(self, setting: QuerySetting, totals: Totals) -> QueryAnswer:
        """Answer, with noise from the operating system. totals: exact; nothing of them leaves but through noise."""
        raise NotImplementedError

    def expected_error(self, setting: QuerySetting) -> str:
        """Say how far an answer will be off, at its confidence, as far as that is known without the data."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyQuery(Query):
    """A measure that is a sum over rows with noise on it, for each key."""

    by: Annotated[tuple[str, ...], Key("columns whose values are the keys that are answered one by one")] = ()
    error: Annotated[
        ErrorTarget | None, Key("what it may cost, as the noise that is allowed: within a distance, with a confidence")
    ] = None
    noise: Annotated[
        Literal["laplace", "gaussian"] | None,
        Key("discrete Laplace (pure) or discrete Gaussian noise; where absent laplace with epsilon, gaussian with rho or a delta"),
    ] = None
    postprocess: Annotated[
        tuple[Literal["non-negative", "whole"], ...],
        Key("what is done to the noisy numbers, which costs nothing and is named beside them"),
    ] = ()

    @property
    def shows_keys(self) -> bool:
        """Tell whether keys are taken from the data, and shown where many hold them."""
        return False

    def rows_told(self, setting: QuerySetting) -> tuple[int, str]:
        """Return the number of rows of a key for which an error is told that depends on it, as the true one is private; and say so."""
        of_key, declared = "in a key" if self.by else "", None if self.where else setting.dataset_size
        if declared is None:
            return SOME_ROWS, f"for {SOME_ROWS:,} rows {of_key}".rstrip()
        if not self.by:
            return declared, f"for the declared {declared:,} rows"
        rows = max(1, declared // math.prod(len(key.domain or (None,)) for key in self.aggregation(setting).keys))
        return rows, f"for {rows:,} rows {of_key}, an even share of the declared {declared:,}"

    def below_zero(self, source: Source) -> bool:
        """Tell whether the truth may be negative."""
        return False

    def expected_error(self, setting: QuerySetting) -> str:
        return error_text(self.releases(setting)[0], self.confidence)

    def needs(self, source: Source) -> Iterator[Problem]:
        yield from Query.needs(self, source)
        if "non-negative" in self.postprocess and self.below_zero(source):
            yield ("postprocess",), "non-negative for what is never below 0 in truth", "an answer that may be"
        for position, name in enumerate(self.by):
            if name in source.columns and self.shows_keys:
                yield from shown_problems(source.columns[name], name, ("by", position))
            elif name in source.columns and not source.columns[name].declares_keys:
                otherwise = f", or {self.undeclared}" if self.undeclared else ""
                yield ("by", position), f"{DECLARED}{otherwise}", f'"{name}", whose keys would show who is there'


def error_text(release: QueryRelease, confidence: float) -> str:
    """Say how far the noise goes."""
    assert release.law is not None
    error = expected_error(release.law, confidence, release.unit)
    return f"within {figures(error, 6, ROUND_CEILING)} of the bounded truth, with probability {confidence:.6g}"


DECLARED = 'values that are declared: domain = [...] in [source.columns], or domain_file = "..." with public ones'


def shown_problems(column: Column, name: str, place: tuple[str | int, ...]) -> Iterator[Problem]:
    """Yield what keeps values from being keys that the data show."""
    if column.type not in KEYED:
        yield place, f"a column of type {', '.join(KEYED[:-1])} or {KEYED[-1]} as a key", f'"{name}", which is {column.type}'
