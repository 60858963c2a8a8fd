"""Conversion of each mechanism into a part of a certificate: a dominating pair with the exact numbers of the file.

A *part* is a pair of distributions (P, Q) in the form that checker.py reads, such as {"kind": "laplace", "epsilon": "1/2"}. CONVERSIONS has
a function for each class of mechanisms that has a part. It returns the part and what is assumed of its pair, in words; a mechanism of
another class is refused. certified_parts.py calls it for each line of the bill (`BillLine`): a mechanism with its count, and the entries of
the file that it comes from.

Noise, sensitivities, rates and epsilons are the decimals and fractions of the entries wherever the accountants use them as stated. A number
that the accountants compute is taken from them, rounded up, and the certificate lists it as an assumption (`AsComputed`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dpcli.base.errors import InternalError, NotRepresentable
from dpcli.certify.exact_norms import READABLE, SquaredNorm, squared_norm
from dpcli.file.pipeline.resolve import BillLine
from dpcli.mechanisms.choice.exponential import BoundedRange, ExponentialChoice
from dpcli.mechanisms.choice.randomized_response import RandomizedResponse
from dpcli.mechanisms.mechanism import Dominated, Mechanism
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.noise.correlated import CorrelatedSpec, TurnsSpec
from dpcli.mechanisms.noise.discrete_gaussian import DiscreteGaussian, DiscreteGaussianSpec, DiscreteGaussianVector, Norms
from dpcli.mechanisms.noise.discrete_laplace import DiscreteLaplace
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec, SampledGaussian, SampledGaussianReplaced
from dpcli.mechanisms.noise.laplace import Laplace, LaplaceSpec
from dpcli.mechanisms.noise.laplace_mixture import LaplaceMixtureReplaced
from dpcli.mechanisms.noise.nearly_gaussian import ROUNDING_VARIANCE, NearlyGaussian
from dpcli.mechanisms.sampling.poisson import PoissonReplaced, PoissonSampled
from dpcli.mechanisms.sampling.schemes import FixedSize, Poisson, Scheme
from dpcli.mechanisms.spec import Spec
from dpcli.mechanisms.stated.pure_and_approx import Free, MayFail, Pure, StatedPure
from dpcli.mechanisms.stated.renyi import StatedZcdp, Zcdp

Part = dict[str, Any]  # a pair in the checker's form: "kind", and its parameters as strings of fractions or as integers
Converted = tuple[Part, tuple[str, ...]]  # a part, and the assumptions about its pair

# What a certificate assumes of the pairs. `dpcli explain` has the proofs that no paper has.
GAUSSIAN = "Gaussian noise is dominated by its shift in one coordinate (Balle, Wang 2018, arXiv:1805.06530)"
LAPLACE = "Laplace noise is dominated by its whole shift in one coordinate (dpcli explain laplace)"
TWO_POINTS = "randomised response dominates what is (epsilon, delta)-DP (Kairouz, Oh, Viswanath 2015, arXiv:1311.0776)"
INTEGERS = "discrete Laplace noise is dominated by its whole shift in one coordinate (dpcli explain discrete-laplace)"
ONE_INTEGER = "discrete Gaussian noise on one integer (Canonne, Kamath, Steinke 2020, arXiv:2004.00010)"
NEARLY_GAUSSIAN = (
    "discrete Gaussian noise is a random rounding of Gaussian noise of variance sigma^2 - 5 (dpcli explain discrete-gaussian)"
)
INTEGERS_OF_VECTOR = "discrete Gaussian noise on integers that move by v is |v|^2 / (2 sigma^2)-zCDP (arXiv:2004.00010, Theorem 14)"
SUM_OF_INTEGERS = (
    "the sum of {} discrete Gaussians costs no more than one of a slightly smaller variance, as the accountants take it"
)
RANGE = "choices have the stated bounded range (Dong, Durfee, Rogers 2020, arXiv:1909.13830)"
RESPONSE = "randomised response has the stated epsilon"
SAMPLED = "each record is in each Poisson sample by itself (Zhu, Dong, Wang 2022, arXiv:2106.08567, Theorem 11)"
REPLACED = "opposite shifts of full size dominate a replaced record on a Poisson sample (dpcli explain gaussian)"
REPLACED_LAPLACE = "opposite shifts of full size dominate a replaced record on a Poisson sample (dpcli explain laplace)"
REPLACED_ATOMS = "a replaced record on a sample is dominated by the pair of its inclusion, mirrored (dpcli explain poisson)"
TURNS = "a unit's records are in one group, and each turn of the group is one such step (arXiv:2306.08153)"
FIXED_SIZE = "every sample of the stated size is as likely as any other (Wang, Balle, Kasiviswanathan 2019, arXiv:1808.00087)"
GROUPED = "records of one unit are dominated by collinear ones (Choquette-Choo et al. 2023, arXiv:2310.15526)"


class AsComputed(str):
    """An assumption that a number is as the accountants computed it. Such a number is rounded up, so no lower bound follows from it."""


# Soundness: an exact number of the file replaces the accountants' only if they differ by no more than rounding explains.
NEAR = Fraction(1, 10**11)  # largest relative difference of two mu^2 by rounding: the accountants raise mu by up to 1e-12
READING = Fraction(1, 10**12)  # largest relative difference between a ratio of fractions and one of doubles
# Soundness: it bounds the relative error of a quotient and a few roots of doubles. The largest error seen is 4e-16.
ROUNDING = Fraction(1, 10**14)
# The checker adds up the outcomes of a discrete Gaussian up to this many standard deviations. About e^-128 of its mass lies beyond. The
# checker bounds that mass, so this affects only accuracy and time.
REACH = 16.0


def without_dominated(mechanism: Mechanism) -> Mechanism:
    """Strip `Dominated`, which only records that no dataset need attain the bound."""
    while isinstance(mechanism, Dominated):
        mechanism = mechanism.by
    return mechanism


def only_spec(line: BillLine) -> Spec | None:
    """Return the keys of the line's only entry; None if several entries share a sample, so that no entry states the mechanism."""
    return line.entries[0].spec if len(line.entries) == 1 else None


