"""The exponential mechanism: bounded range, which is sharper than pure epsilon."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dpcli.base.errors import NotRepresentable
from dpcli.base.fields import POSITIVE, Key
from dpcli.base.premise import SCORES, Premises
from dpcli.base.stated import squared
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss
from dpcli.mechanisms.stated.atoms import AtomicLoss, atomic_cgf
from dpcli.mechanisms.stated.pure_and_approx import Pure
from dpcli.mechanisms.stated.stated_spec import EpsilonSpec
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.contour.tilted_closed import TiltedAtoms, TiltedRange, sinhc_slope
from dpcli.numerics.grid.hockey_stick import FURTHEST_TOTAL, ChoiceCurve, ChordPair, choice_curve, symmetric_pair
from dpcli.numerics.logspace import log_expm1, log_expm1_array
from dpcli.numerics.tails import Tails
from dpcli.numerics.work import shared

if TYPE_CHECKING:
    from dpcli.numerics.contour.outcomes import Outcomes

BLOCK = 128  # choices whose curve is computed as a whole
LEAST, MOST = 1e-3, 16.0  # ranges for which that pays, and rounding, which grows with e^epsilon, is far below what is added for it
STEPS = 4096  # steps of the grid that all choices share
FEWEST, MANY = 32, 128  # least and largest number of these steps for one choice, per unit of epsilon
SERIES = 8.0  # where the series below has its digits
LEAST_WITNESS, MOST_WITNESS = 1e-12, 600.0  # ranges whose probabilities and their complements are numbers


@dataclass(frozen=True, slots=True)
class RangeLoss:
    """The pair whose curve is the worst over all choices of one range: delta(x) = (e^{eps/2} - e^{x/2})^2 / (e^eps - 1), |x| <= eps.

    At each x some two-point pair of the family attains it (Dong, Durfee, Rogers 2020, arXiv:1909.13830), and no member attains all of it.
    Its derivatives in e^x make L of density e^{(eps + x)/2} / (2 (e^eps - 1)) under P, and Q has e^-x times as much. A pair whose curve
    is nowhere below that of a mechanism dominates it in compositions, adaptive ones too (Zhu, Dong, Wang 2022, arXiv:2106.08567, Theorem
    10).
    """

    mirrored: ClassVar[bool] = True

    epsilon: float

    def cgf(self, z: Array) -> Array:
        """log of sinhc((z + 1/2) eps) / sinhc(eps / 2), sinhc(a) = sinh(a) / a; exact up to rounding, which is added."""
        b = 0.5 * self.epsilon
        a = (z + 0.5) * self.epsilon
        near = np.minimum(a, SERIES)
        with np.errstate(all="ignore"):
            gap = self.epsilon * z * self.epsilon * (z + 1.0)  # a^2 - b^2
            low = np.log1p(gap * sinhc_slope(near, b) / (math.sinh(b) / b)) if b < SERIES else np.zeros_like(a)
            ends = np.log1p(np.expm1(-2.0 * z * self.epsilon) / -np.expm1(2.0 * b)) if b < 300.0 else 0.0
            high = z * self.epsilon - np.log1p(2.0 * z) + ends
        return np.asarray(np.where((a < SERIES) & (b < SERIES), low, high) * (1.0 + 1e-13))

    def tilted(self, t: float) -> TiltedRange:
        return TiltedRange(t + 0.5, self.epsilon, float(self.cgf(np.array([t]))[0]))

    def outcomes(self) -> Outcomes:
        from dpcli.numerics.contour.outcomes import LossPiece, Outcomes

        eps = self.epsilon
        return Outcomes(np.zeros(0), np.zeros(0), (LossPiece(-eps, eps, 0.5 * eps - math.log(2.0) - log_expm1(eps), -0.5),))

    def tails(self, at: Array) -> Tails:
        """P(L > l) = e^{(eps + l)/2} (e^{(eps - l)/2} - 1) / (e^eps - 1), Q(L > l) without the first factor; the rest by symmetry."""
        inside = np.clip(at, -self.epsilon, self.epsilon)
        up, down = 0.5 * (self.epsilon + inside), 0.5 * (self.epsilon - inside)
        total = log_expm1(self.epsilon)
        above, below = log_expm1_array(down) - total, log_expm1_array(up) - total
        return Tails(*(np.minimum(log, 0.0) for log in (up + above, below, above, down + below)))


@dataclass(frozen=True, slots=True)
class ChoicesLoss:
    """The worst curve of `count` choices, each of range `epsilon` and made from the answers of those before it, as a pair of atoms.

    It dominates, whatever else runs between the choices: what has a pair of its own may as well run before them all, since a choice that
    sees more is no better for privacy (backward induction, as in numerics/grid/hockey_stick.py). If what runs between is itself known
    by the curve of all of its runs together, and each may depend on all outputs before it: interactive mechanisms that run concurrently
    are dominated by the product of the pairs of each (Vadhan, Zhang 2022, arXiv:2207.08335).
    """

    epsilon: float
    count: int

    def cgf(self, z: Array) -> Array:
        return self.pair().cgf(z)

    def tilted(self, t: float) -> TiltedAtoms:
        return self.pair().tilted(t)

    def tails(self, at: Array) -> Tails:
        return self.pair().tails(at)

    def pair(self) -> ChordPair:
        return _pair(self.epsilon, self.count)


def curve_of(epsilon: float, count: int) -> ChoiceCurve:
    """Bounds on the curve of so many choices, on a grid as fine as they are few."""
    return choice_curve(epsilon, count, math.ceil(max(1.0, epsilon) * min(max(STEPS // count, FEWEST), MANY)))


@shared(16)
def _pair(epsilon: float, count: int) -> ChordPair:
    curve = curve_of(epsilon, count)
    return symmetric_pair(curve.spacing, curve.upper)


def choices(epsilon: float, count: int) -> tuple[tuple[RangeLoss | ChoicesLoss, int], ...]:
    """Pairs that together dominate `count` adaptive choices: blocks whose worst curve is computed, and the closed form elsewhere."""
    block = min(count, BLOCK, int(FURTHEST_TOTAL / epsilon)) if LEAST <= epsilon <= MOST else 1
    if block == 1:
        return ((RangeLoss(epsilon), count),)
    times, rest = divmod(count, block)
    parts: list[tuple[RangeLoss | ChoicesLoss, int]] = [(ChoicesLoss(epsilon, block), times)]
    if rest:
        parts.append((RangeLoss(epsilon) if rest == 1 else ChoicesLoss(epsilon, rest), 1))
    return tuple(parts)


@dataclass(frozen=True, slots=True)
class TwoCandidates(Mechanism):
    """The loss is t or t - epsilon, 0 < t < epsilon (Dong, Durfee, Rogers 2020, arXiv:1909.13830).

    Attained: by scores of which one rises and the other falls by all of the sensitivity, from a lead that gives the first candidate
    probability (1 - e^{t - epsilon}) / (1 - e^{-epsilon}). Between D' and D other scores have this pair: of the two directions one is
    enough for a lower bound.
    """

    epsilon: float
    t: float

    def attained(self) -> bool:
        return True

    def losses(self) -> tuple[AtomicLoss]:
        log_total = math.log(-math.expm1(-self.epsilon))
        high = math.log(-math.expm1(self.t - self.epsilon)) - log_total - self.t
        return (AtomicLoss((high, math.log(-math.expm1(-self.t)) - log_total), (self.t, self.t - self.epsilon)),)


@dataclass(frozen=True, slots=True)
class BoundedRange(Mechanism):
    """Losses within an interval of length epsilon: the exponential mechanism exp(epsilon u / (2 sensitivity)), and Gumbel noisy max.

    For some t in [0, eps] the loss is t with probability p_t = (e^eps - e^t)/(e^eps - 1), else t - eps, in the worst case (Dong, Durfee,
    Rogers 2020, arXiv:1909.13830); t may depend on the data and on earlier answers, so every bound here is the maximum over t: of one
    choice, or, in `together`, of several that follow one another (numerics/grid/hockey_stick.py).
    """

    epsilon: float

    def approx_dp(self, delta: float) -> float:
        """max_t p_t (1 - e^{eps' - t}) = (e^{eps/2} - e^{eps'/2})^2 / (e^eps - 1), solved for eps'."""
        if delta == 0.0:
            return self.epsilon
        spread = math.sqrt(delta * -math.expm1(-self.epsilon)) * (1.0 - 1e-15)
        return max(0.0, self.epsilon + 2.0 * math.log1p(-spread)) if spread < 1.0 else 0.0

    def zcdp(self) -> float:
        """eps^2/8 (Cesar & Rogers 2021, arXiv:2004.07223), or what pure epsilon gives if that is smaller."""
        return min(squared(self.epsilon, 8), Pure(self.epsilon).zcdp())

    def losses(self) -> tuple[RangeLoss]:
        if math.isinf(self.epsilon):
            raise NotRepresentable("one of its choices may reveal everything")
        return (RangeLoss(self.epsilon),)

    def together(self, count: int) -> tuple[tuple[tuple[PrivacyLoss, ...], int], ...]:
        self.losses()
        return tuple(((loss,), n) for loss, n in choices(self.epsilon, count))

    def rdp(self, orders: Array) -> Array:
        """The moment p_t e^{z t} + (1-p_t) e^{z (t-eps)} at its largest; eps if that is not a number."""
        z, e0 = orders - 1.0, self.epsilon
        with np.errstate(all="ignore"):
            t, left = _largest_moment(z, e0)
            log_high = np.log(-np.expm1(-left)) - math.log(-math.expm1(-e0)) - t  # log of p_t e^-t, under Q
            log_low = np.log(-np.expm1(-t)) - math.log(-math.expm1(-e0))
            result = atomic_cgf(z, np.stack((log_high, log_low), axis=1), np.stack((t, -left), axis=1)) / z
            result = result * (1.0 + 1e-15 * e0)  # logarithms as large as eps were added
        # If a probability or a loss is too small for a double, one of the two is lost: eps itself bounds every order.
        return np.where((t > 0.0) & (left > 0.0) & (result > 0.0), np.minimum(result, e0), e0)


