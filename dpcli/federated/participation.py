"""In how many rounds one client takes part, at most, and how far apart: what the server makes sure of, or its sampling does by itself."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from dpcli.base.lazy import load
from dpcli.base.registry import SAMPLING
from dpcli.federated.settings import Federated
from dpcli.mechanisms.sampling.schemes import BallsInBins, Cyclic, OncePerEpoch, Scheme


@dataclass(frozen=True, slots=True)
class Participation:
    """most: rounds in which one client takes part. apart: from one of these to the next, at least."""

    most: int
    apart: int


def scheme_of(table: Federated) -> type[Scheme]:
    """The class of the sampling that the server does."""
    found: type[Scheme] = load(SAMPLING[table.sampling])
    return found


def participation(table: Federated, rounds: int, rate: Fraction | None, first: bool) -> Participation:
    """Of one client among `rounds` consecutive rounds; every one of them where nothing keeps him from it.

    Args:
        rate: the share of the clients in one round, None where unknown. A pass takes floor(1 / rate) rounds at least.
        first: whether these rounds begin with a pass; others may have one more of its kind at their ends.
    """
    apart, most, scheme = table.min_separation or 1, table.max_participations or rounds, scheme_of(table)
    if rate is not None and issubclass(scheme, OncePerEpoch) and not issubclass(scheme, BallsInBins):
        length = max(int(1 / rate), 1)
        most = min(most, ceil(Fraction(rounds, length)) if first else 1 + ceil(Fraction(rounds - 1, length)))
        # Elsewhere than in one fixed order a client may be last in one pass and first in the next.
        apart = max(apart, length) if issubclass(scheme, Cyclic) else apart
    return Participation(min(most, rounds, ceil(Fraction(rounds, apart))), min(apart, rounds))