def _exact(value: float) -> Fraction:
    """Return a number of the file as the shortest decimal that reads as this double."""
    return Fraction(repr(value))


def _stated_ratio(spec: GaussianSpec | LaplaceSpec) -> Fraction:
    """Return the stated sensitivity over the stated noise, for specs without noise_multiplier."""
    noise = spec.sigma if isinstance(spec, GaussianSpec) else spec.scale
    assert spec.sensitivity is not None and noise is not None  # the file's reader requires both, or noise_multiplier
    return _exact(spec.sensitivity) / _exact(noise)


def _ratio_of_all(line: BillLine, neighbours: Neighbours) -> Fraction | None:
    """Return the exact sensitivity over noise for all records that change together; None if no single entry states it."""
    spec = only_spec(line)
    if not isinstance(spec, GaussianSpec | LaplaceSpec):
        return None
    if spec.noise_multiplier is not None:
        return neighbours.contribution_bounds / _exact(spec.noise_multiplier)
    return neighbours.group * _stated_ratio(spec)


def _ratio_of_one(line: BillLine, neighbours: Neighbours) -> Fraction | None:
    """Return the exact bound on one record's contribution over noise; None if no single entry states it.

    A stated sensitivity is that of all records of a unit, so it says nothing about one of several records.
    """
    spec = only_spec(line)
    if not isinstance(spec, GaussianSpec | LaplaceSpec):
        return None
    if spec.noise_multiplier is not None:
        return 1 / _exact(spec.noise_multiplier)
    return None if neighbours.records > 1 else _stated_ratio(spec)


