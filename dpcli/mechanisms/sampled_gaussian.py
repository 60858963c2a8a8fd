"""Gaussian noise on a Poisson sample: the mechanism of DP-SGD, by quadrature of its own likelihood ratio."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpcli.errors import NotRepresentable
from dpcli.mechanisms.base import Mechanism, any_sampled
from dpcli.mechanisms.poisson import NO_RHO, amplify
from dpcli.numerics.quadrature import TAIL, power_moment, step_size
from dpcli.numerics.tilted import TiltedQuadrature
from dpcli.registry import lazy

if TYPE_CHECKING:
    import numpy as np

    from dpcli.numerics.roots import Array
    from dpcli.numerics.tilted import ComplexArray
else:
    np = lazy("numpy")

NOT_PLAIN = "it is a sampled Gaussian, and the closed form is for unsampled ones"
MAX_MULTIPLICITY = 64  # larger groups are bounded by one record of their total size


def log_normal(x: Any) -> Any:
    """Logarithm of the standard normal density."""
    return -0.5 * x * x - 0.5 * math.log(2.0 * math.pi)


def log_binomial(records: int, rate: float) -> list[float]:
    """Logarithms of the Binomial(records, rate) probabilities."""
    return [
        math.lgamma(records + 1)
        - math.lgamma(j + 1)
        - math.lgamma(records - j + 1)
        + j * math.log(rate)
        + (records - j) * math.log1p(-rate)
        for j in range(records + 1)
    ]


def log_mixture(x: Array, mu: float, rate: float, records: int) -> Array:
    """log m(x), m = sum_j Binomial(records, rate)[j] N(j mu, 1) / N(0, 1)."""
    if records == 1:
        u = mu * x - 0.5 * mu * mu
        far = (u > 30.0) | ((u < 0.0) & (rate > 0.5))  # where 1 + q expm1(u) would overflow, or cancel
        direct = np.logaddexp(math.log1p(-rate), math.log(rate) + u)
        return np.where(far, direct, np.log1p(rate * np.expm1(np.where(far, 0.0, u))))
    terms = [w + j * mu * x - 0.5 * (j * mu) ** 2 for j, w in enumerate(log_binomial(records, rate))]
    return np.asarray(np.logaddexp.reduce(np.array(terms), axis=0))


def log_mixture_complex(x: ComplexArray, mu: float, rate: float, records: int) -> ComplexArray:
    """`log_mixture` at complex x with |Im x| mu records <= pi / 2, where the mixture has no zeros."""
    if records == 1:
        u = mu * x - 0.5 * mu * mu
        near = u.real < 30.0
        low, high = np.where(near, u, 0.0), np.where(near, 30.0, u)
        return np.where(near, np.log1p(rate * np.expm1(low)), math.log(rate) + high + np.log1p((1.0 - rate) / rate * np.exp(-high)))
    terms = np.array([w + j * mu * x - 0.5 * (j * mu) ** 2 for j, w in enumerate(log_binomial(records, rate))])
    top = terms.real.max(axis=0)
    return np.asarray(top + np.log(np.exp(terms - top).sum(axis=0)))


def mixture_bound(z: Array, mu: float, rate: float, records: int) -> Array:
    """log sum_j w_j e^{K_j(z)}: convexity of x^p over the number of sampled records; holds in both directions."""
    terms = [w + 0.5 * (j * mu) ** 2 * z * (z + 1.0) for j, w in enumerate(log_binomial(records, rate))]
    return np.asarray(np.logaddexp.reduce(np.array(terms), axis=0))


@dataclass(frozen=True, slots=True)
class RemoveLoss:
    """(sum_j w_j N(j mu, 1), N(0, 1)): K(z) = log E_N(0,1)[m^{z+1}]."""

    mu: float
    rate: float
    records: int = 1

    def cgf(self, z: Array) -> Array:
        """Upper bound, relative excess about 1e-12 (larger orders than the nodes allow: the convexity bound)."""
        reach = self.mu * self.records
        return power_moment(
            z + 1.0,
            lambda x: log_mixture(x, self.mu, self.rate, self.records),
            log_normal,
            lambda p: (-TAIL, max(p, 2.0) * reach + TAIL),  # at a tiny rate the integrand is quadratic, with its peak at 2 mu
            reach,
            lambda p: mixture_bound(p - 1.0, self.mu, self.rate, self.records),
        )

    def tilted(self, t: float) -> TiltedQuadrature:
        """r = m, Q = N(0, 1)."""
        mu, reach = self.mu, self.mu * self.records
        return TiltedQuadrature(
            t,
            log_normal,
            lambda x: log_mixture_complex(x, mu, self.rate, self.records),
            (-TAIL, (t + 1.0) * reach + TAIL),
            0.5 * math.pi / reach,
            step_size(t, reach),
        )


@dataclass(frozen=True, slots=True)
class AddLoss:
    """(N(0, 1), sum_j w_j N(j mu, 1)): K(z) = log E_N(0,1)[m^{-z}]."""

    mu: float
    rate: float
    records: int = 1

    def cgf(self, z: Array) -> Array:
        """Upper bound, relative excess about 1e-12 (larger orders than the nodes allow: the convexity bound)."""
        reach = self.mu * self.records
        return power_moment(
            -z,
            lambda x: log_mixture(x, self.mu, self.rate, self.records),
            log_normal,
            lambda p: (-TAIL - p * reach, 2.0 * reach + TAIL),
            reach,
            lambda p: mixture_bound(-p, self.mu, self.rate, self.records),
        )

    def tilted(self, t: float) -> TiltedQuadrature:
        """r = 1/m, Q = m N(0, 1)."""
        mu, reach = self.mu, self.mu * self.records
        return TiltedQuadrature(
            t,
            lambda x: log_normal(x) + log_mixture_complex(x, mu, self.rate, self.records),
            lambda x: -log_mixture_complex(x, mu, self.rate, self.records),
            (-TAIL - t * reach, reach + TAIL),
            0.5 * math.pi / reach,
            step_size(t, reach),
        )


@dataclass(frozen=True, slots=True)
class ReplaceLoss:
    """((1-q) N(0,1) + q N(mu,1), (1-q) N(0,1) + q N(-mu,1)): the record's two versions push in opposite directions."""

    mu: float
    rate: float

    def cgf(self, z: Array) -> Array:
        """Upper bound, relative excess about 1e-12; symmetric in the two directions."""

        def log_ratio(x: Array) -> Array:
            return log_mixture(x, self.mu, self.rate, 1) - log_mixture(-x, self.mu, self.rate, 1)

        return power_moment(
            z + 1.0,
            log_ratio,
            lambda x: log_normal(x) + log_mixture(-x, self.mu, self.rate, 1),
            lambda p: (-TAIL - self.mu, max(2.0 * p - 1.0, 3.0) * self.mu + TAIL),  # the slope of both ratios pushes the same way
            2.0 * self.mu,
            lambda p: 2.0 * self.mu * self.mu * p * (p - 1.0),
        )

    def tilted(self, t: float) -> TiltedQuadrature:
        """r = m(x)/m(-x), Q = m(-x) N(0, 1)."""
        mu = self.mu
        return TiltedQuadrature(
            t,
            lambda x: log_normal(x) + log_mixture_complex(-x, mu, self.rate, 1),
            lambda x: log_mixture_complex(x, mu, self.rate, 1) - log_mixture_complex(-x, mu, self.rate, 1),
            (-TAIL - mu, (2.0 * t + 1.0) * mu + TAIL),
            0.5 * math.pi / mu,
            step_size(t, 2.0 * mu),
        )


