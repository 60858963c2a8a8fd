"""Mechanisms, as the rest of the package sees them: a handful of views of a privacy loss.

A *spec* holds the keys of the pipeline file. `Spec.resolve(neighbours)` settles, once, what "neighbouring" means and returns a
*mechanism*, which no accountant ever asks about adjacency again. A mechanism answers with as many representations as it has and
raises `NotRepresentable` for the others: never inf, 0 or a guess.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Protocol

from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array

if TYPE_CHECKING:
    from dpcli.numerics.contour.tilted import Tilted
    from dpcli.numerics.tails import Tails


class PrivacyLoss(Protocol):
    """A direction of a dominating pair (P, Q), by the CGF of its privacy loss L = log dP/dQ under P."""

    def cgf(self, z: Array) -> Array:
        """K(z) = log E_P[exp(z L)] in nats at real z > 0; an upper bound, inf if it diverges."""
        ...

    def tilted(self, t: float) -> Tilted:
        """The loss under e^{t L - K(t)} dP, t > 0, with its characteristic function. Raises NotRepresentable if it has none."""
        ...

    def tails(self, at: Array) -> Tails:
        """Logarithms of P(L > at), P(L <= at), Q(L > at), Q(L <= at) at increasing `at`. Raises NotRepresentable if unknown."""
        ...


class TailsOnly:
    """A privacy loss of which only the tails are known, for the stated reason; subclasses are frozen dataclasses with `tails`."""

    __slots__ = ()

    reason: ClassVar[str]

    def cgf(self, z: Array) -> Array:
        """Refuse, with the reason."""
        raise NotRepresentable(self.reason)

    def tilted(self, t: float) -> Tilted:
        raise NotRepresentable(self.reason)


class Mechanism:
    """A randomised release, resolved to its neighbouring relation; subclasses override what they can represent."""

    __slots__ = ()

    summed: ClassVar[bool] = False  # whether the pair of the whole is a sum of its parts' losses, held on a grid from above

    def approx_dp(self, delta: float) -> float:
        """The smallest epsilon (nats) known to hold at `delta` in [0, 1): an upper bound; inf below `delta_floor`."""
        raise NotRepresentable("it has no (epsilon, delta) form")

    def delta_floor(self) -> float:
        """The largest delta at and below which epsilon may be infinite for want of delta (0 for pure and smooth mechanisms)."""
        return 0.0

    def zcdp(self) -> float:
        """The smallest rho known such that the mechanism is rho-zCDP: an upper bound."""
        raise NotRepresentable("it has no rho-zCDP form")

    def gdp(self) -> float:
        """mu such that the mechanism is exactly a Gaussian of sensitivity / noise = mu."""
        raise NotRepresentable("it is not a Gaussian mechanism")

    def losses(self) -> tuple[PrivacyLoss, ...]:
        """The privacy losses of its dominating pairs, one per direction, "remove" first; equal ones are given once.

        If no more than a pure epsilon is known: randomised response, which dominates (Kairouz, Oh, Viswanath 2015, arXiv:1311.0776).
        """
        from dpcli.mechanisms.stated.atoms import TwoPointLoss

        pure = self.approx_dp(0.0)
        if not 0.0 < pure < math.inf:
            raise NotRepresentable("it has no dominating pair")
        return (TwoPointLoss(pure),)

    def together(self, count: int) -> tuple[tuple[tuple[PrivacyLoss, ...], int], ...]:
        """Losses, each with how often it counts, that dominate `count` of it if each may be chosen from what was seen before.

        One pair that dominates every choice does (Zhu, Dong, Wang 2022, arXiv:2106.08567, Theorem 10). A class whose family has no
        single worst member may know better of several than of one.
        """
        return ((self.losses(), count),)

    def ways(self) -> tuple[Mechanism, ...]:
        """Mechanisms that each dominate it, if no single pair is the best whatever is asked; itself alone elsewhere."""
        return (self,)

    def cases(self) -> tuple[tuple[tuple[Mechanism, int], ...], ...]:
        """Return the compositions of which any two neighbours differ in one: of disjoint parts one each; itself alone elsewhere."""
        return (((self, 1),),)

    def attained(self) -> bool:
        """Return whether lower bounds on its dominating pairs are lower bounds on the mechanism itself; not claimed unless a class proves
        it.

        The claim: let D and D' differ as much as neighbours may, so that every record of the unit or group comes or goes, or all change
        from one version to one other. Some mechanism that the keys allow has exactly losses()[0] between D and D' and exactly losses()[-1]
        between D' and D. A class that claims says in its docstring which mechanism that is.

        Claims compose. Every entry may ask a query of its own, so all that claim attain their pairs on the same D and D', each direction
        together; their noise is independent, so there the losses add up, which is the composition that the accountants bound.
        """
        return False

    def witness(self, order: float) -> Mechanism | None:
        """A mechanism that the keys allow, with an attained pair, that loses much at this Renyi order; None if none is known.

        If the worst of all that the keys allow is no single mechanism, so that `losses` bounds them from above alone, each of them
        still is a lower bound on what can be proven from the keys. Not of a mechanism that is known better than by its bound.
        """
        return self if self.attained() else None

    def unclaimed(self) -> Mechanism:
        """Return a mechanism with the same upper bounds and without the claim: for a use in which the pair bounds more than can happen."""

        return Dominated(self) if self.witness(2.0) is not None else self

    def renyi_loss(self) -> PrivacyLoss | None:
        """The loss whose CGF at a - 1, over a - 1, is what `rdp` returns at every order a; None if no single one is."""
        return None

    def rdp(self, orders: Array) -> Array:
        """Renyi divergence (nats) at real orders > 1, the larger of the two directions: an upper bound, inf if it diverges.

        D_a = K(a - 1) / (a - 1): Mironov 2017, arXiv:1702.07476, with K the CGF of the privacy loss.
        """
        z = orders - 1.0
        bound = self.losses()[0].cgf(z)
        for loss in self.losses()[1:]:
            bound = bound.clip(min=loss.cgf(z))
        return bound / z


@dataclass(frozen=True, slots=True)
class Dominated(Mechanism):
    """Every view is that of `by`, which need not be attained: a sensitivity that is only bounded, a group in one piece."""

    by: Mechanism

    def approx_dp(self, delta: float) -> float:
        return self.by.approx_dp(delta)

    def delta_floor(self) -> float:
        return self.by.delta_floor()

    def zcdp(self) -> float:
        return self.by.zcdp()

    def gdp(self) -> float:
        return self.by.gdp()

    def losses(self) -> tuple[PrivacyLoss, ...]:
        return self.by.losses()

    def together(self, count: int) -> tuple[tuple[tuple[PrivacyLoss, ...], int], ...]:
        return self.by.together(count)

    def rdp(self, orders: Array) -> Array:
        return self.by.rdp(orders)
