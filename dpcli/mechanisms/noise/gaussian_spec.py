"""type = "gaussian": its keys, and Gaussian noise on a Poisson sample, the mechanism of DP-SGD."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from dpcli.base.errors import NotRepresentable
from dpcli.base.fields import POSITIVE, Key
from dpcli.base.premise import NOISE, SECRET, Premises, moves
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Dominated, Mechanism, PrivacyLoss
from dpcli.mechanisms.neighbours import Neighbours, any_sampled
from dpcli.mechanisms.noise.additive import LARGEST_RATIO, noise_problems, noise_ratio, with_noise
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.gaussian_mixture import GaussianMixture, GaussianMixtureReplaced
from dpcli.mechanisms.sampling.poisson import NO_RHO, amplify
from dpcli.mechanisms.spec import Spec
from dpcli.numerics.arrays import Array
from dpcli.numerics.mixture import EXACT, MOST_RECORDS, binomial_mixture

NOT_PLAIN = "it is a sampled Gaussian, and the closed form is for unsampled ones"


@dataclass(frozen=True, slots=True)
class SampledGaussian(Mechanism):
    """Gaussian noise on a Poisson sample, add-remove or zero-out, for a group of `records`.

    mu: one record's contribution over the noise standard deviation. rate: sampling rate in (0, 1). Each of the group's records is
    sampled on its own, so the sum moves by j mu with Binomial probability; collinear contributions of full norm are the worst case
    (Choquette-Choo et al. 2023, arXiv:2310.15526: mixture-of-Gaussians mechanisms are dominated by their scalar norms). Attained: by
    such contributions.
    """

    pair: ClassVar[type[GaussianMixture]] = GaussianMixture

    mu: float
    rate: float
    records: int = 1

    def approx_dp(self, delta: float) -> float:
        """Amplification of the analytic Gaussian: Balle, Barthe, Gaboardi 2018, arXiv:1807.01647, Theorem 8, and 9's argument."""
        return amplify(Gaussian(self.pair.stretch * self.mu * self.records), any_sampled(self.rate, self.records), delta)

    def zcdp(self) -> float:
        raise NotRepresentable(NO_RHO)

    def gdp(self) -> float:
        raise NotRepresentable(NOT_PLAIN)

    def attained(self) -> bool:
        return True

    def losses(self) -> tuple[PrivacyLoss, ...]:
        return self._pair().losses()

    def renyi_loss(self) -> PrivacyLoss | None:
        return self._pair().renyi_loss()

    def rdp(self, orders: Array) -> Array:
        return self._pair().rdp(orders)

    def _pair(self) -> GaussianMixture:
        return self.pair(binomial_mixture(self.mu, self.rate, self.records))


@dataclass(frozen=True, slots=True)
class SampledGaussianReplaced(SampledGaussian):
    """Gaussian noise on a Poisson sample, replace-one, for a group of `records`.

    mu: one record's contribution over the noise standard deviation. rate: sampling rate in (0, 1). Each of the group's records is sampled
    on its own, so the sum moves by at most j mu with Binomial probability, towards one version under P and the other under Q; that
    collinear, opposite contributions of full norm are the worst case is the theorem of normal_mixture.py. Attained: by those. The pair is
    its own mirror image: one direction is both.
    """

    pair: ClassVar[type[GaussianMixture]] = GaussianMixtureReplaced


def sampled_gaussian(mu: float, rate: float, records: int, kind: type[SampledGaussian] = SampledGaussian) -> Mechanism:
    """`kind`, or what bounds it: for a large group a mixture of fewer numbers of records; at rate 1 no sampling."""
    if rate == 1.0:
        return Gaussian(kind.pair.stretch * mu * records)
    if records > MOST_RECORDS:
        return Dominated(sampled_gaussian(mu * records, any_sampled(rate, records), 1, kind))
    if records > EXACT:
        return Dominated(kind.pair(binomial_mixture(mu, rate, records)))
    return kind(mu, rate, records)


@dataclass(frozen=True, slots=True)
class GaussianSpec(Spec):
    """A query plus Gaussian noise of one standard deviation in every coordinate; what DP-SGD releases at each step.

    noise_multiplier is that standard deviation over C, the bound on one record's contribution (L2): a record that comes, goes or is zeroed
    moves the sum by C, a replaced one by 2 C, and k records k times as far. sigma with sensitivity states the movement itself, in units of
    the query, under the file's adjacency and unit; only a group multiplies it.

    Neighbours: all three adjacencies. Poisson sampling under replace-one or zero-out needs noise_multiplier.

    Bounds: exact in every view, with sensitivity / sigma = mu; Poisson samples by their exact pairs, and several records that a bare
    sensitivity covers by an upper bound. No finite epsilon at delta = 0.

    Source: Balle & Wang 2018, arXiv:1805.06530 (delta of epsilon); Mironov 2017, arXiv:1702.07476 (Renyi); Bun & Steinke 2016,
    arXiv:1605.02065 (rho = mu^2 / 2).
    """

    example: ClassVar[Mapping[str, Any]] = {"noise_multiplier": 40.0}
    evidence: ClassVar[int] = 2
    discrete_twin: ClassVar[str | None] = "discrete-gaussian"
    needs_delta: ClassVar[bool] = True
    premises: ClassVar[Premises] = (
        SECRET,
        moves("No record contributes more than C (L2); with sensitivity, no change moves the query by more than that.", "train"),
        NOISE,
    )

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
        """Exact pairs; of large groups pairs that dominate them."""
        ratio = noise_ratio(self.noise_multiplier, self.sigma, self.sensitivity, neighbours)
        if rate == 1.0 or ratio > LARGEST_RATIO:
            return self.resolve(neighbours)
        self.require_contribution_form(neighbours)
        if neighbours.replaces:
            return sampled_gaussian(0.5 * ratio / neighbours.records, rate, neighbours.records, SampledGaussianReplaced)
        if self.contribution_form:
            return sampled_gaussian(ratio / neighbours.records, rate, neighbours.records)
        sampled = sampled_gaussian(ratio, any_sampled(rate, neighbours.records), 1)
        return sampled if self.moved_by_any(neighbours) else sampled.unclaimed()
