"""Calibration to targets other than epsilon (analysis/goals.py): closed forms for Gaussians and randomised response."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest
from scipy.stats import norm

from dpcli.analysis.account import account
from dpcli.analysis.calibrate_file import calibrate_file, calibrate_goal
from dpcli.analysis.curve import profile
from dpcli.analysis.goals import AdvantageGoal, GaussianGoal, Goal, PowerGoal, RhoGoal, goal_of
from dpcli.base.errors import CannotCertify, InputError
from dpcli.exam.subjects import SEED
from dpcli.file.pipeline.read import parse
from dpcli.numerics.closed.normal import mu_of_pure
from tests.cases import tiered

HEAD = 'format = 1\n[privacy]\nadjacency = "add-remove"\nunit = "example"\ndelta = 1e-6\nreleases = "outputs"\ndataset_size = 100_000\n'
GAUSSIAN = HEAD + '[[mechanism]]\nname = "it"\ntype = "gaussian"\nnoise_multiplier = 3.0\nsteps = 4\n'
SAMPLED = GAUSSIAN + 'sampling = { scheme = "poisson", rate = 0.01 }\n'
MANY = SAMPLED.replace("steps = 4", "steps = 300").replace("rate = 0.01", "rate = 0.05")
PURE = HEAD.replace("add-remove", "replace-one") + '[[mechanism]]\nname = "it"\ntype = "randomized-response"\nepsilon = 0.7\n'

# What mu one Gaussian may have for each goal, and by how much the answer may exceed the noise that follows.
GOALS: tuple[tuple[Callable[[float], Goal], Callable[[float], float], float], ...] = (
    (lambda u: RhoGoal(0.01 + u), lambda u: math.sqrt(2.0 * (0.01 + u)), 2e-6),
    (lambda u: AdvantageGoal(0.05 + 0.5 * u), lambda u: 2.0 * float(norm.ppf(0.525 + 0.25 * u)), 2e-6),
    (lambda u: PowerGoal(0.2 + 0.5 * u, 0.05), lambda u: float(norm.ppf(0.2 + 0.5 * u) - norm.ppf(0.05)), 1e-4),
    (lambda u: PowerGoal(0.02, 1e-4), lambda u: float(norm.ppf(0.02) - norm.ppf(1e-4)), 1e-4),
    (lambda u: GaussianGoal(0.1 + 3.0 * u), lambda u: 0.1 + 3.0 * u, 2e-6),
)


@pytest.mark.parametrize(("made", "mu", "slack"), GOALS)
def test_noise_for_a_goal_is_that_of_one_gaussian(
    made: Callable[[float], Goal], mu: Callable[[float], float], slack: float
) -> None:
    u = Random(f"{SEED}/goal").random()
    goal = made(u)
    found = calibrate_goal(parse(GAUSSIAN.encode(), "it.toml"), goal)
    least = math.sqrt(4.0) / mu(u)  # four steps
    assert least * (1.0 - 1e-12) <= found.value <= least * (1.0 + slack), (SEED, goal)
    assert found.upper <= goal.target < (found.cheaper_upper or 0.0)


@pytest.mark.sampled(0, 2)
@pytest.mark.long
@pytest.mark.parametrize("goal", tiered([AdvantageGoal(0.2), PowerGoal(0.03, 0.01), PowerGoal(0.65, 0.5)], 1, 2))
def test_noise_for_a_goal_is_not_more_than_what_is_certified_from_below_asks_for(goal: Goal) -> None:
    """Both sides of the trade-off curve that the certified lower ends of the profile allow come to the target."""
    found = calibrate_goal(parse(MANY.encode(), "it.toml"), goal)
    level = goal.level if isinstance(goal, PowerGoal) else 0.0
    epsilons = np.linspace(0.0, 6.0, 121) if level else np.zeros(1)
    lower = profile(found.pipeline, epsilons).lower
    steep, flat = lower + level * np.exp(epsilons), 1.0 - np.exp(-epsilons) * (1.0 - lower - level)
    assert float(np.minimum(steep, flat).min()) == pytest.approx(goal.target, rel=2e-3)
    assert found.adjacent and found.upper <= goal.target < (found.cheaper_upper or 0.0)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("steps", [1, 3])
def test_power_is_met_where_a_pure_loss_ends(steps: int) -> None:
    """Laplace loses at most steps / noise, where an attacker with few false positives gains most: noise = steps / log(target / level)."""
    text = GAUSSIAN.replace("gaussian", "laplace").replace("steps = 4", f"steps = {steps}")
    result = calibrate_goal(parse(text.encode(), "it.toml"), PowerGoal(0.05, 0.001))
    assert result.value == pytest.approx(steps / math.log(50.0), rel=1e-6 if result.adjacent else 1e-4)


def test_what_is_pure_has_the_advantage_and_the_gaussian_of_randomised_response() -> None:
    found = parse(PURE.encode(), "it.toml")
    assert AdvantageGoal(0.5).measure(found, 1)[0] == pytest.approx(math.tanh(0.35), rel=1e-9)
    for epsilon in (1e-6, 0.7, 3.0, Random(f"{SEED}/mu").uniform(0.01, 20.0)):
        mu, alphas = mu_of_pure(epsilon), np.concatenate([np.linspace(1e-9, 1.0, 500), [1.0 / (1.0 + math.exp(epsilon))]])
        pure = np.maximum(1.0 - np.exp(epsilon) * alphas, np.exp(-epsilon) * (1.0 - alphas))
        assert (norm.cdf(-norm.ppf(alphas) - mu) <= pure + 1e-12).all(), epsilon
        assert norm.cdf(-norm.ppf(alphas[-1]) - mu * (1.0 - 1e-6)) > pure[-1], epsilon


@pytest.mark.parametrize(("goal", "said"), [(RhoGoal(1.0), "no rho is known"), (GaussianGoal(1.0), "no finite mu is known")])
def test_what_no_noise_could_meet_is_refused(goal: Goal, said: str) -> None:
    with pytest.raises(CannotCertify, match=said):
        calibrate_goal(parse(SAMPLED.encode(), "it.toml"), goal)


@pytest.mark.parametrize("goal", [PowerGoal(0.5, 5e-324), PowerGoal(1.0 - 1e-12, 0.5)])
def test_an_extreme_rate_is_met_without_a_word(goal: PowerGoal, recwarn: pytest.WarningsRecorder) -> None:
    found = calibrate_goal(parse(GAUSSIAN.encode(), "it.toml"), goal)
    assert norm.sf(norm.isf(goal.level) - 2.0 / found.value) <= goal.target  # four steps
    assert not recwarn.list


def test_targets_do_not_mix() -> None:
    none = dict.fromkeys(("rho", "advantage", "tpr", "fpr", "mu", "epsilon"))
    assert goal_of(**none) is None and goal_of(**{**none, "epsilon": 1.0}) is None
    for stated in (
        {"rho": 1.0, "epsilon": 1.0},
        {"tpr": 0.1},
        {"fpr": 0.1},
        {"tpr": 0.1, "fpr": 0.1},
        {"advantage": 1.0},
        {"rho": math.nan},
        {"mu": 0.0},
    ):
        with pytest.raises(InputError):
            goal_of(**{**none, **stated})


def test_a_target_that_is_met_exactly_is_met() -> None:
    """Nine steps of noise 3 have rho = 1/2 and mu = 1; ten have not."""
    nine = GAUSSIAN.replace("steps = 4", "steps = 9")
    for goal in (RhoGoal(0.5), GaussianGoal(1.0)):
        assert calibrate_goal(parse(GAUSSIAN.encode(), "it.toml"), goal, "steps").value == 9.0
        assert calibrate_goal(parse(nine.encode(), "it.toml"), goal).value == 3.0


def test_noise_for_a_budget_meets_both_caps(tmp_path: Path) -> None:
    for epsilon, rho in ((50.0, 0.01), (0.1, 10.0)):
        path = tmp_path / "it.toml"
        path.write_text(GAUSSIAN + f"[budget]\nepsilon = {epsilon}\nrho = {rho}\n")
        solved = calibrate_file(str(path))
        budget = account(solved.pipeline).budget
        assert budget is not None and budget.verdict in ("pass", "warn")
        assert (
            max((budget.epsilon.spent if budget.epsilon else 0.0) / epsilon, (budget.rho.spent.value if budget.rho else 0.0) / rho)
            > 1.0 - 1e-5
        )
