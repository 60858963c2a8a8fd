"""Helpers for tests that a premise is needed: the delta that dpcli claims, and the true delta of a use that breaks a premise.

A *premise* is an assumption under which a mechanism's bounds hold. A *reference* is an entry of a file with the releases that it allows
(dpcli/exam/enumeration), whose delta is enumerated.
"""

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
    """Yield the references of a mechanism type."""
    return (reference for reference in REFERENCES if reference.type == kind)


def prices(
    reference: Reference, scheme: str = "none", draws: WayOfSampling = PLAIN
) -> Iterator[tuple[Situation, tuple[float, ...]]]:
    """Yield each adjacency that the entry allows, as a situation, with the claimed deltas at EPSILONS."""
    for adjacency in ADJACENCIES:
        situation = Situation(adjacency, draws)
        with suppress(InputError):
            yield situation, tuple(bound.upper for bound in claimed_bounds(reference, scheme, situation))


def laws(release: Release, situation: Situation, changing: int = 1) -> tuple[Array, Array]:
    """Return the probabilities of the outcomes of one pass on two datasets that differ in `changing` records."""
    return pair(situation.draws, release, datasets(situation.adjacency, changing, situation.draws))


def exceeds(p: Array, q: Array, claims: tuple[float, ...], passes: int = 1) -> bool:
    """Return whether the true delta is above a claim by more than the division into cells and rounding explain."""
    return any(hockey_stick(p, q, epsilon, passes) > 1.02 * claim + 1e-9 for epsilon, claim in zip(EPSILONS, claims, strict=True))
