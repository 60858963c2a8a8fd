"""Which counts reach a threshold, one after the other, until enough of them did (sparse vector)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dpcli.base.fields import COUNT, Key
from dpcli.file.toml.findings import Problem
from dpcli.release.answer import AnswerRow, KeyValue, QueryAnswer
from dpcli.release.answers.threshold import threshold_slack
from dpcli.release.keys import aggregation_by, column_key
from dpcli.release.measures.top import choice_needs
from dpcli.release.noise.sparse import SparseVectorLaws
from dpcli.release.query import MEASURE, Query, QueryRelease, QuerySetting
from dpcli.release.settings import Source

if TYPE_CHECKING:
    from dpcli.release.aggregate import Aggregation, Totals


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdQuery(Query):
    """Whether the count of rows reaches `above`: of the whole table, or of each value of a column in its declared order, until `answers` of
    them do. The counts are not released."""

    keyed: ClassVar[bool] = True
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"column": "state", "above": 1000, "answers": 2, "epsilon": 0.5, "max_groups": 2, "max_rows": 1},
    )

    measure: Annotated[str, MEASURE] = "threshold"
    column: Annotated[
        str | None, Key("the column whose values are asked about, in declared order; the whole table where absent")
    ] = None
    above: Annotated[int, Key("the count to reach", COUNT)]
    answers: Annotated[int, Key("how many may reach it before the questions end", COUNT)] = 1

    def columns(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        if self.column is not None:
            yield ("column",), self.column

    def needs(self, source: Source) -> Iterator[Problem]:
        for key, expected, found in Query.needs(self, source):
            if key != ("max_groups",) or self.column is not None:
                yield key, expected, found
        if self.column is not None:
            yield from choice_needs(self, source, self.column)

    def releases(self, setting: QuerySetting) -> tuple[QueryRelease, ...]:
        laws = self.laws(setting)
        why = (
            f"one unit moves each count by at most {self.rows:,}",
            f"noise of scale {laws.threshold.scale:.6g} on the threshold and {laws.query.scale:.6g} on each count",
        )
        return (QueryRelease("", "sparse-vector", {"epsilon": laws.epsilon, "answers": self.answers}, why),)

    def laws(self, setting: QuerySetting) -> SparseVectorLaws:
        """Noise of the threshold and of the counts."""
        assert setting.cost is not None
        return SparseVectorLaws(setting.cost.pure_epsilon, self.rows, self.answers)

    def aggregation(self, setting: QuerySetting) -> Aggregation:
        keys = () if self.column is None else (column_key(setting, self.column),)
        return aggregation_by(self, setting, keys, (), self.groups, self.rows)

    def answer(self, setting: QuerySetting, totals: Totals) -> QueryAnswer:
        from dpcli.release.noise.sparse import above_threshold

        keys = self.ordered(setting)
        found = above_threshold([totals[key].rows if key in totals else 0 for key in keys], self.above, self.laws(setting))
        rows = tuple(AnswerRow(key, reached) for key, reached in zip(keys, found, strict=False))
        by = () if self.column is None else (self.column,)
        return QueryAnswer(self.name, self.measure, by, rows, self.confidence, self.expected_error(setting))

    def ordered(self, setting: QuerySetting) -> list[tuple[KeyValue, ...]]:
        """The keys in the order in which they are asked about."""
        if self.column is None:
            return [()]
        return [(value,) for value in column_key(setting, self.column).domain or ()]

    def expected_error(self, setting: QuerySetting) -> str:
        distance = threshold_slack(self.laws(setting), len(self.ordered(setting)), self.confidence)
        return f"right for every count that is {distance + 1:,} from the threshold, with probability {self.confidence:.6g}"
