"""What a mechanism is to the rest of the house: a handful of views of its privacy loss.

A *spec* holds the keys of the pipeline file. `Spec.resolve(neighbours)` settles, once, what "neighbouring" means and returns a
*mechanism*, which no accountant ever asks about adjacency again. A mechanism answers with as many representations as it has and
raises `NotRepresentable` for the others: never inf, 0 or a guess.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from dpcli.errors import InputError, NotRepresentable
from dpcli.numerics.arrays import Array

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dpcli.numerics.contour import Tilted
    from dpcli.numerics.tails import Tails


class Adjacency(enum.Enum):
    """Which datasets count as neighbours."""

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"
    ZERO_OUT = "zero-out"


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Who is compared with whom.

    adjacency: what one change is.
    contributions: most records that one unit of privacy (a user, say) contributes.
    group: units that change together.
    """

    adjacency: Adjacency
    contributions: int = 1
    group: int = 1

    @property
    def records(self) -> int:
        """Records that change together."""
        return self.contributions * self.group

    @property
    def replaces(self) -> bool:
        """Whether both datasets hold a version of the record."""
        return self.adjacency is Adjacency.REPLACE_ONE


class PrivacyLoss(Protocol):
    """One direction of a dominating pair (P, Q), by the CGF of its privacy loss L = log dP/dQ under P."""

    def cgf(self, z: Array) -> Array:
        """K(z) = log E_P[exp(z L)] in nats at real z > 0; an upper bound, inf where it diverges."""
        ...

    def tilted(self, t: float) -> Tilted:
        """The loss under e^{t L - K(t)} dP, t > 0, with its characteristic function. Raises NotRepresentable where it has none."""
        ...

    def tails(self, at: Array) -> Tails:
        """Logarithms of P(L > at), P(L <= at), Q(L > at), Q(L <= at) at increasing `at`. Raises NotRepresentable where unknown."""
        ...


class Mechanism:
    """A randomised release, resolved to its neighbouring relation; subclasses override what they can represent."""

    __slots__ = ()

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

        Where no more than a pure epsilon is known: randomised response, which dominates (Kairouz, Oh, Viswanath 2015, arXiv:1311.0776).
        """
        from dpcli.mechanisms.two_point import TwoPointLoss

        pure = self.approx_dp(0.0)
        if not 0.0 < pure < math.inf:
            raise NotRepresentable("it has no dominating pair")
        return (TwoPointLoss(pure),)

    def attained(self) -> bool:
        """Whether lower bounds on its dominating pairs are lower bounds on the mechanism itself; not claimed unless a class proves it.

        The claim: let D and D' differ as much as neighbours may, so that every record of the unit or group comes or goes, or all change
        from one version to one other. Some mechanism that the keys allow has exactly losses()[0] between D and D' and exactly losses()[-1]
        between D' and D. A class that claims says in its docstring which mechanism that is.

        Claims compose. Every entry may ask a query of its own, so all that claim attain their pairs on the same D and D', each direction
        together; their noise is independent, so there the losses add up, which is the composition that the accountants bound.
        """
        return False

    def unclaimed(self) -> Mechanism:
        """The same upper bounds without the claim: for a use in which the pair bounds more than can happen."""
        from dpcli.mechanisms.dominated import Dominated

        return Dominated(self) if self.attained() else self

    def rdp(self, orders: Array) -> Array:
        """Renyi divergence (nats) at real orders > 1, the larger of the two directions: an upper bound, inf where it diverges.

        D_a = K(a - 1) / (a - 1): Mironov 2017, arXiv:1702.07476, with K the CGF of the privacy loss.
        """
        z = orders - 1.0
        bound = self.losses()[0].cgf(z)
        for loss in self.losses()[1:]:
            bound = bound.clip(min=loss.cgf(z))
        return bound / z


class Spec:
    """The keys of one mechanism type; subclasses are frozen dataclasses whose fields are the keys.

    contribution_form: True where the noise is stated relative to one record's contribution (C), so that sampling under replace-one
    can tell the record's two versions from its absence.
    evidence: what a charge of this type rests on: 2, noise that a theorem prices (or other entries, of which it is as good as the
    weakest); 1, a number that somebody states; 0, the bare word that no private data are touched. A type proves what it claims.
    """

    __slots__ = ()

    evidence: ClassVar[int] = 0

    def problems(self) -> Iterator[tuple[str, str, str]]:
        """What is inconsistent among the keys, as (key, expected, found)."""
        return iter(())

    @property
    def contribution_form(self) -> bool:
        return False

    def bind(self, lookup: Callable[[str], tuple[Spec, int]]) -> Spec:
        """The spec with the entries that it names looked up; itself where it names none."""
        return self

    @property
    def sampled_inside(self) -> bool:
        """Whether it has many steps that each see their own records, so that sampling of the whole is not what is meant."""
        return False

    @property
    def whole_runs(self) -> bool:
        """Whether an entry that it names runs as it stands, with its own sampling and epochs."""
        return False

    def part_path(self, position: int) -> tuple[str | int, ...]:
        """The key that names its `position`-th entry."""
        return ("mechanisms", position)

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        """The mechanism run once on all of the data. Raises InputError where it makes no sense under this relation."""
        raise InputError(f"{type(self).__name__} cannot be resolved")

    def poisson(self, rate: float, neighbours: Neighbours) -> Mechanism:
        """The mechanism run on a sample that holds each record independently with probability `rate`."""
        from dpcli.mechanisms.poisson import PoissonReplaced, PoissonSampled

        # Some record of the group is in the sample with probability 1 - (1-q)^k; given that, the group theorem covers what follows.
        group_rate = any_sampled(rate, neighbours.records)
        inner = self.resolve(neighbours)
        self.require_contribution_form(neighbours)
        sampled = PoissonReplaced(inner, group_rate) if neighbours.replaces else PoissonSampled(inner, group_rate)
        return sampled if rate == 1.0 or self.moved_by_any(neighbours) else sampled.unclaimed()

    def moved_by_any(self, neighbours: Neighbours) -> bool:
        """Whether any one of the changing records in a sample may move the release as far as all of them: one record, or a unit's
        records where what is stated covers the unit. Otherwise a sample that holds some of them only moves it less."""
        covers_unit = not self.contribution_form and getattr(self, "stated_for", None) != "record"
        return neighbours.records == 1 or (neighbours.group == 1 and covers_unit)

    def require_contribution_form(self, neighbours: Neighbours) -> None:
        """Refuse Poisson sampling where the statement does not cover a record's absence beside its two versions."""
        if neighbours.adjacency is not Adjacency.ADD_REMOVE and not self.contribution_form:
            raise InputError(
                f"Poisson sampling under {neighbours.adjacency.value} needs noise_multiplier (noise over one record's contribution): both "
                "versions of the record enter the mixture together with its absence, and a bare sensitivity or epsilon does not bound that"
            )


def any_sampled(rate: float, records: int) -> float:
    """The probability that at least one of `records` is in a Poisson sample."""

    return rate if records == 1 or rate == 1.0 else -math.expm1(records * math.log1p(-rate))
