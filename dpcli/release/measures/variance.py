"""The variance of a column, from three noisy vectors: rows, centred values, and their squares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dpcli.base.rounding import figures
from dpcli.file.toml.findings import Problem
from dpcli.release.answer import QueryAnswer
from dpcli.release.answers.additive import expected_error
from dpcli.release.answers.variance import NoisyVariance
from dpcli.release.keys import aggregation_of, steps_of
from dpcli.release.measures.mean import noisy_mean
from dpcli.release.measures.sums import COLUMN
from dpcli.release.numbers import answer_of, law_of, noised, tidied
from dpcli.release.query import MEASURE, NoisyQuery, QueryRelease, QuerySetting
from dpcli.release.sensitivity import Contribution
from dpcli.release.settings import Source
from dpcli.release.values import furthest_of, stepped, value_problems
from dpcli.release.vectors import noisy_vector

if TYPE_CHECKING:
    from dpcli.release.aggregate import Aggregation, Totals

SQUARES, VALUES, ROWS = 0.4, 0.3, 0.3  # shares of the cost


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceQuery(NoisyQuery):
    """The variance of a column for each key: the mean square distance from the mean, of values centred at the middle of the range."""

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"column": "age", "epsilon": 0.5, "max_rows": 1},)

    measure: Annotated[str, MEASURE] = "variance"
    column: Annotated[str, COLUMN]

    def columns(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        yield from NoisyQuery.columns(self)
        yield ("column",), self.column

    def problems(self) -> Iterator[Problem]:
        yield from NoisyQuery.problems(self)
        if self.error is not None:
            yield ("error",), "epsilon, rho or weight for a variance", "error"

    def needs(self, source: Source) -> Iterator[Problem]:
        yield from NoisyQuery.needs(self, source)
        lacking = tuple(value_problems(source, "column", self.column, self.rows))
        yield from lacking
        if not lacking and self.column in source.columns and self.rows * furthest_of(stepped(source, self.column)) ** 2 >= 2**62:
            yield ("column",), "rows x range^2 below 2^62 steps: a coarser step", f'"{self.column}"'

    def releases(self, setting: QuerySetting) -> tuple[QueryRelease, ...]:
        values, one_key = stepped(setting.source, self.column), not self.by
        most = furthest_of(values)
        centred = Contribution(self.groups, self.rows, values.least - values.middle, values.most - values.middle, one_key=one_key)
        squares = Contribution(self.groups, self.rows, 0, most * most, one_key=one_key)
        ones = Contribution(self.groups, self.rows, 1, 1, one_key=one_key)
        return (
            noisy_vector(self, setting, squares, "squares", SQUARES, values.step**2),
            noisy_vector(self, setting, centred, "sum", VALUES, values.step),
            noisy_vector(self, setting, ones, "count", ROWS),
        )

    def aggregation(self, setting: QuerySetting) -> Aggregation:
        middle = stepped(setting.source, self.column).middle
        return aggregation_of(self, setting, (steps_of(setting.source, self.column, middle), steps_of(setting.source, self.column)))

    def answer(self, setting: QuerySetting, totals: Totals) -> QueryAnswer:
        values, releases = stepped(setting.source, self.column), self.releases(setting)
        squares = noised({key: total.sums[0] for key, total in totals.items()}, releases[0])
        sums = noised({key: total.sums[1] - values.middle * total.rows for key, total in totals.items()}, releases[1])
        counts = noised({key: total.rows for key, total in totals.items()}, releases[2])
        square = values.step * values.step
        rows = []
        for key in squares:
            found = NoisyVariance(noisy_mean(sums[key], counts[key], releases[1:], values), squares[key], law_of(releases[0]))
            around = found.interval(self.confidence)
            around = replace(around, low=around.low * square, high=around.high * square)
            rows.append(tidied(self, key, found.estimate() * square, around))
        return answer_of(self, tuple(rows))

    def expected_error(self, setting: QuerySetting) -> str:
        releases = self.releases(setting)
        rows, told = self.told_for(setting)
        error = expected_error(law_of(releases[0]), self.confidence, releases[0].unit) / rows
        distance = f"at least {figures(error, 3)} {told}"
        return f"{distance}, with probability {self.confidence:.6g}, and more for the noise of the mean"
