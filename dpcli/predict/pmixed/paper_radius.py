"""The published radius: from a claimed epsilon, by one order, to beta, for each number of models that may have been drawn.

What it claims is not a guarantee (see project_paper.py); it is here to be compared with.
Source: Flemings, Razaviyayn, Annavaram 2024, arXiv:2403.15638, Theorems 4.1, 4.2 and 5.1; the conversion is that of Balle et al. 2020,
arXiv:1905.09982, Theorem 21.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcli.base.errors import CannotCertify, InputError
from dpcli.numerics.logspace import log_factorials

CLOSE = 1e-13  # relative, of beta


@dataclass(frozen=True, slots=True)
class Published:
    """What the protocol is run with.

    order: a whole number >= 2. rate: with which each model is drawn. epsilon, delta: claimed for all queries together.
    """

    order: int
    rate: float
    queries: int
    epsilon: float
    delta: float

    @property
    def target(self) -> float:
        """The Renyi divergence that one query is given."""
        spent = renyi_epsilon(self.epsilon, self.delta, self.order)
        if spent <= 0.0:
            raise CannotCertify(f"at order {self.order} nothing is left of epsilon = {self.epsilon:g}, delta = {self.delta!r}")
        return spent / self.queries

    def radius(self, drawn: int) -> float:
        """beta times order, where `drawn` models take part."""
        return beta(self.target, self.order, self.rate, drawn) * self.order


def renyi_epsilon(epsilon: float, delta: float, order: float) -> float:
    """The Renyi divergence that implies (epsilon, delta) at one order, by inverting the conversion."""
    return epsilon - math.log1p(-1.0 / order) + (math.log(delta) + math.log(order)) / (order - 1.0)


def beta(target: float, order: int, rate: float, drawn: int) -> float:
    """The beta at which the published bound on one query is `target`. Raises InputError for an order that is no whole number >= 2."""
    if order < 2 or int(order) != order:
        raise InputError(f"expected a whole order >= 2, found {order!r}")
    low, high = 0.0, 1e-6
    while per_query(high, order, rate, drawn) < target:
        low, high = high, 2.0 * high
    while high - low > CLOSE * high:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (middle, high) if per_query(middle, order, rate, drawn) <= target else (low, middle)
    return low


def per_query(beta: float, order: int, rate: float, drawn: int) -> float:
    """The published bound on the Renyi divergence of one query, without and with its amplification by sampling."""
    if rate == 1.0:
        return one_sided(beta, order, drawn)
    counts = log_factorials(order)
    terms = [(order - 1) * math.log1p(-rate) + math.log1p((order - 1) * rate)]
    for k in range(2, order + 1):
        ways = float(counts[order] - counts[k] - counts[order - k])
        terms.append(ways + (order - k) * math.log1p(-rate) + k * math.log(rate) + (k - 1) * one_sided(beta, k, drawn))
    return _log1p_sum(terms) / (order - 1)


def one_sided(beta: float, order: int, drawn: int) -> float:
    """eps(k) = log((n - 1 + e^{4 beta k (k-1)}) / n) / (k - 1) for n > 1 models, beta k for one."""
    if drawn <= 1:
        return beta * order
    return math.log1p(math.expm1(min(4.0 * beta * order * (order - 1), 700.0)) / drawn) / (order - 1)


def _log1p_sum(terms: list[float]) -> float:
    """log of the sum of the exponentials; accurate where that is near 1."""
    return math.log1p(math.fsum(map(math.expm1, terms)) + (len(terms) - 1)) if max(terms) < 30.0 else _log_sum(terms)


def _log_sum(terms: list[float]) -> float:
    most = max(terms)
    return most + math.log(math.fsum(math.exp(term - most) for term in terms))
