"""Matrix mechanisms (DP-FTRL): a stream of sums is released with noise that is correlated from step to step.

Let x_1, x_2, ... be the clipped sums of the steps, and C a lower triangular matrix, the encoder. C x + noise, or any function of it, is
released. The noise is one Gaussian vector for the whole run. So the run costs as much as one Gaussian at the sensitivity of x -> C x, also
if each step depends on the earlier releases (Denisov et al. 2022, arXiv:2202.08312, Theorem 2.1).

The specs below have the keys of the types, which differ in their matrix. `resolve` returns the cost of a whole run, and `poisson_run` that
of one turn on Poisson samples, with the number of turns. A record *participates* in some of the steps. The keys limit how often, and how
close together. `encoded_norm` bounds the largest effect of these participations. `unclaimed` drops the claim that some data attain a bound.

Poisson sampling (Choquette-Choo et al. 2023, arXiv:2306.08153). Let C have b bands: C[i, j] = 0 unless 0 <= i - j < b. Divide the records
into g >= b groups, independently of the data. The groups take turns: group j takes part in steps j, j + g, j + 2g, ..., and in each of them
draws every one of its records independently with probability q. A run of n steps then costs no more than k = ceil(n / g) steps of Gaussian
noise on Poisson samples of rate q, whose sensitivity is the largest norm of a column of C. Proof:

* Let a unit's records be in group j. Reveal the draws of all other records, which do not depend on the unit. This only raises the cost.
* Block i of the output consists of rows t = j + i g to t + g - 1. A column s of C is zero outside of rows s to s + b - 1, and b <= g. So
  column t lies in block i, and is the only one of the unit's columns that meets this block. Rows before j do not depend on the unit.
* Given the earlier outputs, the contributions of all other records are known: the draws are revealed, and a gradient depends on earlier
  outputs alone. Subtract them row by row. What is left of block i is B u times column t, plus noise: u is a contribution that the outputs
  before step t determine, and B is whether it was drawn, which is independent of all earlier blocks.
* So block i is one step of Gaussian noise on a Poisson sample, chosen after the earlier blocks were seen, with sensitivity |u| |column t|.
  The blocks are an adaptive composition, of at most k steps.

A unit of group 0 that contributes u = 1 in all of its steps attains this bound, if all of its columns have the largest norm.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, Any, ClassVar

from dpcli.base.errors import InputError
from dpcli.base.fields import COUNT, NON_NEGATIVE, POSITIVE, Constraint, Key
from dpcli.base.premise import SECRET, Premises, moves, of_mechanism
from dpcli.base.values import dataclass
from dpcli.mechanisms.combined.composed import Composed
from dpcli.mechanisms.combined.group import for_group
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.noise.additive import NoPrivacy
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.mechanisms.spec import CostEvidence, Spec
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.closed.participation import exact_in_tree, toeplitz_sensitivity, tree_sensitivity
from dpcli.numerics.work import shared  # a cache

# Memory: the column of a Toeplitz encoder of 10^7 numbers takes 80 MB.
LENGTH = Constraint("a whole number from 1 to 10^7", lambda x: 1 <= x <= 10**7, (("minimum", 1), ("maximum", 10**7)))
DECAY = Constraint("a number in [0, 1]", lambda x: 0 <= x <= 1, (("minimum", 0), ("maximum", 1)))
# Time: largest number of steps of an encoder whose matrix is computed. The time grows with the cube of the steps.
MOST_STEPS = 1_024
SHORT = Constraint("a whole number from 1 to 1,024", lambda x: 1 <= x <= MOST_STEPS, (("minimum", 1), ("maximum", MOST_STEPS)))


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrelatedSpec(Spec):
    """Keys of every matrix mechanism. `steps` of the entry is the number of repetitions of the whole run, with fresh noise."""

    evidence: ClassVar[CostEvidence] = CostEvidence.PRICED
    needs_delta: ClassVar[bool] = True
    # What must hold for the cost, each with a test that violates it, and the commands that enforce it, if any.
    premises: ClassVar[Premises] = (
        SECRET,  # every draw is fresh, and nobody sees it
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
    # claim=True: dpcli does not enforce what the key states. varies=True: the runs of a sweep may differ in it.
    iterations: Annotated[int, Key("steps of one run", LENGTH, varies=True)]
    max_participations: Annotated[
        int, Key("largest number of steps of one run in which a record takes part", COUNT, claim=True, varies=True)
    ]
    min_separation: Annotated[
        int, Key("smallest number of steps from one participation of a record to its next", COUNT, claim=True, varies=True)
    ] = 1

    @property
    def contribution_form(self) -> bool:
        return True  # the noise is stated per contribution

    @property
    def sampling_refusal(self) -> str:
        return (
            "whose keys say how often a record takes part: amplification of correlated noise needs banded-matrix or banded-toeplitz "
            "(dpcli explain amplified-blt)"
        )

    def encoded_norm(self) -> float:
        """Return an upper bound on the L2 sensitivity of the encoded stream to one added or removed record with contributions up to 1."""
        raise NotImplementedError

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        """Return one Gaussian at the sensitivity of the whole encoded stream, which costs as much as the run.

        For several records, and for the two versions of a replaced record, the sensitivities are added, which is an upper bound.
        """
        noise = self._noise(_norm(replace(self, noise_multiplier=1.0)))  # the norm, which is cached, does not depend on the noise
        return noise.resolve(neighbours) if noise else NoPrivacy(math.inf)

    def _noise(self, norm: float) -> GaussianSpec | None:
        """Return Gaussian noise for contributions up to 1 and the sensitivity `norm`; None if there is too little noise for a float.

        An infinite noise multiplier is reduced to the largest float, which costs more.
        """
        multiplier = min(self.noise_multiplier / norm, sys.float_info.max)
        return GaussianSpec(noise_multiplier=multiplier) if multiplier > 0.0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnsSpec(CorrelatedSpec):
    """Keys of a matrix mechanism whose encoder has bands, and which may therefore have Poisson samples of groups that take turns."""

    takes_turns: ClassVar[bool] = True  # groups of the records take turns in the steps of a run
    premises: ClassVar[Premises] = (
        *CorrelatedSpec.premises,
        of_mechanism(
            "With sampling: all records of a unit are in the same one of min_separation groups, which take turns. The group does not "
            "depend on the data.",
            "test_a_record_in_two_groups_is_drawn_too_often",
            "train",
        ),
    )

    @property
    def sampling_refusal(self) -> str:
        return (
            'whose batches take turns: it allows scheme = "poisson" alone, in an entry with a sample of its own, with steps instead of '
            "epochs, and without max_batch_size"
        )

    @property
    def turns(self) -> int:
        """The largest number of steps of a run in which one of min_separation groups takes its turn."""
        return math.ceil(self.iterations / self.min_separation)

    def band(self) -> tuple[int, float]:
        """Return the number of bands, and the largest norm of a column, rounded up."""
        raise NotImplementedError

    def has_equal_columns(self) -> bool:
        """Return whether every column of the first group has the largest norm."""
        return True

    def poisson_run(self, rate: Fraction, neighbours: Neighbours) -> tuple[Mechanism, int]:
        """Return one turn of a group, by the proof in the module's docstring, and the number of turns.

        `rate` is the expected share of all records in a step. Several units may be in different groups, so that the group theorem gives
        their cost.

        Raises:
            InputError: The encoder has more bands than there are groups, a group has too few records for the rate, or its turns are more
                than max_participations.
        """
        bands, norm = self.band()
        groups = self.min_separation
        if bands > groups:
            raise InputError(f"with sampling, an encoder has at most min_separation = {groups} bands, found {bands}")
        if rate * groups > 1:
            raise InputError(
                f"with sampling, a step draws from one of min_separation = {groups} groups, at most 1/{groups} of all records, found "
                f"rate = {float(rate):.7g}"
            )
        if self.max_participations < self.turns:
            raise InputError(
                f"with sampling, max_participations is at least iterations / min_separation = {self.turns}, the turns of a group, found "
                f"{self.max_participations}"
            )
        noise = self._noise(norm)
        if noise is None:
            return NoPrivacy(math.inf), 1
        one_unit = Neighbours(neighbours.adjacency, neighbours.contributions)
        turn = noise.poisson(float(rate * groups), one_unit)
        turn = turn if self.has_equal_columns() else turn.unclaimed()
        if neighbours.group == 1:
            return turn, self.turns
        return for_group(Composed(((turn, self.turns),)), neighbours.group), 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeSpec(CorrelatedSpec):
    """DP-FTRL by tree aggregation: every complete node of a binary tree over the steps is a sum with independent Gaussian noise.

    noise_multiplier is the standard deviation of each node's noise over C, the bound on one record's contribution to one step (L2). All
    nodes, and therefore all prefix sums, are released. If training restarts the tree (say, each epoch), set `steps` to the number of trees
    and `max_participations` to the most within one tree. With `trees`, a run has several trees, one after the other, and
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
class ToeplitzSpec(TurnsSpec):
    """DP-FTRL with a banded Toeplitz encoder. C x + noise is released, with C[i, j] = c_{i-j} non-negative and non-increasing.

    noise_multiplier is the standard deviation of the noise on C x over the bound on one record's contribution to one step (L2). The columns
    of C are not normalised. If no coefficients are stated, they are the first `bands` coefficients of the square root of the prefix-sum
    matrix, binom(2k, k) / 4^k. `steps` of the entry is the number of repetitions of the whole run, with fresh noise.

    Neighbours: all three adjacencies. All participations of a record change together. max_participations and min_separation limit the steps
    in which a record takes part. With scheme = "poisson", min_separation groups of the records take turns. A step draws each record of its
    group with min_separation times the stated rate, so that rate or batch_size is that of DP-SGD.

    Bounds: those of one Gaussian with the L2 sensitivity of the encoded stream, exact for one record. With sampling, those of one DP-SGD
    step for each turn of a group, exact for one unit if the last turn is not cut off; several units get bounds by the group theorem. No
    finite epsilon at delta = 0.

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
        return toeplitz_sensitivity(self.column(), self.iterations, self.min_separation, self.max_participations)

    def column(self) -> Array:
        """Return the coefficients, with which the first column of the encoder begins."""
        return np.array(self.coefficients) if self.coefficients is not None else square_root(self.bands or 1)

    def band(self) -> tuple[int, float]:
        column = self.column()
        norm = float(column[0]) if len(column) == 1 else toeplitz_sensitivity(column, self.iterations, 1, 1)  # of one step
        return min(len(column), self.iterations), norm

    def has_equal_columns(self) -> bool:
        """Return whether the last column of the first group is not cut off at the end of the run."""
        return (self.turns - 1) * self.min_separation + min(len(self.column()), self.iterations) <= self.iterations


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
class BandedSpec(TurnsSpec):
    """DP-FTRL with a banded matrix that is optimised for prefix sums (BandMF). C x + noise is released. C is lower triangular, with C[i, j]
    = 0 for i - j >= bands, and every column has Euclidean length 1.

    noise_multiplier is the standard deviation of the noise on C x over the bound on one record's contribution to one step (L2). Training
    computes the matrix from the number of iterations and bands alone, and reads no data for it. `steps` of the entry is the number of
    repetitions of the whole run, with fresh noise.

    Neighbours: all three adjacencies. All participations of a record change together. max_participations and min_separation limit the steps
    in which a record takes part. With scheme = "poisson", min_separation groups of the records take turns. A step draws each record of its
    group with min_separation times the stated rate, so that rate or batch_size is that of DP-SGD.

    Bounds: those of one Gaussian with the L2 sensitivity of the encoded stream, exact for one record. With sampling, those of one DP-SGD
    step for each turn of a group, exact for one unit; several units get bounds by the group theorem. No finite epsilon at delta = 0.

    Source: Choquette-Choo et al. 2023, arXiv:2306.08153.
    """

    example: ClassVar[Mapping[str, Any]] = {**TreeSpec.example, "bands": 4}

    iterations: Annotated[int, Key("steps of one run; the time to compute the matrix grows with their cube", SHORT, varies=True)]
    bands: Annotated[int, Key("nonzero entries in a column of the matrix, at most min_separation", SHORT, varies=True)]

    def problems(self) -> Iterator[tuple[str, str, str]]:
        if self.bands > self.min_separation:
            expected = f"at most min_separation = {self.min_separation}, so that a record's columns never overlap"
            yield "bands", expected, f"{self.bands}"

    def band(self) -> tuple[int, float]:
        return self.bands, 1.0 if self.bands == 1 else 1.0 + 1e-12  # more than the error of a computed column's length

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
    if base in (0.0, 1.0):  # for base 0, only 0^0 = 1 is not 0
        return np.ones(count if base else min(count, 1))
    slope = math.log(base)  # below e^-745, a float is 0
    return np.asarray(np.exp(slope * np.arange(min(count, math.ceil(-745.0 / slope) + 1))))


def square_root(count: int) -> Array:
    """Return f_k = binom(2k, k) / 4^k for k = 0, ..., count - 1, by f_k = f_{k-1} (1 - 1/(2k))."""
    return np.asarray(np.cumprod(np.concatenate(([1.0], 1.0 - 0.5 / np.arange(1.0, count)))))
