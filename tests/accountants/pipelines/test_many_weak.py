"""Hundreds of different weak steps, and heavy tails next to bounded losses, in the exact accountant, which cuts each loss into a small and
a big part: against dense quadrature, against cuts of one part alone, and against the grid.
"""

from __future__ import annotations

import math
import random
from contextlib import suppress
from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dpcli.accountants.base import Bound, Steps, join_equal_steps
from dpcli.accountants.directions import directions
from dpcli.accountants.exact import ExactProfile
from dpcli.accountants.pld import PldProfile
from dpcli.base.errors import InternalError, NotRepresentable
from dpcli.exam.subjects import SEED
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.gaussian_spec import SampledGaussian
from dpcli.mechanisms.noise.laplace import Laplace
from dpcli.mechanisms.noise.normal_mixture import MixtureRemoveLoss
from dpcli.mechanisms.stated.pure_and_approx import Pure
from dpcli.numerics.contour import cut_rows as rows_module
from dpcli.numerics.contour import jump_levels
from dpcli.numerics.contour.cut_rows import CutRows, cut_rows
from dpcli.numerics.contour.jump import jump
from dpcli.numerics.contour.tilted_rows import _products_and_difference
from dpcli.numerics.mixture import ShiftedRemove, binomial_mixture
from dpcli.numerics.work import limited
from tests.accountants.one_step import one
from tests.cases import by_tier, tiered


def weak(count: int, seed: int) -> Steps:
    """Draw different single steps with rates of 1e-7 to 1e-3 and noise of .5 to 2."""
    source = random.Random(seed)
    return tuple((SampledGaussian(1.0 / source.uniform(0.5, 2.0), 10.0 ** source.uniform(-7.0, -3.0)), 1) for _ in range(count))


def schedule(count: int) -> Steps:
    """Return steps of one rate with noise that grows a little from step to step."""
    return tuple((SampledGaussian(1.0 / (0.8 + 0.3 * i / count), 1e-3), 1) for i in range(count))


STRONG: Steps = ((SampledGaussian(1.0, 0.05), 20), (Gaussian(0.2), 1), (SampledGaussian(1.25, 0.01), 5))


@limited
def asked(steps: Steps, delta: float) -> Bound:
    return ExactProfile(steps).epsilon(delta)


def answered(steps: Steps, delta: float) -> tuple[float, float]:
    """Return an interval that is narrow, found within the work that one command may cost."""
    found = asked(steps, delta)
    assert found.lower is not None
    assert found.lower <= found.upper <= found.lower * (1.0 + 1e-6)
    return found.lower, found.upper


