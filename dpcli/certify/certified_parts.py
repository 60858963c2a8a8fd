"""The statement that a certificate proves: the parts of a pipeline with exact numbers, and what their pairs take for granted.

Noise, sensitivities and sampling rates are read as the decimals and fractions that the file states, not as the doubles next to them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dpcli.accountants.directions import parts_of
from dpcli.base.errors import InternalError, NotRepresentable
from dpcli.base.values import dataclass
from dpcli.certify.exact_norms import READABLE, squared_norm
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.parts import named
from dpcli.file.pipeline.resolve import BillLine, resolve
from dpcli.mechanisms.choice.exponential import BoundedRange, ExponentialChoice
from dpcli.mechanisms.choice.randomized_response import RandomizedResponse
from dpcli.mechanisms.combined.composed import Composed
from dpcli.mechanisms.mechanism import Dominated, Mechanism
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.noise.correlated import CorrelatedSpec
from dpcli.mechanisms.noise.discrete_gaussian import DiscreteGaussian, DiscreteGaussianSpec, DiscreteGaussianVector, Norms
from dpcli.mechanisms.noise.discrete_laplace import DiscreteLaplace
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec, SampledGaussian, SampledGaussianReplaced
from dpcli.mechanisms.noise.laplace import Laplace, LaplaceSpec
from dpcli.mechanisms.sampling.poisson import PoissonSampled
from dpcli.mechanisms.stated.pure_and_approx import Approx, Free, Pure, StatedPure
from dpcli.mechanisms.stated.renyi import StatedZcdp, Zcdp

MOST_PARTS = 40  # parts of different parameters; each is integrated by itself
COMPOSITION = "the pairs compose (Zhu, Dong, Wang 2022, arXiv:2106.08567, Theorem 10)"
GAUSSIAN = "Gaussian noise is dominated by its shift in one coordinate (Balle, Wang 2018, arXiv:1805.06530)"
LAPLACE = "Laplace noise is dominated by its whole shift in one coordinate (dpcli explain laplace)"
TWO_POINTS = "randomised response dominates what is (epsilon, delta)-DP (Kairouz, Oh, Viswanath 2015, arXiv:1311.0776)"
INTEGERS = "discrete Laplace noise is dominated by its whole shift in one coordinate (dpcli explain discrete-laplace)"
ONE_INTEGER = "discrete Gaussian noise on one integer (Canonne, Kamath, Steinke 2020, arXiv:2004.00010)"
INTEGERS_OF_VECTOR = "discrete Gaussian noise on integers that move by v is |v|^2 / (2 sigma^2)-zCDP (arXiv:2004.00010, Theorem 14)"
RANGE = "choices have the stated bounded range (Dong, Durfee, Rogers 2020, arXiv:1909.13830)"
RESPONSE = "randomised response has the stated epsilon"
SAMPLED = "each record is in each Poisson sample by itself (Zhu, Dong, Wang 2022, arXiv:2106.08567, Theorem 11)"
REPLACED = "opposite shifts of full size dominate a replaced record on a Poisson sample (dpcli explain gaussian)"
GROUPED = "records of one unit are dominated by collinear ones (Choquette-Choo et al. 2023, arXiv:2310.15526)"

NEAR = Fraction(1, 10**11)  # relative distance of squares up to which the accountants' rounding, 1e-12 of the root, accounts for it
REACH = 16.0  # standard deviations of a discrete Gaussian that are added up; e^-128 of it lies beyond

Part = dict[str, Any]
Converted = tuple[Part, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class CertifiedParts:
    """The parts of a pipeline as a certificate states them.

    parts: the parts in the checker's form, each with its count.
    assumptions: what is assumed of the pairs, in words.
    attained: whether the pairs are those of some data, so that a lower bound on epsilon says something of the pipeline.
    """

    parts: tuple[Part, ...]
    assumptions: tuple[str, ...]
    attained: bool


def certified_parts(pipeline: Pipeline, group_size: int = 1) -> CertifiedParts:
    """Return the statement for a pipeline. Raises NotRepresentable, with the reason, if the checker knows no pair of a mechanism."""
    privacy = pipeline.privacy
    neighbours = Neighbours(privacy.adjacency, privacy.max_contributions or 1, group_size)
    counts: dict[tuple[tuple[str, Any], ...], int] = {}
    assumptions = dict.fromkeys((COMPOSITION,))
    attained = True
    if privacy.adaptive:
        raise NotRepresentable("an adaptive file promises its cap, which no composition of fixed mechanisms proves")
    for line, mechanism, count in _mechanisms(pipeline, resolve(pipeline, group_size)):
        attained = attained and mechanism.attained() and not _is_rounded_up(line)
        while isinstance(mechanism, Dominated):
            mechanism = mechanism.by
        if isinstance(mechanism, Free):
            continue
        convert = CONVERSIONS.get(type(mechanism))
        if convert is None:
            raise NotRepresentable(
                f'"{line.name}": certify has no pair for this mechanism ({line.entries[0].type}) as it is sampled and grouped here'
            )
        part, assumed = convert(mechanism, line, neighbours, privacy.dataset_size)
        key = tuple(part.items())
        counts[key] = counts.get(key, 0) + count
        assumptions |= dict.fromkeys(assumed)
    if not counts:
        raise NotRepresentable("nothing costs anything: epsilon is 0, and there is nothing to prove")
    if len(counts) > MOST_PARTS:
        raise NotRepresentable(f"{len(counts)} different mechanisms; certify takes at most {MOST_PARTS}")
    return CertifiedParts(tuple({**dict(key), "count": n} for key, n in counts.items()), tuple(assumptions), attained)


def _mechanisms(pipeline: Pipeline, lines: Iterable[BillLine]) -> Iterator[tuple[BillLine, Mechanism, int]]:
    """Yield each line's mechanism with its count. A composed one is replaced by its members, each with a line of its own entry."""
    entries = {entry.name: entry for entry in pipeline.mechanisms}
    left = [(line, line.mechanism, line.count) for line in reversed([*lines])]
    while left:
        line, mechanism, count = left.pop()
        names = named(line.entries[0].spec) if len(line.entries) == 1 else ()
        if isinstance(mechanism, Composed) and len(names) == len(mechanism.parts):
            members = zip(names, mechanism.parts, strict=True)
            left += reversed([(replace(line, entries=(entries[name],)), part, n * count) for name, (part, n) in members])
        else:
            yield from ((line, part, n) for part, n in parts_of(mechanism, count))