@dataclass(frozen=True, slots=True)
class ExponentialChoice(BoundedRange):
    """Choices by the exponential mechanism, among candidates and by scores that the keys leave open."""

    def witness(self, order: float) -> Mechanism | None:
        """Two candidates, at the t whose moment is the largest: the keys allow any scores, of several records too, which all move them
        the same way."""
        with np.errstate(all="ignore"):
            t, left = (float(x[0]) for x in _largest_moment(np.array([order - 1.0]), self.epsilon))
        plain = LEAST_WITNESS <= self.epsilon <= MOST_WITNESS
        return TwoCandidates(self.epsilon, t) if plain and 0.0 < t < self.epsilon and left > 0.0 else None


def _largest_moment(z: Array, epsilon: float) -> tuple[Array, Array]:
    """t and epsilon - t, both to their last digits, where the moment is largest: e^t = z (e^eps - e^{-z eps}) / ((z+1) (1 - e^{-z eps})).

    Each is log1p of a quotient of terms >= 0: as a difference of logarithms, t rounds to eps at large z eps, and the bound to 0.
    """
    y = z * epsilon
    near = np.exp(-y) * (_beyond(y) + z * _beyond(-epsilon))
    far = -np.expm1(-y) + z * np.exp(-y) * np.expm1(-epsilon)
    left = np.log1p(np.where(y < 1.0, near, far) / (z * -np.expm1(-y - epsilon)))
    if epsilon > 1.0:
        return epsilon - left, left
    return np.log1p((z * _beyond(epsilon) + _beyond(-y)) / ((z + 1.0) * -np.expm1(-y))), left


