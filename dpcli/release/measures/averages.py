"""The measures sum, mean and variance of a column, whose values are clamped and rounded to whole steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dpcli.base.fields import COUNT, Key
from dpcli.base.rounding import figures
from dpcli.file.toml.findings import Problem
from dpcli.release.aggregate import KeyValue
from dpcli.release.answers.intervals import ConfidenceInterval, expected_error, on_grid, public_mean_interval
from dpcli.release.answers.ratios import UNKNOWN_MEAN, NoisyMean, NoisyVariance, expected_mean_error, share_of_epsilon, share_of_rho
from dpcli.release.data_source import Source, SteppedRange, largest_distance_from_middle, stepped_range, value_problems
from dpcli.release.group_keys import aggregation_of, steps_of
from dpcli.release.noisy_answers import NOISE_ALONE, NumbersByKey, add_noise, additive_answer, answer_of, law_of, postprocessed_row
from dpcli.release.query import MEASURE, NoisyQuery, Query, QueryRelease, QuerySetting, error_text
from dpcli.release.query_answer import AnswerRow, QueryAnswer
from dpcli.release.vectors import Contribution, is_laplace, noisy_vector, sensitivity

if TYPE_CHECKING:
    from dpcli.release.aggregate import Aggregation, Totals


COLUMN = Key("column of numbers; its [source.columns] entry has min, max and step")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnQuery(NoisyQuery):
    """A measure that adds up the clamped values of a column, in whole steps."""

    column: Annotated[str, COLUMN]

    def needs(self, source: Source) -> Iterator[Problem]:
        yield from NoisyQuery.needs(self, source)
        yield from value_problems(source, "column", self.column, self.rows)

    def may_be_negative(self, source: Source) -> bool:
        return self.column in source.columns and not (source.columns[self.column].min or 0.0) >= 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SumQuery(ColumnQuery):
    """The sum of a column for each key. Values are clamped and rounded to whole steps."""

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"column": "spent", "rho": 0.01, "max_rows": 5},)

    measure: Annotated[str, MEASURE] = "sum"

    def releases(self, setting: QuerySetting) -> tuple[QueryRelease, ...]:
        return (
            noisy_vector(self, setting, self.contribution(setting.source), unit=stepped_range(setting.source, self.column).step),
        )

    def aggregation(self, setting: QuerySetting) -> Aggregation:
        return aggregation_of(self, setting, (steps_of(setting.source, self.column),))

    def answer(self, setting: QuerySetting, totals: Totals) -> QueryAnswer:
        (release,) = self.releases(setting)
        exact = {key: total.sums[0] for key, total in totals.items()}
        return additive_answer(self, release, add_noise(exact, release), NOISE_ALONE)

    def contribution(self, source: Source) -> Contribution:
        values = stepped_range(source, self.column)
        return Contribution(self.groups, self.rows, values.least, values.most, has_one_row_per_unit(self, source), not self.by)


def has_one_row_per_unit(query: Query, source: Source) -> bool:
    """Return whether every unit has exactly one row that counts.

    The condition holds if each row is a unit of its own, and no `where`, key or missing value excludes a row.
    """
    name = getattr(query, "column", "")
    return source.unit is None and query.where is None and not query.by and source.columns[name].missing is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanQuery(ColumnQuery):
    """The mean of a column for each key.

    If `count` gives a public number of rows, the noisy sum is divided by it. Otherwise the noisy sum is divided by a noisy count. Values
    are then centred at the middle of the range, so that a row adds at most half of the range, and the cost is split between sum and count
    so that the error of the mean is smallest.
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"column": "age", "epsilon": 0.5, "max_rows": 1},
        {"column": "age", "rho": 0.5, "count": 1000, "max_rows": 1},
    )

    measure: Annotated[str, MEASURE] = "mean"
    count: Annotated[int | None, Key("public number of rows; by default the rows are counted with noise", COUNT)] = None

    def problems(self) -> Iterator[Problem]:
        yield from NoisyQuery.problems(self)
        if self.error is not None and self.count is None:
            yield ("error",), "count, a public number of rows, if an error is stated; or epsilon, rho or weight", "none"
        if self.count is not None and (self.by or self.where):
            yield ("count",), "no by and no where with a public count", "by" if self.by else "where"

    def releases(self, setting: QuerySetting) -> tuple[QueryRelease, ...]:
        values = stepped_range(setting.source, self.column)
        if self.count is not None:
            fixed = has_one_row_per_unit(self, setting.source)
            summed = Contribution(1, self.rows, values.least, values.most, fixed, one_key=True)
            released = noisy_vector(self, setting, summed, unit=values.step / self.count)
            change = sensitivity(setting.adjacency, summed).l1 * values.step
            mean = change / self.count
            mean_change = (
                f"the sum changes by at most {figures(change, 6, ROUND_CEILING)}; divided by the public count of {self.count:,}, the mean "
                f"changes by at most {figures(mean, 6, ROUND_CEILING)}"
            )
            return (replace(released, why=(*released.why, mean_change)),)
        part = self.sum_part(setting)
        centred = Contribution(
            self.groups, self.rows, values.least - values.middle, values.most - values.middle, one_key=not self.by
        )
        ones = Contribution(self.groups, self.rows, 1, 1, one_key=not self.by)
        return (
            noisy_vector(self, setting, centred, "sum", part, values.step),
            noisy_vector(self, setting, ones, "count", 1.0 - part),
        )

    def sum_part(self, setting: QuerySetting) -> float:
        """Return the share of the cost for the sum. It gives the smallest error if the mean is uniform over the range."""
        furthest = largest_distance_from_middle(stepped_range(setting.source, self.column))
        share = share_of_epsilon if is_laplace(self, setting.cost) else share_of_rho
        return share(float(furthest), 1.0, UNKNOWN_MEAN * furthest)

    def aggregation(self, setting: QuerySetting) -> Aggregation:
        return aggregation_of(self, setting, (steps_of(setting.source, self.column),))

    def answer(self, setting: QuerySetting, totals: Totals) -> QueryAnswer:
        values, releases = stepped_range(setting.source, self.column), self.releases(setting)
        if self.count is not None:
            return self._over_public_count(
                releases[0], {key: total.sums[0] for key, total in totals.items()}, values.step, self.count
            )
        sums = add_noise({key: total.sums[0] - values.middle * total.rows for key, total in totals.items()}, releases[0])
        counts = add_noise({key: total.rows for key, total in totals.items()}, releases[1])
        rows = tuple(self._row(key, noisy_mean(sums[key], counts[key], releases, values), values) for key in sums)
        return answer_of(self, rows)

    def _row(self, key: tuple[KeyValue, ...], mean: NoisyMean, values: SteppedRange) -> AnswerRow:
        around = mean.interval(self.confidence)
        value, low, high = ((number + values.middle) * values.step for number in (mean.estimate(), around.low, around.high))
        return postprocessed_row(self, key, value, ConfidenceInterval(low, high, self.confidence))

    def _over_public_count(self, release: QueryRelease, exact: NumbersByKey, step: float, count: int) -> QueryAnswer:
        numbers = add_noise(exact, release)
        around = {
            key: public_mean_interval(number, law_of(release), self.confidence, count, step) for key, number in numbers.items()
        }
        rows = tuple(postprocessed_row(self, key, on_grid(number, step) / count, around[key]) for key, number in numbers.items())
        return answer_of(self, rows, f"{NOISE_ALONE}; rows without a value count as 0")

    def expected_error(self, setting: QuerySetting) -> str:
        releases = self.releases(setting)
        if self.count is not None:
            return error_text(releases[0], self.confidence)
        values = stepped_range(setting.source, self.column)
        laws = (law_of(releases[0]), law_of(releases[1]))
        rows, of_rows = self.assumed_rows(setting)
        error = expected_mean_error(*laws, self.confidence, rows, UNKNOWN_MEAN * largest_distance_from_middle(values)) * values.step
        distance = figures(error, 3, ROUND_CEILING)
        return f"within about {distance} {of_rows}, with probability {self.confidence:.6g}; proportional to 1 / rows"


