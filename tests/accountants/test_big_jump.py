"""Few or weak steps at a small delta, where one big loss decides (contour/jump.py).

The loss is cut into a small and a big part, each with its own error. References: values of thirty digits, quadrature, cuts at other places,
and tests of a single outcome, which no bound may undercut.
"""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from dpcli.accountants.exact import ExactProfile
from dpcli.base.errors import NotRepresentable
from dpcli.mechanisms.noise.gaussian_spec import SampledGaussian
from dpcli.mechanisms.noise.normal_mixture import MixtureAddLoss, MixtureRemoveLoss
from dpcli.numerics.contour import certified
from dpcli.numerics.contour.cut import CutLoss
from dpcli.numerics.contour.jump import jump
from dpcli.numerics.contour.jump_levels import cuts, epsilon_by_jump
from dpcli.numerics.contour.stretched import Stretched
from dpcli.numerics.logspace import log_ndtr
from dpcli.numerics.mixture import binomial_mixture
from dpcli.numerics.quadrature import log_bernoulli
from tests.accountants.one_step import one
from tests.cases import of_each

# rate, noise multiplier, steps, delta, epsilon to the digits given: another implementation of the same split, with other ramps.
REFERENCES = (
    (1e-7, 0.7, 10**5, 1e-10, "0.000591782884"),
    (1e-7, 0.7, 10**6, 1e-10, "0.001277799929"),
    (1e-6, 0.8, 10**4, 1e-9, "0.001094597595"),
    (1e-8, 0.5, 10**9, 1e-10, "0.03174"),
    (1e-7, 0.5, 10**8, 1e-10, "0.277072"),
    (1e-5, 0.6, 1000, 1e-7, "0.0295716"),
    (1e-5, 0.8, 100, 1e-8, "0.00294665"),
    (1e-4, 1.0, 20, 1e-6, "0.00306041"),
    (1e-3, 1.0, 10, 1e-6, "0.044097704"),
)


def loss_of(rate: float, noise: float, records: int = 1) -> MixtureRemoveLoss:
    return MixtureRemoveLoss(binomial_mixture(1.0 / noise, rate, records))


def interval(rate: float, noise: float, steps: int, delta: float) -> tuple[float, float] | None:
    """Return the interval of epsilon; None where it is refused."""
    try:
        bound = ExactProfile(((SampledGaussian(1.0 / noise, rate), steps),)).epsilon(delta)
    except NotRepresentable:
        return None
    assert bound.lower is not None
    return bound.lower, bound.upper


@pytest.mark.long
def test_noise_so_small_that_floats_do_not_tell_outcomes_apart() -> None:
    """At least 50 of 10,000 steps at a rate of 1 % draw the record, except with probability 1e-7. Each loses about 1 / (2 noise^2)."""
    for noise in (1e-8, 1e-10, 1e-20, 1e-90):
        ends = interval(0.01, noise, 10_000, 1e-6)
        assert ends is None or ends[1] > 25.0 / noise**2, noise


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("rate", "noise", "steps", "delta", "epsilon"), REFERENCES)
def test_the_reference_values_are_met_and_turned_round(rate: float, noise: float, steps: int, delta: float, epsilon: str) -> None:
    """The last digit given may be off by one and a half (1e-7 beside it, for what the narrowest interval leaves)."""
    ends = interval(rate, noise, steps, delta)
    assert ends is not None
    digit = 10.0 ** -len(epsilon.split(".")[1])
    tolerance = max(1.5 * digit, 1e-4 * float(epsilon) if len(epsilon) < 8 else 0.0, 2e-7 * float(epsilon))
    assert ends[0] - tolerance <= float(epsilon) <= ends[1] + tolerance
    assert ends[1] - ends[0] <= 2e-7 * ends[1]
    found = ExactProfile(((SampledGaussian(1.0 / noise, rate), steps),)).delta(ends[1])
    assert found.lower is not None
    assert found.lower * (1.0 - 1e-9) <= delta
    assert found.upper == pytest.approx(delta, rel=1e-5, abs=0.0)


def test_what_was_shown_holds_when_another_way_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise NotRepresentable("it would take more work than one question may cost")

    monkeypatch.setattr(certified, "attempts", refused)
    monkeypatch.setattr(certified, "smoothed_pairs", refused)
    monkeypatch.setattr(certified, "NARROW_AFTER_JUMP", 0.0)
    found = certified.epsilon_between(((loss_of(1e-6, 0.8), 10**4),), math.log(1e-9))
    assert found is not None
    assert found[0] <= 0.0010945975955 and 0.0010945975945 <= found[1] <= 0.00109460
    with pytest.raises(NotRepresentable):
        certified.epsilon_between(((MixtureAddLoss(binomial_mixture(1.0, 0.01, 1)), 10),), math.log(1e-9))


RATES, NOISES = st.floats(-9.0, -1.0), st.floats(math.log10(0.4), math.log10(20.0))


