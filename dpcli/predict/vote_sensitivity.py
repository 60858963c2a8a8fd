"""The sensitivity of the cost of a noisy choice: how much the cost changes if one teacher's vote changes.

Teachers vote on a query, and GNMax releases the label of the largest count with Gaussian noise (aggregators.py, which calls this file). The
cost given the votes is private. pate/vote_release.py releases it with noise in proportion to the smooth sensitivity that is computed here.

The cost D(q) of an answer depends on the votes through q alone, the probability of all labels but the likeliest one (vote_bounds.py). If
one vote changes, q becomes at most B_U(q) and at least B_L(q). D increases with q up to q0, where it reaches the cost that holds for any
votes. It changes fastest at q1 = B_L(q0). The *local* sensitivity is the largest change of D by one vote. The *smooth* one is the maximum
over d of e^(-beta d) times the largest local one within d changed votes. All this holds under two conditions on D, which the paper names C5
and C6 (`monotone_conditions`). Source: Papernot et al. 2018, arXiv:1802.08908, Appendix B.3 and B.4 (Algorithms 3 to 5, Proposition 13).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from dpcli.base.errors import CannotCertify
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.logspace import log_ndtr_array, log_normal
from dpcli.numerics.roots import bracket_root, increasing_root
from dpcli.predict.vote_bounds import independent_gaussian, log_answered, log_q_gaussian, rdp_gaussian

if TYPE_CHECKING:
    from dpcli.predict.vote_bounds import Counts

# The search for q0 ends at this value of -log q. Beyond it, the release is refused, so the value touches no guarantee.
FARTHEST_Q0 = 1e6
# Two costs with a smaller relative difference count as equal. vote_release.py raises the sensitivity by more, by 1e-9 of itself.
EQUAL = 1e-12
# The test of conditions C5 and C6 on a grid touches soundness: a coarser grid, or a larger allowance, might miss that a condition fails.
GRID_POINTS = 32  # number of grid points between q and B_U(q)
MOST_GRID_POINTS = 200_000  # largest number of points, for time and memory; a longer range gets a coarser grid
DECREASE_ROUNDING = 1e-9  # A smaller relative decrease counts as rounding.
LEAST_DECREASE = 1e-300  # So does a smaller absolute one: costs this small have lost digits.


@dataclass(frozen=True)
class AnswerSensitivity:
    """The sensitivity of the cost of answers by GNMax, at one Renyi order.

    Attributes:
        sigma: Standard deviation of the noise on each count, in votes.
        classes: Number of labels.
        order: Renyi order of the cost, above 1.
    """

    sigma: float
    classes: int
    order: float

    def cost(self, log_q: Array) -> Array:
        """Return the cost D at each q, (n,): below q0 the bound given the votes, and from q0 on the bound for any votes."""
        dependent = rdp_gaussian(np.minimum(log_q, 0.0), self.sigma, np.array([self.order]))[:, 0]
        return np.where(log_q >= self.log_q0, independent_gaussian(self.sigma, self.order), dependent)

    @cached_property
    def log_q0(self) -> float:
        """Return log of q0, below which the bound given the votes is smaller. Raises CannotCertify if it never is."""
        independent = independent_gaussian(self.sigma, self.order)

        def excess_cost(certainty: float) -> float:  # certainty: -log q
            cost = rdp_gaussian(np.array([-certainty]), self.sigma, np.array([self.order]))[0, 0]
            return float(cost) - independent * (1.0 - EQUAL)

        certainty = 1.0
        while excess_cost(certainty) > 0.0:
            certainty *= 2.0
            if certainty > FARTHEST_Q0:
                raise CannotCertify(f"at order {self.order:g} no votes lower the cost of an answer: there is nothing to sanitise")
        _, upper_end = bracket_root(excess_cost, 0.0, certainty)  # the end at which the bound given the votes is smaller
        return -upper_end

    @cached_property
    def log_q1(self) -> float:
        """Return log of q1 = B_L(q0), at which the cost changes fastest."""
        return float(self.less_likely(np.array([self.log_q0]))[0])

    def more_likely(self, log_q: Array) -> Array:
        """Return log of B_U(q), the largest value that one changed vote can give q."""
        return self._shift_log_q(log_q, math.sqrt(2.0) / self.sigma)

    def less_likely(self, log_q: Array) -> Array:
        """Return log of B_L(q), the smallest value that one changed vote can give q."""
        return self._shift_log_q(log_q, -math.sqrt(2.0) / self.sigma)

    def _shift_log_q(self, log_q: Array, shift: float) -> Array:
        """Return log of (classes - 1) Phi(z + shift), at most 0, where z solves q = (classes - 1) Phi(z)."""
        log_others = math.log(self.classes - 1.0)
        return np.asarray(np.minimum(log_others + log_ndtr_array(inverse_log_ndtr(log_q - log_others) + shift), 0.0))

    def local(self, log_q: Array) -> Array:
        """Return an upper bound on the change of the cost D by one vote, at each q, (n,)."""
        # Between q1 and q0, the sensitivity at q1 is an upper bound, because the cost changes fastest at q1.
        evaluated = np.where((self.log_q1 <= log_q) & (log_q <= self.log_q0), self.log_q1, log_q)
        cost = self.cost(evaluated)
        return np.maximum(self.cost(self.more_likely(evaluated)) - cost, cost - self.cost(self.less_likely(evaluated)))

    def by_distance(self, counts: Counts, teachers: int) -> Array:
        """Return the largest local sensitivity of each query's cost, given (n, m) counts, within distance d = 0, 1, ... (n, teachers).

        The sensitivity is largest between q1 and q0. Votes are moved one by one until q is between them: from the second label to the
        winner if q is above q0, and from the winner to the second label if q is below q1. The caller adds up the sensitivities of all
        queries. The d teachers may change their votes on one query and keep them on another. So the result at d is the largest value at any
        distance up to d.
        """
        votes = np.sort(counts, axis=1)[:, ::-1].copy()
        log_q = log_q_gaussian(votes, self.sigma)
        largest = np.full((len(votes), teachers), float(self.local(np.array([self.log_q1]))[0]))
        starts_above = log_q > self.log_q0
        outside = np.flatnonzero(starts_above | (log_q < self.log_q1))  # queries whose q is not yet between q1 and q0
        for d in range(teachers):
            largest[outside, d] = self.local(log_q[outside])
            # If the second label has no vote left to move, the query keeps the sensitivity at q1, the largest of all, from here on.
            is_above = (log_q[outside] > self.log_q0) & (votes[outside, 1] > 0)
            outside = outside[np.where(starts_above[outside], is_above, log_q[outside] < self.log_q1)]
            if not len(outside):
                break
            step = np.where(starts_above[outside], 1, -1)
            votes[outside, 0] += step
            votes[outside, 1] -= step
            votes[outside, 1:] = np.sort(votes[outside, 1:], axis=1)[:, ::-1]
            log_q[outside] = log_q_gaussian(votes[outside], self.sigma)
        return np.maximum.accumulate(largest, axis=1)


def threshold_by_distance(largest: Array, threshold: float, sigma: float, order: float, teachers: int) -> Array:
    """Return the largest local sensitivity of the cost of each comparison with the threshold within distance d = 0, 1, ... (n, teachers).

    Args:
        largest: (n,) largest counts, in whole votes.
        sigma: Standard deviation of the noise on the largest count, in votes.
        teachers: Number of teachers, which is also the number of distances.
    """
    counts = np.arange(teachers + 1.0)  # every value that a largest count can have
    log_q = np.minimum(*log_answered(counts, threshold, sigma))  # for the less likely outcome: answered or unanswered
    # `rdp_gaussian` takes noise for L2 sensitivity sqrt 2. The largest count has sensitivity 1, which equals noise larger by sqrt 2.
    changes = np.abs(np.diff(rdp_gaussian(log_q, math.sqrt(2.0) * sigma, np.array([order]))[:, 0]))
    local = np.maximum(np.append(changes, 0.0), np.append(0.0, changes))  # for one more vote and one fewer; 0 beyond the ends
    votes = np.clip(np.rint(largest), 0, teachers).astype(int)
    by_distance = np.zeros((len(votes), teachers))
    for d in range(teachers):
        more, fewer = votes + d, votes - d
        with_more = np.where(more <= teachers, local[np.minimum(more, teachers)], 0.0)
        with_fewer = np.where(fewer >= 0, local[np.maximum(fewer, 0)], 0.0)
        by_distance[:, d] = np.maximum(with_more, with_fewer)
    return np.maximum.accumulate(by_distance, axis=1)


def smooth_bound(by_distance: Array, beta: float) -> float:
    """Return the smooth sensitivity: the largest value of e^(-beta d) times the local sensitivity within distance d.

    Source: Nissim, Raskhodnikova, Smith 2007, Definition 2.2.
    """
    return float((by_distance * np.exp(-beta * np.arange(len(by_distance)))).max())


class Conditions(NamedTuple):
    """Results of the tests of two conditions of the smooth sensitivity.

    Attributes:
        c5: Whether D(q) does not decrease in q up to q0.
        c6: Whether D(B_U(q)) - D(q) does not decrease in q up to q1. It also counts as false if c5 is false.
    """

    c5: bool
    c6: bool


def monotone_conditions(sensitivity: AnswerSensitivity, teachers: int) -> Conditions:
    """Return whether the conditions hold for every q that votes of this number of teachers can have.

    The conditions are tested on a grid, as in the published analysis. It is not proved that they hold between the grid points.
    Source: Papernot et al. 2018, arXiv:1802.08908, Appendix B.4.
    """
    c5 = _never_decreases(sensitivity.cost(_grid(sensitivity, teachers, sensitivity.log_q0)))
    log_q = _grid(sensitivity, teachers, sensitivity.log_q1)
    cost = sensitivity.cost(log_q)
    increase = sensitivity.cost(sensitivity.more_likely(log_q)) - cost
    return Conditions(c5, c5 and _never_decreases(increase, cost))


def _grid(sensitivity: AnswerSensitivity, teachers: int, log_high: float) -> Array:
    """Return log q on a grid that ends just below `log_high`, with even steps of z in q = (classes - 1) Phi(z).

    The grid starts below the q of unanimous votes, by two changed votes; or below `log_high` by one changed vote, if that is less.
    """
    log_others = math.log(sensitivity.classes - 1.0)
    step = math.sqrt(2.0) / sensitivity.sigma  # One changed vote moves z by this. With unanimous votes, z is -teachers * step / 2.
    high = float(inverse_log_ndtr(np.array([log_high - log_others]))[0])
    low = min(-(teachers + 2.0) / (math.sqrt(2.0) * sensitivity.sigma), high) - step
    z = np.linspace(low, high, min(MOST_GRID_POINTS, 2 + math.ceil(GRID_POINTS * (high - low) / step)))
    return np.minimum(log_others + log_ndtr_array(z), math.nextafter(log_high, -math.inf))


def _never_decreases(values: Array, scale: Array | None = None) -> bool:
    """Return whether the values never decrease by more than rounding, relative to `scale` (by default, the values)."""
    size = np.abs(values if scale is None else scale)
    return bool(np.all(np.diff(values) >= -DECREASE_ROUNDING * np.maximum(size[1:], size[:-1]) - LEAST_DECREASE))


def inverse_log_ndtr(log_p: Array) -> Array:
    """Return z <= 0 with log Phi(z) = log_p, for log_p <= log(1/2)."""

    def value_and_slope(z: Array) -> tuple[Array, Array]:
        value = log_ndtr_array(z)
        return value, np.exp(log_normal(z) - value)

    low = -np.sqrt(-2.0 * log_p) - 1.0  # Phi(z) is below e^(-z^2/2), so the root is above this even without the 1.
    return increasing_root(value_and_slope, log_p, low, np.zeros(len(log_p)))
