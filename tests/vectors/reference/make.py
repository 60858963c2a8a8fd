"""Writes values.json: epsilons that other accountants can be tested against, each between two bounds.

    python -m tests.vectors.reference.make

Closed forms and enumerations are computed in 30 digits by tests/oracles.py, which uses nothing of dpcli's numerics, and rounded outwards to
a relative width of 1e-12. The bounds of composed sampled mechanisms are those that dpcli certifies, widened to 1e-9.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mpmath as mp

from dpcli.analysis.account import account
from tests import oracles
from tests.strategies import entry, pipeline

PLACE = Path(__file__).with_name("values.json")
ROUNDED, CERTIFIED = 1e-12, 1e-9  # half of the relative width that is added to both ends
BISECTIONS = 90
GAUSSIAN = "closed form: Balle and Wang 2018 (arXiv:1805.06530), Theorem 8; steps: Dong, Roth and Su 2019 (arXiv:1905.02383), Corollary 3.3"
LAPLACE = "closed form: delta = 1 - exp((epsilon - 1 / noise) / 2), Balle, Barthe and Gaboardi 2018 (arXiv:1807.01647), Theorem 3"
SAMPLED = "closed form: Balle, Barthe and Gaboardi 2018 (arXiv:1807.01647), Theorem 8, and both directions by the likelihood ratio"
RESPONSES = "enumeration: binomial sum, Kairouz, Oh and Viswanath 2015 (arXiv:1311.0776), Theorem 3.3"
ENUMERATED = "enumeration: sum of (p - e^epsilon q)+ over all outcomes in 30 digits, both directions"
CERTIFICATE = "certified interval: the characteristic function of the loss, inverted with an error bound (dpcli, accountant exact)"

Case = dict[str, Any]


def root(delta_at: Callable[[mp.mpf], mp.mpf], delta: float) -> tuple[float, float]:
    """Return bounds on the smallest epsilon >= 0 with delta_at(epsilon) <= delta, for a decreasing delta_at."""
    with mp.workdps(oracles.DIGITS):
        low, high = mp.mpf(0), mp.mpf(1)
        if delta_at(low) <= delta:
            return 0.0, 0.0
        while delta_at(high) > delta:
            low, high = high, 2 * high
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if delta_at(middle) > delta else (low, middle)
        return widened(float(low), float(high), ROUNDED)


def widened(low: float, high: float, width: float) -> tuple[float, float]:
    """Return two ends, moved outwards by a relative width."""
    return low * (1.0 - width), high * (1.0 + width)


def gaussians(noise: float, steps: int, delta: float) -> tuple[float, float]:
    """Return bounds for unsampled Gaussians."""
    mu = mp.sqrt(steps) / mp.mpf(noise)
    return root(lambda epsilon: oracles.gaussian_delta(mu, epsilon), delta)


def laplace(noise: float, delta: float) -> tuple[float, float]:
    """Return bounds for one Laplace answer, at a delta below that of epsilon = 0."""
    with mp.workdps(oracles.DIGITS):
        epsilon = max(1 / mp.mpf(noise) + 2 * mp.log1p(-mp.mpf(delta)), mp.mpf(0))
        return widened(float(epsilon), float(epsilon), ROUNDED)


def sampled_gaussian(noise: float, rate: float, delta: float) -> tuple[float, float]:
    """Return bounds for one Poisson-sampled Gaussian, in the worse direction."""
    return root(
        lambda epsilon: max(oracles.sampled_gaussian_delta(1.0 / noise, rate, epsilon, way) for way in ("remove", "add")), delta
    )


def pair(outcomes: tuple[list[mp.mpf], list[mp.mpf]], delta: float) -> tuple[float, float]:
    """Return bounds for a mechanism with finitely many outcomes."""
    p, q = outcomes
    return root(lambda epsilon: max(oracles.finite_delta(p, q, epsilon), oracles.finite_delta(q, p, epsilon)), delta)


def certified(mechanisms: list[dict[str, Any]], adjacency: str, delta: float) -> tuple[float, float]:
    """Return dpcli's certified interval."""
    entries = [
        entry(one["type"], steps=one["steps"], rate=one.get("rate"), noise_multiplier=one["noise_multiplier"]) for one in mechanisms
    ]
    answer = account(pipeline(*entries, adjacency=adjacency, delta=delta))
    assert answer.lower is not None
    return widened(answer.lower, answer.upper, CERTIFIED)


