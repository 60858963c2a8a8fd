"""The exponential mechanism: bounded range, which is sharper than pure epsilon."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from dpcli.base.errors import NotRepresentable
from dpcli.base.fields import POSITIVE, Key
from dpcli.base.premise import SCORES, Premises
from dpcli.base.stated import multiple, squared
from dpcli.base.values import dataclass
from dpcli.mechanisms.choice.range_loss import RangeLoss, choices
from dpcli.mechanisms.choice.two_candidates import TwoCandidates
from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.stated.atoms import atomic_cgf
from dpcli.mechanisms.stated.stated import StatedSpec
from dpcli.mechanisms.stated.two_point import Pure
from dpcli.numerics.arrays import Array, np

LEAST_WITNESS, MOST_WITNESS = 1e-12, 600.0  # ranges whose probabilities and their complements are numbers


@dataclass(frozen=True, slots=True)
class BoundedRange(Mechanism):
    """Losses within an interval of length epsilon: the exponential mechanism exp(epsilon u / (2 sensitivity)), and Gumbel noisy max.

    For some t in [0, eps] the loss is t with probability p_t = (e^eps - e^t)/(e^eps - 1), else t - eps, in the worst case (Dong, Durfee,
    Rogers 2020, arXiv:1909.13830); t may depend on the data and on earlier answers, so every bound here is the maximum over t: of one
    choice, or, in `together`, of several that follow one another (numerics/grid/chosen_range.py).
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
        """The moment p_t e^{z t} + (1-p_t) e^{z (t-eps)} at its largest; eps where that is not a number."""
        z, e0 = orders - 1.0, self.epsilon
        with np.errstate(all="ignore"):
            t, left = _largest_moment(z, e0)
            log_high = np.log(-np.expm1(-left)) - math.log(-math.expm1(-e0)) - t  # log of p_t e^-t, under Q
            log_low = np.log(-np.expm1(-t)) - math.log(-math.expm1(-e0))
            found = atomic_cgf(z, np.stack((log_high, log_low), axis=1), np.stack((t, -left), axis=1)) / z
            found = found * (1.0 + 1e-15 * e0)  # logarithms as large as eps were added
        # Where a probability or a loss is too small for a double, one of the two is lost: eps itself bounds every order.
        return np.where((t > 0.0) & (left > 0.0) & (found > 0.0), np.minimum(found, e0), e0)


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
class ExponentialSpec(StatedSpec):
    """One of several candidates, chosen with probability proportional to exp(epsilon * score / (2 * sensitivity)).

    sensitivity, by which one change moves each score at most, is divided out in the statement: epsilon is that of one choice. Scores are
    not released.

    Neighbours: those of the statement, all three adjacencies; a group of k has k epsilon. Where a unit has several records, stated_for
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

    def stated(self) -> Mechanism:
        return ExponentialChoice(self.epsilon)

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        """Ranges add up over a group."""
        return ExponentialChoice(multiple(self.changes(neighbours), self.epsilon))
