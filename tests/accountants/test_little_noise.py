"""The exact accountant where there is hardly any noise, so that epsilon is large and losses are nearly discrete: every registered mechanism
type, with intervals checked against sums over a grid made from the losses' own tails.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcli.accountants.base import Steps, checked
from dpcli.accountants.directions import Losses, directions, dominating_compositions
from dpcli.accountants.exact import ExactProfile
from dpcli.analysis.solved_keys import NOISE_KEYS
from dpcli.base.errors import InputError, NotRepresentable
from dpcli.base.registry import MECHANISMS
from dpcli.exam.drawn_files import Drawing
from dpcli.exam.subjects import SEED
from dpcli.file.pipeline.read import parse
from dpcli.file.pipeline.resolve import resolve
from dpcli.file.toml.write import toml_text
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.mechanisms.noise.gaussian_mixture import GaussianMixture, GaussianMixtureReplaced
from dpcli.mechanisms.noise.normal_mixture import MixtureAddLoss, MixtureLoss, MixtureRemoveLoss, MixtureReplaceLoss
from dpcli.numerics.contour.integral import build
from dpcli.numerics.mixture import Mixture
from dpcli.numerics.work import allowance
from tests.cases import by_tier, tiered

CELLS = 1 << 14  # of one loss
TRIES = 8
WORK = 3e7
LEFT = 1e-17  # of a tail that is left out
HELD = 1e-9  # least delta at which sums of rounded probabilities say something
LOOSE = 1e-6  # relative, by which delta may miss itself on the way back

Array = NDArray[np.float64]

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def little(kind: str, source: Random, drawing: Drawing, adjacency: Adjacency) -> Steps | None:
    """Draw 1 to 10 steps of the type with a noise of .01 to .3 of its largest sensitivity; None where that is refused."""
    drawing.scale, drawing.count = (-2.0, 0.3), 1.0
    keys = drawing.keys(kind, adjacency.value, ["base"])
    if keys is None:
        return None
    moves = [keys[key] for key in keys if key.startswith("sensitivit")]
    most = max((max(move) if isinstance(move, list) else move for move in moves), default=1.0)
    for key in {*NOISE_KEYS, "scale"} & keys.keys():
        keys[key] = 10.0 ** source.uniform(-2.0, -0.5) * (1.0 if key == "noise_multiplier" else most)
    privacy: dict[str, Any] = {"adjacency": adjacency.value, "delta": 1e-6, "dataset_size": 1000}
    sampling = drawing.sampling(privacy, source.choice(["none", "poisson"]))
    base = {"name": "base", "type": "gaussian", "noise_multiplier": 0.2}
    entry = {"name": "it", "type": kind, **keys, "sampling": sampling, "steps": source.randint(1, 10)}
    text = toml_text({"format": 1, "privacy": privacy, "mechanism": [*([base] if "base" in str(keys) else []), entry]})
    with suppress(InputError):
        return tuple((charge.mechanism, charge.count) for charge in resolve(parse(text.encode(), "it.toml")))
    return None


def delta_drawn(source: Random) -> float:
    return float(10.0 ** (source.uniform(-300.0, -9.0) if source.random() < 0.3 else source.uniform(-9.0, -0.31)))


def ends_of_loss(loss: Any) -> tuple[float, float]:
    """Return between which losses the mass of P lies, except LEFT."""
    size = np.geomspace(1e-9, 1e9, 4000)
    at: Array = np.concatenate([-size[::-1], [0.0], size])
    found = loss.tails(at)
    low, high = np.flatnonzero(found.p_below > math.log(LEFT)), np.flatnonzero(found.p_above > math.log(LEFT))
    return float(at[max(int(low[0]) - 1, 0)]), float(at[min(int(high[-1]) + 1, len(at) - 1)])


def summed(losses: Losses, up: bool) -> tuple[Array, Array, float]:
    """Return the composed loss rounded to a grid, all steps up or all down, its probabilities under P, and the mass beyond the grid."""
    spans = [ends_of_loss(loss) for loss, _ in losses]
    width = max(high - low for low, high in spans) / CELLS + 1e-12
    size = 1 << math.ceil(math.log2(sum(n for _, n in losses) * (CELLS + 4)))
    transform, start, lost = np.ones(size // 2 + 1, dtype=complex), 0.0, 0.0
    for (loss, n), (low, high) in zip(losses, spans, strict=True):
        at: Array = low + width * np.arange(-1.0, math.ceil((high - low) / width) + 2)
        found = loss.tails(at)
        mass = np.where(found.p_below[1:] < found.p_above[:-1], np.diff(np.exp(found.p_below)), -np.diff(np.exp(found.p_above)))
        mass = np.append(np.maximum(mass, 0.0), 0.0)
        transform *= np.fft.rfft(np.roll(mass, 1) if up else mass, size) ** n
        start += n * float(at[0])
        lost += n * math.exp(float(found.p_above[-1]))
    values: Array = start + width * np.arange(float(size))
    return values, np.maximum(np.fft.irfft(transform, size), 0.0), lost if up else 0.0


def delta_of(composed: tuple[Array, Array, float], epsilon: float) -> float:
    values, mass, lost = composed
    above = values > epsilon
    return float(mass[above] @ -np.expm1(epsilon - values[above])) + lost


def disagreements(ways: list[tuple[Losses, ...]], delta: float, low: float, high: float) -> Iterator[str]:
    """Yield what sums over a grid contradict: delta at `high` is at most `delta`, and at `low` at least `delta`."""
    if high > 0.0:
        least = min(max(delta_of(summed(losses, up=False), high) for losses in sides) for sides in ways)
        if least > delta * (1.0 + 1e-4) + 1e-12:
            yield f"epsilon {high} is too small: delta there is at least {least}"
    if low > 0.0:
        most = min(max(delta_of(summed(losses, up=True), low) for losses in sides) for sides in ways)
        if most < delta * (1.0 - 1e-4) - 1e-12:
            yield f"epsilon {low} is no lower bound: delta there is at most {most}"


def wrong(steps: Steps, delta: float) -> Iterator[str]:
    """Yield what is wrong with epsilon at delta. Raises NotRepresentable where it is refused."""
    profile = ExactProfile(steps)
    bound = checked(profile.epsilon(delta))
    low = bound.lower or 0.0
    with suppress(NotRepresentable):
        back = checked(profile.delta(bound.upper))
        if (back.lower or 0.0) > delta * (1.0 + LOOSE + 1e-11 * bound.upper):
            yield f"delta({bound.upper}) is {back}"
        again = checked(profile.delta(low))
        if low > 0.0 and again.upper < delta * (1.0 - LOOSE - 1e-11 * low):
            yield f"delta({low}) is {again}"
    if delta >= HELD:
        yield from disagreements([directions(way) for way in dominating_compositions(steps)], delta, low, bound.upper)


def mixed(source: Random) -> Steps:
    """Draw steps of Gaussian noise on a random contribution 10 to 60 times as large, under either relation."""
    reach = 10.0 ** source.uniform(1.0, 1.8)
    shifts = sorted({reach, *(reach * source.uniform(0.01, 1.0) for _ in range(source.randint(0, 3)))})
    weights = [10.0 ** source.uniform(-6.0, 0.0) for _ in shifts]
    rest = source.choice([0.0, sum(weights) * 10.0 ** source.uniform(-3.0, 1.0)])
    logs = [math.log(weight / (sum(weights) + rest)) for weight in weights]
    mixture = Mixture(math.log(rest / (sum(weights) + rest)) if rest > 0.0 else -math.inf, tuple(logs), tuple(shifts))
    return ((source.choice([GaussianMixture, GaussianMixtureReplaced])(mixture), source.randint(2, 10)),)


@pytest.mark.sampled(0, 1)
@pytest.mark.long
@pytest.mark.parametrize("part", [0, *tiered(range(1, 8), 0, 2)])
def test_mixtures_with_little_noise(part: int) -> None:
    """The CGF of such a mixture is, at most orders, only bounded by convexity. Intervals that are found from the bound hold too."""
    answered = 0
    for k in range(40):
        name = f"{SEED}/{part}/{k}"
        source = Random(name)
        steps, delta = mixed(source), delta_drawn(source)
        with suppress(NotRepresentable), allowance(WORK):
            assert not list(wrong(steps, delta)), f"{name}: {steps}, delta {delta}"
            answered += 1
        if answered == 2:
            break
    assert answered, "every one was refused"


@pytest.mark.long
@pytest.mark.sampled
@pytest.mark.parametrize("pair", [MixtureRemoveLoss, MixtureAddLoss, MixtureReplaceLoss])
@pytest.mark.parametrize("reach", [2.0, 12.0, 24.0])
def test_a_contour_starts_from_the_cgf_and_no_bound_on_it(pair: Callable[[Mixture], MixtureLoss], reach: float) -> None:
    """K(t) within the error that the contour states, by the trapezoidal rule of its own."""
    mixture = Mixture(-math.inf, (math.log(0.1), math.log(0.25), math.log(0.65)), (0.2 * reach, 0.8 * reach, reach))
    loss = pair(mixture)
    step, count = 1.0 / 64.0, 64.0 * math.ceil(3.0 * reach + 12.0)  # of what is entire, and falls as a normal density does
    x: Array = step * np.arange(-count, count)
    for t in (1e-3, 0.02, 0.3):
        with np.errstate(all="ignore"):
            base, ratio = loss.line(x)
            contour = build(((loss, 3),), math.log(1e-6), t)
        truth = float(np.logaddexp.reduce(base + (t + 1.0) * ratio)) + math.log(step)
        assert contour is not None
        assert -1e-11 <= contour.cumulant - 3.0 * truth <= contour.cumulant_error + 1e-11


def test_a_bulk_without_mass_is_not_taken_off() -> None:
    """At a large tilt, what lies below the level has next to no mass, so that taking it off changes nothing."""
    mixture = Mixture(-math.inf, (math.log(0.25), math.log(0.75)), (3.0, 20.0))
    whole = MixtureRemoveLoss(mixture).tilted(4.0)
    with np.errstate(all="ignore"):
        log_whole, log_less = whole.split(20.0).centred(1e-4, 5, -30.0, -30.0)
        assert np.abs(log_whole - whole.centred(1e-4, 5, -30.0)).max() <= 1e-13
    assert np.all(log_less.real < -30.0)


@pytest.mark.sampled(0, 1)
@pytest.mark.long
@pytest.mark.parametrize("tries", by_tier(range(1), range(1, 3), range(3, TRIES)))
def test_every_type_with_little_noise(tries: range) -> None:
    for kind, adjacency in itertools.product(MECHANISMS, (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)):
        for k in tries:
            name = f"{SEED}/{kind}/{adjacency.value}/{k}"
            source = Random(name)
            steps, delta = little(kind, source, Drawing(source), adjacency), delta_drawn(source)
            if steps is not None:
                with suppress(NotRepresentable), allowance(WORK):
                    assert not list(wrong(steps, delta)), f"{name}: {steps}, delta {delta}"
