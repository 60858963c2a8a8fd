"""Mechanisms of private prediction (mechanisms/prediction): ensembles of models (pmixed), votes of teachers and private decoding.

References: published values, closed forms, and the worst case by linear programming.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.optimize import brentq, linprog

from dpcli.analysis.account import account
from dpcli.file.pipeline.read import parse
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.prediction.ensemble import EnsembleMixture, EnsembleMixtureSpec
from dpcli.mechanisms.prediction.private_decoding import PrivateDecodingSpec
from dpcli.mechanisms.prediction.votes import ConfidentGnMaxSpec, GnMaxSpec, LnMaxSpec
from tests.cases import of_each
from tests.command import ROOT

VECTORS = json.loads((ROOT / "tests" / "vectors" / "pmixed_sound.json").read_text())
ALONE = Neighbours(Adjacency.ADD_REMOVE)


@of_each("row", VECTORS["sound_Dinf_rdp"])
def test_renyi_divergence_where_a_shard_is_removed(row: dict[str, float]) -> None:
    found = EnsembleMixture(int(row["N"]), row["q"], row["r"], False).rdp(np.array([row["alpha"]]))[0]
    assert found == pytest.approx(row["rdp"], rel=1e-10, abs=0.0)


@pytest.mark.parametrize("row", VECTORS["sound_Dinf"], ids=str)
def test_the_radius_that_meets_a_target(row: dict[str, float]) -> None:
    assert radius(row, False, row["best_alpha"], row["eps_rdp"]) == pytest.approx(row["radius_Dinf"], rel=1e-10)


@pytest.mark.parametrize("row", VECTORS["sound_Dinf_substitute_radius"], ids=str)
def test_the_radius_that_meets_a_target_where_a_shard_is_replaced(row: dict[str, float]) -> None:
    """Their maximum is found by search, to about 7 digits."""
    spent = VECTORS["sound_Dinf"][0]["eps_rdp"]
    assert radius(row, True, row["alpha"], spent) == pytest.approx(row["radius_substitute"], rel=3e-7)


def radius(row: dict[str, float], replaces: bool, order: float, spent: float) -> float:
    def over(r: float) -> float:
        return float(row["T"] * EnsembleMixture(int(row["N"]), row["q"], r, replaces).rdp(np.array([order]))[0]) - spent

    return float(brentq(over, 1e-3, 5.0, xtol=1e-14))


def corners(h: float, within: float) -> list[tuple[float, float]]:
    """Return the vertices, as (x, y), of the part of [e^-h, e^h]^2 where x and y are within a factor e^within of each other."""
    box = [math.exp(-h), math.exp(h)]
    found = [(x, y) for x in box for y in box if abs(math.log(x / y)) <= within * (1 + 1e-12)]
    if within < 2.0 * h:
        edges = [(e, e * f) for e in box for f in (math.exp(within), math.exp(-within))]
        found += [
            (x, y)
            for pair in edges
            for x, y in (pair, pair[::-1])
            if box[0] * (1 - 1e-12) <= min(x, y) <= max(x, y) <= box[1] * (1 + 1e-12)
        ]
    return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(6))
def test_the_pair_where_a_shard_is_replaced_is_the_worst_case(seed: int) -> None:
    """At every threshold the pair has the largest hockey-stick divergence that ratios with mean 1 allow: a linear programme says so."""
    draw = np.random.default_rng(seed)
    shards, rate, r = int(draw.integers(1, 6)), float(draw.choice([1.0, draw.uniform(0.1, 0.9)])), float(draw.uniform(0.05, 2.5))
    (loss,) = EnsembleMixture(shards, rate, r, True).losses()
    log_q, log_ratio = np.array(loss.log_reference), np.array(loss.log_ratio)
    for gamma in np.exp(draw.uniform(-2.0, 2.0, 8)):
        worst = 0.0
        for m in range(shards):
            weight = math.comb(shards - 1, m) * rate**m * (1 - rate) ** (shards - 1 - m)
            t, points = rate / (m + 1), np.array(corners(2 * r if m else r, 2 * r))
            value = np.maximum(1 + t * (points[:, 0] - 1) - gamma * (1 + t * (points[:, 1] - 1)), 0.0)
            solved = linprog(-value, A_eq=np.vstack((np.ones(len(points)), points.T)), b_eq=np.ones(3), bounds=(0, None))
            worst += weight * -solved.fun
        rest = max(0.0, 1.0 - gamma) * (1.0 - np.exp(log_q).sum())  # outcomes of ratio 1
        found = float(np.sum(np.maximum(np.exp(log_q + log_ratio) - gamma * np.exp(log_q), 0.0)) + rest)
        assert found == pytest.approx(worst, rel=1e-7, abs=1e-9)


def test_corners_are_never_looser_than_the_pair() -> None:
    orders = np.array([1.5, 2.0, 3.6, 8.0, 64.0])
    for shards, rate, r in ((80, 0.03, 1.3), (16, 1.0, 0.3), (2, 0.5, 3.0)):
        mixture = EnsembleMixture(shards, rate, r, True)
        (loss,) = mixture.losses()
        assert (mixture.rdp(orders) <= loss.cgf(orders - 1.0) / (orders - 1.0) * (1 + 1e-12)).all()


def test_wide_radii_and_many_shards_lose_no_outcome() -> None:
    """A model that is alone may say anything, however unlikely it is to be alone."""
    for rate, shards in ((0.999, 300), (1e-3, 4096), (0.5, 2)):
        for replaces in (False, True):
            pure = EnsembleMixture(shards, rate, 800.0, replaces).approx_dp(0.0)
            assert pure >= math.log(rate) + 800.0
    assert EnsembleMixture(1, 1.0, 0.7, False).approx_dp(0.0) == pytest.approx(0.7, rel=1e-9)
    assert EnsembleMixture(1, 1.0, 0.7, True).approx_dp(0.0) == pytest.approx(1.4, rel=1e-9)


def test_votes_are_gaussians_and_laplaces_of_one_vote() -> None:
    for group in (1, 3):
        several = Neighbours(Adjacency.REPLACE_ONE, 5, group)
        assert GnMaxSpec(sigma=40.0).resolve(several).gdp() == pytest.approx(group * math.sqrt(2.0) / 40.0, rel=1e-14)
        session = ConfidentGnMaxSpec(queries=640, answers=349, threshold=200.0, threshold_sigma=150.0, sigma=40.0)
        assert session.resolve(several).gdp() == pytest.approx(group * math.sqrt(640 / 150**2 + 2 * 349 / 40**2), rel=1e-14)
        e0 = group / 20.0
        assert LnMaxSpec(scale=20.0).resolve(several).zcdp() == pytest.approx(2 * (e0 + math.expm1(-e0)), rel=1e-9)
        assert LnMaxSpec(scale=20.0).resolve(several).approx_dp(0.0) == pytest.approx(2 * e0, rel=1e-14)


def test_a_session_of_640_queries_costs_what_was_published() -> None:
    """Data-independent, 349 answered: 3.06 by Renyi divergences, and 2.82 as the one Gaussian that it is."""
    text = """
