"""The measure linear: weighted sums of counts by a matrix of whole numbers, answered by the better of two strategies.

A *key* is a combination of declared values of the columns in `by`. Each row of the matrix gives the weights of one sum, with a weight for
each key. Either the counts get noise and the sums are computed from them, or the sums get noise as one vector, whose sensitivity follows
from the largest L1 and L2 norms of a column. Both cost the same. The strategy with the smaller sum of variances is used, which is known
without the data (a choice between two cases of the matrix mechanism; Li, Hay, Rastogi, Miklau, McGregor 2010).

The class is a kind of [[query]] table, and a field is a key of the table: its `Key` has the help text and the constraint on the value.
`dpcli release` calls the methods in the order that query.py states. `problems` and `needs` yield what is wrong with the table. `mechanisms`
returns the noise to price, `aggregation` the exact counts to ask an engine for, and `answer` the noisy sums. They depend on the table and
on `setting`: [source], the adjacency and the query's cost. A *unit*, whom the release protects with all of its rows, counts with at most
`rows` rows in each of at most `groups` keys, which the engine enforces. Intervals cover the noise, and are not too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dpcli.base.errors import InputError
from dpcli.base.fields import Key
from dpcli.base.rounding import counted
from dpcli.file.toml.findings import Problem
from dpcli.file.toml.shown import first_names
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.release.answers.intervals import ConfidenceInterval
from dpcli.release.answers.noise_tails import sum_half_width
from dpcli.release.column_values import declared_keys_of
from dpcli.release.data_source import Source
from dpcli.release.group_keys import aggregation_of, group_keys
from dpcli.release.noise.samplers import noisy
from dpcli.release.noisy_answers import answer_of, law_of, postprocessed_row
from dpcli.release.query import MEASURE, NoisyQuery, QueryMechanism, QuerySetting
from dpcli.release.query_answer import QueryAnswer
from dpcli.release.vectors import Contribution, Sensitivity, noisy_vector, noisy_vector_of

if TYPE_CHECKING:
    from dpcli.release.aggregate import Aggregation, Totals

OWN_NOISE = (1,)  # weights of the noises in a sum that gets a single noise of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearQuery(NoisyQuery):
    """Weighted sums of the counts of the keys in `by`: one sum for each row of a matrix of whole numbers.

    Either noise is added to each count and the sums are computed from the noisy counts, or noise is added to each sum. dpcli uses the
    strategy with the smaller total variance, which does not depend on the data.
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"by": ["state"], "matrix": [[1, 0], [1, 1]], "rho": 0.05, "max_groups": 2, "max_rows": 1},
    )

    measure: Annotated[str, MEASURE] = "linear"
    matrix: Annotated[
        tuple[tuple[int, ...], ...],
        Key(
            "one row of weights for each sum; a row has one weight for each key, in declared order, where the last column of by "
            "varies fastest"
        ),
    ]

    def problems(self) -> Iterator[Problem]:
        yield from NoisyQuery.problems(self)
        if not self.by:
            yield ("by",), "the columns whose values are the keys of the counts", "none"
        widths = {len(row) for row in self.matrix}
        wrong = ""
        if len(widths) > 1:
            wrong = f"lengths {first_names(map(str, sorted(widths)))}"
        elif not widths:
            wrong = "no row"
        elif not any(map(any, self.matrix)):
            wrong = "only zeros"
        if wrong:
            yield ("matrix",), "rows of one length, not all zero", wrong
        if self.error is not None:
            yield ("error",), "epsilon, rho or weight for weighted sums", "error"

    def may_be_negative(self, source: Source) -> bool:
        return any(weight < 0 for row in self.matrix for weight in row)

    def mechanisms(self, setting: QuerySetting) -> tuple[QueryMechanism, ...]:
        on_counts, on_sums = self._noise_on_counts(setting), self._noise_on_sums(setting)
        squared_weights = sum(weight * weight for row in self.matrix for weight in row)
        # For each strategy, the variances of all sums, added up.
        total_with_noisy_counts = law_of(on_counts).variance * squared_weights
        total_with_noisy_sums = law_of(on_sums).variance * len(self.matrix)
        return (on_counts,) if total_with_noisy_counts <= total_with_noisy_sums else (on_sums,)

    def needs(self, source: Source) -> Iterator[Problem]:
        yield from NoisyQuery.needs(self, source)
        columns = [(name, source.columns[name]) for name in self.by if name in source.columns]
        if any(column.domain_file for _, column in columns):
            return  # the number of values in the file is checked when the query is answered
        key_count = math.prod(len(declared_keys_of(column, name, folder="") or ()) for name, column in columns)
        if self.by and key_count != self.width:
            yield ("matrix",), f"{key_count:,} weights in each row, one for each key", f"{self.width:,}"

    @property
    def width(self) -> int:
        """The number of columns of the matrix, which should be the number of keys."""
        return len(self.matrix[0])

    def aggregation(self, setting: QuerySetting) -> Aggregation:
        return aggregation_of(self, setting)

    def answer(self, setting: QuerySetting, totals: Totals) -> QueryAnswer:
        (mechanism,) = self.mechanisms(setting)
        law = law_of(mechanism)
        keys = list(product(*(key.domain or () for key in group_keys(self, setting))))
        if len(keys) != self.width:  # with a domain file, `needs` could not check it
            raise InputError(f'query "{self.name}": matrix: expected {len(keys):,} weights in each row, found {self.width:,}')
        counts = [totals[key].rows if key in totals else 0 for key in keys]
        confidence = self._confidence_of_sum(mechanism, setting)
        if self._is_on_counts(mechanism, setting):
            values = self._sums_of(noisy(counts, law))
            half_widths = [self._half_width(mechanism, row, confidence) for row in self.matrix]
        else:
            values = noisy(self._sums_of(counts), law)
            half_widths = [self._half_width(mechanism, OWN_NOISE, confidence)] * len(values)
        rows = []
        for number, (value, half_width) in enumerate(zip(values, half_widths, strict=True), start=1):
            interval = ConfidenceInterval(value - half_width, value + half_width, confidence)
            rows.append(postprocessed_row(self, (number,), value, interval))
        return answer_of(self, tuple(rows), by=("row",))

    def _sums_of(self, counts: Sequence[int]) -> list[int]:
        """Return the weighted sum of the counts for each row of the matrix."""
        return [sum(weight * count for weight, count in zip(row, counts, strict=True)) for row in self.matrix]

    def _half_width(self, mechanism: QueryMechanism, weights: Sequence[int], confidence: float) -> int:
        """Return the half width of the interval of a sum to which each weight adds one noise of the mechanism."""
        return sum_half_width(law_of(mechanism), weights, confidence)

    def _confidence_of_sum(self, mechanism: QueryMechanism, setting: QuerySetting) -> float:
        """Return the confidence of the interval of one sum. Sums of noisy counts share the noise of a count, so they are dependent."""
        return self.interval_confidence(len(self.matrix), independent=not self._is_on_counts(mechanism, setting))

    def expected_error(self, setting: QuerySetting) -> str:
        (mechanism,) = self.mechanisms(setting)
        rows = self.matrix if self._is_on_counts(mechanism, setting) else (OWN_NOISE,)
        confidence = self._confidence_of_sum(mechanism, setting)
        half_width = max(self._half_width(mechanism, row, confidence) for row in rows)
        return f"each sum within {half_width:,} of the exact bounded sum, {self.probability_words(len(self.matrix))}"

    def _is_on_counts(self, mechanism: QueryMechanism, setting: QuerySetting) -> bool:
        return mechanism == self._noise_on_counts(setting)

    def _noise_on_counts(self, setting: QuerySetting) -> QueryMechanism:
        """Return the mechanism that adds noise to the count of each key."""
        return noisy_vector(self, setting, Contribution(self.groups, self.rows, one_key=self.width == 1))

    def _noise_on_sums(self, setting: QuerySetting) -> QueryMechanism:
        """Return the mechanism that adds noise to all sums as one vector.

        A row of a unit adds one column of the matrix to the sums, so the norms of the columns bound the sensitivity.
        """
        columns = list(zip(*self.matrix, strict=True))
        largest_l1 = max(sum(map(abs, column)) for column in columns)
        largest_squared_l2 = max(sum(weight * weight for weight in column) for column in columns)
        replaced = setting.adjacency is Adjacency.REPLACE_ONE
        versions, version_words = (2, ", in either version") if replaced else (1, "")
        rows = versions * self.groups * self.rows  # the most rows that differ between neighbouring datasets
        l2_words = f"{math.sqrt(largest_squared_l2):.6g}"
        why = (
            f"one unit adds to at most {self.groups:,} of the keys, {counted(self.rows, 'row')} to each{version_words}",
            f"a row changes the sums by a column of the matrix: at most {largest_l1:,} in L1 norm, {l2_words} in L2 norm",
        )
        norms = Sensitivity(rows * largest_l1, rows * rows * largest_squared_l2, len(self.matrix), why)
        return noisy_vector_of(self, setting, norms)
