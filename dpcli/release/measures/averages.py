"""The measures sum, mean and variance of a column, whose values are clamped and rounded to whole steps.

Each class is a kind of [[query]] table, and a field is a key of the table: its `Key` has the help text, the constraint on the value and, as
`needs`, the key without which it has no effect; `examples` are tables for tests. `dpcli release` calls the methods in the order that
query.py states. `problems` and `needs` yield what is wrong with the table, as (path of a key, what was expected, what was found).
`mechanisms` returns the noise to price, `aggregation` the exact sums to ask an engine for, and `answer` the noisy answer. They depend on
the table and on `setting`: [source], the adjacency and the query's cost.

A *unit* is whom the release protects, with all of its rows, and a *key* is a combination of values of the columns in `by`. A unit counts
with at most `rows` rows (max_rows) in each of at most `groups` keys (max_groups). A `Contribution` states these bounds and what a row adds,
and vectors.py derives the sensitivity from it. A *step* is the declared unit of rounding of a column. Sums are integers, in steps, so that
no order of addition changes them. Variances, and means over a noisy count, are *centred*: distances from the middle of the range are added,
so a row adds at most half of the range. `middle` is that middle in steps, rounded down, and `furthest` the largest distance from it.
Intervals cover the noise alone, and err on the wide side, except where the noise of a count decides whether its key is shown
(open_keys.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dpcli.base.fields import COUNT, Key, NeededSetting
from dpcli.base.rounding import figures
from dpcli.file.toml.findings import Problem
from dpcli.release.aggregate import KeyValue
from dpcli.release.answers.intervals import ConfidenceInterval, expected_error, on_grid, public_mean_interval
from dpcli.release.answers.ratios import UNKNOWN_MEAN, NoisyMean, NoisyVariance, expected_mean_error, share_of_epsilon, share_of_rho
from dpcli.release.column_values import SteppedRange, number_problems, stepped_range, value_problems
from dpcli.release.data_source import Source
from dpcli.release.group_keys import aggregation_of, steps_of
from dpcli.release.measures.open_keys import HIDDEN, OpenKeysQuery
from dpcli.release.noisy_answers import NumbersByKey, add_noise, additive_answer, answer_of, coverage, law_of, postprocessed_row
from dpcli.release.query import MEASURE, Query, QueryMechanism, QuerySetting
from dpcli.release.query_answer import AnswerRow, QueryAnswer
from dpcli.release.vectors import Contribution, is_laplace, key_selection, noisy_vector, sensitivity

if TYPE_CHECKING:
    from dpcli.release.aggregate import Aggregation, Totals


COLUMN = Key("column of numbers; its [source.columns] entry has min, max and step")
# The setting without which min_total has no effect.
OF_TOTALS = NeededSetting("max_total", lambda query: query.max_total is not None)

# Shares of a query's cost for its mechanisms. Each mechanism is priced with the noise that it gets, so the shares affect accuracy alone.
# They are chosen by hand, without a proof that they are best.
KEYS_SHARE = 0.3  # share of a sum for the selection of undeclared keys; the noise on the sums uses the rest
SQUARES_SHARE, SUM_SHARE, COUNT_SHARE = 0.4, 0.3, 0.3  # for a variance; squares get most: their range is the largest

# What one unit adds to a sum of squares or to a total is below this number, so that the sensitivity fits into 64 bits.
MOST_OF_UNIT = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnQuery(OpenKeysQuery):
    """A measure that adds up the clamped values of a column, in whole steps.

    With keys = "threshold", a stability histogram of the numbers of rows or units chooses the set K of keys that are shown, and releases
    their noisy numbers. The histogram alone has a delta. The sums are a second mechanism, which takes K from the output of the first. For a
    fixed K it adds noise to a vector with one sum for each key of K, where a key without rows has the sum 0. Whatever K is, this vector
    changes by at most the sensitivity that holds for declared keys. So the pair that prices the noise dominates the second mechanism for
    every output of the first, and the composition of both pairs dominates the two in sequence (Zhu, Dong, Wang 2022, arXiv:2106.08567,
    Theorem 10). The noise on a sum is independent of the choice of K. So noise may be added to the sums of all keys in the data, if only
    the sums of K are released.

    Source: Wilson, Zhang, Lam, Desfontaines, Simmons-Marengo, Gipson 2020, arXiv:1909.01917.
    """

    column: Annotated[str, COLUMN]

    def problems(self) -> Iterator[Problem]:
        yield from OpenKeysQuery.problems(self)
        if self.shows_keys and self.error is not None:
            yield ("error",), 'epsilon, rho or weight with keys = "threshold"', "error"

    def needs(self, source: Source) -> Iterator[Problem]:
        yield from OpenKeysQuery.needs(self, source)
        yield from value_problems(source, "column", self.column, self.rows)

    def may_be_negative(self, source: Source) -> bool:
        column = source.columns.get(self.column)
        return column is not None and column.min is not None and column.min < 0.0

    def values(self, setting: QuerySetting) -> SteppedRange:
        """Return the range of the column in whole steps."""
        return stepped_range(setting.source, self.column)

    def centred_contribution(self, values: SteppedRange) -> Contribution:
        """Return the bound on what one unit adds to the sum of the distances from the middle of the range."""
        least, most = values.least - values.middle, values.most - values.middle
        return Contribution(self.groups, self.rows, least, most, one_key=not self.by)

    def count_contribution(self) -> Contribution:
        """Return the bound on what one unit adds to the number of rows."""
        return Contribution(self.groups, self.rows, one_key=not self.by)

    def count_mechanism(self, setting: QuerySetting, share: float) -> QueryMechanism:
        """Return the mechanism that adds noise to the numbers of rows. If the keys are not declared, it chooses those that are shown."""
        contribution = self.count_contribution()
        if self.shows_keys:
            return key_selection(self, setting, contribution, self.delta or 0.0, suffix="count", cost_share=share)
        return noisy_vector(self, setting, contribution, suffix="count", cost_share=share)


@dataclass(frozen=True, slots=True, kw_only=True)
class SumQuery(ColumnQuery):
    """The sum of a column for each key. Values are clamped and rounded to whole steps.

    With `max_total`, all rows of a unit are added up, and its total in each key is clipped to the range from `min_total` to `max_total`.
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"column": "spent", "rho": 0.01, "max_rows": 5},
        {"column": "spent", "by": ["visitor"], "keys": "threshold", "delta": 1e-9, "epsilon": 0.5, "max_groups": 1, "max_rows": 2},
        {"column": "spent", "by": ["state"], "max_total": 900, "min_total": 0, "epsilon": 0.5, "max_groups": 1},
        {
            "column": "spent",
            "by": ["visitor"],
            "keys": "threshold",
            "delta": 1e-9,
            "epsilon": 0.5,
            "max_groups": 1,
            "max_rows": 2,
            "intervals": "joint",
        },
    )

    independent_choice: ClassVar[bool] = True  # the keys are chosen by noisy numbers of units, and not by the noise on the sums

    measure: Annotated[str, MEASURE] = "sum"
    max_total: Annotated[
        float | None, Key("largest total of one unit in each key; all rows of a unit count, and a larger total counts as this one")
    ] = None
    min_total: Annotated[
        float | None,
        Key("smallest total of one unit in each key; default 0, if the column has min of at least 0", needs=OF_TOTALS),
    ] = None

    @property
    def replaces_max_rows(self) -> str | None:
        return None if self.max_total is None else "max_total"

    def needs(self, source: Source) -> Iterator[Problem]:
        if self.max_total is None:
            yield from ColumnQuery.needs(self, source)
            return
        yield from OpenKeysQuery.needs(self, source)
        # The column needs no min and max, because the totals are clipped.
        problems = tuple(number_problems(source, "column", self.column))
        yield from problems
        column = source.columns.get(self.column)
        if column is None or problems:
            return
        if self.min_total is None and (column.min is None or column.min < 0.0):
            yield ("min_total",), f'the smallest total of one unit, as "{self.column}" may be negative', "none"
        ends, step = {"min_total": self.min_total or 0.0, "max_total": self.max_total}, column.rounding_step or 1.0
        too_large = [name for name, end in ends.items() if not abs(end) / step < MOST_OF_UNIT]
        for name in too_large:
            yield (name,), f"below 2^62 steps of {step:g} from 0", f"{ends[name]!r}"
        if not too_large and not column.steps(ends["min_total"]) < column.steps(ends["max_total"]):
            yield ("max_total",), f"at least one step of {step:g} above min_total = {ends['min_total']:g}", f"{self.max_total:g}"

    def may_be_negative(self, source: Source) -> bool:
        return ColumnQuery.may_be_negative(self, source) if self.max_total is None else (self.min_total or 0.0) < 0.0

    def clip(self, setting: QuerySetting) -> tuple[int, int] | None:
        """Return the smallest and the largest total of a unit in whole steps; None if its rows are bounded."""
        column = setting.source.columns[self.column]
        return None if self.max_total is None else (column.steps(self.min_total or 0.0), column.steps(self.max_total))

    def contribution(self, setting: QuerySetting) -> Contribution:
        """Return the bound on what one unit adds to the sums: its rows, or one clipped total for each key."""
        clip, values = self.clip(setting), self.values(setting)
        rows, least, most, noun = self.rows, values.least, values.most, "row"
        if clip is not None:
            rows, (least, most), noun = 1, clip, "clipped total"
        one_row_always = has_one_row_per_unit(self, setting.source)
        return Contribution(self.groups, rows, least, most, one_row_always=one_row_always, one_key=not self.by, noun=noun)

    def mechanisms(self, setting: QuerySetting) -> tuple[QueryMechanism, ...]:
        values, contribution = self.values(setting), self.contribution(setting)
        if not self.shows_keys:
            return (noisy_vector(self, setting, contribution, step_size=values.step),)
        units_in_key = Contribution(self.groups, rows=1)  # what one unit adds to the numbers of units
        return (
            noisy_vector(self, setting, contribution, suffix="sum", cost_share=1.0 - KEYS_SHARE, step_size=values.step),
            key_selection(self, setting, units_in_key, self.delta or 0.0, suffix="keys", cost_share=KEYS_SHARE),
        )

    def aggregation(self, setting: QuerySetting) -> Aggregation:
        return replace(aggregation_of(self, setting, (steps_of(setting.source, self.column),)), clip=self.clip(setting))

    def answer(self, setting: QuerySetting, totals: Totals) -> QueryAnswer:
        sum_noise, *selections = self.mechanisms(setting)  # a selection of keys if they are not declared
        covers = coverage(self)
        if self.max_total is not None:
            covers += ", nor totals of units that were clipped"
        sums = add_noise({key: total.sums[0] for key, total in totals.items()}, sum_noise)
        if not selections:  # the keys are declared
            return additive_answer(self, sum_noise, sums, covers)
        (selection,) = selections
        shown_units = self.shown(add_noise({key: total.units for key, total in totals.items()}, selection), selection)
        return additive_answer(self, sum_noise, {key: sums[key] for key in shown_units}, f"{covers}; {HIDDEN}")

    def expected_error(self, setting: QuerySetting) -> str:
        selection = self.mechanisms(setting)[-1]  # not used if the keys are declared
        return f"{OpenKeysQuery.expected_error(self, setting)}{self.shown_words(selection, 'units')}"


