"""The epsilons of many compositions of one loss, with different numbers of steps and deltas, from one contour for each block.

`dpcli.epsilon` answers arrays of such questions (analysis/epsilon.py), for which a contour each would take too long. The CGF of n steps,
K(z) = log E_P[e^{z L}] for the sum L of their losses log dP/dQ, is n times the CGF of one step. For a block of similar questions, the log
characteristic function of one step is evaluated once, on a line Re z = t that suits the middle of the block. Each question multiplies it by
its own n, and gets the certificate of `Contour` (integral.py) at its own epsilon. If the line does not suit a question, its interval is
wide. The caller must then compute that question separately.

integral.py has the formulas and proofs. In short: delta(eps) is 1/(2 pi) times the integral of e^{K(z) - z eps} / (z (z+1)) over the line.
It is computed as a sum over multiples y of h, and the certificate is this sum, relative to e^{K(t) - t eps}, with bounds on all of
its errors:

* aliases: the sum has terms e^{-2 pi m t / h} delta(eps - 2 pi m / h) too, for m != 0. They are positive, so they affect the lower bound
  alone. Those with m > 0 add up to at most 1 / (e^{2 pi t / h} - 1), and Chernoff's bound at tilts s > t limits those with m < 0;
* the tail, beyond the last frequency: `Tilted.decay` bounds the modulus of the characteristic function there;
* rounding of the moduli, of the angles, and of the exponent K(t) - t eps;
* K(t), which is an upper bound: by how much it may be too large lowers the lower bound alone;
* a loss without its far upper tail ("capped"): the probability of this tail is added to the upper bound.
"""

from __future__ import annotations

import math
from contextlib import suppress
from itertools import product

from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, ComplexArray, IndexArray, np
from dpcli.numerics.contour.certified import LOG_CAPPED_SHARE, capped_losses
from dpcli.numerics.contour.epsilon_search import FIRST_MARGIN, LEAST_MARGIN, LONGEST_MOVE
from dpcli.numerics.contour.integral import (
    ALIAS_MARGIN,
    ANGLE_ROUNDING,
    CUMULANT_SLACKS,
    DECAY_ROUNDING,
    END_RATIO,
    EXPONENT_ROUNDING,
    LEAST_EXPONENT,
    LEAST_GAP,
    MODULUS_ROUNDING,
    MODULUS_ROUNDING_SQRT,
    MODULUS_ROUNDING_STEP,
    NEGLIGIBLE,
    OWN_ROUNDING,
    log_hockey,
    saddle,
)
from dpcli.numerics.contour.tilt_search import tilt_for
from dpcli.numerics.contour.tilted import Loss, Tilted
from dpcli.numerics.quadrature import SLACK
from dpcli.numerics.work import spend

# Accuracy and speed: every interval is certified by itself, whatever these are.
GROWTH = 1.12  # largest ratio of numbers of steps within a block
DEPTH = 1.5  # largest difference of log delta within a block
NARROW = 1e-9  # relative width of an interval at which no other line is tried
ROUNDS = 40  # most steps of Newton's method, and most doublings of a margin
NODES, MOST_NODES = 256, 6000  # frequencies that any block may have, and that a block with few questions may have
ENTRIES = 4e5  # most entries of a block's table, frequencies times questions, beyond NODES frequencies
ENTRIES_AT_A_TIME = 1 << 18  # entries of a table that are in memory at a time
NEAREST_TILT, FARTHEST_TILT, TILTS = 1.02, 4.0, 8  # range of s / t in Chernoff's bound on the aliases, and number of tilts s
ENDS = 60  # number plus 1 of the frequencies that are tried as the last one, each END_RATIO times the one before
CONVERGED = 1e-13  # Newton's method ends with a step of at most this relative length
WORK = 20.0  # units of work for each entry of a table; `spend` (numerics/work.py) counts and limits them
# Floating point.
SMALLEST = 1e-320  # replaces 0 and negative numbers, whose logarithms are not used; hardly any positive number is smaller


