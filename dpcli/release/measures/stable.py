"""Quantiles, the distance of the quartiles, and means by propose-test-release: no bounds of the column are needed, none is an answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dpcli.base.errors import InternalError
from dpcli.base.fields import COUNT, DELTA, OPEN_UNIT, POSITIVE, Key
from dpcli.base.rounding import figures
from dpcli.file.toml.findings import Problem
from dpcli.release.answers.intervals import ConfidenceInterval, additive_interval, on_grid, whole_steps
from dpcli.release.answers.tidy import NON_NEGATIVE, non_negative
from dpcli.release.data_source import Source, number_problems, stepped
from dpcli.release.group_keys import aggregation_by, stepped_key
from dpcli.release.measures.averages import always_there
from dpcli.release.noise.laws import DiscreteGaussianLaw, DiscreteLaplaceLaw
from dpcli.release.numbers import NOISE_ALONE, gaussian_draw, laplace_draw
from dpcli.release.query import MEASURE, Query, QueryRelease, QuerySetting
from dpcli.release.query_answer import AnswerRow, QueryAnswer
from dpcli.release.stability.propose_test import StabilityTest
from dpcli.release.stability.stable_statistics import (
    CountedNumbers,
    noise_scale,
    released_mean,
    released_quantile,
    released_range,
    squared_sensitivity,
    sum_sensitivity,
)

if TYPE_CHECKING:
    from dpcli.release.aggregate import Aggregation, Totals


TESTED = 0.5  # of the cost, for the test
PASS = Key("probability to answer where one unit could move the answer further", DELTA)
NUMBERS = Key("the column of numbers, with step; bounds are not needed")


@dataclass(frozen=True, slots=True, kw_only=True)
class StableQuery(Query):
    """A number that is released where few units cannot move it by more than `within`; the noise is scaled to that."""

    column: Annotated[str, NUMBERS]
    within: Annotated[float, Key("how far one unit may move the answer, in units of the column: what is proposed", POSITIVE)]
    delta: Annotated[float, PASS]

    def needs(self, source: Source) -> Iterator[Problem]:
        yield from Query.needs(self, source)
        lacking = tuple(number_problems(source, "column", self.column))
        yield from lacking
        if not lacking and self.column in source.columns and self.most(source) < 1:
            yield ("within",), f"at least one step of {source.columns[self.column].unit_step:g}", f"{self.within:g}"

    def most(self, source: Source) -> int:
        """Return what is proposed, in whole steps."""
        return whole_steps(self.within, stepped(source, self.column).step)

    def releases(self, setting: QuerySetting) -> tuple[QueryRelease, ...]:
        assert setting.cost is not None
        test, noise = setting.cost.share(TESTED).pure_epsilon, setting.cost.share(1.0 - TESTED).pure_epsilon
        most, step = self.most(setting.source), stepped(setting.source, self.column).step
        law = DiscreteLaplaceLaw(noise_scale(most, noise))
        keys = {"epsilon": test, "delta": self.delta, "mechanism": f"{self.name}.noise"}
        proposed = f"proposed: one unit moves the answer by at most {self.within:g}, which is {most:,} steps"
        tested = f"how many units would have to change for more moves by at most 1: tested at epsilon {test:.6g}"
        scaled = f"then discrete Laplace noise of scale {law.scale:.6g} steps, epsilon {noise:.6g}"
        return (
            QueryRelease("test", "propose-test-release", keys, (proposed, tested)),
            QueryRelease("noise", "discrete-laplace", {"scale": law.scale, "sensitivity": most}, (scaled,), law, step),
        )

    def aggregation(self, setting: QuerySetting) -> Aggregation:
        return aggregation_by(self, setting, (stepped_key(setting.source, self.column),), (), groups=1, rows=self.rows)

    def answer(self, setting: QuerySetting, totals: Totals) -> QueryAnswer:
        test, noise = self.releases(setting)
        value = self.tested(
            self.numbers(setting, totals),
            self.most(setting.source),
            StabilityTest(test.keys["epsilon"], test.keys["delta"]),
            setting.cost.share(1.0 - TESTED).pure_epsilon if setting.cost is not None else 0.0,
        )
        return QueryAnswer(
            self.name, self.measure, (), (self._row(value, noise),), self.confidence, f"{NOISE_ALONE}; none is an answer"
        )

    def _row(self, value: int | None, noise: QueryRelease) -> AnswerRow:
        if value is None:
            return AnswerRow((), None)
        if noise.law is None:
            raise InternalError("a release without noise")
        around = additive_interval(value, noise.law, self.confidence, noise.unit)
        return AnswerRow((), on_grid(value, noise.unit), around.low, around.high)

    def numbers(self, setting: QuerySetting, totals: Totals) -> CountedNumbers:
        """The exact numbers, in whole steps."""
        counts = {int(number): total.rows for (number,), total in totals.items() if total.rows}
        values, column = stepped(setting.source, self.column), setting.source.columns[self.column]
        bounds = {} if not column.bounded else {"low": float(values.least), "high": float(values.most)}
        return CountedNumbers(counts, setting.adjacency, self.rows, always_there(self, setting.source), **bounds)

    def tested(self, numbers: CountedNumbers, most: int, test: StabilityTest, epsilon: float) -> int | None:
        """The noisy answer in whole steps, None where the test fails."""
        raise NotImplementedError

    def expected_error(self, setting: QuerySetting) -> str:
        _, noise = self.releases(setting)
        assert noise.law is not None
        around = additive_interval(0, noise.law, self.confidence, noise.unit)
        distance = figures(around.high, 6, ROUND_CEILING)
        return f"within {distance} where it answers, with probability {self.confidence:.6g}; none where few units could move it"


@dataclass(frozen=True, slots=True, kw_only=True)
class StableQuantileQuery(StableQuery):
    """A quantile by propose-test-release: the median, where nothing else is asked for.

    Of one unit at most max_rows rows count.

    Source: Dwork & Lei 2009, Differential privacy and robust statistics.
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"column": "spent", "within": 5, "epsilon": 1.0, "delta": 1e-7, "max_rows": 1},
        {"column": "age", "quantile": 0.9, "within": 2, "epsilon": 1.0, "delta": 1e-7, "max_rows": 1},
    )

    measure: Annotated[str, MEASURE] = "stable-quantile"
    quantile: Annotated[float, Key("share of the rows below", OPEN_UNIT)] = 0.5

    def tested(self, numbers: CountedNumbers, most: int, test: StabilityTest, epsilon: float) -> int | None:
        return released_quantile(numbers, Fraction(repr(self.quantile)), most, test, epsilon, laplace_draw)