def _confirm(line: BillLine, exact: Fraction | None, computed: float) -> tuple[Fraction, tuple[str, ...]]:
    """Return the exact sensitivity over noise without an assumption if the accountants compute the same number.

    Otherwise the accountants' number is used, rounded up, and the certificate lists it as an assumption.

    exact: the number of the file; None if it states no exact one. Raises InternalError if the accountants use less than the file states.
    """
    if exact is None or computed > exact * (1 + READING):
        kind = line.entries[0].type
        assumed = AsComputed(
            f'"{line.name}" ({kind}): sensitivity over noise is at most {computed!r}, as the accountants computed it'
        )
        return Fraction(computed) * (1 + ROUNDING), (assumed,)
    if not math.isclose(float(exact), computed, rel_tol=float(READING)):
        raise InternalError(f"certify reads {float(exact)!r} from the file, where the accountants have {computed!r}")
    return exact, ()


def _mu_squared(line: BillLine, neighbours: Neighbours, mu: float) -> tuple[Fraction, tuple[str, ...]]:
    """Return the squared sensitivity over noise of Gaussian noise without sampling, and what is assumed of it.

    mu: the accountants' sensitivity over noise. Raises InternalError if it is smaller than the file says.
    """
    square = _mu_squared_of_matrix(line, neighbours.contribution_bounds, mu)
    if square is not None:
        return square, ()
    ratio, assumed = _confirm(line, _ratio_of_all(line, neighbours), mu)
    return ratio**2, assumed


def _squared_norm_of(line: BillLine) -> SquaredNorm | None:
    """Return the squared sensitivity of the line's matrix mechanism: that of one turn if groups of the records take turns, else of a run.

    In a turn a record takes part in one step, so that its sensitivity is that of one column of the encoder. None for another mechanism, or
    if the exact number is not known (`squared_norm`).
    """
    turn, spec = _in_turns(line), only_spec(line)
    if turn is not None:
        return squared_norm(replace(turn, max_participations=1))
    return None if spec is None else squared_norm(spec)


def _in_turns(line: BillLine) -> TurnsSpec | None:
    """Return the keys of the line's only entry if it is one turn of one of the groups of the records; else None."""
    spec = only_spec(line)
    return spec if isinstance(spec, TurnsSpec) and isinstance(line.entries[0].sampling, Poisson) else None


def _mu_squared_of_matrix(line: BillLine, bounds: int, mu: float) -> Fraction | None:
    """Return the exact squared sensitivity over noise of a matrix mechanism.

    bounds: the largest move of a sum, in bounds on one record's contribution.

    None for another mechanism, if the exact number is too long to compute or to write down, or if the accountants' mu is larger. Raises
    InternalError if their mu is smaller.
    """
    spec, norm = only_spec(line), _squared_norm_of(line)
    if not isinstance(spec, CorrelatedSpec) or norm is None or not math.isfinite(spec.noise_multiplier):
        return None
    exact = norm.value * (bounds / _exact(spec.noise_multiplier)) ** 2
    excess = Fraction(mu) ** 2 / exact - 1
    if excess < -NEAR:
        raise InternalError(f"certify reads a square of {float(exact)!r} from the file, where the accountants have {mu!r}^2")
    bits = max(exact.numerator.bit_length(), exact.denominator.bit_length())
    return exact if excess <= NEAR and bits <= READABLE else None


def is_rounded_up(line: BillLine) -> bool:
    """Return whether the sensitivity of the line's matrix mechanism is rounded up, so that no data attain it."""
    norm = _squared_norm_of(line)
    return norm is not None and norm.rounded


def _sampling(line: BillLine) -> Scheme | None:
    """Return the sampling of the line's entry, or None. Raises NotRepresentable if several entries share a sample."""
    if len(line.entries) != 1:
        raise NotRepresentable(f'"{line.name}": entries that share a sample')
    return line.entries[0].sampling


def _rate(line: BillLine, dataset_size: int | None, rate: float) -> Fraction:
    """Return the exact sampling rate that the file states. `rate` is the accountants' rate.

    Raises NotRepresentable if the file states no rate or another one, if it limits the batches, or if several entries share the sample.
    """
    sampling = _sampling(line)
    if getattr(sampling, "max_batch_size", None) is not None:
        raise NotRepresentable(f'"{line.name}": certify knows samples without max_batch_size')
    exact = None if sampling is None else sampling.exact_rate(dataset_size)
    if exact is not None and (turn := _in_turns(line)) is not None:
        exact *= turn.min_separation  # the rate within a group
    if exact is None or float(exact) != rate:
        raise NotRepresentable(f'"{line.name}": certify knows samples whose rate the file states, and the accountants use {rate!r}')
    return Fraction(exact)


