"""The joint cost of the keys of a stability histogram, which shows a key only if its noisy count exceeds a threshold.

The references enumerate which keys only one unit holds, and what may be shown of each key.
"""

from __future__ import annotations

import itertools
import math
from functools import reduce

import numpy as np
import pytest

from dpcli.accountants.pld import PldProfile
from dpcli.accountants.zcdp import ACCOUNTANT as ZCDP
from dpcli.analysis.account import account
from dpcli.base.errors import NotRepresentable
from dpcli.file.pipeline.read import parse
from dpcli.mechanisms.choice import stability
from dpcli.mechanisms.choice.stability import OwnOrMoved, StabilityHistogramSpec
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.numerics.arrays import Array
from dpcli.numerics.closed.conversion import zcdp_epsilon

THRESHOLD, ROWS = 9, 2
# Noise, number of keys, and how far above the threshold the count of other units is, so that the key is shown almost surely. With scale 4,
# one own key and one other key are the worst case at epsilon 0.05.
SETTINGS = [
    ({"scale": 1.5}, 2, 12),
    ({"scale": 1.5}, 1, 12),
    ({"scale": 4.0}, 2, 40),
    ({"sigma": 2.5}, 2, 12),
    ({"sigma": 3.5}, 3, 12),
]


def of_key(spec: StabilityHistogramSpec, count: int, far: int) -> Array:
    """Return the law of what is shown of a key: nothing, each noisy count above the threshold, and all the larger ones together."""
    law = {
        x: math.exp(-abs(x) / spec.scale) if spec.scale is not None else math.exp(-0.5 * (x / float(spec.sigma or 0.0)) ** 2)
        for x in range(-150, 151)
    }
    total = math.fsum(law.values())
    if count == 0:
        return np.array([1.0, *[0.0] * (2 * far + 1)])
    seen = [law.get(x - count, 0.0) / total for x in range(THRESHOLD + 1, THRESHOLD + 2 * far + 1)]
    more = math.fsum(p for x, p in law.items() if x + count > THRESHOLD + 2 * far) / total
    return np.array([1.0 - math.fsum(seen) - more, *seen, more])


def worst(spec: StabilityHistogramSpec, far: int, replaces: bool, epsilon: float) -> float:
    """Return the largest delta over all choices of the keys that only the unit holds, among those of its old and new version."""
    found = 0.0
    for kinds in itertools.product((0, THRESHOLD + far), repeat=spec.max_groups * (2 if replaces else 1)):
        pairs = []
        for position, others in enumerate(kinds):
            pair = of_key(spec, others + ROWS, far), of_key(spec, others, far)
            pairs.append(pair[::-1] if position >= spec.max_groups else pair)
        p, q = (reduce(lambda a, b: np.multiply.outer(a, b).ravel(), [pair[side] for pair in pairs]) for side in (0, 1))
        found = max(found, *(float(np.maximum(a - math.exp(epsilon) * b, 0.0).sum()) for a, b in ((p, q), (q, p))))
    return found


def spec_of(noise: dict[str, float], groups: int) -> StabilityHistogramSpec:
    return StabilityHistogramSpec(threshold=THRESHOLD, max_groups=groups, max_rows=ROWS, **noise)  # type: ignore[arg-type]


@pytest.mark.parametrize(("noise", "groups", "far"), SETTINGS)
@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE])
def test_the_joint_cost_is_that_of_the_worst_choice_of_keys(
    noise: dict[str, float], groups: int, far: int, adjacency: Adjacency
) -> None:
    if adjacency is Adjacency.REPLACE_ONE:
        groups = max(groups - 1, 1)  # six keys, three of each version, have too many outcomes
    spec = spec_of(noise, groups)
    neighbours = Neighbours(adjacency)
    profile = PldProfile(((spec.resolve(neighbours), 1),))
    shows = math.exp(spec.log_shown(ROWS))  # the bound leaves out that a hidden own key shifts the loss by log(1 - shows)
    for epsilon in (0.05, 0.3, 1.0, 2.0, 3.0):
        exact = worst(spec, far, neighbours.replaces, epsilon)
        upper = profile.delta(epsilon).upper
        assert exact <= upper * (1.0 + 1e-9) <= (1.05 + 1.2 * shows) * exact, epsilon


def test_ranges_of_the_number_of_own_keys_cost_no_less_than_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = StabilityHistogramSpec(threshold=9, scale=4.0, max_groups=6, max_rows=2).resolve(Neighbours(Adjacency.ADD_REMOVE))
    joint = mechanism.dominating()[1]
    assert isinstance(joint, OwnOrMoved)
    at = np.array([0.05, 0.1, 0.2, 0.4, 0.8, 1.5])
    one_by_one = joint.loss.log_heights(at)
    for ranges in (2, 3, 4):
        monkeypatch.setattr(stability, "RANGES", ranges)
        assert (joint.loss.log_heights(at) >= one_by_one - 1e-12).all(), ranges


def separately(mechanism: Mechanism) -> Mechanism:
    """Return the histogram at the sum of two prices: that of the noise, and that of keys which only the unit holds."""
    return mechanism.dominating()[0]


def test_noise_and_own_keys_are_not_both_charged() -> None:
    """Eight keys whose own delta is nearly all of delta: the sum would leave next to nothing for the noise."""
    for adjacency, most in ((Adjacency.ADD_REMOVE, 0.83), (Adjacency.REPLACE_ONE, 0.84)):
        mechanism = StabilityHistogramSpec(sigma=10.0, threshold=52, max_groups=8).resolve(Neighbours(adjacency))
        joint, summed = (PldProfile(((way, 1),)).epsilon(1.04e-6).upper for way in (mechanism, separately(mechanism)))
        assert joint < most * summed


@pytest.mark.parametrize(
    ("keys", "adjacency"),
    [({"scale": 0.4, "threshold": 5, "max_groups": 3, "max_rows": 2}, "add-remove"),
     ({"scale": 0.4, "threshold": 30, "max_groups": 2, "max_rows": 2}, "replace-one")],
)  # fmt: skip
def test_little_noise_on_few_keys_has_a_cost(keys: dict[str, float], adjacency: str) -> None:
    """A share of a cell once exceeded 1 by rounding. A mass was then below 0, and its logarithm no number."""
    text = "".join(f"{key} = {value}\n" for key, value in keys.items())
    head = f'format = 1\n[privacy]\nunit = "example"\nadjacency = "{adjacency}"\ndelta = 1e-2\n'
    result = account(parse(f'{head}[[mechanism]]\nname = "h"\ntype = "stability-histogram"\n{text}'.encode(), "h.toml"))
    assert 0.0 < result.upper <= 40.0


def test_zcdp_sets_aside_the_probability_of_showing_keys() -> None:
    """Beside Gaussian noise: rho of the noise adds up, and what may show a key is taken from delta (Bun, Steinke 2016, Definition 8.1)."""
    neighbours = Neighbours(Adjacency.ADD_REMOVE)
    histogram = StabilityHistogramSpec(threshold=60, sigma=10.0, max_groups=2).resolve(neighbours)
    noise = GaussianSpec(noise_multiplier=5.0).resolve(neighbours)
    shown = histogram.delta_floor()
    priced = ZCDP.profile(((histogram, 1), (noise, 3))).epsilon(1e-6).upper
    assert 1e-9 < shown < 1e-6
    assert priced == pytest.approx(zcdp_epsilon(2 / 200 + 3 / 50, (1e-6 - shown) / (1.0 - shown)), rel=1e-9)
    with pytest.raises(NotRepresentable):
        ZCDP.profile(((histogram, 1), (noise, 3))).epsilon(0.9 * shown)
