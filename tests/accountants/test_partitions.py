"""Parallel composition: one record is in one part, but a unit's records may be in several."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from dpcli.analysis.account import account
from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import MECHANISMS
from dpcli.file.pipeline.model import Entry, PartitionKey, Pipeline, Privacy
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.mechanisms.noise.laplace import LaplaceSpec
from dpcli.mechanisms.spec import Spec
from dpcli.mechanisms.stated.pure_and_approx import PureSpec


def cost(
    *specs: Spec, contributions: int = 1, parts: bool = False, adjacency: Adjacency = Adjacency.ADD_REMOVE, delta: float = 0.0
) -> float:
    entries = tuple(
        Entry(str(i), "any", spec, partition=PartitionKey("region", str(i)) if parts else "region") for i, spec in enumerate(specs)
    )
    privacy = replace(Privacy(adjacency), unit="user", max_contributions=contributions, delta=delta)
    return account(Pipeline(privacy, entries)).upper


def test_one_part_per_record() -> None:
    assert cost(LaplaceSpec(scale=1.0, sensitivity=1.0)) == pytest.approx(1.0)
    assert cost(PureSpec(epsilon=1.0), PureSpec(epsilon=2.0), parts=True) == pytest.approx(2.0)


def test_a_unit_may_touch_as_many_parts_as_it_has_records() -> None:
    assert cost(LaplaceSpec(scale=1.0, sensitivity=1.0), contributions=5) == pytest.approx(5.0)
    assert cost(PureSpec(epsilon=1.0, stated_for="unit"), contributions=3) == pytest.approx(3.0)


def test_noise_per_contribution_is_worst_in_one_part() -> None:
    whole = cost(GaussianSpec(noise_multiplier=10.0), contributions=5, delta=1e-6)
    one = cost(GaussianSpec(noise_multiplier=2.0), delta=1e-6)
    assert whole == pytest.approx(one, rel=1e-9)


@pytest.mark.parametrize(
    ("contributions", "parts", "adjacency"),
    [
        (2, True, Adjacency.ADD_REMOVE),
        *((1, parts, adjacency) for parts in (True, False) for adjacency in (Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT)),
    ],
)
def test_what_may_move_between_parts_is_refused(contributions: int, parts: bool, adjacency: Adjacency) -> None:
    with pytest.raises(InputError, match="part"):
        cost(PureSpec(epsilon=1.0, stated_for="unit"), contributions=contributions, parts=parts, adjacency=adjacency)


@pytest.mark.parametrize("kind", MECHANISMS)
def test_under_zero_out_a_blank_must_add_nothing(kind: str) -> None:
    """Of every type, with and without the key by which noise is stated for one contribution."""
    for stated in stated_both_ways(kind):
        priced = [Privacy(Adjacency.ZERO_OUT, delta=0.5), Privacy(Adjacency.ADD_REMOVE, delta=0.5)]
        files = [Pipeline(privacy, (Entry("it", kind, stated, partition="region"),)) for privacy in priced]
        if stated.contribution_form:
            assert account(files[0]).upper == account(files[1]).upper
        else:
            with pytest.raises(InputError):
                account(files[0])


def stated_both_ways(kind: str) -> Iterator[Spec]:
    spec = load(MECHANISMS[kind])
    example = {key: tuple(value) if isinstance(value, list) else value for key, value in spec.example.items()}
    if "part" in str(example):
        return  # another entry's
    yield spec(**example)
    if kind in ("gaussian", "laplace"):
        yield spec(**{"sigma" if kind == "gaussian" else "scale": 2.0, "sensitivity": 1.0})