@pytest.mark.long
@pytest.mark.parametrize("delta", tiered([1e-5, 1e-10], 1, 1))
def test_a_hundred_weak_steps_are_answered(delta: float) -> None:
    """The interval is narrow, and its lower end is at least that of half of the steps."""
    for steps in (weak(100, SEED), schedule(100), weak(60, SEED) + STRONG):
        low, high = answered(steps, delta)
        fewer, _ = answered(steps[: len(steps) // 2], delta)
        assert fewer <= low <= high, SEED


@pytest.mark.long
@pytest.mark.parametrize("steps", by_tier(40, 600, None))
def test_a_dozen_at_a_delta_far_down_is_answered(steps: int) -> None:
    """Wider than elsewhere, as what fails first must leave enough work to what serves."""
    parts = tuple((SampledGaussian(1.0 / (2.0 + 0.03 * i), 1.2e-4 + 1e-5 * i), 1 + (steps * i) // 12) for i in range(12))
    found = asked(parts, 7.6e-26)
    assert found.lower is not None
    assert 0.0 < found.lower <= found.upper <= found.lower * (1.0 + 1e-5)


@pytest.mark.sampled(2, 1)
@pytest.mark.parametrize("count", by_tier(1, 12, None))
@pytest.mark.parametrize("epsilon", [1.6e5, 4e6])
def test_delta_where_it_is_below_all_numbers_is_a_bound_or_refused(count: int, epsilon: float) -> None:
    parts = tuple((SampledGaussian(1.0 + 0.01 * i, 0.1), 10**7 // count) for i in range(count))
    with suppress(NotRepresentable):
        found = limited(lambda: ExactProfile(parts).delta(epsilon))()
        assert 0.0 <= (found.lower or 0.0) <= found.upper <= 1e-8


@pytest.mark.nightly
@pytest.mark.parametrize("delta", tiered([1e-5, 1e-7, 1e-10], 0, 1))
def test_a_thousand_weak_steps_are_answered(delta: float) -> None:
    for steps in (weak(1000, SEED), schedule(1000), weak(1000, SEED) + STRONG):
        answered(steps, delta)


@pytest.mark.parametrize("copies", [3, 40])
def test_many_that_hardly_differ_are_as_many_of_one(copies: int) -> None:
    """Noise that differs by 1e-10: between as many steps of the weakest and of the strongest."""
    steps = tuple((SampledGaussian(1.25 * (1.0 + 1e-10 * i), 1e-4), copies) for i in range(10))
    low, high = answered(steps, 1e-7)
    least, most = (answered(((SampledGaussian(mu, 1e-4), 10 * copies),), 1e-7) for mu in (1.25, 1.25 * (1.0 + 1e-9)))
    assert least[0] <= high
    assert low <= most[1]


def drawn(source: random.Random) -> tuple[Steps, float]:
    """Draw a few steps, some of them several times, in a part of the range."""
    low, noise = source.uniform(-8.0, -2.0), 10.0 ** source.uniform(-0.4, 1.0)
    high = min(low + source.uniform(0.0, 4.0), -0.8)
    steps = tuple(
        (
            SampledGaussian(1.0 / (noise * source.uniform(1.0, 3.0)), 10.0 ** source.uniform(low, high)),
            source.choice((1, 1, 2, 7, 1000)),
        )
        for _ in range(source.randint(6, 12))
    )
    return steps, source.uniform(-30.0, -8.0)


@pytest.mark.nightly
@pytest.mark.long
@given(st.integers(0, 10**9))
def test_rows_agree_with_parts_cut_one_by_one(seed: int) -> None:
    """Two divisions, two lines of integration: both intervals hold the truth."""
    steps, log_delta = drawn(random.Random(seed))
    losses = directions(join_equal_steps(steps))[0]
    try:
        here = jump_levels.epsilon_by_jump(losses, log_delta)
        with mock.patch.object(jump_levels, "FEWEST_IN_TABLE", 10**9):
            there = jump_levels.epsilon_by_jump(losses, log_delta)
    except NotRepresentable:
        here = there = None
    assume(here is not None and there is not None)
    assert here is not None
    assert there is not None
    assert here[0] <= there[1]
    assert there[0] <= here[1]
    assert here[1] - here[0] <= 1e-5 * here[1]


ROWS = ShiftedRemove(np.array([0.7, 0.9, 1.1, 1.2]), np.array([1e-3, 1e-5, 2e-4, 1e-7]))
COUNTS = np.array([1.0, 3.0, 200.0, 1.0])


def cut(level: float = 0.1, log_mass: float = -40.0) -> CutRows:
    found = cut_rows(ROWS, COUNTS, level, log_mass)
    assert found is not None
    return found


def dense(found: CutRows, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(weights of Q at outcomes, log r, 1 - b), evenly spaced in the outcome."""
    x = np.arange(-14.0, 60.0, 2e-4)
    mu, q = float(ROWS.shifts[row]), float(ROWS.weights[row])
    ratio = np.log1p(q * np.expm1(np.minimum(mu * x - 0.5 * mu * mu, 650.0)))
    w = mu * x - 0.5 * mu * mu + math.log(q) - math.log1p(-q)
    small = np.exp(-np.exp(np.minimum(found.nodes.sharpness * (w - found.nodes.edge), 40.0)))
    return np.exp(-0.5 * x * x) * (2e-4 / math.sqrt(2.0 * math.pi)), ratio, small


@pytest.mark.parametrize("level", [1e-3, 0.1, 2.5])
def test_moments_of_rows_are_those_of_a_dense_rule(level: float) -> None:
    """The big part to 1e-9 of itself, where it is not left out; the small part's moments within their own error."""
    found = cut(level)
    z = np.array([0.5, 3.0, 12.0]) / level
    change, error = found.changes(z)
    power = z[1:]
    log_whole, log_share = found.log_inverse_moments(power)
    wholes, shares = np.zeros(2), np.zeros(2)
    for row in range(len(COUNTS)):
        weights, ratio, small = dense(found, row)
        big = float(weights @ (1.0 - small))
        if found.left_out_masses[row] == 0.0:
            assert found.big_masses[row] == pytest.approx(big, rel=1e-9, abs=1e-17)
            assert found.mass_differences[row] == pytest.approx(
                float(weights @ ((1.0 - small) * np.expm1(ratio))), rel=1e-9, abs=1e-17
            )
        else:
            assert float(weights @ ((1.0 - small) * np.exp(ratio))) <= found.left_out_masses[row] <= math.exp(-40.0)
        for k, order in enumerate(z.tolist()):
            exact = float(weights @ (small * np.expm1((order + 1.0) * np.where(small > 0.0, ratio, 0.0)))) - big
            assert change[row, k] == pytest.approx(exact, abs=max(error[row, k], 1e-12 * (1.0 + abs(exact))))
        for k, order in enumerate(power.tolist()):
            whole, part = float(weights @ np.expm1(-order * ratio)), float(weights @ ((1.0 - small) * np.exp(-order * ratio)))
            wholes[k] += COUNTS[row] * math.log1p(whole)
            shares[k] += COUNTS[row] * part / (1.0 + whole) if found.left_out_masses[row] == 0.0 else 0.0
    assert np.all(log_whole >= wholes - 1e-15)
    assert np.all(np.exp(log_share) >= shares * (1.0 - 1e-9) - 1e-25)


@pytest.mark.long
@pytest.mark.parametrize("tilt", [3.0, 40.0])
def test_transforms_of_rows_are_those_of_a_dense_rule(tilt: float) -> None:
    """The product of the characteristic functions, what is left of it without the bulk, and the bounds on both."""
    found = cut()
    tilted = found.tilted(tilt)
    step, count = 9.0, 60
    split = tilted.split(0.02)
    k, place = found.ramp_place(0.02)
    log_phi = tilted.centred(step, count, -32.0)
    log_both, log_less = split.centred(step, count, -32.0, -50.0)
    at = np.array([0, 1, 7, 30, 59])
    whole, bulk = np.ones(len(at), dtype=complex), np.ones(len(at), dtype=complex)
    for row in range(len(COUNTS)):
        weights, ratio, small = dense(found, row)
        weights = weights * small * np.exp((tilt + 1.0) * np.where(small > 0.0, ratio, 0.0))
        weights /= weights.sum()
        log_odds = np.log(np.maximum(np.exp(ratio - found.log_rests[row]) - 1.0, 1e-300))
        share = np.exp(-np.exp(np.minimum(k * (log_odds - place), 40.0)))
        turned = np.exp(1j * step * at[:, None] * ratio)
        whole *= (turned @ weights) ** COUNTS[row]
        bulk *= (turned @ (weights * share)) ** COUNTS[row]
    y = step * at
    centre = np.exp(-1j * y * tilted.mean)
    assert np.exp(log_phi[at]) == pytest.approx(whole * centre, abs=1e-10)
    assert np.exp(log_both[at]) == pytest.approx(whole * centre, abs=1e-10)
    rest = (whole - bulk) * centre
    assert np.exp(log_both[at]) * -np.expm1(log_less[at]) == pytest.approx(rest, rel=1e-6, abs=1e-10)
    assert np.all(np.log(np.abs(whole[1:])) <= tilted.decay(y[1:]) + 1e-9)
    assert np.all(np.log(np.abs(rest[1:])) <= split.decay(y[1:]) + 1e-9)


def test_a_difference_of_products_keeps_its_digits() -> None:
    """The products differ by 1e-18 of themselves; counts enter by logarithms."""
    less, beyond = np.full((3, 1), -1e-3 + 2e-3j), np.full((3, 1), 1e-19 - 2e-19j)
    rests, counts = np.full(3, 3e-19 + 0.0j), np.array([1.0, 40.0, 1.0])
    both, _, gap = _products_and_difference(less, beyond, rests, counts)
    phi = 1.0 - 1e-3 + 2e-3j
    assert gap[0] == pytest.approx(42.0 * (4e-19 - 2e-19j) * phi**41, rel=1e-12, abs=0.0)
    assert both[0] == pytest.approx(phi**42, rel=1e-13)


@pytest.mark.parametrize("share", [0.35, 0.6, 1.0])
def test_rows_cut_too_low_and_left_out_too_soon_still_certify(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Big losses that fall short of epsilon, and rows whose big part is left out although it matters, widen the interval only."""
    steps = tuple((SampledGaussian(mu, rate), 3) for mu in (0.55, 0.6, 0.7, 0.8) for rate in (1e-3, 3e-5, 1e-6))
    losses, log_delta = directions(join_equal_steps(steps))[0], math.log(1e-6)
    low, high = answered(steps, 1e-6)
    with np.errstate(all="ignore"):
        rows, _ = jump_levels.in_rows(losses)
        assert rows is not None
        for sharper, log_mass in ((rows_module.LEAST_SHARPNESS, -40.0), (1e9, 1e4)):  # at last every row's is left out
            monkeypatch.setattr(rows_module, "LEAST_SHARPNESS", sharper)
            part = cut_rows(rows.table, rows.counts, share * high, log_mass)
            assert part is not None
            found = jump(((part, 1),), log_delta, high, high)
            assert found is not None
            assert found.log_delta(high)[0] <= log_delta
            assert found.log_delta(low)[1] >= log_delta
        assert part.left_out_mass > 1e-8  # as much as decides


def test_what_is_left_out_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows all of which are only capped: what is left is less than delta, and the bound is not."""
    steps = tuple((SampledGaussian(mu, rate), 1) for mu in (0.26, 0.28, 0.3, 0.32) for rate in (1e-4, 9e-5, 5e-5))
    low, high = answered(steps, 1e-14)
    rows, _ = jump_levels.in_rows(directions(join_equal_steps(steps))[0])
    assert rows is not None
    monkeypatch.setattr(rows_module, "LEAST_SHARPNESS", 1e9)
    with np.errstate(all="ignore"):
        part = cut_rows(rows.table, rows.counts, high, 1e4)
        assert part is not None
        found = jump(((part, 1),), math.log(1e-14), high, high)
    assert found is not None
    assert found.small.log_delta(low)[1] < math.log(1e-14) - 1e-7
    assert found.log_delta(low)[1] >= math.log(1e-14)


def test_no_step_is_lost_between_rows_and_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rate above the level is for a part of its own; whoever forgets it is found out."""
    steps = (*weak(8, 1), (SampledGaussian(1.0, 0.3), 2))
    losses = directions(join_equal_steps(steps))[0]
    parts = jump_levels.cuts(losses, 0.1, -40.0)
    assert parts is not None
    assert math.fsum(n * part.steps for part, n in parts) == 10.0
    half = cut_rows

    def forgetful(rows: ShiftedRemove, counts: np.ndarray, level: float, log_mass: float) -> CutRows | None:
        return half(rows.at(np.arange(2)), counts[:2], level, log_mass)

    monkeypatch.setattr(jump_levels, "cut_rows", forgetful)
    with pytest.raises(InternalError):
        jump_levels.cuts(losses, 0.1, -40.0)


def test_rows_that_nothing_suits_are_cut_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    steps, delta = weak(8, 2), 1e-7
    low, high = answered(steps, delta)
    monkeypatch.setattr(rows_module, "MOST_NODES", 1)
    again = jump_levels.epsilon_by_jump(directions(join_equal_steps(steps))[0], math.log(delta))
    assert again is not None
    assert low <= again[1]
    assert again[0] <= high


def beside_atoms(atoms: list[tuple[float, float]], rate: float, mu: float, epsilon: float) -> float:
    """Return delta of a sampled Gaussian beside a loss with these (value, probability): E[delta(eps - L)]."""
    delta = one(rate, mu)
    return math.fsum(p * delta(epsilon - value) for value, p in atoms)


def laplace_atoms(e0: float, cells: int = 4000) -> list[tuple[float, float]]:
    """Return Laplace's loss as atoms: those at both ends, and e^{(l - e0)/2} / 4 between, by Simpson's rule."""
    grid = np.linspace(-e0, e0, cells + 1)
    rule = np.where(np.arange(cells + 1) % 2 == 1, 4.0, 2.0)
    rule[[0, -1]] = 1.0
    inner = 0.25 * np.exp(0.5 * (grid - e0)) * rule * (2.0 * e0 / cells / 3.0)
    return [(e0, 0.5), (-e0, 0.5 * math.exp(-e0)), *zip(grid.tolist(), inner.tolist(), strict=True)]


def response_atoms(e0: float) -> list[tuple[float, float]]:
    kept = 1.0 / (1.0 + math.exp(-e0))
    return [(e0, kept), (-e0, 1.0 - kept)]


BESIDE = ((Pure(0.02), response_atoms(0.02)), (Laplace(0.05), laplace_atoms(0.05)))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("other", "atoms"), BESIDE)
@pytest.mark.parametrize(("rate", "noise", "delta"), [(1e-4, 0.4, 1e-6), (1e-5, 0.5, 1e-8), (1e-3, 0.6, 1e-5), (1e-6, 0.35, 1e-9)])
def test_a_heavy_tail_beside_a_bounded_loss(
    other: Mechanism, atoms: list[tuple[float, float]], rate: float, noise: float, delta: float
) -> None:
    """One sampled Gaussian and one loss without a cut: delta at either end is on its side, by a sum of closed forms."""
    steps: Steps = ((SampledGaussian(1.0 / noise, rate), 1), (other, 1))
    low, high = answered(steps, delta)
    assert beside_atoms(atoms, rate, 1.0 / noise, high) <= delta * (1.0 + 1e-8)
    assert beside_atoms(atoms, rate, 1.0 / noise, low) >= delta * (1.0 - 1e-8)


def test_a_gaussian_beside_a_heavy_tail_has_no_cut() -> None:
    """An unsampled Gaussian is divided like a bounded loss; the tail decides, and the grid agrees."""
    steps: Steps = ((SampledGaussian(1.0 / 0.4, 1e-4), 100), (Gaussian(0.01), 1), (Laplace(0.01), 2))
    low, high = answered(steps, 1e-6)
    grid = PldProfile(steps).epsilon(1e-6)
    assert grid.lower is not None
    assert grid.lower <= high
    assert low <= grid.upper


def test_what_does_not_say_how_its_reverse_looks_is_not_divided() -> None:
    """A loss without a cut must claim its mirror image: nothing is taken for granted."""
    losses = ((MixtureRemoveLoss(binomial_mixture(1.0, 1e-4, 1)), 3), (object(), 1))
    assert jump_levels.cuts(losses, 0.1, -40.0) is None  # type: ignore[arg-type]
