"""Streams of random numbers: normal, never the same twice, never saved, and honest about a seed."""

from __future__ import annotations

import copy
import itertools
import math
import os
import pickle
import ssl
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import kstest, norm

from dpcli.base.errors import InternalError
from dpcli.random import streams as randomness
from dpcli.random.streams import (
    SeededStream,
    Stream,
    SystemStream,
    box_muller,
    grid_of,
    insecure_seed,
    is_cryptographic,
    normal_parts,
    normals,
    round_to_grid,
    system_entropy,
)
from tests.cases import fresh_random, require_each
from tests.command import ROOT
from tests.train.sampling.draws import variance_p

P = 1e-6  # of seeded streams, where a test either always passes or never
RARE = 1e-12  # of the system's, where it may fail once in 10^12 runs
SAME_TWICE = 1  # of 300,001 numbers: two are equal in one run of a million, three or two pairs in one of 10^12
PATHS = {"words": box_muller, "bulk": lambda stream, count: stream.bulk().standard_normal(count)}


class Constant:
    """A stream whose words are all the same."""

    private = False

    def __init__(self, word: int) -> None:
        self.word = word

    def words(self, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        return np.full(count, self.word, np.uint64)

    def bulk(self) -> np.random.Generator:
        raise AssertionError


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("stream", "p"), [(SeededStream(1), P), (SystemStream(), RARE)])
def test_draws_are_standard_normal(path: str, stream: Stream, p: float) -> None:
    drawn = PATHS[path](stream, 300_001)
    assert drawn.dtype == np.float64 and len(drawn) == 300_001
    assert kstest(drawn, "norm").pvalue > p
    assert variance_p(drawn) > p
    assert abs(drawn.mean()) * np.sqrt(len(drawn)) < norm.isf(p / 2)
    assert len(np.unique(drawn)) >= len(drawn) - SAME_TWICE


def test_rounded_numbers_are_the_nearest_multiples() -> None:
    """With the same result for a number, an array and a tensor. The grid has a place within 8 standard deviations for 2^17 draws."""
    for std in (0.7, 1.0, 2.0**-60, 3e11):
        grid = grid_of(std)
        assert 2.0**-33 < grid / std <= 2.0**-32 and math.frexp(grid)[0] == 0.5
        assert grid / math.ulp(8.0 * std) >= 2**17
        values = normals(1_000, SystemStream(), std) * 10.0 ** np.linspace(-12.0, 3.0, 1_000)
        rounded = round_to_grid(values.copy(), grid)
        assert np.array_equal(rounded, np.round(values / grid) * grid)
        assert [round_to_grid(value, grid) for value in values.tolist()] == rounded.tolist()
        assert np.array_equal(round_to_grid(torch.from_numpy(values), grid).numpy(), rounded)


def test_fresh_entropy_goes_in_before_every_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenSSL's generator alone would repeat itself in two copies of one machine."""
    added: list[bytes] = []
    monkeypatch.setattr(ssl, "RAND_add", lambda entropy, amount: added.append(entropy))
    for _ in range(3):
        SystemStream().words(1)
    assert len(set(added)) == 3 and all(len(entropy) == 32 for entropy in added)


@pytest.mark.parametrize("path", PATHS)
def test_draws_are_uncorrelated(path: str) -> None:
    """Also half a block apart and a block apart; and their squares."""
    drawn = PATHS[path](SeededStream(2), 700_000).astype(float)
    for values in (drawn, (drawn**2 - 1.0) / np.sqrt(2.0)):
        for lag in (1, 2, 32_768, 65_536, 131_072):
            assert abs((values[lag:] * values[:-lag]).sum()) / np.sqrt(len(values) - lag) < 4.9, lag


def test_no_two_draws_are_the_coordinates_of_one_point() -> None:
    """An angle in single precision gives a ray. Of two candidates for a sum, the true one would be the one that leaves noise on a ray."""
    seed, count = fresh_random().getrandbits(32), 20_000
    generator = np.random.default_rng(seed)
    radius, angle = generator.rayleigh(size=count), generator.uniform(-np.pi, np.pi, count).astype(np.float32)
    assert share_on_rays(radius * np.cos(angle), radius * np.sin(angle)) > 0.9, seed
    drawn = box_muller(SystemStream(), 2 * count, 200.0)
    for first, second in ((drawn[:count], drawn[count:]), (drawn[::2], drawn[1::2]), (drawn[:count], drawn[::-1][:count])):
        assert share_on_rays(first, second) < 0.01


def share_on_rays(first: Any, second: Any) -> float:
    """The share of points whose direction is the cosine and the sine, in single precision, of an angle in single precision."""
    angle, found = np.arctan2(second, first).astype(np.float32), np.zeros(len(first), bool)
    for away in (np.float32(-np.inf), np.float32(np.inf)):
        near = angle
        for _ in range(4):
            found |= np.abs(first * np.sin(near) - second * np.cos(near)) < 1e-12 * np.hypot(first, second)
            near = np.nextafter(near, away)
    return float(found.mean())


