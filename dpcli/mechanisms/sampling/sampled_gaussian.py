"""Gaussian noise on a Poisson sample, the mechanism of DP-SGD: the mixture of Gaussians that has binomial weights."""

from __future__ import annotations

from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Dominated, Mechanism, PrivacyLoss
from dpcli.mechanisms.neighbours import any_sampled
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.gaussian_mixture import GaussianMixture, GaussianMixtureReplaced
from dpcli.mechanisms.sampling.poisson import NO_RHO, amplify
from dpcli.numerics.arrays import Array
from dpcli.numerics.mixture import binomial_mixture

NOT_PLAIN = "it is a sampled Gaussian, and the closed form is for unsampled ones"
MAX_MULTIPLICITY = 64  # larger groups are bounded by one record of their total size


def sampled_gaussian(mu: float, rate: float, records: int) -> Mechanism:
    """`SampledGaussian`, or what bounds it: for a large group one record of its total size; at rate 1 no sampling."""
    if rate == 1.0:
        return Gaussian(mu * records)
    if records > MAX_MULTIPLICITY:
        return Dominated(sampled_gaussian(mu * records, any_sampled(rate, records), 1))
    return SampledGaussian(mu, rate, records)


@dataclass(frozen=True, slots=True)
class SampledGaussian(Mechanism):
    """Gaussian noise on a Poisson sample, add-remove or zero-out, for a group of `records`.

    mu: one record's contribution over the noise standard deviation. rate: sampling rate in (0, 1). Each of the group's records is
    sampled on its own, so the sum moves by j mu with Binomial probability; collinear contributions of full norm are the worst case
    (Choquette-Choo et al. 2023, arXiv:2310.15526: mixture-of-Gaussians mechanisms are dominated by their scalar norms). Attained: by
    such contributions.
    """

    mu: float
    rate: float
    records: int = 1

    def approx_dp(self, delta: float) -> float:
        """Amplification of the analytic Gaussian: Balle, Barthe, Gaboardi 2018, arXiv:1807.01647, Theorem 8."""
        return amplify(Gaussian(self.mu * self.records), any_sampled(self.rate, self.records), delta)

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
        return GaussianMixture(binomial_mixture(self.mu, self.rate, self.records))


def sampled_gaussian_replaced(mu: float, rate: float, records: int) -> Mechanism:
    """`SampledGaussianReplaced`, or what bounds it, as the same theorem allows: for a large group one record of its total size."""
    if rate == 1.0:
        return Gaussian(2.0 * mu * records)
    if records > MAX_MULTIPLICITY:
        return Dominated(sampled_gaussian_replaced(mu * records, any_sampled(rate, records), 1))
    return SampledGaussianReplaced(mu, rate, records)


@dataclass(frozen=True, slots=True)
class SampledGaussianReplaced(Mechanism):
    """Gaussian noise on a Poisson sample, replace-one, for a group of `records`.

    mu: one record's contribution over the noise standard deviation. rate: sampling rate in (0, 1). Each of the group's records is sampled
    on its own, so the sum moves by at most j mu with Binomial probability, towards one version under P and the other under Q; that
    collinear, opposite contributions of full norm are the worst case is the theorem of normal_mixture.py. Attained: by those. The pair is
    its own mirror image: one direction is both.
    """

    mu: float
    rate: float
    records: int = 1

    def approx_dp(self, delta: float) -> float:
        """Amplification of the analytic Gaussian at twice the group's contribution: arXiv:1807.01647, Theorem 9's argument."""
        return amplify(Gaussian(2.0 * self.mu * self.records), any_sampled(self.rate, self.records), delta)

    def zcdp(self) -> float:
        raise NotRepresentable(NO_RHO)

    def gdp(self) -> float:
        raise NotRepresentable(NOT_PLAIN)

    def attained(self) -> bool:
        return True

    def losses(self) -> tuple[PrivacyLoss, ...]:
        return GaussianMixtureReplaced(binomial_mixture(self.mu, self.rate, self.records)).losses()
