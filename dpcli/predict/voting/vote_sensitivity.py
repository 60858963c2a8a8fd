"""The sensitivity of a query's cost to one vote, at each distance from the votes: what smooth sensitivity is made of.

The votes enter the cost of an answer by GNMax through q alone, which one vote takes to B_U(q) at most and to B_L(q) at least. The cost
rises with q up to q0, where it meets the one that holds for all votes; nowhere does it change faster than at q1 = B_L(q0).
Source: Papernot et al. 2018, arXiv:1802.08908, Appendix B.3 and B.4: Algorithms 3 to 5, Proposition 13.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from dpcli.base.errors import CannotCertify
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.inverse import increasing_root
from dpcli.numerics.logspace import log_ndtr_array, log_normal
from dpcli.numerics.roots import bracket_root
from dpcli.predict.voting.vote_bounds import Counts, independent_gaussian, log_answered, log_q_gaussian, rdp_gaussian

FARTHEST = 1e6  # -log q beyond which nobody looks for q0
EQUAL = 1e-12  # relative: a cost that is less by this is not less


def inverse_log_ndtr(log_p: Array) -> Array:
    """Return z <= 0 with log Phi(z) = log_p, for log_p <= log(1/2)."""

    def value_and_slope(z: Array) -> tuple[Array, Array]:
        value = log_ndtr_array(z)
        return value, np.exp(log_normal(z) - value)

    return increasing_root(value_and_slope, log_p, -np.sqrt(-2.0 * log_p) - 1.0, np.zeros(len(log_p)))


@dataclass(frozen=True)
class AnswerSensitivity:
    """The sensitivity of answers by GNMax at one order. classes: m labels."""

    sigma: float
    classes: int
    order: float

    def cost(self, log_q: Array) -> Array:
        """Return D at each q, (n,): below q0 the bound that depends on the votes, from there on the other."""
        dependent = rdp_gaussian(np.minimum(log_q, 0.0), self.sigma, np.array([self.order]))[:, 0]
        return np.where(log_q >= self.log_q0, independent_gaussian(self.sigma, self.order), dependent)

    @cached_property
    def log_q0(self) -> float:
        """Return log of the q up to which the votes make an answer cheaper. Raises CannotCertify where they never do."""
        independent = independent_gaussian(self.sigma, self.order)

        def dearer(certainty: float) -> float:
            """Return a number > 0 where an answer with log q = -certainty costs as much as any."""
            cost = rdp_gaussian(np.array([-certainty]), self.sigma, np.array([self.order]))[0, 0]
            return float(cost) - independent * (1.0 - EQUAL)

        far = 1.0
        while dearer(far) > 0.0:
            far *= 2.0
            if far > FARTHEST:
                raise CannotCertify(f"at order {self.order:g} no votes make an answer cheaper: there is nothing to sanitise")
        return -bracket_root(dearer, 0.0, far)[1]

    @cached_property
    def log_q1(self) -> float:
        return float(self.less_likely(np.array([self.log_q0]))[0])

    def more_likely(self, log_q: Array) -> Array:
        """Return log B_U(q): the largest q one vote away."""
        return self._moved(log_q, math.sqrt(2.0) / self.sigma)

    def less_likely(self, log_q: Array) -> Array:
        """Return log B_L(q): the smallest q one vote away."""
        return self._moved(log_q, -math.sqrt(2.0) / self.sigma)

    def _moved(self, log_q: Array, by: float) -> Array:
        others = math.log(self.classes - 1.0)
        return np.asarray(np.minimum(others + log_ndtr_array(inverse_log_ndtr(log_q - others) + by), 0.0))

    def local(self, log_q: Array) -> Array:
        """Return an upper bound on how much one vote changes D at each q, (n,)."""
        at = np.where((self.log_q1 <= log_q) & (log_q <= self.log_q0), self.log_q1, log_q)
        cost = self.cost(at)
        return np.maximum(self.cost(self.more_likely(at)) - cost, cost - self.cost(self.less_likely(at)))

    def by_distance(self, counts: Counts, teachers: int) -> Array:
        """Return the largest local sensitivity of each query's cost where at most d votes are others, (n, teachers); d = 0, 1, ...

        At most, and not exactly: where the sensitivities of queries are added up, d teachers may move one query and leave another. Votes
        are walked towards where the sensitivity is largest: to the winner from the second, or from it.
        """
        votes = np.sort(counts, axis=1)[:, ::-1].copy()
        log_q = log_q_gaussian(votes, self.sigma)
        largest = np.full((len(votes), teachers), float(self.local(np.array([self.log_q1]))[0]))
        walking = np.flatnonzero((log_q < self.log_q1) | (log_q > self.log_q0))
        left = log_q > self.log_q0
        for d in range(teachers):
            largest[walking, d] = self.local(log_q[walking])
            more = np.where(left[walking], (log_q[walking] > self.log_q0) & (votes[walking, 1] > 0), log_q[walking] < self.log_q1)
            walking = walking[more]
            if not len(walking):
                break
            step = np.where(left[walking], 1, -1)
            votes[walking, 0] += step
            votes[walking, 1] -= step
            votes[walking, 1:] = np.sort(votes[walking, 1:], axis=1)[:, ::-1]
            log_q[walking] = log_q_gaussian(votes[walking], self.sigma)
        return np.maximum.accumulate(largest, axis=1)


def threshold_by_distance(largest: Array, threshold: float, sigma: float, order: float, teachers: int) -> Array:
    """Return the same for the decision whether to answer, (n, teachers), where the largest count is `largest` rounded to whole votes."""
    counts = np.arange(teachers + 1.0)
    log_q = np.minimum(*log_answered(counts, threshold, sigma))
    steps = np.abs(np.diff(rdp_gaussian(log_q, math.sqrt(2.0) * sigma, np.array([order]))[:, 0]))
    local = np.maximum(np.append(steps, 0.0), np.append(0.0, steps))
    at = np.clip(np.rint(largest), 0, teachers).astype(int)
    each = np.zeros((len(at), teachers))
    for d in range(teachers):
        up, down = at + d, at - d
        each[:, d] = np.maximum(
            np.where(up <= teachers, local[np.minimum(up, teachers)], 0.0), np.where(down >= 0, local[np.maximum(down, 0)], 0.0)
        )
    return np.maximum.accumulate(each, axis=1)


def smooth(by_distance: Array, beta: float) -> float:
    """Return the smooth upper bound on a sensitivity by distance, (teachers,): the largest of e^(-beta d) times that at distance d.

    Source: Nissim, Raskhodnikova, Smith 2007, Definition 2.2.
    """
    return float((by_distance * np.exp(-beta * np.arange(len(by_distance)))).max())


FINE = 32  # points of the grid in the distance by which one vote moves q
MOST = 200_000  # points
ROUNDING = 1e-9  # relative: a fall of this size is none


def conditions(of: AnswerSensitivity, teachers: int) -> tuple[bool, bool]:
    """Return (C5, C6): that the cost D(q), and D(B_U(q)) - D(q), do not fall in q, up to q0 and up to q1, for q of so many votes.

    They are looked at on a grid, as in the published analysis: that they hold between its points is not proved.
    Source: Papernot et al. 2018, arXiv:1802.08908, Appendix B.4.
    """
    costs = of.cost(_grid(of, teachers, of.log_q0))
    c5 = _rises(costs)
    below = _grid(of, teachers, of.log_q1)
    cost = of.cost(below)
    return c5, c5 and _rises(of.cost(of.more_likely(below)) - cost, cost)


def _grid(of: AnswerSensitivity, teachers: int, log_high: float) -> Array:
    """Return log q from that of all votes for one label, and one vote beyond, to `log_high`, exclusively."""
    others, step = math.log(of.classes - 1.0), math.sqrt(2.0) / of.sigma
    high = float(inverse_log_ndtr(np.array([log_high - others]))[0])
    low = min(-(teachers + 2.0) / (math.sqrt(2.0) * of.sigma), high) - step
    places = np.linspace(low, high, min(MOST, 2 + math.ceil(FINE * (high - low) / step)))
    return np.minimum(others + log_ndtr_array(places), math.nextafter(log_high, -math.inf))


def _rises(values: Array, scale: Array | None = None) -> bool:
    size = np.abs(values if scale is None else scale)
    return bool(np.all(np.diff(values) >= -ROUNDING * np.maximum(size[1:], size[:-1]) - 1e-300))