def test_tails_are_there() -> None:
    drawn = box_muller(SeededStream(3), 4_000_000)
    for level in (3.0, 4.0, 5.0):
        expected = 2.0 * norm.sf(level) * len(drawn)
        assert abs((np.abs(drawn) > level).sum() - expected) < 4.9 * np.sqrt(expected)


def test_the_outermost_words_give_finite_numbers() -> None:
    """u = 2^-53 is the farthest value, u = 1 the radius 0; nothing is infinite or NaN."""
    assert box_muller(Constant(0), 4).tolist() == [np.sqrt(-2.0 * np.log(2.0**-53))] * 4
    assert np.all(box_muller(Constant(2**64 - 1), 4) == 0.0)


def test_large_draws_take_the_fast_generator_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_cryptographic(10**7, SystemStream()) and not is_cryptographic(10**7 + 1, SystemStream())
    assert not is_cryptographic(1, SeededStream(1))
    monkeypatch.setattr(randomness, "CRYPTOGRAPHIC_LIMIT", 10)
    monkeypatch.setattr(randomness, "box_muller", lambda stream, count, std: np.zeros(count))
    assert not normals(10, SystemStream()).any()
    first, second = (normals(11, SystemStream()) for _ in range(2))
    assert not set(first.tolist()) & set(second.tolist()), "a key was used twice"


def test_parts_are_the_numbers_of_the_whole_in_one_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(randomness, "CHUNK", 100)
    for limit, count in itertools.product((10**7, 0), (0, 1, 100, 101, 250)):
        monkeypatch.setattr(randomness, "CRYPTOGRAPHIC_LIMIT", limit)
        parts, copies = [], []
        for part in normal_parts(count, SeededStream(5), 3.0):
            parts.append(part)
            copies.append(part.copy())
            part.fill(math.nan)  # who adds may change what was drawn
        assert np.array_equal(np.concatenate([np.empty(0), *copies]), normals(count, SeededStream(5), 3.0)), (limit, count)
        assert all(np.shares_memory(part, parts[0]) and len(part) <= 100 for part in parts)


def words_of(stream: Stream) -> set[int]:
    return set(stream.words(1_000).tolist())


def test_no_two_streams_share_a_number() -> None:
    for streams in (system_entropy(), insecure_seed(7), insecure_seed(0)):
        drawn = [words_of(stream) for stream in (streams.sampling, streams.noise, streams.initialisation) for _ in range(2)]
        assert len(set.union(*drawn)) == 6_000


def test_a_seed_repeats_and_is_never_called_private() -> None:
    assert words_of(insecure_seed(7).noise) == words_of(insecure_seed(7).noise)
    assert not words_of(insecure_seed(7).noise) & words_of(insecure_seed(8).noise)
    assert system_entropy().private and not insecure_seed(7).private
    assert not any(stream.private for stream in (insecure_seed(7).sampling, insecure_seed(7).noise))


def test_one_seeded_stream_is_enough_to_lose_privacy() -> None:
    seeded, system = insecure_seed(7), system_entropy()
    assert not randomness.Streams(system.sampling, seeded.noise, system.initialisation).private
    assert not randomness.Streams(seeded.sampling, system.noise, system.initialisation).private
    assert randomness.Streams(system.sampling, system.noise, seeded.initialisation).private


def test_a_resumed_run_does_not_repeat_the_numbers_of_the_first() -> None:
    assert not words_of(insecure_seed(7).noise) & words_of(insecure_seed(7, resumed_at=500).noise)


def test_seeded_streams_are_never_saved_or_copied() -> None:
    def check(duplicate: Callable[[Stream], object]) -> None:
        with pytest.raises(InternalError, match="cannot be saved or copied"):
            duplicate(insecure_seed(7).noise)

    require_each([pickle.dumps, copy.copy, copy.deepcopy], check)


def test_a_saved_private_stream_holds_nothing_that_could_be_repeated() -> None:
    streams = system_entropy()
    saved = pickle.dumps(streams)
    first, second = (words_of(pickle.loads(saved).noise) for _ in range(2))
    assert not first & second and not first & words_of(streams.noise)


def in_processes(code: str) -> list[str]:
    """What a script prints, line by line."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return run.stdout.split()


FORKED = """
import os
from dpcli.random.streams import insecure_seed, normals, system_entropy
from dpcli.base.errors import InternalError
seeded, system = insecure_seed(1), system_entropy()
normals(3, system.noise), seeded.noise.words(1)
read, write = os.pipe()
if os.fork() == 0:
    try:
        refused = seeded.noise.words(1)
    except InternalError:
        refused = "refused"
    os.write(write, f"{[*system.sampling.words(2), *normals(2, system.noise)]!r}|{refused}".encode())
    os._exit(0)
os.wait()
child = os.read(read, 1000).decode().split("|")
own = repr([*system.sampling.words(2), *normals(2, system.noise)])
print(child[0] != own, child[1], type(seeded.noise.words(1)).__name__)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_does_not_repeat_its_parent() -> None:
    assert in_processes(FORKED) == ["True", "refused", "ndarray"]


def test_two_processes_differ() -> None:
    code = "from dpcli.random.streams import system_entropy; s = system_entropy(); print(*s.noise.words(4), *s.sampling.words(4))"
    assert len({*in_processes(code), *in_processes(code)}) == 16
