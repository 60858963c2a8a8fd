"""What a release shows of one dataset that another one cannot: with probability delta, and nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcli.base.errors import NotRepresentable
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.contour.integral import Tilted
from dpcli.numerics.tails import Tails

_SHOWS = "a key that one unit alone holds may be shown, so that its Renyi divergence is infinite"
SURE = 1.0 - 1e-9
LEAST = 5e-324  # a probability that is no number is taken for this one


@dataclass(frozen=True, slots=True)
class ShownLoss:
    """P shows its own with probability `of_p`, Q its own with probability `of_q`; else both show the same."""

    of_p: float
    of_q: float

    def cgf(self, z: Array) -> Array:
        """Infinite, and refused."""
        raise NotRepresentable(_SHOWS)

    def tilted(self, t: float) -> Tilted:
        """Refused, as the CGF."""
        raise NotRepresentable(_SHOWS)

    def tails(self, at: Array) -> Tails:
        """Mass at +inf under P, at -inf under Q, and one atom between them."""
        kept = math.log1p(-self.of_p), math.log1p(-self.of_q)
        above = at < kept[0] - kept[1]
        with np.errstate(divide="ignore"):
            own_p, own_q = (np.full_like(at, np.log(own)) for own in (self.of_p, self.of_q))
        everything, nothing = np.zeros_like(at), np.full_like(at, -np.inf)
        return Tails(
            np.where(above, everything, own_p),
            np.where(above, nothing, kept[0]),
            np.where(above, kept[1], nothing),
            np.where(above, own_q, everything),
        )


@dataclass(frozen=True, slots=True)
class Shown(Mechanism):
    """With probability `delta` a unit's own keys are shown. both: whether either of two neighbours may have keys of its own."""

    delta: float
    both: bool

    @property
    def everything(self) -> bool:
        """Whether all but rounding is shown, so that nothing is claimed."""
        return self.delta > SURE

    def approx_dp(self, delta: float) -> float:
        """Exact: nothing but what is shown; inf below its probability."""
        return 0.0 if delta >= self.delta * (1.0 - 1e-12) and delta > 0.0 and not self.everything else math.inf

    def delta_floor(self) -> float:
        return self.delta

    def zcdp(self) -> float:
        raise NotRepresentable(_SHOWS)

    def losses(self) -> tuple[ShownLoss, ...]:
        if self.everything:
            raise NotRepresentable("a key that one unit alone holds is shown for certain")
        if self.both:
            return (ShownLoss(self.delta, self.delta),)
        return ShownLoss(self.delta, 0.0), ShownLoss(0.0, self.delta)


def shown(log_hidden: float, both: bool) -> Shown:
    """From the logarithm of the probability that nothing is shown, rounded up."""
    return Shown(min(max(-math.expm1(log_hidden) * (1.0 + 1e-12), LEAST), 1.0), both)
