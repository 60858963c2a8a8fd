"""What is claimed of a statement, and what is true of a use that it does not cover."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from dpcli.base.errors import InputError
from dpcli.exam.enumeration.bracket import EPSILONS, claimed_bounds
from dpcli.exam.enumeration.drawing_records import SCHEMES, Array, Release, Situation, WayOfSampling, datasets, hockey_stick, pair
from dpcli.exam.enumeration.references import REFERENCES, Reference

(PLAIN,) = SCHEMES["none"]
PLAIN = replace(PLAIN, passes=1)
ADJACENCIES = ("add-remove", "zero-out", "replace-one")


def references(kind: str) -> Iterator[Reference]:
    """Those that can be priced: post-processing, which releases nothing, is a reference of its own."""
    return (reference for reference in REFERENCES if reference.type == kind)


def prices(
    reference: Reference, scheme: str = "none", draws: WayOfSampling = PLAIN
) -> Iterator[tuple[Situation, tuple[float, ...]]]:
    """Each adjacency that the statement allows, with the deltas that are claimed at EPSILONS."""
    for adjacency in ADJACENCIES:
        situation = Situation(adjacency, draws)
        with suppress(InputError):
            yield situation, tuple(bound.upper for bound in claimed_bounds(reference, scheme, situation))


def laws(release: Release, situation: Situation, changing: int = 1) -> tuple[Array, Array]:
    """What one pass releases on two datasets of which so many records change."""
    return pair(situation.draws, release, datasets(situation.adjacency, changing, situation.draws))


def exceeds(p: Array, q: Array, claims: tuple[float, ...], passes: int = 1) -> bool:
    """Whether delta is above what is claimed, by more than cells and rounding make."""
    return any(hockey_stick(p, q, epsilon, passes) > 1.02 * claim + 1e-9 for epsilon, claim in zip(EPSILONS, claims, strict=True))
