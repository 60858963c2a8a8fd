"""Laws of noise (noise/laws.py) against 50-digit sums, and against the vectors of intervals."""

from __future__ import annotations

import json
import math

import mpmath
import numpy as np
import pytest

from dpcli.base.errors import InputError
from dpcli.release.noise.laws import DiscreteGaussianLaw, DiscreteLaplaceLaw, NoiseLaw, half_width, half_width_beyond
from tests.cases import of_each
from tests.command import ROOT

SCALES = (0.05, 0.3, 1.0, 2.5, 7.7, 61.3)
CASES = json.loads((ROOT / "tests/vectors/release_intervals.json").read_text())["cases"]
KINDS = {
    "interval-discrete-laplace": lambda case: DiscreteLaplaceLaw(case["scale"]),
    "interval-discrete-gaussian": lambda case: DiscreteGaussianLaw(case["sigma"]),
}


def masses(law: NoiseLaw) -> list[mpmath.mpf]:
    """P(X = 0), P(X = 1), ... of 50 digits, from the definition."""
    with mpmath.workdps(50):
        s = mpmath.mpf(law.spread)
        gaussian = law.__class__ is DiscreteGaussianLaw
        weights = [mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * s * s) if gaussian else -x / s) for x in range(int(60 * s) + 60)]
        total = 2 * sum(weights) - weights[0]
        return [weight / total for weight in weights]


@of_each("law", [make(scale) for make in (DiscreteLaplaceLaw, DiscreteGaussianLaw) for scale in SCALES])
def test_a_law_is_its_definition(law: NoiseLaw) -> None:
    exact = masses(law)
    for x in (0, 1, 2, 5, 40):
        if isinstance(law, DiscreteLaplaceLaw):
            assert law.log_probability(np.array([x, -x])) == pytest.approx(float(mpmath.log(exact[x])), rel=1e-12, abs=1e-13)
        tail = float(sum(exact[x:]))
        above, below = law.at_least(np.array([float(x), 1.0 - x]))
        if x > 0:
            assert tail * (1 - 1e-12) <= above <= tail + 2e-13
            assert below == pytest.approx(1.0 - tail, abs=2e-13)
        beyond = float(2 * sum(exact[x + 1 :]))
        assert beyond * (1 - 1e-13) <= law.exceeds(x) <= beyond * (1 + 1e-11) + 1e-320
    variance = float(2 * sum(x * x * p for x, p in enumerate(exact)))
    assert variance * (1 - 1e-9) <= law.variance <= max(variance, law.spread**2) * (1 + 1e-12)


@of_each("sigma", [2000.5, 30000.0])
@of_each("share", [0.0, 0.1, 0.7, 1.0, 2.0, 5.0])
def test_large_sigma_is_above_its_sum_and_close(sigma: float, share: float) -> None:
    x = np.arange(-12 * int(sigma), 12 * int(sigma) + 1.0)
    mass = np.exp(-0.5 * (x / sigma) ** 2)
    mass /= mass.sum()
    reach = int(share * sigma)
    law, exact = DiscreteGaussianLaw(sigma), float(mass[np.abs(x) > reach].sum())
    assert exact * (1 - 1e-11) <= law.exceeds(reach) <= exact * (1 + 1e-6) + 1e-8
    for at in (reach, -reach, reach + 1):
        exact = float(mass[x >= at].sum())
        assert exact - 1e-11 <= law.at_least(np.array([float(at)]))[0] <= exact + 1e-8


@of_each("case", CASES, told=lambda case: case["id"])
def test_half_width_is_the_vector(case: dict) -> None:
    law = KINDS[case["kind"]](case)
    assert half_width(law, case["confidence"]) == case["half_width"]
    assert 1.0 - law.exceeds(case["half_width"]) == pytest.approx(case["coverage"], rel=1e-12)


@of_each("make", [DiscreteLaplaceLaw, DiscreteGaussianLaw])
@of_each("scale", [0.1, 1.0, 33.3, 5000.0, 1e12])
@of_each("failure", [0.9, 0.05, 1e-9, 1e-200])
def test_half_width_is_the_smallest(make: type, scale: float, failure: float) -> None:
    law = make(scale)
    h = half_width_beyond(law, failure)
    assert law.exceeds(h) <= failure and (h == 0 or law.exceeds(h - 1) > failure)


@of_each("scale", [0.0, -1.0, math.nan, math.inf, 2.0**50 * 1.01])
@of_each("make", [DiscreteLaplaceLaw, DiscreteGaussianLaw])
def test_a_scale_without_a_law_is_refused(make: type, scale: float) -> None:
    with pytest.raises(InputError, match="of the noise above 0 and at most"):
        make(scale)


@of_each("failure", [0.0, 1.0, math.nan, 1e-301])
def test_an_impossible_confidence_is_refused(failure: float) -> None:
    with pytest.raises(InputError, match="probability of failure"):
        half_width_beyond(DiscreteLaplaceLaw(1.0), failure)
