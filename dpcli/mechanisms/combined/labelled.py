"""Mechanisms that are chosen at random and revealed (`Labelled`), and several bounds on one mechanism (`LeastOf`).

The *label* is the random choice. Revealing it can only help an attacker, so the bounds also hold for a hidden choice, and are not claimed
to be attained. Truncated Poisson samples (sampling/truncated.py) are an example: the label says whether the sample was cut.

`LeastOf` is for one release with several proofs: every member dominates it, and each accountant may use the member that suits it best. For
example, a noisy maximum (choice/noisy_max.py) has two bounds that always hold, a pair of distributions and a pure epsilon. A member that
dominates the release only for some data must not be listed.

Accountants ask a mechanism for bounds, or for the privacy losses log dP/dQ of pairs (P, Q) that dominate it, one for each direction (adding
or removing a record). mechanism.py explains these methods, and numerics/contour/tilted.py those of a loss under a tilt.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING

from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss, in_direction
from dpcli.numerics.arrays import Array, ComplexArray, np
from dpcli.numerics.logspace import log1p_complex
from dpcli.numerics.tails import Tails, mixed
from dpcli.numerics.work import spend  # counts work, which is limited

if TYPE_CHECKING:
    from dpcli.numerics.contour.tilted import Tilted


HALVINGS = 40  # steps of a bisection, whose every step gives an upper bound, so that more steps affect only accuracy
WORK = 50.0 * HALVINGS  # units of work (numerics/work.py) of a bisection, each step of which asks two mechanisms for an epsilon
# Largest exponent x of a mean of powers e^x that is computed as 1 plus the mean of e^x - 1. This form keeps the digits of a mean near 1.
# With larger exponents, for which e^x could overflow, logarithms are added instead.
LARGE_TERM = 30.0


@dataclass(frozen=True, slots=True)
class Labelled(Mechanism):
    """The mechanism `rare` with probability e^log_rare, and `often` otherwise, with the choice revealed.

    Hockey-stick divergences and moments e^{(a-1) D_a} are jointly convex, so the bounds also hold if the choice is hidden. The probability
    of `rare` may be an upper bound if `rare` costs at least as much as `often`.
    """

    often: Mechanism
    rare: Mechanism
    log_rare: float

    @property
    def _log_often(self) -> float:
        """The log probability of `often`. Above about 1/2 and below it, different forms keep its digits."""
        return math.log(-math.expm1(self.log_rare)) if self.log_rare > -0.7 else math.log1p(-math.exp(self.log_rare))

    def approx_dp(self, delta: float) -> float:
        """Return the larger epsilon of the two mechanisms, at deltas whose weighted mean is `delta`.

        Any such deltas give an upper bound. The best ones that a bisection finds are used. At delta = 0, both mechanisms get delta 0.
        """
        share = math.exp(self.log_rare)
        if delta <= 0.0 or share == 0.0:
            return max(self.often.approx_dp(delta), self.rare.approx_dp(delta))
        spend(WORK)
        log_delta = math.log(max(delta, 1e-320))
        # Logarithms of deltas of `rare`: from delta, because `rare` is taken to cost no less than `often`, to delta / share, all of it.
        low, high = log_delta, min(0.0, log_delta - self.log_rare)
        best = math.inf
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            often_delta = (delta - share * math.exp(middle)) / (1.0 - share) * (1.0 - 1e-15)  # rounded down
            often_epsilon = self.often.approx_dp(max(often_delta, 0.0))
            rare_epsilon = self.rare.approx_dp(min(math.exp(middle), 1.0 - 1e-16))  # `approx_dp` takes deltas below 1
            best = min(best, max(often_epsilon, rare_epsilon))
            if often_epsilon > rare_epsilon:  # `often` needs a larger part of delta
                high = middle
            else:
                low = middle
        return best

    def delta_floor(self) -> float:  # at and below this delta, epsilon may be infinite
        share = math.exp(self.log_rare)
        return (1.0 - share) * self.often.delta_floor() + share * self.rare.delta_floor()

    def zcdp(self) -> float:
        return max(self.often.zcdp(), self.rare.zcdp())

    def losses(self) -> tuple[PrivacyLoss, ...]:
        weights = (self._log_often, self.log_rare)
        often, rare = self.often.losses(), self.rare.losses()
        directions = range(max(len(often), len(rare)))
        return tuple(LabelledLoss(weights, (in_direction(often, k), in_direction(rare, k))) for k in directions)

    def attained(self) -> bool:
        """Return False, because the choice may be hidden, and the probabilities may be bounds."""
        return False

    def rdp(self, orders: Array) -> Array:
        z = orders - 1.0
        curves = np.array([z * mechanism.rdp(orders) for mechanism in (self.often, self.rare)])
        return np.asarray(log_mean(np.array([[self._log_often], [self.log_rare]]), curves) / z * (1.0 + 1e-14))  # rounded up


@dataclass(frozen=True, slots=True)
class LeastOf(Mechanism):
    """The cheapest of several mechanisms that all dominate the same release. Its pair is not claimed to be attained.

    Accountants may use each of the mechanisms (`dominating`). `zcdp` and `losses` are those of the first one, for callers that need a
    single pair.
    """

    mechanisms: tuple[Mechanism, ...]

    def dominating(self) -> tuple[Mechanism, ...]:
        return self.mechanisms

    def approx_dp(self, delta: float) -> float:
        """Return the smallest epsilon of those that are known. Raises NotRepresentable if none is."""
        epsilons = []
        for mechanism in self.mechanisms:
            with suppress(NotRepresentable):
                epsilons.append(mechanism.approx_dp(delta))
        return min(epsilons) if epsilons else self.mechanisms[0].approx_dp(delta)

    def delta_floor(self) -> float:
        return min(mechanism.delta_floor() for mechanism in self.mechanisms)

    def zcdp(self) -> float:
        return self.mechanisms[0].zcdp()

    def losses(self) -> tuple[PrivacyLoss, ...]:
        return self.mechanisms[0].losses()

    def rdp(self, orders: Array) -> Array:
        """Return the smallest divergences. Raises NotRepresentable if a mechanism has none; to skip it would be sound too."""
        return np.asarray(np.minimum.reduce([mechanism.rdp(orders) for mechanism in self.mechanisms]))


def log_mean(log_weights: Array, terms: Array) -> Array:
    """Return log of the sum of weights times e^terms along the first axis. The weights add up to 1. A small result keeps its digits."""
    with np.errstate(over="ignore"):
        near_one = np.log1p((np.exp(log_weights) * np.expm1(terms)).sum(axis=0))
    return np.asarray(np.where(terms.max(axis=0) < LARGE_TERM, near_one, np.logaddexp.reduce(terms + log_weights, axis=0)))


class TiltedLabelled:
    """The loss of a `LabelledLoss` under P times e^{t L}, normalised: a mixture of the parts' tilted losses.

    It has the attributes that the contour accountant needs (`Tilted`, numerics/contour/tilted.py).

    Args:
        log_weights: log probabilities of the parts under P, without the tilt.
        offsets: the loss of each part's label, which is added to the part's loss.
        t: the tilt.
        parts: the parts' tilted losses.
    """

    def __init__(self, log_weights: Array, offsets: Array, t: float, parts: tuple[Tilted, ...]) -> None:
        log_moments = log_weights + t * offsets + np.array([part.cumulant for part in parts])
        self.cumulant = float(np.logaddexp.reduce(log_moments))
        self._weights, self._parts = np.exp(log_moments - self.cumulant), parts
        self.exact_cgf = all(part.exact_cgf for part in parts)
        means = offsets + np.array([part.mean for part in parts])
        self.mean = float(self._weights @ means)
        self._shifts = means - self.mean
        self.variance = float(self._weights @ (np.array([part.variance for part in parts]) + self._shifts**2))

    def centred(self, step: float, count: int, log_error: float) -> ComplexArray:
        y = step * np.arange(count)
        total = np.zeros(count, dtype=complex)
        for weight, shift, part in zip(self._weights, self._shifts, self._parts, strict=True):
            total += weight * np.expm1(part.centred(step, count, log_error) + 1j * y * shift)
        return log1p_complex(total)

    def decay(self, y: Array) -> Array:
        bounds = [math.log(weight) + part.decay(y) for weight, part in zip(self._weights, self._parts, strict=True) if weight > 0.0]
        return np.asarray(np.minimum(np.logaddexp.reduce(np.array(bounds), axis=0), 0.0))


@dataclass(frozen=True, slots=True)
class LabelledLoss:
    """The loss of a part that is chosen at random and revealed: parts[i] with probability e^{log_weights[i]} under P.

    log_others: log probabilities under Q, if they differ. The label then has a loss of its own.
    """

    log_weights: tuple[float, ...]
    parts: tuple[PrivacyLoss, ...]
    log_others: tuple[float, ...] | None = None

    def _offsets(self) -> Array:
        """Return the loss of each label."""
        return np.asarray(np.array(self.log_weights) - np.array(self.log_others or self.log_weights))

    def cgf(self, z: Array) -> Array:
        """Return an upper bound on K(z) = log E_P[e^{z L}] of this loss L, from the bounds K_i(z) of its parts.

        It is log(1 + sum_i w_i (e^{K_i + z c_i} - 1)), where c_i is the loss of the label. In this form a small K keeps its digits.
        """
        terms = np.array([part.cgf(z) for part in self.parts]) + z * self._offsets()[:, None]
        return log_mean(np.array(self.log_weights)[:, None], terms)

    def tilted(self, t: float) -> TiltedLabelled:
        """Return the mixture with the weights w_i e^{K_i(t)}. K_i(t) is the parts' own value, because a bound would give wrong weights."""
        return TiltedLabelled(np.array(self.log_weights), self._offsets(), t, tuple(part.tilted(t) for part in self.parts))

    def tails(self, at: Array) -> Tails:
        tails = [part.tails(at - offset) for part, offset in zip(self.parts, self._offsets().tolist(), strict=True)]
        p_above, p_below, q_above, q_below = (list(logs) for logs in zip(*tails, strict=True))
        p_weights, q_weights = list(self.log_weights), list(self.log_others or self.log_weights)
        return Tails(mixed(p_weights, p_above), mixed(p_weights, p_below), mixed(q_weights, q_above), mixed(q_weights, q_below))