format = 1
[privacy]
adjacency = "replace-one"
delta = 1e-5
[[mechanism]]
name = "session"
type = "confident-gnmax"
queries = 640
answers = 349
threshold = 200.0
threshold_sigma = 150.0
sigma = 40.0
"""
    found = account(parse(text.encode(), "pate.toml"))
    by = {row.accountant.name: row.upper for row in found.rows}
    assert by["rdp"] == pytest.approx(3.0603, abs=1e-4) and found.upper == pytest.approx(2.8237, abs=1e-4)


def test_decoding_costs_half_the_square_of_what_moves_a_logit() -> None:
    """rho = (C / (B tau))^2 / 2 for one record; replaced ones move a logit twice as far."""
    spec = PrivateDecodingSpec(clip=10.0, references=7, temperature=1.2)
    rho = 0.5 * (10.0 / (7 * 1.2)) ** 2
    for adjacency, records, factor in (
        (Adjacency.ADD_REMOVE, 1, 1.0),
        (Adjacency.ZERO_OUT, 1, 1.0),
        (Adjacency.REPLACE_ONE, 1, 2.0),
        (Adjacency.ADD_REMOVE, 3, 3.0),
    ):
        assert spec.resolve(Neighbours(adjacency, records)).zcdp() <= rho * factor**2 * (1 + 1e-14)


def test_a_group_of_units_is_as_many_shards() -> None:
    spec = EnsembleMixtureSpec(shards=8, model_rate=0.5, radius=0.2)
    one, two = spec.resolve(ALONE), spec.resolve(Neighbours(Adjacency.ADD_REMOVE, 1, 2))
    assert two.approx_dp(0.0) == pytest.approx(2 * one.approx_dp(0.0), rel=1e-12)
    assert spec.resolve(Neighbours(Adjacency.ADD_REMOVE, 7)).approx_dp(0.0) == one.approx_dp(0.0)


@pytest.mark.parametrize("clip", [5e-324, 1e-300, 1e-160, 1e-20, 1.0, 1e20])
def test_a_clip_of_any_size_has_a_price(clip: float) -> None:
    """Rounded up where it is less than numbers tell apart."""
    for adjacency in Adjacency:
        found = PrivateDecodingSpec(clip=clip, references=10**6).resolve(Neighbours(adjacency))
        orders = np.array([1.5, 2.0, 1000.0])
        assert (found.rdp(orders) >= 0.0).all() and found.approx_dp(0.0) > 0.0 and found.zcdp() >= 0.0
