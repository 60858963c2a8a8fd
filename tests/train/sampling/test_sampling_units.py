"""Units that own several records (train/sampling/units.py): the bound on their records, and samples of whole units."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from dpcli.random.streams import SeededStream
from dpcli.train.sampling.units import selected_records, unit_rows

OWNERS = st.lists(st.integers(0, 9), max_size=60).map(lambda owners: np.array(owners, np.int64))


@given(OWNERS, st.integers(1, 5), st.integers(0, 99))
def test_no_unit_keeps_more_than_its_bound(owners: np.ndarray, most: int, seed: int) -> None:
    used = selected_records(owners, most, SeededStream(seed))
    assert np.all(np.diff(used) > 0)
    for owner in set(owners.tolist()):
        assert (owners[used] == owner).sum() == min(most, (owners == owner).sum())


def test_what_a_unit_keeps_is_drawn_evenly() -> None:
    stream, owners = SeededStream(1), np.array([3, 8, 3, 3, 8, 3])
    counts = sum(np.bincount(selected_records(owners, 2, stream), minlength=6) for _ in range(4_000))
    assert counts[1] == counts[4] == 4_000
    assert chisquare(counts[[0, 2, 3, 5]]).pvalue > 1e-6


def test_what_a_unit_keeps_depends_on_no_other() -> None:
    """The last unit's records come last, so the others' words are the same without it."""
    owners = np.array([0, 1, 0, 1, 0, 1, 1, 2, 2, 2])
    all_units, without = selected_records(owners, 2, SeededStream(2)), selected_records(owners[:7], 2, SeededStream(2))
    assert np.array_equal(all_units[all_units < 7], without)


def rows_of(owners: np.ndarray, most: int, seed: int) -> list[list[int]]:
    records, real = unit_rows(owners, most, SeededStream(seed))
    assert all(row[~known].tolist() == [row[0]] * int((~known).sum()) for row, known in zip(records, real, strict=True))
    return [row[known].tolist() for row, known in zip(records, real, strict=True)]


def test_units_may_have_names() -> None:
    assert rows_of(np.array(["b", "a", "b", "c"]), 5, 3) == [[1], [0, 2], [3]]


@given(OWNERS, st.integers(1, 5), st.integers(0, 99))
def test_all_kept_records_of_a_unit_come_together(owners: np.ndarray, most: int, seed: int) -> None:
    rows, names = rows_of(owners, most, seed), np.unique(owners)
    assert len(rows) == len(names)
    for row, name in zip(rows, names, strict=True):
        assert set(owners[row].tolist()) == {name}
        assert len(set(row)) == len(row) == min(most, int((owners == name).sum()))
