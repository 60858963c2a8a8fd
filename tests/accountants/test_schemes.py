"""Sampling schemes of a file as the accountants see them: which mechanism and how many runs an entry is charged as.

Rates are not rounded, steps are whole, sampling amplifies only where that is proved, and no lower bound exceeds what a record in every step
would show.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import sqrt
from random import Random

import pytest

from dpcli.analysis.account import account
from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import SAMPLING
from dpcli.file.pipeline.resolve import resolve
from dpcli.mechanisms.mechanism import Dominated
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.gaussian_spec import SampledGaussian
from dpcli.mechanisms.sampling.poisson import PoissonReplaced
from dpcli.mechanisms.sampling.schemes import FixedSize, Poisson, Scheme, Unsampled
from dpcli.mechanisms.stated.pure_and_approx import Free
from tests.strategies import entry, pipeline


def charge(
    scheme: Scheme, steps: int = 1, epochs: float | None = None, adjacency: str = "add-remove", **privacy: int
) -> tuple[object, int]:
    single = replace(entry("gaussian", noise_multiplier=2.0), sampling=scheme, steps=steps, epochs=epochs)
    found = resolve(pipeline(single, adjacency=adjacency, **privacy))[0]
    return found.mechanism, found.count


def test_poisson() -> None:
    assert charge(Poisson("poisson", 0.1), 7) == (SampledGaussian(0.5, 0.1), 7)
    assert charge(Poisson("poisson", None, 250), 7, dataset_size=1000) == (SampledGaussian(0.5, 0.25), 7)
    assert charge(Poisson("poisson", 1.0), 7) == (Gaussian(0.5), 7)
    assert charge(Poisson("poisson", 0.0), 7)[0] == Free()


@pytest.mark.parametrize(
    ("epochs", "rate", "steps"), [(1.0, 0.3, 4), (3.0, 0.1, 30), (0.5, 0.1, 5), (1.2, 0.01, 120), (1.0001, 0.01, 101)]
)
def test_epochs_become_whole_steps(epochs: float, rate: float, steps: int) -> None:
    """Exactly: 3 / 0.1 is 30 and not 31, 1.2 / 0.01 is 120."""
    assert charge(Poisson("poisson", rate), epochs=epochs)[1] == steps
    assert steps >= Fraction(repr(epochs)) / Fraction(repr(rate)) > steps - 1


def test_the_larger_of_two_stated_rates_is_used() -> None:
    mechanism, _ = charge(Poisson("poisson", 0.2504, 250), dataset_size=1000)
    assert mechanism == Dominated(SampledGaussian(0.5, 0.2504))


def test_two_stated_rates_never_lower_the_count() -> None:
    """60 epochs of 1 in 100, stated as 0.0149 as well, are 6,000 steps of either; the higher rate would make them 4,027."""
    mechanism, count = charge(Poisson("poisson", 0.0149, 1), epochs=60.0, dataset_size=100)
    assert mechanism == Dominated(SampledGaussian(0.5, 0.0149)) and count >= 6000


def test_fixed_size() -> None:
    assert charge(FixedSize("fixed-size", 0.1), 3, adjacency="replace-one") == (PoissonReplaced(Gaussian(1.0), 0.1), 3)
    assert charge(FixedSize("fixed-size", 0.1), adjacency="replace-one", max_contributions=4) == (
        PoissonReplaced(Gaussian(4.0), pytest.approx(0.4)),
        1,
    )
    assert charge(FixedSize("fixed-size", 0.5), adjacency="replace-one", max_contributions=3) == (Dominated(Gaussian(3.0)), 1)
    with pytest.raises(InputError, match="needs adjacency = replace-one"):
        charge(FixedSize("fixed-size", 0.1))


@pytest.mark.parametrize("scheme", ["shuffle", "cyclic"])
def test_once_per_epoch_is_unsampled(scheme: str) -> None:
    """A lower bound is claimed where a record takes part as often as is charged and its place in the order is known."""
    kind = load(SAMPLING[scheme])
    known = Gaussian(0.5) if scheme == "cyclic" else Dominated(Gaussian(0.5))
    assert charge(kind(scheme, 0.1), 25) == (known, 3)
    assert charge(kind(scheme, 0.3), 10) == (Dominated(Gaussian(0.5)), 4)  # three full batches to a pass
    assert charge(kind(scheme), 25) == (Dominated(Gaussian(0.5)), 25)
    assert charge(kind(scheme, 0.1), epochs=2.5) == (known, 3)
    assert charge(kind(scheme, 0.1), 25, max_contributions=2) == (Dominated(Gaussian(1.0)), 3)


@pytest.mark.sampled(1, 1)
@pytest.mark.parametrize("name", SAMPLING)
def test_no_lower_bound_is_above_what_that_many_steps_show(name: str) -> None:
    """However passes, rates and participations divide the steps: somebody who takes part in every one of them shows no more."""
    kind, random, asked = load(SAMPLING[name]), Random(20261122), 0
    for _ in range(40):
        steps, rate = random.randint(1, 7), random.choice([1.0, 0.75, 2.0 / 3.0, 0.5, 0.4, 0.3, 0.25])
        keys: dict[str, object] = {} if name == "none" else {"rate": rate}
        if name == "balls-in-bins":
            keys["participations"] = random.randint(1, 4)
        one = replace(entry("gaussian", noise_multiplier=2.0), sampling=kind(name, **keys), steps=steps)
        adjacency = "replace-one" if name == "fixed-size" else random.choice(["add-remove", "replace-one", "zero-out"])
        found = account(pipeline(one, adjacency=adjacency), ["exact", "pld"])
        ratio = (2.0 if adjacency == "replace-one" else 1.0) / 2.0
        most = Gaussian(ratio * sqrt(steps)).approx_dp(1e-5)
        assert (found.lower or 0.0) <= most * (1.0 + 1e-9), (name, keys, steps, adjacency)
        asked += found.lower is not None
    assert asked or name in ("fixed-size", "shuffle")  # which claim none


def test_unsampled() -> None:
    assert charge(Unsampled("none"), 5) == (Gaussian(0.5), 5)
    single = replace(entry("gaussian", noise_multiplier=2.0), sampling=None, steps=5)
    assert account(pipeline(single)).charges[0].count == 5


def test_partitions_need_a_record_that_stays() -> None:
    single = replace(entry("gaussian", noise_multiplier=2.0), partition="region")
    assert account(pipeline(single)).charges[0].mechanism == Gaussian(0.5)
    with pytest.raises(InputError, match="may move from one part to another"):
        account(pipeline(single, adjacency="replace-one"))
