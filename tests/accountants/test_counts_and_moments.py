"""Two things that other tests let slip: equal epsilons of different mechanisms, and how far the moments go."""

from __future__ import annotations

import pytest

from dpcli.accountants.moments import ACCOUNTANT as MOMENTS
from dpcli.accountants.optimal import ACCOUNTANT as OPTIMAL
from dpcli.mechanisms.choice.randomized_response import RandomizedResponse
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.mechanisms.stated.pure_and_approx import Pure


def test_equal_epsilons_of_different_mechanisms_are_all_counted() -> None:
    apart = OPTIMAL.compose(((Pure(0.1), 100), (RandomizedResponse(0.1, 2), 100))).epsilon(1e-6).upper
    together = OPTIMAL.compose(((Pure(0.1), 200),)).epsilon(1e-6).upper
    assert apart == pytest.approx(together, rel=1e-9)


def test_moments_go_to_thirty_two_and_no_further() -> None:
    mnist = GaussianSpec(noise_multiplier=1.1).poisson(256 / 60000, Neighbours(Adjacency.ADD_REMOVE))
    bound = MOMENTS.compose(((mnist, 14063),)).epsilon(1e-5)
    assert bound.detail == {"moment": 8}
    assert bound.upper == pytest.approx(3.00921117, rel=1e-8)
    assert MOMENTS.compose(((Gaussian(0.01), 1),)).epsilon(1e-5).detail == {"moment": 32}
