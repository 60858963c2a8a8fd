"""How many rows, or units, there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from dpcli.base.fields import DELTA, Key, Reader
from dpcli.file.toml.findings import Problem
from dpcli.release.aggregate import MOST_ROWS
from dpcli.release.answers.additive import additive_interval
from dpcli.release.answers.tidy import CONSISTENT, NoisyTotal, consistent
from dpcli.release.keys import aggregation_of
from dpcli.release.numbers import NOISE_ALONE, Keyed, additive_answer, answer_of, error_text, law_of, noised, tidied
from dpcli.release.query import MEASURE, NoisyQuery, QueryRelease, QuerySetting
from dpcli.release.sensitivity import Contribution
from dpcli.release.settings import Source
from dpcli.release.vectors import noisy_vector, shown_keys

if TYPE_CHECKING:
    from dpcli.release.aggregate import Aggregation, Totals
    from dpcli.release.answer import QueryAnswer


OF_TOTAL = 0.3  # of the cost
FEW_HOLD = (
    "keys that few hold are not shown; one whose true count is not far above {:,} is shown only where its noise was high: then the "
    "interval is too high, and holds less often than stated"
)
OF_BY = Reader("by", lambda query: bool(query.by))
OF_THRESHOLD = Reader('keys = "threshold"', lambda query: query.keys == "threshold")


@dataclass(frozen=True, slots=True, kw_only=True)
class CountQuery(NoisyQuery):
    """The number of rows, or of units, for each key."""

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"by": ["state"], "where": "age >= 18", "rho": 0.02, "max_groups": 3, "max_rows": 2, "postprocess": ["non-negative"]},
        {"by": ["visitor"], "of": "units", "weight": 1, "noise": "laplace", "keys": "threshold", "delta": 1e-9, "max_groups": 1},
        {"of": "units", "error": {"within": 100, "confidence": 0.9}, "confidence": 0.9},
        {"of": "units", "epsilon": 0.5},
        {"by": ["state"], "totals": True, "epsilon": 0.5, "max_groups": 2, "max_rows": 1},
    )
    undeclared: ClassVar[str] = 'keys = "threshold" here, which shows a key where enough units hold it'

    measure: Annotated[str, MEASURE] = "count"
    totals: Annotated[
        bool, Key("whether their total is answered too, with noise of its own; all are then made to add up", reader=OF_BY)
    ] = False
    keys: Annotated[
        Literal["declared", "threshold"],
        Key("keys that are answered: all that are declared, or those that enough units hold", reader=OF_BY),
    ] = "declared"
    delta: Annotated[
        float | None, Key("probability that a key which one unit alone holds is shown", DELTA, reader=OF_THRESHOLD)
    ] = None
    of: Annotated[Literal["rows", "units"], Key("what is counted: rows, or units that have any")] = "rows"

    @property
    def shows_keys(self) -> bool:
        return self.keys == "threshold"

    def problems(self) -> Iterator[Problem]:
        yield from NoisyQuery.problems(self)
        if self.totals and (self.shows_keys or self.error is not None):
            yield ("totals",), "declared keys, and epsilon, rho or weight", "keys" if self.shows_keys else "error"
        if self.shows_keys and not self.delta:
            yield ("delta",), 'a delta above 0 with keys = "threshold"', "none"

    def needs(self, source: Source) -> Iterator[Problem]:
        yield from NoisyQuery.needs(self, source) if self.of == "rows" else _of_units(self, source)

    def releases(self, setting: QuerySetting) -> tuple[QueryRelease, ...]:
        if self.shows_keys:
            return (shown_keys(self, setting, self.contribution(), self.delta or 0.0),)
        if self.totals:
            return (
                noisy_vector(self, setting, self.contribution(), "keys", 1.0 - OF_TOTAL),
                noisy_vector(self, setting, self.whole(), "total", OF_TOTAL),
            )
        return (noisy_vector(self, setting, self.contribution()),)

    def aggregation(self, setting: QuerySetting) -> Aggregation:
        return aggregation_of(self, setting, rows=None if self.of == "rows" else MOST_ROWS)  # each key of a unit is worth the same

    def answer(self, setting: QuerySetting, totals: Totals) -> QueryAnswer:
        release, *others = self.releases(setting)
        exact = {key: total.rows if self.of == "rows" else total.units for key, total in totals.items()}
        if others:
            return self._adding_up(exact, release, others[0])
        if not self.shows_keys:
            return additive_answer(self, release, noised(exact, release), NOISE_ALONE)
        shown = {key: number for key, number in noised(exact, release).items() if number > release.keys["threshold"]}
        return additive_answer(self, release, shown, f"{NOISE_ALONE}; {FEW_HOLD.format(release.keys['threshold'])}")

    def expected_error(self, setting: QuerySetting) -> str:
        return error_text(self.releases(setting)[0], self.confidence)

    def _adding_up(self, exact: Keyed, release: QueryRelease, of_total: QueryRelease) -> QueryAnswer:
        """Keys and total are moved by least squares so that they add up; their intervals stay those of the noise."""
        parts = noised(exact, release)
        (total,) = noised({(): sum(exact.values())}, of_total).values()
        variances = [Fraction(law_of(one).variance) for one in (release, of_total)]
        moved, shown = (
            consistent(NoisyTotal(total, variances[1], tuple(NoisyTotal(part, variances[0]) for part in parts.values()))),
            parts,
        )
        while "non-negative" in self.postprocess and any(
            part.value < 0 for part in moved.parts
        ):  # each of these is 0 in what is nearest
            shown = {key: part for (key, part), at in zip(shown.items(), moved.parts, strict=True) if at.value >= 0}
            moved = consistent(NoisyTotal(total, variances[1], tuple(NoisyTotal(part, variances[0]) for part in shown.values())))
        values = {key: at.value for key, at in zip(shown, moved.parts, strict=True)}
        rows = [
            tidied(self, key, values.get(key, 0), additive_interval(part, law_of(release), self.confidence))
            for key, part in parts.items()
        ]
        whole = tidied(
            self, ("total",) * len(self.by), sum(values.values()), additive_interval(total, law_of(of_total), self.confidence)
        )
        return answer_of(self, (*rows, whole), NOISE_ALONE, None, CONSISTENT)

    def whole(self) -> Contribution:
        """What a unit adds to the total of all keys."""
        one = self.contribution()
        return Contribution(1, one.groups * one.rows, 1, 1, one_key=True)

    def contribution(self) -> Contribution:
        """One for each row, or for the unit."""
        return Contribution(self.groups, self.rows if self.of == "rows" else 1, 1, 1, fixed=False, one_key=not self.by)


def _of_units(query: CountQuery, source: Source) -> Iterator[Problem]:
    """A unit counts once in each key, however many rows it has."""
    if query.max_rows is not None:
        yield ("max_rows",), 'no number with of = "units"', str(query.max_rows)
    for key, expected, found in NoisyQuery.needs(query, source):
        if key != ("max_rows",):
            yield key, expected, found