def _convert_gaussian(mechanism: Gaussian, line: BillLine, neighbours: Neighbours, _: int | None) -> Converted:
    square, assumed = _mu_squared(line, neighbours, mechanism.mu)
    return {"kind": "gaussian", "mu_squared": str(square)}, (GAUSSIAN, *assumed)


def _convert_sampled_gaussian(
    mechanism: SampledGaussian, line: BillLine, neighbours: Neighbours, dataset_size: int | None
) -> Converted:
    assumed: tuple[str, ...] = ()
    square = _mu_squared_of_matrix(line, 1, mechanism.mu)
    if square is None:
        ratio, assumed = _confirm(line, _ratio_of_one(line, neighbours), mechanism.mu)
        square = ratio**2
    rate = _rate(line, dataset_size, mechanism.rate)
    relation = "replace-one" if isinstance(mechanism, SampledGaussianReplaced) else "add-remove"
    part = {"kind": "mixture", "mu_squared": str(square), "rate": str(rate), "records": mechanism.records, "relation": relation}
    grouped = (GROUPED,) if mechanism.records > 1 else ()
    replaced = (REPLACED,) if neighbours.replaces else ()
    turns = (TURNS,) if _in_turns(line) is not None else ()
    return part, (GAUSSIAN, SAMPLED, *turns, *grouped, *replaced, *assumed)


def _convert_laplace(mechanism: Laplace, line: BillLine, neighbours: Neighbours, _: int | None) -> Converted:
    ratio, assumed = _confirm(line, _ratio_of_all(line, neighbours), mechanism.epsilon)
    return {"kind": "laplace", "epsilon": str(ratio)}, (LAPLACE, *assumed)


def _convert_replaced_laplace(
    mechanism: LaplaceMixtureReplaced, line: BillLine, neighbours: Neighbours, dataset_size: int | None
) -> Converted:
    """Convert Laplace noise on a Poisson sample under replace-one. Raises NotRepresentable if several records change together."""
    mixture = mechanism.mixture
    if not mixture.single or mixture.weights is None:
        raise NotRepresentable(f'"{line.name}": certify knows one replaced record on a sample of Laplace noise')
    # For one record, `reach` is the sensitivity over noise, and the first weight is the sampling rate.
    ratio, assumed = _confirm(line, _ratio_of_one(line, neighbours), mixture.reach)
    rate = _rate(line, dataset_size, mixture.weights[0])
    part = {"kind": "laplace", "epsilon": str(ratio), "rate": str(rate), "relation": "replace-one"}
    return part, (LAPLACE, SAMPLED, REPLACED_LAPLACE, *assumed)


def _convert_discrete_laplace(mechanism: DiscreteLaplace, line: BillLine, neighbours: Neighbours, _: int | None) -> Converted:
    return {"kind": "discrete-laplace", "scale": str(_exact(mechanism.scale)), "sensitivity": mechanism.sensitivity}, (INTEGERS,)


def _convert_discrete_gaussian(mechanism: DiscreteGaussian, line: BillLine, neighbours: Neighbours, _: int | None) -> Converted:
    """Convert discrete Gaussian noise on one integer, which may be the sum of the noises on a vector's coordinates.

    Such a sum is not exactly a discrete Gaussian, and the accountants lower its sigma by more than the difference. This is assumed.
    """
    spec = only_spec(line)
    variance = _exact(mechanism.sigma) ** 2
    assumed: tuple[str, ...] = (ONE_INTEGER,)
    if isinstance(spec, DiscreteGaussianSpec):
        variance_of_one = _exact(spec.sigma) ** 2
        noises = round(variance / variance_of_one)
        if noises == 1:
            variance = variance_of_one
        else:
            variance = Fraction(mechanism.sigma) ** 2 * (1 - ROUNDING)
            assumed = (AsComputed(f'"{line.name}" ({line.entries[0].type}): {SUM_OF_INTEGERS.format(noises)}'), ONE_INTEGER)
    reach = math.ceil(REACH * mechanism.sigma)
    part = {"kind": "discrete-gaussian", "sigma_squared": str(variance), "sensitivity": mechanism.sensitivity, "reach": reach}
    return part, assumed