def noisy_mean(total: int, count: int, releases: Sequence[QueryRelease], values: SteppedRange) -> NoisyMean:
    """Return the mean of a noisy sum, in steps from the centre, and a noisy count."""
    return NoisyMean(
        total, count, law_of(releases[0]), law_of(releases[1]), values.least - values.middle, values.most - values.middle
    )


# Shares of the cost for the sum of squares, the sum and the count; any positive shares with the total 1 are valid.
SQUARES_SHARE, SUM_SHARE, COUNT_SHARE = 0.4, 0.3, 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceQuery(ColumnQuery):
    """The variance of a column for each key, computed from the noisy sum of squares, sum and count of values centred at mid-range."""

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"column": "age", "epsilon": 0.5, "max_rows": 1},)

    measure: Annotated[str, MEASURE] = "variance"

    def problems(self) -> Iterator[Problem]:
        yield from NoisyQuery.problems(self)
        if self.error is not None:
            yield ("error",), "epsilon, rho or weight for a variance", "error"

    def needs(self, source: Source) -> Iterator[Problem]:
        yield from ColumnQuery.needs(self, source)
        if self.column not in source.columns or any(value_problems(source, "column", self.column, self.rows)):
            return
        if self.rows * largest_distance_from_middle(stepped_range(source, self.column)) ** 2 >= 2**62:
            yield ("column",), "rows x range^2 below 2^62 steps, or a larger step", f'"{self.column}"'

    def may_be_negative(self, source: Source) -> bool:
        return False

    def releases(self, setting: QuerySetting) -> tuple[QueryRelease, ...]:
        values, one_key = stepped_range(setting.source, self.column), not self.by
        most = largest_distance_from_middle(values)
        centred = Contribution(self.groups, self.rows, values.least - values.middle, values.most - values.middle, one_key=one_key)
        squares = Contribution(self.groups, self.rows, 0, most * most, one_key=one_key)
        ones = Contribution(self.groups, self.rows, 1, 1, one_key=one_key)
        return (
            noisy_vector(self, setting, squares, "squares", SQUARES_SHARE, values.step**2),
            noisy_vector(self, setting, centred, "sum", SUM_SHARE, values.step),
            noisy_vector(self, setting, ones, "count", COUNT_SHARE),
        )

    def aggregation(self, setting: QuerySetting) -> Aggregation:
        middle = stepped_range(setting.source, self.column).middle
        return aggregation_of(self, setting, (steps_of(setting.source, self.column, middle), steps_of(setting.source, self.column)))

    def answer(self, setting: QuerySetting, totals: Totals) -> QueryAnswer:
        values, releases = stepped_range(setting.source, self.column), self.releases(setting)
        squares = add_noise({key: total.sums[0] for key, total in totals.items()}, releases[0])
        sums = add_noise({key: total.sums[1] - values.middle * total.rows for key, total in totals.items()}, releases[1])
        counts = add_noise({key: total.rows for key, total in totals.items()}, releases[2])
        square = values.step * values.step
        rows = []
        for key in squares:
            variance = NoisyVariance(noisy_mean(sums[key], counts[key], releases[1:], values), squares[key], law_of(releases[0]))
            around = variance.interval(self.confidence)
            around = replace(around, low=around.low * square, high=around.high * square)
            rows.append(postprocessed_row(self, key, variance.estimate() * square, around))
        return answer_of(self, tuple(rows))

    def expected_error(self, setting: QuerySetting) -> str:
        releases = self.releases(setting)
        rows, of_rows = self.assumed_rows(setting)
        error = expected_error(law_of(releases[0]), self.confidence, releases[0].unit) / rows
        distance = f"at least {figures(error, 3)} {of_rows}"
        return f"{distance}, with probability {self.confidence:.6g}; the noise of the mean adds to this"
