"""The Renyi curve of a composition: its Renyi divergence at every order a > 1, the sum of its mechanisms' divergences.

The accountants rdp, rdp-classic, rdp-optimal and moments read it, at few orders and often at the same ones. So a curve is computed only
where it is asked for, and cached there. Many mechanisms of one family, such as sampled Gaussians, are evaluated together as a table
(numerics/mixture.py), which is faster than one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcli.accountants.base import Steps, shares_of, views
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.work import shared  # a cache

if TYPE_CHECKING:
    from dpcli.numerics.mixture import Shifted

# From this many mechanisms on, those of one family are computed as a table. This affects the speed, and results by rounding alone.
MANY = 6


class RenyiCurve:
    """The Renyi divergence D_a of a composition at real orders a > 1.

    It is the sum of the mechanisms' divergences (Mironov 2017, arXiv:1702.07476, Proposition 1).
    """

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.divergences: dict[float, float] = {}

    def at(self, orders: Array) -> Array:
        """Return upper bounds on D_a in nats at `orders`; inf if one of the mechanisms has none at that order."""
        missing = np.array([order for order in orders if float(order) not in self.divergences])
        if len(missing):
            total = np.zeros(len(missing))
            with np.errstate(all="ignore"):  # an overflow is inf, and a NaN becomes inf below; both are upper bounds
                for (_, count), curve in zip(self.steps, renyi_curves(self.steps, missing), strict=True):
                    total = total + count * curve
                total = total * (1.0 + 1e-15 * (2 + len(self.steps) ** 0.5))  # for the rounding of the sum
            self.divergences.update(zip(missing.tolist(), np.where(np.isnan(total), np.inf, total).tolist(), strict=True))
        return np.array([self.divergences[float(order)] for order in orders])


def renyi_curves(steps: Steps, orders: Array) -> list[Array]:
    """Return the `rdp` of each mechanism at `orders` > 1. Mechanisms of one family of losses are computed together.

    Raises NotRepresentable if a mechanism has no Renyi curve.
    """
    if len(steps) < MANY:
        return views(steps, lambda mechanism: mechanism.rdp(orders))
    from dpcli.numerics.mixture import cgfs

    alone, tables = _tables(steps)
    curves = dict(zip(alone, views(tuple(steps[i] for i in alone), lambda mechanism: mechanism.rdp(orders)), strict=True))
    for members, table in tables:
        curves.update(zip(members, cgfs(table, orders - 1.0) / (orders - 1.0), strict=True))
    return [np.asarray(curves[i]) for i in range(len(steps))]


@shared(4)
def _tables(steps: Steps) -> tuple[tuple[int, ...], tuple[tuple[tuple[int, ...], Shifted], ...]]:
    """Return the indices of the mechanisms that are in no family, and for each family the indices of its members with their table."""
    from dpcli.numerics.mixture import TableRow, row_of, table_of

    alone: list[int] = []
    families: dict[type[Shifted], tuple[list[int], list[TableRow]]] = {}
    for i, (mechanism, _) in enumerate(steps):
        loss = mechanism.renyi_loss()
        row = None if loss is None else row_of(loss)
        if row is None:
            alone.append(i)
            continue
        members, rows = families.setdefault(row.family, ([], []))
        members.append(i)
        rows.append(row)
    return tuple(alone), tuple((tuple(members), table_of(rows)) for members, rows in families.values())


def renyi_shares(steps: Steps, order: float) -> tuple[float, ...]:
    """Return each step's share of the composition's Renyi divergence at an order."""
    curves = renyi_curves(steps, np.array([order]))
    return shares_of([count * float(curve[0]) for (_, count), curve in zip(steps, curves, strict=True)])


@shared(8)
def renyi_curve(steps: Steps) -> RenyiCurve:
    """Return the curve of a composition, which is cached for all accountants that read it."""
    return RenyiCurve(steps)
