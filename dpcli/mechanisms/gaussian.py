"""Gaussian noise, unsampled: exact in every representation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from dpcli.fields import POSITIVE, Key
from dpcli.mechanisms.base import Mechanism, Neighbours, Spec, any_sampled
from dpcli.mechanisms.no_privacy import LARGEST_RATIO, SMALLEST_RATIO, NoPrivacy
from dpcli.numerics.arrays import Array
from dpcli.numerics.tails import Tails, normal_tails
from dpcli.numerics.tilted_closed import TiltedNormal


@dataclass(frozen=True, slots=True)
class GaussianLoss:
    """L ~ N(mu^2/2, mu^2): K(z) = mu^2 z (z+1) / 2."""

    mu: float

    def cgf(self, z: Array) -> Array:
        """Exact, at any z."""
        return 0.5 * self.mu * self.mu * z * (z + 1.0)

    def tilted(self, t: float) -> TiltedNormal:
        """N(mu^2 (t + 1/2), mu^2)."""
        return TiltedNormal(self.mu * self.mu * (t + 0.5), self.mu * self.mu)

    def tails(self, at: Array) -> Tails:
        """L = mu x - mu^2/2 for x ~ N(mu, 1) under P and N(0, 1) under Q."""
        return normal_tails(at / self.mu + 0.5 * self.mu, self.mu, 0.0)


@dataclass(frozen=True, slots=True)
class Gaussian(Mechanism):
    """Gaussian noise with mu = L2 sensitivity / standard deviation.

    Source: analytic form Balle & Wang 2018, arXiv:1805.06530, Theorem 8; Renyi divergence Mironov 2017, arXiv:1702.07476,
    Proposition 7; zCDP Bun & Steinke 2016, arXiv:1605.02065, Proposition 6.
    Attained: by a sum to which every record that comes or goes adds its whole bound in one direction (and to which a replaced one adds
    it in that direction before, and in the opposite one after): it moves by the sensitivity.
    """

    mu: float

    def approx_dp(self, delta: float) -> float:
        from dpcli.numerics.normal import gaussian_epsilon_upper

        return gaussian_epsilon_upper(self.mu, delta)

    def zcdp(self) -> float:
        return 0.5 * self.mu * self.mu

    def gdp(self) -> float:
        return self.mu

    def attained(self) -> bool:
        return True

    def losses(self) -> tuple[GaussianLoss]:
        return (GaussianLoss(self.mu),)


@dataclass(frozen=True, slots=True)
class GaussianSpec(Spec):
    """Adds Gaussian noise to a query of bounded L2 sensitivity; what DP-SGD releases at each step."""

    evidence: ClassVar[int] = 2

    noise_multiplier: Annotated[
        float | None,
        Key(
            "noise standard deviation over C, the bound on one record's contribution (L2); the adjacency decides the sensitivity",
            POSITIVE,
        ),
    ] = None
    sigma: Annotated[float | None, Key("noise standard deviation, in units of the query; needs sensitivity", POSITIVE)] = None
    sensitivity: Annotated[
        float | None, Key("L2 sensitivity of the query under the file's adjacency, taken as stated", POSITIVE, claim=True)
    ] = None

    def problems(self) -> Iterator[tuple[str, str, str]]:
        yield from noise_problems(self.noise_multiplier, "sigma", self.sigma, self.sensitivity)

    @property
    def contribution_form(self) -> bool:
        return self.noise_multiplier is not None

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        return with_noise(Gaussian, noise_ratio(self.noise_multiplier, self.sigma, self.sensitivity, neighbours))

    def poisson(self, rate: float, neighbours: Neighbours) -> Mechanism:
        """Exact pairs; very large groups are bounded by one record of their total size."""
        from dpcli.mechanisms.sampled_gaussian import sampled_gaussian, sampled_gaussian_replaced

        whole = noise_ratio(self.noise_multiplier, self.sigma, self.sensitivity, neighbours)
        if rate == 1.0 or whole > LARGEST_RATIO:
            return self.resolve(neighbours)
        self.require_contribution_form(neighbours)
        if neighbours.replaces:
            return sampled_gaussian_replaced(0.5 * whole / neighbours.records, rate, neighbours.records)
        if self.contribution_form:
            return sampled_gaussian(whole / neighbours.records, rate, neighbours.records)
        sampled = sampled_gaussian(whole, any_sampled(rate, neighbours.records), 1)
        return sampled if self.moved_by_any(neighbours) else sampled.unclaimed()


def with_noise(kind: Callable[[float], Mechanism], ratio: float) -> Mechanism:
    """Additive noise at this sensitivity over noise; at the ends of what floating point holds, a bound on it."""
    if ratio > LARGEST_RATIO:
        return NoPrivacy(ratio)
    return kind(ratio) if ratio > SMALLEST_RATIO else kind(SMALLEST_RATIO).unclaimed()


def noise_problems(
    multiplier: float | None, noise_key: str, noise: float | None, sensitivity: float | None
) -> Iterator[tuple[str, str, str]]:
    """The rule shared by all additive noise: a noise_multiplier, or noise together with its sensitivity."""
    if multiplier is not None:
        for key, value in ((noise_key, noise), ("sensitivity", sensitivity)):
            if value is not None:
                yield key, f"either noise_multiplier, or {noise_key} with sensitivity", "both"
    elif noise is None:
        yield noise_key, f"noise_multiplier, or {noise_key} with sensitivity", "neither"
    elif sensitivity is None:
        yield "sensitivity", f"the sensitivity that {noise_key} is to cover", "nothing"


def noise_ratio(multiplier: float | None, noise: float | None, sensitivity: float | None, neighbours: Neighbours) -> float:
    """Sensitivity over noise under the neighbouring relation.

    `noise_multiplier` is relative to one record's contribution C: k records move the sum by k C, and by 2 k C where each is replaced.
    A stated `sensitivity` already is the query's under the file's adjacency and unit; only a larger group scales it.
    """
    if multiplier is not None:
        ratio = neighbours.records * (2.0 if neighbours.replaces else 1.0) / multiplier
    else:
        assert noise is not None and sensitivity is not None
        ratio = neighbours.group * sensitivity / noise
    return max(ratio, SMALLEST_RATIO)
