"""Clipping styles (train/engine/clip.py) without a model: the bound, the groups, and the cost of adaptive clipping."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dpcli.base.errors import InputError
from dpcli.train.engine.clip import (
    LARGEST,
    SMALLEST,
    Adaptive,
    Automatic,
    Clip,
    Flat,
    PerGroup,
    PerLayer,
    gradient_noise_multiplier,
)
from tests.cases import require_each

NAMES = ["body.0.weight", "body.0.bias", "body.1.weight", "head.weight", "scale"]
norms = st.lists(st.floats(0.0, 1e30), min_size=4, max_size=4)
bounds = st.floats(1e-6, 1e6)


@given(norms, bounds, st.floats(1e-6, 1.0))
def test_no_example_is_longer_than_the_bound(lengths: list[float], bound: float, gamma: float) -> None:
    styles: list[Clip] = [
        Flat(bound),
        Automatic(bound, gamma),
        PerLayer(bound),
        PerGroup(bound, (("body.1", 3e298), ("*", 2e299), ("body", 1e300))),
        Adaptive(bound),
    ]
    for clip in styles:
        groups = clip.groups(NAMES)
        assert sorted(name for group in groups for name in group) == sorted(NAMES)
        row = torch.tensor([lengths], dtype=torch.float64)[:, : len(groups)]
        assert float((clip.factors(row) * row).norm()) <= clip.bound * (1.0 + 1e-12)


def test_short_gradients_are_left_as_they_are() -> None:
    row = torch.tensor([[0.0], [0.5], [1.0], [4.0]])
    assert Flat(1.0).factors(row).flatten().tolist() == [1.0, 1.0, 1.0, 0.25]
    assert Adaptive(1.0).factors(row).flatten().tolist() == [1.0, 1.0, 1.0, 0.25]
    assert Automatic(1.0, 1.0).factors(row).flatten().tolist() == pytest.approx([1.0, 2 / 3, 0.5, 0.2])


def test_groups_are_modules() -> None:
    assert PerLayer(1.0).groups(NAMES) == [["body.0.weight", "body.0.bias"], ["body.1.weight"], ["head.weight"], ["scale"]]


def test_shares_per_layer() -> None:
    clip = PerLayer(5.0)
    share = 5.0 / math.sqrt(2.0)
    assert clip.bound == 5.0
    assert clip.factors(torch.tensor([[2.0 * share, 2.0], [1.0, 4.0 * share]])).flatten().tolist() == pytest.approx(
        [0.5, 1.0, 1.0, 0.25]
    )


def test_groups_are_the_longest_beginnings_of_names() -> None:
    """Up to a dot: `b` has nothing, and `body.1` nothing of `body.10`."""
    clip = PerGroup(10.0, (("body", 3.0), ("*", 4.0), ("body.1", 12.0)))
    assert clip.groups([*NAMES, "body.10.weight"]) == [
        ["body.0.weight", "body.0.bias", "body.10.weight"],
        ["head.weight", "scale"],
        ["body.1.weight"],
    ]
    assert clip.factors(torch.full((1, 3), 1000.0)) * 1000.0 == pytest.approx(torch.tensor([[30.0, 40.0, 120.0]]) / 13.0)
    assert PerGroup(1.0, tuple((name, 1.0) for name in NAMES)).groups(NAMES) == [[name] for name in NAMES]


def test_a_group_that_is_not_there_is_said() -> None:
    def check(case: tuple[tuple[str, ...], str]) -> None:
        groups, expected = case
        with pytest.raises(InputError) as raised:
            PerGroup(1.0, tuple((group, 1.0) for group in groups)).groups(NAMES)
        assert str(raised.value).startswith(expected)

    require_each(
        [
            (
                ("body", "head"),
                "clipping: groups: expected a group for every parameter, but scale has none; a group * takes all other parameters",
            ),
            (
                ("b", "*"),
                "clipping: groups.b: expected the beginning of a trained parameter's name, up to a dot, "
                "found no parameter with this name among body.0",
            ),
            (("body", "head", "scale", "*"), "clipping: groups.*: expected the beginning of a trained parameter's name"),
            ((), "clipping: groups: expected a group for every parameter, but body.0.weight has none"),
        ],
        check,
    )


def test_bounds_are_positive() -> None:
    def check(value: float) -> None:
        for style in (Flat, Automatic, PerLayer, Adaptive):
            with pytest.raises(InputError, match=r"^clipping: \w+: expected a number from 1e-08 to 1e\+12, found"):
                style(value)
        with pytest.raises(InputError, match=r"^clipping: groups\.a: expected a finite number above 0, found"):
            PerGroup(1.0, (("a", value),))

    require_each([0.0, -1.0, math.inf, math.nan], check)


def test_a_share_that_cannot_be_measured_is_refused() -> None:
    refused = r"share of norm: expected a number from 1e-08 to 1e\+12, found "
    with pytest.raises(InputError, match=r"^clipping: groups\.b: its " + refused):
        PerGroup(1e-3, (("a", 1.0), ("b", 0.99e-5)))
    with pytest.raises(InputError, match="expected a number from 1e-08"):
        PerLayer(1.9e-8).groups(NAMES)
    clip = PerGroup(1e-3, (("a", 1.0), ("b", 1.1e-5)))
    assert clip.factors(torch.zeros(1, 2)).tolist() == [[1.0, 1.0]]


def test_an_adaptive_norm_stays_where_it_can_be_measured() -> None:
    def check(case: tuple[tuple[float, float], float]) -> None:
        (share, end), rate = case
        clip = Adaptive(1.0, rate=rate)
        for _ in range(100):
            clip.update(share)
        assert clip.bound == end

    require_each(itertools.product([(2.0, SMALLEST), (-1.0, LARGEST)], [5.0, 710.0, 1e308]), check)


def test_adaptive_clipping_finds_the_quantile() -> None:
    clip = Adaptive(100.0, quantile=0.25)
    lengths = torch.linspace(0.0, 4.0, 401)
    for _ in range(100):
        clip.update(0.5 + clip.centred_count(lengths) / 401)
    assert clip.bound == pytest.approx(1.0, rel=0.05)


def test_the_centred_count_moves_by_a_half() -> None:
    clip, lengths = Adaptive(1.0), torch.tensor([0.5, 1.0, 2.0, torch.inf])
    assert clip.centred_count(lengths) == 0.0
    assert {clip.centred_count(lengths) - clip.centred_count(lengths[torch.arange(4) != row]) for row in range(4)} == {0.5, -0.5}


def test_wild_noise_leaves_a_usable_bound() -> None:
    def check(fraction: float) -> None:
        clip = Adaptive(1.0)
        for _ in range(1000):
            clip.update(fraction)
        assert 1e-12 <= clip.bound <= 1e12
        with pytest.raises(InputError, match="found nan"):
            clip.update(math.nan)

    require_each([1e300, -1e300, math.inf, -math.inf], check)


@given(st.floats(0.1, 100.0), st.floats(0.51, 1000.0))
def test_gradients_and_count_cost_one_gaussian(sigma: float, ratio: float) -> None:
    """The two releases have mu^2 = 1/sigma_g^2 + (1/2)^2/sigma_b^2, at most 1/sigma^2 of the Gaussian that is accounted for."""
    count_noise = sigma * ratio
    gradient = gradient_noise_multiplier(sigma, count_noise)
    assert gradient >= sigma
    assert 1.0 / gradient**2 + 0.25 / count_noise**2 == pytest.approx(1.0 / sigma**2, rel=1e-12)


def test_a_count_that_costs_more_than_everything() -> None:
    with pytest.raises(InputError, match=r"^clipping: quantile_noise: expected more than half of noise_multiplier 2.0, found 1.0"):
        gradient_noise_multiplier(2.0, 1.0)
