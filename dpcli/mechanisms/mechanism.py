"""The interface of mechanisms to the rest of the package: several representations of a privacy loss.

A *spec* holds the keys of an entry of the pipeline file. `Spec.resolve(neighbours)` fixes the neighbouring relation and returns a
*mechanism*, so that no accountant has to know the adjacency. A mechanism gives as many representations as it has, and each accountant reads
those of its theory: an epsilon at a delta, rho, mu, Renyi divergences, or privacy losses of dominating pairs. For the others the mechanism
raises `NotRepresentable`, and never returns inf, 0 or a guess. All representations are upper bounds.

A pair (P, Q) of distributions *dominates* a mechanism if no neighbours are easier to tell apart than P from Q: delta(epsilon) of the pair
is then an upper bound on the mechanism's, and pairs of mechanisms compose. The privacy loss of the pair is log dP/dQ. A mechanism *attains*
its pair if some neighbours are exactly as easy to tell apart; only then are lower bounds on the pair lower bounds on the mechanism.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Protocol

from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array

if TYPE_CHECKING:
    from dpcli.numerics.contour.tilted import Tilted
    from dpcli.numerics.contour.tilted_closed import TiltedAtoms
    from dpcli.numerics.grid.hockey_stick import ChordPair
    from dpcli.numerics.tails import Tails


class PrivacyLoss(Protocol):
    """The privacy loss L = log dP/dQ of one direction of a dominating pair (P, Q).

    A loss may also have the following, which numerical methods look up by name (numerics/contour/tilted.py lists all such attributes):

    * `mirrored`, which is true if the loss of the other direction has the same law;
    * `decays`, which is false if the characteristic function does not decay, as for finitely many values;
    * `outcomes`, a method that returns the atoms and densities of the pair (numerics/contour/outcomes.py).
    """

    def cgf(self, z: Array) -> Array:
        """Return an upper bound on the CGF K(z) = log E_P[exp(z L)] at real z > 0; inf if it diverges."""
        ...

    def tilted(self, t: float) -> Tilted:
        """Return the loss under the tilted measure e^{t L - K(t)} dP, t > 0, which has a characteristic function.

        Raises NotRepresentable if there is none.
        """
        ...

    def tails(self, at: Array) -> Tails:
        """Return logarithms of P(L > at), P(L <= at), Q(L > at) and Q(L <= at) at increasing `at`.

        Raises NotRepresentable if they are not known.
        """
        ...


def in_direction(losses: tuple[PrivacyLoss, ...], direction: int) -> PrivacyLoss:
    """Return the loss of a direction, 0 for "remove" or 1 for "add", from `Mechanism.losses`, which gives equal losses once."""
    return losses[min(direction, len(losses) - 1)]


class TailsOnly:
    """Base class of a privacy loss of which only the tails are known. Subclasses are frozen dataclasses with `tails`.

    reason: why the loss has no CGF, for messages.
    """

    __slots__ = ()

    reason: ClassVar[str]

    def cgf(self, z: Array) -> Array:
        raise NotRepresentable(self.reason)

    def tilted(self, t: float) -> Tilted:
        raise NotRepresentable(self.reason)


class CurveLoss:
    """Base class of the loss of a pair that is made from a curve (`ChordPair`). Subclasses are frozen dataclasses with `pair`.

    A subclass holds the few numbers that determine the curve, and so can be compared and cached; the pair itself takes long to compute.
    """

    __slots__ = ()

    def pair(self) -> ChordPair:
        """Return the pair, cached."""
        raise NotImplementedError

    def cgf(self, z: Array) -> Array:
        return self.pair().cgf(z)

    def tilted(self, t: float) -> TiltedAtoms:
        return self.pair().tilted(t)

    def tails(self, at: Array) -> Tails:
        return self.pair().tails(at)


class Mechanism:
    """A randomised release under a fixed neighbouring relation. Subclasses override the representations that they have.

    The methods of this class raise NotRepresentable for a representation that is not overridden and follows from no other one.
    """

    __slots__ = ()

    is_composition: ClassVar[bool] = False  # whether the pair is a composition of parts, which a grid bounds from above

    def approx_dp(self, delta: float) -> float:
        """Return an upper bound on epsilon, in nats, at `delta` in [0, 1); inf below `delta_floor`."""
        raise NotRepresentable("it has no (epsilon, delta) form")

    def delta_floor(self) -> float:
        """Return the delta at and below which epsilon may be infinite. It is 0 for pure and smooth mechanisms."""
        return 0.0

    def zcdp(self) -> float:
        """Return an upper bound on the smallest rho for which the mechanism is rho-zCDP."""
        raise NotRepresentable("it has no rho-zCDP form")

    def zcdp_parts(self) -> tuple[float, float]:
        """Return (xi, rho) for which the mechanism is (xi, rho)-zCDP: D_a <= xi + rho a. By default, xi is 0."""
        return 0.0, self.zcdp()

    def gdp(self) -> float:
        """Return mu, if the mechanism is a Gaussian mechanism with sensitivity / noise = mu, or nearly one that is dominated by it."""
        raise NotRepresentable("it is not a Gaussian mechanism")

    def losses(self) -> tuple[PrivacyLoss, ...]:
        """Return the privacy losses of the dominating pairs, one per direction, with "remove" first. Equal losses are given once.

        If only a pure epsilon is known, this is the loss of randomised response, which dominates every mechanism with that
        epsilon (Kairouz, Oh, Viswanath 2015, arXiv:1311.0776). Raises NotRepresentable if that epsilon is 0 or infinite.
        """
        from dpcli.mechanisms.stated.atoms import TwoPointLoss

        pure = self.approx_dp(0.0)
        if not 0.0 < pure < math.inf:
            raise NotRepresentable("it has no dominating pair")
        return (TwoPointLoss(pure),)

    def losses_of_runs(self, count: int) -> tuple[tuple[tuple[PrivacyLoss, ...], int], ...]:
        """Return losses, each with a count, whose composition dominates `count` adaptive runs of the mechanism.

        A pair that dominates every choice dominates their adaptive composition (Zhu, Dong, Wang 2022, arXiv:2106.08567, Theorem 10).
        A class whose family has no single worst member may have a tighter bound for several runs than for one.
        """
        return ((self.losses(), count),)

    def dominating(self) -> tuple[Mechanism, ...]:
        """Return mechanisms that each dominate this one; several if none of them gives the best bound at every epsilon and delta."""
        return (self,)

    def cases(self) -> tuple[tuple[tuple[Mechanism, int], ...], ...]:
        """Return compositions of which one change affects exactly one, such as one for each disjoint part of the data.

        By default, it is one composition, of this mechanism alone.
        """
        return (((self, 1),),)

    def split_failure(self) -> tuple[float, Mechanism]:
        """Return log(1 - d) and M: with probability d the dominating pair reveals everything, and it is the pair of M otherwise.

        By default, d is 0 and M is this mechanism.
        """
        return 0.0, self

    def attained(self) -> bool:
        """Return whether lower bounds on the dominating pairs are lower bounds on the mechanism. By default, this is not claimed.

        The claim is the following. Let D and D' differ as much as neighbours may, so that every record of the unit or group is added or
        removed, or all change from one version to one other. Some mechanism that the keys allow has exactly losses()[0] between D and D',
        and exactly losses()[-1] between D' and D. The docstring of a class that makes the claim names this mechanism.

        Claims compose. Every entry may ask a query of its own, so that all entries that make the claim can attain their pairs on the same
        D and D', in both directions. Their noise is independent, so that the losses add up, as in the composition that accountants bound.
        """
        return False

    def witness(self, order: float) -> Mechanism | None:
        """Return a mechanism that the keys allow, that attains its pair, and that is costly at this Renyi order; None if none is known.

        If the keys allow several mechanisms of which none is the worst, `losses` only bounds them from above. The cost of each of them
        is still a lower bound on any epsilon that can be proven from the keys.
        """
        return self if self.attained() else None

    def unclaimed(self) -> Mechanism:
        """Return a mechanism with the same upper bounds, which does not claim to attain them. It is for uses that cannot attain them."""
        return Dominated(self) if self.witness(2.0) is not None else self

    def renyi_loss(self) -> PrivacyLoss | None:
        """Return the loss with K(a - 1) / (a - 1) equal to `rdp` at every order a; None if none is known."""
        return None

    def rdp(self, orders: Array) -> Array:
        """Return an upper bound on the Renyi divergence, in nats, of the larger direction at real orders > 1; inf if it diverges.

        D_a = K(a - 1) / (a - 1), where K is the CGF of the privacy loss (Mironov 2017, arXiv:1702.07476).
        """
        z = orders - 1.0
        bound = self.losses()[0].cgf(z)
        for loss in self.losses()[1:]:
            bound = bound.clip(min=loss.cgf(z))
        return bound / z


@dataclass(frozen=True, slots=True)
class Dominated(Mechanism):
    """A mechanism that `by` dominates, but that may not attain its pair, such as one whose sensitivity is only bounded."""

    by: Mechanism

    def approx_dp(self, delta: float) -> float:
        return self.by.approx_dp(delta)

    def delta_floor(self) -> float:
        return self.by.delta_floor()

    def zcdp(self) -> float:
        return self.by.zcdp()

    def zcdp_parts(self) -> tuple[float, float]:
        return self.by.zcdp_parts()

    def gdp(self) -> float:
        return self.by.gdp()

    def losses(self) -> tuple[PrivacyLoss, ...]:
        return self.by.losses()

    def losses_of_runs(self, count: int) -> tuple[tuple[tuple[PrivacyLoss, ...], int], ...]:
        return self.by.losses_of_runs(count)

    def rdp(self, orders: Array) -> Array:
        return self.by.rdp(orders)

    def split_failure(self) -> tuple[float, Mechanism]:
        log_kept, rest = self.by.split_failure()
        return log_kept, rest.unclaimed()