def _one_entry(line: BillLine) -> Entry:
    if len(line.entries) != 1:
        raise NotRepresentable(f'"{line.name}": entries that share a sample or a partition')
    return line.entries[0]


def _exact(value: float) -> Fraction:
    """Return a number of the file as the decimal that was written."""
    return Fraction(repr(value))


def _ratio(line: BillLine, spec_type: type, noise_key: str, neighbours: Neighbours, all_records: bool) -> Fraction | None:
    """Return sensitivity over noise, exactly: for all changing records if `all_records`, else for one record on a sample.

    None if the file does not state it as such: the accountants' double stands for it then, and that is assumed.
    """
    spec = line.entries[0].spec if len(line.entries) == 1 else None
    if not isinstance(spec, spec_type):
        return None
    multiplier, noise, sensitivity = (getattr(spec, key) for key in ("noise_multiplier", noise_key, "sensitivity"))
    if multiplier is not None:
        times = neighbours.records * (2 if neighbours.replaces else 1) if all_records else 1
        return times / _exact(multiplier)
    if not all_records and neighbours.records > 1:
        return None
    return (neighbours.group if all_records else 1) * _exact(sensitivity) / _exact(noise)


def _numbers(line: BillLine, exact: Fraction | None, computed: float) -> tuple[Fraction, tuple[str, ...]]:
    """Return the exact number, or the accountants' own with the assumption that it is right."""
    if exact is None or computed > exact * (1 + Fraction(1, 10**12)):  # what is next to nothing is accounted as more than it is
        kind = line.entries[0].type
        return Fraction(computed), (
            f'"{line.name}" ({kind}): sensitivity over noise is {computed!r}, as the accountants computed it',
        )
    if not math.isclose(float(exact), computed, rel_tol=1e-12):
        raise InternalError(f"certify reads {float(exact)!r} from the file, where the accountants have {computed!r}")
    return exact, ()


