"""The Renyi curve of a whole composition, evaluated where it is asked for and remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcli.accountants.base import Steps, normalised, views
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.work import shared

if TYPE_CHECKING:
    from dpcli.numerics.mixture import Shifted

MANY = 6  # mechanisms that are looked at for families


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
                for (_, count), curve in zip(self.steps, renyi_curves(self.steps, missing), strict=True):
                    total = total + count * curve
                total = total * (1.0 + 1e-15 * (2 + len(self.steps) ** 0.5))
            self.known.update(zip(missing.tolist(), np.where(np.isnan(total), np.inf, total).tolist(), strict=True))
        return np.array([self.known[float(order)] for order in orders])


def renyi_curves(steps: Steps, orders: Array) -> list[Array]:
    """The mechanisms' `rdp` at `orders` > 1, those of one family of losses together. Raises as `views` does."""
    if len(steps) < MANY:
        return views(steps, lambda mechanism: mechanism.rdp(orders))
    from dpcli.numerics.mixture import cgfs

    alone, tables = _tables(steps)
    curves = dict(zip(alone, views(tuple(steps[i] for i in alone), lambda mechanism: mechanism.rdp(orders)), strict=True))
    for places, table in tables:
        curves.update(zip(places, cgfs(table, orders - 1.0) / (orders - 1.0), strict=True))
    return [np.asarray(curves[i]) for i in range(len(steps))]


@shared(4)
def _tables(steps: Steps) -> tuple[tuple[int, ...], tuple[tuple[tuple[int, ...], Shifted], ...]]:
    """The places of mechanisms that stand alone, and those of each family with its table."""
    from dpcli.numerics.mixture import TableRow, row_of, table_of

    rows = [None if loss is None else row_of(loss) for loss in (mechanism.renyi_loss() for mechanism, _ in steps)]
    groups: dict[type[Shifted], list[tuple[int, TableRow]]] = {}
    for i, row in enumerate(rows):
        if row is not None:
            groups.setdefault(row.family, []).append((i, row))
    tables = tuple((tuple(i for i, _ in group), table_of([row for _, row in group])) for group in groups.values())
    return tuple(i for i, row in enumerate(rows) if row is None), tables


def renyi_shares(steps: Steps, order: float) -> tuple[float, ...]:
    """Each step's share of the composition's Renyi divergence at an order."""
    curves = renyi_curves(steps, np.array([order]))
    return normalised([count * float(curve[0]) for (_, count), curve in zip(steps, curves, strict=True)])


@shared(8)
def renyi_curve(steps: Steps) -> RenyiCurve:
    """The curve of a composition, shared by the accountants that read it."""
    return RenyiCurve(steps)