def _beyond(x: Array | float) -> Array:
    """e^x - 1 - x, without cancelling near 0; >= 0."""
    small = np.abs(x) < 0.1
    s = np.where(small, x, 0.0)
    series = (
        s * s * (0.5 + s * (1 / 6 + s * (1 / 24 + s * (1 / 120 + s * (1 / 720 + s * (1 / 5040 + s * (1 / 40320 + s / 362880)))))))
    )
    return np.asarray(np.where(small, series, np.expm1(x) - x))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialSpec(EpsilonSpec):
    """A choice of one of several candidates, chosen with probability proportional to exp(epsilon * score / (2 * sensitivity)).

    sensitivity, by which one change moves each score at most, is divided out in the statement: epsilon is that of one choice. Scores are
    not released.

    Neighbours: those of the statement, all three adjacencies; a group of k has k epsilon. If a unit has several records, stated_for
    says whom epsilon covers.

    Bounds: upper. The loss lies in an interval of length epsilon (bounded range), which is sharper than pure epsilon: rho <= epsilon^2 /
    8. exact and pld compose the worst choices that may be made from earlier answers. `account` shows a lower bound, which choices
    between two candidates attain. Finite at delta = 0.

    Source: McSherry & Talwar 2007 (pure epsilon); Dong, Durfee, Rogers 2020, arXiv:1909.13830 (bounded range); Cesar & Rogers 2021,
    arXiv:2004.07223 (rho).
    """

    example: ClassVar[Mapping[str, Any]] = {"epsilon": 0.01}
    premises: ClassVar[Premises] = SCORES

    epsilon: Annotated[float, Key("pure epsilon of one choice, in nats", POSITIVE)]

    def priced(self, epsilon: float) -> Mechanism:
        return ExponentialChoice(epsilon)
