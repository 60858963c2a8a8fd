"""How many rows, or units, there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from dpcli.fields import Key
from dpcli.release.query import MEASURE, NoisyQuery, Release, Setting
from dpcli.release.sensitivity import Contribution
from dpcli.release.settings import Source
from dpcli.release.vectors import noisy_vector
from dpcli.toml.findings import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Count(NoisyQuery):
    """The number of rows, or of units, for each key."""

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"by": ["state"], "where": "age >= 18", "rho": 0.02, "max_groups": 3, "max_rows": 2, "postprocess": ["non-negative"]},
        {"by": ["visitor"], "of": "units", "weight": 1, "noise": "laplace", "keys": "threshold", "delta": 1e-9, "max_groups": 1},
        {"of": "units", "error": {"within": 100, "confidence": 0.9}, "confidence": 0.9},
        {"of": "units", "epsilon": 0.5},
    )

    measure: Annotated[str, MEASURE] = "count"
    of: Annotated[Literal["rows", "units"], Key("what is counted: rows, or units that have any")] = "rows"

    def needs(self, source: Source) -> Iterator[Problem]:
        yield from NoisyQuery.needs(self, source) if self.of == "rows" else _of_units(self, source)

    def releases(self, setting: Setting) -> tuple[Release, ...]:
        return (noisy_vector(self, setting, self.contribution()),)

    def contribution(self) -> Contribution:
        """One for each row, or for the unit."""
        return Contribution(self.groups, self.rows if self.of == "rows" else 1, 1, 1, fixed=False, one_key=not self.by)


def _of_units(query: Count, source: Source) -> Iterator[Problem]:
    """A unit counts once in each key, however many rows it has."""
    if query.max_rows is not None:
        yield ("max_rows",), 'no number with of = "units"', str(query.max_rows)
    for key, expected, found in NoisyQuery.needs(query, source):
        if key != ("max_rows",):
            yield key, expected, found