@pytest.mark.long
@given(RATES, NOISES, st.integers(2, 10**6), st.floats(-12.0, -4.0), st.floats(1.1, 3.0))
def test_cuts_at_different_places_agree(rate: float, noise: float, steps: int, delta: float, higher: float) -> None:
    """Every cut certifies by itself, so all intervals hold the same delta."""
    losses, log_delta = ((loss_of(10.0**rate, 10.0**noise), steps),), delta * math.log(10.0)
    other = None
    with suppress(NotRepresentable), np.errstate(all="ignore"):
        found = epsilon_by_jump(losses, log_delta)
        assume(found is not None and found[0] > 0.0 and found[1] < 3.0)
        assert found is not None
        level = 1.3 * higher * found[1]
        parts = cuts(losses, level, log_delta - 28.0)
        other = None if parts is None else jump(parts, log_delta, found[1], level)
    assume(other is not None)
    assert other is not None
    assert other.log_delta(found[1])[0] <= log_delta * (1.0 - 1e-12)
    assert other.log_delta(found[0])[1] >= log_delta * (1.0 + 1e-12)


@of_each(("rate", "noise", "steps", "delta"), [case[:4] for case in REFERENCES])
def test_a_cut_far_too_low_still_certifies(rate: float, noise: float, steps: int, delta: float) -> None:
    """Losses that are big and yet fall short of epsilon widen the interval; they may not be forgotten."""
    losses, log_delta = ((loss_of(rate, noise), steps),), math.log(delta)
    ends = interval(rate, noise, steps, delta)
    assert ends is not None
    with np.errstate(all="ignore"):
        for share in (0.35, 0.5, 0.7, 0.85):
            parts = cuts(losses, share * ends[1], log_delta - 28.0)
            assert parts is not None
            found = jump(parts, log_delta, ends[1], ends[1])
            if found is not None:
                assert found.log_delta(ends[1])[0] <= log_delta
                assert found.log_delta(ends[0])[1] >= log_delta


@pytest.mark.parametrize(("rate", "noise", "steps", "level"), [(0.03, 0.35, 3, 0.6), (0.1, 0.35, 10, 0.9), (0.3, 0.35, 10, 1.2)])
def test_bounds_hold_far_above_the_cut(rate: float, noise: float, steps: int, level: float) -> None:
    """If e^eps Q(A) exceeds 1, outcomes below epsilon may weigh more than 1. The upper bound still covers one step's own delta."""
    with np.errstate(all="ignore"):
        parts = cuts(((loss_of(rate, noise), steps),), level, math.log(1e-3) - 28.0)
        found = None if parts is None else jump(parts, math.log(1e-3), 3.0, 3.0)
    assert found is not None
    big = found.mass_difference + found.big_mass
    for epsilon in (np.log1p(np.linspace(-0.5, 3.0, 200) * big) - math.log(found.big_mass)).tolist():
        assert math.exp(min(found.log_delta(epsilon)[1], 0.0)) >= one(rate, 1.0 / noise)(epsilon) * (1.0 - 1e-9)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("rate", "noise", "steps", "epsilon"),
    [(2e-8, 2.6, 9, 2.72e-7), (1e-3, 2.9, 12, 0.04), (0.15, 1.9, 15, 6.6), (1e-5, 5.4, 8, 1.2e-4)],
)
def test_delta_far_out_is_bounded_on_both_sides(rate: float, noise: float, steps: int, epsilon: float) -> None:
    """If the bulk at the tilt is no finite number, contours without the bulk are refused, and other methods answer."""
    found = ExactProfile(((SampledGaussian(1.0 / noise, rate), steps),)).delta(epsilon)
    assert found.lower is not None
    assert 0.0 < one(rate, 1.0 / noise)(epsilon) * (1.0 - 1e-6) <= found.upper
    assert found.lower <= found.upper <= 1.1 * found.lower < 1e-9


@pytest.mark.long
@given(RATES, NOISES, st.integers(1, 10**9), st.floats(-15.0, -2.0))
def test_never_below_what_counting_big_outcomes_shows(rate: float, noise: float, steps: int, delta: float) -> None:
    """A test of "some outcome is above c" is post-processing: P(A) - e^eps Q(A) <= delta at the epsilon claimed."""
    ends = interval(10.0**rate, 10.0**noise, steps, 10.0**delta)
    assume(ends is not None)
    assert ends is not None
    q, mu = 10.0**rate, 10.0**-noise
    for c in np.linspace(-1.0, 20.0, 85).tolist():
        tail, moved = math.exp(log_ndtr(-c)), math.exp(log_ndtr(mu - c))
        kept, fewer = steps * math.log1p(-tail), steps * math.log1p(-q * (moved - tail) / (1.0 - tail))
        shown = -math.exp(kept) * math.expm1(fewer) + math.expm1(min(ends[1], 700.0)) * math.expm1(kept)
        assert shown <= 10.0**delta * (1.0 + 1e-9)