@dataclass(frozen=True, slots=True, kw_only=True)
class StableRangeQuery(StableQuery):
    """The interquartile range by propose-test-release: how far the middle half of the rows spreads.

    Of one unit at most max_rows rows count.

    Source: Dwork & Lei 2009, Differential privacy and robust statistics.
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"column": "spent", "within": 10, "epsilon": 1.0, "delta": 1e-7, "max_rows": 1},
    )

    measure: Annotated[str, MEASURE] = "interquartile-range"

    def tested(self, numbers: CountedNumbers, most: int, test: StabilityTest, epsilon: float) -> int | None:
        return released_range(numbers, most, test, epsilon, laplace_draw)

    def answer(self, setting: QuerySetting, totals: Totals) -> QueryAnswer:
        """Answer; no range is below 0."""
        answer = StableQuery.answer(self, setting, totals)
        (row,) = answer.rows
        if row.value is None:
            return answer
        value, around = non_negative(float(row.value), ConfidenceInterval(row.lower or 0.0, row.upper or 0.0, self.confidence))
        return replace(answer, rows=(AnswerRow((), value, around.low, around.high),), postprocessed=(NON_NEGATIVE,))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteredMeanQuery(Query):
    """The mean where most rows lie in one bin: the fullest bin by propose-test-release, then the mean clamped to it and the two beside it.

    No bounds of the column are needed; none is an answer. Of one unit at most max_rows rows count.
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"column": "spent", "width": 50, "rho": 0.1, "delta": 1e-7, "max_rows": 1},
        {"column": "age", "width": 10, "epsilon": 1.0, "delta": 1e-7, "max_rows": 1, "count": 1000},
    )

    measure: Annotated[str, MEASURE] = "clustered-mean"
    column: Annotated[str, NUMBERS]
    width: Annotated[float, Key("width of a bin, in units of the column", POSITIVE)]
    delta: Annotated[float, Key("probability to answer where one unit could make another bin the fullest", DELTA)]
    count: Annotated[int | None, Key("number of rows, declared public; where absent it is counted, with noise", COUNT)] = None

    def needs(self, source: Source) -> Iterator[Problem]:
        yield from Query.needs(self, source)
        lacking = tuple(number_problems(source, "column", self.column))
        yield from lacking
        if not lacking and self.column in source.columns and self.steps(source) < 1:
            yield ("width",), f"at least one step of {source.columns[self.column].unit_step:g}", f"{self.width:g}"

    def steps(self, source: Source) -> int:
        """The width of a bin in whole steps."""
        return whole_steps(self.width, stepped(source, self.column).step)

    def releases(self, setting: QuerySetting) -> tuple[QueryRelease, ...]:
        assert setting.cost is not None
        epsilon = setting.cost.share(TESTED).pure_epsilon
        numbers, width = CountedNumbers({}, setting.adjacency, self.rows), self.steps(setting.source)
        moved = sum_sensitivity(numbers, width)
        squared = squared_sensitivity(numbers, width) if self.count is None else moved**2
        law = DiscreteGaussianLaw(setting.cost.share(1.0 - TESTED).gaussian_sigma(squared))
        keys = (
            {"sensitivity": moved, "dimension": 1} if self.count is not None else {"l2_sensitivity": squared**0.5 * (1.0 + 1e-15)}
        )
        test = {"epsilon": epsilon, "delta": self.delta, "mechanism": f"{self.name}.noise"}
        tested = f"how many units would have to change for another bin moves by at most 1: tested at epsilon {epsilon:.6g}"
        clamped = f"rows are clamped to three bins of {self.width:g}: one unit moves their centred sum by at most {moved:,} steps"
        return (
            QueryRelease("test", "propose-test-release", test, (tested,)),
            QueryRelease("noise", "discrete-gaussian", {"sigma": law.sigma, **keys}, (clamped,), law),
        )

    def aggregation(self, setting: QuerySetting) -> Aggregation:
        return aggregation_by(self, setting, (stepped_key(setting.source, self.column),), (), groups=1, rows=self.rows)

    def answer(self, setting: QuerySetting, totals: Totals) -> QueryAnswer:
        test, noise = self.releases(setting)
        numbers = CountedNumbers(
            {int(key): total.rows for (key,), total in totals.items() if total.rows}, setting.adjacency, self.rows
        )
        passed = StabilityTest(test.keys["epsilon"], test.keys["delta"])
        value = released_mean(
            numbers, self.steps(setting.source), passed, noise.keys["sigma"], laplace_draw, gaussian_draw, self.count
        )
        value = None if value is None else value * stepped(setting.source, self.column).step
        return QueryAnswer(self.name, self.measure, (), (AnswerRow((), value),), self.confidence, self.expected_error(setting))

    def expected_error(self, setting: QuerySetting) -> str:
        return "none where few units could make another bin the fullest; what lies outside of three bins counts as at their edge"
