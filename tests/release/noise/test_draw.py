"""Draws of noise (noise/samplers.py) against their law, and their price against OpenDP's."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction

import pytest

from dpcli.base.errors import InternalError, Unavailable
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.noise.discrete_gaussian import DiscreteGaussianSpec
from dpcli.mechanisms.noise.discrete_laplace import DiscreteLaplaceSpec
from dpcli.release.noise import samplers
from dpcli.release.noise.laws import DiscreteGaussianLaw, DiscreteLaplaceLaw, NoiseLaw
from dpcli.release.noise.samplers import draws, measurement, noisy
from tests.cases import of_each
from tests.release.privacy.chances import LAWS, SCALES, p_value

pytestmark = pytest.mark.needs("opendp")
SURE = 1e-9  # a right sampler falls below once in 10^9 tests


@pytest.mark.parametrize("count", [pytest.param(8000, marks=pytest.mark.long), pytest.param(50_000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("make", LAWS)
def test_noise_has_its_law(make: Callable[[float], NoiseLaw], count: int) -> None:
    for scale in (*SCALES, 3.3, 20_000.125, 2.0**49):
        law = make(scale)
        assert p_value(draws(count, law), law) > SURE, scale


@pytest.mark.parametrize("make", LAWS)
def test_large_values_keep_every_digit(make: Callable[[float], NoiseLaw]) -> None:
    """Beyond 64 bits, beyond doubles: what comes back differs by the noise alone."""
    values = [0, 2**127, -(2**127), 10**60 + 1, 2**63 - 1, -(2**63)]
    assert all(abs(got - value) < 400 for value, got in zip(values, noisy(values, make(3.0)), strict=True))


def test_draws_are_independent_and_none_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samplers, "BATCH", 7)
    drawn = draws(1000, DiscreteLaplaceLaw(1e9))
    assert len(drawn) == 1000 and len(set(drawn)) > 990
    assert draws(0, DiscreteLaplaceLaw(1.0)) == []


def test_noise_that_was_cut_off_is_never_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """A noise at the end of 64 bits would tell the value."""
    for end in (2**63 - 1, -(2**63)):
        monkeypatch.setattr(samplers, "measurement", lambda law, end=end: lambda zeros: [end] * len(zeros))
        with pytest.raises(InternalError, match="nothing was released"):
            noisy([5], DiscreteLaplaceLaw(1.0))


@of_each("scale", [0.3, 0.7, 1.0, math.pi, 10.0, 1000.25, 1e9 / 7])
@of_each("sensitivity", [1, 3, 20, 12345])
def test_opendp_asks_no_more_than_is_charged(scale: float, sensitivity: int) -> None:
    """Its privacy map is the exact rational, rounded up to a double; ours may be rounded to the nearest one: one ulp apart at most."""
    neighbours = Neighbours(Adjacency.ADD_REMOVE)
    ulp = 1 + Fraction(2, 2**52)
    if sensitivity / scale < 1000.0:
        charged = DiscreteLaplaceSpec(scale=scale, sensitivity=sensitivity).resolve(neighbours).approx_dp(0.0)
        assert Fraction(measurement(DiscreteLaplaceLaw(scale)).map(sensitivity)) <= Fraction(charged) * ulp
    if sensitivity / scale < 20.0:
        charged = DiscreteGaussianSpec(sigma=scale, l2_sensitivity=float(sensitivity)).resolve(neighbours).zcdp()
        asked = measurement(DiscreteGaussianLaw(scale)).map(float(sensitivity))
        assert Fraction(asked) <= Fraction(charged) * ulp**2


@pytest.mark.long
def test_neither_the_prelude_nor_numpy_is_imported() -> None:
    code = (
        "import sys; from dpcli.release.noise.samplers import noisy; from dpcli.release.noise.laws import DiscreteLaplaceLaw;"
        "assert 'opendp' not in sys.modules; noisy([1], DiscreteLaplaceLaw(2.0));"
        "assert 'opendp.measurements' in sys.modules and 'opendp.prelude' not in sys.modules and 'opendp.context' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@of_each("version", ["0.12.0", "0.14.1", "0.14.0.dev1", "unknown"])
def test_a_biased_version_is_refused(version: str) -> None:
    with pytest.raises(Unavailable, match=r"expected opendp 0\.14\.2 or later"):
        samplers.check_version(version)


@of_each("version", ["0.14.2", "0.16.0", "1.0", "0.15.1-dev"])
def test_a_sound_version_is_taken(version: str) -> None:
    samplers.check_version(version)
