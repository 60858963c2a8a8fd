"""The exact accountant against inversion integrals in fixed-point arithmetic of 33 digits, on random compositions of sampled Gaussians.

Nothing of dpcli's numerics is used for the reference.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import mpmath as mp
import numpy as np
import pytest

from dpcli.accountants.exact import ExactProfile
from dpcli.base.errors import NotRepresentable
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec

BITS = 112  # of a fixed-point number: 33 decimal digits
MOST_TURNS = 250


@dataclass(frozen=True)
class Part:
    """Gaussian noise `sigma` (over one record's contribution) on a Poisson sample at `rate`, `count` times."""

    rate: float
    sigma: float
    count: int

    def mechanism(self, adjacency: Adjacency) -> Mechanism:
        return GaussianSpec(noise_multiplier=self.sigma).poisson(self.rate, Neighbours(adjacency))


@dataclass(frozen=True)
class Case:
    """One composition and its delta."""

    parts: tuple[Part, ...]
    adjacency: Adjacency
    delta: float

    def profile(self) -> ExactProfile:
        return ExactProfile(tuple((part.mechanism(self.adjacency), part.count) for part in self.parts))

    @property
    def sides(self) -> tuple[str, ...]:
        return ("replace",) if self.adjacency is Adjacency.REPLACE_ONE else ("remove", "add")


class Turning:
    """One part's loss under the tilt t, as fixed-point weights that turn by e^{i h L} at each step."""

    def __init__(self, part: Part, side: str, t: float) -> None:
        q, mu = mp.mpf(part.rate), 1 / mp.mpf(part.sigma)
        slope = float(mu) * (2.0 if side == "replace" else 1.0)
        step = mp.mpf(min(0.12, 0.18 / slope))
        high = 13.0 + (float(t) + 1.0) * slope if side != "add" else 13.0 + float(mu)
        low = -13.0 - (float(t) * slope * part.rate / (1.0001 - part.rate) if side == "add" else float(mu))
        nodes = [step * k for k in range(math.floor(low / float(step)), math.ceil(high / float(step)) + 1)]

        def log_mixture(x: mp.mpf) -> mp.mpf:
            return mp.log(1 - q + q * mp.exp(mu * x - mu * mu / 2))

        up = [log_mixture(x) for x in nodes]
        if side == "replace":
            down = [log_mixture(-x) for x in nodes]
            losses = [a - b for a, b in zip(up, down, strict=True)]
            log_p = up
        else:
            losses = up if side == "remove" else [-a for a in up]
            log_p = up if side == "remove" else [mp.mpf(0)] * len(nodes)
        terms = [mp.exp(-x * x / 2 + p + t * loss) for x, p, loss in zip(nodes, log_p, losses, strict=True)]
        total = mp.fsum(terms)
        kept = [(w / total, loss) for w, loss in zip(terms, losses, strict=True) if w > total * mp.mpf(2) ** -90]
        self.cumulant = part.count * mp.log(total * step / mp.sqrt(2 * mp.pi))
        self.mean = mp.fsum(w * loss for w, loss in kept)
        self.count = part.count
        self.variance = part.count * mp.fsum(w * (loss - self.mean) ** 2 for w, loss in kept)
        self._losses = [loss - self.mean for _, loss in kept]
        self._real = np.array([int(w * 2**BITS) for w, _ in kept], dtype=object)
        self._imag = self._real * 0
        self._scale = mp.mpf(int(self._real.sum()))

    def set_out(self, h: float) -> None:
        """Fix the step."""
        turns = [mp.expjpi(h * loss / mp.pi) for loss in self._losses]
        self._cos = np.array([int(z.real * 2**BITS) for z in turns], dtype=object)
        self._sin = np.array([int(z.imag * 2**BITS) for z in turns], dtype=object)

    def log_power(self) -> mp.mpc:
        """count times the logarithm of the characteristic function, centred."""
        return self.count * mp.log(mp.mpc(int(self._real.sum()), int(self._imag.sum())) / self._scale)

    def turn(self) -> None:
        a, b, c, s = self._real, self._imag, self._cos, self._sin
        self._real, self._imag = (a * c - b * s) >> BITS, (a * s + b * c) >> BITS


def log_delta_and_slope(case: Case, side: str, epsilon: float, t: float) -> tuple[mp.mpf, mp.mpf] | None:
    """Return log delta(epsilon) and its derivative by the inversion integral on Re z = t; None where it needs too many nodes."""
    parts = [Turning(part, side, t) for part in case.parts]
    # The aliases lie 2 pi / h away, on one side behind e^{2 pi t / h} and on the other dozens of standard deviations out.
    h = min(2.0 * math.pi * t / (60.0 - math.log(case.delta)), 0.2 / math.sqrt(float(sum(part.variance for part in parts))))
    for part in parts:
        part.set_out(h)
    base = mp.fsum(part.cumulant for part in parts) - t * mp.mpf(epsilon)
    offset = mp.fsum(part.count * part.mean for part in parts) - mp.mpf(epsilon)
    total = slope = mp.mpf(0)
    for k in range(MOST_TURNS):
        z = mp.mpc(t, h * k)
        term = mp.exp(mp.fsum(part.log_power() for part in parts) + 1j * h * k * offset) / (z * (z + 1))
        total += (1 if k == 0 else 2) * term.real
        slope -= (1 if k == 0 else 2) * (z * term).real
        if k == 80 and abs(term) > 1e-5 * abs(total):
            return None
        if k and abs(z * term) * (k + 100) < mp.mpf(10) ** -17 * abs(total):
            return base + mp.log(abs(total) * h / (2 * mp.pi)), slope / total
        for part in parts:
            part.turn()
    return None


def draw(source: random.Random) -> Case:
    adjacency = source.choice(list(Adjacency))
    parts = []
    for _ in range(source.randint(1, 4)):
        rate = 1.0 if source.random() < 0.1 else 10.0 ** source.uniform(-6.0, 0.0)
        parts.append(Part(rate, 10.0 ** source.uniform(math.log10(0.3), 2.0), round(10.0 ** source.uniform(0.31, 6.0))))
    return Case(tuple(parts), adjacency, 10.0 ** source.uniform(-30.0, -3.0))


@pytest.mark.parametrize(
    ("seed", "cases"), [pytest.param(20, 2, marks=pytest.mark.long), pytest.param(20, 6, marks=pytest.mark.nightly)]
)
def test_random_compositions_in_thirty_digits(seed: int, cases: int) -> None:
    """The interval holds the true epsilon and its middle is good to 1e-9; refused, zero and slow ones are drawn again."""
    source, done = random.Random(seed), 0
    with mp.workdps(34):
        for _ in range(400):
            case = draw(source)
            try:
                bound = case.profile().epsilon(case.delta)
            except NotRepresentable:
                continue
            if (
                bound.lower is None
                or bound.lower <= 0.0
                or not 0.0 < bound.detail["tilt"] * max(1 / p.sigma for p in case.parts) < 60.0
            ):
                continue
            middle = 0.5 * (bound.lower + bound.upper)
            found = [log_delta_and_slope(case, side, middle, bound.detail["tilt"]) for side in case.sides]
            if any(side is None for side in found):
                continue
            value, slope = max(side for side in found if side is not None)
            truth = middle - (value - mp.log(case.delta)) / slope
            assert bound.lower * (1 - 1e-14) <= truth <= bound.upper * (1 + 1e-14), case
            assert abs(middle - truth) <= 1e-9 * truth, case
            done += 1
            if done == cases:
                break
    assert done == cases


@pytest.mark.parametrize("count", [10**9, 10**12])
def test_astronomic_counts(count: int) -> None:
    """The logarithm of a characteristic function within 1e-9 of 1 keeps its digits."""
    case = Case((Part(10.0 / math.sqrt(count) / 10.0**0.5, 1.0, count),), Adjacency.ADD_REMOVE, 1e-6)
    bound = case.profile().epsilon(case.delta)
    assert bound.lower is not None
    assert bound.upper - bound.lower <= 2e-9 * bound.upper
    with mp.workdps(34):
        found = log_delta_and_slope(case, "remove", bound.upper, bound.detail["tilt"])
    assert found is not None
    truth = bound.upper - (found[0] - mp.log(case.delta)) / found[1]
    assert bound.lower * (1 - 1e-14) <= truth <= bound.upper * (1 + 1e-14)
