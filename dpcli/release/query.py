"""The [[query]] table: settings that every measure shares, and the methods that a measure implements.

A *measure* is a statistic such as count or mean, and each is a class (measures/). Its methods are called in this order. When the file is
read: `problems` (the table alone), then `needs` (the table with this [source]). For the plan, without data: `mechanisms`, which are priced
as [[mechanism]] entries of the pipeline, and `expected_error`. After the charge (and before it on no data, as a check): `aggregation` says
which exact sums an engine computes, its *totals*, and `answer` adds noise to them or chooses by them. The guarantee rests on two
agreements: a mechanism's sensitivity must bound what one unit changes in `aggregation`, and `answer` must use the exact totals only through
the mechanisms that were priced.

A *unit* is whom the release protects, with all of its rows. A *key* of an answer is a combination of values of the columns in `by`, and an
answer has a row for each. Keys are *declared* if [source.columns] lists them, and *shown* if they come from the data and many units have
them. (In `problems`, a key is the name of a setting of the file. A `Key` in an annotation has its help text, the constraint on its value
and, as `needs`, the setting without which it has no effect.) A *step* is the unit of rounding of a column: noisy numbers are whole numbers
of steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from dpcli.base.fields import COUNT, OPEN_UNIT, POSITIVE, Key, NeededSetting, Note, Selection
from dpcli.base.rounding import figures
from dpcli.file.toml.findings import Problem
from dpcli.file.toml.suggest import did_you_mean
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.release.answers.intervals import expected_error, joint_confidence
from dpcli.release.data_source import KEY_TYPES, MOST_KEYS, Column
from dpcli.release.plugin import MEASURES

if TYPE_CHECKING:
    from dpcli.release.aggregate import Aggregation, Totals
    from dpcli.release.cost import QueryCost
    from dpcli.release.data_source import Source
    from dpcli.release.noise.laws import NoiseLaw
    from dpcli.release.query_answer import QueryAnswer

MEASURE = Key("the statistic that the query asks for")
BY = Key("columns whose values are the keys; there is one answer for each key")
CONFIDENCE = OPEN_UNIT  # a confidence is above 0 and below 1
OF_KEYS = NeededSetting("by", lambda query: query.keyed or bool(query.by))  # max_groups and `intervals` need an answer with keys
COSTS = ("epsilon", "rho", "weight", "error")  # settings of which a query states exactly one
# Numbers that expected errors assume where the true ones are private, and name in words. Both are arbitrary, and no answer depends on them.
SOME_ROWS = 1000  # rows, for an error that is proportional to 1 / rows
SOME_KEYS = 1000  # shown keys, for an error of all answers together
# For messages: what a column needs if its values are the keys of an answer.
DECLARED = 'declared values: domain = [...] in [source.columns], or domain_file = "..." with public values'
DECLARED_NUMBERS = f"declared values: min and max in [source.columns], with a step of 1 and at most {MOST_KEYS:,} values"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorTarget:
    """A bound on the noise. dpcli chooses the cheapest noise that meets it, which determines the cost."""

    within: Annotated[float, Key("largest absolute value of the noise, in units of the answer", POSITIVE)]
    confidence: Annotated[float, Key("probability that the noise stays within this bound", CONFIDENCE)] = 0.95


@dataclass(frozen=True, slots=True)
class QuerySetting:
    """The parts of a file, outside of the [[query]] table itself, on which the noise and the answer of a query depend.

    cost: cost that epsilon, rho or weight determines; None if an error target determines it, which only a NoisyQuery can state.
    folder: folder of the pipeline file, from which the relative path of a domain file (a list of values) starts.
    dataset_size: number of rows if it is public; None otherwise.
    """

    source: Source
    adjacency: Adjacency
    cost: QueryCost | None
    folder: str = ""
    dataset_size: int | None = None


@dataclass(frozen=True, slots=True)
class QueryMechanism:
    """A mechanism that answers a query, or a part of it.

    suffix: suffix of the mechanism's name; "" if the query has one mechanism.
    type, keys: type and further keys of the [[mechanism]] table that prices the mechanism.
    why: derivation of the sensitivity in words, line by line.
    law: distribution of the additive noise; None if the mechanism chooses a value.
    step_size: size of one step of the noisy integer, in units of the answer.
    runs: number of times that the mechanism runs.
    """

    suffix: str
    type: str
    keys: Mapping[str, Any]
    why: tuple[str, ...]
    law: NoiseLaw | None = None
    step_size: float = 1.0
    runs: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question about the table of [source]. Its cost is stated as epsilon, rho, a weight or an error.

    The noise is scaled to the largest change that one unit can cause; dpcli explain query FILE derives it.
    """

    selection: ClassVar[Selection] = Selection("measure", MEASURES)
    # Example tables. Together they state every key of the measure except name and measure.
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ()
    keyed: ClassVar[bool] = False  # whether the answer has keys without `by`, such as bins or the values of a column
    undeclared_advice: ClassVar[str] = ""  # clause that says how to ask about undeclared keys of `by`; "" if it is impossible

    name: Annotated[str, Key("unique name of the query and of its answer")]
    measure: Annotated[str, MEASURE]
    where: Annotated[Note | None, Key("SQL condition on columns; rows for which it is not true are left out")] = None
    epsilon: Annotated[
        float | None, Key("cost of the query as a pure epsilon; Gaussian noise spends rho = epsilon^2 / 2 instead", POSITIVE)
    ] = None
    rho: Annotated[float | None, Key("cost of the query as rho of zCDP", POSITIVE)] = None
    weight: Annotated[
        float | None,
        Key("cost of the query as a share of [budget], in proportion to the weights of all queries that state one", POSITIVE),
    ] = None
    max_groups: Annotated[
        int | None,
        Key(
            "largest number of keys of by in which one unit counts; further keys are left out at random; default 1 if "
            "max_contributions is 1",
            COUNT,
            needs=OF_KEYS,
        ),
    ] = None
    max_rows: Annotated[
        int | None,
        Key(
            "largest number of rows of one unit that count in each key; further rows are left out at random, but a sum, mean or variance "
            "counts max_rows times the mean of the unit's rows; default 1 if max_contributions is 1",
            COUNT,
        ),
    ] = None
    confidence: Annotated[float, Key("confidence of the interval, which covers only the noise", CONFIDENCE)] = 0.95

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of settings that are wrong for every source, each as (path, text after "expected", text after "found").

        A query must state exactly one of COSTS.
        """
        stated = [name for name in COSTS if getattr(self, name, None) is not None]
        if len(stated) != 1:
            possible = [name for name in COSTS if hasattr(self, name)]
            yield ("epsilon",), f"one of {', '.join(possible)}", " and ".join(stated) or "none"

    def needs(self, source: Source) -> Iterator[Problem]:
        """Yield the problems of settings that are wrong or missing for this source."""
        for place, name in self.columns():
            if name not in source.columns:
                yield place, "a column of [source.columns]", f'"{name}"{_undeclared_hint(name, source)}'
        if self.max_rows is not None and self.replaces_max_rows is not None:
            yield ("max_rows",), f"no number with {self.replaces_max_rows}", str(self.max_rows)
        if source.unit is None:  # each row is a unit, which counts once in one key, so there is nothing to bound
            for bound, stated in (("max_rows", self.max_rows), ("max_groups", self.max_groups)):
                if stated not in (None, 1):
                    yield (bound,), "no number where each row is a unit of its own", str(stated)
            return
        if self.max_rows is None and self.replaces_max_rows is None:
            yield ("max_rows",), f'the largest number of rows of one "{source.unit}" that count', "none"
        if (self.keyed or self.by) and self.max_groups is None:
            yield ("max_groups",), f'the largest number of keys in which one "{source.unit}" counts', "none"

    def columns(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Yield each column that the query names, after the path of the setting that names it."""
        yield from ((("by", position), name) for position, name in enumerate(self.by))
        if getattr(self, "column", None) is not None:  # not every measure has the key `column`
            yield ("column",), self.column  # type: ignore[attr-defined]

    @property
    def by(self) -> tuple[str, ...]:
        """The columns whose values are the keys of the answer. Measures with such columns override this with a key of the table."""
        return ()

    @property
    def shows_keys(self) -> bool:
        """Return whether the keys are taken from the data and shown if many units have them. Only an `OpenKeysQuery` can do this."""
        return False

    def column_in_by_problems(self) -> Iterator[Problem]:
        """Yield a problem if the column that the query asks about is one of `by`, since all rows of a key then have one value in it."""
        column = getattr(self, "column", None)
        if column in self.by:
            expected = (
                f'other columns than "column"; measure = "count" with by = ["{column}"] counts the rows of each of its values'
            )
            yield ("by",), expected, f'"{column}"'

    def key_problems(self, source: Source) -> Iterator[Problem]:
        """Yield the problems of the columns of `by`: a repeated column, undeclared keys, or keys of a type that cannot be shown."""
        for position, name in enumerate(self.by):
            column, place = source.columns.get(name), ("by", position)
            if column is None:
                continue  # `needs` reports it
            if name in self.by[:position]:
                yield place, "different columns", f'"{name}" again'
            type_problems = tuple(key_type_problems(column, name, place))
            yield from type_problems
            if not (type_problems or self.shows_keys or column.declares_keys):
                yield undeclared_problem(column, name, place, "keys", self.undeclared_advice)

    @property
    def replaces_max_rows(self) -> str | None:
        """The setting that takes the place of max_rows, in words, so that all rows of a unit count; None if max_rows bounds the rows."""
        return None

    # A query may leave out max_rows and max_groups only where 1 is right (`needs`, and BOUNDS_OF_ONE_ROW in query_entries.py): if a unit
    # has one row, if the answer has no keys, or if the measure does not use the bound (`replaces_max_rows`).
    @property
    def rows(self) -> int:
        """Largest number of rows of one unit that count in a key; 1 if the query does not state it."""
        return self.max_rows or 1

    @property
    def groups(self) -> int:
        """Largest number of keys in which one unit counts; 1 if the query does not state it."""
        return self.max_groups or 1

    def mechanisms(self, setting: QuerySetting) -> tuple[QueryMechanism, ...]:
        """Return the mechanisms that answer the query. Raises InputError if none can."""
        raise NotImplementedError

    def aggregation(self, setting: QuerySetting) -> Aggregation:
        """Return the aggregation, sums of integers by key, that an engine computes for the query."""
        raise NotImplementedError

    def answer(self, setting: QuerySetting, totals: Totals) -> QueryAnswer:
        """Return the noisy answer. The randomness comes from the operating system.

        totals: exact, private totals. They must affect the answer only through the mechanisms.
        """
        raise NotImplementedError

    def expected_error(self, setting: QuerySetting) -> str:
        """Return a description of the error at the query's confidence, as far as it is known without the data."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyQuery(Query):
    """A measure that adds noise to sums over rows, for each key in `by`."""

    by: Annotated[tuple[str, ...], BY] = ()
    error: Annotated[ErrorTarget | None, Key("cost of the query as a bound on its noise: within a distance, with a confidence")] = (
        None
    )
    noise: Annotated[
        Literal["laplace", "gaussian"] | None,
        Key("discrete Laplace (pure) or discrete Gaussian noise; default: laplace with epsilon, gaussian with rho or a delta"),
    ] = None
    postprocess: Annotated[
        tuple[Literal["non-negative", "whole"], ...],
        Key("postprocessing of the noisy numbers, which costs no privacy and is named in the answer"),
    ] = ()
    intervals: Annotated[
        Literal["each", "joint"],
        Key(
            "whether confidence holds for each interval by itself, or jointly for all intervals of the answer, which are then wider",
            needs=OF_KEYS,
        ),
    ] = "each"

    def assumed_rows(self, setting: QuerySetting) -> tuple[int, str]:
        """Return the number of rows in a key for which an expected error is stated, and words for it.

        The number is the declared size of the dataset, or an even share of it for each key of `by`. Without a declared size, and with a
        `where` or with keys that are not declared, the true number is private, and SOME_ROWS is assumed.
        """
        in_key = " in a key" if self.by else ""
        declared = None if self.where or self.shows_keys else setting.dataset_size
        if declared is None:
            return SOME_ROWS, f"for {SOME_ROWS:,} rows{in_key}"
        if not self.by:
            return declared, f"for the declared {declared:,} rows"
        key_count = math.prod(len(key.domain) for key in self.aggregation(setting).keys if key.domain)
        rows = max(1, declared // key_count)  # not 0 if there are more keys than rows, because errors are divided by it
        return rows, f"for {rows:,} rows{in_key}, an even share of the declared {declared:,}"

    def may_be_negative(self, source: Source) -> bool:
        """Return whether the exact answer may be negative."""
        return False

    def joint_count(self, setting: QuerySetting) -> int:
        """Return how many intervals hold together, for an expected error: 1, or all of the answer if they are joint.

        Before the answer is known, nobody knows how many keys from the data will be shown, so SOME_KEYS is assumed for them.
        """
        if self.intervals == "each":
            return 1
        return SOME_KEYS if self.shows_keys else math.prod(len(key.declared or ()) for key in self.aggregation(setting).keys)

    def interval_confidence(self, count: int, independent: bool = True) -> float:
        """Return the confidence of one of `count` intervals. independent: whether the noises of the intervals are independent."""
        return self.confidence if self.intervals == "each" else joint_confidence(self.confidence, max(count, 1), independent)

    def probability_words(self, count: int) -> str:
        """Return words for the probability with which an expected error holds. count: number of intervals that hold together."""
        together = ""
        if self.intervals == "joint":
            together = (
                f" for all answers together if {count:,} keys are shown" if self.shows_keys else f" for all {count:,} together"
            )
        return f"with probability {self.confidence:.6g}{together}"

    def expected_error(self, setting: QuerySetting) -> str:
        noise_on_answer, *_ = self.mechanisms(setting)  # a second one chooses the keys
        count = self.joint_count(setting)
        return f"{error_text(noise_on_answer, self.interval_confidence(count))}, {self.probability_words(count)}"

    def needs(self, source: Source) -> Iterator[Problem]:
        yield from Query.needs(self, source)
        if "non-negative" in self.postprocess and self.may_be_negative(source):
            yield ("postprocess",), "non-negative only if the exact answer is never below 0", "an answer that may be below 0"
        yield from self.key_problems(source)


def undeclared_problem(column: Column, name: str, place: tuple[str | int, ...], values: str, otherwise: str) -> Problem:
    """Return the problem of a column whose values an answer shows although they are not declared.

    values: noun for the values.
    otherwise: clause that says how to ask about undeclared values; "" if it is impossible.
    """
    expected = DECLARED_NUMBERS if column.type == "integer" else DECLARED
    if otherwise:
        expected += f", or {otherwise}"
    return place, expected, f'"{name}", whose undeclared {values} would reveal who is in the data'


def _undeclared_hint(name: str, source: Source) -> str:
    """Return the end of a message about a column that is not declared: a similar name, or how to declare an expression; else ""."""
    if "(" in name:
        return '; [source.columns] gives an expression a name: NAME = { type = ..., expression = "..." }'
    hint = did_you_mean(name, source.columns)
    return hint and f"; {hint}"


def error_text(mechanism: QueryMechanism, confidence: float) -> str:
    """Return a distance, rounded up, within which the additive noise of a mechanism stays with this confidence, in words."""
    assert mechanism.law is not None
    error = expected_error(mechanism.law, confidence, mechanism.step_size)
    return f"within {figures(error, 6, ROUND_CEILING)} of the exact bounded answer"


def key_type_problems(column: Column, name: str, place: tuple[str | int, ...]) -> Iterator[Problem]:
    """Yield a problem if the type of a column does not permit its values as keys. place: path of the setting that names the column."""
    if column.type not in KEY_TYPES:
        *types, last_type = KEY_TYPES
        hint = f'; a text column with expression = "cast({name} as text)" can be one' if column.type == "date" else ""
        yield place, f"a column of type {', '.join(types)} or {last_type} as a key", f'"{name}", which is {column.type}{hint}'
