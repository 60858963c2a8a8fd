"""Disjoint parts of the data (`partition` in a file).

One record is in one part, so that parts cost what the dearest of them costs; but a unit with several records may be in several. References:
all records with the dearest part, and enumeration.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest

from dpcli.analysis.account import account
from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import ACCOUNTANTS, MECHANISMS
from dpcli.file.pipeline.model import Entry, PartitionKey, Pipeline, Privacy
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.mechanisms.noise.laplace import LaplaceSpec
from dpcli.mechanisms.spec import Spec
from dpcli.mechanisms.stated.pure_and_approx import ApproxSpec, PureSpec
from tests.cases import by_tier, fresh_random
from tests.oracles import hockey_stick


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
    """Every type is tried with and without the key by which noise is stated for one contribution."""
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


def parted(*entries: Entry) -> Pipeline:
    """Return the pipeline whose first entry reads all records, and each other one a part of its own."""
    common, *parts = entries
    inside = tuple(replace(entry, partition=PartitionKey("region", entry.name)) for entry in parts)
    return Pipeline(replace(Privacy(Adjacency.ADD_REMOVE), delta=1e-5), (common, *inside))


@pytest.mark.parametrize("files", by_tier(2, 3, 6))
def test_parts_cost_what_all_records_cost_with_the_dearest_part(files: int) -> None:
    """Every accountant is asked, because the dearest part differs from one to another, and with delta."""
    seed = random.getrandbits(32)
    draw = random.Random(seed)
    kinds: tuple[Callable[[], Spec], ...] = (
        lambda: GaussianSpec(noise_multiplier=draw.uniform(1.0, 9.0)),
        lambda: LaplaceSpec(noise_multiplier=draw.uniform(1.0, 9.0)),
        lambda: PureSpec(epsilon=draw.uniform(0.05, 0.7)),
        lambda: ApproxSpec(epsilon=draw.uniform(0.01, 0.2), delta=1e-9),
    )
    for _ in range(files):
        entries = [Entry(f"{k}", "any", draw.choice(kinds)(), steps=draw.choice((1, 2, 30))) for k in range(draw.randint(2, 4))]
        delta = 10.0 ** draw.uniform(-9.0, -2.0)
        alone = [
            account(replace(parted(*entries), mechanisms=(entries[0], part)), ACCOUNTANTS, delta=delta) for part in entries[1:]
        ]
        for row, *others in zip(
            account(parted(*entries), ACCOUNTANTS, delta=delta).rows, *(one.rows for one in alone), strict=True
        ):
            if any(other.bound is None for other in others):
                assert row.bound is None, (seed, row.accountant.name)
            else:
                assert row.upper == pytest.approx(max(other.upper for other in others), rel=1e-6), (seed, row.accountant.name)


@pytest.mark.parametrize("count", by_tier(None, None, 2))
def test_parts_by_enumeration(count: int) -> None:
    """Randomised responses about all records and about three parts: the largest over the part that holds the record that differs."""
    epsilons = fresh_random().choices((0.3, 0.8, 1.3, 2.1), k=4)
    laws = [np.array([math.exp(epsilon), 1.0]) / (1.0 + math.exp(epsilon)) for epsilon in epsilons]
    entries = [Entry(str(k), "any", PureSpec(epsilon=epsilon)) for k, epsilon in enumerate(epsilons)]
    for epsilon in fresh_random().sample((0.0, 0.4, 1.1, 2.5), count):
        truth = 0.0
        for holder in (1, 2, 3):
            moved = [law[::-1] if k in (0, holder) else law for k, law in enumerate(laws)]
            p, q = (reduce(np.multiply.outer, side).ravel() for side in (laws, moved))
            truth = max(truth, hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))
        bound = account(parted(*entries), epsilon=epsilon)
        assert (bound.lower or 0.0) <= truth * (1.0 + 1e-9) <= bound.upper * (1.0 + 1e-8) + 1e-15, (epsilons, epsilon)
        assert bound.upper <= truth * (1.0 + 1e-6) + 1e-12, (epsilons, epsilon)


def test_many_choices_of_parts_are_bounded_without_trying_each() -> None:
    noise = [Entry(f"{of} {k}", "any", GaussianSpec(noise_multiplier=2.0 + k), partition=PartitionKey(of, str(k)))
             for of in ("region", "age") for k in range(9)]  # fmt: skip
    many = account(Pipeline(replace(Privacy(Adjacency.ADD_REMOVE), delta=1e-5), tuple(noise)))
    pair = Pipeline(many.pipeline.privacy, (noise[0], noise[9]))
    assert account(pair).upper <= many.upper <= 1.2 * account(pair).upper
