"""Sums of a column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dpcli.base.fields import Key
from dpcli.file.toml.findings import Problem
from dpcli.release.keys import aggregation_of, steps_of
from dpcli.release.numbers import NOISE_ALONE, additive_answer, error_text, noised
from dpcli.release.query import MEASURE, NoisyQuery, Query, QueryRelease, QuerySetting
from dpcli.release.sensitivity import Contribution
from dpcli.release.settings import Source
from dpcli.release.values import stepped, value_problems
from dpcli.release.vectors import noisy_vector

if TYPE_CHECKING:
    from dpcli.release.aggregate import Aggregation, Totals
    from dpcli.release.answer import QueryAnswer

COLUMN = Key("the column of numbers, with min, max and step")


@dataclass(frozen=True, slots=True, kw_only=True)
class SumQuery(NoisyQuery):
    """The sum of a column for each key, of clamped values in whole steps."""

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"column": "spent", "rho": 0.01, "max_rows": 5},)

    measure: Annotated[str, MEASURE] = "sum"
    column: Annotated[str, COLUMN]

    def columns(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        yield from NoisyQuery.columns(self)
        yield ("column",), self.column

    def needs(self, source: Source) -> Iterator[Problem]:
        yield from NoisyQuery.needs(self, source)
        yield from value_problems(source, "column", self.column, self.rows)

    def below_zero(self, source: Source) -> bool:
        return reaches_below_zero(source, self.column)

    def releases(self, setting: QuerySetting) -> tuple[QueryRelease, ...]:
        return (noisy_vector(self, setting, self.contribution(setting.source), unit=stepped(setting.source, self.column).step),)

    def aggregation(self, setting: QuerySetting) -> Aggregation:
        return aggregation_of(self, setting, (steps_of(setting.source, self.column),))

    def answer(self, setting: QuerySetting, totals: Totals) -> QueryAnswer:
        (release,) = self.releases(setting)
        exact = {key: total.sums[0] for key, total in totals.items()}
        return additive_answer(self, release, noised(exact, release), NOISE_ALONE)

    def expected_error(self, setting: QuerySetting) -> str:
        return error_text(self.releases(setting)[0], self.confidence)

    def contribution(self, source: Source) -> Contribution:
        values = stepped(source, self.column)
        return Contribution(self.groups, self.rows, values.least, values.most, always_there(self, source), not self.by)


def always_there(query: Query, source: Source, column: str = "") -> bool:
    """Whether each unit has exactly one row that counts: rows are units, none is left out by a condition, a key, or for want of a value."""
    name = column or getattr(query, "column", "")
    return source.unit is None and query.where is None and not getattr(query, "by", ()) and source.columns[name].missing is not None


def reaches_below_zero(source: Source, column: str) -> bool:
    """Whether a column may hold what is negative."""
    return column in source.columns and not (source.columns[column].min or 0.0) >= 0.0
