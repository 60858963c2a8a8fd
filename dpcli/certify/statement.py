"""The statement that a certificate proves: the parts of a pipeline with exact numbers, and what their pairs take for granted.

Noise, sensitivities and sampling rates are read as the decimals and fractions that the file states, not as the doubles next to them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from dpcli.base.errors import InternalError, NotRepresentable
from dpcli.base.values import dataclass
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.resolve import BillLine, resolve
from dpcli.mechanisms.choice.randomized_response import RandomizedResponse
from dpcli.mechanisms.mechanism import Dominated, Mechanism
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec, SampledGaussian, SampledGaussianReplaced
from dpcli.mechanisms.noise.laplace import Laplace, LaplaceSpec
from dpcli.mechanisms.sampling.poisson import PoissonSampled
from dpcli.mechanisms.stated.pure_and_approx import Approx, Free, Pure, StatedPure

MOST_PARTS = 40  # parts of different parameters; each is integrated by itself
COMPOSITION = "the pairs compose (Zhu, Dong, Wang 2022, arXiv:2106.08567, Theorem 10)"
GAUSSIAN = "Gaussian noise is dominated by its shift in one coordinate (Balle, Wang 2018, arXiv:1805.06530)"
LAPLACE = "Laplace noise is dominated by its whole shift in one coordinate (dpcli explain laplace)"
TWO_POINTS = "randomised response dominates what is (epsilon, delta)-DP (Kairouz, Oh, Viswanath 2015, arXiv:1311.0776)"
RESPONSE = "randomised response has the stated epsilon"
SAMPLED = "each record is in each Poisson sample by itself (Zhu, Dong, Wang 2022, arXiv:2106.08567, Theorem 11)"
REPLACED = "opposite shifts of full size dominate a replaced record on a Poisson sample (dpcli explain gaussian)"
GROUPED = "records of one unit are dominated by collinear ones (Choquette-Choo et al. 2023, arXiv:2310.15526)"

Part = dict[str, Any]
Converted = tuple[Part, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Statement:
    """What a certificate is about.

    parts: the parts in the checker's form, each with its count.
    assumptions: what is assumed of the pairs, in words.
    attained: whether the pairs are those of some data, so that a lower bound on epsilon says something of the pipeline.
    """

    parts: tuple[Part, ...]
    assumptions: tuple[str, ...]
    attained: bool


def statement_of(pipeline: Pipeline, group_size: int = 1) -> Statement:
    """Return the statement for a pipeline. Raises NotRepresentable, with the reason, if the checker knows no pair of a mechanism."""
    privacy = pipeline.privacy
    neighbours = Neighbours(privacy.adjacency, privacy.max_contributions or 1, group_size)
    counts: dict[tuple[tuple[str, Any], ...], int] = {}
    assumptions = dict.fromkeys((COMPOSITION,))
    attained = not privacy.adaptive
    if privacy.adaptive:
        raise NotRepresentable("an adaptive file promises its cap, which no composition of fixed mechanisms proves")
    for line in resolve(pipeline, group_size):
        mechanism = line.mechanism
        attained = attained and mechanism.attained()
        while isinstance(mechanism, Dominated):
            mechanism = mechanism.by
        if isinstance(mechanism, Free):
            continue
        convert = CONVERSIONS.get(type(mechanism))
        if convert is None:
            raise NotRepresentable(f'"{line.name}": certify has no pair for this mechanism ({line.entries[0].type})')
        part, assumed = convert(mechanism, line, neighbours, privacy.dataset_size)
        key = tuple(part.items())
        counts[key] = counts.get(key, 0) + line.count
        assumptions |= dict.fromkeys(assumed)
    if not counts:
        raise NotRepresentable("nothing costs anything: epsilon is 0, and there is nothing to prove")
    if len(counts) > MOST_PARTS:
        raise NotRepresentable(f"{len(counts)} different mechanisms; certify takes at most {MOST_PARTS}")
    return Statement(tuple({**dict(key), "count": n} for key, n in counts.items()), tuple(assumptions), attained)


def _one_entry(line: BillLine) -> Entry:
    if len(line.entries) != 1:
        raise NotRepresentable(f'"{line.name}": entries that share a sample or a partition')
    return line.entries[0]


def _exact(value: float) -> Fraction:
    """Return a number of the file as the decimal that was written."""
    return Fraction(repr(value))


def _ratio(line: BillLine, spec_type: type, noise_key: str, neighbours: Neighbours, whole: bool) -> Fraction:
    """Return sensitivity over noise, exactly: for all changing records if `whole`, else for one record on a sample."""
    spec = _one_entry(line).spec
    if not isinstance(spec, spec_type):
        raise NotRepresentable(f'"{line.name}": certify does not compute the sensitivity of {line.entries[0].type} again')
    multiplier, noise, sensitivity = (getattr(spec, key) for key in ("noise_multiplier", noise_key, "sensitivity"))
    if multiplier is not None:
        times = neighbours.records * (2 if neighbours.replaces else 1) if whole else 1
        return times / _exact(multiplier)
    if not whole and neighbours.records > 1:
        raise NotRepresentable(f'"{line.name}": several records on a sample need noise_multiplier')
    return (neighbours.group if whole else 1) * _exact(sensitivity) / _exact(noise)


def _rate(line: BillLine, dataset_size: int | None, rate: float) -> Fraction:
    sampling = _one_entry(line).sampling
    exact = None if sampling is None else getattr(sampling, "exact_rate")(dataset_size)
    if exact is None or getattr(sampling, "max_batch_size", None) is not None or float(exact) != rate:
        raise NotRepresentable(f'"{line.name}": certify knows Poisson samples without max_batch_size')
    return Fraction(exact)


def _close(exact: float, computed: float) -> None:
    if not math.isclose(exact, computed, rel_tol=1e-12):
        raise InternalError(f"certify reads {exact!r} from the file, where the accountants have {computed!r}")


def _gaussian(mechanism: Gaussian, line: BillLine, neighbours: Neighbours, _: int | None) -> Converted:
    ratio = _ratio(line, GaussianSpec, "sigma", neighbours, True)
    _close(float(ratio), mechanism.mu)
    return {"kind": "gaussian", "mu_squared": str(ratio**2)}, (GAUSSIAN,)


def _sampled_gaussian(mechanism: SampledGaussian, line: BillLine, neighbours: Neighbours, dataset_size: int | None) -> Converted:
    ratio = _ratio(line, GaussianSpec, "sigma", neighbours, False)
    _close(float(ratio), mechanism.mu)
    rate = _rate(line, dataset_size, mechanism.rate)
    relation = "replace-one" if isinstance(mechanism, SampledGaussianReplaced) else "add-remove"
    part = {"kind": "mixture", "mu_squared": str(ratio**2), "rate": str(rate), "records": mechanism.records, "relation": relation}
    assumed = (GAUSSIAN, SAMPLED, *((GROUPED,) if mechanism.records > 1 else ()), *((REPLACED,) if neighbours.replaces else ()))
    return part, assumed


def _laplace(mechanism: Laplace, line: BillLine, neighbours: Neighbours, _: int | None) -> Converted:
    ratio = _ratio(line, LaplaceSpec, "scale", neighbours, True)
    _close(float(ratio), mechanism.epsilon)
    return {"kind": "laplace", "epsilon": str(ratio)}, (LAPLACE,)


def _sampled(mechanism: PoissonSampled, line: BillLine, neighbours: Neighbours, dataset_size: int | None) -> Converted:
    if neighbours.replaces or neighbours.records > 1:
        raise NotRepresentable(f'"{line.name}": certify knows one record on a sample of this mechanism, added or removed')
    inner = mechanism.inner
    while isinstance(inner, Dominated):
        inner = inner.by
    if isinstance(inner, Laplace):
        ratio = _ratio(line, LaplaceSpec, "scale", neighbours, False)
        _close(float(ratio), inner.epsilon)
        part, assumed = {"kind": "laplace", "epsilon": str(ratio)}, (LAPLACE,)
    elif type(inner) in _STATED:
        part, assumed = _stated(inner, line, neighbours, None)
    else:
        raise NotRepresentable(f'"{line.name}": certify has no pair for this mechanism on a sample ({line.entries[0].type})')
    return {**part, "rate": str(_rate(line, dataset_size, mechanism.rate))}, (*assumed, SAMPLED)


def _stated(mechanism: Any, line: BillLine, neighbours: Neighbours, _: int | None) -> Converted:
    """Convert what is known by epsilon and perhaps delta, the doubles that the accountants have."""
    part: Part = {"kind": "two-point", "epsilon": str(Fraction(mechanism.epsilon))}
    if isinstance(mechanism, Approx):
        return {**part, "delta": str(Fraction(mechanism.delta))}, (TWO_POINTS,)
    if isinstance(mechanism, RandomizedResponse):
        return ({**part, "categories": mechanism.categories} if mechanism.categories > 2 else part), (RESPONSE,)
    return part, (TWO_POINTS,)


_STATED = (Pure, StatedPure, Approx, RandomizedResponse)
CONVERSIONS: Mapping[type[Mechanism], Callable[..., Converted]] = {
    Gaussian: _gaussian,
    SampledGaussian: _sampled_gaussian,
    SampledGaussianReplaced: _sampled_gaussian,
    Laplace: _laplace,
    PoissonSampled: _sampled,
    **dict.fromkeys(_STATED, _stated),
}
