"""Gaussian noise on a Poisson sample: the mechanism of DP-SGD, by quadrature of its own likelihood ratio."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcli.errors import NotRepresentable
from dpcli.mechanisms.mechanism import Dominated, Mechanism, PrivacyLoss
from dpcli.mechanisms.neighbours import any_sampled
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.normal_mixture import MixtureReplaceLoss, binomial_mixture
from dpcli.mechanisms.sampling.poisson import NO_RHO, amplify
from dpcli.numerics.arrays import Array, ComplexArray, np
from dpcli.numerics.contour.capped import CappedLoss, cap, sharpness_for
from dpcli.numerics.contour.rotations import log1p_complex
from dpcli.numerics.contour.tilted import TiltedQuadrature
from dpcli.numerics.logspace import log_binomial, log_ndtr_array, log_normal
from dpcli.numerics.quadrature import TAIL, power_moment, step_size
from dpcli.numerics.tails import Tails, mixed
from dpcli.numerics.work import hold

NOT_PLAIN = "it is a sampled Gaussian, and the closed form is for unsampled ones"
MAX_REACH = 120.0  # contribution over noise up to which the contour accountant is tried
MAX_MULTIPLICITY = 64  # larger groups are bounded by one record of their total size


def log_mixture(x: Array, mu: float, rate: float, records: int) -> Array:
    """log m(x), m = sum_j Binomial(records, rate)[j] N(j mu, 1) / N(0, 1)."""
    if records == 1:
        u = mu * x - 0.5 * mu * mu
        far = (u > 30.0) | ((u < -0.5) & (rate > 0.5))  # where 1 + q expm1(u) would overflow, or cancel
        direct = np.logaddexp(math.log1p(-rate), math.log(rate) + u)
        return np.where(far, direct, np.log1p(rate * np.expm1(np.where(far, 0.0, u))))
    hold(2.0 * records * len(x))
    weights = log_binomial(records, rate)
    terms = np.array([w + j * mu * x - 0.5 * (j * mu) ** 2 for j, w in enumerate(weights)])
    u = np.array([j * mu * x - 0.5 * (j * mu) ** 2 for j in range(1, records + 1)])
    near = u.max(axis=0) < 30.0  # there m - 1 keeps the digits that a small rate leaves it, unless m itself is small
    change = np.exp(np.array(weights[1:])) @ np.expm1(np.where(near, u, 0.0))
    return np.asarray(np.where(near & (change > -0.5), np.log1p(np.maximum(change, -0.5)), np.logaddexp.reduce(terms, axis=0)))


def log_mixture_complex(x: ComplexArray, mu: float, rate: float, records: int) -> ComplexArray:
    """`log_mixture` at complex x with |Im x| mu records <= pi / 2, where the mixture has no zeros."""
    if not np.iscomplexobj(x):
        return log_mixture(x, mu, rate, records)  # type: ignore[arg-type, return-value]
    if records == 1:
        u = mu * x - 0.5 * mu * mu
        near = u.real < 30.0
        low, high = np.where(near, u, 0.0), np.where(near, 30.0, u)
        above = math.log(rate) + high + np.log1p((1.0 - rate) / rate * np.exp(-high))
        return np.where(near, log1p_complex(rate * np.expm1(low)), above)
    hold(2.0 * records * len(x))
    terms = np.array([w + j * mu * x - 0.5 * (j * mu) ** 2 for j, w in enumerate(log_binomial(records, rate))])
    top = terms.real.max(axis=0)
    return np.asarray(top + np.log(np.exp(terms - top).sum(axis=0)))


def outcome_of(log_ratio: Array, mu: float, rate: float, records: int) -> Array:
    """x with log m(x) = log_ratio, -inf at and below the infimum (1-q)^records; Newton's method from above on the convex log m."""
    floor = records * math.log1p(-rate)
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = log_ratio > floor
        # log m(x) >= log of its first two terms' sum, whose inverse is therefore at or above the solution.
        weights = log_binomial(records, rate)
        gap = np.where(inside, log_ratio - weights[0], 1.0)
        log_excess = np.where(gap > 36.0, gap, np.log(np.expm1(np.minimum(gap, 36.0)))) + weights[0]
        if records == 1:
            change = np.expm1(np.clip(log_ratio, -30.0, 30.0)) / rate
            near = (np.abs(log_ratio) < 30.0) & (change > -0.5)  # where a small loss keeps its digits
            u = np.where(near, np.log1p(np.maximum(change, -0.5)), log_excess - weights[1])
            return np.asarray(np.where(inside, u / mu + 0.5 * mu, -np.inf))
        shifts = mu * np.arange(1, records + 1)[:, None]
        terms = np.array(weights[1:])[:, None] - 0.5 * shifts * shifts
        x = (log_excess - weights[1]) / mu + 0.5 * mu
        for _ in range(80):
            values = terms + shifts * x[None, :]
            top = values.max(axis=0)
            parts = np.exp(values - top)
            total = parts.sum(axis=0)
            step = (top + np.log(total) - log_excess) / ((parts * shifts).sum(axis=0) / total)
            x = x - step
            if not (np.abs(step[inside]) > 1e-14 * (1.0 + np.abs(x[inside]))).any():
                break
    return np.asarray(np.where(inside, x, -np.inf))


