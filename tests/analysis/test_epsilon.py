"""`dpcli.epsilon` over arrays (analysis/epsilon.py) against the same questions one at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import dpcli
from dpcli.accountants.exact import ExactProfile
from dpcli.analysis import epsilon as module
from dpcli.base.errors import InputError
from dpcli.mechanisms.noise.gaussian_spec import SampledGaussian, SampledGaussianReplaced
from dpcli.numerics.closed.normal import gaussian_epsilon
from tests.accountants.one_step import KNOWN
from tests.cases import of_each


def test_reference_values_all_at_once() -> None:
    """Those with one phase, against 30 digits: add-remove in one call of arrays."""
    chosen = [one for one in KNOWN if len(one.parts) == 1 and one.adjacency == "add-remove"]
    rate, noise, steps = (np.array([one.parts[0][k] for one in chosen]) for k in (0, 1, 2))
    found = dpcli.epsilon(noise, rate, steps.astype(int), delta=[one.delta for one in chosen])
    exact = np.array([one.epsilon for one in chosen])
    assert found.upper == pytest.approx(exact, rel=2e-8)
    assert np.all(found.lower <= exact * (1 + 1e-9)) and np.all(exact <= found.upper * (1 + 1e-9))  # as good as they are


def test_many_deltas_and_both_adjacencies() -> None:
    """A table of steps by deltas, replace-one too, each cell against its own contour."""
    deltas, counts = np.array([1e-4, 1e-6, 1e-9]), np.array([500, 520, 540, 900, 905, 2000])
    for name, kind in (("add-remove", SampledGaussian), ("replace-one", SampledGaussianReplaced)):
        found = dpcli.epsilon(1.0, 0.01, counts[:, None], delta=deltas, adjacency=name)
        assert found.upper.shape == found.lower.shape == (6, 3)
        for i, j in ((0, 0), (3, 1), (5, 2)):
            alone = ExactProfile(((kind(1.0, 0.01), int(counts[i])),)).epsilon(float(deltas[j]))
            assert alone.lower is not None
            assert found.upper[i, j] == pytest.approx(alone.upper, rel=1e-7)
            assert found.lower[i, j] <= alone.upper and alone.lower <= found.upper[i, j]


def test_gaussians_without_sampling_by_the_closed_form() -> None:
    """n steps of noise sigma are one of sigma / sqrt n."""
    counts = np.arange(1, 200)
    found = dpcli.epsilon(30.0, steps=counts, delta=1e-6)
    for k in (0, 50, 198):
        low, high = gaussian_epsilon(math.sqrt(counts[k]) / 30.0, 1e-6)
        assert found.lower[k] <= high * (1 + 1e-12) and low <= found.upper[k] * (1 + 1e-12)
        assert found.upper[k] == pytest.approx(high, rel=1e-7)


def test_what_lies_between_two_answers_errs_on_the_private_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weak steps, asked one by one: few are asked, and every bound holds for what would have been found."""
    asked = []

    def ask(mechanism: Any, count: int, delta: float) -> tuple[float, float]:
        asked.append(count)
        return 0.999 * math.sqrt(count), math.sqrt(count)

    monkeypatch.setattr(
        module, "_on_shared_contours", lambda loss, counts, log_deltas: (np.zeros(len(counts)), np.full(len(counts), math.inf))
    )
    monkeypatch.setattr(module, "_one_setting", ask)
    counts = np.arange(1, 5001)
    found = dpcli.epsilon(1.0, 1e-6, counts, delta=1e-6, tolerance=0.05)
    assert len(asked) < 300
    assert np.all(found.upper >= np.sqrt(counts)) and np.all(found.lower <= 0.999 * np.sqrt(counts))
    assert np.all(found.upper - found.lower <= 0.05 * found.upper)


@of_each(
    ("arguments", "words"),
    [
        ({"noise_multiplier": [1.0, math.nan]}, "noise_multiplier: expected numbers > 0, found nan"),
        ({"noise_multiplier": [[1.0, 2.0], [3.0]]}, "noise_multiplier: expected numbers > 0, found rows of different lengths"),
        ({"noise_multiplier": np.zeros(())}, "noise_multiplier: expected numbers > 0, found 0.0"),
        ({"noise_multiplier": 0.0}, "noise_multiplier: expected numbers > 0"),
        ({"noise_multiplier": True}, "noise_multiplier: expected numbers > 0, found True"),
        ({"sampling_rate": 1.5}, "sampling_rate: expected numbers in"),
        ({"steps": 2.5}, "steps: expected whole numbers"),
        ({"steps": [0]}, "steps: expected whole numbers"),
        ({"delta": 0.0}, "delta: expected numbers in"),
        ({"delta": 0.9}, "delta: expected numbers in"),
        ({"adjacency": "edit"}, "expected an adjacency among add-remove"),
        ({"tolerance": 1.0}, "expected a tolerance in"),
        ({"steps": [1, 2], "delta": [1e-5, 1e-6, 1e-7]}, "expected shapes that broadcast"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: dict[str, Any], words: str) -> None:
    """With the argument's name and the first wrong value."""
    with pytest.raises(InputError) as caught:
        dpcli.epsilon(**{"noise_multiplier": 1.0, "delta": 1e-6, **arguments})
    assert str(caught.value).startswith(words)


def test_nothing_asked_nothing_answered() -> None:
    """An empty array has an empty answer."""
    assert dpcli.epsilon([], delta=1e-6).upper.shape == (0,)
