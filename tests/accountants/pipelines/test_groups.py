"""Units of many records, whose losses are dear to compute: accountants that use up a command's work must not leave the file without a
narrow answer. The expected epsilons are those of a lattice that shares no code with dpcli.
"""

from __future__ import annotations

import json

import pytest

from tests.command import dpcli

FILE = """
format = 1
name = "groups"
[privacy]
unit = "user"
adjacency = "{adjacency}"
max_contributions = {records}
delta = {delta}
releases = "all-checkpoints"
"""
GAUSSIAN = """
[[mechanism]]
name = "train"
type = "gaussian"
steps = 50
noise_multiplier = 5.0
sampling = { scheme = "poisson", rate = 0.001 }
"""
MIXTURES = """
[[mechanism]]
name = "first"
type = "gaussian-mixture"
sensitivities = [1.7511737104573923, 2.101408452548871]
probabilities = [0.8889, 0.1111]
sigma = 6.4981
steps = 134
sampling = { scheme = "poisson", rate = 0.0031236 }
[[mechanism]]
name = "second"
type = "gaussian-mixture"
sensitivities = [0.0, 0.3110643233972954, 0.9331929701918862, 1.2442572935891816]
probabilities = [0.04161, 0.2277, 0.01867, 0.71202]
sigma = 0.93366
steps = 23
sampling = { scheme = "poisson", rate = 0.0051893 }
"""
WEIGHTED = """
[[mechanism]]
name = "first"
type = "gaussian"
steps = 5
sigma = "calibrate"
sensitivity = 0.18664
[[mechanism]]
name = "second"
type = "gaussian"
steps = 198
noise_multiplier = { calibrate = { weight = 100000.0 } }
sampling = { scheme = "poisson", rate = 0.00025348 }
"""


def upper(mechanisms: str, adjacency: str, records: int, delta: float) -> float:
    file = FILE.format(adjacency=adjacency, records=records, delta=delta) + mechanisms
    return float(json.loads(dpcli("account", "-", "-f", "json", stdin=file.encode()).out)["result"]["epsilon_upper"])


@pytest.mark.parametrize(("records", "expected"), [(64, 0.75027), pytest.param(100, 1.21271, marks=pytest.mark.long)])
def test_more_records_cost_more_and_none_of_them_a_cliff(records: int, expected: float) -> None:
    """Fifty replaced groups; the references are those of a lattice that shares no code."""
    assert expected <= upper(GAUSSIAN, "replace-one", records, 1e-6) <= expected * 1.0001


@pytest.mark.nightly
def test_mixtures_of_hundreds_of_sums() -> None:
    """The reference is that of a lattice that shares no code: 9.374."""
    assert 9.3735 <= upper(MIXTURES, "zero-out", 21, 1.49e-5) <= 9.376


@pytest.mark.nightly
def test_a_search_that_begins_at_dear_values_ends_at_the_least_noise() -> None:
    file = FILE.format(adjacency="add-remove", records=9, delta=5.83e-10) + WEIGHTED
    result = dpcli("calibrate-sigma", "-", "--target-epsilon", "0.179", "-f", "json", stdin=file.encode())
    answer = json.loads(result.out)["result"]
    assert answer["noise_over_sensitivity"] <= 446.1 and answer["epsilon_upper"] <= 0.179
