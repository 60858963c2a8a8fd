"""Searches over Renyi orders: `least_over_orders` minimises a bound, and `least_rho` finds the smallest rho (zCDP) of a bounded loss.

The accountant rdp and several mechanisms ask for the first, prediction/ensemble.py for the second. Renyi divergences give a bound on
epsilon at every order a > 1; z is a - 1 here. Any order gives a valid bound, so `least_over_orders` may miss the best one, at the cost of
tightness alone. rho must hold at every order, so `least_rho` bounds the ratio between the orders that it evaluates. A bound that combines
several theorems can have several local minima, here called valleys.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

from dpcli.numerics.arrays import Array, np
from dpcli.numerics.work import spend  # counts work, and refuses a question that takes too much

# Accuracy and speed: every order that is tried gives a valid bound, and rho is bounded between the orders that are tried.
# Points lie on a lattice: *place* i, a whole number, is the point z = 4 * 2^(i / OCTAVE).
OCTAVE = 4**7  # lattice points between z and 2 z; at a smooth minimum the best of them is 1e-9 above the least value
# Places of z from 1/64 to 1.1e12, where the search ends for a mechanism with a finite epsilon at delta = 0.
FEW_PLACES = tuple(k * OCTAVE for k in (*range(-8, 18), *range(18, 39, 2)))
# These places are denser at z from 4 to 128, where bounds of several theorems cross.
DEFAULT_PLACES = tuple(sorted({*FEW_PLACES, *(k * OCTAVE // 3 for k in range(16))}))
# These places are denser at z from 1/16 to 256 too. They are for delta at a given epsilon, whose valleys are narrow.
FINE_PLACES = tuple(sorted({*DEFAULT_PLACES, *(k * OCTAVE // 8 for k in range(-48, 49))}))
SHORT = OCTAVE // 4**3  # distance between places at which a shorter search stops, for callers that search many times
LOWEST = -41 * OCTAVE  # place of the smallest order that is tried, z = 1.8e-12
VALLEYS = 4  # most valleys that are searched to the bottom; the others start at larger values
STOPS = (4, 6, 8, 10, 12, 14, 17, 40)  # octaves above z = 4 at which the first pass checks whether larger orders can be better
LEFT_OCTAVES = 8  # octaves to the left that are tried at a time if the best order is the smallest one
WORK, WORK_OF_POINT = 600.0, 10.0  # work of a call of f and of each of its points, in cells (numerics/work.py)
# For `least_rho`: the first z, the first ratio of neighbouring z, the tolerance of rho, and limits on refinements and on the last z.
FIRST_ORDER, RATIO, TOLERANCE, MOST_REFINEMENTS, LARGEST_ORDER = 1e-3, 1.3, 1e-3, 40, 1e12


def least_over_orders(f: Callable[[Array], Array], grain: int = 1, first: tuple[int, ...] = DEFAULT_PLACES) -> tuple[float, float]:
    """Minimise a bound over orders 1 + z: evaluate it along the whole line, then search the best valleys to their bottoms.

    All points are integers or lie on one lattice, so the bottom of a valley does not depend on the path to it. Epsilon at a delta, and
    delta at that epsilon, have their least values at the same order, and both searches end there.

    Args:
        f: maps an array of z > 0 to upper bounds, inf or NaN if there is none; called about ten times, with up to 40 points each.
        grain: the distance between places at which the search stops. If it is above 1, a parabola replaces the last steps, and the search
            for delta at the resulting epsilon may end at another order.
        first: the places of the first pass. A valley between two of them may be missed.

    Returns:
        (z, f(z)) of the smallest value found; the value is `inf` if none is finite.
    """
    search = _Search(f, grain)
    search.first_pass(first)
    while search.at_left_end():
        left = min(search.f_at)
        search.evaluate(tuple(range(left - OCTAVE, max(left - LEFT_OCTAVES * OCTAVE, LOWEST) - 1, -OCTAVE)))
    valleys = search.valleys()
    while new_places := {place for valley in valleys for place in search.around(valley)}:
        search.evaluate(tuple(sorted(new_places)))
        valleys = [search.downhill(valley) for valley in valleys]
    return search.least(valleys)


class _Search:
    """State of a search: the values of f computed so far (`f_at`), by place on the lattice."""

    def __init__(self, f: Callable[[Array], Array], grain: int) -> None:
        self.f = f
        self.grain = grain
        self.f_at: dict[int, float] = {}

    def first_pass(self, places: tuple[int, ...]) -> None:
        """Evaluate f at `places` in increasing order, and stop once larger orders, which cost more work, cannot be better."""
        for end in STOPS:
            new_places = tuple(i for i in places if i <= end * OCTAVE and i not in self.f_at)
            if new_places:
                self.evaluate(new_places)
            if self._is_past_minimum():
                return

    def _is_past_minimum(self) -> bool:
        """Return whether no order above the largest one so far can give a smaller value.

        The bound at order z + 1 is at least D or z (D - epsilon), where the divergence D does not decrease with the order. If the last
        value is positive and more than twice the best value, which lies to its left, then D alone exceeds the best value.
        """
        last = max(self.f_at)
        best = min(self.f_at, key=lambda i: (self.f_at[i], i))
        return last > best and self.f_at[last] > max(2.0 * self.f_at[best], 0.0) and math.isfinite(self.f_at[last])

    def evaluate(self, places: tuple[int, ...]) -> None:
        """Compute and store the values of f at `places`."""
        self.f_at.update(zip(places, self._values_at([_z_at(i) for i in places]), strict=True))

    def _values_at(self, points: list[float]) -> list[float]:
        """Return f at each z of `points`, with inf in place of NaN."""
        spend(WORK + WORK_OF_POINT * len(points))
        result = np.asarray(self.f(np.array(points)), dtype=float)
        return [float(value) for value in np.where(np.isnan(result), np.inf, result)]

    def at_left_end(self) -> bool:
        """Return whether smaller orders must be tried: no value is finite yet, or the smallest order has the least value."""
        left, second = sorted(self.f_at)[:2]
        best = min(self.f_at.values())
        return left > LOWEST and (math.isinf(best) or self.f_at[left] == best < self.f_at[second])

    def valleys(self) -> list[int]:
        """Return the places of at most VALLEYS local minima, the smallest value first."""
        line = [math.inf, *(self.f_at[i] for i in sorted(self.f_at)), math.inf]
        steps = [
            after - before if before < math.inf or after < math.inf else 0.0 for before, after in pairwise(line)
        ]  # not inf - inf
        bottoms = [i for i, down, up in zip(sorted(self.f_at), steps[:-1], steps[1:], strict=True) if down < 0.0 <= up]
        return sorted(bottoms, key=lambda i: (self.f_at[i], i))[:VALLEYS]

    def around(self, place: int) -> set[int]:
        """Return three new places on either side, between `place` and its neighbour there; none towards a neighbour within the grain."""
        low, high = self.neighbours(place)
        points = {place + (end - place) * k // 4 for end in (low, high) if abs(end - place) > self.grain for k in (1, 2, 3)}
        return points - {low, place, high}

    def neighbours(self, place: int) -> tuple[int, int]:
        """Return the nearest evaluated places below and above `place`; `place` itself if there is none."""
        return max((i for i in self.f_at if i < place), default=place), min((i for i in self.f_at if i > place), default=place)

    def downhill(self, place: int) -> int:
        """Return the local minimum among the evaluated places that is reached from `place` by descending."""
        low, high = self.neighbours(place)
        best = min((low, place, high), key=lambda i: (self.f_at[i], i))
        return place if self.f_at[best] >= self.f_at[place] else self.downhill(best)

    def least(self, valleys: list[int]) -> tuple[float, float]:
        """Return (z, f(z)) of the best point among the valleys' bottoms and the integers next to them.

        Bounds that are interpolated between integer orders have their corners at integers.
        """
        bottoms = [_z_at(i) for i in valleys]
        near_bottoms = {max(float(end(z)), 1.0) for z in bottoms for end in (math.floor, math.ceil)}
        near_bottoms |= {_z_at(vertex) for i in valleys if self.grain > 1 for vertex in self.vertex(i)}
        extra = sorted(near_bottoms)
        values = [*(self.f_at[i] for i in valleys), *(self._values_at(extra) if extra else ())]
        # Without a valley no value is finite, and any order will do.
        return min(zip([*bottoms, *extra], values, strict=True), key=lambda pair: pair[1], default=(4.0, math.inf))

    def vertex(self, place: int) -> tuple[float, ...]:
        """Return the place where the parabola through `place` and its neighbours is least; nothing if it has no minimum."""
        low, high = self.neighbours(place)
        down, up = (self.f_at[place] - self.f_at[low]) * (high - place), (self.f_at[high] - self.f_at[place]) * (place - low)
        if not 0.0 < up - down < math.inf:
            return ()
        return (place + 0.5 * ((low - place) * up - (high - place) * down) / (up - down),)


def _z_at(place: float) -> float:
    """Return the z of a place on the lattice, or between two places."""
    return float(4.0 * 2.0 ** (place / OCTAVE))


def least_rho(cgf: Callable[[Array], Array], largest: float) -> float:
    """Return an upper bound on the least rho with K(z) <= rho z (z+1) for all z > 0, at most 0.1 % too large.

    Args:
        cgf: returns K(z) in nats at increasing z > 0; convex, with K(0) = 0.
        largest: the largest possible loss in nats, > 0.

    The ratio to be bounded is K(z)/z/(z+1), and K(z)/z increases. So between two points z1 < z2 the ratio is at most K(z2)/z2/(z1+1), and
    below the first point z1 it is at most K(z1)/z1. Beyond the last point z1 it is at most largest/(z1+1), because K(z) <= z * largest.
    """
    # Find a last z beyond which the ratio is below one that is reached. slope: K(z) / z.
    last = FIRST_ORDER
    while True:
        z = np.geomspace(FIRST_ORDER, last * RATIO, max(2, round(np.log(last * RATIO / FIRST_ORDER) / np.log(RATIO)) + 1))
        slope = cgf(z) / z
        if largest / (z[-1] + 1.0) <= np.max(slope / (z + 1.0)) or z[-1] > LARGEST_ORDER:
            break
        last = z[-1] ** 1.5 if z[-1] > 2.0 else 10.0
    # Add points where the bound between two points is not within TOLERANCE of the largest ratio that is reached.
    for _ in range(MOST_REFINEMENTS):
        largest_ratio = float(np.max(slope / (z + 1.0)))
        bounds = _ratio_bounds(z, slope)
        is_loose = bounds > largest_ratio * (1.0 + TOLERANCE)
        if not is_loose.any():
            break
        low = np.concatenate(([0.5 * z[0]], z[:-1]))[is_loose]
        between = np.sqrt(low * z[is_loose])
        z, slope = np.concatenate((z, between)), np.concatenate((slope, cgf(between) / between))
        order = np.argsort(z)
        z, slope = z[order], slope[order]
    return float(max(np.max(_ratio_bounds(z, slope)), largest / (z[-1] + 1.0)) * (1.0 + 1e-12)) + math.ulp(0.0)


def _ratio_bounds(z: Array, slope: Array) -> Array:
    """Return upper bounds on K(z)/z/(z+1) up to the first point, and between each point and the next one. slope: K(z)/z."""
    return np.concatenate((slope[:1], slope[1:] / (z[:-1] + 1.0)))
