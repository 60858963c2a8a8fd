"""The bound of the type pmixed against every subset of models that can be drawn, and the published theorem, which does not hold."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq

from dpcli.accountants.rdp import ACCOUNTANT as RDP
from dpcli.base.errors import NotRepresentable
from dpcli.mechanisms.combined.group import Group
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.prediction.ensemble import EnsembleMixture, EnsembleMixtureSpec
from dpcli.predict.pmixed.projection import ball, clip, mix
from dpcli.predict.pmixed.published_protocol import Published, renyi_ball
from tests.cases import of_each
from tests.command import ROOT
from tests.oracles import hockey_stick

VECTORS: dict[str, Any] = json.loads((ROOT / "tests/vectors/pmixed.json").read_text())
ORDERS = np.array([1.1, 1.5, 2.0, 3.0, 3.6, 8.0, 30.0])
EPSILONS = (0.0, 0.01, 0.1, 0.5, 1.5)
Floats = NDArray[np.float64]


def answer(public: Floats, models: list[Floats], rate: float) -> Floats:
    """The distribution of the token: the sum over all subsets."""
    result = np.zeros_like(public)
    for taking in itertools.product((False, True), repeat=len(models)):
        chosen = [model for model, part in zip(models, taking, strict=True) if part]
        chance = rate ** len(chosen) * (1.0 - rate) ** (len(models) - len(chosen))
        result += chance * (np.mean(chosen, axis=0) if chosen else public)
    return result


def renyi(p: Floats, q: Floats) -> Floats:
    """At each order."""
    with np.errstate(divide="ignore"):
        powers = ORDERS[:, None] * np.log(p) + (1.0 - ORDERS[:, None]) * np.log(q)
    return np.asarray(np.logaddexp.reduce(powers, axis=1) / (ORDERS - 1.0))


def claimed(mechanism: EnsembleMixture, epsilon: float) -> float:
    """delta of the pair."""
    return max(
        float(np.maximum(np.exp(np.array(loss.log_reference)) * (np.exp(np.array(loss.log_ratio)) - math.exp(epsilon)), 0.0).sum())
        for loss in mechanism.losses()
    )


def worst(mechanism: EnsembleMixture, p: Floats, q: Floats) -> float:
    """The largest quotient of what is and what is claimed, over orders and epsilons, both ways."""
    bound = mechanism.rdp(ORDERS)
    result = max(float((renyi(a, b) / bound).max()) for a, b in ((p, q), (q, p)))
    for epsilon in EPSILONS:
        for a, b in ((p, q), (q, p)):
            delta = hockey_stick(a, b, epsilon)
            if delta > 1e-15:
                result = max(result, delta / max(claimed(mechanism, epsilon), 1e-300))
    return result


def extreme(source: np.random.Generator, public: Floats, radius: float) -> Floats:
    """A model at corners of what the radius allows, or a random one, projected by either way."""
    projection = (clip, mix)[int(source.integers(2))]
    wild = source.dirichlet(np.full(len(public), 0.3))
    if source.random() < 0.6:
        wild = public * np.exp(source.choice([-9.0, 0.0, 9.0], len(public)))
        wild /= wild.sum()
    return projection(ball(public, radius), wild)


def pairs(source: np.random.Generator, replaces: bool) -> Iterator[tuple[EnsembleMixture, Floats, list[Floats], list[Floats]]]:
    """Ensembles before and after one change, with what is claimed of them."""
    while True:
        shards, tokens = int(source.integers(1, 6)), int(source.integers(2, 5))
        rate = float(source.choice([0.03, 0.3, 0.8, 1.0]))
        radius = float(10.0 ** source.uniform(-2.0, 0.6))
        public = source.dirichlet(np.full(tokens, float(source.choice([0.1, 1.0]))))
        public = np.maximum(public, 1e-9) / np.maximum(public, 1e-9).sum()
        models = [extreme(source, public, radius) for _ in range(shards)]
        if source.random() < 0.5:  # all others at the far side of the one that changes
            models[1:] = [clip(ball(public, radius), public**2 / models[0])] * (shards - 1)
        after = [extreme(source, public, radius), *models[1:]] if replaces else models[1:]
        yield EnsembleMixture(shards, rate, radius, replaces), public, models, after


def examined(count: int, replaces: bool) -> float:
    seed = random.randrange(2**32)
    source, largest = np.random.default_rng(seed), 0.0
    for mechanism, public, before, after in itertools.islice(pairs(source, replaces), count):
        result = worst(mechanism, answer(public, before, mechanism.rate), answer(public, after, mechanism.rate))
        assert result <= 1.0 + 1e-9, (seed, mechanism, result)
        largest = max(largest, result)
    return largest


@pytest.mark.parametrize("replaces", [False, True], ids=["remove", "replace"])
def test_no_ensemble_tells_more_than_is_claimed(replaces: bool) -> None:
    assert examined(60, replaces) > 0.5  # and the claim is no idle one


@pytest.mark.nightly
@pytest.mark.parametrize("replaces", [False, True], ids=["remove", "replace"])
def test_no_ensemble_of_thousands_tells_more_than_is_claimed(replaces: bool) -> None:
    assert examined(2_000, replaces) > 0.9


def test_a_shard_that_leaves_a_model_in_its_place_is_no_removal() -> None:
    """Whatever the file says that a change does: where the number of shards stays, a model takes another's place."""
    for adjacency in Adjacency:
        for change in get_args(get_type_hints(EnsembleMixtureSpec)["change"]):
            spec = EnsembleMixtureSpec(shards=3, radius=0.5, model_rate=0.5, change=change)
            removes = adjacency is Adjacency.ADD_REMOVE and change == "remove-shard"
            result = spec.resolve(Neighbours(adjacency))
            assert result.rdp(ORDERS) == pytest.approx(EnsembleMixture(3, 0.5, 0.5, not removes).rdp(ORDERS), rel=1e-12)