@given(RATES, NOISES, st.floats(-4.0, 1.0), st.integers(1, 3))
def test_the_small_part_is_integrated_to_the_last_digits(rate: float, noise: float, level: float, records: int) -> None:
    """Nodes three times as dense give the same integrals, at tilts up to where the edge decides: what a node distance too large for the
    strip, or a strip that the weight does not allow, gets wrong."""
    loss = loss_of(10.0**rate, 10.0**noise, records)
    part = loss.cut(10.0**level, -40.0)
    assume(part is not None and len(part.ratio) < 6000)
    assert part is not None
    again = _finer(loss, 10.0**level)
    tilts = np.array([0.3, 3.0, 12.0]) / 10.0**level
    base = np.abs(again.change(tilts)) + again.big_mass + (tilts + 1.0) * again.mass_difference
    assert np.all(np.abs(part.change(tilts) - again.change(tilts)) <= 1e-11 * base)
    assert float(np.exp(part.log_density).sum()) + part.big_mass == pytest.approx(1.0, abs=1e-11)
    assert part.mass_difference == pytest.approx(again.mass_difference, rel=1e-11, abs=0.0)


@given(st.floats(-9.0, -1.0), st.floats(-0.4, 1.5), st.floats(-6.0, 1.0), st.floats(-90.0, -30.0))
@example(-8.4, 1.6, -3.3, -50.0)
@example(-1.6, 0.7, -0.35, -70.0)
@example(-2.0, 0.0, -3.0, -30.0)
def test_the_big_part_is_whole(rate: float, noise: float, level: float, log_mass: float) -> None:
    """Q(b) and P(b) - Q(b) on a wider window, however blunt the weight is beside the normal density."""
    loss = loss_of(10.0**rate, 10.0**noise)
    part = loss.cut(10.0**level, log_mass)
    assume(part is not None and part.big_mass > 1e-280)
    assert part is not None
    k, c = part.sharpness, part.edge
    h = 2.0 ** math.floor(math.log2(0.05 / k))  # nodes at multiples of a power of two: no distance is rounded
    x = h * np.arange(math.floor((min(c, 0.0) - 12.0) / h), math.ceil((max(c, 0.0) + loss.mixture.reach + 12.0) / h))
    base, ratio = loss.line(x)
    weights = np.exp(base) * -np.expm1(-np.exp(np.minimum(k * (x - c), 40.0))) * h
    assert part.big_mass == pytest.approx(float(weights.sum()), rel=1e-12, abs=0.0)
    assert part.mass_difference == pytest.approx(float(weights @ np.expm1(ratio)), rel=1e-12, abs=0.0)


def _finer(loss: MixtureRemoveLoss, level: float) -> CutLoss:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"STEP_OVER_STRIP": 0.149, "MAX_STEP": 0.3, "FAR_STEP": 0.14}.items():
            patch.setattr(f"dpcli.numerics.contour.cut.{name}", value / 3.0)
        patch.setattr("dpcli.numerics.contour.cut.MOST_NODES", 10**6)
        found = loss.cut(level, -40.0)
    assert found is not None
    return found


@given(st.floats(0.02, 4.0), st.floats(-2.0, 12.0), st.floats(-15.0, 15.0))
def test_the_stretched_line_and_its_inverse(slope: float, bend: float, x: float) -> None:
    line = Stretched(slope, bend)
    assume(slope * (x - bend) < 12.0)
    v = line.back(x)
    back, log_rise = line.at(np.array([v, v + 1e-30j])) if v else line.at(np.array([v]))
    assert float(back[0].real) == pytest.approx(x, rel=1e-12, abs=1e-11 / slope)
    h = 1e-4 * max(1.0, abs(v) * 1e-3)
    ahead, behind = (float(line.at(np.array([v + sign * h]))[0][0]) for sign in (1.0, -1.0))
    assert math.exp(float(log_rise[0].real)) == pytest.approx((ahead - behind) / (2.0 * h), rel=1e-5)


@given(st.floats(-11.0, -0.2), st.floats(math.log10(0.3), math.log10(40.0)), st.floats(-3.0, 1.5))
def test_the_other_direction_at_orders_where_its_loss_matters(rate: float, noise: float, share: float) -> None:
    """K of the add direction at z = share / rate, with nodes eight times as dense: it is an upper bound, by no more than its slack."""
    q, mu = 10.0**rate, 10.0**-noise
    loss, z = MixtureAddLoss(binomial_mixture(mu, q, 1)), 10.0 ** (share - rate)
    step = loss.step(z) / 8.0
    low, high = loss.window(z)
    assume((high - low) / step < 60_000)
    base, ratio = loss.line(np.arange(low - 2.0, max(high, 2.0 * mu + 10.0), step))
    dense = float(np.exp(np.logaddexp.reduce(base + log_bernoulli(np.array([[z]]), ratio)[0])) * step)
    found = float(loss.cgf(np.array([z]))[0])
    assert math.log1p(dense) <= found * (1.0 + 1e-13)
    if (high - low) / loss.step(z) < 16_000:
        assert found <= math.log1p(dense) * (1.0 + 4e-12)
