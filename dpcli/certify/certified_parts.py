"""The statement that a certificate proves: the parts of a pipeline with exact numbers, and what their pairs take for granted.

Noise, sensitivities and sampling rates are read as the decimals and fractions that the file states, not as the doubles next to them.
"""

from __future__ import annotations

import itertools
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
from dpcli.mechanisms.combined.composed import Composed, Parallel
from dpcli.mechanisms.mechanism import Dominated, Mechanism
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.noise.correlated import CorrelatedSpec
from dpcli.mechanisms.noise.discrete_gaussian import DiscreteGaussian, DiscreteGaussianSpec, DiscreteGaussianVector, Norms
from dpcli.mechanisms.noise.discrete_laplace import DiscreteLaplace
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec, SampledGaussian, SampledGaussianReplaced
from dpcli.mechanisms.noise.laplace import Laplace, LaplaceSpec
from dpcli.mechanisms.noise.laplace_mixture import LaplaceMixtureReplaced
from dpcli.mechanisms.sampling.poisson import PoissonReplaced, PoissonSampled
from dpcli.mechanisms.sampling.schemes import FixedSize
from dpcli.mechanisms.stated.pure_and_approx import Approx, Free, Pure, StatedPure
from dpcli.mechanisms.stated.renyi import StatedZcdp, Zcdp

MOST_PARTS = 40  # parts of different parameters; each is integrated by itself
MOST_ALTERNATIVES = 64  # choices of one part from each division of the data, each of which has proofs of its own
COMPOSITION = "the pairs compose (Zhu, Dong, Wang 2022, arXiv:2106.08567, Theorem 10)"
GAUSSIAN = "Gaussian noise is dominated by its shift in one coordinate (Balle, Wang 2018, arXiv:1805.06530)"
LAPLACE = "Laplace noise is dominated by its whole shift in one coordinate (dpcli explain laplace)"
TWO_POINTS = "randomised response dominates what is (epsilon, delta)-DP (Kairouz, Oh, Viswanath 2015, arXiv:1311.0776)"
INTEGERS = "discrete Laplace noise is dominated by its whole shift in one coordinate (dpcli explain discrete-laplace)"
ONE_INTEGER = "discrete Gaussian noise on one integer (Canonne, Kamath, Steinke 2020, arXiv:2004.00010)"
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
FIXED_SIZE = "every sample of the stated size is as likely as any other (Wang, Balle, Kasiviswanathan 2019, arXiv:1808.00087)"
DISJOINT = "a unit is in one part of each division of the data (McSherry 2009, Theorem 4)"
GROUPED = "records of one unit are dominated by collinear ones (Choquette-Choo et al. 2023, arXiv:2310.15526)"

NEAR = Fraction(1, 10**11)  # relative distance of squares up to which the accountants' rounding, 1e-12 of the root, accounts for it
REACH = 16.0  # standard deviations of a discrete Gaussian that are added up; e^-128 of it lies beyond

ROUNDING = Fraction(1, 10**14)  # relative error of a quotient and a few roots of doubles, at most; 4e-16 was seen

