"""The smallest rho of a bounded privacy loss, from its cumulant generating function."""

from __future__ import annotations

import math
from collections.abc import Callable

from dpcli.numerics.arrays import Array, np

FIRST, COARSE, TIGHT, MOST = 1e-3, 1.3, 1e-3, 40


def least_rho(cgf: Callable[[Array], Array], largest: float) -> float:
    """Upper bound on the least rho with K(z) <= rho z (z+1) for all z > 0, at most 0.1 % too large.

    Args:
        cgf: K(z) at increasing z > 0, nats; convex, K(0) = 0. largest: most that the loss may be, nats, > 0.

    K(z)/z rises, so that between two points the ratio is at most K(z2)/z2/(z1+1); up to the first one, K(z1)/z1; beyond the last, where K
    is at most z times the largest loss, that over z + 1.
    """
    last = FIRST
    while True:
        z = np.geomspace(FIRST, last * COARSE, max(2, round(np.log(last * COARSE / FIRST) / np.log(COARSE)) + 1))
        slope = cgf(z) / z
        if largest / (z[-1] + 1.0) <= np.max(slope / (z + 1.0)) or z[-1] > 1e12:
            break
        last = z[-1] ** 1.5 if z[-1] > 2.0 else 10.0
    for _ in range(MOST):
        attained = float(np.max(slope / (z + 1.0)))
        bound = np.concatenate((slope[:1], slope[1:] / (z[:-1] + 1.0)))
        wide = bound > attained * (1.0 + TIGHT)
        if not wide.any():
            break
        low = np.concatenate(([0.5 * z[0]], z[:-1]))[wide]
        between = np.sqrt(low * z[wide])
        z, slope = np.concatenate((z, between)), np.concatenate((slope, cgf(between) / between))
        order = np.argsort(z)
        z, slope = z[order], slope[order]
    bound = np.concatenate((slope[:1], slope[1:] / (z[:-1] + 1.0)))
    return float(max(np.max(bound), largest / (z[-1] + 1.0)) * (1.0 + 1e-12)) + math.ulp(0.0)
