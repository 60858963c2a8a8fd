"""The Renyi curve of a whole composition, evaluated where it is asked for and remembered."""

from __future__ import annotations

from dpcli.accountants.base import Steps, views
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.work import shared


class RenyiCurve:
    """D_a of the composition at real orders a > 1: the sum of the mechanisms' (Mironov 2017, arXiv:1702.07476, Proposition 1)."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.known: dict[float, float] = {}

    def at(self, orders: Array) -> Array:
        """Upper bounds; inf where one of the mechanisms has none at that order."""
        missing = np.array([order for order in orders if float(order) not in self.known])
        if len(missing):
            total = np.zeros(len(missing))
            with np.errstate(all="ignore"):  # overflow is inf, and a NaN below becomes inf: both on the private side
                curves = views(self.steps, lambda mechanism: np.asarray(mechanism.rdp(missing)))
                for (_, count), curve in zip(self.steps, curves, strict=True):
                    total = total + count * curve
                total = total * (1.0 + 1e-15 * (2 + len(self.steps) ** 0.5))
            self.known.update(zip(missing.tolist(), np.where(np.isnan(total), np.inf, total).tolist(), strict=True))
        return np.array([self.known[float(order)] for order in orders])


@shared(8)
def renyi_curve(steps: Steps) -> RenyiCurve:
    """The curve of a composition, shared by the accountants that read it."""
    return RenyiCurve(steps)
