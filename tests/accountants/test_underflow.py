"""No accountant says that nothing was spent because a square, a sum or a delta fell below what a float holds."""

from __future__ import annotations

import pytest

from dpcli.errors import DpcliError
from dpcli.mechanisms.choice.exponential import ExponentialChoice
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.laplace import Laplace
from dpcli.mechanisms.stated.pure_and_approx import StatedPure
from dpcli.registry import ACCOUNTANTS, load
from tests.cases import tiered

# Of one step at a small epsilon (or mu): delta(0) over that. A smaller delta leaves an epsilon above 0, whatever comes on top.
ALONE = {StatedPure: 0.5, Laplace: 0.5, ExponentialChoice: 0.25, Gaussian: 0.3989}
SIZES = (1e-140, 1e-156, 1e-200, 1e-290, 1e-300, 2.3e-308)


def cases() -> list[tuple[str, type[Mechanism]]]:
    sound = [name for name, place in ACCOUNTANTS.items() if load(place).sound]
    return [(name, kind) for name in sound for kind in ALONE]


@pytest.mark.parametrize(("name", "kind"), tiered(cases(), 8, 8))
def test_what_is_tiny_is_not_nothing(name: str, kind: type[Mechanism]) -> None:
    accountant = load(ACCOUNTANTS[name])
    for size in SIZES:
        for count in (1, 10**18):
            for delta in (0.0, 1e-3 * size, 0.2 * size):
                try:
                    bound = accountant.compose(((kind(size), count),)).epsilon(delta)  # type: ignore[call-arg]
                except DpcliError:
                    continue
                least = size - delta / ALONE[kind] if kind in (StatedPure, Laplace) else 5e-324
                assert bound.upper >= least * (1.0 - 1e-9), (size, count, delta, bound)
