"""The contour of the small parts: at which tilt, and whether without the bulk of their losses.

Where one loss near epsilon decides, the tilted bulk outweighs it by many orders of magnitude, and its transform hardly decays. Then
S^n - B^n serves (split.py), with B all below a share of epsilon so low that B^n alone leaves next to nothing of delta. What that share
and the tilt are decides only how well it serves: every bound holds for any of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import product

from dpcli.base.errors import NotRepresentable
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.contour.cut import CutLoss
from dpcli.numerics.contour.cut_rows import CutRows
from dpcli.numerics.contour.integral import Contour, Method, beyond, build, log_hockey, whole
from dpcli.numerics.contour.uncut import UncutLoss
from dpcli.numerics.work import allowance

SHARES = (0.9, 0.7, 0.48, 0.32, 0.24, 0.16, 0.1, 0.06)  # of epsilon, below which a loss may count as bulk
TILTS = 40  # that are looked at
SPARED = -24.0  # logarithm of what bulk alone may make of delta
DROWNED = 8.0  # by how much the bulk may raise the logarithm of Chernoff's bound
SACRIFICED = 6.0  # the same, by a tilt that is less than the best
ROOM = 20.0  # by how much the logarithm of delta may be below Chernoff's bound of it
QUICK, QUITE_QUICK = 4e5, 5e6  # cells for each part of the integrand as it is, and for all, where it may do without the bulk
ROW = 2e5  # of the latter, for each part
FINE = -21.0  # logarithm of what may be cut off or aliased, relative to delta
COARSE = -17.0  # the same, where that takes too long
FEW = 8  # parts for which the former is tried
MANY = 64  # parts up to which, from there on, an attempt leaves as much to the next one as it takes; more need all that there is

Divided = CutLoss | CutRows | UncutLoss
Cut = Sequence[tuple[Divided, int]]  # the parts of a composition
Way = tuple[float, float, Method]


def small_contour(losses: Cut, log_delta: float | None, epsilon: float, level: float, floor: float) -> Contour | None:
    """The contour near `epsilon`; None where none decays soon enough. Arguments as of `jump`."""
    z: Array = np.geomspace(0.2 / level, 120.0 / epsilon, TILTS)
    totals = log_hockey(z) - z * epsilon + sum(n * loss.cgf(z) for loss, n in losses)
    totals = np.where(np.isfinite(totals), totals, np.inf)
    chernoff = min(float(totals.min()), 0.0)
    ways: list[Way] = [(float(z[totals.argmin()]), chernoff - 2.0, whole)]
    bulk = _without_bulk(losses, epsilon, z, totals, floor)
    if bulk is not None:
        bound, way = bulk
        ways.append(way)
        if chernoff - bound > DROWNED:
            ways.reverse()
    several = max(math.fsum(loss.several for loss, _ in losses), 1.0)
    quick = min(QUICK * several, max(QUITE_QUICK, ROW * several))
    tries = tuple(product((FINE, COARSE) if several <= FEW else (COARSE,), ways))
    for after, (negligible, (t, log_least, factor)) in zip(reversed(range(len(tries))), tries, strict=True):
        cells = quick if factor is whole and len(ways) > 1 else math.inf
        with suppress(NotRepresentable), allowance(cells, share=0.5 if after and FEW < several <= MANY else 1.0):
            at = log_least if log_delta is None else log_delta
            found = build(losses, at, t, factor, epsilon=epsilon, negligible=negligible)
            if found is not None:
                return found
    return None


def _without_bulk(losses: Cut, epsilon: float, z: Array, totals: Array, floor: float) -> tuple[float, Way] | None:
    """Chernoff's bound and the way, by the highest share that serves; None where bulk alone may reach epsilon at every share.

    totals: the exponents of Chernoff's bound of all at the tilts z.
    """
    far = np.geomspace(20.0, 3e3, TILTS) / epsilon
    for share in SHARES:
        spare = sum((n * loss.bulk_cgf(far, share * epsilon) for loss, n in losses), log_hockey(far) - far * epsilon)
        if not float(np.nanmin(np.append(spare, math.inf))) <= floor + SPARED:
            continue
        rest = np.logaddexp.reduce([math.log(n) + loss.log_beyond(z, share * epsilon) for loss, n in losses])
        found = totals + np.minimum(rest, 0.0)
        best = _cheapest(z, np.where(np.isfinite(found), found, np.inf), totals, floor)
        if not math.isfinite(found[best]):
            return None
        bound = float(found[best])
        return bound, (float(z[best]), max(bound - ROOM, floor), partial(beyond, levels=(share,), negligible=math.inf))
    return None


def _cheapest(z: Array, chernoff: Array, totals: Array, floor: float) -> int:
    """Which tilt lets the nodes be farthest apart, among those at which what reaches epsilon is not drowned: where the CGF has begun to
    rise steeply, a little less of a tilt keeps the aliases away."""
    farther = z[None, :] - z[:, None]
    with np.errstate(all="ignore"):
        gaps = np.where(farther > 0.0, (totals[None, :] - floor + ROOM) / farther, np.inf)
        steps = np.minimum(z / (ROOM - floor), 1.0 / np.fmax(np.nanmin(gaps, axis=1), 1e-300))
    return int(np.where(chernoff <= float(chernoff.min()) + SACRIFICED, steps, 0.0).argmax())
