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
    """A privacy loss known by its tails alone, for the stated reason; subclasses are frozen dataclasses with `tails`."""

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
        """An upper bound on epsilon (nats) at `delta` in [0, 1); inf below `delta_floor`."""
        raise NotRepresentable("it has no (epsilon, delta) form")

    def delta_floor(self) -> float:
        """The delta at and below which epsilon may be infinite because delta is too small; 0 for pure and smooth mechanisms."""
        return 0.0

    def zcdp(self) -> float:
        """An upper bound on the rho for which the mechanism is rho-zCDP."""
        raise NotRepresentable("it has no rho-zCDP form")

    def gdp(self) -> float:
        """mu such that the mechanism is exactly a Gaussian of sensitivity / noise = mu."""
        raise NotRepresentable("it is not a Gaussian mechanism")

    def losses(self) -> tuple[PrivacyLoss, ...]:
        """The privacy losses of the dominating pairs, one per direction, "remove" first; two equal losses are given once.

        If nothing but a pure epsilon is known, this is the loss of randomised response, which dominates every mechanism with that
        epsilon (Kairouz, Oh, Viswanath 2015, arXiv:1311.0776).
        """
        from dpcli.mechanisms.stated.atoms import TwoPointLoss

        pure = self.approx_dp(0.0)
        if not 0.0 < pure < math.inf:
            raise NotRepresentable("it has no dominating pair")
        return (TwoPointLoss(pure),)

    def together(self, count: int) -> tuple[tuple[tuple[PrivacyLoss, ...], int], ...]:
        """Losses, with a count each, that dominate `count` adaptive runs of the mechanism.

        A pair that dominates every choice dominates their adaptive composition (Zhu, Dong, Wang 2022, arXiv:2106.08567, Theorem 10).
        A class whose family has no single worst member may have a tighter bound for several runs than for one.
        """
        return ((self.losses(), count),)

    def ways(self) -> tuple[Mechanism, ...]:
        """Mechanisms that each dominate this one, if no single pair gives the best bound everywhere; otherwise only itself."""
        return (self,)

    def cases(self) -> tuple[tuple[tuple[Mechanism, int], ...], ...]:
        """Return the compositions of which a change touches exactly one, such as one for each disjoint part; otherwise only itself."""
        return (((self, 1),),)

    def attained(self) -> bool:
        """Return whether lower bounds on the dominating pairs are lower bounds on the mechanism. The default is not to claim it.

        The claim: let D and D' differ as much as neighbours may, so that every record of the unit or group comes or goes, or all change
        from one version to one other. Some mechanism that the keys allow has exactly losses()[0] between D and D', and exactly
        losses()[-1] between D' and D. The docstring of a class that makes the claim says which mechanism that is.

        Claims compose. Every entry may ask a query of its own, so all entries that make the claim can attain their pairs on the same D
        and D', in each direction at once. Their noise is independent, so the losses add up, as in the composition that accountants bound.
        """
        return False

    def witness(self, order: float) -> Mechanism | None:
        """A costly mechanism at this Renyi order that the keys allow and that attains its pair; None if no such mechanism is known.

        If the keys allow several mechanisms of which none is the worst, `losses` only bounds them from above. The cost of each of them
        is still a lower bound on any epsilon that can be proven from the keys.
        """
        return self if self.attained() else None

    def unclaimed(self) -> Mechanism:
        """Return a mechanism with the same upper bounds but without the claim, for uses in which the pair bounds more than can happen."""
        return Dominated(self) if self.witness(2.0) is not None else self

    def renyi_loss(self) -> PrivacyLoss | None:
        """The loss with K(a - 1) / (a - 1) equal to `rdp` at every order a; None if there is no single such loss."""
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
    """A mechanism that `by` dominates without being attained, such as one with a sensitivity that is only bounded."""

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
