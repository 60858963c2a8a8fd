"""Disjoint parts: what is outside of them composed with one part at a time, and the largest of what these compositions cost.

Neighbours that differ in one record differ in the part that holds it and in no other. The outputs of the other parts then have one law
under both, whatever was seen before, so that they add nothing to the loss: the pair of the whole is the pair of the steps outside of parts
composed with that one part (McSherry 2009, Theorem 4; Zhu, Dong, Wang 2022, arXiv:2106.08567, Theorem 10). delta(epsilon) is the largest
over the parts, or, where attributes divide the data in several ways, over the choices of one part of each.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from dpcli.accountants.base import Bound, PrivacyProfile, Steps
from dpcli.base.values import dataclass


@dataclass(frozen=True, slots=True)
class WorstCase(PrivacyProfile):
    """The largest of several profiles.

    sizes: for each profile, how many of its steps stand for each step that was given.
    """

    profiles: tuple[PrivacyProfile, ...]
    sizes: tuple[tuple[int, ...], ...]

    def epsilon(self, delta: float) -> Bound:
        return _largest(profile.epsilon(delta) for profile in self.profiles)

    def delta(self, epsilon: float) -> Bound:
        return _largest(profile.delta(epsilon) for profile in self.profiles)

    def tuned(self, tolerance: float | None, seconds: float) -> PrivacyProfile:
        each = seconds / len(self.profiles)
        return WorstCase(tuple(profile.tuned(tolerance, each) for profile in self.profiles), self.sizes)

    def shares(self, delta: float) -> tuple[float, ...]:
        """Return the shares in the part that costs most; a step that is a partition has those of that part's steps together."""
        costs = [profile.epsilon(delta).upper for profile in self.profiles]
        worst = costs.index(max(costs))
        single = iter(self.profiles[worst].shares(delta))
        return tuple(sum(itertools.islice(single, size)) for size in self.sizes[worst])


def _largest(bounds: Iterable[Bound]) -> Bound:
    """Return the bound on the largest of what they bound: each lower end is one on the largest, too."""
    known = tuple(bounds)
    worst = max(known, key=lambda bound: bound.upper)
    return Bound(worst.upper, max((bound.lower for bound in known if bound.lower is not None), default=None), worst.detail)


def compositions(steps: Steps) -> tuple[tuple[Steps, tuple[int, ...]], ...]:
    """Return each composition that neighbours may differ in, with how many of its steps stand for each of `steps`."""
    choices = itertools.product(*(mechanism.cases() for mechanism, _ in steps))
    return tuple(
        (
            tuple((part, n * count) for case, (_, count) in zip(chosen, steps, strict=True) for part, n in case),
            tuple(len(case) for case in chosen),
        )
        for chosen in choices
    )
