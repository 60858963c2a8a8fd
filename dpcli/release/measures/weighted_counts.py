"""The measure linear: weighted sums of counts by a matrix of whole numbers, answered by the better of two strategies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dpcli.base.errors import InputError
from dpcli.base.fields import Key
from dpcli.file.toml.findings import Problem
from dpcli.file.toml.shown import first_names
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.release.answers.intervals import ConfidenceInterval
from dpcli.release.answers.noise_tails import sum_half_width
from dpcli.release.data_source import Source, declared_keys_of
from dpcli.release.group_keys import aggregation_of, group_keys
from dpcli.release.noise.samplers import noisy
from dpcli.release.noisy_answers import answer_of, law_of, postprocessed_row
from dpcli.release.query import MEASURE, NoisyQuery, QueryRelease, QuerySetting
from dpcli.release.query_answer import QueryAnswer
from dpcli.release.vectors import Contribution, Sensitivity, noisy_vector, noisy_vector_of

if TYPE_CHECKING:
    from dpcli.release.aggregate import Aggregation, Totals


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
        if len(widths) != 1:
            actual = f"lengths {first_names(map(str, sorted(widths)))}" if widths else "no row"
            yield ("matrix",), "rows of one length, not all zero", actual
        elif not any(any(row) for row in self.matrix):
            yield ("matrix",), "rows of one length, not all zero", "only zeros"
        if self.error is not None:
            yield ("error",), "epsilon, rho or weight for weighted sums", "error"

    def may_be_negative(self, source: Source) -> bool:
        return any(weight < 0 for row in self.matrix for weight in row)

    def releases(self, setting: QuerySetting) -> tuple[QueryRelease, ...]:
        cells, sums = self._noise_on_counts(setting), self._noise_on_sums(setting)
        return (cells,) if self._total_variance(cells, self.matrix) <= self._total_variance(sums, None) else (sums,)

    def needs(self, source: Source) -> Iterator[Problem]:
        yield from NoisyQuery.needs(self, source)
        if any(name in source.columns and source.columns[name].domain_file for name in self.by):
            return  # the number of values in the file is checked when the query is answered
        cells = math.prod(len(declared_keys_of(source.columns[name], name, "") or ()) for name in self.by if name in source.columns)
        if self.by and cells != len(self.matrix[0]):
            yield ("matrix",), f"{cells:,} weights in each row, one for each key", f"{len(self.matrix[0]):,}"

    def aggregation(self, setting: QuerySetting) -> Aggregation:
        return aggregation_of(self, setting)

    def answer(self, setting: QuerySetting, totals: Totals) -> QueryAnswer:
        (release,) = self.releases(setting)
        keys = list(product(*(key.domain or () for key in group_keys(self, setting))))
        if len(keys) != len(self.matrix[0]):
            raise InputError(
                f'query "{self.name}": matrix: expected {len(keys):,} weights in each row, found {len(self.matrix[0]):,}'
            )
        counts = [totals[key].rows if key in totals else 0 for key in keys]
        law = law_of(release)
        if release == self._noise_on_counts(setting):
            values = self._sums_of(noisy(counts, law))
            widths = [self._width(release, row) for row in self.matrix]
        else:
            values = noisy(self._sums_of(counts), law)
            widths = [self._width(release, (1,))] * len(values)
        rows = (
            postprocessed_row(self, (place + 1,), value, ConfidenceInterval(value - width, value + width, self.confidence))
            for place, (value, width) in enumerate(zip(values, widths, strict=True))
        )
        return answer_of(self, tuple(rows), by=("row",))

    def _sums_of(self, counts: Sequence[int]) -> list[int]:
        """Return the weighted sum of the counts for each row of the matrix."""
        return [sum(weight * count for weight, count in zip(row, counts, strict=True)) for row in self.matrix]

    def _width(self, release: QueryRelease, weights: Sequence[int]) -> int:
        return sum_half_width(law_of(release), weights, self.confidence)

    def expected_error(self, setting: QuerySetting) -> str:
        (release,) = self.releases(setting)
        rows = self.matrix if release == self._noise_on_counts(setting) else ((1,),)
        width = max(self._width(release, row) for row in rows)
        return f"each sum within {width:,} of the exact bounded sum, with probability {self.confidence:.6g}"

    def _noise_on_counts(self, setting: QuerySetting) -> QueryRelease:
        return noisy_vector(self, setting, Contribution(self.groups, self.rows, 1, 1, one_key=len(self.matrix[0]) == 1))

    def _noise_on_sums(self, setting: QuerySetting) -> QueryRelease:
        """Return the mechanism that adds noise to all sums as one vector.

        A row of a unit adds one column of the matrix to the sums, so the norms of the columns bound the sensitivity.
        """
        columns = list(zip(*self.matrix, strict=True))
        largest = max(sum(map(abs, column)) for column in columns)
        squared = max(sum(weight * weight for weight in column) for column in columns)
        versions = 2 if setting.adjacency is Adjacency.REPLACE_ONE else 1
        rows = versions * self.groups * self.rows
        why = (
            f"one unit adds to at most {self.groups:,} of the keys, {self.rows:,} row{'s' if self.rows > 1 else ''} to each"
            + (", in either version" if versions > 1 else ""),
            f"a row changes the sums by a column of the matrix: at most {largest:,} in L1 norm, {math.sqrt(squared):.6g} in L2 norm",
        )
        return noisy_vector_of(self, setting, Sensitivity(rows * largest, rows * rows * squared, len(self.matrix), why))

    def _total_variance(self, release: QueryRelease, matrix: Sequence[Sequence[int]] | None) -> float:
        """Return the total of the variances of all sums.

        Args:
            release: The mechanism that adds the noise.
            matrix: Weights of the noisy counts in each sum; None if the noise is added to the sums themselves.
        """
        weights = len(self.matrix) if matrix is None else sum(weight * weight for row in matrix for weight in row)
        return law_of(release).variance * weights
