"""The mean of a column: a noisy sum of centred values over a noisy count, or over a count that is public."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from dpcli.fields import COUNT, Key
from dpcli.release.measures.sums import COLUMN, always_there
from dpcli.release.query import MEASURE, NoisyQuery, QueryRelease, QuerySetting
from dpcli.release.sensitivity import Contribution
from dpcli.release.settings import Source
from dpcli.release.values import stepped, value_problems
from dpcli.release.vectors import laplace, noisy_vector
from dpcli.toml.findings import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanQuery(NoisyQuery):
    """The mean of a column for each key.

    Without a public count, values are centred at the middle of the range, so that a row adds at most half of it, and the noisy sum is
    divided by a noisy count; the cost is split between the two so that the error of the mean is least.
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"column": "age", "epsilon": 0.5, "max_rows": 1},
        {"column": "age", "rho": 0.5, "count": 1000},
    )

    measure: Annotated[str, MEASURE] = "mean"
    column: Annotated[str, COLUMN]
    count: Annotated[int | None, Key("number of rows, declared public; where absent it is counted, with noise", COUNT)] = None

    def columns(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        yield from NoisyQuery.columns(self)
        yield ("column",), self.column

    def problems(self) -> Iterator[Problem]:
        yield from NoisyQuery.problems(self)
        if self.error is not None and self.count is None:
            yield ("error",), "count, a public number of rows, with an error; or epsilon, rho or weight", "none"
        if self.count is not None and (self.by or self.where):
            yield ("count",), "no by and no where with a public count", "by" if self.by else "where"

    def needs(self, source: Source) -> Iterator[Problem]:
        yield from NoisyQuery.needs(self, source)
        yield from value_problems(source, "column", self.column, self.rows)

    def releases(self, setting: QuerySetting) -> tuple[QueryRelease, ...]:
        values = stepped(setting.source, self.column)
        if self.count is not None:
            fixed = always_there(self, setting.source, self.column)
            whole = Contribution(1, self.rows, values.least, values.most, fixed, one_key=True)
            return (noisy_vector(self, setting, whole, unit=values.step / self.count),)
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
        """The share of the cost that the sum gets. The error of the mean is that of N_S - m N_C, m the distance of the mean from the middle,
        which is taken to be half of the furthest. Source: weights that minimise a sum of variances under one budget (Lagrange)."""
        values = stepped(setting.source, self.column)
        furthest = max(values.most - values.middle, values.middle - values.least)
        ratio = (0.5 * furthest) / furthest  # of the count's noise in the mean to the sum's, at equal shares
        power = ratio ** (2.0 / 3.0) if laplace(self, setting.cost) else ratio
        return 1.0 / (1.0 + power)
