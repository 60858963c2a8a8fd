"""How many rows fall into each bin of a column of numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dpcli.base.fields import Key
from dpcli.file.toml.findings import Problem
from dpcli.release.keys import aggregation_by, binned_key, group_keys
from dpcli.release.measures.sums import COLUMN
from dpcli.release.numbers import NOISE_ALONE, additive_answer, error_text, noised
from dpcli.release.query import MEASURE, NoisyQuery, QueryRelease, QuerySetting
from dpcli.release.sensitivity import Contribution
from dpcli.release.settings import Source
from dpcli.release.vectors import noisy_vector

if TYPE_CHECKING:
    from dpcli.release.aggregate import Aggregation, Totals
    from dpcli.release.answer import QueryAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramQuery(NoisyQuery):
    """The number of rows in each bin, from one edge up to but without the next; the last bin has its upper edge too."""

    keyed: ClassVar[bool] = True
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"column": "age", "bins": [0, 18, 65, 115], "rho": 0.01, "max_groups": 1, "max_rows": 1},
    )

    measure: Annotated[str, MEASURE] = "histogram"
    column: Annotated[str, COLUMN]
    bins: Annotated[tuple[float, ...], Key("edges of the bins, rising; values outside of them are left out")]

    def columns(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        yield from NoisyQuery.columns(self)
        yield ("column",), self.column

    def problems(self) -> Iterator[Problem]:
        yield from NoisyQuery.problems(self)
        if len(self.bins) < 2 or any(not a < b for a, b in zip(self.bins, self.bins[1:], strict=False)):
            yield ("bins",), "at least two edges, each above the one before", ", ".join(f"{edge:g}" for edge in self.bins) or "none"

    def needs(self, source: Source) -> Iterator[Problem]:
        yield from NoisyQuery.needs(self, source)
        column = source.columns.get(self.column)
        if column is not None and column.type not in ("integer", "decimal"):
            yield ("column",), "a column of numbers", f'"{self.column}", which is {column.type}'

    def releases(self, setting: QuerySetting) -> tuple[QueryRelease, ...]:
        one_key = len(self.bins) == 2 and not self.by
        return (noisy_vector(self, setting, Contribution(self.groups, self.rows, 1, 1, one_key=one_key)),)

    def aggregation(self, setting: QuerySetting) -> Aggregation:
        keys = (*group_keys(self, setting), binned_key(self.column, self.bins))
        return aggregation_by(self, setting, keys, (), self.groups, self.rows)

    def answer(self, setting: QuerySetting, totals: Totals) -> QueryAnswer:
        (release,) = self.releases(setting)
        numbers = noised({key: total.rows for key, total in totals.items()}, release)
        spoken = {(*key[:-1], self.bin_text(int(key[-1]))): number for key, number in numbers.items()}
        return additive_answer(self, release, spoken, NOISE_ALONE, (*self.by, self.column))

    def expected_error(self, setting: QuerySetting) -> str:
        return error_text(self.releases(setting)[0], self.confidence)

    def bin_text(self, number: int) -> str:
        """A bin as an interval."""
        last = number == len(self.bins) - 2
        low, high = (repr(edge).removesuffix(".0") for edge in self.bins[number : number + 2])  # in full, so that no two look alike
        return f"[{low}, {high}{']' if last else ')'}"
