"""Matrix mechanisms (DP-FTRL): a stream of sums released with noise that is correlated from step to step.

With x_1, x_2, ... the clipped sums of the steps and C a lower triangular encoder, C x + noise is released, or any function of it. The noise
is one Gaussian for the whole run, so the run costs what one Gaussian costs at the sensitivity of x -> C x, also if each step depends on
what was released before (Denisov et al. 2022, arXiv:2202.08312, Theorem 2.1).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from dpcli.base.fields import COUNT, NON_NEGATIVE, POSITIVE, Constraint, Key
from dpcli.base.premise import SECRET, Premises, moves, of_mechanism
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.noise.additive import NoPrivacy
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.mechanisms.spec import Spec
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.closed.participation import exact_in_tree, toeplitz_sensitivity, tree_sensitivity
from dpcli.numerics.work import shared

LENGTH = Constraint("a whole number from 1 to 10^7", lambda x: 1 <= x <= 10**7, (("minimum", 1), ("maximum", 10**7)))
DECAY = Constraint("a number in [0, 1]", lambda x: 0 <= x <= 1, (("minimum", 0), ("maximum", 1)))
MOST = 1_024  # largest number of steps of an encoder whose matrix is computed
SHORT = Constraint("a whole number from 1 to 1,024", lambda x: 1 <= x <= MOST, (("minimum", 1), ("maximum", MOST)))


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrelatedSpec(Spec):
    """Keys of every matrix mechanism. `steps` of the entry is how often the whole run is repeated, with fresh noise."""

    evidence: ClassVar[int] = 2
    needs_delta: ClassVar[bool] = True
    premises: ClassVar[Premises] = (
        SECRET,
        moves("No record contributes more than C (L2) to one step.", "train"),
        of_mechanism(
            "No record takes part more than max_participations times, or less than min_separation steps apart.",
            "test_one_participation_more_moves_more",
            "train",
        ),
    )

    noise_multiplier: Annotated[
        float,
        Key("standard deviation of the encoder's noise over C, the bound on one record's contribution to one step (L2)", POSITIVE),
    ]
    iterations: Annotated[int, Key("steps of one run", LENGTH, varies=True)]
    max_participations: Annotated[
        int, Key("steps of one run in which a record may take part, at most", COUNT, claim=True, varies=True)
    ]
    min_separation: Annotated[
        int, Key("steps from one participation of a record to its next, at least", COUNT, claim=True, varies=True)
    ] = 1

    @property
    def contribution_form(self) -> bool:
        return True

    @property
    def unsampled(self) -> str:
        return "whose keys say how often a record takes part: amplification of correlated noise is not implemented"

    def encoded_norm(self) -> float:
        """L2 sensitivity of the encoded stream for one record that comes or goes, in units of C; an upper bound."""
        raise NotImplementedError

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        """Return one Gaussian: sensitivities of several records, and of a record's two versions, add up at most."""
        # No infinity, which is no noise that can be stated; less noise costs more.
        multiplier = min(self.noise_multiplier / _norm(replace(self, noise_multiplier=1.0)), sys.float_info.max)
        return GaussianSpec(noise_multiplier=multiplier).resolve(neighbours) if multiplier > 0.0 else NoPrivacy(math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeSpec(CorrelatedSpec):
    """DP-FTRL by tree aggregation: every complete node of a binary tree over the steps is a sum with independent Gaussian noise.

    noise_multiplier is the standard deviation of each node's noise over C, the bound on one record's contribution to one step (L2). All
    nodes, and so all prefix sums, are released. A restart with a fresh tree (after each epoch, say) is another of the entry's `steps`, and
    the participations are then those within one tree.

    Neighbours: all three adjacencies; a record's participations change together. No sampling: which steps see a record is bounded by
    max_participations and min_separation instead.

    Bounds: one Gaussian, exact for one record of up to 100 participations, whose worst steps are searched for; for more an upper bound,
    level by level. No finite epsilon at delta = 0.

    Source: Kairouz et al. 2021, arXiv:2103.00039.
    """

    example: ClassVar[Mapping[str, Any]] = {
        "noise_multiplier": 40.0,
        "iterations": 16,
        "max_participations": 2,
        "min_separation": 8,
    }

    def encoded_norm(self) -> float:
        return tree_sensitivity(self.iterations, self.min_separation, self.max_participations)

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        """The sensitivity of many participations is bounded level by level, and need not be reached."""
        mechanism = CorrelatedSpec.resolve(self, neighbours)
        exact = exact_in_tree(self.iterations, self.min_separation, self.max_participations)
        return mechanism if exact else mechanism.unclaimed()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToeplitzSpec(CorrelatedSpec):
    """DP-FTRL with a banded Toeplitz encoder: C x + noise is released, with C[i, j] = c_{i-j} non-negative and non-increasing.

    noise_multiplier is the standard deviation of the noise of C x itself, the columns of C not being normalised, over the bound on one
    record's contribution to one step (L2). If no coefficients are stated, they are the first `bands` of the square root of the
    prefix-sum matrix, binom(2k, k) / 4^k. `steps` of the entry repeats the whole run with fresh noise.

    Neighbours: all three adjacencies; a record's participations change together. No sampling: which steps see a record is bounded by
    max_participations and min_separation instead.

    Bounds: one Gaussian of the encoded stream's L2 sensitivity, exact for one record. No finite epsilon at delta = 0.

    Source: Choquette-Choo et al. 2023, arXiv:2306.08153; square root: Fichtenberger, Henzinger, Upadhyay 2022, arXiv:2202.11205; banded:
    Kalinin & Lampert 2024, arXiv:2405.13763.
    """

    example: ClassVar[Mapping[str, Any]] = {**TreeSpec.example, "bands": 4}

    coefficients: Annotated[
        tuple[float, ...] | None, Key("c_0, c_1, ...: the first column of the encoder, non-increasing", NON_NEGATIVE, varies=True)
    ] = None
    bands: Annotated[int | None, Key("number of square-root coefficients, instead of stating them", LENGTH, varies=True)] = None

    def problems(self) -> Iterator[tuple[str, str, str]]:
        if (self.coefficients is None) == (self.bands is None):
            yield "bands", "either coefficients or bands", "neither" if self.bands is None else "both"
        if self.coefficients is not None:
            if not self.coefficients or self.coefficients[0] <= 0.0:
                yield "coefficients", "a first one > 0", str(list(self.coefficients[:3]))
            rise = next((k for k in range(1, len(self.coefficients)) if self.coefficients[k] > self.coefficients[k - 1]), None)
            if rise is not None:
                change = f"{self.coefficients[rise]!r} after {self.coefficients[rise - 1]!r}"
                yield "coefficients", "numbers that never rise, which the worst participation is proven for", change

    def encoded_norm(self) -> float:
        column = np.array(self.coefficients) if self.coefficients is not None else square_root(self.bands or 1)
        return toeplitz_sensitivity(column, self.iterations, self.min_separation, self.max_participations)


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferedToeplitzSpec(CorrelatedSpec):
    """DP-FTRL with a buffered linear Toeplitz (BLT) encoder: C x + noise is released, c_0 = 1 and c_k = sum_i output_scale_i
    buf_decay_i^{k-1}.

    noise_multiplier is the standard deviation of the noise of C x over the bound on one record's contribution to one step (L2). The
    parameters are of the encoder C, not of its inverse: the two have different ones. `steps` of the entry repeats the whole run with fresh
    noise.

    Neighbours: all three adjacencies; a record's participations change together. No sampling: which steps see a record is bounded by
    max_participations and min_separation instead.

    Bounds: one Gaussian of the encoded stream's L2 sensitivity, exact for one record. No finite epsilon at delta = 0.

    Source: Dvijotham et al. 2024, arXiv:2404.16706; McMahan et al. 2024, arXiv:2408.08868.
    """

    example: ClassVar[Mapping[str, Any]] = {**TreeSpec.example, "buf_decay": [0.9, 0.5], "output_scale": [0.4, 0.3]}

    buf_decay: Annotated[tuple[float, ...], Key("decay of each buffer", DECAY, varies=True)]
    output_scale: Annotated[
        tuple[float, ...], Key("weight of each buffer in the output; they add up to at most 1", NON_NEGATIVE, varies=True)
    ]

    def problems(self) -> Iterator[tuple[str, str, str]]:
        if len(self.buf_decay) != len(self.output_scale):
            yield "output_scale", f"one for each of {len(self.buf_decay)} decays", str(len(self.output_scale))
        if sum(self.output_scale) > 1.0:
            yield "output_scale", "weights that add up to at most 1, so that coefficients never rise", repr(sum(self.output_scale))

    def encoded_norm(self) -> float:
        return toeplitz_sensitivity(self._column(), self.iterations, self.min_separation, self.max_participations)

    def _column(self) -> Array:
        column = np.ones(self.iterations)
        column[1:] = 0.0
        for decay, weight in zip(self.buf_decay, self.output_scale, strict=True):
            powers = _powers(decay, self.iterations - 1)
            column[1 : 1 + len(powers)] += weight * powers
        return column


@shared(16)
def _norm(spec: CorrelatedSpec) -> float:
    """Return the norm of an encoded contribution, remembered: a search for the noise asks for it again and again."""
    return spec.encoded_norm()


def _powers(base: float, count: int) -> Array:
    """base^k for k < count, as far as they are numbers; relative error 1e-13."""
    if base in (0.0, 1.0):
        return np.ones(count if base else min(count, 1))
    slope = math.log(base)
    return np.asarray(np.exp(slope * np.arange(min(count, math.ceil(-745.0 / slope) + 1))))


def square_root(count: int) -> Array:
    """binom(2k, k) / 4^k for k < count: f_k = f_{k-1} (1 - 1/(2k))."""
    return np.asarray(np.cumprod(np.concatenate(([1.0], 1.0 - 0.5 / np.arange(1.0, count)))))


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
