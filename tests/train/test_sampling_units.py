"""Units that own several records: the bound on contributions, and samples of whole units."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from dpcli.analysis.inquiry import tightest
from dpcli.base.errors import InputError
from dpcli.mechanisms.noise.gaussian_spec import sampled_gaussian
from dpcli.mechanisms.sampling.schemes import Poisson
from dpcli.random.streams import SeededStream
from dpcli.train.sampling.units import grouped, kept, require_bounded
from tests.train.draws import binomial_fit

OWNERS = st.lists(st.integers(0, 9), max_size=60).map(lambda owners: np.array(owners, np.int64))


@given(OWNERS, st.integers(1, 5), st.integers(0, 99))
def test_no_unit_keeps_more_than_its_bound(owners: np.ndarray, most: int, seed: int) -> None:
    used = kept(owners, most, SeededStream(seed))
    assert np.all(np.diff(used) > 0)
    for owner in set(owners.tolist()):
        assert (owners[used] == owner).sum() == min(most, (owners == owner).sum())


def test_what_a_unit_keeps_is_drawn_evenly() -> None:
    stream, owners = SeededStream(1), np.array([3, 8, 3, 3, 8, 3])
    counts = sum(np.bincount(kept(owners, 2, stream), minlength=6) for _ in range(4_000))
    assert counts[1] == counts[4] == 4_000
    assert chisquare(counts[[0, 2, 3, 5]]).pvalue > 1e-6


def test_what_a_unit_keeps_depends_on_no_other() -> None:
    """The last unit's records come last, so the others' words are the same without it."""
    owners = np.array([0, 1, 0, 1, 0, 1, 1, 2, 2, 2])
    all_units, without = kept(owners, 2, SeededStream(2)), kept(owners[:7], 2, SeededStream(2))
    assert np.array_equal(all_units[all_units < 7], without)


def test_units_may_have_names() -> None:
    units = grouped(np.array(["b", "a", "b", "c"]), 5, SeededStream(3))
    assert [units.members(np.array([i])).tolist() for i in range(units.count)] == [[1], [0, 2], [3]]


@given(OWNERS, st.integers(1, 5), st.integers(0, 99), st.data())
def test_all_kept_records_of_a_unit_come_together(owners: np.ndarray, most: int, seed: int, data: st.DataObject) -> None:
    units = grouped(owners, most, SeededStream(seed))
    assert units.count == len(set(owners.tolist()))
    chosen = np.array(sorted(data.draw(st.sets(st.integers(0, units.count - 1)))) if units.count else [], np.int64)
    names = np.unique(owners)[chosen]
    records = units.members(chosen)
    assert len(set(records.tolist())) == len(records) == units.sizes(chosen).sum()
    assert owners[records].tolist() == np.repeat(names, units.sizes(chosen)).tolist()
    assert units.sizes(chosen).tolist() == [min(most, int((owners == name).sum())) for name in names]


def test_units_are_sampled_not_records() -> None:
    """A unit with many records is in no more batches than one with a single record."""
    owners = np.array([0] * 50 + list(range(1, 100)))
    units = grouped(owners, 10, SeededStream(4))
    batches = list(itertools.islice(units.batches(Poisson("poisson", rate=0.1), 100, SeededStream(5)), 5_000))
    assert binomial_fit(np.array([len(batch) for batch in batches]), 100, 0.1) > 1e-6
    assert chisquare(np.bincount(np.concatenate(batches), minlength=100)).pvalue > 1e-6


@pytest.mark.long
def test_records_sampled_by_unit_cost_more_than_records_sampled_one_by_one() -> None:
    """Why whole units must be clipped as one: five records that always come together are not five that come each for itself."""
    apart, together = (tightest([(step, 100)], 1e-5) for step in (sampled_gaussian(1.0, 0.01, 5), sampled_gaussian(5.0, 0.01, 1)))
    assert apart is not None and together is not None
    assert apart.upper < 4.1 and together.upper > 75.0


def test_a_broken_bound_is_refused_without_saying_by_whom() -> None:
    require_bounded(np.array([1, 1, 2]), 2)
    require_bounded(np.array([]), 2)
    with pytest.raises(InputError, match=r"^expected at most privacy.max_contributions = 2 records of each unit, found more$"):
        require_bounded(np.array([1, 1, 1, 2]), 2)