@pytest.mark.long
def test_small_radii_and_rates_are_not_lost_in_rounding() -> None:
    """Removal, against the pair in many digits."""
    source = random.Random(11)
    for _ in range(15):
        shards, rate = source.choice([1, 2, 5, 40]), source.choice([1.0, 0.5, 0.03, 1e-10])
        radius, order = 10.0 ** source.uniform(-12.0, 1.0), source.choice([1.0001, 2.0, 32.0])
        mechanism = EnsembleMixture(shards, rate, radius, False)
        with mpmath.workdps(60):
            exact = removal_rdp(shards, mpmath.mpf(rate), mpmath.mpf(radius), mpmath.mpf(order))
            assert mechanism.rdp(np.array([order]))[0] >= exact * (1 - mpmath.mpf(10) ** -12), mechanism
            assert mechanism.zcdp() >= exact / order * (1 - mpmath.mpf(10) ** -12), mechanism


@pytest.mark.parametrize("replaces", [False, True], ids=["remove", "replace"])
def test_wide_radii_claim_no_less_than_a_release_of_the_model(replaces: bool) -> None:
    """Beyond every rounding of e^-radius: where a model surely takes part, what it says alone with probability 1/2 or more is told."""
    for shards, radius in itertools.product(
        (1, 2, 3), (20.0, 36.0, 37.0, 40.0, 300.0, 400.0, 710.0, 1e3, 1e10, 1e99, 1e100, 1e300, 1e308)
    ):
        mechanism = EnsembleMixture(shards, 1.0, radius, replaces)
        sure = radius if shards == 1 else 2.0 * radius - math.log(shards)
        try:
            pure, at, rho = mechanism.approx_dp(0.0), mechanism.approx_dp(0.01), mechanism.zcdp()
        except NotRepresentable:
            assert radius > 1e3
            continue
        assert pure >= sure * (1.0 - 1e-12)
        assert at >= (sure - math.log(shards) - 5.0) * (1.0 - 1e-12) and rho >= (sure - math.log(shards) - 5.0) / 50.0 - 1.0
        bound = mechanism.rdp(np.array([32.0]))[0]
        assert bound >= (sure - 5.0) * (1.0 - 1e-9) - 2.0 * math.log(shards)


def removal_rdp(shards: int, rate: Any, radius: Any, order: Any) -> Any:
    pairs = []
    for m in range(shards):
        mass = mpmath.binomial(shards - 1, m) * rate**m * (1 - rate) ** (shards - 1 - m)
        h, t = radius if m == 0 else 2 * radius, rate / (m + 1)
        high = 1 / (mpmath.exp(h) + 1)
        pairs += [(mass * high, 1 + t * mpmath.expm1(h)), (mass * (1 - high), 1 + t * mpmath.expm1(-h))]
    both = (mpmath.fsum(mass * ratio**power for mass, ratio in pairs) for power in (order, 1 - order))
    return mpmath.log(max(both)) / (order - 1)


