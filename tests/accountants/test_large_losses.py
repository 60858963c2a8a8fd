"""A few sampled steps at tiny deltas, where many small losses and one large loss are about as likely (grid/large_losses.py).

The references are quadratures of this file (a lattice in long doubles, and an integral over one of two steps), and sums over all atoms.
"""

from __future__ import annotations

import math
from contextlib import suppress
from random import Random

import mpmath as mp
import numpy as np
import pytest

from dpcli.accountants.base import Bound
from dpcli.accountants.directions import directions
from dpcli.accountants.exact import ExactProfile
from dpcli.base.errors import NotRepresentable
from dpcli.mechanisms.noise.discrete_gaussian import DiscreteGaussian
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.gaussian_spec import SampledGaussian, SampledGaussianReplaced
from dpcli.mechanisms.noise.laplace import Laplace
from dpcli.mechanisms.sampling.poisson import PoissonSampled
from dpcli.mechanisms.stated.pure_and_approx import Pure
from dpcli.numerics.contour.certified import attempts, log_delta_between
from dpcli.numerics.contour.tilted import Losses
from dpcli.numerics.grid.large_losses import LEFT_OUT, large_losses, others_on
from dpcli.numerics.work import QUESTION, allowance
from tests.cases import by_tier, fresh_random

KINDS = (SampledGaussian, SampledGaussianReplaced)
CELLS = 500  # of the lattice between 0 and epsilon
Setting = tuple[type[SampledGaussian], float, float, int, float]  # kind, contribution over noise, rate, steps, log delta


def drawn(random: Random, kind: type[SampledGaussian], most: int) -> Setting:
    mu, rate = 10.0 ** random.uniform(-1.3, 0.3), 10.0 ** random.uniform(-6.0, -0.1)
    return kind, mu, rate, round(most ** random.uniform(0.5, 1.0)), -random.uniform(231.0, 690.0)


def asked(setting: Setting) -> Bound:
    kind, mu, rate, steps, log_delta = setting
    with allowance(QUESTION):
        return ExactProfile(((kind(mu, rate), steps),)).epsilon(math.exp(log_delta))


def one_step(kind: type[SampledGaussian], mu: float, rate: float, spacing: float, cells: int) -> np.ndarray:
    """Return P of one step's loss on a lattice from -cells to 2 cells; each outcome is divided between two points, which keeps P and Q.

    Losses beyond the lattice are put on its ends: they are far less likely than those that decide.
    """
    x = np.linspace(-45.0, 45.0 + mu, 100_001, dtype=np.longdouble)
    up = np.log1p(rate * np.expm1(mu * x - mu * mu / 2))
    down = np.log1p(rate * np.expm1(-mu * x - mu * mu / 2)) if kind is SampledGaussianReplaced else np.zeros_like(up)
    return on_lattice(up - down, np.exp(-x * x / 2 + up) * (x[1] - x[0]) / np.sqrt(2 * np.longdouble(math.pi)), spacing, cells)


def other_step(ratio: float, rate: float, laplace: bool, spacing: float, cells: int) -> np.ndarray:
    """P of a sampled step of Laplace noise, or of two answers, with this epsilon before sampling, on the same lattice."""
    inner = np.linspace(-ratio, ratio, 20_001, dtype=np.longdouble)
    inner = inner[1::2] if laplace else inner[:0]  # losses between the atoms, whose Q-density falls as e^{-l/2}
    atom = np.longdouble(ratio)
    losses = np.concatenate((inner, [-atom, atom]))
    if laplace:
        between = np.exp(-(inner + atom) / 2) * (inner[1] - inner[0]) / 4
        q = np.concatenate((between, [0.5, np.exp(-atom) / 2]))
    else:
        q = np.array([1 / (1 + np.exp(-atom)), 1 / (1 + np.exp(atom))])
    sampled = np.log1p(rate * np.expm1(losses))
    return on_lattice(sampled, q / q.sum() * np.exp(sampled), spacing, cells)


