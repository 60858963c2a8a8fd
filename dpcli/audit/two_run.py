"""Many independent runs with and without one record: what the two error rates of a test between them prove."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.audit.binomial import ROUNDING, rate_upper
from dpcli.base.errors import InputError
from dpcli.base.lazy import lazy
from dpcli.numerics.closed.normal import gaussian_epsilon

if TYPE_CHECKING:
    from scipy import special
else:
    special = lazy("scipy.special")

SOURCE = "Jagielski, Ullman, Oprea 2020, arXiv:2006.07709; Nasr et al. 2021, arXiv:2101.04535; Clopper & Pearson 1934"
GAUSSIAN_SOURCE = "Nasr et al. 2023, arXiv:2302.07956; Dong, Roth, Su 2022, arXiv:1905.02383, Corollary 2.13"


@dataclass(frozen=True, slots=True)
class Counts:
    """What one test did: it said "in" in `true_positives` of `members` runs with the record, `false_positives` of `others` without."""

    members: int
    others: int
    true_positives: int
    false_positives: int

    def __post_init__(self) -> None:
        if not (0 <= self.true_positives <= self.members and 0 <= self.false_positives <= self.others):
            raise InputError(
                "expected true_positives <= members and false_positives <= others, "
                f"found {self.true_positives} of {self.members} and {self.false_positives} of {self.others}"
            )
        if not (self.members and self.others):
            raise InputError(f"expected runs with the record and without it, found {self.members} and {self.others}")

    def of_so_many(self, members: int, others: int) -> Counts:
        """The same shares of so many runs, rounded against the test."""
        false_positives = -(-self.false_positives * others // self.others)
        return Counts(members, others, self.true_positives * members // self.members, false_positives)


@dataclass(frozen=True, slots=True)
class ErrorRates:
    """Upper bounds on both error rates of one test, which hold together at the stated confidence."""

    false_positive: float
    false_negative: float


def error_rates(counts: Counts, significance: float) -> ErrorRates:
    """Clopper-Pearson bounds, half of the significance each."""
    positive = float(rate_upper(counts.false_positives, counts.others, 0.5 * significance))
    negative = float(rate_upper(counts.members - counts.true_positives, counts.members, 0.5 * significance))
    return ErrorRates(positive, negative)


def epsilon_lower(rates: ErrorRates, delta: float) -> float:
    """The largest epsilon that error rates of at most these refute at `delta`, in both directions: a lower bound (nats), at least 0.

    1 - fnr <= e^eps fpr + delta, and the same with the rates exchanged, hold for every test (Wasserman & Zhou 2010,
    arXiv:0811.2501, Theorem 2.4). Both rates are bounded by one event, so every delta may be asked about.
    """
    return max(
        _one_way(rates.false_positive, rates.false_negative, delta), _one_way(rates.false_negative, rates.false_positive, delta)
    )


def _one_way(false_positive: float, false_negative: float, delta: float) -> float:
    gain = 1.0 - false_negative - delta
    return max(0.0, math.log(gain / false_positive) - ROUNDING) if gain > 0.0 else 0.0


def mu_lower(rates: ErrorRates) -> float:
    """The largest mu such that error rates of at most these refute mu-Gaussian DP: a lower bound, at least 0."""
    mu = -special.ndtri(rates.false_positive) - special.ndtri(rates.false_negative)
    return max(0.0, float(mu) * (1.0 - ROUNDING))


def gaussian_epsilon_lower(rates: ErrorRates, delta: float) -> float:
    """The epsilon at `delta` > 0 of a Gaussian with that mu; a bound on the program only if its trade-off curve is a Gaussian's."""
    if delta <= 0.0:
        raise InputError(f"expected a delta > 0 for a Gaussian's epsilon, which is infinite without, found {delta!r}")
    mu = mu_lower(rates)
    return gaussian_epsilon(mu, delta)[0] if mu > 0.0 else 0.0
