"""A loss of which nothing is big: it has no far tail, so that it is its own small part.

The decomposition of jump.py holds for any division of each step's outcomes, for this one with b = 0. Of the third term's factors, B = C
= E_Q[r^-power] then. Where the other direction's loss has the same law (a class says so by `mirrored`), that is e^{K(power)}:
E_Q[r^-power] = E_Q[e^{power log dQ/dP}].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.quadrature import SLACK

if TYPE_CHECKING:
    from dpcli.numerics.contour.integral import Loss, Tilted

NEAR = 0.05  # order at which the moments are looked for


@dataclass(frozen=True, slots=True)
class UncutLoss:
    """The loss whole, as a `CutLoss`."""

    loss: Loss
    big: ClassVar[float] = 0.0
    several: ClassVar[int] = 0
    steps: ClassVar[float] = 1.0
    lost: ClassVar[float] = 0.0
    log_kept: ClassVar[float] = 0.0
    log_less: ClassVar[float] = 0.0

    def cgf(self, z: Array) -> Array:
        """That of the loss."""
        return self.loss.cgf(z)

    def doubt(self, z: float) -> float:
        """By how much `cgf` may be above K."""
        return 3.0 * SLACK * float(self.loss.cgf(np.array([z]))[0])

    def moments(self) -> tuple[float, float]:
        """E_P[L] and E_P[L^2], about: from K at two small orders."""
        one, two = self.loss.cgf(np.array([NEAR, 2.0 * NEAR])).tolist()
        variance = max(two - 2.0 * one, 0.0) / NEAR**2
        mean = one / NEAR - 0.5 * variance * NEAR
        return mean, variance + mean * mean

    def tilted(self, t: float) -> Tilted:
        """That of the loss."""
        return self.loss.tilted(t)

    def log_beyond(self, z: Array, level: float) -> Array:
        """Nothing is beyond a level."""
        return np.full(len(z), -np.inf)

    def bulk_cgf(self, z: Array, level: float) -> Array:
        """All is bulk."""
        return self.loss.cgf(z)

    def log_short(self, power: Array) -> tuple[Array, Array]:
        """(log B, log of (B - C) / B = -inf)."""
        log_whole = self.loss.cgf(power)
        return log_whole + SLACK * np.abs(log_whole), np.full(len(power), -np.inf)

    def missed(self) -> float:
        """Nothing is left out at the lower end."""
        return 0.0

    def missed_big(self) -> float:
        """As little."""
        return 0.0
