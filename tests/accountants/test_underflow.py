"""No accountant says that nothing was spent because a square, a sum or a delta fell below what a float holds."""

from __future__ import annotations

import pytest

from dpcli.errors import DpcliError
from dpcli.mechanisms.choice.exponential import ExponentialChoice
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.laplace import Laplace
from dpcli.mechanisms.noise.no_privacy import SMALLEST_RATIO
from dpcli.mechanisms.stated.pure_and_approx import StatedPure
from dpcli.numerics.work import COMMAND, allowance
from dpcli.registry import ACCOUNTANTS, load

# Of one step at a small epsilon (or mu): delta(0) over that. A smaller delta leaves an epsilon above 0, whatever comes on top.
ALONE = {StatedPure: 0.5, Laplace: 0.5, ExponentialChoice: 0.25, Gaussian: 0.3989}
SIZES = (1e-140, 1e-156, 1e-290, 2.3e-308)
SOUND = {name: load(place) for name, place in ACCOUNTANTS.items() if load(place).sound}


@pytest.mark.parametrize("kind", ALONE)
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] * one.heavy) for name, one in SOUND.items()])
def test_what_is_tiny_is_not_nothing(name: str, kind: type[Mechanism]) -> None:
    accountant = SOUND[name]
    for size in (max(size, SMALLEST_RATIO) if kind is Gaussian else size for size in SIZES):
        for count in (1, 10**18):
            for delta in (0.0, 0.2 * size):
                try:
                    with allowance(COMMAND), accountant.within_allowance():
                        bound = accountant.compose(((kind(size), count),)).epsilon(delta)  # type: ignore[call-arg]
                except DpcliError:
                    continue
                least = size - delta / ALONE[kind] if kind in (StatedPure, Laplace) else 5e-324
                assert bound.upper >= least * (1.0 - 1e-9), (size, count, delta, bound)