def left_peak(p: float, mu: float, rate: float, records: int) -> float:
    """s >= 0 such that N(0,1) m^{-p} falls to the left of -s faster than the normal density does from its centre.

    The slope of p log m at x <= 0 is at most p mu records min(1, R e^{mu x}), R the odds of being sampled; s exceeds it at x = -s, and
    log m is convex.
    """
    absent = (1.0 - rate) ** records
    slope, odds = p * mu * records, (1.0 - absent) / max(absent, 1e-300)
    low, high = 0.0, slope * min(1.0, odds)
    for _ in range(60):
        if high - low <= 0.5:
            break
        middle = 0.5 * (low + high)
        low, high = (low, middle) if middle >= slope * min(1.0, odds * math.exp(-mu * middle)) else (middle, high)
    return high


def require_reach(reach: float) -> None:
    """Refuse tilted quadratures that would take minutes: their nodes grow with the square of contribution over noise."""
    if reach > MAX_REACH:
        raise NotRepresentable(f"one unit's contribution is {reach:.3g} times the noise: its quadrature would take too long")


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
        require_reach(self.mu * self.records)
        mu, reach = self.mu, self.mu * self.records
        return TiltedQuadrature(
            t,
            log_normal,
            lambda x: log_mixture_complex(x, mu, self.rate, self.records),
            (-TAIL, (t + 1.0) * reach + TAIL),
            0.5 * math.pi / reach,
            step_size(t, reach),
        )

    def capped(self, log_mass: float) -> CappedLoss:
        """Without at most e^log_mass of its upper tail."""
        mu, k = self.mu, sharpness_for(log_mass)
        weights = log_binomial(self.records, self.rate)
        log_mean = float(np.logaddexp.reduce([w + k * j * mu + 0.5 * k * k for j, w in enumerate(weights)]))
        slope = mu * self.records
        return cap(log_normal, lambda x: log_mixture_complex(x, mu, self.rate, self.records), slope, log_mean, log_mass)

    def tails(self, at: Array) -> Tails:
        """At the outcome x where log m(x) = l, which increases in x."""
        x = outcome_of(at, self.mu, self.rate, self.records)
        shifts = [j * self.mu for j in range(self.records + 1)]
        weights = log_binomial(self.records, self.rate)
        above = [log_ndtr_array(shift - x) for shift in shifts]
        below = [log_ndtr_array(x - shift) for shift in shifts]
        return Tails(mixed(weights, above), mixed(weights, below), above[0], below[0])


