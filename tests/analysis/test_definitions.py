"""Other definitions of privacy: what dpcli-definitions(7) says of them, and an example of its data, where a number can show it."""

from __future__ import annotations

import re
from math import exp, sqrt

import numpy as np
import pytest
from scipy.stats import norm

import dpcli
from dpcli.analysis.account import account
from tests.command import ROOT
from tests.strategies import entry, pipeline


def delta_of_two_steps(epsilon: float, first: float, then: float, threshold: float) -> float:
    """delta of two unit Gaussians: one moved by `first` and, only if its outcome is above the threshold, one moved by `then`."""
    outcomes = np.linspace(first - 10, first + 10, 20001)
    masses = norm.pdf(outcomes - first) * (outcomes[1] - outcomes[0])
    rest = epsilon - first * (outcomes - first / 2)
    stopped = np.maximum(0.0, -np.expm1(rest))
    went_on = norm.sf(rest / then - then / 2) - np.exp(rest) * norm.sf(rest / then + then / 2)
    return float(np.dot(masses, np.where(outcomes > threshold, went_on, stopped)))


def test_a_filter_of_individual_losses_costs_its_limit_and_without_it_more() -> None:
    limit = 1.0
    for first in (0.3, 0.6, 0.9):
        left = sqrt(limit**2 - first**2)
        for threshold in (-1.0, 0.0, 0.8):
            for epsilon in (0.5, 1.0, 2.0):
                stated = norm.sf(epsilon / limit - limit / 2) - exp(epsilon) * norm.sf(epsilon / limit + limit / 2)
                case = (first, threshold, epsilon)
                assert delta_of_two_steps(epsilon, first, left, threshold) <= stated + 1e-6, case
                assert delta_of_two_steps(epsilon, first, limit, -100.0) > stated, case


def test_labels_that_are_randomised_cost_their_epsilon() -> None:
    labels = pipeline(entry("randomized-response", epsilon=2.0, categories=10), unit="label", adjacency="replace-one", delta=1e-12)
    assert account(labels).epsilon == pytest.approx(2.0, rel=1e-9)


def test_a_model_has_forgotten_k_units_at_the_cost_of_a_group() -> None:
    alone = pipeline(entry("gaussian", noise_multiplier=4.0), delta=1e-6)
    three = pipeline(entry("gaussian", noise_multiplier=4.0 / 3), delta=1e-6)
    assert account(alone, group_size=3).epsilon == pytest.approx(account(three).epsilon, rel=1e-9)


def test_the_exercise_of_the_average_salary() -> None:
    path = ROOT / "examples" / "average-salary.toml"
    pipeline = dpcli.load(path)
    (size, top) = re.findall(r"salary of ([\d,]+) employees, each clamped to \[0, (\d+)\]", path.read_text())[0]
    people, most = int(size.replace(",", "")), float(top)
    (entry,) = pipeline.mechanisms
    assert pipeline.privacy.dataset_size == people
    assert pipeline.privacy.adjacency.value == "replace-one"
    assert entry.spec.sensitivity == most / people == 200.0  # type: ignore[attr-defined]
    assert dpcli.account(pipeline).upper == pytest.approx(entry.spec.sensitivity / entry.spec.scale)  # type: ignore[attr-defined]
