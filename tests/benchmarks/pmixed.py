"""Projections of one token's probabilities, one thread: time per model, and how often a bisection as published would fit into it.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.pmixed [--vocabulary 50257] [--models 80] [--rounds 30]

The published projection is a bisection of the share to 2^-20 that computes the Renyi divergence both ways at each step: written here from
the paper's description (arXiv:2403.15638, Section 4), in float32 by torch where that is installed, else in float64 by numpy. Times are the
least of several. Aims: clip under 0.3 ms per model, the published share at order 3 under 0.12 ms, and at least 14 times the bisection.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcli.predict.pmixed.model_ensemble import Paper, Sound
from dpcli.predict.pmixed.projection import ball, clip, draw_token, mix
from dpcli.predict.pmixed.published_protocol import Published, renyi_ball
from dpcli.random.streams import SystemStream

HALVINGS = 20
ORDER, RADIUS, SOUND = 3, 0.58, 1.339  # the published radius for two models, and a sound one, at epsilon 8
FINE_TUNED = 0.8  # standard deviation of the logarithm of a model's probabilities over the public ones
Floats = NDArray[np.float64]


def bisection(private: Any, public: Any, order: float, radius: float, log: Callable[[Any], Any]) -> float:
    """The largest share, to 2^-20, whose mixture has divergences of at most the radius both ways."""

    def divergence(p: Any, q: Any) -> float:
        return float(log((p**order * q ** (1.0 - order)).sum())) / (order - 1.0)

    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        share = 0.5 * (low + high)
        mixed = share * private + (1.0 - share) * public
        fits = max(divergence(mixed, public), divergence(public, mixed)) <= radius
        low, high = (share, high) if fits else (low, share)
    return low


def models(vocabulary: int, count: int) -> tuple[Floats, list[Floats]]:
    """A public model with a long tail, and fine-tuned ones."""
    source = np.random.default_rng(1)
    logits = source.normal(0.0, 3.0, vocabulary)
    found = [np.exp(logits), *(np.exp(logits + source.normal(0.0, FINE_TUNED, vocabulary)) for _ in range(count))]
    public, *private = (one / one.sum() for one in found)
    return public, private


def least(call: Callable[[], object], rounds: int) -> float:
    """Milliseconds."""
    call()
    found = math.inf
    for _ in range(rounds):
        begun = time.perf_counter()
        call()
        found = min(found, time.perf_counter() - begun)
    return 1e3 * found


def published_way() -> tuple[str, Callable[[Floats], Any], Callable[[Any], Any]]:
    """What the bisection computes with: its name, from an array, and the logarithm."""
    if importlib.util.find_spec("torch") is None:
        return "numpy, float64", np.asarray, np.log
    import torch

    torch.set_num_threads(1)
    return "torch, float32", lambda values: torch.from_numpy(values).float(), torch.log


def rows(vocabulary: int, count: int, rounds: int) -> list[tuple[str, float, float]]:
    """(what, milliseconds per model, how many of it fit into a bisection)."""
    public, private = models(vocabulary, count)
    one, sound, renyi = private[0], ball(public, SOUND), renyi_ball(public, float(ORDER), RADIUS)
    name, array, log = published_way()
    other, reference = array(one), array(public)
    share = bisection(other, reference, float(ORDER), RADIUS, log)
    assert math.isclose(share, renyi.share(one), abs_tol=1e-4)
    slow = least(lambda: bisection(other, reference, float(ORDER), RADIUS, log), max(3, rounds // 3))
    timed = [
        ("published share, order 3: cubic and one check", least(lambda: renyi.share(one), rounds)),
        ("sound, clip", least(lambda: clip(sound, one), rounds)),
        ("sound, mix", least(lambda: mix(sound, one), rounds)),
    ]
    return [(f"published share: bisection ({name})", slow, 1.0), *((what, spent, slow / spent) for what, spent in timed)]


def tokens(vocabulary: int, count: int, rounds: int) -> list[tuple[str, float]]:
    """Milliseconds of a whole token of all models: projection, average and draw."""
    public, private = models(vocabulary, count)
    ways = {
        "sound, clip": Sound(SOUND, clip),
        "sound, mix": Sound(SOUND, mix),
        "published": Paper(Published(ORDER, 0.03, 1024, 8.0, 1e-5)),
    }
    stream = SystemStream()
    return [
        (name, least(lambda mode=mode: draw_token(*mode.total(public, private), stream), rounds)) for name, mode in ways.items()
    ]


def report(vocabulary: int, count: int, rounds: int) -> str:
    lines = [f"vocabulary {vocabulary:,}, one thread", f"{'projection of one model':<52}{'ms':>8}{'ratio':>8}"]
    lines += [f"{what:<52}{spent:>8.3f}{ratio:>8.1f}" for what, spent, ratio in rows(vocabulary, count, rounds)]
    lines += ["", f"{f'one token of {count} models, drawn by whole numbers':<52}{'ms':>8}"]
    lines += [f"{what:<52}{spent:>8.1f}" for what, spent in tokens(vocabulary, count, max(3, rounds // 6))]
    return "\n".join(lines)


def main(arguments: list[str]) -> str:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--vocabulary", type=int, default=50_257)
    parser.add_argument("--models", type=int, default=80)
    parser.add_argument("--rounds", type=int, default=30)
    asked = parser.parse_args(arguments)
    return report(asked.vocabulary, asked.models, asked.rounds)


if __name__ == "__main__":
    sys.stdout.write(main(sys.argv[1:]) + "\n")