Part = dict[str, Any]
Converted = tuple[Part, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class CertifiedParts:
    """The parts of a pipeline as a certificate states them.

    parts: the parts in the checker's form, each with its count.
    alternatives: lists of parts, of which one composes with `parts`, whichever it is: the disjoint parts of the data. Empty without any.
    assumptions: what is assumed of the pairs, in words.
    attained: whether the pairs are those of some data, so that a lower bound on epsilon says something of the pipeline.
    """

    parts: tuple[Part, ...]
    assumptions: tuple[str, ...]
    attained: bool
    alternatives: tuple[tuple[Part, ...], ...] = ()

    def stated(self) -> dict[str, Any]:
        """Return the keys of a certificate that say what is composed."""
        own = {"alternatives": [list(parts) for parts in self.alternatives]} if self.alternatives else {}
        return {"parts": list(self.parts), **own}


def certified_parts(pipeline: Pipeline, group_size: int = 1) -> CertifiedParts:
    """Return the statement for a pipeline. Raises NotRepresentable, with the reason, if the checker knows no pair of a mechanism."""
    privacy = pipeline.privacy
    neighbours = Neighbours(privacy.adjacency, privacy.max_contributions or 1, group_size)
    if privacy.adaptive:
        raise NotRepresentable("an adaptive file promises its cap, which no composition of fixed mechanisms proves")
    lines = resolve(pipeline, group_size)
    convert = _Conversion(neighbours, privacy.dataset_size, {entry.name: entry for entry in pipeline.mechanisms})
    divided = [line for line in lines if isinstance(_plain(line.mechanism), Parallel)]
    common = convert.parts(line for line in lines if line not in divided)
    divisions = [[convert.parts(branch) for branch in _branches(line)] for line in divided]
    if math.prod(len(branches) for branches in divisions) > MOST_ALTERNATIVES:
        raise NotRepresentable(f"more than {MOST_ALTERNATIVES} choices of one part from each division of the data")
    chosen = dict.fromkeys(_added(choice) for choice in itertools.product(*divisions))
    alternatives = [
        alternative for alternative in chosen if alternative or len(chosen) == 1
    ]  # what costs nothing is in every other one
    if len(alternatives) == 1:  # the only one is a part of the whole
        common, alternatives = _added((common, *alternatives)), []
    if not common and not alternatives:
        raise NotRepresentable("nothing costs anything: epsilon is 0, and there is nothing to prove")
    number = len(common) + sum(map(len, alternatives))
    if number > MOST_PARTS:
        raise NotRepresentable(f"{number} different mechanisms; certify takes at most {MOST_PARTS}")
    assumptions = (COMPOSITION, *convert.assumptions, *((DISJOINT,) if divided else ()))
    stated = tuple(tuple({**dict(key), "count": n} for key, n in counted) for counted in (common, *alternatives))
    return CertifiedParts(stated[0], assumptions, convert.attained, stated[1:])


Counted = tuple[tuple[tuple[tuple[str, Any], ...], int], ...]  # the items of each part, and its count


def _added(several: Iterable[Counted]) -> Counted:
    """Return all parts of several lists; the counts of equal ones add up."""
    counts: dict[tuple[tuple[str, Any], ...], int] = {}
    for counted in several:
        for key, count in counted:
            counts[key] = counts.get(key, 0) + count
    return tuple(counts.items())


def _plain(mechanism: Mechanism) -> Mechanism:
    while isinstance(mechanism, Dominated):
        mechanism = mechanism.by
    return mechanism


def _branches(line: BillLine) -> Iterator[list[BillLine]]:
    """Yield the lines of each disjoint part of the data. Raises NotRepresentable if entries of a part share a sample."""
    mechanism = _plain(line.mechanism)
    assert isinstance(mechanism, Parallel)
    if sum(len(branch.parts) for branch in mechanism.branches) != len(line.entries):
        raise NotRepresentable(f'"{line.name}": entries that share a sample within a part of the data')
    entries = iter(line.entries)
    for branch in mechanism.branches:
        yield [BillLine(entry.name, own, count, (entry,)) for (own, count), entry in zip(branch.parts, entries, strict=False)]


class _Conversion:
    """The conversion of mechanisms into parts. It collects what is assumed of their pairs, and whether all of them are attained."""

    def __init__(self, neighbours: Neighbours, dataset_size: int | None, entries: Mapping[str, Entry]) -> None:
        self.neighbours, self.dataset_size, self.entries = neighbours, dataset_size, entries
        self.assumptions: dict[str, None] = {}
        self.attained = True

    def parts(self, lines: Iterable[BillLine]) -> Counted:
        """Return the parts of some lines, without what costs nothing."""
        return _added(((tuple(part.items()), count),) for part, count in self._each(lines))

    def _each(self, lines: Iterable[BillLine]) -> Iterator[tuple[Part, int]]:
        for line, mechanism, count in _mechanisms(self.entries, lines):
            self.attained = self.attained and mechanism.attained() and not _is_rounded_up(line)
            plain = _plain(mechanism)
            if isinstance(plain, Free):
                continue
            convert = CONVERSIONS.get(type(plain))
            if convert is None:
                raise NotRepresentable(f'"{line.name}": certify has no pair for {_described(line, self.neighbours)}')
            part, assumed = convert(plain, line, self.neighbours, self.dataset_size)
            self.assumptions |= dict.fromkeys(assumed)
            self.attained = self.attained and not any(isinstance(assumption, AsComputed) for assumption in assumed)
            yield part, count


def _described(line: BillLine, neighbours: Neighbours) -> str:
    """Return in words what is refused: the type, with the sampling and the number of records where they are part of the reason."""
    entry = line.entries[0]
    words = [f"mechanisms of type {entry.type}"]
    if entry.sampling is not None:
        words.append(f"with sampling {entry.sampling.scheme}")
        if getattr(entry.sampling, "max_batch_size", None) is not None:
            words.append("and max_batch_size")
    if neighbours.records > 1:
        words.append(f"of {neighbours.records:,} records of a unit")
    return " ".join(words)


def _mechanisms(entries: Mapping[str, Entry], lines: Iterable[BillLine]) -> Iterator[tuple[BillLine, Mechanism, int]]:
    """Yield each line's mechanism with its count. A composed one is replaced by its members, each with a line of its own entry.

    A sample of all records is no sample.
    """
    left = [(line, _unsampled(line.mechanism), line.count) for line in reversed([*lines])]
    while left:
        line, mechanism, count = left.pop()
        names = named(line.entries[0].spec) if len(line.entries) == 1 else ()
        if isinstance(mechanism, Composed) and len(names) == len(mechanism.parts):
            members = zip(names, mechanism.parts, strict=True)
            left += reversed([(replace(line, entries=(entries[name],)), part, n * count) for name, (part, n) in members])
        else:
            yield from ((line, part, n) for part, n in parts_of(mechanism, count))


def _unsampled(mechanism: Mechanism) -> Mechanism:
    """Return the mechanism that runs on all records if this one runs on a sample of all of them; else this one."""
    plain = _plain(mechanism)
    if not isinstance(plain, PoissonSampled) or plain.rate != 1.0:
        return mechanism
    return plain.inner if mechanism.attained() else plain.inner.unclaimed()


def _one_entry(line: BillLine) -> Entry:
    if len(line.entries) != 1:
        raise NotRepresentable(f'"{line.name}": entries that share a sample')
    return line.entries[0]


class AsComputed(str):
    """An assumption that a number is as the accountants computed it. Such a number is rounded up, so that no lower bound follows."""


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
        assumed = AsComputed(
            f'"{line.name}" ({kind}): sensitivity over noise is at most {computed!r}, as the accountants computed it'
        )
        return Fraction(computed) * (1 + ROUNDING), (assumed,)
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
    if getattr(sampling, "max_batch_size", None) is not None:
        raise NotRepresentable(f'"{line.name}": certify knows samples without max_batch_size')
    if exact is None or float(exact) != rate:
        raise NotRepresentable(f'"{line.name}": certify knows samples whose rate the file states, and the accountants use {rate!r}')
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


def _replaced_laplace(
    mechanism: LaplaceMixtureReplaced, line: BillLine, neighbours: Neighbours, dataset_size: int | None
) -> Converted:
    mixture = mechanism.mixture
    if not mixture.single or mixture.weights is None:
        raise NotRepresentable(f'"{line.name}": certify knows one replaced record on a sample of Laplace noise')
    ratio, assumed = _numbers(line, _ratio(line, LaplaceSpec, "scale", neighbours, False), mixture.reach)
    rate = _rate(line, dataset_size, mixture.weights[0])
    part = {"kind": "laplace", "epsilon": str(ratio), "rate": str(rate), "relation": "replace-one"}
    return part, (LAPLACE, SAMPLED, REPLACED_LAPLACE, *assumed)


def _discrete_laplace(mechanism: DiscreteLaplace, line: BillLine, neighbours: Neighbours, _: int | None) -> Converted:
    return {"kind": "discrete-laplace", "scale": str(_exact(mechanism.scale)), "sensitivity": mechanism.sensitivity}, (INTEGERS,)


def _discrete_gaussian(mechanism: DiscreteGaussian, line: BillLine, neighbours: Neighbours, _: int | None) -> Converted:
    spec, variance = line.entries[0].spec if len(line.entries) == 1 else None, _exact(mechanism.sigma) ** 2
    assumed: tuple[str, ...] = (ONE_INTEGER,)
    if isinstance(spec, DiscreteGaussianSpec):
        stated = _exact(spec.sigma) ** 2
        coordinates = round(variance / stated)
        if coordinates == 1:
            variance = stated
        else:  # the accountants lower sigma by more than the sum of the noises differs from a discrete Gaussian
            variance = Fraction(mechanism.sigma) ** 2 * (1 - ROUNDING)
            assumed = (AsComputed(f'"{line.name}" ({line.entries[0].type}): {SUM_OF_INTEGERS.format(coordinates)}'), ONE_INTEGER)
    reach = math.ceil(REACH * mechanism.sigma)
    part = {"kind": "discrete-gaussian", "sigma_squared": str(variance), "sensitivity": mechanism.sensitivity, "reach": reach}
    return part, assumed


def _sampled(mechanism: PoissonSampled, line: BillLine, neighbours: Neighbours, dataset_size: int | None) -> Converted:
    if neighbours.records > 1:
        raise NotRepresentable(f'"{line.name}": certify knows one record on a sample of this mechanism')
    inner, replaced = _plain(mechanism.inner), isinstance(mechanism, PoissonReplaced)
    convert = CONVERSIONS.get(type(inner))
    if convert is None or type(inner) in NEVER_SAMPLED or (replaced and type(inner) not in MIRRORED):
        raise NotRepresentable(f'"{line.name}": certify has no pair for this mechanism on a sample ({line.entries[0].type})')
    part, assumed = convert(inner, line, neighbours, None)
    part["rate"] = str(_rate(line, dataset_size, mechanism.rate))
    if not replaced:
        return part, (*assumed, SAMPLED)
    drawn = FIXED_SIZE if isinstance(_one_entry(line).sampling, FixedSize) else SAMPLED
    return {**part, "relation": "replace-one"}, (*assumed, drawn, REPLACED_ATOMS)


def _choice(mechanism: BoundedRange, line: BillLine, neighbours: Neighbours, _: int | None) -> Converted:
    epsilon, assumed = _pure(line, mechanism.epsilon)
    return {"kind": "range", "epsilon": str(epsilon)}, (RANGE, *assumed)


def _pure(line: BillLine, epsilon: float) -> tuple[Fraction, tuple[str, ...]]:
    """Return the epsilon of the file, or the accountants' own, rounded up, with the assumption that it is right.

    Raises NotRepresentable for randomised response that states `keep`, near 1 of which a double is too coarse.
    """
    spec = line.entries[0].spec if len(line.entries) == 1 else None
    if getattr(spec, "keep", None) is not None:
        raise NotRepresentable(f'"{line.name}": certify reads the epsilon of randomised response, not keep: state epsilon')
    if getattr(spec, "epsilon", None) == epsilon:
        return _exact(epsilon), ()
    assumed = AsComputed(f'"{line.name}" ({line.entries[0].type}): epsilon is at most {epsilon!r}, as the accountants computed it')
    return max(Fraction(epsilon), _exact(epsilon)) * (1 + ROUNDING), (assumed,)


def _rho(mechanism: Mechanism, line: BillLine, neighbours: Neighbours, _: int | None) -> Converted:
    """Convert what is known by its rho: exactly for noise on integers, otherwise the double that the accountants have."""
    rho = mechanism.zcdp()
    for exact in _squared_moves(mechanism, line, neighbours):
        if math.isclose(float(exact / 2), rho, rel_tol=1e-12):
            return {"kind": "zcdp", "rho": str(exact / 2)}, (INTEGERS_OF_VECTOR,)
    stated = max(Fraction(rho), _exact(rho))  # the double that the accountants have, and the decimal that is printed
    if getattr(line.entries[0].spec, "rho", None) != rho:  # computed
        stated *= 1 + ROUNDING
    return {"kind": "zcdp", "rho": str(stated)}, (f'"{line.name}" ({line.entries[0].type}) is {rho!r}-zCDP',)


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
    epsilon, assumed = _pure(line, mechanism.epsilon)
    part: Part = {"kind": "two-point", "epsilon": str(epsilon)}
    if isinstance(mechanism, Approx):
        return {**part, "delta": str(max(Fraction(mechanism.delta), _exact(mechanism.delta)))}, (TWO_POINTS, *assumed)
    if isinstance(mechanism, RandomizedResponse):
        return ({**part, "categories": mechanism.categories} if mechanism.categories > 2 else part), (RESPONSE, *assumed)
    return part, (TWO_POINTS, *assumed)


# Mechanisms whose sample has another pair here, or none: of a rho alone nothing follows for a sample.
NEVER_SAMPLED = (PoissonSampled, Gaussian, Zcdp, StatedZcdp, DiscreteGaussianVector)
MIRRORED = (
    Pure,
    StatedPure,
    Approx,
    RandomizedResponse,
    DiscreteLaplace,
    DiscreteGaussian,
)  # their pairs are their own mirror images
_STATED = (Pure, StatedPure, Approx, RandomizedResponse)
CONVERSIONS: Mapping[type[Mechanism], Callable[..., Converted]] = {
    Gaussian: _gaussian,
    SampledGaussian: _sampled_gaussian,
    SampledGaussianReplaced: _sampled_gaussian,
    Laplace: _laplace,
    LaplaceMixtureReplaced: _replaced_laplace,
    BoundedRange: _choice,
    ExponentialChoice: _choice,
    DiscreteLaplace: _discrete_laplace,
    Zcdp: _rho,
    StatedZcdp: _rho,
    DiscreteGaussianVector: _rho,
    DiscreteGaussian: _discrete_gaussian,
    PoissonSampled: _sampled,
    PoissonReplaced: _sampled,
    **dict.fromkeys(_STATED, _stated),
}
