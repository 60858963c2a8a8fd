"""Mixtures of unit normal distributions on the line, by their likelihood ratio to the standard one."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any, TypeVar

from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, ComplexArray, np
from dpcli.numerics.contour.rotations import log1p_complex
from dpcli.numerics.inverse import increasing_root
from dpcli.numerics.logspace import log_binomial, log_expm1_array, log_normal_ends
from dpcli.numerics.products import product
from dpcli.numerics.tails import mixed
from dpcli.numerics.work import hold, spend

Line = TypeVar("Line", Array, ComplexArray)
FAR = 30.0  # exponent beyond which m is no longer taken as 1 and what it exceeds it by


def log_excess(at: Array, log_rest: float) -> Array:
    """log(e^at - e^log_rest); -inf at and below log_rest."""
    return log_expm1_array(np.maximum(at - log_rest, 0.0)) + log_rest if log_rest > -math.inf else at


def unmixed(at: Array, log_rest: float, weight: float) -> Array:
    """u with log(w_0 + w e^u) = at, where w = `weight` > 0 and w_0 = e^log_rest = 1 - w; -inf at and below log_rest."""
    with np.errstate(all="ignore"):
        change = np.expm1(np.clip(at, -FAR, FAR)) / weight
        near = (np.abs(at) < FAR) & (change > -0.5) & (change < np.inf)  # where a small `at` keeps its digits
        return np.where(near, np.log1p(np.maximum(change, -0.5)), log_excess(at, log_rest) - math.log(weight))


@dataclass(frozen=True, slots=True)
class Mixture:
    """m(x) = sum_j w_j N(s_j, 1) / N(0, 1) on the line.

    log_rest: logarithm of the weight at shift 0 (-inf where there is none). log_weights, shifts: of the others, shifts increasing > 0.
    stated: the weights themselves where they are at hand, since a small one has digits that its logarithm lacks.
    """

    log_rest: float
    log_weights: tuple[float, ...]
    shifts: tuple[float, ...]
    stated: tuple[float, ...] | None = None

    @property
    def reach(self) -> float:
        """The largest shift."""
        return self.shifts[-1]

    @property
    def single(self) -> bool:
        """Whether there is one shift only: what is asked then has a closed form."""
        return len(self.shifts) == 1

    def _exponents(self, x: Any) -> Any:
        """log(N(s_j, 1) / N(0, 1)) of the positive shifts, one row each."""
        shifts = np.array(self.shifts)[:, None]
        return shifts * x[None, :] - 0.5 * shifts * shifts

    def log_ratio(self, x: Line) -> Line:
        """log m(x), with all its digits near m = 1. x: real, or complex with |Im x| reach <= pi / 2, where m has no zeros."""
        if not self.single:
            hold(2.0 * len(self.shifts) * len(x))
        u = self._exponents(x)
        weights = np.exp(self.log_weights) if self.stated is None else np.array(self.stated)
        far = u.real.max(axis=0) > FAR
        change = product(weights, np.expm1(np.where(far, 0.0, u) if far.any() else u))
        logarithm: Any = log1p_complex(change) if np.iscomplexobj(x) else np.log1p(np.maximum(change, -0.5))
        found: Line = logarithm
        far |= change.real < -0.5
        if far.any():
            found[far] = self._log_sum(u[:, far])
        return found

    def _log_sum(self, u: Any) -> Any:
        """log m from the exponents, by its terms."""
        terms = np.array(self.log_weights)[:, None] + u
        if not np.iscomplexobj(u):
            return np.logaddexp(np.logaddexp.reduce(terms, axis=0), self.log_rest)
        top = np.maximum(terms.real.max(axis=0), self.log_rest)
        return top + np.log(np.exp(terms - top).sum(axis=0) + np.exp(self.log_rest - top))

    def moment_bound(self, z: Array, stretch: float = 1.0) -> Array:
        """log sum_j w_j e^{K_j(z)}, K_j of a Gaussian that is moved by stretch * s_j: convexity of the moment; holds in both directions."""
        terms = [w + 0.5 * (stretch * s) ** 2 * z * (z + 1.0) for w, s in zip(self.log_weights, self.shifts, strict=True)]
        return np.asarray(np.logaddexp.reduce(np.array([np.full_like(z, self.log_rest), *terms]), axis=0))

    def log_mean(self, k: float) -> float:
        """log of the mean of e^{k x} under m N(0, 1)."""
        shifted = [w + k * s for w, s in zip(self.log_weights, self.shifts, strict=True)]
        return float(np.logaddexp.reduce([self.log_rest, *shifted])) + 0.5 * k * k

    def outcome(self, at: Array) -> Array:
        """x with log m(x) = at, which increases; -inf at and below the infimum, the weight at 0."""
        if self.single:
            weight = math.exp(self.log_weights[0]) if self.stated is None else self.stated[0]
            return unmixed(at, self.log_rest, weight) / self.reach + 0.5 * self.reach
        target = log_excess(at, self.log_rest)
        inside = target > -np.inf
        target = np.where(inside, target, 0.0)
        return np.where(inside, increasing_root(self.risen, target, *self.around(target)), -np.inf)

    def around(self, log_sum: Array) -> tuple[Array, Array]:
        """Below and above the x at which the positive shifts alone, sum_{j>0} w_j e^{..}, are e^log_sum."""
        shifts, weights = np.array(self.shifts)[:, None], np.array(self.log_weights)[:, None]
        low = ((log_sum - np.logaddexp.reduce(weights)) / shifts + 0.5 * shifts).min(axis=0)  # some term is at least the mean
        return low, ((log_sum - weights) / shifts + 0.5 * shifts).min(axis=0)  # no term alone is more than their sum

    def risen(self, x: Array) -> tuple[Array, Array]:
        """Logarithm of the positive shifts' sum, and its slope."""
        spend(0.2 * len(self.shifts) * len(x))
        terms = np.array(self.log_weights)[:, None] + self._exponents(x)
        top = terms.max(axis=0)
        parts = np.exp(terms - top)
        total = parts.sum(axis=0)
        return top + np.log(total), (np.array(self.shifts)[:, None] * parts).sum(axis=0) / total

    def ends(self, normal: tuple[Array, Array], x: Array, sign: float = 1.0) -> tuple[Array, Array]:
        """log of the mass above and below x of m N(0, 1), or (sign -1) of its mirror image. normal: those of N(0, 1)."""
        above, below = log_normal_ends(x - sign * np.array(self.shifts)[:, None])
        log_weights = [self.log_rest, *self.log_weights]
        return mixed(log_weights, [normal[0], *above]), mixed(log_weights, [normal[1], *below])

    def left_peak(self, power: float) -> float:
        """s >= 0 such that N(0,1) m^-power falls to the left of -s faster than the normal density does from its centre.

        s is at least power times the slope of log m at -s, which rises with x: log m is convex.
        """
        low, high = 0.0, power * self._slope(0.0)
        for _ in range(60):
            if high - low <= 0.5:
                break
            middle = 0.5 * (low + high)
            low, high = (low, middle) if middle >= power * self._slope(-middle) else (middle, high)
        return high

    def _slope(self, x: float) -> float:
        """Of log m."""
        terms = [w + s * x - 0.5 * s * s for w, s in zip(self.log_weights, self.shifts, strict=True)]
        top = max(*terms, self.log_rest)
        parts = [math.exp(term - top) for term in terms]
        return math.fsum(map(operator.mul, self.shifts, parts)) / (math.fsum(parts) + math.exp(self.log_rest - top))


@functools.lru_cache(1 << 14)
def binomial_mixture(mu: float, rate: float, records: int) -> Mixture:
    """Shifts j mu with Binomial(records, rate) weights, rate in (0, 1)."""
    weights = log_binomial(records, rate)
    shifts = tuple(mu * j for j in range(1, records + 1))
    return Mixture(weights[0], tuple(weights[1:]), shifts, (rate,) if records == 1 else None)