def on_lattice(losses: np.ndarray, mass: np.ndarray, spacing: float, cells: int) -> np.ndarray:
    """P-mass of outcomes on the lattice."""
    at = np.clip(losses / spacing, -cells, 2 * cells - 1)
    left = np.floor(at)
    share = np.expm1((left - at) * spacing) / np.expm1(
        np.longdouble(-spacing)
    )  # of the upper neighbour, by which E_P[e^-L] is kept
    result = np.zeros(3 * cells + 1, dtype=np.longdouble)
    np.add.at(result, left.astype(int) + cells, mass * (1 - share))
    np.add.at(result, left.astype(int) + cells + 1, mass * share)
    return result


def log_delta_on_lattice(
    setting: Setting, epsilon: float, cells: int, other: tuple[float, float, bool, int] | None = None
) -> float:
    """log delta by direct convolution in long doubles, in which every digit of every tail is kept, as all terms are positive.

    other: epsilon before sampling, rate, whether the noise is Laplace, and number of other steps.
    """
    kind, mu, rate, steps, _ = setting
    spacing = epsilon / cells
    one = one_step(kind, mu, rate, spacing, cells)
    total = one
    for each in [one] * (steps - 1) + ([other_step(*other[:3], spacing, cells)] * other[3] if other else []):
        total = np.convolve(total, each)[cells : 4 * cells + 1]
    gain = -np.expm1(np.minimum(epsilon - spacing * np.arange(-cells, 2 * cells + 1, dtype=np.longdouble), 0))
    return float(np.log((total * gain).sum()))


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cases", by_tier(1, 3, 30))
def test_the_interval_by_a_lattice_in_long_doubles(kind: type[SampledGaussian], cases: int) -> None:
    """Dividing mass between neighbours raises log delta by about the square of the spacing, so two spacings give its value at none."""
    seed = fresh_random().getrandbits(32)
    random = Random(seed)
    widths = []
    for _ in range(cases):
        setting = drawn(random, kind, 10)
        try:
            bound = asked(setting)
        except NotRepresentable:
            widths.append(math.inf)
            continue
        assert bound.lower is not None and bound.upper - bound.lower <= 1e-3 * bound.upper, (seed, setting, bound)
        widths.append((bound.upper - bound.lower) / bound.upper)
        coarse, fine = (log_delta_on_lattice(setting, bound.upper, cells) for cells in (CELLS, 2 * CELLS))
        exact = (4.0 * fine - coarse) / 3.0
        assert fine >= setting[-1] - 0.005, (seed, setting, bound, fine)  # the lattice's pair dominates
        # Where most of the mass lies within a cell or two, log delta may rise by the spacing. It falls by hundreds up to epsilon.
        assert exact <= setting[-1] + (coarse - fine) + 0.005, (seed, setting, bound, coarse, fine)
    # Of some 430 drawn settings three were wider than 4e-6, all with a rate below 0.03 and a large loss in one step of many. Of some 2,800
    # one was wider than 1 %, which is refused: its epsilon is 0.0013 at a delta of e^-649.
    assert sum(width > 4e-6 for width in widths) <= max(1, cases // 10), (seed, widths)


def contour_bounds(losses: Losses, epsilon: float, log_delta: float) -> tuple[float, float]:
    """Return bounds on log delta(epsilon) by contours alone, which are vague where none is narrow."""
    low, high = -math.inf, math.inf
    with suppress(NotRepresentable), np.errstate(all="ignore"):
        for attempt in attempts(losses, log_delta):
            contour = attempt.contour(log_delta, epsilon)
            ends = contour.log_delta(epsilon) if contour is not None else (low, high)
            low, high = max(low, ends[0]), min(high, ends[1])
    return low, high


@pytest.mark.parametrize("cases", by_tier(None, 3, 40))
def test_other_noise_beside_it_by_lattices_and_contours(cases: int) -> None:
    """The other noise is not divided at a loss. One direction alone: its ends contain what contours say, and what lattices say about it."""
    seed = fresh_random().getrandbits(32)
    random, narrow = Random(seed), 0
    for _ in range(cases):
        setting = drawn(random, SampledGaussian, 8)
        ratio, other_rate = 10.0 ** random.uniform(-1.0, 0.5), 10.0 ** random.uniform(-2.0, -0.1)
        laplace, count = random.random() < 0.5, random.randint(1, 6)
        noise = Laplace(ratio) if laplace else Pure(ratio)
        losses = directions(((SampledGaussian(*setting[1:3]), setting[3]), (PoissonSampled(noise, other_rate), count)))[0]
        lower, upper, log_delta = 0.0, math.inf, setting[-1]
        with suppress(NotRepresentable), np.errstate(all="ignore"), allowance(QUESTION):
            result = large_losses(losses, log_delta)
            if result is not None:
                lower, upper = result[0].epsilon(log_delta, result[1])
        if not upper - lower <= 1e-3 * upper < math.inf:
            continue
        narrow += 1
        assert contour_bounds(losses, upper, log_delta)[0] <= log_delta + 1e-9, (seed, losses, log_delta, upper)
        assert contour_bounds(losses, lower, log_delta)[1] >= log_delta - 1e-9, (seed, losses, log_delta, lower)
        if upper - count * math.log1p(other_rate * math.expm1(ratio)) < 20.0 * upper / CELLS:
            continue  # dividing the other noise's largest losses between neighbours would bring them next to epsilon
        other = ratio, other_rate, laplace, count
        coarse, fine = (log_delta_on_lattice(setting, upper, cells, other) for cells in (CELLS, 2 * CELLS))
        assert fine >= log_delta - 0.005, (seed, setting, other, upper, fine)  # the lattice's pair dominates
        assert (4.0 * fine - coarse) / 3.0 <= log_delta + 3.0 * (coarse - fine) + 0.005, (seed, setting, other, upper, coarse, fine)
    assert 2 * narrow >= cases - 3, (seed, narrow)  # the others are next to the other noise's largest loss


@pytest.mark.long
@pytest.mark.parametrize(
    "setting",
    [
        (SampledGaussian, 0.6195913339153999, 5.874e-06, 4, -239.7416),  # Chernoff's bound needs a far tilt
        (SampledGaussian, 1.4281015347306927, 1.556e-05, 6, -251.4685),  # no outcome is above the best cut
    ],
    ids=["far-tilt", "no-large-loss"],
)
def test_a_question_that_was_refused_is_answered(setting: Setting) -> None:
    bound = asked(setting)
    assert bound.lower is not None and bound.upper - bound.lower <= 4e-6 * bound.upper
    fine = log_delta_on_lattice(setting, bound.upper, 2 * CELLS)
    assert fine >= setting[-1] - 0.005, (bound, fine)


def log_delta_of_two(setting: Setting, epsilon: float) -> mp.mpf:
    """log delta of two steps: the curve of one step, integrated over the outcome of the other.

    The curve turns sharply where the other loss alone reaches epsilon, so that the panels become shorter towards that outcome.
    """
    kind, mu, rate, _, _ = setting
    mu, q, epsilon = mp.mpf(mu), mp.mpf(rate), mp.mpf(epsilon)
    replaced = kind is SampledGaussianReplaced

    def ratio(x: mp.mpf) -> mp.mpf:
        return 1 - q + q * mp.exp(mu * x - mu * mu / 2)

    def outcome(log_ratio: mp.mpf) -> mp.mpf:
        """The x with that loss, or -inf."""
        if not replaced:
            rest = mp.expm1(log_ratio) + q
            return mp.log(rest / q) / mu + mu / 2 if rest > 0 else -mp.inf
        return (log_ratio / 2 + mp.asinh((1 - q) * mp.sinh(log_ratio / 2) / (q * mp.exp(-mu * mu / 2)))) / mu

    def above(x: mp.mpf, shift: mp.mpf) -> mp.mpf:
        return (1 - q) * mp.ncdf(-x) + q * mp.ncdf(shift - x)

    def gained(x: mp.mpf) -> mp.mpf:
        rest = epsilon - mp.log(ratio(x)) + (mp.log(ratio(-x)) if replaced else 0)
        edge = outcome(rest)
        curve = above(edge, mu) - mp.exp(rest) * (above(edge, -mu) if replaced else mp.ncdf(-edge))
        return mp.npdf(x) * ratio(x) * curve

    alone = outcome(epsilon if replaced else epsilon - mp.log(1 - q))
    graded = [alone + side * mp.mpf(2) ** -k for k in range(1, 12) for side in (-1, 1)]
    ends = sorted({*(mp.mpf(i) for i in range(-45, 51, 2)), alone, *graded})
    scale = mp.exp(-setting[-1])  # quad's tolerance is absolute
    return mp.log(mp.quad(lambda x: scale * gained(x), ends, maxdegree=6)) + setting[-1]


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_two_steps_by_an_integral_over_one_of_them(kind: type[SampledGaussian]) -> None:
    seed = fresh_random().getrandbits(32)
    setting = (*drawn(Random(seed), kind, 2)[:3], 2, -Random(seed).uniform(231.0, 690.0))
    losses = directions(((kind(*setting[1:3]), 2),))[0]
    with np.errstate(all="ignore"):
        result = large_losses(losses, setting[-1])
        assert result is not None
        lower, upper = result[0].epsilon(setting[-1], result[1])
    assert upper - lower <= 4e-6 * upper, (seed, setting)
    with mp.workdps(30):
        assert log_delta_of_two(setting, lower) >= setting[-1] >= log_delta_of_two(setting, upper), (seed, setting)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_delta_at_the_ends_is_about_what_was_asked(kind: type[SampledGaussian]) -> None:
    """Of 800 intervals, ten were wider than 4e-6, and the widest 6.7e-4: weak noise or a tiny rate, where epsilon is tiny, too."""
    seed = fresh_random().getrandbits(32)
    setting = drawn(Random(seed), kind, 40)
    bound = asked(setting)
    assert bound.lower is not None and bound.upper - bound.lower <= 2e-3 * bound.upper, (seed, setting, bound)
    losses = directions(((kind(*setting[1:3]), setting[3]),))[0]
    assert log_delta_between(losses, bound.lower, setting[-1])[1] >= setting[-1], (seed, setting)
    assert log_delta_between(losses, bound.upper, setting[-1])[0] <= setting[-1], (seed, setting)


@pytest.mark.parametrize("log_delta", by_tier(-306.0, -480.0, -690.0))
def test_parts_of_two_kinds(log_delta: float) -> None:
    """Two kinds of equal steps cost what one kind of as many steps does, and a weaker kind costs less."""
    mu, rate = 0.5, 1e-4
    whole = ExactProfile(((SampledGaussian(mu, rate), 6),)).epsilon(math.exp(log_delta))
    losses = directions(((SampledGaussian(mu, rate), 6),))[0]
    with np.errstate(all="ignore"):
        result = large_losses(((losses[0][0], 4), (losses[0][0], 2)), log_delta)
        assert result is not None
        lower, upper = result[0].epsilon(log_delta, result[1])
        less = large_losses(((losses[0][0], 4), (directions(((SampledGaussian(mu, 0.5 * rate), 2),))[0][0][0], 2)), log_delta)
        assert less is not None
    assert whole.lower is not None and upper - lower <= 4e-6 * upper
    assert lower <= whole.upper and upper >= whole.lower
    assert less[0].epsilon(log_delta, less[1])[1] < lower


def sums_of_atoms(sigma: float, sensitivity: int, rate: float, steps: int, remove: bool) -> tuple[np.ndarray, np.ndarray]:
    """Losses and P-masses of all outcomes of sampled discrete Gaussian steps, in one direction."""
    x = np.arange(-round(42 * sigma), round(42 * sigma) + sensitivity + 1, dtype=np.longdouble)
    q = np.exp(-x * x / (2 * np.longdouble(sigma) ** 2))
    losses = np.log1p(rate * np.expm1((2 * x - sensitivity) * sensitivity / (2 * np.longdouble(sigma) ** 2)))
    mass = q / q.sum() * (np.exp(losses) if remove else 1)
    one, total = (losses if remove else -losses), (np.zeros(1), np.ones(1))
    for _ in range(steps):
        total = (total[0][:, None] + one).ravel(), (total[1][:, None] * mass).ravel()
    return total


@pytest.mark.parametrize("cases", by_tier(2, 12, 100))
def test_discrete_noise_by_all_outcomes(cases: int) -> None:
    """Every sum of two or three atoms, in long doubles. An epsilon is next to such a sum if little mass is above it."""
    seed = fresh_random().getrandbits(32)
    random, widths = Random(seed), []
    for _ in range(cases):
        steps, log_delta = random.choice((2, 2, 3)), -random.uniform(70.0, 690.0)
        sigma, rate = 10.0 ** random.uniform(-0.3, 0.0 if steps == 3 else 0.7), 10.0 ** random.uniform(-6.0, -0.1)
        sensitivity = random.randint(1, max(1, math.floor(2.0 * sigma)))
        sides = directions(((PoissonSampled(DiscreteGaussian(sigma, sensitivity), rate), steps),))
        for remove, losses in zip((True, False), sides, strict=True):
            with np.errstate(all="ignore"):
                result = large_losses(losses, log_delta)
                lower, upper = result[0].epsilon(log_delta, result[1]) if result else (0.0, math.inf)
                sums, mass = sums_of_atoms(sigma, sensitivity, rate, steps, remove)
                delta = [float(np.log((mass * -np.expm1(np.minimum(end - sums, 0))).sum())) for end in (lower, upper)]
            assert delta[0] >= log_delta - 1e-9 and delta[1] <= log_delta + 1e-9, (seed, losses, log_delta, lower, upper, delta)
            if remove:
                widths.append((upper - lower) / upper if upper < math.inf else math.inf)
    assert sum(width > 1e-3 for width in widths) <= 1 + cases // 10, (seed, widths)


@pytest.mark.long
def test_losses_that_are_far_more_negative_than_positive() -> None:
    """In the direction "add", a loss is at most -log(1 - q) = 8e-7 here, far less than the width of a cell."""
    kinds = (1.8977692435401532, 7.509290499520396e-07), (0.5634775647241499, 1.4063422720718817e-08)
    steps = tuple((PoissonSampled(DiscreteGaussian(sigma, 1), rate), 1) for sigma, rate in kinds)
    (sums, mass), (more, masses) = (sums_of_atoms(sigma, 1, rate, 1, remove=True) for sigma, rate in kinds)
    sums, mass = (sums[:, None] + more).ravel(), (mass[:, None] * masses).ravel()
    for epsilon in (1e-3, 5.0):
        with allowance(QUESTION):
            bound = ExactProfile(steps).delta(epsilon)
        delta = float((mass * -np.expm1(np.minimum(epsilon - sums, 0))).sum())
        assert bound.lower is not None and bound.lower <= delta * (1.0 + 1e-12) and delta <= bound.upper, (epsilon, bound, delta)


@pytest.mark.long
def test_losses_that_count_as_infinite_with_a_probability_below_every_float() -> None:
    """Their P-mass is added to that of the outcomes that are left out."""
    log_delta = -744.0
    losses = directions(((SampledGaussian(0.5, 0.01), 2), (Gaussian(0.9492693510503815), 1)))[0]
    with np.errstate(all="ignore"):
        result = large_losses(losses, log_delta)
        assert result is not None
        lattices = [curve.lattice for curve in result[0].terms]
        tilt, log_rare = min(lattice.tilt for lattice in lattices), log_delta + LEFT_OUT
        rest = [(loss, n) for loss, n in losses if not hasattr(loss, "cut")]
        (other,) = others_on(rest, lattices[0].spacing, tilt, log_rare)
    log_infinite = math.log(other.copies) + float(other.tails.p_above[-1])
    assert math.exp(log_infinite) == 0.0 and log_infinite > log_rare - 5.0
    assert result[0].log_lost >= np.logaddexp(log_rare, log_infinite)