def _mu_squared(line: BillLine, neighbours: Neighbours, computed: float) -> tuple[Fraction, tuple[str, ...]]:
    """Return the squared sensitivity over noise of a release without sampling, and what is assumed of it."""
    spec = line.entries[0].spec if len(line.entries) == 1 else None
    norm = None if spec is None else squared_norm(spec)
    if isinstance(spec, CorrelatedSpec) and norm is not None and math.isfinite(spec.noise_multiplier):
        moves = neighbours.records * (2 if neighbours.replaces else 1)
        exact = norm.value * (moves / _exact(spec.noise_multiplier)) ** 2
        excess = Fraction(computed) ** 2 / exact - 1
        if excess < -NEAR:
            raise InternalError(
                f"certify reads a square of {float(exact)!r} from the file, where the accountants have {computed!r}^2"
            )
        if excess <= NEAR and max(exact.numerator.bit_length(), exact.denominator.bit_length()) <= READABLE:
            return exact, ()
    ratio, assumed = _numbers(line, _ratio(line, GaussianSpec, "sigma", neighbours, True), computed)
    return ratio**2, assumed


def _is_rounded_up(line: BillLine) -> bool:
    norm = squared_norm(line.entries[0].spec) if len(line.entries) == 1 else None
    return norm is not None and norm.rounded


def _rate(line: BillLine, dataset_size: int | None, rate: float) -> Fraction:
    sampling = _one_entry(line).sampling
    exact = None if sampling is None else sampling.exact_rate(dataset_size)
    if exact is None or getattr(sampling, "max_batch_size", None) is not None or float(exact) != rate:
        raise NotRepresentable(f'"{line.name}": certify knows Poisson samples without max_batch_size')
    return Fraction(exact)


def _gaussian(mechanism: Gaussian, line: BillLine, neighbours: Neighbours, _: int | None) -> Converted:
    square, assumed = _mu_squared(line, neighbours, mechanism.mu)
    return {"kind": "gaussian", "mu_squared": str(square)}, (GAUSSIAN, *assumed)


def _sampled_gaussian(mechanism: SampledGaussian, line: BillLine, neighbours: Neighbours, dataset_size: int | None) -> Converted:
    ratio, assumed = _numbers(line, _ratio(line, GaussianSpec, "sigma", neighbours, False), mechanism.mu)
    rate = _rate(line, dataset_size, mechanism.rate)
    relation = "replace-one" if isinstance(mechanism, SampledGaussianReplaced) else "add-remove"
    part = {"kind": "mixture", "mu_squared": str(ratio**2), "rate": str(rate), "records": mechanism.records, "relation": relation}
    grouped = (GROUPED,) if mechanism.records > 1 else ()
    return part, (GAUSSIAN, SAMPLED, *grouped, *((REPLACED,) if neighbours.replaces else ()), *assumed)


def _laplace(mechanism: Laplace, line: BillLine, neighbours: Neighbours, _: int | None) -> Converted:
    ratio, assumed = _numbers(line, _ratio(line, LaplaceSpec, "scale", neighbours, True), mechanism.epsilon)
    return {"kind": "laplace", "epsilon": str(ratio)}, (LAPLACE, *assumed)


def _discrete_laplace(mechanism: DiscreteLaplace, line: BillLine, neighbours: Neighbours, _: int | None) -> Converted:
    return {"kind": "discrete-laplace", "scale": str(_exact(mechanism.scale)), "sensitivity": mechanism.sensitivity}, (INTEGERS,)


def _discrete_gaussian(mechanism: DiscreteGaussian, line: BillLine, neighbours: Neighbours, _: int | None) -> Converted:
    spec, variance = line.entries[0].spec if len(line.entries) == 1 else None, _exact(mechanism.sigma) ** 2
    if isinstance(spec, DiscreteGaussianSpec):  # a vector of one direction is an integer with a whole multiple of the variance
        stated = _exact(spec.sigma) ** 2
        variance = stated * round(variance / stated)
    reach = math.ceil(REACH * mechanism.sigma)
    part = {"kind": "discrete-gaussian", "sigma_squared": str(variance), "sensitivity": mechanism.sensitivity, "reach": reach}
    return part, (ONE_INTEGER,)


