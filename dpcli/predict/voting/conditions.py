"""Whether the bounds on the sensitivity of an answer's cost hold: conditions C5 and C6, looked at on a grid."""

from __future__ import annotations

import math

from dpcli.numerics.arrays import Array, np
from dpcli.numerics.logspace import log_ndtr_array
from dpcli.predict.voting.sensitivity import AnswerSensitivity, inverse_log_ndtr

FINE = 32  # points of the grid in the distance by which one vote moves q
MOST = 200_000  # points
ROUNDING = 1e-9  # relative: a fall of this size is none


def conditions(of: AnswerSensitivity, teachers: int) -> tuple[bool, bool]:
    """(C5, C6): that the cost D(q), and D(B_U(q)) - D(q), do not fall in q, up to q0 and up to q1, for q that so many votes can have.

    They are looked at on a grid, as in the published analysis: that they hold between its points is not proved.
    Source: Papernot et al. 2018, arXiv:1802.08908, Appendix B.4.
    """
    costs = of.cost(_grid(of, teachers, of.log_q0))
    c5 = _rises(costs)
    below = _grid(of, teachers, of.log_q1)
    cost = of.cost(below)
    return c5, c5 and _rises(of.cost(of.more_likely(below)) - cost, cost)


def _grid(of: AnswerSensitivity, teachers: int, log_high: float) -> Array:
    """log q from that of all votes for one label, and one vote beyond, to `log_high`, exclusively."""
    others, step = math.log(of.classes - 1.0), math.sqrt(2.0) / of.sigma
    high = float(inverse_log_ndtr(np.array([log_high - others]))[0])
    low = min(-(teachers + 2.0) / (math.sqrt(2.0) * of.sigma), high) - step
    places = np.linspace(low, high, min(MOST, 2 + math.ceil(FINE * (high - low) / step)))
    return np.minimum(others + log_ndtr_array(places), math.nextafter(log_high, -math.inf))


def _rises(values: Array, scale: Array | None = None) -> bool:
    size = np.abs(values if scale is None else scale)
    return bool(np.all(np.diff(values) >= -ROUNDING * np.maximum(size[1:], size[:-1]) - 1e-300))