def _convert_nearly_gaussian(mechanism: NearlyGaussian, line: BillLine, neighbours: Neighbours, _: int | None) -> Converted:
    mu_squared = mechanism.norm_squared / (_exact(mechanism.sigma) ** 2 - ROUNDING_VARIANCE)
    return {"kind": "gaussian", "mu_squared": str(mu_squared)}, (GAUSSIAN, NEARLY_GAUSSIAN)


def _convert_sampled(mechanism: PoissonSampled, line: BillLine, neighbours: Neighbours, dataset_size: int | None) -> Converted:
    """Convert a mechanism on a sample whose pair follows from that of the mechanism.

    Raises NotRepresentable if several records change together, if the checker has no such pair, or if `_rate` finds no exact rate.
    """
    if neighbours.records > 1:
        raise NotRepresentable(f'"{line.name}": certify knows one record on a sample of this mechanism')
    inner = without_dominated(mechanism.inner)
    is_replaced = isinstance(mechanism, PoissonReplaced)
    convert = CONVERSIONS.get(type(inner))
    has_pair = type(inner) in MIRRORED if is_replaced else type(inner) not in NEVER_SAMPLED
    if convert is None or not has_pair:
        raise NotRepresentable(f'"{line.name}": certify has no pair for this mechanism on a sample ({line.entries[0].type})')
    part, assumed = convert(inner, line, neighbours, None)
    part["rate"] = str(_rate(line, dataset_size, mechanism.rate))
    if not is_replaced:
        return part, (*assumed, SAMPLED)
    drawn = FIXED_SIZE if isinstance(_sampling(line), FixedSize) else SAMPLED
    return {**part, "relation": "replace-one"}, (*assumed, drawn, REPLACED_ATOMS)


def _convert_choice(mechanism: BoundedRange, line: BillLine, neighbours: Neighbours, _: int | None) -> Converted:
    epsilon, assumed = _epsilon_of(line, mechanism.epsilon)
    return {"kind": "range", "epsilon": str(epsilon)}, (RANGE, *assumed)


def _epsilon_of(line: BillLine, epsilon: float) -> tuple[Fraction, tuple[str, ...]]:
    """Return the epsilon of the file without an assumption if it is `epsilon`, the accountants' own.

    Otherwise return theirs, rounded up, with the assumption that it is an upper bound. Raises NotRepresentable for randomised response that
    states `keep`: near keep = 1, the double that the accountants use is too coarse.
    """
    spec = only_spec(line)
    if getattr(spec, "keep", None) is not None:
        raise NotRepresentable(f'"{line.name}": certify reads the epsilon of randomised response, not keep: state epsilon')
    if getattr(spec, "epsilon", None) == epsilon:
        return _exact(epsilon), ()
    assumed = AsComputed(f'"{line.name}" ({line.entries[0].type}): epsilon is at most {epsilon!r}, as the accountants computed it')
    return _at_least(epsilon) * (1 + ROUNDING), (assumed,)


def _at_least(value: float) -> Fraction:
    """Return the larger of the exact double, which the accountants use, and its decimal, which is printed."""
    return max(Fraction(value), _exact(value))


def _convert_rho(mechanism: Mechanism, line: BillLine, neighbours: Neighbours, _: int | None) -> Converted:
    """Convert a mechanism of which the checker uses rho alone.

    The rho of discrete Gaussian noise on a vector is computed exactly from the file. Any other rho is the accountants', which is assumed.
    """
    rho = mechanism.zcdp()
    for mu_squared in _mu_squared_of_vector(mechanism, line, neighbours):
        exact = mu_squared / 2
        if math.isclose(float(exact), rho, rel_tol=float(READING)):
            return {"kind": "zcdp", "rho": str(exact)}, (INTEGERS_OF_VECTOR,)
    upper = _at_least(rho)
    is_computed = getattr(line.entries[0].spec, "rho", None) != rho
    if is_computed:
        upper *= 1 + ROUNDING
    return {"kind": "zcdp", "rho": str(upper)}, (f'"{line.name}" ({line.entries[0].type}) is {rho!r}-zCDP',)


