"""The measure quantile: values on the declared grid of a column, chosen by the exponential mechanism.

The fields of the class are the settings of a [[query]] table with this measure; `Key` has a setting's line in the manual and its
constraint, and `examples` has tables for tests. query.py says in which order `dpcli release` calls the methods: `problems` and `needs`
check the table and yield (path of a setting, what was expected, what was found), `mechanisms` returns the choices to price, `aggregation`
the exact counts to ask an engine for, and `answer` the chosen values. `setting` has what they depend on outside of the table.

A *candidate* is a whole step of the column from min to max, and its *score* is minus the distance of its rank from the wanted share of the
rows. The exponential mechanism prefers candidates with high scores; its cost follows from the *score range*, the largest change of the
difference of two scores when one *unit* (whom the release protects, with all of its rows) changes (`rank_range` in noise/selection.py). A
*key* is a combination of values of the columns in `by`; each key and each quantile is a choice of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dpcli.base.errors import InputError
from dpcli.base.fields import Key
from dpcli.base.rounding import counted
from dpcli.file.toml.findings import Problem
from dpcli.release.answers.choice_error import slack
from dpcli.release.column_values import stepped_range, value_problems
from dpcli.release.data_source import Source
from dpcli.release.group_keys import (
    aggregation_by,
    changed_keys,
    changed_words,
    declared_key_count,
    group_keys,
    stepped_key,
    totals_by_key,
)
from dpcli.release.measures.averages import COLUMN
from dpcli.release.noise.selection import choice_scale, rank_range, rank_scores
from dpcli.release.query import BY, MEASURE, Query, QueryMechanism, QuerySetting
from dpcli.release.query_answer import AnswerRow, QueryAnswer

if TYPE_CHECKING:
    from dpcli.release.aggregate import Aggregation, Totals

# Largest number of candidates in all keys together. A list has a count for each of them, so more are refused, to bound time and memory.
MOST_CANDIDATES = 1_000_000
# Largest denominator of a share. Scores are whole numbers, rows times the denominator, so those of 2^40 rows stay below the sampler's limit
# of 2^62.
LARGEST_DENOMINATOR = 10**6


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileQuery(Query):
    """The value below which a share of the rows lies. It is chosen among the whole steps of the column from min to max.

    At most max_rows rows of one unit count, in each key of `by`.
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"column": "age", "quantiles": [0.25, 0.5, 0.75], "epsilon": 0.5, "max_rows": 1, "where": "age >= 18", "confidence": 0.9},
        {"column": "age", "rho": 0.01, "max_rows": 1},
        {"column": "age", "by": ["city"], "weight": 1, "max_groups": 1, "max_rows": 1},
    )

    measure: Annotated[str, MEASURE] = "quantile"
    column: Annotated[str, COLUMN]
    quantiles: Annotated[
        tuple[float, ...],
        Key("shares of the rows below the quantiles, from 0 to 1, with at most six decimals; default [0.5], the median"),
    ] = (0.5,)
    by: Annotated[tuple[str, ...], BY] = ()

    def problems(self) -> Iterator[Problem]:
        yield from Query.problems(self)
        if not self.quantiles or any(not 0.0 <= stated_share <= 1.0 for stated_share in self.quantiles):
            yield ("quantiles",), "at least one share from 0 to 1", ", ".join(f"{stated:g}" for stated in self.quantiles) or "none"
        for position, stated_share in enumerate(self.quantiles):
            if self.share(position).denominator > LARGEST_DENOMINATOR:
                yield ("quantiles", position), "a share of at most six decimals", repr(stated_share)

    def needs(self, source: Source) -> Iterator[Problem]:
        yield from Query.needs(self, source)
        yield from self.column_in_by_problems()
        problems = (*value_problems(source, "column", self.column, self.rows), *self.key_problems(source))
        yield from problems
        if problems or any(name not in source.columns for name in (self.column, *self.by)):
            return
        # Keys that a domain file lists count as one here. `expected_error`, which reads the file, checks their number again.
        yield from self.work_problems(source, declared_key_count(self, source) or 1)

    def work_problems(self, source: Source, keys: int) -> Iterator[Problem]:
        """Yield a problem if this number of keys has too many candidates in all. The time of an answer grows with their number."""
        if keys * self.candidates(source) > MOST_CANDIDATES:
            in_keys = f" in {keys:,} keys" if keys > 1 else ""
            limit = f"at most {MOST_CANDIDATES:,} steps from min to max{in_keys}, or a larger step"
            yield ("column",), limit, f"{keys * self.candidates(source):,}"

    def candidates(self, source: Source) -> int:
        """Return the number of candidates for the quantile."""
        values = stepped_range(source, self.column)
        return values.most - values.least + 1

    def mechanisms(self, setting: QuerySetting) -> tuple[QueryMechanism, ...]:
        assert setting.cost is not None  # only a NoisyQuery may state an error in place of a cost
        choices = len(self.quantiles) * changed_keys(self, setting)
        # The share of a stated epsilon, or the epsilon whose bounded range implies the share of a stated rho.
        epsilon = setting.cost.share(1.0 / choices).bounded_range_epsilon
        for position in range(len(self.quantiles)):
            choice_scale(self.score_range(setting, position), epsilon)  # raises InputError if no sampler supports the scale
        why = (
            f"one unit counts with at most {counted(self.rows, 'row')}{changed_words(self, setting)}",
            f"the difference of two candidates' scores, which are distances from the rank, changes by at most {self._range_words(setting)}",
            f"{'one choice' if choices == 1 else f'each of {choices:,} choices'} by the exponential mechanism at epsilon {epsilon:.6g}",
        )
        return (QueryMechanism("", "exponential", {"epsilon": epsilon}, why, runs=choices),)

    def score_range(self, setting: QuerySetting, position: int) -> int:
        """Return the score range for the quantile at this position, in units of 1 / the denominator of its share."""
        return rank_range(self.share(position), self.rows, setting.adjacency)

    def _range_words(self, setting: QuerySetting) -> str:
        """Return the largest score range of the quantiles in words, as a number of rows."""
        positions = range(len(self.quantiles))
        most = max(Fraction(self.score_range(setting, position), self.share(position).denominator) for position in positions)
        number = Decimal(most.numerator) / most.denominator  # exact, because a share has at most six decimals
        return f"{number:,f} row{'s' if number != 1 else ''}"

    def share(self, position: int) -> Fraction:
        """Return the share at a position of `quantiles`, exactly as the decimal that the file states."""
        return Fraction(repr(self.quantiles[position]))

    def aggregation(self, setting: QuerySetting) -> Aggregation:
        return aggregation_by(self, setting, (*group_keys(self, setting), stepped_key(setting.source, self.column)))

    def answer(self, setting: QuerySetting, totals: Totals) -> QueryAnswer:
        from dpcli.release.noise.selection import exponential

        (mechanism,) = self.mechanisms(setting)
        values = stepped_range(setting.source, self.column)
        rows = []
        for key, step_totals in totals_by_key(self, setting, totals).items():
            counts = [0] * self.candidates(setting.source)
            for (steps,), total in step_totals.items():
                counts[int(steps) - values.least] += total.rows
            for position, stated_share in enumerate(self.quantiles):
                scores = rank_scores(counts, self.share(position))
                chosen = exponential(scores, self.score_range(setting, position), mechanism.keys["epsilon"])
                rows.append(AnswerRow((*key, repr(stated_share)), values.value(values.least + chosen)))
        key_names = (*self.by, "share")
        return QueryAnswer(self.name, self.measure, key_names, tuple(rows), self.confidence, self.expected_error(setting))

    def expected_error(self, setting: QuerySetting) -> str:
        """Return a description of how far the values may be from their ranks. Raises InputError if domain files have too many keys."""
        keys = math.prod(len(key.domain or ()) for key in group_keys(self, setting))
        for (key,), expected, wrong in self.work_problems(setting.source, keys):
            raise InputError(f'query "{self.name}": {key}: expected {expected}, found {wrong}')
        (mechanism,) = self.mechanisms(setting)
        candidates, distances = self.candidates(setting.source), []
        for position in range(len(self.quantiles)):
            scale = self.score_range(setting, position) / mechanism.keys["epsilon"]
            score_slack = slack(candidates, scale, 1.0 - self.confidence)
            distances.append(math.ceil(score_slack / self.share(position).denominator))  # in rows
        return f"each is at most {max(distances):,} rows from the requested rank, with probability {self.confidence:.6g}"
