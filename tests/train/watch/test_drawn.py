"""Statistical tests of batches (train/watch/loader.py): correct samplers pass, and passes over shuffled data are found within one pass."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest

from dpcli.base.lazy import load
from dpcli.base.registry import SAMPLING
from dpcli.file.keys.annotations import members_of
from dpcli.mechanisms.sampling.schemes import FixedSize, Poisson, Scheme
from dpcli.random.streams import insecure_seed
from dpcli.train.sampling.batch_samplers import sampler
from dpcli.train.watch.loader import TESTS, PassBatches, batches_of
from tests.cases import require_each

N, BATCH = 400, 20
POISSON, FIXED = Poisson("poisson", batch_size=BATCH), FixedSize("fixed-size", batch_size=BATCH)


def first_said(scheme: Scheme, batches: Iterator[Any], most: int, n: int = N) -> tuple[int, str | None]:
    """After how many batches something is said, and what; (0, None) where nothing is."""
    tested = batches_of(scheme, n, n)
    assert tested is not None
    return next(((number, said) for number, batch in enumerate(islice(batches, most), 1) if (said := tested.add(batch))), (0, None))


def shuffled(n: int, size: int, rng: np.random.Generator) -> Iterator[Any]:
    while True:
        order = rng.permutation(n)
        yield from (order[start : start + size] for start in range(0, n, size))


def own(name: str) -> Scheme:
    cls: type[Scheme] = load(SAMPLING[name])
    return cls(name, **({"batch_size": BATCH} if "batch_size" in members_of(cls) else {}))


def test_what_dpcli_draws_itself_passes() -> None:
    """Every scheme under which training draws, and that is tested here at all."""

    def check(name: str) -> None:
        scheme = own(name)
        if batches_of(scheme, N, N) is not None:
            assert first_said(scheme, sampler(scheme, N, insecure_seed(7).sampling, N), 300) == (0, None)

    require_each(SAMPLING, check)


def test_shuffled_batches_are_found_within_one_pass() -> None:
    def check(case: tuple[tuple[int, int], Scheme]) -> None:
        (n, size), scheme = case
        declared = type(scheme)(scheme.scheme, batch_size=size)
        passes = shuffled(n, size, np.random.default_rng(3))
        number, said = first_said(declared, passes, -(-n // size), n)
        assert number and said

    require_each(itertools.product([(400, 20), (1437, 64), (100, 50), (997, 10), (5000, 1000)], [POISSON, FIXED]), check)


def test_sizes_that_vary_do_not_hide_a_pass() -> None:
    """Shuffled, and cut at random places, so that the sizes look right."""

    def check(size: int) -> None:
        rng = np.random.default_rng(5)
        order = rng.permutation(4000)
        cuts = np.cumsum(rng.binomial(4000, size / 4000, 4000 // size - 10))
        number, said = first_said(Poisson("poisson", batch_size=size), iter(np.split(order, cuts)[:-1]), 1000, 4000)
        assert number and said.startswith("every record 0 or 1 times")

    require_each([20, 40], check)


@pytest.mark.parametrize(
    ("batches", "said"),
    [
        (lambda rng: (np.flatnonzero(rng.random(N) < 0.1) for _ in range(200)), "records in a batch on average"),
        (lambda rng: (rng.choice(N, BATCH, replace=False) for _ in range(200)), "batches of exactly 20 records"),
        (lambda rng: (rng.choice(N, rng.binomial(N, 0.05)) for _ in range(200)), "a record twice in one batch"),
        (lambda rng: (np.array([N]) for _ in range(1)), "a record that the dataset does not have"),
    ],
    ids=["twice the rate", "fixed size", "with replacement", "another dataset"],
)
def test_other_ways_of_drawing_are_found_under_poisson(batches: Callable[[np.random.Generator], Any], said: str) -> None:
    assert said in first_said(POISSON, iter(batches(np.random.default_rng(1))), 200)[1]


@pytest.mark.parametrize("scheme", [POISSON, FIXED], ids=lambda scheme: scheme.scheme)
def test_batches_that_come_again_are_found(scheme: Scheme) -> None:
    """As from a generator that is seeded anew in each epoch; two of a few records may be equal by chance."""
    epoch = [*islice(sampler(scheme, N, insecure_seed(8).sampling, N), 20)]
    assert first_said(scheme, iter(epoch * 2), 40) == (21, "the records of an earlier batch again")
    few = type(scheme)(scheme.scheme, batch_size=1)
    batches = [*islice(sampler(few, 5, insecure_seed(9).sampling, 5), 30)]
    assert first_said(few, iter(batches), 30, 5) == (0, None)


def test_a_batch_of_the_declared_size_passes_where_the_rate_is_no_binary_fraction() -> None:
    """0.29 * 100 is below 29 in floating point."""
    declared = FixedSize("fixed-size", batch_size=29)
    assert first_said(declared, sampler(declared, 100, insecure_seed(4).sampling, 100), 5, 100) == (0, None)


def test_a_record_twice_in_a_pass() -> None:
    tested = PassBatches(N, BATCH / N, length=20)
    order = list(islice(shuffled(N, BATCH, np.random.default_rng(2)), 40))
    assert [tested.add(batch) for batch in order] == [None] * 40
    assert tested.add(order[20]) is None and "a record twice in a pass" in tested.add(order[20])


def test_alarms_are_rare() -> None:
    """Union over all batches and all tests of each: below one in 10^9, whatever the length."""
    tested = batches_of(POISSON, N, N)
    assert tested is not None
    total = 0.0
    for _ in range(1000):
        tested.count += 1
        total += TESTS * float(np.exp(tested.log_level))
    assert 0.99e-9 < total <= 1e-9
