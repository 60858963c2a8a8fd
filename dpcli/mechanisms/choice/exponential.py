"""The exponential mechanism, with bounds from its bounded range, which are sharper than those from its pure epsilon.

A choice has *bounded range* epsilon if its losses lie in an interval of length epsilon, wherever that interval lies. `ExponentialSpec` has
the keys, and `BoundedRange` is the cost of one choice. `choices` bounds several choices, each of which may depend on earlier answers. Many
choices are divided into blocks. The worst curve of a block, delta as a function of epsilon, is computed on a grid
(numerics/grid/choice_curve.py).

A mechanism has upper bounds on its cost (mechanism.py): `approx_dp` returns epsilon at a delta, `zcdp` rho, and `rdp` Renyi divergences.
`losses` returns the privacy losses log dP/dQ of dominating pairs (P, Q). `attained` says whether some data are claimed to attain these
pairs. `witness` returns a mechanism that the keys allow, whose cost is a lower bound. Of a loss L, `cgf` bounds K(z) = log E_P[e^{z L}]
from above, and `tails` returns log tail probabilities under P and Q. `tilted` returns the loss under P times e^{t L}, normalised.
`outcomes` returns the atoms and densities of the pair.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dpcli.base.errors import NotRepresentable
from dpcli.base.fields import POSITIVE, Key
from dpcli.base.premise import SCORES, Premises
from dpcli.base.stated import squared  # exact for stated decimals, rounded up once
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import CurveLoss, Mechanism, PrivacyLoss
from dpcli.mechanisms.stated.atoms import AtomicLoss, atomic_cgf
from dpcli.mechanisms.stated.pure_and_approx import Pure
from dpcli.mechanisms.stated.stated_spec import EpsilonSpec
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.contour.tilted_closed import TiltedRange, sinhc_slope
from dpcli.numerics.grid.choice_curve import ChoiceCurve, choice_curve
from dpcli.numerics.grid.hockey_stick import FURTHEST, ChordPair, symmetric_pair  # FURTHEST: the largest loss on a grid
from dpcli.numerics.logspace import log_expm1, log_expm1_array
from dpcli.numerics.tails import Tails
from dpcli.numerics.work import shared  # a cache

if TYPE_CHECKING:
    from dpcli.numerics.contour.outcomes import Outcomes

# Soundness: the largest range for which the rounding of a block's curve, which grows with e^epsilon, is well covered.
LARGEST_RANGE = 16.0
# Accuracy and speed: every division into blocks, and every grid, gives an upper bound.
BLOCK = 128  # most choices whose worst curve is computed together
SMALLEST_RANGE = 1e-3  # smallest range for which the worst curve of several choices is worthwhile
GRID_STEPS = 4096  # number of grid steps that all choices together should have
FEWEST_STEPS, MOST_STEPS = 32, 128  # least and largest number of grid steps for one choice, per unit of epsilon
LARGEST_SERIES_ARGUMENT = 8.0  # largest argument of the power series in `RangeLoss.cgf`, which loses no digits where K is small
LEAST_WITNESS, MOST_WITNESS = 1e-12, 600.0  # ranges for which the probabilities of `TwoCandidates` do not underflow or round to 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialSpec(EpsilonSpec):
    """A choice of one of several candidates, with probability proportional to exp(epsilon * score / (2 * sensitivity)).

    epsilon is that of one choice. The sensitivity is the most by which one change moves a score. It is contained in epsilon and is no key.
    Scores are not released.

    Neighbours: all three adjacencies; the statement is for the file's adjacency. A group of k units costs k epsilon. If a unit has several
    records, stated_for says whether epsilon is for one record or for the unit.

    Bounds: upper. The loss lies in an interval of length epsilon (bounded range), which is sharper than pure epsilon: rho <= epsilon^2 /
    8. The accountants exact and pld compose the worst choices that may depend on earlier answers. `account` shows a lower bound, which
    choices between two candidates attain. Finite at delta = 0.

    Source: McSherry & Talwar 2007 (pure epsilon); Dong, Durfee, Rogers 2020, arXiv:1909.13830 (bounded range); Cesar & Rogers 2021,
    arXiv:2004.07223 (rho).
    """

    example: ClassVar[Mapping[str, Any]] = {"epsilon": 0.01}
    # What must hold for the cost of a choice by scores. Each premise has a test that violates it.
    premises: ClassVar[Premises] = SCORES

    epsilon: Annotated[float, Key("pure epsilon of one choice, in nats", POSITIVE)]

    def priced(self, epsilon: float) -> Mechanism:
        return ExponentialChoice(epsilon)


@dataclass(frozen=True, slots=True)
class BoundedRange(Mechanism):
    """A choice whose losses lie within an interval of length epsilon.

    The exponential mechanism exp(epsilon u / (2 sensitivity)) has this property, and so has noisy max with Gumbel noise. In the worst case,
    for some t in [0, eps] the loss is t with probability p_t = (e^eps - e^t)/(e^eps - 1), and t - eps otherwise (Dong, Durfee, Rogers 2020,
    arXiv:1909.13830). t may depend on the data and on earlier answers, so every bound is the maximum over t. Several choices one after
    the other have bounds of their own, in `losses_of_runs` (numerics/grid/choice_curve.py).
    """

    epsilon: float

    def approx_dp(self, delta: float) -> float:
        """Return the eps' with max_t p_t (1 - e^{eps' - t}) = (e^{eps/2} - e^{eps'/2})^2 / (e^eps - 1) = delta."""
        if delta == 0.0:
            return self.epsilon
        spread = math.sqrt(delta * -math.expm1(-self.epsilon)) * (1.0 - 1e-15)
        return max(0.0, self.epsilon + 2.0 * math.log1p(-spread)) if spread < 1.0 else 0.0

    def zcdp(self) -> float:
        """Return eps^2/8 (Cesar & Rogers 2021, arXiv:2004.07223), or the rho of the pure epsilon if that is smaller."""
        return min(squared(self.epsilon, 8), Pure(self.epsilon).zcdp())

    def losses(self) -> tuple[RangeLoss]:
        if math.isinf(self.epsilon):
            raise NotRepresentable("one of its choices may reveal everything")
        return (RangeLoss(self.epsilon),)

    def losses_of_runs(self, count: int) -> tuple[tuple[tuple[PrivacyLoss, ...], int], ...]:
        self.losses()  # raises NotRepresentable if epsilon is infinite
        return tuple(((loss,), n) for loss, n in choices(self.epsilon, count))

    def rdp(self, orders: Array) -> Array:
        """Return the divergences from the largest moment p_t e^{z t} + (1-p_t) e^{z (t-eps)}, or eps if it cannot be computed."""
        z, e0 = orders - 1.0, self.epsilon
        with np.errstate(all="ignore"):
            t, distance = _largest_moment(z, e0)
            log_high = np.log(-np.expm1(-distance)) - math.log(-math.expm1(-e0)) - t  # log of p_t e^-t, the probability under Q
            log_low = np.log(-np.expm1(-t)) - math.log(-math.expm1(-e0))
            result = atomic_cgf(z, np.stack((log_high, log_low), axis=1), np.stack((t, -distance), axis=1)) / z
            result = result * (1.0 + 1e-15 * e0)  # covers the rounding of sums of logarithms as large as eps
        # If a probability or a loss underflows, the result is not usable. eps itself is a bound at every order.
        return np.where((t > 0.0) & (distance > 0.0) & (result > 0.0), np.minimum(result, e0), e0)


@dataclass(frozen=True, slots=True)
class ExponentialChoice(BoundedRange):
    """A choice by the exponential mechanism. The keys do not determine the candidates and the scores."""

    def witness(self, order: float) -> Mechanism | None:
        """Return a choice between two candidates, at the t with the largest moment.

        The keys allow any scores. If there are several records, all of them may move the scores in the same way.
        """
        if not LEAST_WITNESS <= self.epsilon <= MOST_WITNESS:
            return None
        with np.errstate(all="ignore"):
            t, distance = (float(x[0]) for x in _largest_moment(np.array([order - 1.0]), self.epsilon))
        return TwoCandidates(self.epsilon, t) if 0.0 < t < self.epsilon and distance > 0.0 else None


@dataclass(frozen=True, slots=True)
class TwoCandidates(Mechanism):
    """A choice between two candidates with loss t or t - epsilon, 0 < t < epsilon (Dong, Durfee, Rogers 2020, arXiv:1909.13830).

    Scores attain the pair in one direction: one score rises and the other falls by the whole sensitivity, from a lead that gives the first
    candidate the probability (1 - e^{t - epsilon}) / (1 - e^{-epsilon}). In the other direction, other scores have this pair. One direction
    suffices for a lower bound.
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
class RangeLoss:
    """The loss of the pair whose curve is the worst over all choices of range `epsilon`.

    The curve is delta(x) = (e^{eps/2} - e^{x/2})^2 / (e^eps - 1) for |x| <= eps. At each x some two-point pair attains it (Dong, Durfee,
    Rogers 2020, arXiv:1909.13830), but no such pair attains the whole curve. The derivatives of the curve with respect to e^x show that L
    has the density e^{(eps + x)/2} / (2 (e^eps - 1)) under P, and e^-x times that under Q. A pair whose curve is nowhere below that of a
    mechanism dominates it in compositions, also in adaptive ones (Zhu, Dong, Wang 2022, arXiv:2106.08567, Theorem 10).
    """

    mirrored: ClassVar[bool] = True  # the loss of (Q, P) has the same law

    epsilon: float

    def cgf(self, z: Array) -> Array:
        """Return log(sinhc((z + 1/2) eps) / sinhc(eps / 2)), with sinhc(a) = sinh(a) / a, rounded up."""
        b = 0.5 * self.epsilon
        a = (z + 0.5) * self.epsilon
        near = np.minimum(a, LARGEST_SERIES_ARGUMENT)
        with np.errstate(all="ignore"):
            gap = self.epsilon * z * self.epsilon * (z + 1.0)  # a^2 - b^2
            low = np.log1p(gap * sinhc_slope(near, b) / (math.sinh(b) / b)) if b < LARGEST_SERIES_ARGUMENT else np.zeros_like(a)
            ends = (
                np.log1p(np.expm1(-2.0 * z * self.epsilon) / -np.expm1(2.0 * b)) if b < 300.0 else 0.0
            )  # beyond, it is about e^-600 or less
            high = z * self.epsilon - np.log1p(2.0 * z) + ends
        return np.asarray(np.where((a < LARGEST_SERIES_ARGUMENT) & (b < LARGEST_SERIES_ARGUMENT), low, high) * (1.0 + 1e-13))

    def tilted(self, t: float) -> TiltedRange:
        return TiltedRange(slope=t + 0.5, epsilon=self.epsilon, cumulant=float(self.cgf(np.array([t]))[0]))

    def outcomes(self) -> Outcomes:
        from dpcli.numerics.contour.outcomes import LossPiece, Outcomes

        eps = self.epsilon
        between = LossPiece(-eps, eps, log_density=0.5 * eps - math.log(2.0) - log_expm1(eps), slope=-0.5)
        return Outcomes(np.zeros(0), np.zeros(0), (between,))  # no atoms

    def tails(self, at: Array) -> Tails:
        """Return the tails.

        P(L > l) = e^{(eps + l)/2} (e^{(eps - l)/2} - 1) / (e^eps - 1), and Q(L > l) is the same without the first factor. The lower tails
        follow by symmetry.
        """
        inside = np.clip(at, -self.epsilon, self.epsilon)
        up, down = 0.5 * (self.epsilon + inside), 0.5 * (self.epsilon - inside)
        total = log_expm1(self.epsilon)
        above, below = log_expm1_array(down) - total, log_expm1_array(up) - total
        return Tails(*(np.minimum(log, 0.0) for log in (up + above, below, above, down + below)))


@dataclass(frozen=True, slots=True)
class ChoicesLoss(CurveLoss):
    """The loss of a pair of atoms with the worst curve of `count` choices of range `epsilon`, each of which may depend on earlier answers.

    The pair also dominates if other mechanisms run between the choices. A mechanism with a pair of its own may be assumed to run before all
    choices, because a choice that can use more earlier outputs has no better privacy (backward induction, as in
    numerics/grid/choice_curve.py). The other case is a mechanism that is known only by the curve of all of its runs together, each of which
    may depend on all earlier outputs. Interactive mechanisms that run concurrently are dominated by the product of their pairs (Vadhan,
    Zhang 2022, arXiv:2207.08335).
    """

    epsilon: float
    count: int

    def pair(self) -> ChordPair:
        return _pair(self.epsilon, self.count)


def curve_of(epsilon: float, count: int) -> ChoiceCurve:
    """Return bounds on the worst curve of `count` choices. The fewer choices there are, the finer is the grid for each."""
    steps_per_unit = min(max(GRID_STEPS // count, FEWEST_STEPS), MOST_STEPS)
    return choice_curve(epsilon, count, math.ceil(max(1.0, epsilon) * steps_per_unit))


@shared(16)
def _pair(epsilon: float, count: int) -> ChordPair:
    curve = curve_of(epsilon, count)
    return symmetric_pair(curve.spacing, curve.upper)


def choices(epsilon: float, count: int) -> tuple[tuple[RangeLoss | ChoicesLoss, int], ...]:
    """Return losses, with counts, of pairs that together dominate `count` adaptive choices.

    They are blocks of choices whose worst curve is computed, and single choices with the closed form. All choices are single if epsilon is
    outside of SMALLEST_RANGE to LARGEST_RANGE.
    """
    block = min(count, BLOCK, int(FURTHEST / epsilon)) if SMALLEST_RANGE <= epsilon <= LARGEST_RANGE else 1
    if block == 1:
        return ((RangeLoss(epsilon), count),)
    blocks, remaining = divmod(count, block)
    parts: list[tuple[RangeLoss | ChoicesLoss, int]] = [(ChoicesLoss(epsilon, block), blocks)]
    if remaining:
        parts.append((RangeLoss(epsilon) if remaining == 1 else ChoicesLoss(epsilon, remaining), 1))
    return tuple(parts)


def _largest_moment(z: Array, epsilon: float) -> tuple[Array, Array]:
    """Return t and epsilon - t, both with all digits, for the largest moment: e^t = z (e^eps - e^{-z eps}) / ((z+1) (1 - e^{-z eps})).

    Each is computed as log1p of a quotient of non-negative terms. As a difference of logarithms, t would round to eps at large z eps, and
    the bound would round to 0.
    """
    y = z * epsilon
    near = np.exp(-y) * (_exp_beyond_line(y) + z * _exp_beyond_line(-epsilon))
    far = -np.expm1(-y) + z * np.exp(-y) * np.expm1(-epsilon)
    distance = np.log1p(np.where(y < 1.0, near, far) / (z * -np.expm1(-y - epsilon)))  # epsilon - t
    if epsilon > 1.0:
        return epsilon - distance, distance
    return np.log1p((z * _exp_beyond_line(epsilon) + _exp_beyond_line(-y)) / ((z + 1.0) * -np.expm1(-y))), distance


def _exp_beyond_line(x: Array | float) -> Array:
    """Return e^x - 1 - x, which is at least 0, without cancellation near 0."""
    small = np.abs(x) < 0.1  # where the terms after x^9 / 9! are below 1e-14 of the result
    s = np.where(small, x, 0.0)
    series = (
        s * s * (0.5 + s * (1 / 6 + s * (1 / 24 + s * (1 / 120 + s * (1 / 720 + s * (1 / 5040 + s * (1 / 40320 + s / 362880)))))))
    )
    return np.asarray(np.where(small, series, np.expm1(x) - x))
