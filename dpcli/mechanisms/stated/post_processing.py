"""Post-processing: free, because it touches no private data."""

from __future__ import annotations

from typing import ClassVar

from dpcli.base.premise import Premises, of_mechanism
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.spec import Spec
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.contour.tilted_closed import TiltedNormal
from dpcli.numerics.tails import Tails, atom_tails


@dataclass(frozen=True, slots=True)
class FreeLoss:
    """L = 0: K = 0."""

    def cgf(self, z: Array) -> Array:
        """Exactly zero."""
        return np.zeros_like(z)

    def tilted(self, t: float) -> TiltedNormal:
        """The constant 0."""
        return TiltedNormal(0.0, 0.0, 0.0)

    def tails(self, at: Array) -> Tails:
        """One atom at 0."""
        return atom_tails(at, np.zeros(1), np.zeros(1), np.zeros(1))


@dataclass(frozen=True, slots=True)
class Free(Mechanism):
    """A release that does not depend on the record: every divergence is exactly 0, for all data (so it is attained)."""

    def approx_dp(self, delta: float) -> float:
        return 0.0

    def zcdp(self) -> float:
        return 0.0

    def gdp(self) -> float:
        return 0.0

    def attained(self) -> bool:
        return True

    def losses(self) -> tuple[FreeLoss]:
        return (FreeLoss(),)


@dataclass(frozen=True, slots=True)
class PostProcessingSpec(Spec):
    """Touches released values only, never the private data: it costs nothing, with any sampling and however often it runs.

    Neighbours: all three adjacencies. Bounds: exact, 0 in every view, also at delta = 0.

    Source: Dwork & Roth 2014, Proposition 2.1.
    """

    evidence: ClassVar[int] = 0
    free: ClassVar[bool] = True
    premises: ClassVar[Premises] = (
        of_mechanism(
            "It reads what was released, and never the private data.", "test_post_processing_that_reads_the_data_costs_something"
        ),
    )

    @property
    def contribution_form(self) -> bool:
        return True

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        return Free()

    def poisson(self, rate: float, neighbours: Neighbours) -> Mechanism:
        return Free()
