"""The variance of a column, from three noisy vectors: rows, centred values, and their squares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from dpcli.release.measures.sums import COLUMN
from dpcli.release.query import MEASURE, NoisyQuery, QueryRelease, QuerySetting
from dpcli.release.sensitivity import Contribution
from dpcli.release.settings import Source
from dpcli.release.values import Stepped, stepped, value_problems
from dpcli.release.vectors import noisy_vector
from dpcli.toml.findings import Problem

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
        if not lacking and self.column in source.columns and self.rows * furthest(stepped(source, self.column)) ** 2 >= 2**62:
            yield ("column",), "rows x range^2 below 2^62 steps: a coarser step", f'"{self.column}"'

    def releases(self, setting: QuerySetting) -> tuple[QueryRelease, ...]:
        values, one_key = stepped(setting.source, self.column), not self.by
        most = furthest(values)
        centred = Contribution(self.groups, self.rows, values.least - values.middle, values.most - values.middle, one_key=one_key)
        squares = Contribution(self.groups, self.rows, 0, most * most, one_key=one_key)
        ones = Contribution(self.groups, self.rows, 1, 1, one_key=one_key)
        return (
            noisy_vector(self, setting, squares, "squares", SQUARES, values.step**2),
            noisy_vector(self, setting, centred, "sum", VALUES, values.step),
            noisy_vector(self, setting, ones, "count", ROWS),
        )


def furthest(values: Stepped) -> int:
    """The largest distance from the middle, in steps."""
    return max(values.most - values.middle, values.middle - values.least)
