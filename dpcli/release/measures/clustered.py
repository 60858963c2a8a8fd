"""The mean of numbers that lie close together, nobody knows where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dpcli.base.fields import COUNT, DELTA, POSITIVE, Key
from dpcli.file.toml.findings import Problem
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.release.answer import AnswerRow, QueryAnswer
from dpcli.release.answers.target import whole_steps
from dpcli.release.keys import aggregation_by, stepped_key
from dpcli.release.measures.stable import NUMBERS, TESTED
from dpcli.release.noise.laws import DiscreteGaussianLaw
from dpcli.release.numbers import gaussian_draw, laplace_draw
from dpcli.release.query import MEASURE, Query, QueryRelease, QuerySetting
from dpcli.release.settings import Source
from dpcli.release.stability.clustered import farthest, released_mean, sum_sensitivity
from dpcli.release.stability.proposed import StabilityTest
from dpcli.release.stability.quantile import CountedNumbers
from dpcli.release.values import number_problems, stepped

if TYPE_CHECKING:
    from dpcli.release.aggregate import Aggregation, Totals


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

    def columns(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        yield ("column",), self.column

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
        two = self.count is None and setting.adjacency is not Adjacency.REPLACE_ONE
        squared = 2 * (self.rows * farthest(width)) ** 2 if two else moved**2
        law = DiscreteGaussianLaw(setting.cost.share(1.0 - TESTED).gaussian_sigma(squared))
        one = self.count is not None
        keys = {"sensitivity": moved, "dimension": 1} if one else {"l2_sensitivity": squared**0.5 * (1.0 + 1e-15)}
        test = {"epsilon": epsilon, "delta": self.delta, "mechanism": f"{self.name}.noise"}
        asked = f"how many units would have to change for another bin moves by at most 1: tested at epsilon {epsilon:.6g}"
        clamped = f"rows are clamped to three bins of {self.width:g}: one unit moves their centred sum by at most {moved:,} steps"
        return (
            QueryRelease("test", "propose-test-release", test, (asked,)),
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
        found = released_mean(
            numbers, self.steps(setting.source), passed, noise.keys["sigma"], laplace_draw, gaussian_draw, self.count
        )
        value = None if found is None else found * stepped(setting.source, self.column).step
        return QueryAnswer(self.name, self.measure, (), (AnswerRow((), value),), self.confidence, self.expected_error(setting))

    def expected_error(self, setting: QuerySetting) -> str:
        return "none where few units could make another bin the fullest; what lies outside of three bins counts as at their edge"