def hill(source: np.random.Generator, replaces: bool) -> tuple[EnsembleMixture, float]:
    """Searched for: models that are moved at random, wherever that tells more."""
    mechanism, public, before, after = next(pairs(source, replaces))
    around, best = ball(public, mechanism.radius), 0.0
    for _ in range(150):
        others, place = [before[0], *before[1:]], int(source.integers(len(before) + replaces))
        moved = clip(around, (after[0] if place == len(before) else others[place]) * np.exp(source.normal(0.0, 1.0, len(public))))
        first = moved if replaces and place == len(before) else (after[0] if replaces else None)
        if place < len(before):
            others[place] = moved
        then = [*([first] if first is not None else []), *others[1:]]
        result = worst(mechanism, answer(public, others, mechanism.rate), answer(public, then, mechanism.rate))
        if result > best:
            best, before, after = result, others, then
    return mechanism, best


@pytest.mark.parametrize("searches", [pytest.param(3, marks=pytest.mark.long), pytest.param(12, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("replaces", [False, True], ids=["remove", "replace"])
def test_no_search_finds_an_ensemble_that_tells_more(replaces: bool, searches: int) -> None:
    seed = random.randrange(2**32)
    source = np.random.default_rng(seed)
    for _ in range(searches):
        mechanism, result = hill(source, replaces)
        assert result <= 1.0 + 1e-9, (seed, mechanism, result)


@of_each("row", VECTORS["sound_Dinf_rdp"], told=lambda row: f"{row['N']}-{row['q']}-{row['r']}-{row['alpha']}")
def test_divergences_are_those_of_the_vectors(row: dict[str, Any]) -> None:
    result = EnsembleMixture(row["N"], row["q"], row["r"], False).rdp(np.array([row["alpha"]]))[0]
    assert result == pytest.approx(row["rdp"], rel=1e-9)


def spent(mechanism: EnsembleMixture, order: float, queries: int) -> float:
    return float(mechanism.rdp(np.array([order]))[0]) * queries


@of_each("row", VECTORS["sound_Dinf"], told=lambda row: f"{row['N']}-{row['q']}-{row['T']}-{row['eps']}")
def test_the_radius_spends_the_budget_when_a_shard_is_removed(row: dict[str, Any]) -> None:
    """The vectors' radius, at their order, costs their divergence; and no more than epsilon by the best of all orders."""
    mechanism = EnsembleMixture(row["N"], row["q"], row["radius_Dinf"], False)
    assert spent(mechanism, row["best_alpha"], row["T"]) == pytest.approx(row["eps_rdp"], rel=1e-9)
    profile = RDP.compose(((mechanism, row["T"]),))
    assert profile.epsilon(row["delta"]).upper == pytest.approx(row["eps"], rel=2e-3)  # another conversion than the vectors'
    assert profile.epsilon(row["delta"]).upper <= row["eps"] * (1.0 + 1e-9)


@of_each("row", VECTORS["sound_Dinf_substitute_radius"], told=lambda row: f"{row['N']}-{row['q']}")
def test_the_radius_spends_the_budget_when_a_shard_is_replaced(row: dict[str, Any]) -> None:
    (headline,) = {each["eps_rdp"] for each in VECTORS["sound_Dinf"] if each["best_alpha"] == pytest.approx(row["alpha"])}
    replaced = EnsembleMixture(row["N"], row["q"], row["radius_substitute"], True)
    assert spent(replaced, row["alpha"], row["T"]) == pytest.approx(headline, rel=1e-6)  # their root's tolerance


def two(rare: float) -> Floats:
    return np.array([rare, 1.0 - rare])


def ends(rare: float, radius: float) -> tuple[float, float]:
    """The largest and least probability of a token that the published radius allows, at order 3."""

    def outside(value: float) -> float:
        result = max(float(renyi(two(a), two(b))[3]) for a, b in ((value, rare), (rare, value)))
        return result - radius

    return float(brentq(outside, rare, 0.5, xtol=1e-25)), float(brentq(outside, rare * 1e-9, rare, xtol=1e-25))


@of_each("models, times", [(2, 129.0), (16, 21.6), (80, 3.6)])
def test_the_published_theorem_does_not_hold(models: int, times: float) -> None:
    """A model at one end of the radius, all others at the other: by how much what one token tells exceeds the claim."""
    published, rare = Published(3, 1.0, 1024, 8.0, 1e-5), 1e-6
    high, low = ends(rare, published.radius(models))
    around = renyi_ball(two(rare), 3.0, published.radius(models))
    assert around.share(two(high)) == pytest.approx(1.0, rel=1e-6) and around.share(two(low)) == pytest.approx(1.0, rel=1e-6)
    mean = (high + (models - 1) * low) / models
    assert float(renyi(two(mean), two(low))[3]) / published.target == pytest.approx(times, rel=5e-3)


def test_the_published_protocol_breaks_its_claimed_delta() -> None:
    """All tokens are asked for: delta at epsilon 8 of whether the rare one ever comes, where 1e-5 is claimed."""
    (row,) = VECTORS["thm51_violation"]
    for models, rare, least in ((80, row["p0x"], 0.999 * row["delta_lower_bound_at_eps8"]), (2, 3.45e-8, 4.4e-4)):
        published = Published(3, 1.0, 1024, 8.0, 1e-5)
        high, low = ends(rare, published.radius(models))
        mean = (high + (models - 1) * low) / models
        with_it, without = (-math.expm1(published.queries * math.log1p(-rate)) for rate in (mean, low))
        assert with_it - math.exp(8.0) * without >= least
        assert least > published.delta


@of_each("rate", [0.1, 0.5, 1.0])
@of_each("radius", [0.1, 1.5])
def test_several_shards_that_go_cost_at_least_what_each_does_from_those_left(rate: float, radius: float) -> None:
    """The group theorem takes one bound for every step, and each has a shard fewer: the price is of one that holds for all of them."""
    orders, shards = np.array([1.5, 3.0, 20.0]), 6
    for size in (2, 3, 6, 9):
        spec = EnsembleMixtureSpec(shards=shards, radius=radius, model_rate=rate, change="remove-shard")
        result = spec.resolve(Neighbours(Adjacency.ADD_REMOVE, group=size))
        assert isinstance(result, Group)
        for left in range(max(shards - size, 0), shards):
            step = EnsembleMixture(left + 1, rate, radius, replaces=False)
            assert np.all(result.inner.rdp(orders) >= step.rdp(orders) * (1.0 - 1e-12))
            for delta in (0.0, 1e-6, 1e-2):
                assert result.inner.approx_dp(delta) >= step.approx_dp(delta) * (1.0 - 1e-12)


@pytest.mark.long
@of_each("shards, rate", [(2, 0.5), (3, 1.0), (2, 1.0 - 1e-9), (16, 1.0)])
@of_each("radius", [40.0, 299.0, 301.0, 500.0])
def test_masses_near_nothing_lose_none_of_what_they_carry(shards: int, rate: float, radius: float) -> None:
    """At orders near 1, where the moments of a wide radius come from masses with logarithms in the hundreds; with 200 digits."""
    with mpmath.workdps(700):
        q, order, best = mpmath.mpf(rate), mpmath.mpf(1.0001), mpmath.mpf(0)
        for turned in (False, True):
            total = mpmath.mpf(0)
            for m in range(shards):
                weight = mpmath.binomial(shards - 1, m) * q**m * (1 - q) ** (shards - 1 - m)
                t, h = q / (m + 1), (2 if m else 1) * mpmath.mpf(radius)
                w = 1 / (mpmath.e**h + 1)
                pairs = ((w, w * (1 - t + t * mpmath.e**h)), (1 - w, (1 - w) * (1 - t + t * mpmath.e**-h)))
                total += weight * sum((b if turned else a) ** (1 - order) * (a if turned else b) ** order for a, b in pairs)
            best = max(best, mpmath.log(total) / (order - 1))
        result = EnsembleMixture(shards, rate, radius, replaces=False).rdp(np.array([1.0001]))[0]
        assert best <= mpmath.mpf(float(result)) <= best * (1 + mpmath.mpf("1e-9"))
