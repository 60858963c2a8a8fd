"""How far whole-number combinations of noise go, against all outcomes of two or three draws."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dpcli.release.answers.noise_tails import weighted_half_width
from dpcli.release.noise.laws import DiscreteGaussianLaw, DiscreteLaplaceLaw, NoiseLaw
from tests.cases import of_each

LAWS: tuple[NoiseLaw, ...] = (DiscreteLaplaceLaw(0.8), DiscreteGaussianLaw(1.7))


@pytest.mark.long
@of_each("law", LAWS)
@of_each("weights", [(1,), (1, 1), (2, -1), (3, 0, 5), (1, -1, 2)])
def test_the_half_width_is_the_least_that_holds(law: NoiseLaw, weights: tuple[int, ...]) -> None:
    used = [weight for weight in weights if weight]
    x = np.arange(-30.0, 31.0)
    chance = dict(zip(range(-30, 31), (law.at_least(x) - law.at_least(x + 1.0)).tolist(), strict=True))
    total: dict[int, float] = {}
    for drawn in itertools.product(chance, repeat=len(used)):
        place = abs(sum(weight * x for weight, x in zip(used, drawn, strict=True)))
        total[place] = total.get(place, 0.0) + math.prod(chance[x] for x in drawn)
    for confidence in (0.5, 0.95, 0.999):
        width = weighted_half_width(law, weights, confidence)
        inside = sum(chance for place, chance in total.items() if place <= width)
        assert inside >= confidence - 1e-12, confidence
        assert width == 0 or inside - total.get(width, 0.0) < confidence + 1e-6, confidence


def test_no_weight_needs_no_width() -> None:
    assert weighted_half_width(LAWS[0], (0, 0), 0.95) == 0
