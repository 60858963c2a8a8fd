"""The measures stable-quantile, interquartile-range and clustered-mean, for columns without declared bounds.

They use propose-test-release (Dwork & Lei 2009). The query proposes a bound on how much one *unit* (whom the release protects, with all of
its rows) changes the answer. A noisy test decides whether many units would have to change before the bound failed on these data. If so, the
answer gets noise of the proposed size; if the test fails, there is no answer. The test's delta bounds the probability of an answer that was
not stable. Numbers are whole *steps*, the declared unit of rounding of a column.

Each class is a kind of [[query]] table, and a field is a key of the table: its `Key` has the help text and the constraint on the value, and
`examples` are tables for tests. `dpcli release` calls the methods in the order that query.py states. `needs` yields what is wrong with the
table, as (path of a key, what was expected, what was found). `mechanisms` returns the test and the noise to price, `aggregation` the exact
counts to ask an engine for, and `answer` the noisy answer, if the test passes. They depend on the table and on `setting`: [source], the
adjacency and the query's cost. stability/stable_statistics.py computes the distances that are tested; an error in them would break the
guarantee.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dpcli.base.fields import COUNT, DELTA, OPEN_UNIT, POSITIVE, Key
from dpcli.base.rounding import figures
from dpcli.file.toml.findings import Problem
from dpcli.release.answers.intervals import ConfidenceInterval, additive_interval, on_grid, whole_steps
from dpcli.release.answers.postprocessing import NON_NEGATIVE, cut_at_zero
from dpcli.release.column_values import number_problems, stepped_range
from dpcli.release.data_source import Source
from dpcli.release.group_keys import aggregation_by, stepped_key
from dpcli.release.measures.averages import has_one_row_per_unit
from dpcli.release.noise.laws import DiscreteGaussianLaw, DiscreteLaplaceLaw, scale_of
from dpcli.release.noisy_answers import coverage, gaussian_draw, laplace_draw, law_of
from dpcli.release.query import MEASURE, Query, QueryMechanism, QuerySetting
from dpcli.release.query_answer import AnswerRow, QueryAnswer
from dpcli.release.stability.propose_test import StabilityTest, StableAnswer
from dpcli.release.stability.stable_statistics import (
    CountedNumbers,
    centred_sum,
    released_mean,
    released_number,
    squared_sensitivity,
    stable_quantile,
    stable_range,
)
from dpcli.release.vectors import sensitivity

if TYPE_CHECKING:
    from dpcli.release.aggregate import Aggregation, Totals


# Share of the cost for the test; the noise uses the rest. It is chosen by hand, and affects how often there is an answer, and its accuracy.
TEST_SHARE = 0.5
TEST_DELTA = Key("largest probability of an answer that one unit could change by more than the proposed distance", DELTA)
NUMBERS = Key("column of numbers; its [source.columns] entry has step, and needs no bounds")


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedQuery(Query):
    """A statistic of a column that is released only if a noisy test finds that many units would have to change before it moves by much."""

    proposal: ClassVar[str]  # name of the key that states a distance in units of the column

    column: Annotated[str, NUMBERS]

    def needs(self, source: Source) -> Iterator[Problem]:
        yield from Query.needs(self, source)
        problems = tuple(number_problems(source, "column", self.column))
        yield from problems
        if not problems and self.column in source.columns and self.proposed_steps(source) < 1:
            step = source.columns[self.column].rounding_step
            yield (self.proposal,), f"at least one step of {step:g}", f"{getattr(self, self.proposal):g}"

    def proposed_steps(self, source: Source) -> int:
        return whole_steps(getattr(self, self.proposal), stepped_range(source, self.column).step)

    def test_mechanism(self, epsilon: float, delta: float, why: tuple[str, ...]) -> QueryMechanism:
        """Return the mechanism of the test. Its key `mechanism` names the entry with the suffix "noise", which releases the answer.

        That entry is charged together with the test.
        """
        keys = {"epsilon": epsilon, "delta": delta, "mechanism": f"{self.name}.noise"}
        return QueryMechanism("test", "propose-test-release", keys, why)

    def aggregation(self, setting: QuerySetting) -> Aggregation:
        # The only part of the key is the value, in steps; the rows of a unit are bounded over all values together.
        return replace(aggregation_by(self, setting, (stepped_key(setting.source, self.column),)), max_groups=1)


def _counts_of(totals: Totals) -> dict[int, int]:
    """Return the exact, private number of rows with each number of steps."""
    return {int(number): total.rows for (number,), total in totals.items() if total.rows}


def _test_of(mechanism: QueryMechanism) -> StabilityTest:
    """Return the test that a mechanism of type propose-test-release performs."""
    return StabilityTest(mechanism.keys["epsilon"], mechanism.keys["delta"])


@dataclass(frozen=True, slots=True, kw_only=True)
class StableQuery(TestedQuery):
    """A number that is released if one unit changes it by at most `within`, even after few units changed. Noise is scaled to `within`."""

    proposal: ClassVar[str] = "within"

    within: Annotated[float, Key("proposed bound on the change of the answer by one unit, in units of the column", POSITIVE)]
    delta: Annotated[float, TEST_DELTA]

    def mechanisms(self, setting: QuerySetting) -> tuple[QueryMechanism, ...]:
        assert setting.cost is not None  # only a NoisyQuery may state an error in place of a cost
        test_epsilon = setting.cost.share(TEST_SHARE).pure_epsilon
        noise_epsilon = setting.cost.share(1.0 - TEST_SHARE).pure_epsilon
        bound, step = self.proposed_steps(setting.source), stepped_range(setting.source, self.column).step
        law = DiscreteLaplaceLaw(scale_of(bound, noise_epsilon))
        proposed = f"proposal: one unit changes the answer by at most {self.within:g}, which is {bound:,} steps"
        tested = (
            "one unit changes by at most 1 the number of units that must change to break this bound: tested at epsilon "
            f"{test_epsilon:.6g}"
        )
        scaled = f"then discrete Laplace noise of scale {law.scale:.6g} steps, epsilon {noise_epsilon:.6g}"
        return (
            self.test_mechanism(test_epsilon, self.delta, (proposed, tested)),
            QueryMechanism("noise", "discrete-laplace", {"scale": law.scale, "sensitivity": bound}, (scaled,), law, step_size=step),
        )

    def answer(self, setting: QuerySetting, totals: Totals) -> QueryAnswer:
        assert setting.cost is not None
        test, noise = self.mechanisms(setting)
        bound, epsilon = self.proposed_steps(setting.source), setting.cost.share(1.0 - TEST_SHARE).pure_epsilon
        stable = self.stable_answer(self._numbers(setting, totals), bound)
        row = self._row(released_number(stable, bound, _test_of(test), epsilon, laplace_draw), noise)
        covers = f"{coverage(self)}; the answer is none if the test fails"
        return QueryAnswer(self.name, self.measure, (), (row,), self.confidence, covers)

    def _row(self, value: int | None, noise: QueryMechanism) -> AnswerRow:
        """Return the answer for a noisy number of steps; an answer without value and interval if it is None."""
        if value is None:
            return AnswerRow((), None)
        interval = additive_interval(value, law_of(noise), self.confidence, noise.step_size)
        return AnswerRow((), on_grid(value, noise.step_size), interval.low, interval.high)

    def _numbers(self, setting: QuerySetting, totals: Totals) -> CountedNumbers:
        """Return the exact, private numbers of steps, with the bounds of the column if both are declared."""
        one_row_always = has_one_row_per_unit(self, setting.source)
        numbers = CountedNumbers(_counts_of(totals), setting.adjacency, rows=self.rows, one_row_always=one_row_always)
        if not setting.source.columns[self.column].bounded:
            return numbers
        values = stepped_range(setting.source, self.column)
        return replace(numbers, low=float(values.least), high=float(values.most))

    def stable_answer(self, numbers: CountedNumbers, bound: int) -> StableAnswer[int]:
        """Return the exact statistic, and the number of units that may change before one unit can move it by more than `bound` steps."""
        raise NotImplementedError

    def expected_error(self, setting: QuerySetting) -> str:
        _, noise = self.mechanisms(setting)
        interval = additive_interval(0, law_of(noise), self.confidence, noise.step_size)
        distance = figures(interval.high, 6, ROUND_CEILING)
        return f"within {distance} if there is an answer, with probability {self.confidence:.6g}; no answer if few units could change it"


@dataclass(frozen=True, slots=True, kw_only=True)
class StableQuantileQuery(StableQuery):
    """A quantile by propose-test-release. The default is the median.

    At most max_rows rows of one unit count.

    Source: Dwork & Lei 2009, Differential privacy and robust statistics.
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"column": "spent", "within": 5, "epsilon": 1.0, "delta": 1e-7, "max_rows": 1},
        {"column": "age", "quantile": 0.9, "within": 2, "epsilon": 1.0, "delta": 1e-7, "max_rows": 1},
    )

    measure: Annotated[str, MEASURE] = "stable-quantile"
    quantile: Annotated[float, Key("share of the rows below the quantile; default 0.5, the median", OPEN_UNIT)] = 0.5

    def stable_answer(self, numbers: CountedNumbers, bound: int) -> StableAnswer[int]:
        return stable_quantile(numbers, Fraction(repr(self.quantile)), bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class StableRangeQuery(StableQuery):
    """The interquartile range by propose-test-release: the width of the range that holds the middle half of the rows.

    At most max_rows rows of one unit count.

    Source: Dwork & Lei 2009, Differential privacy and robust statistics.
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"column": "spent", "within": 10, "epsilon": 1.0, "delta": 1e-7, "max_rows": 1},
    )

    measure: Annotated[str, MEASURE] = "interquartile-range"

    def stable_answer(self, numbers: CountedNumbers, bound: int) -> StableAnswer[int]:
        return stable_range(numbers, bound)

    def answer(self, setting: QuerySetting, totals: Totals) -> QueryAnswer:
        """Return the noisy answer, cut at 0 because no range is negative."""
        answer = StableQuery.answer(self, setting, totals)
        (row,) = answer.rows
        if row.value is None:
            return answer
        assert row.lower is not None and row.upper is not None  # a row with a value has an interval
        interval = ConfidenceInterval(row.lower, row.upper, self.confidence)
        value, interval = cut_at_zero(float(row.value), interval)
        return replace(answer, rows=(AnswerRow((), value, interval.low, interval.high),), postprocessed=(NON_NEGATIVE,))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteredMeanQuery(TestedQuery):
    """The mean of a column if most rows lie in one bin.

    The fullest bin is released by propose-test-release. Rows are then clamped to this bin and its two neighbours, and the mean of the
    clamped values is released with noise. The column needs no bounds. If the test fails, the answer is none. At most max_rows rows of one
    unit count.
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"column": "spent", "width": 50, "rho": 0.1, "delta": 1e-7, "max_rows": 1},
        {"column": "age", "width": 10, "epsilon": 1.0, "delta": 1e-7, "max_rows": 1, "count": 1000},
    )

    proposal: ClassVar[str] = "width"

    measure: Annotated[str, MEASURE] = "clustered-mean"
    width: Annotated[float, Key("width of a bin, in units of the column", POSITIVE)]
    delta: Annotated[float, Key("largest probability of an answer if one unit could make another bin the fullest", DELTA)]
    count: Annotated[int | None, Key("public number of rows; by default the rows are counted with noise", COUNT)] = None

    def mechanisms(self, setting: QuerySetting) -> tuple[QueryMechanism, ...]:
        assert setting.cost is not None
        epsilon = setting.cost.share(TEST_SHARE).pure_epsilon
        width = self.proposed_steps(setting.source)
        change = sensitivity(setting.adjacency, centred_sum(self.rows, width)).l1
        squared = change**2 if self.count is not None else squared_sensitivity(setting.adjacency, self.rows, width)
        sigma = setting.cost.share(1.0 - TEST_SHARE).gaussian_sigma(squared)  # raises InputError if a double cannot hold sigma^2
        law = DiscreteGaussianLaw(sigma)
        if self.count is not None:
            keys = {"sensitivity": change, "dimension": 1}
        else:
            keys = {"l2_sensitivity": squared**0.5 * (1.0 + 1e-15)}  # the factor exceeds the error of the root, so it is rounded up
        tested = (
            "one unit changes by at most 1 the number of units that must change for another fullest bin: tested at epsilon "
            f"{epsilon:.6g}"
        )
        clamped = (
            f"rows are clamped to three bins of {self.width:g}: one unit changes their centred sum by at most {change:,} steps"
        )
        return (
            self.test_mechanism(epsilon, self.delta, (tested,)),
            QueryMechanism("noise", "discrete-gaussian", {"sigma": law.sigma, **keys}, (clamped,), law),
        )

    def answer(self, setting: QuerySetting, totals: Totals) -> QueryAnswer:
        test, noise = self.mechanisms(setting)
        numbers = CountedNumbers(_counts_of(totals), setting.adjacency, rows=self.rows)
        width, sigma = self.proposed_steps(setting.source), noise.keys["sigma"]
        steps = released_mean(numbers, width, _test_of(test), sigma, draw=laplace_draw, gaussian=gaussian_draw, count=self.count)
        value = None if steps is None else steps * stepped_range(setting.source, self.column).step
        return QueryAnswer(self.name, self.measure, (), (AnswerRow((), value),), self.confidence, self.expected_error(setting))

    def expected_error(self, setting: QuerySetting) -> str:
        return (
            "no answer if few units could make another bin the fullest; a value outside the three bins counts as their nearest edge"
        )
