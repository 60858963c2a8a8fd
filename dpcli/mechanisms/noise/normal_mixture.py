"""Dominating pairs of Gaussian noise on a sum that moves by a random amount, in the noise's standard deviation.

One change of the data moves the sum by u_i under P and by v_i under Q, i drawn with probability w_i in both, |u_i|, |v_i| <= s_i:
which of a group's records are in a sample, say. (Whatever else is random, the rest of the sample, is fixed by joint convexity.)

Theorem. For every gamma >= 0 the hockey-stick divergence of (sum w_i N(u_i, I), sum w_i N(v_i, I)) is at most that of the scalar pair
(sum w_i N(s_i, 1), sum w_i N(-s_i, 1)); with all v_i = 0, at most that of (sum w_i N(s_i, 1), N(0, 1)).

Proof. Relative to N(0, I) it is F(C) = E h(M), h the positive part, M = sum_i c_i e^{g_i - C_ii/2}, g_i = <u_i, X> and <v_i, X> jointly
Gaussian of covariance C, and c_i = w_i or -gamma w_i. Replace h by smooth convex functions that converge to it uniformly, with bounded
h' and h'' (softplus). Let C change along a line, C + t dC, as the covariance of sqrt(1-t) g + sqrt(t) g* for independent g, g*. Gaussian
integration by parts gives dF/dt = sum_{i<j} dC_ij c_i c_j E[h'' e_i e_j] + 1/2 sum_i dC_ii c_i^2 E[h'' e_i^2], e_i = e^{g_i - C_ii/2}: the
terms in h' that a change of C_ii brings are cancelled by that of -C_ii/2. So F grows with the diagonal and with the covariances of the
same side (c_i c_j > 0) and falls in those between the sides. By Cauchy and Schwarz s_i s_j bounds the former and -s_i s_j the
latter from below, and one covariance attains all bounds at once: collinear u_i = s_i, v_i = -s_i. The line to it is one of covariances.

The pair without opposition is that of Choquette-Choo et al. 2023, arXiv:2310.15526.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcli.numerics.arrays import Array, ComplexArray, np
from dpcli.numerics.contour.rotations import log1p_complex
from dpcli.numerics.contour.tilted import TiltedQuadrature
from dpcli.numerics.inverse import increasing_root
from dpcli.numerics.logspace import log_binomial, log_ndtr_array, log_normal
from dpcli.numerics.quadrature import TAIL, power_moment, step_size
from dpcli.numerics.tails import Tails, mixed
from dpcli.numerics.work import hold

BLOCK = 1 << 14  # outcomes that are looked at together


@dataclass(frozen=True, slots=True)
class Mixture:
    """m(x) = sum_j w_j N(s_j, 1) / N(0, 1) on the line.

    log_rest: logarithm of the weight at shift 0 (-inf where there is none). log_weights, shifts: of the others, shifts increasing > 0.
    """

    log_rest: float
    log_weights: tuple[float, ...]
    shifts: tuple[float, ...]

    @property
    def reach(self) -> float:
        """The largest shift."""
        return self.shifts[-1]

    def terms(self, x: Array) -> Array:
        """log(w_j N(s_j, 1) / N(0, 1)) of the positive shifts, one row each."""
        hold(float(len(self.shifts) * len(x)))
        shifts = np.array(self.shifts)[:, None]
        return np.asarray(np.array(self.log_weights)[:, None] + shifts * x[None, :] - 0.5 * shifts * shifts)

    def log_ratio(self, x: Array) -> Array:
        """log m(x), with all its digits near m = 1."""
        hold(float(len(self.shifts) * len(x)))
        shifts, weights = np.array(self.shifts)[:, None], np.exp(np.array(self.log_weights))[:, None]
        u = shifts * x[None, :] - 0.5 * shifts * shifts
        excess = (weights * np.expm1(np.minimum(u, 30.0))).sum(axis=0)
        far = (u.max(axis=0) > 30.0) | (excess < -0.5)
        direct = np.logaddexp(np.logaddexp.reduce(self.terms(x), axis=0), self.log_rest)
        return np.where(far, direct, np.log1p(np.where(far, 0.0, excess)))

    def log_ratio_complex(self, x: ComplexArray) -> ComplexArray:
        """`log_ratio` at complex x with |Im x| reach <= pi / 2, where the mixture has no zeros."""
        hold(2.0 * len(self.shifts) * len(x))
        shifts = np.array(self.shifts)[:, None]
        u = shifts * x[None, :] - 0.5 * shifts * shifts
        log_weights = np.array(self.log_weights)[:, None]
        far = u.real.max(axis=0) > 30.0
        excess = (np.exp(log_weights) * np.expm1(np.where(far, 0.0, u))).sum(axis=0)
        terms = np.concatenate((log_weights + u, np.full((1, len(x)), self.log_rest, dtype=complex)))
        top = terms.real.max(axis=0)
        return np.where(far, top + np.log(np.exp(terms - top).sum(axis=0)), log1p_complex(excess))

    def moment_bound(self, z: Array, stretch: float = 1.0) -> Array:
        """log sum_j w_j e^{K_j(z)}, K_j of a Gaussian that is moved by stretch * s_j: convexity of the moment; holds in both directions."""
        terms = [w + 0.5 * (stretch * s) ** 2 * z * (z + 1.0) for w, s in zip(self.log_weights, self.shifts, strict=True)]
        return np.asarray(np.logaddexp.reduce(np.array([*terms, np.full_like(z, self.log_rest)]), axis=0))

    def outcome(self, log_excess: Array) -> Array:
        """x at which the positive shifts alone, sum_{j>0} w_j e^{..}, are e^log_excess; -inf at -inf."""
        finite = np.isfinite(log_excess)
        target = np.where(finite, log_excess, 0.0)
        shifts, weights = np.array(self.shifts)[:, None], np.array(self.log_weights)[:, None]
        high = ((target - weights) / shifts + 0.5 * shifts).min(axis=0)  # no term alone is more than their sum
        low = ((target - np.logaddexp.reduce(weights)) / shifts + 0.5 * shifts).min(axis=0)  # some term is at least the mean
        return np.where(finite, increasing_root(self._excess, target, low, high), -np.inf)

    def _excess(self, x: Array) -> tuple[Array, Array]:
        """Logarithm of the positive shifts' sum, and its slope."""
        terms = self.terms(x)
        top = terms.max(axis=0)
        parts = np.exp(terms - top)
        total = parts.sum(axis=0)
        return top + np.log(total), (np.array(self.shifts)[:, None] * parts).sum(axis=0) / total

    def above(self, x: Array, sign: float = 1.0) -> Array:
        """log of the mass above x of the mixture, or (sign -1) of its mirror image."""
        shifts = [0.0, *self.shifts] if self.log_rest > -math.inf else list(self.shifts)
        weights = [self.log_rest, *self.log_weights] if self.log_rest > -math.inf else list(self.log_weights)
        return mixed(weights, [log_ndtr_array(sign * s - x) for s in shifts])


