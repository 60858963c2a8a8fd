"""Privacy losses of pairs (P, Q) with finitely many outcomes: any number of them, and the two of binary randomised response.

The method `losses` of a mechanism that such a pair dominates returns them. An *atom* is an outcome with its probabilities under P and Q,
and its loss log r, r = P/Q. Sums of atoms never become smooth, so their characteristic function does not decay (`decays`), and accountants
treat them separately. Probabilities that do not add up to 1 leave a rest, which counts as an outcome of loss 0.

Methods of a loss L (mechanism.py): `cgf` bounds K(z) = log E_P[e^{z L}] from above, `tails` returns log tail probabilities under P and Q,
`tilted` the loss under P times e^{t L}, normalised, and `outcomes` the atoms, for sampling (sampling/poisson.py). `mirrored` says that the
loss of (Q, P) has the same law.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.contour.tilted_closed import TiltedAtoms
from dpcli.numerics.logspace import log_sum
from dpcli.numerics.quadrature import log_bernoulli
from dpcli.numerics.tails import Tails, atom_tails

if TYPE_CHECKING:
    from dpcli.numerics.contour.outcomes import Outcomes


@dataclass(frozen=True, slots=True)
class AtomicLoss:
    """The loss of a pair with finitely many outcomes.

    log_reference: log probabilities of the outcomes under Q. If they add up to less than 1, the rest has likelihood ratio 1.
    log_ratio: logarithms of the likelihood ratios r = P/Q.
    log_probability: log probabilities of the outcomes under P; None if they are the sums of the other two to enough digits. The sum of two
        large numbers that nearly cancel is not.
    """

    decays: ClassVar[bool] = False

    log_reference: tuple[float, ...]
    log_ratio: tuple[float, ...]
    log_probability: tuple[float, ...] | None = None

    def cgf(self, z: Array) -> Array:
        """Return K as log(1 + E_Q[B_{z+1}(r - 1)]), B_p(d) = (1+d)^p - 1 - p d >= 0, in which a small K keeps its digits."""
        return atomic_cgf(z, np.array(self.log_reference)[None, :], np.array(self.log_ratio)[None, :])

    def tilted(self, t: float) -> TiltedAtoms:
        """Return the outcomes with the weights P e^{t L} = Q r^{t+1}. The remaining mass is an outcome of ratio 1."""
        reference, ratio = self._complete()
        return TiltedAtoms(reference + (t + 1.0) * ratio, ratio, float(self.cgf(np.array([t]))[0]))

    def tails(self, at: Array) -> Tails:
        reference, ratio = self._complete()
        order = np.argsort(ratio, kind="stable")
        probability = reference + ratio
        if self.log_probability is not None:
            probability[:-1] = self.log_probability
        return atom_tails(at, ratio[order], probability[order], reference[order])

    def outcomes(self) -> Outcomes:
        from dpcli.numerics.contour.outcomes import Outcomes

        return Outcomes(*self._complete())

    def backwards(self, power: Array) -> Array:
        """Return log E_Q[e^{-power L}], which is K of the reversed pair."""
        return self.outcomes().cgf(-power - 1.0)

    def _complete(self) -> tuple[Array, Array]:
        """Return log Q and log r of all outcomes, with the remaining mass as an outcome of ratio 1.

        That mass is at least 1e-300, to have a logarithm. It errs by the rounding of the others. An error x changes the delta of n steps by
        a factor of at most (1 + |x|)^n (`Outcomes.replaced`).
        """
        log_total = math.log(math.fsum(map(math.exp, self.log_reference)))
        remaining = max(-math.expm1(log_total), 1e-300)
        return np.array([*self.log_reference, math.log(remaining)]), np.array([*self.log_ratio, 0.0])


def atomic_cgf(z: Array, log_reference: Array, log_ratio: Array) -> Array:
    """Return `AtomicLoss.cgf`, rounded up, for outcomes that may differ between orders: arrays of shape (1 or len(z), outcomes)."""
    return np.asarray(np.logaddexp(0.0, log_sum(log_bernoulli(z[:, None], log_ratio) + log_reference)) * (1.0 + 1e-13))


@dataclass(frozen=True, slots=True)
class TwoPointLoss:
    """The loss of binary randomised response: +e0 with probability e^e0 / (1 + e^e0), and -e0 otherwise.

    Its CGF is K(z) = log cosh((z+1/2) e0) - log cosh(e0/2).
    """

    decays: ClassVar[bool] = False
    mirrored: ClassVar[bool] = True  # exchanging the two answers maps P to Q

    epsilon: float

    def cgf(self, z: Array) -> Array:
        """Return K(z), rounded up, from a product form of the difference of two cosh, so that small z and small e0 keep their digits."""
        e0 = self.epsilon
        # cosh(a) - cosh(b) = 2 sinh((a+b)/2) sinh((a-b)/2) with a = (z+1/2) e0 and b = e0/2.
        up, down = 0.5 * (z + 1.0) * e0, 0.5 * z * e0
        with np.errstate(over="ignore", invalid="ignore"):
            small = np.log1p(2.0 * np.sinh(up) * np.sinh(down) / np.cosh(0.5 * e0)) if e0 < 1000.0 else np.full_like(z, np.inf)
            large = z * e0 + (np.log1p(np.exp(-(2.0 * z + 1.0) * e0)) - math.log1p(math.exp(-e0)))
        return np.where(up < 20.0, small, large) * (1.0 + 1e-14)  # from 20 on nothing cancels in `large`, and sinh may overflow

    def tilted(self, t: float) -> TiltedAtoms:
        """Return the tilted loss: two atoms at +e0 and -e0 with odds e^{(2t+1) e0}."""
        e0 = self.epsilon
        cumulant = float(self.cgf(np.array([t]))[0])
        return TiltedAtoms(np.array([(t + 0.5) * e0, -(t + 0.5) * e0]), np.array([e0, -e0]), cumulant)

    def tails(self, at: Array) -> Tails:
        log_kept = -math.log1p(math.exp(-self.epsilon))
        log_p = np.array([log_kept - self.epsilon, log_kept])
        return atom_tails(at, np.array([-self.epsilon, self.epsilon]), log_p, log_p[::-1])

    def outcomes(self) -> Outcomes:
        from dpcli.numerics.contour.outcomes import Outcomes

        kept = -math.log1p(math.exp(-self.epsilon))
        return Outcomes(np.array([kept, kept - self.epsilon]), np.array([-self.epsilon, self.epsilon]))