def epsilons_between(loss: Loss, counts: Array, log_deltas: Array) -> tuple[Array, Array]:
    """Return (lower, upper) bounds on the epsilons >= 0 of several questions.

    Question i is for the sum of counts[i] independent copies of the loss, at delta = e^log_deltas[i] < 1/2. Its bounds are (0, inf) if no
    line serves.
    """
    lower, upper = np.zeros(len(counts)), np.full(len(counts), math.inf)
    keys = np.stack((np.floor(np.log(counts) / math.log(GROWTH)), np.floor(log_deltas / DEPTH)), axis=1)
    _, block = np.unique(keys, axis=0, return_inverse=True)
    order = np.argsort(block.ravel(), kind="stable")
    with np.errstate(all="ignore"):  # an overflow ends as inf or NaN in a certificate, which is then of no use
        for rows in np.split(order, np.flatnonzero(np.diff(block.ravel()[order])) + 1):
            low, high = _block_bounds(loss, counts[rows], log_deltas[rows])
            lower[rows], upper[rows] = np.fmax(low, 0.0), np.where(np.isnan(high), math.inf, np.maximum(high, 0.0))
    return np.minimum(lower, upper), upper


def _block_bounds(loss: Loss, counts: Array, log_deltas: Array) -> tuple[Array, Array]:
    """Return the intervals of one block. Questions with wide intervals are computed again without the far upper tail of the loss."""
    low, high = np.full(len(counts), -math.inf), np.full(len(counts), math.inf)
    most, least = int(counts.max()), float(log_deltas.min())
    # The tail that is taken off must be negligible for every question of the block: the one with most steps, and the smallest delta.
    log_tail = least + LOG_CAPPED_SHARE
    attempts = [(loss, -math.inf)]
    capped = capped_losses(((loss, most),), log_tail)
    if capped is not None:
        ((capped_loss, _),) = capped
        attempts.append((capped_loss, log_tail))
    for attempt, log_lost in attempts:
        wide = np.flatnonzero(~((high - low <= NARROW * high) & np.isfinite(high)))
        if not len(wide):
            break
        with suppress(NotRepresentable):
            interval = _block(attempt, counts[wide], log_deltas[wide], log_lost)
            if interval is not None:
                new_low, new_high = interval
                low[wide], high[wide] = np.fmax(low[wide], new_low), np.fmin(high[wide], new_high)
    return low, high


