"""The [[query]] table: keys that every measure shares, and the methods that a measure implements."""

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
from dpcli.release.data_source import KEY_TYPES, Column
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

OF_KEYS = Reader("by", lambda query: query.keyed or bool(query.by))


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorTarget:
    """A bound on the noise, from which the cost follows."""

    within: Annotated[float, Key("the noise stays below this, in units of the answer", POSITIVE)]
    confidence: Annotated[float, Key("with this probability", CONFIDENCE)] = 0.95


@dataclass(frozen=True, slots=True)
class QuerySetting:
    """The source of a query, and its cost.

    Attributes:
        cost: From epsilon, rho or weight; None where error decides.
        folder: Folder of the file.
        dataset_size: Number of rows, if it is public.
    """

    source: Source
    adjacency: Adjacency
    cost: QueryCost | None
    folder: str = ""
    dataset_size: int | None = None


@dataclass(frozen=True, slots=True)
class QueryRelease:
    """A mechanism of a query.

    Attributes:
        suffix: Appended to the query's name; "" if it has one mechanism.
        type, keys: Type and keys of the [[mechanism]] table that prices it.
        steps: How often it runs.
        why: The steps of reasoning that give its sensitivity.
        law: Law of additive noise, None if a value is chosen.
        unit: Unit of the answer per whole number that noise is added to.
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
    keyed: ClassVar[bool] = False  # the answer has keys even without `by`: bins, or the values of a column
    counts_rows: ClassVar[bool] = True  # a unit's rows add up, so that their number matters
    undeclared: ClassVar[str] = ""  # how it is asked about values that nobody declares, for messages; "" if it cannot be

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
        """Yield the keys that are wrong or missing for this source."""
        for place, name in self.columns():
            if name not in source.columns:
                yield place, "a column of [source.columns]", f'"{name}"'
        if source.unit is None and self.max_rows not in (None, 1):
            yield ("max_rows",), "no number where each row is a unit of its own", str(self.max_rows)
        elif source.unit is not None and self.counts_rows and self.max_rows is None:
            yield ("max_rows",), f'the most rows of one "{source.unit}" that count', "none"

        if source.unit is None and self.max_groups not in (None, 1):
            yield ("max_groups",), "no number where each row is a unit of its own", str(self.max_groups)
        elif source.unit is not None and (self.keyed or bool(self.by)) and self.max_groups is None:
            yield ("max_groups",), f'the most keys that one "{source.unit}" may count in', "none"

    def columns(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Yield (key, column) for each column that the query names."""
        yield from ((("by", position), name) for position, name in enumerate(self.by))
        if getattr(self, "column", None) is not None:
            yield ("column",), self.column  # type: ignore[attr-defined]

    @property
    def by(self) -> tuple[str, ...]:
        """The columns whose values are the keys of the answer; a measure that has them states them as a key."""
        return ()

    @property
    def rows(self) -> int:
        """The most rows of one unit in a key."""
        return self.max_rows or 1

    @property
    def groups(self) -> int:
        """The most keys that one unit counts in."""
        return self.max_groups or 1

    def releases(self, setting: QuerySetting) -> tuple[QueryRelease, ...]:
        """Return the mechanisms that answer the query. Raises InputError if there is none."""
        raise NotImplementedError

    def aggregation(self, setting: QuerySetting) -> Aggregation:
        """Return what an engine computes for the query: sums of whole numbers by key."""
        raise NotImplementedError

    def answer(self, setting: QuerySetting, totals: Totals) -> QueryAnswer:
        """Return the answer, with noise from the operating system.

        Args:
            totals: Exact; they leave through noise alone.
        """
        raise NotImplementedError

    def expected_error(self, setting: QuerySetting) -> str:
        """Say how large the error will be, at the query's confidence, as far as that is known without the data."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyQuery(Query):
    """A measure that adds noise to sums over rows, for each key."""

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
        """Tell whether keys are taken from the data, and shown where many units hold them."""
        return False

    def assumed_rows(self, setting: QuerySetting) -> tuple[int, str]:
        """Return a number of rows to state an error for, as the true number is private, and the words that name it."""
        of_key, declared = "in a key" if self.by else "", None if self.where else setting.dataset_size
        if declared is None:
            return SOME_ROWS, f"for {SOME_ROWS:,} rows {of_key}".rstrip()
        if not self.by:
            return declared, f"for the declared {declared:,} rows"
        rows = max(1, declared // math.prod(len(key.domain or (None,)) for key in self.aggregation(setting).keys))
        return rows, f"for {rows:,} rows {of_key}, an even share of the declared {declared:,}"

    def may_be_negative(self, source: Source) -> bool:
        """Tell whether the exact answer may be negative."""
        return False

    def expected_error(self, setting: QuerySetting) -> str:
        return error_text(self.releases(setting)[0], self.confidence)

    def needs(self, source: Source) -> Iterator[Problem]:
        yield from Query.needs(self, source)
        if "non-negative" in self.postprocess and self.may_be_negative(source):
            yield ("postprocess",), "non-negative for what is never below 0 in truth", "an answer that may be"
        for position, name in enumerate(self.by):
            if name in source.columns and self.shows_keys:
                yield from shown_problems(source.columns[name], name, ("by", position))
            elif name in source.columns and not source.columns[name].declares_keys:
                otherwise = f", or {self.undeclared}" if self.undeclared else ""
                yield ("by", position), f"{DECLARED}{otherwise}", f'"{name}", whose keys would show who is there'


def error_text(release: QueryRelease, confidence: float) -> str:
    """Say how large the noise is."""
    assert release.law is not None
    error = expected_error(release.law, confidence, release.unit)
    return f"within {figures(error, 6, ROUND_CEILING)} of the bounded truth, with probability {confidence:.6g}"


DECLARED = 'values that are declared: domain = [...] in [source.columns], or domain_file = "..." with public ones'


def shown_problems(column: Column, name: str, place: tuple[str | int, ...]) -> Iterator[Problem]:
    """Yield the problem of a column whose type cannot be a key that the data show."""
    if column.type not in KEY_TYPES:
        yield (
            place,
            f"a column of type {', '.join(KEY_TYPES[:-1])} or {KEY_TYPES[-1]} as a key",
            f'"{name}", which is {column.type}',
        )
