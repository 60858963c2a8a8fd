"""Noisy counts of the keys that the data hold, where they exceed a threshold (stability histogram)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from dpcli.base.fields import COUNT, POSITIVE, Key
from dpcli.base.premise import SECRET, Premises, moves
from dpcli.base.stated import quotient, squared
from dpcli.mechanisms.combined.composed import Composed
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.noise.discrete_gaussian_spec import DiscreteGaussianSpec
from dpcli.mechanisms.noise.discrete_laplace import DiscreteLaplaceSpec
from dpcli.mechanisms.spec import Spec
from dpcli.mechanisms.stability.shown import shown
from dpcli.mechanisms.stated.renyi import Zcdp
from dpcli.numerics.closed.discrete_tails import log_gaussian_beyond, log_laplace_beyond

ONE_BY_ONE = 64  # units of a group whose number in one key is tried one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class StabilityHistogramSpec(Spec):
    """Keys that the data hold, with their noisy counts, where these exceed `threshold`; nothing is said of the others.

    To each count of a key that is there, discrete Laplace noise (scale) or discrete Gaussian noise (sigma) is added; a key whose noisy
    count is above the threshold is released with it. A unit of privacy adds to at most max_groups keys, and at most max_rows to each.
    Which keys there may be need not be known. What the release pays for it is delta: a key that nobody else holds is shown with probability
    P(max_rows + noise > threshold), and some key of a unit's max_groups with 1 - (1 - that)^max_groups.

    Neighbours: all three adjacencies. Under add-remove and zero-out a unit's keys move in one direction; under replace-one the keys of
    either version move, twice as many, and either version may have keys of its own. max_contributions changes nothing: both limits are
    those of a unit. k units that change at once may share their keys or not, and the worst of it is taken.

    Bounds: upper: the noise on all keys that a unit moves, beside what its own keys show, though no key is both; delta is exact where
    epsilon is large. Renyi divergences are infinite. No finite epsilon below that delta.

    Source: Korolova, Kenthapadi, Mishra, Ntoulas 2009, Releasing search queries and clicks privately; Bun, Nissim, Stemmer 2016,
    arXiv:1511.08552; Wilson, Zhang, Lam, Desfontaines, Simmons-Marengo, Gipson 2020, arXiv:1909.01917 (several keys).
    """

    example: ClassVar[Mapping[str, Any]] = {"scale": 90.0, "threshold": 3000, "max_groups": 1, "max_rows": 1}
    evidence: ClassVar[int] = 2
    needs_delta: ClassVar[bool] = True
    fixed_threshold: ClassVar[bool] = True
    premises: ClassVar[Premises] = (
        SECRET,
        moves("No unit adds to more than max_groups keys, or more than max_rows to one.", "release"),
    )

    threshold: Annotated[int, Key("noisy count that a key must exceed to be released", COUNT)]
    scale: Annotated[float | None, Key("scale of discrete Laplace noise e^{-|x|/scale} on each count", POSITIVE)] = None
    sigma: Annotated[float | None, Key("sigma of discrete Gaussian noise e^{-x^2/(2 sigma^2)} on each count", POSITIVE)] = None
    max_groups: Annotated[int, Key("most keys to which one unit of privacy adds", COUNT, claim=True)] = 1
    max_rows: Annotated[int, Key("most that one unit of privacy adds to the count of one key", COUNT, claim=True)] = 1

    def problems(self) -> Iterator[tuple[str, str, str]]:
        if (self.scale is None) == (self.sigma is None):
            yield "scale", "either scale (Laplace) or sigma (Gaussian)", "neither" if self.scale is None else "both"
        elif self.sigma is not None and self.sigma < 0.05 * self.max_rows:
            yield "sigma", f"at least max_rows / 20 = {self.max_rows / 20.0:g} (less is no privacy)", repr(self.sigma)

    @property
    def unsampled(self) -> str:
        return "whose keys are those of all of the data"

    @property
    def delta_spent(self) -> float:
        return shown(self._all_hidden(1), both=False).delta

    def log_shown(self, count: int) -> float:
        """log of the probability that a key of this count is released, from above."""
        least = self.threshold - count
        if self.scale is not None:
            return log_laplace_beyond(self.scale, least)
        assert self.sigma is not None
        return log_gaussian_beyond(self.sigma, least)

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        return Composed((*self._noise(neighbours), (shown(self._all_hidden(neighbours.group), neighbours.replaces), 1)))

    def _all_hidden(self, group: int) -> float:
        """log of the probability that no key is shown that the units of a group alone hold, from below."""
        return self.max_groups * group * min(map(self._log_hidden, *_sharing(group)))

    def _log_hidden(self, least: int, most: int) -> float:
        """log of the probability that a key held by at most `most` units of the group alone is not shown, for each of `least`."""
        p = math.exp(self.log_shown(self.max_rows * most))
        return math.log1p(-p) / least if p < 1.0 else -math.inf

    def _noise(self, neighbours: Neighbours) -> tuple[tuple[Mechanism, int], ...]:
        """Of the keys that move: each by max_rows for one unit; for a group by its norm, as a vector."""
        keys, group = self.max_groups * (2 if neighbours.replaces else 1), neighbours.group
        one = Neighbours(neighbours.adjacency)
        if self.scale is not None:
            moved, times = (self.max_rows, keys) if group == 1 else (self.max_rows * group * keys, 1)
            return ((DiscreteLaplaceSpec(scale=self.scale, sensitivity=moved).resolve(one).unclaimed(), times),)
        assert self.sigma is not None
        if group == 1:
            noise = DiscreteGaussianSpec(sigma=self.sigma, sensitivity=self.max_rows, dimension=1).resolve(one)
            return ((noise.unclaimed(), keys),)
        return ((Zcdp(squared(quotient(group * self.max_rows, self.sigma), 2)), keys),)


def _sharing(group: int) -> tuple[list[int], list[int]]:
    """How many units of a group hold one key: (least, most) of ranges that leave none out."""
    least = list(range(1, min(group, ONE_BY_ONE) + 1))
    most = list(least)
    while most[-1] < group:
        least.append(most[-1] + 1)
        most.append(min(2 * most[-1], group))
    return least, most
