"""The choice of the tilt t for a contour integral: near the t at which Chernoff's bound on epsilon is least.

For the sum L of the losses log dP/dQ of all steps, K(t) = log E_P[e^{t L}]. integral.py integrates along the line Re z = t. Any t > 0 gives
valid bounds on epsilon and delta. A good t makes them narrow, and needs few nodes: there the integrand is little larger at y = 0 than
delta. Chernoff's bound on epsilon at a tilt t is (K(t) - log delta + log of t^t / (1 + t)^{1 + t}) / t, from K alone.

certified.py and counts.py call `tilt_for`. For two to VERY_MANY different losses it fits parabolas, which take few evaluations of K. If
that fails, and for any other number, it widens and narrows a bracket.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpcli.numerics.arrays import Array, np
from dpcli.numerics.contour.integral import log_hockey, total_cgf
from dpcli.numerics.contour.tilted import Loss, Losses
from dpcli.numerics.work import remembered

# All of these decide only how near the tilt is to the best one, and how long the search takes.
TILT_TOLERANCE = 0.3  # the search ends where the best tilt would gain less than this in the logarithm of the integrand
FIRST_TILTS = (0.5, 2.0, 8.0, 32.0)  # tilts from which the search begins; most settings have their best tilt among them
LEAST_TILT, LARGEST_TILT = 1e-12, 1e12  # range of the tilts that are tried
BRACKETINGS = 60  # most steps of the search by a bracket, each of which evaluates at most two tilts
TILT_RATIO = 1.3  # ratio between the three tilts of a parabola, after the first one
MAX_MOVE = 2.0  # largest factor between the vertex of a parabola and the tilts of the next one
MAX_PARABOLAS = 5  # after so many, the bracket is used
MAX_VARIATION = 1.3  # largest ratio of Chernoff's bounds at the three tilts; for a normal loss it is 1.035 at the best tilt
FAR_MOVES = 2  # number of moves limited by MAX_MOVE after which the best tilt is taken to be far from the first ones
VERY_MANY = 64  # number of different losses beyond which the tilt is chosen for a sample
SAMPLE = 8  # number of different losses in the sample
SUITS = 0.1  # the sample's tilt is used for all losses if its K differs from theirs by at most this share of t times epsilon
BRACKET_RATIO = 4.0  # ratio of neighbouring tilts at which a bracket is extended, and above which it is always narrowed
LARGEST_POWER = 50.0  # a vertex is at most so many ratios from the middle tilt, so that no power overflows


def tilt_for(losses: Losses, log_delta: float) -> float:
    """Return a tilt near the one at which Chernoff's bound on epsilon is least.

    If there are very many different losses, the tilt is chosen for SAMPLE of them, unless it does not suit all.
    """
    return _tilt_for(tuple(losses), log_delta)


@remembered(16)
def _tilt_for(losses: tuple[tuple[Loss, int], ...], log_delta: float) -> float:
    if len(losses) == 1:
        return _chernoff_tilt(losses, 1.0, log_delta)[0]
    if len(losses) <= VERY_MANY:
        return _tilt_by_parabolas(losses, log_delta) or _chernoff_tilt(losses, 1.0, log_delta)[0]
    chosen = [losses[round(i)] for i in np.linspace(0, len(losses) - 1, SAMPLE).tolist()]
    scale = sum(n for _, n in losses) / sum(n for _, n in chosen)
    t, epsilon = _chernoff_tilt(chosen, scale, log_delta)
    at = np.array([t])
    off = float(total_cgf(losses, at)[0] - scale * total_cgf(chosen, at)[0])
    return t if abs(off) <= SUITS * t * epsilon else _chernoff_tilt(losses, 1.0, log_delta)[0]


def _tilt_by_parabolas(losses: Losses, log_delta: float) -> float | None:
    """Return the tilt of `tilt_for` by parabolas through Chernoff's bounds at three tilts; None if they do not lead there.

    Every evaluation takes a call for each loss, so it pays to need few of them.
    """
    first = np.array(FIRST_TILTS)
    values = _chernoff_epsilons(losses, 1.0, log_delta, first)
    index = min(max(int(values.argmin()), 1), len(first) - 2)  # the middle of three: the best, or its neighbour at an end
    tilts, bounds = first[index - 1 : index + 2].tolist(), values[index - 1 : index + 2].tolist()
    far_moves = 0
    for attempt in range(MAX_PARABOLAS):
        best = min(range(3), key=bounds.__getitem__)
        vertex = _vertex(tilts, bounds)
        if vertex is None:
            return None
        vertex_tilt, vertex_bound = vertex
        # The first three tilts are too far apart for their parabola to tell how good the best of them is. A bound that varies much between
        # closer tilts is not a parabola: beyond some tilt, outcomes that never happen dominate K.
        if attempt and not max(bounds) <= MAX_VARIATION * min(bounds):
            return None
        if attempt and tilts[best] * (bounds[best] - vertex_bound) < TILT_TOLERANCE:
            return float(tilts[best])
        middle = min(max(vertex_tilt, tilts[0] / MAX_MOVE), tilts[2] * MAX_MOVE)
        far_moves += middle != vertex_tilt
        if far_moves == FAR_MOVES:
            return None
        tilts = [middle / TILT_RATIO, middle, middle * TILT_RATIO]
        bounds = _chernoff_epsilons(losses, 1.0, log_delta, np.array(tilts)).tolist()
    return None


def _vertex(tilts: Sequence[float], values: Sequence[float]) -> tuple[float, float] | None:
    """Return the tilt at which the parabola through three points, in the logarithm of the tilt, is least, and its value there.

    The result is None if the parabola has no minimum. The tilts have equal ratios.
    """
    (_, middle, last), (left, value, right) = tilts, values
    slope, curvature = 0.5 * (right - left), right - 2.0 * value + left  # for a step of one ratio
    if not 0.0 < curvature < math.inf:
        return None
    power = -slope / curvature
    return middle * (last / middle) ** min(max(power, -LARGEST_POWER), LARGEST_POWER), value + 0.5 * slope * power


def _chernoff_epsilons(losses: Losses, scale: float, log_delta: float, z: Array) -> Array:
    """Return Chernoff's bounds on epsilon at the tilts z, or inf where a CGF is not finite. scale: factor of the losses' CGF."""
    values = (scale * total_cgf(losses, z) - log_delta + log_hockey(z)) / z
    return np.asarray(np.where(np.isnan(values), math.inf, values))


def _chernoff_tilt(losses: Losses, scale: float, log_delta: float) -> tuple[float, float]:
    """Return a tilt t and Chernoff's bound on epsilon there, which is nearly the least.

    scale: factor of the losses' CGF. A tilt that is not the best costs the integrand a factor of e^{t (excess of epsilon)}.

    While the best tilt is the least or the largest one tried, two tilts beyond it are tried. Then the bracket around it is halved, on a
    logarithmic scale.
    """
    epsilon_at: dict[float, float] = {}

    def evaluate(points: Sequence[float]) -> float:
        z = np.array([x for x in points if x not in epsilon_at and LEAST_TILT <= x <= LARGEST_TILT])
        if len(z):
            epsilon_at.update(zip(z.tolist(), _chernoff_epsilons(losses, scale, log_delta, z).tolist(), strict=True))
        return min(epsilon_at, key=lambda x: (epsilon_at[x], x))

    best = evaluate(FIRST_TILTS)
    for _ in range(BRACKETINGS):
        ordered = sorted(epsilon_at)
        index = ordered.index(best)
        if index in (0, len(ordered) - 1) and 1e-10 < best < 1e10:  # so that both tilts beyond are allowed
            ratio = BRACKET_RATIO if index > 0 else 1.0 / BRACKET_RATIO
            best = evaluate([best * ratio, best * ratio**2])
            continue
        low, high = ordered[max(index - 1, 0)], ordered[min(index + 1, len(ordered) - 1)]
        if high <= BRACKET_RATIO * low and best * (min(epsilon_at[low], epsilon_at[high]) - epsilon_at[best]) < TILT_TOLERANCE:
            break
        best = evaluate([math.sqrt(low * best), math.sqrt(best * high)])
    return best, epsilon_at[best]
