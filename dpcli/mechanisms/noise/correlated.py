"""Matrix mechanisms (DP-FTRL): a stream of sums is released with noise that is correlated from step to step.

Let x_1, x_2, ... be the clipped sums of the steps, and C a lower triangular matrix, the encoder. C x + noise, or any function of it, is
released. The noise is one Gaussian vector for the whole run. So the run costs as much as one Gaussian at the sensitivity of x -> C x, also
if each step depends on the earlier releases (Denisov et al. 2022, arXiv:2202.08312, Theorem 2.1).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
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

# The column of a Toeplitz encoder of 10^7 numbers takes 80 MB.
LENGTH = Constraint("a whole number from 1 to 10^7", lambda x: 1 <= x <= 10**7, (("minimum", 1), ("maximum", 10**7)))
DECAY = Constraint("a number in [0, 1]", lambda x: 0 <= x <= 1, (("minimum", 0), ("maximum", 1)))
MOST_STEPS = 1_024  # largest number of steps of an encoder whose matrix is computed
SHORT = Constraint("a whole number from 1 to 1,024", lambda x: 1 <= x <= MOST_STEPS, (("minimum", 1), ("maximum", MOST_STEPS)))


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrelatedSpec(Spec):
    """Keys of every matrix mechanism. `steps` of the entry is the number of repetitions of the whole run, with fresh noise."""

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
        int, Key("largest number of steps of one run in which a record takes part", COUNT, claim=True, varies=True)
    ]
    min_separation: Annotated[
        int, Key("smallest number of steps from one participation of a record to its next", COUNT, claim=True, varies=True)
    ] = 1

    @property
    def contribution_form(self) -> bool:
        return True

    @property
    def unsampled(self) -> str:
        return "whose keys say how often a record takes part: amplification of correlated noise is not implemented"

    def encoded_norm(self) -> float:
        """Return an upper bound on the L2 sensitivity of the encoded stream to one added or removed record, in units of the bound C."""
        raise NotImplementedError

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        """Return one Gaussian. The sensitivities of several records, and of the two versions of a record, at most add up."""
        # An infinite noise multiplier is reduced to the largest float, which costs more.
        multiplier = min(self.noise_multiplier / _norm(replace(self, noise_multiplier=1.0)), sys.float_info.max)
        return GaussianSpec(noise_multiplier=multiplier).resolve(neighbours) if multiplier > 0.0 else NoPrivacy(math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeSpec(CorrelatedSpec):
    """DP-FTRL by tree aggregation: every complete node of a binary tree over the steps is a sum with independent Gaussian noise.

    noise_multiplier is the standard deviation of each node's noise over C, the bound on one record's contribution to one step (L2). All
    nodes, and therefore all prefix sums, are released. A restart with a fresh tree, for example after each epoch, counts as another one of
    the entry's `steps`. The participations are then those within one tree. With `trees`, a run has several trees, one after the other, and
    the participations are those within the run: a record with one participation costs as much as in the tree with the most levels alone.

    Neighbours: all three adjacencies. All participations of a record change together. There is no sampling; max_participations and
    min_separation limit the steps in which a record takes part.

    Bounds: those of one Gaussian. They are exact for one record with up to 100 participations, whose worst steps are found by a search. For
    more participations they are upper bounds, computed level by level. No finite epsilon at delta = 0.

    Source: Kairouz et al. 2021, arXiv:2103.00039.
    """

    example: ClassVar[Mapping[str, Any]] = {
        "noise_multiplier": 40.0,
        "iterations": 16,
        "max_participations": 2,
        "min_separation": 8,
    }

    trees: Annotated[
        tuple[int, ...] | None,
        Key("steps of each tree of one run, which add up to iterations; by default one tree", LENGTH, varies=True),
    ] = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of steps of each tree of one run."""
        return self.trees or (self.iterations,)

    def problems(self) -> Iterator[tuple[str, str, str]]:
        if sum(self.sizes) != self.iterations:
            yield "trees", f"sizes that add up to iterations = {self.iterations}", str(sum(self.sizes))

    def encoded_norm(self) -> float:
        return tree_sensitivity(self.sizes, self.min_separation, self.max_participations)

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        """Return the Gaussian. It does not claim to be attained if the sensitivity is only bounded level by level."""
        mechanism = CorrelatedSpec.resolve(self, neighbours)
        exact = self.max_participations == 1 or exact_in_tree(self.sizes, self.min_separation, self.max_participations)
        return mechanism if exact else mechanism.unclaimed()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToeplitzSpec(CorrelatedSpec):
    """DP-FTRL with a banded Toeplitz encoder. C x + noise is released, with C[i, j] = c_{i-j} non-negative and non-increasing.

    noise_multiplier is the standard deviation of the noise on C x over the bound on one record's contribution to one step (L2). The columns
    of C are not normalised. If no coefficients are stated, they are the first `bands` coefficients of the square root of the prefix-sum
    matrix, binom(2k, k) / 4^k. `steps` of the entry is the number of repetitions of the whole run, with fresh noise.

    Neighbours: all three adjacencies. All participations of a record change together. There is no sampling; max_participations and
    min_separation limit the steps in which a record takes part.

    Bounds: those of one Gaussian with the L2 sensitivity of the encoded stream, exact for one record. No finite epsilon at delta = 0.

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
                yield "coefficients", "a first coefficient > 0", str(list(self.coefficients[:3]))
            rises = [(earlier, later) for earlier, later in pairwise(self.coefficients) if later > earlier]
            if rises:
                earlier, later = rises[0]
                expected = "coefficients that never increase (the worst participation is proved only for these)"
                yield "coefficients", expected, f"{later!r} after {earlier!r}"

    def encoded_norm(self) -> float:
        column = np.array(self.coefficients) if self.coefficients is not None else square_root(self.bands or 1)
        return toeplitz_sensitivity(column, self.iterations, self.min_separation, self.max_participations)


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferedToeplitzSpec(CorrelatedSpec):
    """DP-FTRL with a buffered linear Toeplitz (BLT) encoder. C x + noise is released, with c_0 = 1 and c_k = sum_i output_scale_i
    buf_decay_i^{k-1}.

    noise_multiplier is the standard deviation of the noise on C x over the bound on one record's contribution to one step (L2). The
    parameters are those of the encoder C, and not those of its inverse, which differ. `steps` of the entry is the number of repetitions of
    the whole run, with fresh noise.

    Neighbours: all three adjacencies. All participations of a record change together. There is no sampling; max_participations and
    min_separation limit the steps in which a record takes part.

    Bounds: those of one Gaussian with the L2 sensitivity of the encoded stream, exact for one record. No finite epsilon at delta = 0.

    Source: Dvijotham et al. 2024, arXiv:2404.16706; McMahan et al. 2024, arXiv:2408.08868.
    """

    example: ClassVar[Mapping[str, Any]] = {**TreeSpec.example, "buf_decay": [0.9, 0.5], "output_scale": [0.4, 0.3]}

    buf_decay: Annotated[tuple[float, ...], Key("decay of each buffer", DECAY, varies=True)]
    output_scale: Annotated[
        tuple[float, ...], Key("weight of each buffer in the output; they add up to at most 1", NON_NEGATIVE, varies=True)
    ]

    def problems(self) -> Iterator[tuple[str, str, str]]:
        if len(self.buf_decay) != len(self.output_scale):
            yield "output_scale", f"one weight for each of {len(self.buf_decay)} decays", str(len(self.output_scale))
        if sum(self.output_scale) > 1.0:
            expected = "weights that add up to at most 1, so that coefficients never increase"
            yield "output_scale", expected, repr(sum(self.output_scale))

    def encoded_norm(self) -> float:
        return toeplitz_sensitivity(self._column(), self.iterations, self.min_separation, self.max_participations)

    def _column(self) -> Array:
        """Return the first column of the encoder."""
        column = np.ones(self.iterations)
        column[1:] = 0.0
        for decay, weight in zip(self.buf_decay, self.output_scale, strict=True):
            powers = _powers(decay, self.iterations - 1)
            column[1 : 1 + len(powers)] += weight * powers
        return column


@dataclass(frozen=True, slots=True, kw_only=True)
class BandedSpec(CorrelatedSpec):
    """DP-FTRL with a banded matrix that is optimised for prefix sums (BandMF). C x + noise is released. C is lower triangular, with C[i, j]
    = 0 for i - j >= bands, and every column has Euclidean length 1.

    noise_multiplier is the standard deviation of the noise on C x over the bound on one record's contribution to one step (L2). Training
    computes the matrix from the number of iterations and bands alone, and reads no data for it. `steps` of the entry is the number of
    repetitions of the whole run, with fresh noise.

    Neighbours: all three adjacencies. All participations of a record change together. There is no sampling; max_participations and
    min_separation limit the steps in which a record takes part.

    Bounds: those of one Gaussian with the L2 sensitivity of the encoded stream, exact for one record. No finite epsilon at delta = 0.

    Source: Choquette-Choo et al. 2023, arXiv:2306.08153.
    """

    example: ClassVar[Mapping[str, Any]] = {**TreeSpec.example, "bands": 4}

    iterations: Annotated[int, Key("steps of one run; the time to compute the matrix grows with their cube", SHORT, varies=True)]
    bands: Annotated[int, Key("nonzero entries in a column of the matrix, at most min_separation", SHORT, varies=True)]

    def problems(self) -> Iterator[tuple[str, str, str]]:
        if self.bands > self.min_separation:
            expected = f"at most min_separation = {self.min_separation}, so that a record's columns never overlap"
            yield "bands", expected, f"{self.bands}"

    def encoded_norm(self) -> float:
        """Return sqrt(m), where m = min(max_participations, ceil(iterations / min_separation)) is the largest number of participations.

        A record's contributions x_1, ..., x_k have norm at most 1. They are in steps t_1 < ... < t_k that are at least min_separation >=
        bands apart. Column t of C is zero outside of rows t to t + bands - 1, so no two of the columns t_i share a row. Hence |C x|^2 is
        the sum over i of |column t_i|^2 |x_i|^2, which is at most k, whatever the directions of the contributions are. k = m contributions
        of norm 1 attain it. No more than m steps so far apart fit into a run. The result is rounded up by more than the error of a column's
        length.
        """
        return math.sqrt(min(self.max_participations, math.ceil(self.iterations / self.min_separation))) * (1.0 + 1e-12)


@shared(16)
def _norm(spec: CorrelatedSpec) -> float:
    """Return `encoded_norm`, cached, because a search for the noise asks for it many times."""
    return spec.encoded_norm()


def _powers(base: float, count: int) -> Array:
    """Return base^k for k = 0, ..., count - 1, up to the first one that underflows, with a relative error of about 1e-13.

    base: from 0 to 1.
    """
    if base in (0.0, 1.0):
        return np.ones(count if base else min(count, 1))
    slope = math.log(base)  # below e^-745, a float is 0
    return np.asarray(np.exp(slope * np.arange(min(count, math.ceil(-745.0 / slope) + 1))))


def square_root(count: int) -> Array:
    """Return f_k = binom(2k, k) / 4^k for k = 0, ..., count - 1, by f_k = f_{k-1} (1 - 1/(2k))."""
    return np.asarray(np.cumprod(np.concatenate(([1.0], 1.0 - 0.5 / np.arange(1.0, count)))))