@dataclass(frozen=True, slots=True)
class AddLoss:
    """(N(0, 1), sum_j w_j N(j mu, 1)): K(z) = log E_N(0,1)[m^{-z}]."""

    mu: float
    rate: float
    records: int = 1

    def cgf(self, z: Array) -> Array:
        """Upper bound, relative excess about 1e-12 (larger orders than the nodes allow: the convexity bound)."""
        mu, rate, records, reach = self.mu, self.rate, self.records, self.mu * self.records
        return power_moment(
            -z,
            lambda x: log_mixture(x, self.mu, self.rate, self.records),
            log_normal,
            lambda p: (-TAIL - left_peak(p, mu, rate, records), 2.0 * reach + TAIL),
            reach,
            lambda p: mixture_bound(-p, self.mu, self.rate, self.records),
        )

    def tilted(self, t: float) -> TiltedQuadrature:
        """r = 1/m, Q = m N(0, 1)."""
        require_reach(self.mu * self.records)
        mu, reach = self.mu, self.mu * self.records
        return TiltedQuadrature(
            t,
            lambda x: log_normal(x) + log_mixture_complex(x, mu, self.rate, self.records),
            lambda x: -log_mixture_complex(x, mu, self.rate, self.records),
            (-TAIL - left_peak(t, mu, self.rate, self.records), reach + TAIL),
            0.5 * math.pi / reach,
            step_size(t, reach),
        )

    def tails(self, at: Array) -> Tails:
        """The mirror image of the remove direction."""
        return RemoveLoss(self.mu, self.rate, self.records).tails(-at[::-1]).mirrored()


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
        require_reach(self.mu)
        mu = self.mu
        return TiltedQuadrature(
            t,
            lambda x: log_normal(x) + log_mixture_complex(-x, mu, self.rate, 1),
            lambda x: log_mixture_complex(x, mu, self.rate, 1) - log_mixture_complex(-x, mu, self.rate, 1),
            (-TAIL - mu, (2.0 * t + 1.0) * mu + TAIL),
            0.5 * math.pi / mu,
            step_size(t, 2.0 * mu),
        )

    def capped(self, log_mass: float) -> CappedLoss:
        """Without at most e^log_mass of its upper tail."""
        mu, rate, k = self.mu, self.rate, sharpness_for(log_mass)
        log_mean = float(np.logaddexp(math.log1p(-rate), math.log(rate) + k * mu)) + 0.5 * k * k
        return cap(
            lambda x: log_normal(x) + log_mixture_complex(-x, mu, rate, 1),
            lambda x: log_mixture_complex(x, mu, rate, 1) - log_mixture_complex(-x, mu, rate, 1),
            2.0 * mu,
            log_mean,
            log_mass,
        )

    def tails(self, at: Array) -> Tails:
        """At the outcome x where m(x)/m(-x) = e^l: mu x = l/2 + asinh((1-q) sinh(l/2) / b), b = q e^{-mu^2/2}."""
        half = 0.5 * np.abs(at)
        with np.errstate(divide="ignore"):
            log_sinh = half - math.log(2.0) + np.log(-np.expm1(-2.0 * half))
        log_a = log_sinh + math.log1p(-self.rate) - math.log(self.rate) + 0.5 * self.mu * self.mu
        rise = np.where(log_a > 20.0, log_a + math.log(2.0), np.arcsinh(np.exp(np.minimum(log_a, 20.0))))
        x = np.copysign(half + rise, at) / self.mu
        weights = [math.log1p(-self.rate), math.log(self.rate)]
        middle_above, middle_below = log_ndtr_array(-x), log_ndtr_array(x)
        above, below = log_ndtr_array(self.mu - x), log_ndtr_array(x - self.mu)
        other_above, other_below = log_ndtr_array(-self.mu - x), log_ndtr_array(x + self.mu)
        return Tails(
            mixed(weights, [middle_above, above]),
            mixed(weights, [middle_below, below]),
            mixed(weights, [middle_above, other_above]),
            mixed(weights, [middle_below, other_below]),
        )


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

    def losses(self) -> tuple[RemoveLoss, AddLoss]:
        return RemoveLoss(self.mu, self.rate, self.records), AddLoss(self.mu, self.rate, self.records)

    def rdp(self, orders: Array) -> Array:
        """For one record the remove direction is the larger: Mironov, Talwar, Zhang 2019, arXiv:1908.10530, Theorem 5."""
        if self.records == 1:
            return self.losses()[0].cgf(orders - 1.0) / (orders - 1.0)
        return Mechanism.rdp(self, orders)


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

    def losses(self) -> tuple[PrivacyLoss]:
        if self.records == 1:
            return (ReplaceLoss(self.mu, self.rate),)
        return (MixtureReplaceLoss(binomial_mixture(self.mu, self.rate, self.records)),)
