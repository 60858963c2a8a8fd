"""Additive noise: what the keys say of it, under the neighbouring relation."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dpcli.base.stated import multiple, quotient
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.noise.no_privacy import LARGEST_RATIO, SMALLEST_RATIO, NoPrivacy


def with_noise(kind: Callable[[float], Mechanism], ratio: float) -> Mechanism:
    """Additive noise at this sensitivity over noise; at the ends of what floating point holds, a bound on it."""
    if ratio > LARGEST_RATIO:
        return NoPrivacy(ratio)
    return kind(ratio) if ratio > SMALLEST_RATIO else kind(SMALLEST_RATIO).unclaimed()


def noise_problems(
    multiplier: float | None, noise_key: str, noise: float | None, sensitivity: float | None
) -> Iterator[tuple[str, str, str]]:
    """The rule shared by all additive noise: a noise_multiplier, or noise together with its sensitivity."""
    if multiplier is not None:
        for key, value in ((noise_key, noise), ("sensitivity", sensitivity)):
            if value is not None:
                yield key, f"either noise_multiplier, or {noise_key} with sensitivity", "both"
    elif noise is None:
        yield noise_key, f"noise_multiplier, or {noise_key} with sensitivity", "neither"
    elif sensitivity is None:
        yield "sensitivity", f"the sensitivity that {noise_key} is to cover, or noise_multiplier in place of {noise_key}", "nothing"


def noise_ratio(multiplier: float | None, noise: float | None, sensitivity: float | None, neighbours: Neighbours) -> float:
    """Sensitivity over noise under the neighbouring relation.

    `noise_multiplier` is relative to one record's contribution C: k records move the sum by k C, and by 2 k C where each is replaced.
    A stated `sensitivity` already is the query's under the file's adjacency and unit; only a larger group scales it.
    """
    if multiplier is not None:
        ratio = quotient(neighbours.records * (2.0 if neighbours.replaces else 1.0), multiplier)
    else:
        assert noise is not None and sensitivity is not None
        ratio = quotient(multiple(neighbours.group, sensitivity), noise)
    return max(ratio, SMALLEST_RATIO)