def sampled_gaussian(mu: float, rate: float, records: int) -> Mechanism:
    """`SampledGaussian`, or what bounds it: for a large group one record of its total size; at rate 1 no sampling."""
    from dpcli.mechanisms.gaussian import Gaussian

    if records > MAX_MULTIPLICITY:
        mu, rate, records = mu * records, any_sampled(rate, records), 1
    return SampledGaussian(mu, rate, records) if rate < 1.0 else Gaussian(mu * records)


@dataclass(frozen=True, slots=True)
class SampledGaussian(Mechanism):
    """Gaussian noise on a Poisson sample, add-remove or zero-out, for a group of `records`.

    mu: one record's contribution over the noise standard deviation. rate: sampling rate in (0, 1). Each of the group's records is
    sampled on its own, so the sum moves by j mu with Binomial probability; collinear contributions of full norm are the worst case
    (Choquette-Choo et al. 2023, arXiv:2310.15526: mixture-of-Gaussians mechanisms are dominated by their scalar norms).
    """

    mu: float
    rate: float
    records: int = 1

    def approx_dp(self, delta: float) -> float:
        """Amplification of the analytic Gaussian: Balle, Barthe, Gaboardi 2018, arXiv:1807.01647, Theorem 8."""
        from dpcli.mechanisms.gaussian import Gaussian

        return amplify(Gaussian(self.mu * self.records), any_sampled(self.rate, self.records), delta)

    def zcdp(self) -> float:
        raise NotRepresentable(NO_RHO)

    def gdp(self) -> float:
        raise NotRepresentable(NOT_PLAIN)

    def losses(self) -> tuple[RemoveLoss, AddLoss]:
        return RemoveLoss(self.mu, self.rate, self.records), AddLoss(self.mu, self.rate, self.records)

    def rdp(self, orders: Array) -> Array:
        """For one record the remove direction is the larger: Mironov, Talwar, Zhang 2019, arXiv:1908.10530, Theorem 5."""
        if self.records == 1:
            return self.losses()[0].cgf(orders - 1.0) / (orders - 1.0)
        return Mechanism.rdp(self, orders)


@dataclass(frozen=True, slots=True)
class SampledGaussianReplaced(Mechanism):
    """Gaussian noise on a Poisson sample, replace-one. mu: one record's contribution over the noise standard deviation.

    Proof that this pair dominates, for every gamma = e^eps >= 0. Fix the other sampled records (joint convexity) and put the sum
    without the record at 0: P = (1-q) N(0) + q N(u), Q = (1-q) N(0) + q N(v), |u|, |v| <= mu. The hockey-stick divergence is E h(M(X))
    over X ~ N(0, I), h = positive part, M = (1-q)(1-gamma) + q e^A - gamma q e^B, A = <u,X> - |u|^2/2, B = <v,X> - |v|^2/2. Gaussian
    integration by parts gives its derivative in <u,v> as -gamma q^2 E[h''(M) e^{A+B}] <= 0, so antiparallel u and v are worst; on
    that line, u = a and v = -b, its derivative in a is q E_N(a)[h'(M)(X - a)] >= 0 since M increases in X, and likewise in b, so full
    norms are worst. The pair is its own mirror image: one direction is both.
    """

    mu: float
    rate: float

    def approx_dp(self, delta: float) -> float:
        """Amplification of the analytic Gaussian at twice the contribution: arXiv:1807.01647, Theorem 9's argument."""
        from dpcli.mechanisms.gaussian import Gaussian

        return amplify(Gaussian(2.0 * self.mu), self.rate, delta)

    def zcdp(self) -> float:
        raise NotRepresentable(NO_RHO)

    def gdp(self) -> float:
        raise NotRepresentable(NOT_PLAIN)

    def losses(self) -> tuple[ReplaceLoss]:
        return (ReplaceLoss(self.mu, self.rate),)
