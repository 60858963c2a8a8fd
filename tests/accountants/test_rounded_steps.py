"""Files of thousands of different sampled Gaussians, which are rounded to some hundreds (accountants/rounded_steps.py): those rounded up
cost no less, those rounded down no more, and the truth lies between.
"""

from __future__ import annotations

import math
import os
import random
from pathlib import Path

import pytest

import dpcli
from dpcli.accountants.base import Steps
from dpcli.accountants.exact import ExactProfile
from dpcli.accountants.rounded_steps import KINDS, rounded_steps
from dpcli.analysis import inquiry
from dpcli.analysis.inquiry import MOST_MECHANISMS
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.laplace import Laplace
from tests.cases import by_tier
from tests.command import dpcli as run

SEED = 0 if os.environ.get("CI") else random.SystemRandom().getrandbits(32)


def drawn(source: random.Random, count: int) -> Steps:
    """Draw different steps: noise and rates over several powers of ten, groups of one to five."""
    return tuple(
        (
            KINDS[source.randrange(len(KINDS))](
                1.0 / 10.0 ** source.uniform(-0.5, 1.0),  # type: ignore[call-arg]
                10.0 ** source.uniform(-4.0, -0.5),
                source.choice((1, 1, 2, 5)),
            ),
            source.randint(1, 4),
        )
        for _ in range(count)
    )


def test_each_is_moved_to_its_own_side() -> None:
    source = random.Random(SEED)
    others: Steps = ((Gaussian(0.1), 3), (Laplace(0.01), 2))
    steps = (*drawn(source, 600), *others, *drawn(source, 600))
    found = rounded_steps(steps, 800, 700)
    assert found is not None
    for above, below, (mechanism, count) in zip(*found, steps, strict=True):
        assert above[1] == below[1] == count
        if type(mechanism) in KINDS:
            assert type(above[0]) is type(below[0]) is type(mechanism)
            for key in ("mu", "rate"):
                assert getattr(below[0], key) <= getattr(mechanism, key) <= getattr(above[0], key) < math.inf
            assert above[0].records == below[0].records == mechanism.records and above[0].rate < 1.0  # type: ignore[attr-defined]
        else:
            assert above[0] == below[0] == mechanism
    assert all(len({mechanism for mechanism, _ in side}) <= 702 for side in found)


def test_few_are_left_as_they_are_and_so_are_others() -> None:
    source = random.Random(SEED)
    assert rounded_steps(drawn(source, 50), MOST_MECHANISMS) is None
    assert rounded_steps(tuple((Laplace(0.001 * k), 1) for k in range(1, MOST_MECHANISMS + 100)), MOST_MECHANISMS) is None
    assert rounded_steps(((Laplace(0.1), 1), *drawn(source, 50)), 50, 50) is None


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_louder_steps_dominate(kind: int) -> None:
    """A single step at many epsilons: delta of the quieter is never above that of the louder."""
    source = random.Random(f"{SEED} {kind}")
    for _ in range(12):
        mu, rate, records = source.uniform(0.05, 3.0), 10.0 ** source.uniform(-3.0, -0.1), source.choice((1, 2, 3, 7))
        quiet = KINDS[kind](mu, rate, records)  # type: ignore[call-arg]
        loud = KINDS[kind](mu * source.uniform(1.0, 1.3), min(rate * source.uniform(1.0, 1.3), 0.99), records)  # type: ignore[call-arg]
        for epsilon in (0.0, *(source.uniform(0.0, 2.0) for _ in range(4))):
            low, high = ExactProfile(((quiet, 1),)).delta(epsilon), ExactProfile(((loud, 1),)).delta(epsilon)
            assert (low.lower or 0.0) <= high.upper * (1.0 + 1e-9), (quiet, loud, epsilon)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_what_they_cost_is_between_both(kind: int) -> None:
    source = random.Random(f"{SEED} {kind}")
    steps: Steps = tuple((KINDS[kind](source.uniform(0.3, 0.6), source.uniform(0.01, 0.02)), 5) for _ in range(60))  # type: ignore[call-arg]
    found = rounded_steps(steps, 50, 30)
    assert found is not None
    truth, above, below = (ExactProfile(side).epsilon(1e-6) for side in (steps, *found))
    assert truth.lower is not None and below.lower is not None
    assert below.lower <= truth.upper and truth.lower <= above.upper
    assert above.upper <= 1.5 * truth.upper and below.lower >= truth.upper / 1.5


FILE = """format = 1
[privacy]
unit = "example"
adjacency = "add-remove"
delta = 1e-6
releases = "final-model"
[[mechanism]]
name = "stage"
type = "gaussian"
noise_multiplier = [{}]
steps = 10
sampling = {{ scheme = "poisson", rate = 0.004 }}
sample = "own"
"""


@pytest.mark.long
@pytest.mark.parametrize("many", by_tier(20, None, MOST_MECHANISMS))
def test_a_file_of_thousands_has_an_interval(many: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quick run lowers the limit from which on steps are rounded to 20."""
    monkeypatch.setattr(inquiry, "MOST_MECHANISMS", many)
    source, file = random.Random(SEED), tmp_path / "many.toml"
    file.write_text(FILE.format(", ".join(f"{source.uniform(1.0, 4.0):.9f}" for _ in range(many + 120))))
    found = dpcli.account(dpcli.load(str(file)))
    assert found.winner is not None and found.winner.accountant.name == "exact" and found.lower is not None
    assert found.lower <= found.winner.upper <= 1.01 * found.lower
    assert math.fsum(found.shares) == pytest.approx(1.0)
    truth = ExactProfile(tuple((charge.mechanism, charge.count) for charge in found.charges)).epsilon(1e-6)
    assert truth.lower is not None and found.lower <= truth.upper and truth.lower <= found.winner.upper
    said = run("account", str(file)).out
    assert f"and {many + 100:,} more, " in said and said.count("stage[") == 20