def cases() -> Iterator[Case]:
    """Yield the cases without their ids."""

    def one(kind: str, steps: int = 1, **keys: float) -> dict[str, Any]:
        return {"type": kind, **keys, "steps": steps}

    def case(
        mechanisms: list[dict[str, Any]],
        delta: float,
        ends: tuple[float, float],
        source: str,
        why: str,
        *flags: str,
        adjacency: str = "add-remove",
    ) -> Case:
        lower, upper = (end if math.isfinite(end) else "inf" for end in ends)
        return {
            "mechanisms": mechanisms,
            "adjacency": adjacency,
            "delta": delta,
            "epsilon": {"lower": lower, "upper": upper},
            "source": source,
            "flags": [source.partition(":")[0].replace(" ", "-"), *flags],
            "why": why,
        }

    for noise, steps, delta, why, *flags in (
        (1.0, 1, 1e-5, "the classical calibration asks for far more noise"),
        (0.5, 1, 1e-5, "epsilon above 1, where the classical theorem does not hold"),
        (20.0, 100, 1e-6, "composition of Gaussians is a Gaussian", "composition"),
        (1.1, 14_063, 1e-5, "without sampling DP-SGD has no guarantee to speak of", "large-epsilon"),
        (4.0, 1, 0.1, "delta above that of epsilon = 0: epsilon is 0, not negative", "zero"),
        (4.0, 1, 0.09, "just below the delta of epsilon = 0"),
        (1.0, 1, 1e-15, "delta below what a difference of two doubles near 1 can tell", "tiny-delta"),
        (1.0, 1, 1e-100, "delta that a tail function of doubles must reach without cancelling", "tiny-delta"),
        (1e-2, 1, 1e-6, "e^epsilon is beyond the largest double", "large-epsilon", "overflow"),
        (1e4, 1, 1e-9, "epsilon far below 1"),
        (1e4, 10**9, 1e-6, "a billion steps", "many-steps"),
        (1.0, 1, 0.3, "a large delta, still below that of epsilon = 0"),
    ):
        yield case([one("gaussian", steps, noise_multiplier=noise)], delta, gaussians(noise, steps, delta), GAUSSIAN, why, *flags)
    yield case(
        [one("gaussian", noise_multiplier=1.0)],
        0.0,
        (math.inf, math.inf),
        GAUSSIAN,
        "no epsilon bounds it at delta = 0",
        "infinite",
    )

    for noise, delta, why, *flags in (
        (1.0, 0.0, "pure: epsilon is the sensitivity over the scale", "pure"),
        (1.0, 1e-5, "a delta buys a little: a bound of exactly 1 is valid and loose"),
        (0.05, 1e-9, "little noise"),
        (2.0, 0.25, "delta above that of epsilon = 0: epsilon is 0", "zero"),
        (2.0, 0.2, "a large delta"),
    ):
        yield case([one("laplace", noise_multiplier=noise)], delta, laplace(noise, delta), LAPLACE, why, *flags)

    for noise, rate, delta, why, *flags in (
        (1.0, 0.01, 1e-5, "one step of DP-SGD"),
        (1.0, 0.01, 1e-8, "where removing a record costs far more than adding one", "directions"),
        (0.5, 0.5, 1e-5, "a large rate"),
        (2.0, 0.999, 1e-5, "nearly no sampling"),
        (1.0, 1e-6, 1e-9, "a tiny rate: 1 + (e^epsilon - 1) / rate must not be rounded", "tiny-rate"),
        (1.0, 1e-4, 1e-4, "delta above that of epsilon = 0: a record is seldom there at all", "zero"),
        (0.1, 0.01, 1e-6, "little noise: the loss is large where the record is there", "large-epsilon"),
    ):
        ends = sampled_gaussian(noise, rate, delta)
        yield case([one("gaussian", noise_multiplier=noise, rate=rate)], delta, ends, SAMPLED, why, "sampling", *flags)

    for epsilon, steps, delta, why, *flags in (
        (0.1, 1, 0.0, "binary randomised response at delta = 0", "pure"),
        (0.1, 100, 1e-6, "advanced composition is loose here by about a half"),
        (1.0, 10, 1e-3, "few responses: delta is a staircase of slopes"),
        (0.01, 1_000, 1e-9, "many small losses"),
        (0.5, 5, 1e-12, "delta below the mass of the worst outcome: basic composition is nearly exact", "tiny-delta"),
    ):

        def responses_delta(at: mp.mpf, epsilon: float = epsilon, steps: int = steps) -> mp.mpf:
            return oracles.binomial_delta(epsilon, steps, at)

        ends = root(responses_delta, delta)
        yield case(
            [one("pure-dp", steps, epsilon=epsilon)], delta, ends, RESPONSES, why, *(["composition"] if steps > 1 else []), *flags
        )

    for epsilon, categories, delta, why in (
        (1.0, 4, 1e-3, "response among four categories: only two of them tell"),
        (3.0, 100, 1e-2, "among a hundred"),
    ):
        ends = pair(oracles.response_pair(epsilon, categories), delta)
        mechanism = one("randomized-response", epsilon=epsilon, categories=categories)
        yield case([mechanism], delta, ends, ENUMERATED, why, "discrete", adjacency="replace-one")

    for sigma, sensitivity, delta, why in (
        (5.0, 1, 1e-9, "close to a continuous Gaussian"),
        (0.5, 1, 1e-5, "far from one: most of the mass lies on three integers"),
        (2.0, 3, 1e-6, "a sensitivity above 1"),
    ):
        ends = pair(oracles.discrete_gaussian_pair(sigma, sensitivity), delta)
        mechanism = one("discrete-gaussian", sigma=sigma, sensitivity=sensitivity, dimension=1)
        yield case([mechanism], delta, ends, ENUMERATED, why, "discrete")
    for scale, sensitivity, delta, why in ((1.0, 1, 1e-3, "one geometric answer"), (3.0, 2, 1e-6, "a sensitivity above 1")):
        ends = pair(oracles.discrete_laplace_pair(scale, sensitivity), delta)
        yield case([one("discrete-laplace", scale=scale, sensitivity=sensitivity)], delta, ends, ENUMERATED, why, "discrete")

    for mechanisms, adjacency, delta, why, *flags in (
        ([one("gaussian", 14_063, noise_multiplier=1.1, rate=256 / 60_000)], "add-remove", 1e-5, "MNIST, 60 epochs in batches of 256"),
        ([one("gaussian", 14_063, noise_multiplier=1.1, rate=256 / 60_000)], "replace-one", 1e-5, "the same where a record is replaced"),
        ([one("gaussian", 10, noise_multiplier=1.0, rate=0.1)], "add-remove", 1e-6, "few steps: the central limit does not hold"),
        ([one("gaussian", 1_000, noise_multiplier=0.6, rate=0.01)], "add-remove", 1e-6, "little noise", "large-epsilon"),
        ([one("gaussian", 10**5, noise_multiplier=1.0, rate=1e-3)], "add-remove", 1e-12, "1e-10 is too large an error here", "tiny-delta"),
        ([one("gaussian", 512, noise_multiplier=3.0, rate=0.1)], "add-remove", 1e-6, "3.77 in the documentation of JAX Privacy"),
        (
            [one("gaussian", 100, noise_multiplier=15.0), one("gaussian", 200, noise_multiplier=0.9, rate=0.02)],
            "add-remove",
            1e-5,
            "two stages, of which one takes all records",
        ),
        ([one("laplace", 1_000, noise_multiplier=2.0, rate=0.01)], "add-remove", 1e-6, "sampled Laplace noise"),
        (
            [one("gaussian", 500, noise_multiplier=1.0, rate=0.02), one("laplace", 5, noise_multiplier=10.0)],
            "add-remove",
            1e-6,
            "training, and answers about the same records",
        ),
    ):  # fmt: skip
        ends = certified(mechanisms, adjacency, delta)
        has_rate = ["sampling"] if any("rate" in each for each in mechanisms) else []
        yield case(mechanisms, delta, ends, CERTIFICATE, why, "composition", *has_rate, *flags, adjacency=adjacency)


def dataset() -> dict[str, Any]:
    """Return the whole file."""
    return {
        "about": "Reference values of differential privacy. README.md says what a case means. Licence: Apache-2.0.",
        "version": 1,
        "cases": [{"id": f"dp{place:03}", **case} for place, case in enumerate(cases(), 1)],
    }


if __name__ == "__main__":
    PLACE.write_text(json.dumps(dataset(), indent=1) + "\n", "utf-8")
