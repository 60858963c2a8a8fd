"""Laplace noise that is never beyond a bound, for one number, and the mechanism type "truncated-laplace".

A change of the data *moves* the number. Because the noise ends, an output may then be possible under one dataset only: it *shows* the
change. The probability of this is the type's delta (`MayFail`). Otherwise the pair is that of `CutLaplace`, whose loss is at most that of
Laplace noise. A smaller move costs no more, by the proof in `truncated_laplace`.

A mechanism has upper bounds on its cost (mechanism.py): `approx_dp` returns epsilon at a delta and `zcdp` rho. `losses` returns the privacy
losses log dP/dQ of dominating pairs (P, Q). `attained` says whether some data are claimed to attain these pairs. Of a loss L, `tails`
returns log tail probabilities under P and Q. `outcomes` returns the atoms and densities of the pair.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dpcli.base.errors import InputError
from dpcli.base.fields import OPEN_UNIT, POSITIVE, Key
from dpcli.base.premise import NOISE, SECRET, Premises, moves, of_mechanism
from dpcli.base.stated import multiple, quotient  # exact for stated decimals, rounded up once
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.noise.additive import LARGEST_RATIO, SMALLEST_RATIO, NoPrivacy  # ratios of sensitivity over noise
from dpcli.mechanisms.sampling.poisson import SampledLoss, with_ends
from dpcli.mechanisms.spec import CostEvidence, Spec
from dpcli.mechanisms.stated.pure_and_approx import MayFail, Pure
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.logspace import log_add, log_expm1, log_expm1_array
from dpcli.numerics.tails import Tails

if TYPE_CHECKING:
    from dpcli.numerics.contour.outcomes import Outcomes

SMALL_EPSILON = 1e-3  # below this epsilon, the mean loss is bounded by the first term of a series, because its formula loses digits
# Soundness.
LEAST_DELTA = 5e-324  # the smallest positive float, in place of a delta that underflows
ROUNDING = 1e-15  # relative error of a logarithm or a ratio of the noise
REDRAWN = of_mechanism(
    "Noise beyond the bound is drawn again. It is not moved to the bound.", "test_noise_that_is_moved_to_its_bound_shows_more"
)


class TruncatedSpec(Spec):
    """The keys of one number whose noise ends at a bound. The file states the bound, or the probability `delta` that a move shows."""

    __slots__ = ()

    evidence: ClassVar[CostEvidence] = CostEvidence.PRICED
    needs_delta: ClassVar[bool] = True
    fixed_threshold: ClassVar[bool] = True  # at a stated bound, more noise shows a move more often

    bound: float | None
    delta: float | None

    def problems(self) -> Iterator[tuple[str, str, str]]:
        if (self.bound is None) == (self.delta is None):
            yield "bound", "either bound or delta", "neither" if self.bound is None else "both"
        elif self.delta is not None and self.delta >= 0.5:
            yield "delta", "a delta below 1/2", repr(self.delta)

    @property
    def delta_spent(self) -> float:
        return self.with_group(1).delta_floor()

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        return self.with_group(neighbours.group)

    def with_group(self, group: int) -> Mechanism:
        """Return the mechanism of a group of units. Each subclass overrides this."""
        raise InputError(f"{type(self).__name__} has no noise")


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedLaplaceSpec(TruncatedSpec):
    """A number plus Laplace noise that is never beyond a bound: its density is proportional to e^{-|x| / scale} for |x| <= bound.

    sensitivity is the largest move of the number under the file's adjacency and unit, in units of the number, as scale and bound are. Only
    a group multiplies it. A move shows with some probability, as an outcome that is possible for one dataset alone. delta is this
    probability for a move by the sensitivity, and bound may be left out: it is then scale log(1 + (e^{sensitivity / scale} - 1) / (2
    delta)), the smallest bound with this delta.

    Neighbours: all three adjacencies. There is no Poisson sampling under replace-one or zero-out, because the keys do not bound one
    record's contribution.

    Bounds: exact. Epsilon is at most sensitivity / scale. Without sampling, accountants of Renyi divergences set the probability that a
    move shows aside. There are no bounds for vectors. No finite epsilon below that probability.

    Source: Geng, Ding, Guo, Kumar 2018, arXiv:1810.00877 (the noise, and epsilon with its delta).
    """

    example: ClassVar[Mapping[str, Any]] = {"scale": 90.0, "sensitivity": 1.0, "delta": 1e-10}
    # What must hold for the cost, each with a test that violates it, and the commands that enforce it, if any.
    premises: ClassVar[Premises] = (
        SECRET,  # every draw is fresh, and nobody sees it
        moves("No change moves the number by more than sensitivity."),
        NOISE,  # the noise has the named distribution
        REDRAWN,
    )

    scale: Annotated[float, Key("scale of the noise e^{-|x|/scale}, in units of the number", POSITIVE)]
    # claim=True: dpcli does not enforce what the key states.
    sensitivity: Annotated[float, Key("stated sensitivity of the number under the file's adjacency", POSITIVE, claim=True)]
    bound: Annotated[float | None, Key("largest size of the noise, in units of the number; or state delta", POSITIVE)] = None
    delta: Annotated[
        float | None, Key("probability that a move by the sensitivity shows, below 1/2; or state bound", OPEN_UNIT)
    ] = None

    def with_group(self, group: int) -> Mechanism:
        moved = quotient(multiple(group, self.sensitivity), self.scale)
        if self.bound is not None:
            return truncated_laplace(moved, self.bound / self.scale)
        assert self.delta is not None
        # log(1 + (e^e - 1) / (2 delta)) for the epsilon e of one unit
        bound = log_add(0.0, log_expm1(quotient(self.sensitivity, self.scale)) - math.log(2.0 * self.delta))
        return truncated_laplace(moved, bound)


def truncated_laplace(moved: float, bound: float) -> Mechanism:
    """Return the mechanism of one number that moves by `moved`, with noise of at most `bound`, both in units of the scale.

    Let f be the density of the noise. Proof that a move by D = moved dominates every smaller move: log f is concave, so f(x - s) / f(x)
    does not fall with x, and the best test between f(x - s) and f(x) is x > c for some c. The probability of x > c rises with s, so that
    every hockey-stick divergence of this test rises with s. In the other direction, the same holds for -x.

    Both densities, f(x) and f(x - D), are positive for D - bound <= x <= bound alone. So each has the same probability d outside, where the
    other is 0, and the pair reveals everything with probability d. Given that x is inside, the densities are proportional to e^{-|x|} and
    e^{-|x - D|}, which is `CutLaplace`.

    * If bound >= D, d = (e^D - 1) / (2 (e^bound - 1)). The losses are from -D to D, and all mass at x <= 0 is at -D.
    * Otherwise all x are between 0 and D, and the losses |x| - |x - D| = 2x - D are those between -m and m with m = 2 bound - D.

    d and the mass at both ends are rounded up, because both raise the curve. If D >= 2 bound, no x is inside, and nothing is protected.
    """
    if not moved < min(2.0 * bound, LARGEST_RATIO):
        return NoPrivacy(moved / min(bound, 1.0) if bound > 0.0 else math.inf)
    moved, rounding = max(moved, SMALLEST_RATIO), ROUNDING * (4.0 + bound)
    if bound >= moved:
        log_part, log_all = log_expm1(moved), log_expm1(bound)
        delta = math.exp(min(log_part - log_all + ROUNDING * (abs(log_part) + abs(log_all)), 0.0)) / 2.0
        rest = CutLaplace(moved, min(-math.expm1(moved - bound) + rounding, 1.0))
    else:
        delta = 1.0 - math.exp(bound - moved) * math.expm1(moved - 2.0 * bound) / (2.0 * math.expm1(-bound))
        rest = CutLaplace((2.0 * bound - moved) * (1.0 + ROUNDING) + rounding, 0.0)
    delta = max(delta * (1.0 + rounding), LEAST_DELTA)
    return MayFail(rest, delta) if delta < 1.0 else NoPrivacy(moved / bound)


@dataclass(frozen=True, slots=True)
class CutLaplace(Mechanism):
    """The loss l of Laplace noise with epsilon e, if less mass than usual is at both ends.

    Let n = `ends`, from 0 to 1, and Z = n (1 + e^-e) + 1 - e^-e. Under P, the mass at l = e is n / Z, that at l = -e is n e^-e / Z, and the
    density between them is e^{(l - e) / 2} / (2 Z). Under Q it is the mirror image. n = 1 is `Laplace`.

    * delta(eps) Z = n + 1 - 2 y + (1 - n) y^2 with y = e^{(eps - e) / 2}, for 0 <= eps <= e: the sum of the masses above eps.
    * delta(eps) rises with n, because it is a mean of (1 - y)^2 / (1 - e^-e) and (1 - y^2) / (1 + e^-e), in which the weight of the latter
      rises with n. The latter is the larger one if y > e^-e.
    * rho is the mean loss. With w = z + 1/2, E e^{z L} is 2 n cosh(w e) + sinh(w e) / w, up to a factor. Its zeros are at w = i y with 2 n
      u'(e) + u(e) = 0 for u(x) = sin(y x) / y. So y^2 is an eigenvalue of -u'' = y^2 u with u(0) = 0, and all these are positive. So K is
      concave as a function of w^2, and rho is tight, as for `Laplace`.
    """

    epsilon: float
    ends: float

    def approx_dp(self, delta: float) -> float:
        """Return epsilon, from the root y of the formula for delta, without cancellation."""
        if delta <= 0.0:
            return self.epsilon
        n, t = self.ends, delta * self._total()  # t = 2 n x + (1 - n) x^2 with x = 1 - y
        root = math.sqrt(n * n + (1.0 - n) * t)
        gap = t * (1.0 + (1.0 - n) / (root + n)) / (1.0 + root) * (1.0 - 4.0 * ROUNDING)  # x = 1 - y
        return min(max(0.0, self.epsilon + 2.0 * math.log1p(-gap)) * (1.0 + ROUNDING), self.epsilon) if gap < 1.0 else 0.0

    def zcdp(self) -> float:
        e, small = self.epsilon, math.exp(-self.epsilon)
        between = e * (1.0 + small) + 2.0 * math.expm1(-e) if e > SMALL_EPSILON else e**3 / 6.0  # which is an upper bound
        mean = (between - self.ends * e * math.expm1(-e)) / self._total()
        return min(mean * (1.0 + 1e-8) + sys.float_info.min, Pure(e).zcdp())  # 1e-8: for the digits that `between` loses

    def attained(self) -> bool:
        return True

    def losses(self) -> tuple[CutLaplaceLoss]:
        return (CutLaplaceLoss(self.epsilon, self.ends),)

    def _total(self) -> float:
        """Return Z."""
        return self.ends * (1.0 + math.exp(-self.epsilon)) - math.expm1(-self.epsilon)


@dataclass(frozen=True, slots=True)
class CutLaplaceLoss(SampledLoss):
    """The loss of `CutLaplace`. The loss of the other direction has the same law."""

    mirrored: ClassVar[bool] = True  # the loss of (Q, P) has the same law

    epsilon: float
    ends: float

    def outcomes(self) -> Outcomes:
        from dpcli.numerics.contour.outcomes import LossPiece, Outcomes

        e, log_total = self.epsilon, self._log_total()
        at = np.array([-e, e] if self.ends > 0.0 else [])
        log_ends = np.full(len(at), math.log(self.ends or 1.0) - log_total)
        between = LossPiece(-e, e, log_density=-0.5 * e - math.log(2.0) - log_total, slope=-0.5)
        return Outcomes(log_ends - (at > 0.0) * e, at, (between,))

    def tails(self, at: Array) -> Tails:
        """Return the tails. From -e on, P(L > l) Z = n + 1 - e^{(l - e) / 2} and P(L <= l) Z = e^-e (n + e^{(l + e) / 2} - 1)."""
        e, inside = self.epsilon, np.clip(at, -self.epsilon, self.epsilon)
        p_above, p_below = self._p_tails(inside)
        q_below, q_above = self._p_tails(-inside)
        return with_ends(Tails(p_above, p_below, q_above, q_below), below=at < -e, beyond=at >= e)

    def _p_tails(self, at: Array) -> tuple[Array, Array]:
        """Return log P(L > at) and log P(L <= at), without the mass at `at` in the former and with it in the latter."""
        e, n, log_total = self.epsilon, self.ends, self._log_total()
        with np.errstate(divide="ignore"):
            above = np.log(n - np.expm1(0.5 * (at - e))) - log_total
            below = np.logaddexp(np.log(np.float64(n)), log_expm1_array(0.5 * (at + e))) - e - log_total
        return np.minimum(above, 0.0), np.minimum(below, 0.0)

    def _log_total(self) -> float:
        """Return log Z."""
        return math.log(self.ends * (1.0 + math.exp(-self.epsilon)) - math.expm1(-self.epsilon))
