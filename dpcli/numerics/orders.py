"""Searches over Renyi orders: the least value of a bound, and the smallest rho of a bounded privacy loss.

Bounds put together from several theorems have several valleys.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

from dpcli.numerics.arrays import Array, np
from dpcli.numerics.work import spend

OCTAVE = 4**7  # points of the lattice between z and 2 z: at a smooth minimum its best point is 1e-9 above the least value
FEW = tuple(k * OCTAVE for k in (*range(-8, 18), *range(18, 39, 2)))  # z from 1/64 to 1.1e12, where pure mechanisms end
FIRST_LOOK = tuple(
    sorted({*FEW, *(k * OCTAVE // 3 for k in range(16))})
)  # closer from 4 to 128, where bounds of several theorems meet
FINE = tuple(
    sorted({*FIRST_LOOK, *(k * OCTAVE // 8 for k in range(-48, 49))})
)  # for the way back, whose valleys are narrow: z 1/16 to 256
SHORT = OCTAVE // 4**3  # a grain for searches that are done many times over
LOWEST = -41 * OCTAVE  # z = 1.8e-12
VALLEYS = 4
AHEAD = (4, 6, 8, 10, 12, 14, 17, 40)  # octaves above z = 4 at which the first look stops to see whether to go on
FIRST_ORDER, COARSE, TIGHT, MOST = 1e-3, 1.3, 1e-3, 40


def least_over_orders(f: Callable[[Array], Array], grain: int = 1, first: tuple[int, ...] = FIRST_LOOK) -> tuple[float, float]:
    """Minimise a bound over orders 1 + z: a look at the whole line, then down into the best valleys, each to its bottom.

    All points are of one lattice, z = 4 * 2^(i / OCTAVE), or integers: a valley's bottom does not depend on the way there. So
    epsilon at a delta, and delta at that epsilon, which have their least values at the same order, end at the same order.

    Args:
        f: maps an array of z > 0 to upper bounds, inf or NaN where there is none; called about ten times, with up to 40 points each.
        grain: stop this many places apart, where a parabola makes up for the rest; for those who never ask the way back.
        first: the places of the first look; a valley between two of them may go unseen.

    Returns:
        (z, f(z)) of the smallest value seen; `inf` as the value where none is finite. Any z is sound where f bounds at every z, so
        what the search misses is on the private side.
    """
    search = _Search(f, grain)
    search.look_along(first)
    while search.at_left_end():
        left = min(search.seen)
        search.look(tuple(range(left - OCTAVE, max(left - 8 * OCTAVE, LOWEST) - 1, -OCTAVE)))
    valleys = search.valleys()
    while fresh := {i for valley in valleys for i in search.around(valley)}:
        search.look(tuple(sorted(fresh)))
        valleys = [search.downhill(valley) for valley in valleys]
    return search.least(valleys)


class _Search:
    """The values of f seen so far, by place on the lattice."""

    def __init__(self, f: Callable[[Array], Array], grain: int) -> None:
        self.f = f
        self.grain = grain
        self.seen: dict[int, float] = {}

    def look_along(self, places: tuple[int, ...]) -> None:
        """From the left, as far as it may be worth it: large orders are dear."""
        for end in AHEAD:
            fresh = tuple(i for i in places if i <= end * OCTAVE and i not in self.seen)
            if fresh:
                self.look(fresh)
            if self._behind():
                return

    def _behind(self) -> bool:
        """Return whether the best lies so far back that nothing further on can be better. The bound at order z + 1 is at least D or z (D -
        epsilon), D the divergence, which does not fall in the order: where it is positive and twice the best value so far to the left,
        D alone is more than that."""
        last = max(self.seen)
        best = min(self.seen, key=lambda i: (self.seen[i], i))
        return last > best and self.seen[last] > max(2.0 * self.seen[best], 0.0) and math.isfinite(self.seen[last])

    def look(self, places: tuple[int, ...]) -> None:
        self.seen.update(zip(places, self.values([_abscissa(i) for i in places]), strict=True))

    def values(self, points: list[float]) -> list[float]:
        spend(600.0 + 10.0 * len(points))
        result = np.asarray(self.f(np.array(points)), dtype=float)
        return [float(value) for value in np.where(np.isnan(result), np.inf, result)]

    def at_left_end(self) -> bool:
        """Return whether only smaller orders may do better, or at all."""
        left, second = sorted(self.seen)[:2]
        best = min(self.seen.values())
        return left > LOWEST and (math.isinf(best) or self.seen[left] == best < self.seen[second])

    def valleys(self) -> list[int]:
        line = [math.inf, *(self.seen[i] for i in sorted(self.seen)), math.inf]
        steps = [after - before if before < math.inf or after < math.inf else 0.0 for before, after in pairwise(line)]
        bottoms = [i for i, down, up in zip(sorted(self.seen), steps[:-1], steps[1:], strict=True) if down < 0.0 <= up]
        return sorted(bottoms, key=lambda i: (self.seen[i], i))[:VALLEYS]

    def around(self, place: int) -> set[int]:
        """Three points on either side, up to the neighbours seen; none where both are next to it."""
        low, high = self.neighbours(place)
        points = {place + (end - place) * k // 4 for end in (low, high) if abs(end - place) > self.grain for k in (1, 2, 3)}
        return points - {low, place, high}

    def neighbours(self, place: int) -> tuple[int, int]:
        return max((i for i in self.seen if i < place), default=place), min((i for i in self.seen if i > place), default=place)

    def downhill(self, place: int) -> int:
        """The foot of the slope that starts at `place`."""
        low, high = self.neighbours(place)
        best = min((low, place, high), key=lambda i: (self.seen[i], i))
        return place if self.seen[best] >= self.seen[place] else self.downhill(best)

    def least(self, valleys: list[int]) -> tuple[float, float]:
        """The best of the bottoms and of the integers beside them, where bounds between integer orders have their corners."""
        places = [_abscissa(i) for i in valleys]
        others = {max(float(end(z)), 1.0) for z in places for end in (math.floor, math.ceil)}
        others |= {_abscissa(vertex) for i in valleys if self.grain > 1 for vertex in self.vertex(i)}
        extra = sorted(others)
        values = [*(self.seen[i] for i in valleys), *(self.values(extra) if extra else ())]
        return min(zip([*places, *extra], values, strict=True), key=lambda pair: pair[1], default=(4.0, math.inf))

    def vertex(self, place: int) -> tuple[float, ...]:
        """Return where the parabola through `place` and its neighbours is least, if it is anywhere."""
        low, high = self.neighbours(place)
        down, up = (self.seen[place] - self.seen[low]) * (high - place), (self.seen[high] - self.seen[place]) * (place - low)
        if not 0.0 < up - down < math.inf:
            return ()
        return (place + 0.5 * ((low - place) * up - (high - place) * down) / (up - down),)


def _abscissa(place: float) -> float:
    return float(4.0 * 2.0 ** (place / OCTAVE))


def least_rho(cgf: Callable[[Array], Array], largest: float) -> float:
    """Upper bound on the least rho with K(z) <= rho z (z+1) for all z > 0, at most 0.1 % too large.

    Args:
        cgf: K(z) at increasing z > 0, nats; convex, K(0) = 0. largest: most that the loss may be, nats, > 0.

    K(z)/z rises, so that between two points the ratio is at most K(z2)/z2/(z1+1); up to the first one, K(z1)/z1; beyond the last, where K
    is at most z times the largest loss, that over z + 1.
    """
    last = FIRST_ORDER
    while True:
        z = np.geomspace(FIRST_ORDER, last * COARSE, max(2, round(np.log(last * COARSE / FIRST_ORDER) / np.log(COARSE)) + 1))
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