def binomial_mixture(mu: float, rate: float, records: int) -> Mixture:
    """Shifts j mu with Binomial(records, rate) weights, rate in (0, 1)."""
    weights = log_binomial(records, rate)
    return Mixture(weights[0], tuple(weights[1:]), tuple(mu * j for j in range(1, records + 1)))


def in_blocks(tails: list[Tails]) -> Tails:
    """Tails of consecutive stretches, joined."""
    return Tails(*(np.concatenate(parts) for parts in zip(*tails, strict=True)))


@dataclass(frozen=True, slots=True)
class MixtureRemoveLoss:
    """(m N(0, 1), N(0, 1))."""

    mixture: Mixture

    def cgf(self, z: Array) -> Array:
        """Upper bound, relative excess about 1e-12 (larger orders than the nodes allow: the convexity bound)."""
        m = self.mixture
        return power_moment(
            z + 1.0,
            m.log_ratio,
            log_normal,
            lambda p: (-TAIL, max(p, 2.0) * m.reach + TAIL),
            m.reach,
            lambda p: m.moment_bound(p - 1.0),
        )

    def tilted(self, t: float) -> TiltedQuadrature:
        """r = m, Q = N(0, 1)."""
        m = self.mixture
        window = (-TAIL, (t + 1.0) * m.reach + TAIL)
        return TiltedQuadrature(t, log_normal, m.log_ratio_complex, window, 0.5 * math.pi / m.reach, step_size(t, m.reach))

    def tails(self, at: Array) -> Tails:
        """At the outcome x where log m(x) = l, which increases in x."""
        return in_blocks([self._tails(at[i : i + BLOCK]) for i in range(0, max(len(at), 1), BLOCK)])

    def _tails(self, at: Array) -> Tails:
        m = self.mixture
        rest = math.exp(m.log_rest)
        with np.errstate(all="ignore"):
            near = np.log(np.expm1(np.minimum(at, 1.0)) + math.fsum(map(math.exp, m.log_weights)))
            far = at + np.log1p(-rest * np.exp(-at))
            excess = np.where(at <= m.log_rest, -np.inf, np.where(at < 1.0, near, far))
            x = m.outcome(np.where(np.isnan(excess), -np.inf, excess))
        return Tails(m.above(x), m.above(-x, -1.0), log_ndtr_array(-x), log_ndtr_array(x))


