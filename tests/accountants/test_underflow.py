"""No accountant says that nothing was spent because a square, a product, a sum or a delta fell below what a float holds.

Sizes go down to the smallest normal number and to subnormal ones; what is true is computed apart from them, in fractions and in mpmath.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction

import mpmath as mp
import pytest

from dpcli.accountants.base import Steps
from dpcli.base.errors import DpcliError
from dpcli.base.lazy import load
from dpcli.base.registry import ACCOUNTANTS, MECHANISMS
from dpcli.mechanisms.choice.exponential import ExponentialChoice
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.noise.additive import SMALLEST_RATIO
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.laplace import Laplace
from dpcli.mechanisms.sampling.poisson import PoissonSampled
from dpcli.mechanisms.stated.pure_and_approx import Free, StatedPure
from dpcli.mechanisms.stated.renyi import StatedZcdp
from dpcli.numerics.work import COMMAND, allowance

TINY = (1e-140, 1e-156, 1e-163, 1e-290, 1e-300, 2.2250738585072014e-308, 1e-310, 5e-324)
KINDS: tuple[Callable[[float], Mechanism], ...] = (StatedPure, Laplace, ExponentialChoice, Gaussian, StatedZcdp)
MANY = 10**18
NEVER_SILENT = {"basic": KINDS, "zcdp": KINDS, "gdp": (StatedPure, Laplace, ExponentialChoice, Gaussian), "advanced": KINDS}


def lost(kind: Callable[[float], Mechanism], size: float, count: int, delta: float) -> mp.mpf:
    """Return a lower bound on epsilon: at delta = 0 the exact sum in fractions, else epsilon of one step or of the normal limit."""
    if delta == 0.0 and kind in (StatedPure, Laplace, ExponentialChoice):
        exact = count * min(Fraction(size), Fraction(repr(size)))  # of a subnormal number these are not close
        return mp.mpf(exact.numerator) / exact.denominator
    if kind is Gaussian or kind is StatedZcdp or (kind is StatedPure and count > 1):
        mu = mp.sqrt(count) * (mp.sqrt(2 * mp.mpf(size)) if kind is StatedZcdp else mp.mpf(size))
        return mu * _normal_quotient(mp.mpf(delta) / mu) if delta > 0.0 else mp.inf
    if kind is StatedPure:  # one step: d = (e^s - e^eps) / (1 + e^s)
        return max(mp.mpf(0), mp.mpf(size) + mp.log1p(-mp.mpf(delta) * (1 + mp.exp(-mp.mpf(size)))))
    if kind is Laplace:  # one step: d = 1 - e^{(eps - s) / 2}
        return max(mp.mpf(0), mp.mpf(size) + 2 * mp.log1p(-mp.mpf(delta)))
    return mp.mpf(0)


def _normal_quotient(share: mp.mpf) -> mp.mpf:
    """Return a little less than eps / mu where delta / mu is `share` and mu is tiny: phi(x) - x Phi(-x) falls in x."""
    low, high = mp.mpf(0), mp.sqrt(2 * mp.log(1 / share)) if share < 1 else mp.mpf(0)
    for _ in range(60):
        x = (low + high) / 2
        low, high = (x, high) if mp.npdf(x) - x * mp.erfc(x / mp.sqrt(2)) / 2 > share else (low, x)
    return low


def epsilon(name: str, steps: Steps, delta: float) -> float | None:
    """Return the accountant's epsilon; None where it does not answer."""
    try:
        with allowance(COMMAND), load(ACCOUNTANTS[name]).within_allowance():
            return float(load(ACCOUNTANTS[name]).compose(steps).epsilon(delta).upper)
    except DpcliError:
        return None


@pytest.mark.sampled(6, 4)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * load(place).heavy) for name, place in ACCOUNTANTS.items()]
)
def test_what_is_tiny_is_not_nothing(name: str, kind: Callable[[float], Mechanism]) -> None:
    seed, answers = random.getrandbits(32), 0
    draw = random.Random(seed)
    bare = load(ACCOUNTANTS[name]).sound
    sizes = [*draw.sample(TINY, 4), *(10.0 ** draw.uniform(-323.0, -140.0) for _ in range(2))]
    for size in sizes if name != "exact" and name != "pld" else {max(size, SMALLEST_RATIO) for size in sizes}:
        unit = math.sqrt(size) if kind is StatedZcdp else size
        for count in (1, MANY):
            for delta in (0.0, 0.2 * unit, 10.0 ** draw.uniform(-12.0, -1.0) * unit, 1e-300):
                found = epsilon(name, ((kind(size), count),), delta)
                if found is None or delta > 0.5:
                    continue
                least, answers = lost(kind, size, count, delta), answers + 1
                assert found > 0.0 or least == 0, (seed, size, count, delta)
                assert not (bare or kind is Gaussian) or found >= least * (1 - mp.mpf(10) ** -9), (seed, size, count, delta, found)
    assert answers or kind not in NEVER_SILENT.get(name, ())


@pytest.mark.sampled(9)
@pytest.mark.parametrize("rate", [1e-3, *TINY])
@pytest.mark.parametrize("name", [name for name, place in ACCOUNTANTS.items() if not load(place).heavy])
def test_a_tiny_rate_is_not_nothing(name: str, rate: float) -> None:
    for size in (0.5, *TINY):
        found = epsilon(name, ((PoissonSampled(StatedPure(size), rate), 1),), 0.0)
        least = mp.log1p(mp.mpf(rate) * mp.expm1(mp.mpf(size)))
        assert found is None or found >= least * (1 - mp.mpf(10) ** -15), (size, found)
        assert epsilon(name, ((Free(), MANY),), 1e-6) in (0.0, None) or name not in ("basic", "zcdp", "gdp", "analytic")


@pytest.mark.parametrize("kind", MECHANISMS)
def test_rho_and_mu_of_what_is_tiny_are_not_nothing(kind: str) -> None:
    """Every type with each of its numbers at the end of what a float holds, on either side."""
    spec = load(MECHANISMS[kind])
    example = {key: tuple(stated) if isinstance(stated, list) else stated for key, stated in spec.example.items()}
    for key, stated in example.items():
        sizes = (*TINY, 1e150, 1e300, 1.7e308) if isinstance(stated, float) and stated > 1.0 else TINY  # a rate is none of these
        for size in sizes if isinstance(stated, float) else ():
            try:
                changed = spec(**{**example, key: size})
                mechanisms = () if list(changed.problems()) else (changed.resolve(Neighbours(Adjacency.ADD_REMOVE)),)
            except (DpcliError, ArithmeticError):
                continue
            for mechanism in mechanisms:
                for view in (mechanism.zcdp, mechanism.gdp, lambda of=mechanism: of.approx_dp(0.0)):
                    try:
                        found = view()
                    except DpcliError:
                        continue
                    assert found > 0.0 or mechanism == Free(), (key, size, view)
