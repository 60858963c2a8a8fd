"""The k most common values of a column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dpcli.base.fields import Constraint, Key
from dpcli.file.toml.findings import Problem
from dpcli.release.answer import AnswerRow, QueryAnswer
from dpcli.release.answers.chosen import slack_of_each
from dpcli.release.columns import domain_of
from dpcli.release.keys import aggregation_by, column_key
from dpcli.release.noise.select import choice_scale, count_range
from dpcli.release.numbers import order
from dpcli.release.query import DECLARED, MEASURE, Query, QueryRelease, QuerySetting
from dpcli.release.settings import Source

if TYPE_CHECKING:
    from dpcli.release.aggregate import Aggregation, Totals

FEW = Constraint("a whole number from 1 to 10000", lambda x: 1 <= x <= 10_000, (("minimum", 1), ("maximum", 10_000)))
VALUES = Key("the column whose values are counted")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopQuery(Query):
    """The k most common values of a column, in the order in which they were chosen; their counts are not released.

    Each is chosen by the exponential mechanism among those that are left (peeling).
    """

    keyed: ClassVar[bool] = True
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"column": "city", "top": 3, "rho": 0.05, "max_groups": 2, "max_rows": 1},)

    measure: Annotated[str, MEASURE] = "top-k"
    column: Annotated[str, VALUES]
    top: Annotated[int, Key("how many of the most common values", FEW)]

    def columns(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        yield ("column",), self.column

    def needs(self, source: Source) -> Iterator[Problem]:
        yield from Query.needs(self, source)
        yield from choice_needs(self, source, self.column)
        column = source.columns.get(self.column)
        if column is None or column.domain_file is not None:
            return  # counted when the file of values is read
        values = len(domain_of(column, self.column, "") or ())
        if 0 < values < self.top:
            yield ("top",), f'at most the {values:,} values that "{self.column}" may have', str(self.top)

    def releases(self, setting: QuerySetting) -> tuple[QueryRelease, ...]:
        assert setting.cost is not None
        epsilon = setting.cost.share(1.0 / self.top).bounded_range_epsilon
        reach = count_range(self.rows, setting.adjacency)
        choice_scale(reach, epsilon)
        why = (
            f"one unit adds at most {self.rows:,} to a count: two counts move apart by at most {reach:,}",
            f"each of {self.top:,} choices by the exponential mechanism at epsilon {epsilon:.6g}",
        )
        return (QueryRelease("", "exponential", {"epsilon": epsilon}, why, steps=self.top),)

    def aggregation(self, setting: QuerySetting) -> Aggregation:
        return aggregation_by(self, setting, (column_key(setting, self.column),), (), self.groups, self.rows)

    def answer(self, setting: QuerySetting, totals: Totals) -> QueryAnswer:
        from dpcli.release.noise.select import top_k

        (release,) = self.releases(setting)
        keys = sorted(totals, key=order)
        reach = count_range(self.rows, setting.adjacency)
        chosen = top_k([totals[key].rows for key in keys], self.top, reach, release.keys["epsilon"])
        rows = tuple(AnswerRow((place + 1,), keys[index][0]) for place, index in enumerate(chosen))
        return QueryAnswer(self.name, self.measure, ("place",), rows, self.confidence, self.expected_error(setting))

    def expected_error(self, setting: QuerySetting) -> str:
        (release,) = self.releases(setting)
        reach = count_range(self.rows, setting.adjacency) / release.keys["epsilon"]
        return choice_error(reach, self.top, self.confidence, setting, self.column)


def choice_needs(query: Query, source: Source, column: str) -> Iterator[Problem]:
    """What a choice among declared values lacks."""
    if column in source.columns and not source.columns[column].declares_keys:
        otherwise = f", or {query.undeclared}" if query.undeclared else ""
        yield ("column",), f"{DECLARED}{otherwise}", f'"{column}", whose values would show who is there'


def choice_error(scale: float, choices: int, confidence: float, setting: QuerySetting, column: str) -> str:
    """How far the count of each choice may be below the best that was left."""
    domain = domain_of(setting.source.columns[column], column, setting.folder) or ()
    distance = slack_of_each(max(len(domain), 1), choices, scale, 1.0 - confidence)
    return f"each count is within {distance:,} of the best that was left, with probability {confidence:.6g}"