@dataclass(frozen=True, slots=True)
class MixtureAddLoss:
    """(N(0, 1), m N(0, 1))."""

    mixture: Mixture

    def cgf(self, z: Array) -> Array:
        """Upper bound, relative excess about 1e-12 (larger orders than the nodes allow: the convexity bound)."""
        m = self.mixture
        return power_moment(
            -z,
            m.log_ratio,
            log_normal,
            lambda p: (-TAIL - p * m.reach, 2.0 * m.reach + TAIL),
            m.reach,
            lambda p: m.moment_bound(-p),
        )

    def tilted(self, t: float) -> TiltedQuadrature:
        """r = 1/m, Q = m N(0, 1)."""
        m = self.mixture
        return TiltedQuadrature(
            t,
            lambda x: log_normal(x) + m.log_ratio_complex(x),
            lambda x: -m.log_ratio_complex(x),
            (-TAIL - t * m.reach, m.reach + TAIL),
            0.5 * math.pi / m.reach,
            step_size(t, m.reach),
        )

    def tails(self, at: Array) -> Tails:
        """The mirror image of the remove direction."""
        return MixtureRemoveLoss(self.mixture).tails(-at[::-1]).mirrored()


@dataclass(frozen=True, slots=True)
class MixtureReplaceLoss:
    """(m(x) N(0, 1), m(-x) N(0, 1)); its own mirror image."""

    mixture: Mixture

    def cgf(self, z: Array) -> Array:
        """Upper bound, relative excess about 1e-12 (larger orders than the nodes allow: the convexity bound)."""
        m = self.mixture
        return power_moment(
            z + 1.0,
            lambda x: m.log_ratio(x) - m.log_ratio(-x),
            lambda x: log_normal(x) + m.log_ratio(-x),
            lambda p: (-TAIL - m.reach, max(2.0 * p - 1.0, 3.0) * m.reach + TAIL),
            2.0 * m.reach,
            lambda p: m.moment_bound(p - 1.0, 2.0),
        )

    def tilted(self, t: float) -> TiltedQuadrature:
        """r = m(x)/m(-x), Q = m(-x) N(0, 1)."""
        m = self.mixture
        return TiltedQuadrature(
            t,
            lambda x: log_normal(x) + m.log_ratio_complex(-x),
            lambda x: m.log_ratio_complex(x) - m.log_ratio_complex(-x),
            (-TAIL - m.reach, (2.0 * t + 1.0) * m.reach + TAIL),
            0.5 * math.pi / m.reach,
            step_size(t, 2.0 * m.reach),
        )

    def tails(self, at: Array) -> Tails:
        """At the outcome x where log m(x) - log m(-x) = l, which is odd and increases in x."""
        return in_blocks([self._tails(at[i : i + BLOCK]) for i in range(0, max(len(at), 1), BLOCK)])

    def _tails(self, at: Array) -> Tails:
        m, size = self.mixture, np.abs(at)
        with np.errstate(divide="ignore"):
            log_rise = m.log_rest + np.where(size > 36.0, size, np.log(np.expm1(np.minimum(size, 36.0))))
        # For x >= 0, w_0 <= m(-x) <= m(0): so m(x) is at least e^l w_0 and at most e^l m(0).
        centre = m._excess(np.zeros(1))[0]
        low = np.maximum(m.outcome(log_rise), size / (2.0 * m.reach))
        high = np.maximum(m.outcome(np.logaddexp(log_rise, size + centre)), low)
        x = np.copysign(increasing_root(self._loss, size, low, high), at)
        return Tails(m.above(x), m.above(-x, -1.0), m.above(x, -1.0), m.above(-x))

    def _loss(self, x: Array) -> tuple[Array, Array]:
        """log m(x) - log m(-x), and its slope."""
        m = self.mixture
        up, down = m.log_ratio(x), m.log_ratio(-x)
        slopes = [m._excess(y) for y in (x, -x)]
        rise = [np.exp(log_part - whole) * slope for (log_part, slope), whole in zip(slopes, (up, down), strict=True)]
        return up - down, rise[0] + rise[1]
