"""Pairs given by their outcomes, atoms and pieces with an exponential density (numerics/contour/outcomes.py), alone and on Poisson samples.

K and the characteristic function are compared with mpmath, and bounds on its decay with its values far out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import mpmath as mp
import numpy as np
import pytest

from dpcli.exam.subjects import SEED
from dpcli.mechanisms.choice.exponential import RangeLoss
from dpcli.mechanisms.choice.randomized_response import RandomizedResponse
from dpcli.mechanisms.noise.discrete_gaussian import DiscreteGaussianLoss
from dpcli.mechanisms.noise.discrete_laplace import DiscreteLaplace
from dpcli.mechanisms.noise.laplace import LaplaceLoss
from dpcli.mechanisms.sampling.poisson import SampledAddLoss, SampledRemoveLoss, SampledReplaceLoss, outcomes_of
from dpcli.mechanisms.stated.atoms import TwoPointLoss
from dpcli.numerics.contour.outcomes import TiltedOutcomes, log_mixed
from tests.cases import fresh_random, tiered

Power = Callable[[mp.mpf], mp.mpc]


def laplace(e0: float, of: Callable[[mp.mpf, mp.mpf], mp.mpc], cuts: list[mp.mpf]) -> mp.mpc:
    """Return INT of(density of Lap(e0), density of Lap(0)) dx, in the original variable of the noise."""
    p = lambda x: mp.exp(-abs(x - e0)) / 2  # noqa: E731
    q = lambda x: mp.exp(-abs(x)) / 2  # noqa: E731
    return mp.quad(lambda x: of(p(x), q(x)), [-mp.inf, -5, 0, *cuts, e0, e0 + 5, mp.inf])


def range_pair(e0: float, of: Callable[[mp.mpf, mp.mpf], mp.mpc], cuts: list[mp.mpf]) -> mp.mpc:
    p = lambda x: mp.exp((e0 + x) / 2) / (2 * mp.expm1(e0))  # noqa: E731
    return mp.quad(lambda x: of(p(x), p(x) * mp.exp(-x)), [-e0, -e0 / 2, 0, *[2 * c - e0 for c in cuts], e0])


def moment(pair: Callable[..., mp.mpc], e0: float, rate: float, z: mp.mpc, way: str) -> mp.mpc:
    """Return E e^{z L'} of the sampled pair, from the densities."""
    s = lambda p, q: (1 - mp.mpf(rate)) * q + mp.mpf(rate) * p  # noqa: E731
    cuts = [mp.mpf(e0) * k / 8 for k in range(1, 8)]
    if way == "remove":
        return pair(e0, lambda p, q: s(p, q) * mp.exp(z * mp.log(s(p, q) / q)), cuts)
    if way == "add":  # the noise is symmetric: (P, Q) the other way round is its own mirror image
        return pair(e0, lambda p, q: q * mp.exp(z * mp.log(q / s(p, q))), cuts)
    above = pair(e0, lambda p, q: s(p, q) * mp.exp(z * mp.log(s(p, q) / q)) if p > q else mp.mpf(0), cuts)
    below = pair(e0, lambda p, q: q * mp.exp(z * mp.log(q / s(p, q))) if p > q else mp.mpf(0), cuts)
    masses = pair(e0, lambda p, q: s(p, q) + q if p > q else mp.mpf(0), cuts)
    return above + below + 1 - masses


def loss_of(inner: LaplaceLoss | RangeLoss, rate: float, way: str) -> SampledRemoveLoss | SampledAddLoss | SampledReplaceLoss:
    half = SampledRemoveLoss(inner, rate)
    return {"remove": half, "add": SampledAddLoss(inner, rate), "replace": SampledReplaceLoss(half)}[way]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("way", ["remove", "add", "replace"])
@pytest.mark.parametrize(
    ("e0", "rate", "t", "y"), tiered([(3.3, 0.01, 2.0, 40.0), (0.3, 0.2, 30.0, 9.0), (6.0, 1e-5, 0.4, 3.0)], 1)
)
def test_laplace_in_thirty_digits(way: str, e0: float, rate: float, t: float, y: float) -> None:
    check(laplace, LaplaceLoss(e0), rate, t, y, way)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("way", ["remove", "add", "replace"])
def test_a_bounded_range_in_thirty_digits(way: str) -> None:
    check(range_pair, RangeLoss(1.3), 0.05, 3.0, 25.0, way)


def check(pair: Callable[..., mp.mpc], inner: LaplaceLoss | RangeLoss, rate: float, t: float, y: float, way: str) -> None:
    loss = loss_of(inner, rate, way)
    with mp.workdps(30):
        base = moment(pair, inner.epsilon, rate, mp.mpf(t), way).real
        turned = moment(pair, inner.epsilon, rate, mp.mpc(t, y), way) / base
        cumulant = float(mp.log(base))
        expected = complex(mp.log(turned))
    ours = float(loss.cgf(np.array([t]))[0])
    assert cumulant * (1.0 - 1e-11) <= ours <= cumulant * (1.0 + 1e-11)
    tilted = loss.tilted(t)
    value = tilted.centred(y / 7.0, 8, -40.0)[-1] + 1j * y * tilted.mean
    assert value.real == pytest.approx(expected.real, abs=1e-11)
    assert np.exp(1j * value.imag) == pytest.approx(np.exp(1j * expected.imag), abs=1e-10)


def test_the_modulus_is_below_its_bound_everywhere_beyond() -> None:
    """The frequencies go from the first one to many revivals of the atoms."""
    random = Random(SEED)
    for _ in range(20):
        e0, rate, t = 10.0 ** random.uniform(-1.5, 1.0), 10.0 ** random.uniform(-5.0, -0.3), 10.0 ** random.uniform(-2.0, 2.5)
        inner = random.choice([LaplaceLoss(e0), RangeLoss(e0)])
        loss = loss_of(inner, rate, random.choice(["remove", "add", "replace"]))
        tilted = loss.tilted(t)
        step = 0.05 / math.sqrt(tilted.variance)
        y = step * np.arange(1.0, 1500.0)
        log_moduli = tilted.centred(step, 1500, -40.0).real[1:]
        furthest = np.maximum.accumulate(log_moduli[::-1])[::-1]
        assert (furthest <= tilted.decay(y) + 1e-9).all(), (loss, t)


def test_a_piece_has_all_of_the_mass() -> None:
    for e0 in (1e-6, 0.3, 3.0, 40.0, 300.0):
        for outcomes in (LaplaceLoss(e0).outcomes(), RangeLoss(e0).outcomes()):
            reference, ratio = outcomes.nodes(1.0)
            assert np.exp(reference).sum() == pytest.approx(1.0, rel=1e-12)
            assert np.exp(reference + ratio).sum() == pytest.approx(1.0, rel=1e-12)


def test_sampled_atoms_are_the_mixture_of_the_pairs() -> None:
    """The oracle adds the sampled pair up outcome by outcome."""
    at = np.array([0.1, 1.0, 7.0])
    for inner in (
        TwoPointLoss(0.7),
        RandomizedResponse(1.2, 4).losses()[0],
        DiscreteLaplace(2.0, 3).losses()[0],
        DiscreteGaussianLoss(1.5, 2),
    ):
        outcomes = inner.outcomes()
        q, p = np.exp(outcomes.log_reference), np.exp(outcomes.log_reference + outcomes.log_ratio)
        rate = 0.03
        mixed = (1.0 - rate) * q + rate * p
        with np.errstate(divide="ignore", invalid="ignore"):
            kept = (p > 1e-200) & (q > 1e-200)
            remove = [math.log(float((mixed * (mixed / q) ** z)[kept].sum())) for z in at]
            add = [math.log(float((p * (p / ((1.0 - rate) * p + rate * q)) ** z)[kept].sum())) for z in at]
        np.testing.assert_allclose(SampledRemoveLoss(inner, rate).cgf(at), remove, rtol=1e-10)
        np.testing.assert_allclose(SampledAddLoss(inner, rate).cgf(at), add, rtol=1e-10)


def test_the_path_above_the_real_line_says_the_same() -> None:
    """Far out, against the nodes on the real line, as many as that takes."""
    for e0, rate, t in ((3.3, 0.01, 2.0), (0.3, 0.2, 30.0), (6.0, 1e-5, 0.4), (20.0, 0.3, 0.1), (1.0, 0.5, 300.0)):
        for way in ("remove", "add", "replace"):
            for inner in (LaplaceLoss(e0), RangeLoss(e0)):
                tilted = loss_of(inner, rate, way).tilted(t)
                assert isinstance(tilted, TiltedOutcomes)
                for step in (1e-4 / math.sqrt(tilted.variance), 5.0 / math.sqrt(tilted.variance)):
                    change = np.exp(tilted._on_the_line(step, 6)) - 1.0
                    np.testing.assert_allclose(np.exp(tilted._above(step, 6)) - 1.0, change, atol=1e-11, rtol=1e-6)


@pytest.mark.parametrize("rest", [1e-14, 1e-12, 1e-8, 0.01, 0.5, 0.99, 1.0 - 1e-9])
def test_a_mixed_ratio_has_all_digits(rest: float) -> None:
    """At rates near 1 and losses far below 0 the terms of 1 + q (e^g - 1) cancel."""
    rate = 1.0 - rest
    ratios = np.array([-745.0, -30.0, -25.0, -18.0, -5.0, -0.7, -1e-9, 0.0, 1e-9, 0.7, 18.0, 60.0])
    with mp.workdps(40):
        exact = [mp.log1p(mp.mpf(rate) * mp.expm1(mp.mpf(g))) for g in ratios.tolist()]
        for found, expected in zip(log_mixed(rate, ratios).tolist(), exact, strict=True):
            assert abs(found - expected) <= 1e-15 * abs(expected), (rate, found, expected)


def test_the_atom_of_replaced_laplace_has_the_remaining_mass() -> None:
    """Under Q, the mass of equal likelihoods is (1 - rate) (1 - e^{-epsilon / 2}). The largest loss is that of the remove direction."""
    seed = fresh_random().getrandbits(32)
    source = Random(seed)
    for _ in range(20):
        e0, rate = 10.0 ** source.uniform(-3.0, 2.0), source.choice((1.0, 10.0 ** source.uniform(-4.0, 0.0)))
        pair = outcomes_of(LaplaceLoss(e0)).replaced(rate)
        error = math.exp(float(pair.log_reference[-1])) + (1.0 - rate) * math.expm1(-e0 / 2.0)
        assert abs(error) <= 1e-15 + 2e-16 * e0, (seed, e0, rate)
        assert pair.largest == pytest.approx(float(log_mixed(rate, np.array([e0]))[0]), rel=1e-14), (seed, e0, rate)
