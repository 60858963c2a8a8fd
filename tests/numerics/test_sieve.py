"""Blocks of nodes that a contour integral leaves out (numerics/contour/sieve.py), because many copies of a discrete loss have a negligible
characteristic function there. The function is summed plainly at every node that was left out.
"""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from dpcli.numerics.contour import sieve
from dpcli.numerics.contour.sieve import LIGHT, LONG, SIEVED, sieved
from dpcli.numerics.contour.tilted_closed import TiltedAtoms
from dpcli.numerics.products import FINE_ROTATIONS, characteristic_less_one, decaying_characteristic_less_one, less_one
from tests.cases import fresh_random

ENOUGH = 12  # settings in which the sieve left out nodes


def drawn_atoms(source: random.Random) -> TiltedAtoms:
    """Return a few atoms on a lattice or anywhere, often with nearly all mass in one of them."""
    number = source.randint(2, 40)
    unit = 10.0 ** source.uniform(-4.0, 0.0)
    losses = [unit * (source.randint(-9, 9) if number % 2 else source.uniform(-9.0, 9.0)) for _ in range(number)]
    weights = [10.0 ** source.uniform(-6.0, 0.0) for _ in range(number)]
    return TiltedAtoms(np.log(weights), np.array(losses), 0.0)


def moduli(atoms: TiltedAtoms, n: int, y: np.ndarray) -> np.ndarray:
    """Return |phi(y)|^n by the plain sum over the atoms, from 1 - |phi|^2 = SUM_jk w_j w_k (1 - cos(y (l_j - l_k)))."""
    weights, losses = atoms._weights, atoms._losses
    turn = 2.0 * np.sin(0.5 * y[:, None, None] * (losses[:, None] - losses)) ** 2
    less = (turn * weights[:, None] * weights).sum(axis=(1, 2))
    with np.errstate(divide="ignore"):
        return np.asarray(np.exp(0.5 * n * np.log1p(-np.minimum(less, 1.0))))


def test_only_negligible_nodes_are_left_out() -> None:
    seed = fresh_random().randrange(2**32)
    source, shortened, fewest = random.Random(seed), 0, 1.0
    while shortened < ENOUGH:
        first, second = drawn_atoms(source), drawn_atoms(source)
        n, count = round(SIEVED * 10.0 ** source.uniform(0.0, 6.0)), source.randint(LONG + 1, 9 * LONG)
        step = 10.0 ** source.uniform(-3.0, 0.0) / max(math.sqrt(first.variance), 1e-9)
        index = sieved(first, n, step, count, None)
        both = sieved(second, n, step, count, index)
        if index is None or both is None or len(index) == count:
            continue
        shortened, fewest = shortened + 1, min(fewest, len(both) / count)
        assert index[0] == both[0] == 0 and np.all(np.diff(both) > 0) and np.isin(both, index).all(), seed
        for kept, allowed, part in ((index, np.arange(count), first), (both, index, second)):
            lost = np.setdiff1d(allowed, kept)
            sample = lost[:: max(1, len(lost) // 500)]
            assert np.all(moduli(part, n, step * sample) <= LIGHT * (1.0 + 1e-6)), (seed, n, step)
    assert fewest < 0.1, seed


def test_a_sieve_that_overlooks_how_fast_the_distance_changes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sieve, "_least_distance", lambda left, right, change: np.maximum(left, right))
    # Without the first node there is no contour, which is found too.
    with pytest.raises((AssertionError, IndexError)):  # noqa: PT012
        for _ in range(5):
            test_only_negligible_nodes_are_left_out()


def test_scattered_frequencies_give_what_all_frequencies_give() -> None:
    seed = fresh_random().randrange(2**32)
    source = random.Random(seed)
    for _ in range(20):
        terms, count = source.randint(1, 30), source.randint(1, 3 * FINE_ROTATIONS[2])
        weights, loss = np.array([source.random() for _ in range(terms)]), np.array([source.gauss(0.0, 1.0) for _ in range(terms)])
        multiples = np.array(sorted(source.sample(range(count), source.randint(1, count))))
        result = characteristic_less_one(weights, loss, 0.37, multiples)
        plain = less_one(0.37 * multiples[:, None] * loss) @ weights
        size = 1e-15 * (4.0 + 0.37 * count * np.abs(loss).max()) * terms
        assert np.all(np.abs(result - plain) <= size), seed
        assert np.all(np.abs(result - characteristic_less_one(weights, loss, 0.37, count)[multiples]) <= size), seed
        rows, rising = np.array([weights, 1j * weights]), loss + 0.01j * np.abs(loss)
        faded = decaying_characteristic_less_one(rows, rising, 0.37, multiples)
        assert np.all(np.abs(faded - rows @ np.expm1(0.37j * multiples[:, None] * rising).T) <= size), seed