def has_one_row_per_unit(query: Query, source: Source) -> bool:
    """Return whether every unit has exactly one row that counts, for a query about a column.

    This is so if each row is a unit of its own, and no `where`, key or missing value excludes a row.
    """
    column = source.columns[getattr(query, "column", "")]
    return source.unit is None and query.where is None and not query.by and column.missing is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanQuery(ColumnQuery):
    """The mean of a column for each key.

    If `count` gives a public number of rows, the noisy sum is divided by it. Otherwise the noisy sum is divided by a noisy count. Values
    are then centred at the middle of the range, so that a row adds at most half of the range, and the cost is split between sum and count
    so that the error is smallest if the mean may be anywhere in the range.
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"column": "age", "epsilon": 0.5, "max_rows": 1},
        {"column": "age", "rho": 0.5, "count": 1000, "max_rows": 1},
        {"column": "age", "by": ["visitor"], "keys": "threshold", "delta": 1e-9, "epsilon": 1, "max_groups": 1, "max_rows": 1},
    )

    measure: Annotated[str, MEASURE] = "mean"
    count: Annotated[int | None, Key("public number of rows; by default the rows are counted with noise", COUNT)] = None

    def problems(self) -> Iterator[Problem]:
        yield from ColumnQuery.problems(self)
        if self.error is not None and self.count is None:
            yield ("error",), "count, a public number of rows, if an error is stated; or epsilon, rho or weight", "none"
        if self.count is not None and (self.by or self.where):
            yield ("count",), "no by and no where with a public count", "by" if self.by else "where"

    def mechanisms(self, setting: QuerySetting) -> tuple[QueryMechanism, ...]:
        if self.count is not None:
            return (self._mechanism_over_public_count(setting, self.count),)
        values, share = self.values(setting), self.sum_share(setting)
        contribution = self.centred_contribution(values)
        return (
            noisy_vector(self, setting, contribution, suffix="sum", cost_share=share, step_size=values.step),
            self.count_mechanism(setting, 1.0 - share),
        )

    def _mechanism_over_public_count(self, setting: QuerySetting, count: int) -> QueryMechanism:
        """Return the mechanism that adds noise to the sum. Its steps are the column's steps divided by the count."""
        values = self.values(setting)
        one_row_always = has_one_row_per_unit(self, setting.source)
        contribution = Contribution(1, self.rows, values.least, values.most, one_row_always=one_row_always, one_key=True)
        mechanism = noisy_vector(self, setting, contribution, step_size=values.step / count)
        sum_change = sensitivity(setting.adjacency, contribution).l1 * values.step
        mean_change = (
            f"the sum changes by at most {figures(sum_change, 6, ROUND_CEILING)}; divided by the public count of {count:,}, the mean "
            f"changes by at most {figures(sum_change / count, 6, ROUND_CEILING)}"
        )
        return replace(mechanism, why=(*mechanism.why, mean_change))

    def sum_share(self, setting: QuerySetting) -> float:
        """Return the share of the cost for the sum. It gives the smallest error if the mean is uniform over the range.

        The root mean square of its distance from the middle is then UNKNOWN_MEAN times half of the range.
        """
        furthest = self.values(setting).furthest
        best_share = share_of_epsilon if is_laplace(self, setting.cost) else share_of_rho
        # The sensitivities are here the largest changes by one row.
        return best_share(sum_sensitivity=float(furthest), count_sensitivity=1.0, mean=UNKNOWN_MEAN * furthest)

    def aggregation(self, setting: QuerySetting) -> Aggregation:
        return aggregation_of(self, setting, (steps_of(setting.source, self.column),))

    def answer(self, setting: QuerySetting, totals: Totals) -> QueryAnswer:
        values, mechanisms = self.values(setting), self.mechanisms(setting)
        if self.count is not None:
            (sum_noise,) = mechanisms
            exact = {key: total.sums[0] for key, total in totals.items()}
            return self._over_public_count(sum_noise, exact, values.step, self.count)
        sum_noise, count_noise = mechanisms
        # A sum minus the middle of the range for each row is the centred sum.
        sums = add_noise({key: total.sums[0] - values.middle * total.rows for key, total in totals.items()}, sum_noise)
        counts = self.shown(add_noise({key: total.rows for key, total in totals.items()}, count_noise), count_noise)
        confidence = self.interval_confidence(len(counts))
        rows = tuple(self._row(key, noisy_mean(sums[key], counts[key], mechanisms, values), values, confidence) for key in counts)
        return answer_of(self, rows, self.covers(count_noise))

    def _row(self, key: tuple[KeyValue, ...], mean: NoisyMean, values: SteppedRange, confidence: float) -> AnswerRow:
        """Return the answer for one key, with the mean converted from steps from the centre to units of the column."""
        interval = mean.interval(confidence)
        # In floating point, because a mean need not be a whole number of steps.
        value, low, high = ((number + values.middle) * values.step for number in (mean.estimate(), interval.low, interval.high))
        return postprocessed_row(self, key, value, ConfidenceInterval(low, high, confidence))

    def _over_public_count(self, mechanism: QueryMechanism, exact: NumbersByKey, step: float, count: int) -> QueryAnswer:
        """Return the noisy sum divided by the public count. `exact` is the sum in whole steps, under the only key ()."""
        rows = []
        for key, number in add_noise(exact, mechanism).items():
            interval = public_mean_interval(number, law_of(mechanism), self.confidence, count, step)
            rows.append(postprocessed_row(self, key, on_grid(number, step) / count, interval))
        return answer_of(self, tuple(rows), f"{coverage(self)}; rows without a value count as 0")

    def expected_error(self, setting: QuerySetting) -> str:
        if self.count is not None:
            return ColumnQuery.expected_error(self, setting)
        values, (sum_noise, count_noise) = self.values(setting), self.mechanisms(setting)
        sum_law, count_law = law_of(sum_noise), law_of(count_noise)
        rows, row_words = self.assumed_rows(setting)
        answers = self.joint_count(setting)
        confidence = self.interval_confidence(answers)
        mean = UNKNOWN_MEAN * values.furthest
        error = expected_mean_error(sum_law, count_law, confidence, count=rows, mean=mean) * values.step
        distance = figures(error, 3, ROUND_CEILING)
        shown = self.shown_words(count_noise)
        return f"within about {distance} {row_words}, {self.probability_words(answers)}; proportional to 1 / rows{shown}"