def _sampled(mechanism: PoissonSampled, line: BillLine, neighbours: Neighbours, dataset_size: int | None) -> Converted:
    if neighbours.replaces or neighbours.records > 1:
        raise NotRepresentable(f'"{line.name}": certify knows one record on a sample of this mechanism, added or removed')
    inner = mechanism.inner
    while isinstance(inner, Dominated):
        inner = inner.by
    convert = CONVERSIONS.get(type(inner))
    if convert is None or type(inner) in NEVER_SAMPLED:
        raise NotRepresentable(f'"{line.name}": certify has no pair for this mechanism on a sample ({line.entries[0].type})')
    part, assumed = convert(inner, line, neighbours, None)
    return {**part, "rate": str(_rate(line, dataset_size, mechanism.rate))}, (*assumed, SAMPLED)


def _choice(mechanism: BoundedRange, line: BillLine, neighbours: Neighbours, _: int | None) -> Converted:
    return {"kind": "range", "epsilon": str(_exact(mechanism.epsilon))}, (RANGE,)


def _rho(mechanism: Mechanism, line: BillLine, neighbours: Neighbours, _: int | None) -> Converted:
    """Convert what is known by its rho: exactly for noise on integers, otherwise the double that the accountants have."""
    rho = mechanism.zcdp()
    for exact in _squared_moves(mechanism, line, neighbours):
        if math.isclose(float(exact / 2), rho, rel_tol=1e-12):
            return {"kind": "zcdp", "rho": str(exact / 2)}, (INTEGERS_OF_VECTOR,)
    return {"kind": "zcdp", "rho": str(Fraction(rho))}, (f'"{line.name}" ({line.entries[0].type}) is {rho!r}-zCDP',)


def _squared_moves(mechanism: Mechanism, line: BillLine, neighbours: Neighbours) -> Iterator[Fraction]:
    """Yield the squares of sensitivity over noise that the accountants may have taken for discrete Gaussian noise on a vector."""
    spec = line.entries[0].spec if len(line.entries) == 1 else None
    if isinstance(spec, DiscreteGaussianSpec):
        variance = _exact(spec.sigma) ** 2
        if isinstance(mechanism, DiscreteGaussianVector):
            yield max(sum(x * x for x in shift) for shift in mechanism.shifts) / variance
        else:
            yield Norms.stated(spec.moved, None, None, None, neighbours.group).squared / variance
            yield (neighbours.group * _exact(spec.moved)) ** 2 / variance


def _stated(mechanism: Any, line: BillLine, neighbours: Neighbours, _: int | None) -> Converted:
    """Convert what is known by epsilon and perhaps delta, as decimals."""
    part: Part = {"kind": "two-point", "epsilon": str(_exact(mechanism.epsilon))}
    if isinstance(mechanism, Approx):
        return {**part, "delta": str(_exact(mechanism.delta))}, (TWO_POINTS,)
    if isinstance(mechanism, RandomizedResponse):
        return ({**part, "categories": mechanism.categories} if mechanism.categories > 2 else part), (RESPONSE,)
    return part, (TWO_POINTS,)


# Mechanisms whose sample has another pair here, or none: of a rho alone nothing follows for a sample.
NEVER_SAMPLED = (PoissonSampled, Gaussian, Zcdp, StatedZcdp, DiscreteGaussianVector)
_STATED = (Pure, StatedPure, Approx, RandomizedResponse)
CONVERSIONS: Mapping[type[Mechanism], Callable[..., Converted]] = {
    Gaussian: _gaussian,
    SampledGaussian: _sampled_gaussian,
    SampledGaussianReplaced: _sampled_gaussian,
    Laplace: _laplace,
    BoundedRange: _choice,
    ExponentialChoice: _choice,
    DiscreteLaplace: _discrete_laplace,
    Zcdp: _rho,
    StatedZcdp: _rho,
    DiscreteGaussianVector: _rho,
    DiscreteGaussian: _discrete_gaussian,
    PoissonSampled: _sampled,
    **dict.fromkeys(_STATED, _stated),
}