def _block(loss: Loss, counts: Array, log_deltas: Array, log_lost: float) -> tuple[Array, Array] | None:
    """Return the intervals of one block from one line, or None if there is no line.

    log_lost: logarithm of an upper bound on the probability of the tails that the losses lack; -inf if they lack none.
    """
    t = tilt_for(((loss, int(np.median(counts))),), float(np.median(log_deltas)))
    line = _line(loss, t, counts, log_deltas, log_lost)
    if line is None:
        return None
    size = max(1, ENTRIES_AT_A_TIME // len(line.log_factor))
    pieces = [line.epsilons(counts[i : i + size], log_deltas[i : i + size]) for i in range(0, len(counts), size)]
    return np.concatenate([low for low, _ in pieces]), np.concatenate([high for _, high in pieces])


def _line(loss: Loss, t: float, counts: Array, log_deltas: Array, log_lost: float) -> CountLine | None:
    """Return a line with nodes that suffice for every question of the block, or None if the integrands do not decay soon enough."""
    far = t * np.geomspace(NEAREST_TILT, FARTHEST_TILT, TILTS)
    cumulants = loss.cgf(np.append(t, far))
    tilted = loss.tilted(t)
    cumulant, error_bound = _cumulant(tilted, t, float(cumulants[0]))
    if not math.isfinite(error_bound):
        return None
    rise, log_far = cumulants[1:] - cumulant, log_hockey(far)  # as in `CountLine`
    distances, log_targets = [], []
    # One node distance must suit all questions. Those with the fewest and the most copies, at the smallest and the largest delta, decide.
    # It is the largest at which, for each of them, the aliases on both sides are at most e^NEGLIGIBLE of delta, at the epsilon whose saddle
    # point is t, as in `_node_distance` (integral.py).
    for n, log_delta in product((float(counts.min()), float(counts.max())), (float(log_deltas.min()), float(log_deltas.max()))):
        epsilon = float(saddle(np.array([n * cumulant]), log_delta, np.array([t]))[0])
        log_wanted = log_delta - n * cumulant + t * epsilon
        exponents = (n * rise + log_far - (far - t) * epsilon - log_wanted - NEGLIGIBLE) / (far - t)
        distances.append(2.0 * math.pi * t / (ALIAS_MARGIN - NEGLIGIBLE - log_delta))
        distances.append(2.0 * math.pi / max(float(np.nanmin(np.append(exponents, math.inf))), LEAST_EXPONENT))
        log_targets.append(NEGLIGIBLE + log_wanted)
    step, fewest = min(distances), float(counts.min())
    width = 1.0 / math.sqrt(fewest * tilted.variance + 1.0 / t**2 + 1.0 / (1.0 + t) ** 2)
    ends: Array = np.asarray(width * END_RATIO ** np.arange(1.0, ENDS), dtype=float)
    ends = ends[ends <= min(max(NODES, ENTRIES / len(counts)), MOST_NODES) * step]
    if not len(ends):
        return None
    decay = fewest * tilted.decay(ends)
    # The integral of e^decay / y^2 beyond each end on both sides, and `step` times its first term.
    log_tails = decay + DECAY_ROUNDING * fewest - np.log(math.pi * ends) + np.log1p(step / ends)
    enough = np.flatnonzero(log_tails <= min(log_targets))
    if not len(enough):
        return None
    count = math.ceil(float(ends[enough[0]]) / step) + 1
    log_factor = tilted.centred(step, count, NEGLIGIBLE - math.log(float(counts.max())))
    y: Array = step * np.arange(count, dtype=float)
    pole = -np.log(t + 1j * y) - np.log(t + 1.0 + 1j * y)
    tail = math.exp(float(log_tails[enough[0]]))
    return CountLine(
        t=t,
        step=step,
        cumulant=cumulant,
        error_bound=error_bound,
        mean=tilted.mean,
        deviation=math.sqrt(tilted.variance),
        y=y,
        log_factor=log_factor,
        pole=pole,
        tail=tail,
        far=far,
        rise=rise,
        log_far=log_far,
        log_lost=log_lost,
    )


def _cumulant(tilted: Tilted, t: float, bound: float) -> tuple[float, float]:
    """Return an upper bound on K(t) of one step, and by how much it may be too large.

    bound: the loss's own bound on K(t), which is used if it is at most SLACK too large, relative (`exact_cgf`). If not, it could give no
    lower bound on delta, and the quadrature's value is used, increased by its error. The result is (NaN, inf) if `bound` is below that
    value.
    """
    own = tilted.cumulant
    rounding = SLACK * (1.0 + abs(own)) + OWN_ROUNDING * (1.0 + t) * (abs(tilted.mean) + math.sqrt(tilted.variance))
    if not bound >= own - rounding or not math.isfinite(bound):
        return math.nan, math.inf
    if tilted.exact_cgf:
        return bound, CUMULANT_SLACKS * SLACK * bound
    return own + rounding, 2.0 * rounding + CUMULANT_SLACKS * SLACK * (own + rounding)


@dataclass(frozen=True, slots=True, eq=False)
class CountLine:
    """The integrand of one step on the line Re z = t, with the quantities that `Contour` needs for n steps.

    cumulant: an upper bound on K(t) of one step, at most `error_bound` too large. mean, deviation: those of one step's tilted loss.
    y: the frequencies, multiples of the node distance `step`. log_factor: the log characteristic function of one step about its mean, at y.
    pole: the logarithm of 1 / (z (z+1)). tail: a bound for every n on the integral beyond the last frequency, relative to e^{K - t eps}.
    far, rise, log_far: tilts s > t, K(s) - K(t) of one step, and `log_hockey` of s. log_lost: as in `_block`.
    """

    t: float
    step: float
    cumulant: float
    error_bound: float
    mean: float
    deviation: float
    y: Array
    log_factor: ComplexArray
    pole: ComplexArray
    tail: float
    far: Array
    rise: Array
    log_far: Array
    log_lost: float

    def epsilons(self, counts: Array, log_deltas: Array) -> tuple[Array, Array]:
        """Return (lower, upper) bounds on the epsilons. They may be negative, and are infinite if nothing is proved."""
        spend(WORK * len(counts) * len(self.y))
        table = CountTable(self, counts)
        epsilon, slope = table.newton(log_deltas)
        low, high = table.log_delta(epsilon)
        ends = []
        for sign, gap in ((-1.0, log_deltas - low), (1.0, high - log_deltas)):
            margin = LEAST_MARGIN * np.abs(epsilon) + FIRST_MARGIN * np.clip(gap, 0.0, 1.0) / slope
            # A slope that is not positive means that the search failed. A margin of NaN then gives an infinite end.
            ends.append(table.proved_ends(log_deltas, epsilon, np.where(slope > 0.0, margin, math.nan), sign))
        return ends[0], ends[1]


class CountTable:
    """The integrands of several numbers of steps on one line, with one row for each number.

    It computes for all rows at once what `Contour` (integral.py) and `solve` (epsilon_search.py) do for one composition.
    """

    def __init__(self, line: CountLine, counts: Array) -> None:
        self.line, self.counts = line, counts
        log_integrand = counts[:, None] * line.log_factor + line.pole
        self._modulus = np.exp(log_integrand.real)
        self._modulus[:, 0] *= 0.5  # the frequency 0 is counted once, the others stand for y and -y
        self._angle = log_integrand.imag
        self._cumulant = counts * line.cumulant
        total = self._modulus.sum(axis=1)
        rounding = MODULUS_ROUNDING + MODULUS_ROUNDING_SQRT * np.sqrt(counts) + MODULUS_ROUNDING_STEP * counts
        self._error = rounding * total * line.step / math.pi + line.tail
        # The angle at y is a sum of terms of at most angle_slope * y in total (`log_delta`). This is the error for an angle_slope of 1.
        self._angle_error = ANGLE_ROUNDING * (self._modulus @ line.y) * line.step / math.pi
        missing = (1.0 + line.t) * math.exp(line.log_lost)  # most by which K of a capped loss may be too large
        self._error_bound = counts * line.error_bound + missing

    def _angles(self, rows: IndexArray, epsilon: Array) -> Array:
        """Return the angles of the integrands of some rows, each at its epsilon."""
        return np.asarray(self._angle[rows] + self.line.y * (self.counts[rows] * self.line.mean - epsilon)[:, None])

    def _sums(self, rows: IndexArray, angle: Array) -> Array:
        """Return the trapezoidal sums of some rows, from the angles of their integrands."""
        return np.asarray(np.einsum("ij,ij->i", self._modulus[rows], np.cos(angle)) * (self.line.step / math.pi))

    def newton(self, log_deltas: Array) -> tuple[Array, Array]:
        """Return (epsilon, -d log delta / d epsilon) where the trapezoidal sums reach the deltas, or NaN. The results are not bounds.

        The search starts from the epsilon whose saddle point is t, or from Chernoff's bound on epsilon if that is smaller.
        """
        line, t = self.line, self.line.t
        chernoff = (self._cumulant - log_deltas + t * math.log(t) - (t + 1.0) * math.log1p(t)) / t
        epsilon = np.minimum(self.counts * line.mean - 1.0 / t - 1.0 / (1.0 + t), chernoff)
        slope, rows = np.full(len(epsilon), math.nan), np.arange(len(epsilon))
        for _ in range(ROUNDS):
            angle = self._angles(rows, epsilon[rows])
            total = self._sums(rows, angle)
            change = np.einsum("ij,ij->i", self._modulus[rows] * line.y, np.sin(angle)) * (line.step / math.pi)
            slope[rows] = t - change / total
            move = (self._cumulant[rows] - t * epsilon[rows] + np.log(total) - log_deltas[rows]) / slope[rows]
            epsilon[rows] += np.clip(move, -LONGEST_MOVE / t, LONGEST_MOVE / t)
            rows = rows[np.abs(move) > CONVERGED * np.abs(epsilon[rows])]
            if not len(rows):
                break
        return epsilon, slope

    def log_delta(self, epsilon: Array, rows: IndexArray | None = None) -> tuple[Array, Array]:
        """Return (lower, upper) bounds on log delta of some rows (None: all), each at its own epsilon.

        The bounds are the sum plus or minus its error, times e^{K - t eps} with allowances for rounding. The lost probability is then added
        to the upper one, and the aliases are subtracted from the lower one, which is -inf if they or the error exceed the sum.
        """
        line, chosen = self.line, np.arange(len(self.counts)) if rows is None else rows
        cumulant, means = self._cumulant[chosen], np.abs(self.counts[chosen] * line.mean)
        angle_slope = self.counts[chosen] * line.deviation + means + np.abs(epsilon)
        error = self._error[chosen] + self._angle_error[chosen] * angle_slope
        total = self._sums(chosen, self._angles(chosen, epsilon))
        base = cumulant - line.t * epsilon
        ulps = EXPONENT_ROUNDING * (cumulant + line.t * (np.abs(epsilon) + means))
        upper = np.where(total + error > 0.0, base + ulps + np.log(np.maximum(total + error, SMALLEST)), math.inf)
        upper = np.logaddexp(upper, line.log_lost)
        log_least = base - ulps - self._error_bound[chosen] + np.log(np.maximum(total - error, SMALLEST))
        low = np.where(total > error, log_least, -math.inf)
        gap = self._log_alias(chosen, epsilon) - low
        return np.where(gap < -LEAST_GAP, low + np.log1p(-np.exp(np.minimum(gap, -LEAST_GAP))), -math.inf), upper

    def _log_alias(self, rows: IndexArray, epsilon: Array) -> Array:
        """Return upper bounds on the logarithm of the terms m != 0 of the sum over aliases (integral.py)."""
        line = self.line
        turns = 2.0 * math.pi * line.t / line.step
        above = -turns - math.log1p(-math.exp(-turns))  # for m > 0; `below` is for m < 0
        shift = 2.0 * math.pi * (line.far - line.t) / line.step
        counts, cumulant = self.counts[rows, None], self._cumulant[rows, None]
        below = cumulant - line.far * epsilon[:, None] + counts * line.rise + line.log_far - shift - np.log1p(-np.exp(-shift))
        return np.asarray(np.logaddexp(above, np.fmin.reduce(below, axis=1)))

    def proved_ends(self, log_deltas: Array, epsilon: Array, margin: Array, sign: float) -> Array:
        """Return bounds on the epsilons: upper ones for sign 1, lower ones for sign -1.

        Each is the first of epsilon + sign * (margin, 2 margin, 4 margin, ...) at which the certificate proves it, or infinite.
        """
        ends, margin = np.full(len(epsilon), sign * math.inf), margin.copy()
        rows = np.flatnonzero(np.isfinite(margin) & np.isfinite(epsilon))
        for _ in range(ROUNDS):
            if not len(rows):
                break
            at = epsilon[rows] + sign * margin[rows]
            low, high = self.log_delta(at, rows)
            proved = high <= log_deltas[rows] if sign > 0.0 else low >= log_deltas[rows]
            ends[rows[proved]] = at[proved]
            rows = rows[~proved]
            margin[rows] *= 2.0
        return ends
