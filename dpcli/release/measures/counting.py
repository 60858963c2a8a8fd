"""The measures count, distinct, histogram and threshold: numbers of rows, units or values, and comparisons of counts with a threshold.

Each class is a kind of [[query]] table, and a field is a key of the table: its `Key` has the help text, the constraint on the value and, as
`needs`, the key without which it has no effect; `examples` are tables for tests. `dpcli release` calls the methods in the order that
query.py states. `problems` and `needs` yield what is wrong with the table, as (path of a key, what was expected, what was found).
`mechanisms` returns the noise to price, `aggregation` the exact counts to ask an engine for, and `answer` the noisy answer. They depend on
the table and on `setting`: [source], the adjacency and the query's cost.

A *unit* is whom the release protects, with all of its rows, and a *key* is a combination of values of the columns in `by`, with its own
answer. A unit counts with at most `rows` rows (max_rows) in each of at most `groups` keys (max_groups); the engine leaves out the rest. A
`Contribution` states these bounds, and vectors.py derives the L1 and L2 sensitivities from it. Keys are declared in [source.columns], or
come from the data and are *shown* if their noisy counts exceed a threshold (open_keys.py). `shown` keeps the counts of these keys, and
`covers` says which errors the intervals cover. An interval covers the noise alone, and errs on the wide side, except where the noise of a
count decides whether its key is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from dpcli.base.fields import COUNT, Key
from dpcli.base.rounding import counted
from dpcli.file.toml.findings import Problem
from dpcli.release.aggregate import GroupKey, KeyValue, quoted
from dpcli.release.answers.choice_error import threshold_slack
from dpcli.release.answers.intervals import additive_interval
from dpcli.release.answers.postprocessing import CONSISTENT, make_consistent
from dpcli.release.data_source import NUMBER_TYPES, Source
from dpcli.release.group_keys import aggregation_by, aggregation_of, column_key, group_keys
from dpcli.release.measures.averages import COLUMN
from dpcli.release.measures.most_common import choice_problems
from dpcli.release.measures.open_keys import OF_BY, OpenKeysQuery
from dpcli.release.noise.selection import SparseVectorLaws
from dpcli.release.noisy_answers import NumbersByKey, add_noise, additive_answer, answer_of, coverage, law_of, postprocessed_row
from dpcli.release.query import MEASURE, NoisyQuery, Query, QueryMechanism, QuerySetting, error_text, key_type_problems
from dpcli.release.query_answer import AnswerRow, QueryAnswer
from dpcli.release.vectors import Contribution, key_selection, noisy_vector

if TYPE_CHECKING:
    from dpcli.release.aggregate import Aggregation, Totals


# Share of a count's cost for the noise on the total of all keys (`totals = true`); the noise on the keys uses the rest. It is chosen by
# hand, and affects only accuracy.
TOTAL_SHARE = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class CountQuery(OpenKeysQuery):
    """The number of rows, or of units, for each key."""

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"by": ["state"], "where": "age >= 18", "rho": 0.02, "max_groups": 3, "max_rows": 2, "postprocess": ["non-negative"]},
        {"by": ["visitor"], "of": "units", "weight": 1, "noise": "laplace", "keys": "threshold", "delta": 1e-9, "max_groups": 1},
        {"of": "units", "error": {"within": 100, "confidence": 0.9}, "confidence": 0.9},
        {"of": "units", "epsilon": 0.5},
        {"by": ["state"], "totals": True, "epsilon": 0.5, "max_groups": 2, "max_rows": 1},
    )

    measure: Annotated[str, MEASURE] = "count"
    totals: Annotated[
        bool, Key("whether to answer the total too, with its own noise; keys and total are then adjusted to add up", needs=OF_BY)
    ] = False
    of: Annotated[Literal["rows", "units"], Key("what to count: rows, or units that have at least one row")] = "rows"

    def problems(self) -> Iterator[Problem]:
        yield from OpenKeysQuery.problems(self)
        if self.totals and (self.shows_keys or self.error is not None):
            yield ("totals",), "declared keys, and epsilon, rho or weight", "keys" if self.shows_keys else "error"

    @property
    def replaces_max_rows(self) -> str | None:
        return None if self.of == "rows" else 'of = "units"'  # a unit counts once in a key, whatever its number of rows

    def mechanisms(self, setting: QuerySetting) -> tuple[QueryMechanism, ...]:
        if self.shows_keys:
            return (key_selection(self, setting, self.contribution(), self.delta or 0.0),)
        if self.totals:
            return (
                noisy_vector(self, setting, self.contribution(), suffix="keys", cost_share=1.0 - TOTAL_SHARE),
                noisy_vector(self, setting, self.total_contribution(), suffix="total", cost_share=TOTAL_SHARE),
            )
        return (noisy_vector(self, setting, self.contribution()),)

    def joint_count(self, setting: QuerySetting) -> int:
        count = OpenKeysQuery.joint_count(self, setting)
        return count + 1 if self.totals and self.intervals == "joint" else count  # one more for the interval of the total

    def expected_error(self, setting: QuerySetting) -> str:
        if not self.totals:
            return OpenKeysQuery.expected_error(self, setting)
        count = self.joint_count(setting)
        key_error, total_error = (error_text(mechanism, self.interval_confidence(count)) for mechanism in self.mechanisms(setting))
        return f"{key_error}, and the total {total_error}, {self.probability_words(count)}"

    def aggregation(self, setting: QuerySetting) -> Aggregation:
        return aggregation_of(self, setting)

    def answer(self, setting: QuerySetting, totals: Totals) -> QueryAnswer:
        exact = {key: total.rows if self.of == "rows" else total.units for key, total in totals.items()}
        if self.totals:
            key_noise, total_noise = self.mechanisms(setting)
            return self._answer_with_total(exact, key_noise, total_noise)
        (key_noise,) = self.mechanisms(setting)
        return additive_answer(self, key_noise, self.shown(add_noise(exact, key_noise), key_noise), self.covers(key_noise))

    def _answer_with_total(self, exact: NumbersByKey, key_noise: QueryMechanism, total_noise: QueryMechanism) -> QueryAnswer:
        """Return the noisy counts of the keys and their noisy total, adjusted by least squares so that they add up.

        Only noisy numbers are adjusted, which costs no privacy. The intervals are those before the adjustment.
        """
        counts, count_law = add_noise(exact, key_noise), law_of(key_noise)
        (total,) = add_noise({(): sum(exact.values())}, total_noise).values()
        total_law = law_of(total_noise)
        adjusted = self._counts_that_add_up(counts, total, Fraction(count_law.variance), Fraction(total_law.variance))
        rows, confidence = [], self.interval_confidence(len(counts) + 1)
        for key, count in counts.items():
            interval = additive_interval(count, count_law, confidence)
            rows.append(postprocessed_row(self, key, adjusted.get(key, 0), interval))
        interval = additive_interval(total, total_law, confidence)
        total_key = ("total",) * len(self.by)  # the key of the total has this word in every column of `by`
        rows.append(postprocessed_row(self, total_key, sum(adjusted.values()), interval))
        return answer_of(self, tuple(rows), additions=(CONSISTENT,))

    def _counts_that_add_up(
        self, counts: NumbersByKey, total: int, count_variance: Fraction, total_variance: Fraction
    ) -> dict[tuple[KeyValue, ...], int]:
        """Return the noisy counts adjusted to a noisy total. Their sum is the adjusted total.

        If the query states non-negative, counts that would be negative are left out, and the others are adjusted again. The caller reports
        0 for a count that was left out.
        """
        keys = list(counts)
        while True:  # ends, because each further round has fewer keys
            adjusted = make_consistent(total, [counts[key] for key in keys], total_variance, count_variance)
            if "non-negative" not in self.postprocess or all(value >= 0 for value in adjusted):
                return dict(zip(keys, adjusted, strict=True))
            keys = [key for key, value in zip(keys, adjusted, strict=True) if value >= 0]

    def total_contribution(self) -> Contribution:
        """Return the bound on what one unit adds to the total of all keys: the most rows of all its keys together."""
        to_keys = self.contribution()
        return Contribution(1, to_keys.groups * to_keys.rows, one_key=True)

    def contribution(self) -> Contribution:
        """Return the bound on what one unit adds to the counts of the keys."""
        rows = self.rows if self.of == "rows" else 1
        return Contribution(self.groups, rows, one_key=not self.by)


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinctQuery(NoisyQuery):
    """The number of different values of a column, for each key. A unit counts with at most `max_rows` different values in each key.

    The values need not be declared, since only their number is released. All different values of a unit in a key are equally likely to be
    kept, however many rows have them.

    Proof of the sensitivity: Let S(u, k) be the set of the values that unit u keeps in key k. It depends on the rows of u alone, and on the
    key of the hash, which is independent of the data. It has at most m = max_rows values, and is empty for all but max_groups keys. The
    answer for k is the size of the union of S(u, k) over all units u. Adding a unit leaves the other sets as they are, so it adds from 0 to
    m values to the union, for at most max_groups keys; removing a unit, or its rows, is the reverse. Replacing a unit removes from 0 to m
    values and then adds from 0 to m. So a key that both versions keep changes by at most m, not 2 m, and a key that one version keeps by at
    most m. These are the bounds for a unit that adds max_rows rows, each of them 1, of which `vectors.sensitivity` derives L1 and L2. If a
    group of units changes, these changes follow one another, and the norms add up.
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"column": "name", "epsilon": 0.5, "max_rows": 3},
        {"column": "name", "by": ["state"], "rho": 0.02, "max_groups": 1, "max_rows": 2},
    )

    measure: Annotated[str, MEASURE] = "distinct"
    column: Annotated[str, Key("column whose different values are counted; max_rows bounds the values of one unit")]

    def needs(self, source: Source) -> Iterator[Problem]:
        yield from NoisyQuery.needs(self, source)
        yield from self.column_in_by_problems()
        if self.column in source.columns:
            yield from key_type_problems(source.columns[self.column], self.column, ("column",))

    def mechanisms(self, setting: QuerySetting) -> tuple[QueryMechanism, ...]:
        contribution = Contribution(self.groups, self.rows, one_key=not self.by, noun="different value")
        return (noisy_vector(self, setting, contribution),)

    def aggregation(self, setting: QuerySetting) -> Aggregation:
        return replace(aggregation_of(self, setting), distinct=column_key(setting, self.column, declared=False))

    def answer(self, setting: QuerySetting, totals: Totals) -> QueryAnswer:
        (mechanism,) = self.mechanisms(setting)
        numbers = add_noise({key: total.rows for key, total in totals.items()}, mechanism)
        return additive_answer(self, mechanism, numbers, f"{coverage(self)}; {self.left_out}")

    @property
    def left_out(self) -> str:
        """Clause that says that the bound on a unit may lower the answer."""
        return f"the answer may be too low, as only {counted(self.rows, 'value')} of each unit can count in a key"

    def expected_error(self, setting: QuerySetting) -> str:
        return f"{NoisyQuery.expected_error(self, setting)}; {self.left_out}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramQuery(NoisyQuery):
    """The number of rows in each bin. A bin contains its lower edge but not its upper edge; the last bin contains both edges."""

    keyed: ClassVar[bool] = True  # the answer has keys without `by`: the bins
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"column": "age", "bins": [0, 18, 65, 115], "rho": 0.01, "max_groups": 1, "max_rows": 1},
        {
            "column": "age",
            "bins": [0, 18, 115],
            "by": ["state"],
            "epsilon": 0.5,
            "max_groups": 1,
            "max_rows": 1,
            "intervals": "joint",
        },
    )

    measure: Annotated[str, MEASURE] = "histogram"
    column: Annotated[str, COLUMN]
    bins: Annotated[tuple[float, ...], Key("edges of the bins in increasing order; rows with values outside all bins are left out")]

    def problems(self) -> Iterator[Problem]:
        yield from NoisyQuery.problems(self)
        if len(self.bins) < 2 or not all(low < high for low, high in pairwise(self.bins)):
            yield ("bins",), "at least two edges, each above the one before", ", ".join(f"{edge:g}" for edge in self.bins) or "none"

    def needs(self, source: Source) -> Iterator[Problem]:
        yield from NoisyQuery.needs(self, source)
        column = source.columns.get(self.column)
        if column is not None and column.type not in NUMBER_TYPES:
            yield ("column",), "a column of numbers", f'"{self.column}", which is {column.type}'

    def mechanisms(self, setting: QuerySetting) -> tuple[QueryMechanism, ...]:
        one_key = len(self.bins) == 2 and not self.by  # two edges make one bin
        return (noisy_vector(self, setting, Contribution(self.groups, self.rows, one_key=one_key)),)

    def aggregation(self, setting: QuerySetting) -> Aggregation:
        return aggregation_by(self, setting, (*group_keys(self, setting), GroupKey(quoted(self.column), bins=self.bins)))

    def answer(self, setting: QuerySetting, totals: Totals) -> QueryAnswer:
        (mechanism,) = self.mechanisms(setting)
        numbers = add_noise({key: total.rows for key, total in totals.items()}, mechanism)
        by_bin = {(*values, self.bin_text(int(index))): number for (*values, index), number in numbers.items()}
        return additive_answer(self, mechanism, by_bin, coverage(self), (*self.by, self.column))

    def bin_text(self, number: int) -> str:
        """Return a bin as an interval, such as [0, 18). Bins are numbered from 0."""
        low, high = (repr(edge).removesuffix(".0") for edge in self.bins[number : number + 2])  # in full, to distinguish all bins
        is_last = number == len(self.bins) - 2
        return f"[{low}, {high}]" if is_last else f"[{low}, {high})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdQuery(Query):
    """The answers to the question whether a count of rows reaches `above`, for the whole table or for each value of a column.

    The values are asked about in their declared order, until `answers` of the counts have reached `above`. The counts are not released.
    """

    keyed: ClassVar[bool] = True  # the answer has keys without `by`: the values of the column
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"column": "state", "above": 1000, "answers": 2, "epsilon": 0.5, "max_groups": 2, "max_rows": 1},
    )

    measure: Annotated[str, MEASURE] = "threshold"
    column: Annotated[
        str | None, Key("column whose values are asked about, in declared order; by default the whole table is asked about")
    ] = None
    above: Annotated[int, Key("count that must be reached", COUNT)]
    answers: Annotated[int, Key("number of counts that reach it before the questions end; default 1", COUNT)] = 1

    def needs(self, source: Source) -> Iterator[Problem]:
        for key, expected, wrong in Query.needs(self, source):
            if key != ("max_groups",) or self.column is not None:  # without a column there is one count, and no keys to bound
                yield key, expected, wrong
        if self.column is not None:
            yield from choice_problems(source, self.column)

    def mechanisms(self, setting: QuerySetting) -> tuple[QueryMechanism, ...]:
        laws = self.laws(setting)
        why = (
            f"one unit changes each count by at most {self.rows:,}",
            f"noise of scale {laws.threshold.scale:.6g} on the threshold and {laws.query.scale:.6g} on each count",
        )
        return (QueryMechanism("", "sparse-vector", {"epsilon": laws.epsilon, "answers": self.answers}, why),)

    def laws(self, setting: QuerySetting) -> SparseVectorLaws:
        """Return the noise distributions of the sparse vector technique: of the threshold, and of each count."""
        assert setting.cost is not None  # only a NoisyQuery may state an error in place of a cost
        return SparseVectorLaws(setting.cost.pure_epsilon, self.rows, self.answers)

    def aggregation(self, setting: QuerySetting) -> Aggregation:
        keys = () if self.column is None else (column_key(setting, self.column),)
        return aggregation_by(self, setting, keys)

    def answer(self, setting: QuerySetting, totals: Totals) -> QueryAnswer:
        from dpcli.release.noise.selection import above_threshold

        keys = self.keys_in_order(setting)
        counts = [totals[key].rows if key in totals else 0 for key in keys]
        reached = above_threshold(counts, self.above, self.laws(setting))
        compared = keys[: len(reached)]  # the sparse vector technique ends at the last answer that it may give
        rows = tuple(AnswerRow(key, is_reached) for key, is_reached in zip(compared, reached, strict=True))
        by = () if self.column is None else (self.column,)
        return QueryAnswer(self.name, self.measure, by, rows, self.confidence, self.expected_error(setting))

    def keys_in_order(self, setting: QuerySetting) -> list[tuple[KeyValue, ...]]:
        """Return the keys in the order in which they are compared with the threshold."""
        if self.column is None:
            return [()]
        return [(value,) for value in column_key(setting, self.column).domain or ()]

    def expected_error(self, setting: QuerySetting) -> str:
        distance = threshold_slack(self.laws(setting), len(self.keys_in_order(setting)), self.confidence)
        # A count that is reported to reach the threshold may be `distance` below it, so that answers are right from one further on.
        return f"right for every count at least {distance + 1:,} from the threshold, with probability {self.confidence:.6g}"
