"""DP-FTRL with a banded matrix whose bands are no wider than the separation: its sensitivity is known before the matrix is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from dpcli.base.fields import Constraint, Key
from dpcli.mechanisms.noise.correlated import CorrelatedSpec, TreeSpec

MOST = 1_024
SHORT = Constraint("a whole number from 1 to 1,024", lambda x: 1 <= x <= MOST, (("minimum", 1), ("maximum", MOST)))


@dataclass(frozen=True, slots=True, kw_only=True)
class BandedSpec(CorrelatedSpec):
    """DP-FTRL with a banded matrix, optimised for prefix sums (BandMF): C x + noise is released, C lower triangular, with C[i, j] = 0 for
    i - j >= bands, and every column of Euclidean length 1.

    noise_multiplier is the standard deviation of the noise of C x over the bound on one record's contribution to one step (L2). Training
    finds the matrix, by the number of iterations and bands alone: no data are read. `steps` of the entry repeats the whole run with fresh
    noise.

    Neighbours: all three adjacencies; a record's participations change together. No sampling: which steps see a record is bounded by
    max_participations and min_separation instead.

    Bounds: one Gaussian of the encoded stream's L2 sensitivity, exact for one record. No finite epsilon at delta = 0.

    Source: Choquette-Choo et al. 2023, arXiv:2306.08153.
    """

    example: ClassVar[Mapping[str, Any]] = {**TreeSpec.example, "bands": 4}

    iterations: Annotated[
        int, Key("steps of one run: the matrix is found in a time that grows with their cube", SHORT, varies=True)
    ]
    bands: Annotated[int, Key("entries of a column of the matrix that are not zero; min_separation at most", SHORT, varies=True)]

    def problems(self) -> Iterator[tuple[str, str, str]]:
        if self.bands > self.min_separation:
            yield (
                "bands",
                f"at most min_separation = {self.min_separation}, so that a record's columns never overlap",
                f"{self.bands}",
            )

    def encoded_norm(self) -> float:
        """sqrt(m), m the most participations that there can be: min(max_participations, ceil(iterations / min_separation)).

        A record's contributions x_1, ..., x_k of norm at most 1 are in steps t_1 < ... < t_k that are min_separation >= bands apart. Column
        t of C is zero outside rows t to t + bands - 1, so that no two of the columns t_i share a row. Hence |C x|^2 is the sum over i of
        |column t_i|^2 |x_i|^2, at most k, whichever way the contributions point, and k = m of norm 1 reach it. No more than m steps so
        far apart fit into a run. Rounded up by more than a column's length may be off.
        """
        return math.sqrt(min(self.max_participations, math.ceil(self.iterations / self.min_separation))) * (1.0 + 1e-12)
