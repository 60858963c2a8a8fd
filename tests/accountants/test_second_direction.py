"""The two directions of the neighbouring relation in the exact accountant.

After the first one is bounded, the second is often shown to be no larger from the first one's contour (`other_direction`), without a search
of its own; here both ways are compared.
"""

from __future__ import annotations

import math
import random

import numpy as np

from dpcli.accountants.base import merged
from dpcli.accountants.directions import directions
from dpcli.accountants.exact import ends_of
from dpcli.base.errors import NotRepresentable
from dpcli.numerics.contour.certified import UNKNOWN, other_direction
from dpcli.numerics.contour.integral import _tilt_by_parabolas, log_hockey, tilt_for, total_cgf
from tests.benchmarks.random_settings import Part, between, mechanism

KINDS = ("gaussian", "laplace", "discrete-gaussian", "discrete-laplace")
ENOUGH = 3  # cases of each outcome


def drawn_sides(source: random.Random) -> tuple[tuple[tuple[object, int], ...], ...]:
    """Return the losses of both directions of one to three random sampled mechanisms."""
    parts = [
        Part(source.choice(KINDS), between(source, 1e-4, 0.5), between(source, 0.7, 20.0), round(between(source, 2.0, 3000.0)))
        for _ in range(source.randint(1, 3))
    ]
    return directions(merged(tuple((mechanism(part), part.steps) for part in parts)))


def test_it_agrees_with_a_search_of_its_own() -> None:
    seed = random.Random().randrange(2**32)
    source, covered, bounded = random.Random(seed), 0, 0
    while min(covered, bounded) < ENOUGH:
        sides = drawn_sides(source)
        log_delta = math.log(between(source, 1e-20, 1e-2))
        try:
            first, own = (ends_of(side, log_delta) for side in sides)
        except NotRepresentable:
            continue
        if not 0.0 < first.upper < math.inf:
            continue
        result = other_direction(sides[1], first, log_delta)
        if result is None:
            covered += 1
            assert own.lower <= first.upper, seed
        # With a bound on the first direction that is too small, the second one is not covered.
        result = other_direction(sides[1], first._replace(upper=own.lower * (1.0 - 1e-6)), log_delta)
        assert result is not None or own.lower == 0.0, seed
        if result is not None and result is not UNKNOWN:
            bounded += 1
            assert result.lower <= own.upper and own.lower <= result.upper, seed
            assert result.upper - result.lower <= 1e-8 * result.upper, seed


def test_a_tilt_by_parabolas_is_as_good_as_one_by_bisection() -> None:
    """Chernoff's bounds at the two tilts differ by less than a factor of e^3 in the integrand. By bisection it may be e^2."""
    seed = random.Random().randrange(2**32)
    source, seen = random.Random(seed), 0
    while seen < 3 * ENOUGH:
        sides = drawn_sides(source)
        log_delta = math.log(between(source, 1e-20, 1e-2))
        if len(sides[0]) < 2 or (t := _tilt_by_parabolas(sides[0], log_delta)) is None:
            continue
        seen += 1
        tilts = np.geomspace(0.5 * t, 2.0 * t, 41)
        bounds = (total_cgf(sides[0], tilts) - log_delta + log_hockey(tilts)) / tilts
        assert t * (np.interp(t, tilts, bounds) - bounds.min()) < 3.0, seed
        assert tilt_for(sides[0], log_delta) == t, seed
