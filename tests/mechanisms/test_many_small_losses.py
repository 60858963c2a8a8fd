"""What n steps do with the rounding of one: it must not grow n times, or beyond what the contour allows for."""

from __future__ import annotations

import math

import mpmath as mp
import pytest

from dpcli.accountants.exact import ExactProfile
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.laplace import Laplace, LaplaceLoss
from dpcli.mechanisms.stated.two_point import Pure
from dpcli.numerics.closed.normal import gaussian_epsilon


@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 1e-3, 0.1, 1.0, 30.0])
@pytest.mark.parametrize("t", [1e-3, 0.4, 3.0, 40.0])
def test_the_laplace_cgf_beside_high_precision(epsilon: float, t: float) -> None:
    """K(t + iy) - K(t) - iy K'(t), times as many steps as can be asked about: until n K(t) or n K'' y^2 is some hundreds."""

    def cgf(z: object) -> mp.mpc:
        e0, z = mp.mpf(epsilon), mp.mpmathify(z)
        return mp.log((z + 1) / (2 * z + 1) * mp.exp(z * e0) + z / (2 * z + 1) * mp.exp(-(z + 1) * e0))

    found = LaplaceLoss(epsilon).tilted(t)
    with mp.workdps(60):
        mean, variance = (mp.diff(cgf, mp.mpf(t), order) for order in (1, 2))
        for loss in (1e-12, 1e-8, 1e-3, 0.3):
            y = float(mp.sqrt(loss / variance))
            steps = max(1.0, min(600.0 / float(cgf(t)), 60.0 / loss))
            true = cgf(mp.mpc(t, y)) - cgf(t) - 1j * mp.mpf(y) * mean
            off = complex(mp.mpc(complex(found.centred(y, 2, -50.0)[1])) - true)
            turns = round(off.imag / (2.0 * math.pi))  # whole ones are none for whole numbers of steps
            assert steps * abs(off - 2j * math.pi * turns) < 2e-13 + 3e-15 * math.sqrt(steps) * max(
                1.0, y * float(mean) * math.sqrt(steps)
            )


@pytest.mark.parametrize("small", [Laplace, Pure])
@pytest.mark.parametrize(("steps", "epsilon"), [(10**12, 1e-8), (10**14, 1e-9), (10**9, 1e-7), (10**6, 1e-5)])
def test_very_many_very_small_losses_are_a_normal_one(small: type[Mechanism], steps: int, epsilon: float) -> None:
    """Twice the mean loss is the variance of the limit; what is beyond it is of relative size epsilon."""
    variance = 0.09 + steps * 2.0 * (epsilon + math.expm1(-epsilon) if small is Laplace else epsilon * math.tanh(0.5 * epsilon))
    if epsilon < 1e-4:  # the mean loses its digits: by its series
        variance = 0.09 + steps * epsilon**2 * (1.0 - epsilon / 3.0 if small is Laplace else 1.0)
    found = ExactProfile(((Gaussian(0.3), 1), (small(epsilon), steps))).epsilon(1e-6)  # type: ignore[call-arg]
    limit = gaussian_epsilon(math.sqrt(variance), 1e-6)[1]
    assert found.lower is not None
    assert found.lower <= limit * (1.0 + 3e-9) and found.upper >= limit * (1.0 - 3e-9)
    assert found.upper <= found.lower * (1.0 + 1e-7)