def _mu_squared_of_vector(mechanism: Mechanism, line: BillLine, neighbours: Neighbours) -> Iterator[Fraction]:
    """Yield the squares of sensitivity over noise that the accountants may use for discrete Gaussian noise on a vector.

    Nothing for other noise. If the mechanism lists no shifts, the squared norm is a whole number or that of the decimal in the file.
    """
    spec = only_spec(line)
    if not isinstance(spec, DiscreteGaussianSpec):
        return
    variance = _exact(spec.sigma) ** 2
    if isinstance(mechanism, DiscreteGaussianVector):
        yield max(sum(x * x for x in shift) for shift in mechanism.shifts) / variance
    else:
        yield Norms.stated(spec.moved, None, None, None, neighbours.group).squared / variance
        yield (neighbours.group * _exact(spec.moved)) ** 2 / variance


def _convert_stated(mechanism: Any, line: BillLine, neighbours: Neighbours, _: int | None) -> Converted:
    """Convert randomised response, or a mechanism of which only epsilon is known."""
    epsilon, assumed = _epsilon_of(line, mechanism.epsilon)
    part: Part = {"kind": "two-point", "epsilon": str(epsilon)}
    if isinstance(mechanism, RandomizedResponse):
        if mechanism.categories > 2:
            part["categories"] = mechanism.categories
        return part, (RESPONSE, *assumed)
    return part, (TWO_POINTS, *assumed)


def _convert_may_fail(mechanism: MayFail, line: BillLine, neighbours: Neighbours, dataset_size: int | None) -> Converted:
    """Convert a mechanism that reveals everything with some probability, and is free or known by its epsilon otherwise."""
    part: Part = {"kind": "two-point", "epsilon": "0"}
    assumed: tuple[str, ...] = (TWO_POINTS,)
    if mechanism.rest != Free():
        part, assumed = _convert_stated(mechanism.rest, line, neighbours, dataset_size)
    return {**part, "delta": str(_at_least(mechanism.delta))}, assumed


# Mechanisms that `_convert_sampled` refuses: a Gaussian on a sample has a class of its own, and a rho alone says nothing about a sample.
NEVER_SAMPLED = (PoissonSampled, Gaussian, NearlyGaussian, Zcdp, StatedZcdp, DiscreteGaussianVector)
_STATED = (Pure, StatedPure, RandomizedResponse)
# Mechanisms whose pairs are their own mirror images, as REPLACED_ATOMS needs.
MIRRORED = (*_STATED, MayFail, DiscreteLaplace, DiscreteGaussian)
# The function that converts each mechanism, called with the mechanism, its line, the neighbouring relation and the size of the dataset. The
# size is None if the file does not state it; only sampled mechanisms need it, for the rate.
CONVERSIONS: Mapping[type[Mechanism], Callable[..., Converted]] = {
    Gaussian: _convert_gaussian,
    SampledGaussian: _convert_sampled_gaussian,
    SampledGaussianReplaced: _convert_sampled_gaussian,
    Laplace: _convert_laplace,
    LaplaceMixtureReplaced: _convert_replaced_laplace,
    BoundedRange: _convert_choice,
    ExponentialChoice: _convert_choice,
    DiscreteLaplace: _convert_discrete_laplace,
    Zcdp: _convert_rho,
    StatedZcdp: _convert_rho,
    DiscreteGaussianVector: _convert_rho,
    DiscreteGaussian: _convert_discrete_gaussian,
    NearlyGaussian: _convert_nearly_gaussian,
    MayFail: _convert_may_fail,
    PoissonSampled: _convert_sampled,
    PoissonReplaced: _convert_sampled,
    **dict.fromkeys(_STATED, _convert_stated),
}