def noisy_mean(total: int, count: int, mechanisms: Sequence[QueryMechanism], values: SteppedRange) -> NoisyMean:
    """Return the mean from a noisy sum, in steps from the centre, and a noisy count.

    mechanisms: the mechanism of the sum, and that of the count.
    """
    sum_noise, count_noise = mechanisms
    low, high = values.least - values.middle, values.most - values.middle
    return NoisyMean(total, count, law_of(sum_noise), law_of(count_noise), low, high)


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceQuery(ColumnQuery):
    """The variance of a column for each key, computed from the noisy sum of squares, sum and count of values centred at mid-range."""

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"column": "age", "epsilon": 0.5, "max_rows": 1},)

    measure: Annotated[str, MEASURE] = "variance"

    def problems(self) -> Iterator[Problem]:
        yield from ColumnQuery.problems(self)
        if self.error is not None:
            yield ("error",), "epsilon, rho or weight for a variance", "error"

    def needs(self, source: Source) -> Iterator[Problem]:
        yield from ColumnQuery.needs(self, source)
        if self.column not in source.columns or any(value_problems(source, "column", self.column, self.rows)):
            return
        if self.rows * stepped_range(source, self.column).furthest ** 2 >= MOST_OF_UNIT:
            yield ("column",), "rows x range^2 below 2^62 steps, or a larger step", f'"{self.column}"'

    def may_be_negative(self, source: Source) -> bool:
        return False

    def mechanisms(self, setting: QuerySetting) -> tuple[QueryMechanism, ...]:
        values = self.values(setting)
        squares = Contribution(self.groups, self.rows, least=0, most=values.furthest**2, one_key=not self.by)
        distances = self.centred_contribution(values)
        return (
            noisy_vector(self, setting, squares, suffix="squares", cost_share=SQUARES_SHARE, step_size=values.step**2),
            noisy_vector(self, setting, distances, suffix="sum", cost_share=SUM_SHARE, step_size=values.step),
            self.count_mechanism(setting, COUNT_SHARE),
        )

    def aggregation(self, setting: QuerySetting) -> Aggregation:
        squares = steps_of(setting.source, self.column, self.values(setting).middle)
        return aggregation_of(self, setting, (squares, steps_of(setting.source, self.column)))

    def answer(self, setting: QuerySetting, totals: Totals) -> QueryAnswer:
        values, (square_noise, sum_noise, count_noise) = self.values(setting), self.mechanisms(setting)
        # The sums of a total are those of `aggregation`: squared distances from the middle, then values.
        squares = add_noise({key: total.sums[0] for key, total in totals.items()}, square_noise)
        sums = add_noise({key: total.sums[1] - values.middle * total.rows for key, total in totals.items()}, sum_noise)
        counts = self.shown(add_noise({key: total.rows for key, total in totals.items()}, count_noise), count_noise)
        squared_step = values.step * values.step
        rows, confidence = [], self.interval_confidence(len(counts))
        for key in counts:
            mean = noisy_mean(sums[key], counts[key], (sum_noise, count_noise), values)
            variance = NoisyVariance(mean, squares[key], law_of(square_noise))
            interval = variance.interval(confidence)
            interval = replace(interval, low=interval.low * squared_step, high=interval.high * squared_step)
            rows.append(postprocessed_row(self, key, variance.estimate() * squared_step, interval))
        return answer_of(self, tuple(rows), self.covers(count_noise))

    def expected_error(self, setting: QuerySetting) -> str:
        square_noise, _, count_noise = self.mechanisms(setting)
        rows, row_words = self.assumed_rows(setting)
        answers = self.joint_count(setting)
        error = expected_error(law_of(square_noise), self.interval_confidence(answers), square_noise.step_size) / rows
        distance = f"at least {figures(error, 3)} {row_words}"
        return f"{distance}, {self.probability_words(answers)}; the noise of the mean adds to this{self.shown_words(count_noise)}"
