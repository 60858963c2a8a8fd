"""The method of one big jump (jump.py) for a composition: the choice of the level at which the losses are cut.

jump.py bounds delta from losses L = log dP/dQ that are divided into a small and a big part, for any division. Here the *level*, the loss
between both parts, is chosen from estimates of where epsilon lies, and the losses are cut there (cut.py; many losses of one family together
as *rows*, cut_rows.py). certified.py asks: `jump_to` bounds delta at a known epsilon, and `epsilon_by_jump` bounds epsilon at a given
delta, by cuts at several levels. The estimates that choose a level are not bounds.

jump.py writes delta as a sum of three terms. The third, E_Q[(e^epsilon - e^S)+; some loss is big] with the sum S of the losses, is only
bounded. It is negligible if nearly all big losses lie above epsilon, so the level must not be too low. A higher level leaves more of the
far tail in the small part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from dpcli.base.errors import InternalError, NotRepresentable
from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.contour.cut import CutLoss, UncutLoss
from dpcli.numerics.contour.cut_rows import alike_rows, cut_rows
from dpcli.numerics.contour.jump import MAX_EPSILON, Cut, Divided, Jump, jump, log_third_term
from dpcli.numerics.contour.tilted import Loss, Losses, uncut
from dpcli.numerics.logspace import log_ndtr_array
from dpcli.numerics.mixture import FEWEST_IN_TABLE, Shifted, ShiftedRemove, row_of, table_of
from dpcli.numerics.quadrature import TAIL
from dpcli.numerics.roots import bracket_root
from dpcli.numerics.tails import single_epsilon, single_log_delta

# All of these decide only which levels are tried, and so the width of the interval and the work.
# Estimates.
NODES = 160  # nodes over the outcomes of a step for estimated moments
NORMAL_ROUNDS = 8  # steps of a fixed-point iteration for a normal approximation
LEAST_LOG, MOST_LOG = -36.0, 6.0  # range in which log epsilon is searched
ROUGH = 1e-4  # relative accuracy of log epsilon
LARGEST_EPSILON = 700.0  # larger epsilons are reduced to this, so that e^epsilon does not overflow
LEAST_LOG_DELTA = -1400.0  # least estimate of log delta; e^-1400 is below every positive float
LOG_RARE = -7.0  # log of the probability of outcomes that are left out of the mean and standard deviation of the sum
HIGHEST_LEVEL = 100.0  # a level so high that LOG_RARE alone decides which outcomes are left out
FLAT = 1e6  # order z at which K(z) / z is about the largest loss, if there is one
# Levels.
LEVEL_DEVIATIONS = 2.0  # a level is at least this many standard deviations of the sum
LEVEL_FACTORS = (1.0, 1.2, 1.5, 2.0)  # multiples of a level that are tried
HIGHER_LEVEL = 2.0  # factor of the next level if a cut near epsilon gave no narrow interval
LOG_THIRD_TERM = -21.0  # log of the third term, relative to delta, at which a level is high enough
LOG_CUT_OFF = -28.0  # log of the mass that may be big if losses are cut below the level, relative to delta e^-epsilon
FEWEST_ROWS = 2  # fewest rows that are cut together
# The search for epsilon.
ROUNDS = 8  # most cuts
NARROW = 1e-7  # no other cut is tried after an interval of at most this relative width
NEAR_ESTIMATE = 0.1  # if epsilon is within this relative distance of the cut's estimate, another cut at it would not help
MAX_VAIN_CUTS, VAIN_RATIO = 1, 0.9  # the search ends after this many cuts that leave more than VAIN_RATIO of the interval's width
LEAST_RATIO, MOST_RATIO = 2.5, 12.0  # range of the ratio between one estimate and the next if no epsilon was proved near the first


class Core(NamedTuple):
    """About the mean and the standard deviation of the sum of the losses without rare outcomes."""

    mean: float
    deviation: float

    def epsilon(self, log_delta: float) -> float:
        """Return about the epsilon at which delta is e^log_delta, by a normal approximation."""
        return self.mean + self.deviation * _normal_score(log_delta - math.log(self.deviation))


@dataclass(frozen=True, slots=True, eq=False)
class LoneRows:
    """Sampled Gaussian losses of the remove direction, those of row i of a table `counts[i]` times. The results are estimates.

    `log_delta` and `epsilon` take each loss alone, as if it were the only big one, and add up the deltas.
    """

    table: Shifted
    counts: Array
    losses: Losses

    def log_delta(self, epsilon: float) -> float:
        """Return log SUM n_i delta_i(epsilon), in closed form from the outcome x_i at which r_i = e^epsilon."""
        mu, q = self.table.shifts, self.table.weights
        growth = (math.expm1(min(epsilon, LARGEST_EPSILON)) + q) / q  # e^{mu x - mu^2 / 2} at the outcome
        x = np.log(growth) / mu + 0.5 * mu
        log_p, log_q = log_ndtr_array(np.stack((mu - x, -x)))
        total = float(self.counts @ (np.exp(log_p) * q * -np.expm1(np.minimum(log_q - log_p + np.log(growth), 0.0))))
        return math.log(total) if total > 0.0 else -math.inf

    def epsilon(self, log_delta: float) -> float:
        """Return about the epsilon at which the sum of all delta_i is e^log_delta, or 0 if it is smaller everywhere."""
        if self.log_delta(math.exp(LEAST_LOG)) <= log_delta:
            return 0.0
        log_epsilon = bracket_root(lambda at: self.log_delta(math.exp(at)) - log_delta, LEAST_LOG, MOST_LOG, rtol=ROUGH)[0]
        return math.exp(log_epsilon)

    def moments(self, log_mass: float) -> tuple[float, float]:
        """Return the sums of E_P[L] and of E_P[L^2], without the largest outcomes, of total probability e^log_mass."""
        mu, q = self.table.shifts, self.table.weights
        depth = math.log(float(self.counts.sum())) - log_mass  # minus the log of the probability for each step
        x = np.linspace(-TAIL, math.sqrt(2.0 * depth) + float(mu.max()), NODES)[None, :].repeat(len(mu), axis=0)
        base, ratio = self.table.line(x)
        weights = np.exp(base + ratio) * (x[0, 1] - x[0, 0])
        log_tail = np.logaddexp(np.log1p(-q)[:, None] + log_ndtr_array(-x), np.log(q)[:, None] + log_ndtr_array(mu[:, None] - x))
        weights[log_tail < -depth] = 0.0
        return float(self.counts @ (weights * ratio).sum(axis=1)), float(self.counts @ (weights * ratio**2).sum(axis=1))


def in_rows(losses: Losses) -> tuple[LoneRows | None, Losses]:
    """Return the losses that form rows of one table, or None if they are fewer than FEWEST_IN_TABLE, and the other losses.

    Only sampled Gaussians of the remove direction are taken as rows.
    """
    if len(losses) < FEWEST_IN_TABLE:
        return None, losses
    rows, members, others = [], [], []
    for loss, count in losses:
        row = row_of(loss)
        if row is not None and row.family is ShiftedRemove:
            rows.append(row)
            members.append((loss, count))
        else:
            others.append((loss, count))
    if len(rows) < FEWEST_IN_TABLE:
        return None, losses
    return LoneRows(table_of(rows), np.array([float(n) for _, n in members]), tuple(members)), tuple(others)


def cuts(losses: Losses, level: float, log_mass: float) -> Cut | None:
    """Return every loss cut at `level`, or below it if the mass that is then big is at most e^log_mass in total.

    Many losses of one family are cut together as rows. The result is None if some loss cannot be cut.
    """
    log_share = log_mass - math.log(math.fsum(n for _, n in losses))
    rows, singles = in_rows(losses)
    parts: list[tuple[Divided, int]] = []
    if rows is not None:
        uncut_rows = np.ones(len(rows.losses), dtype=bool)
        for index in alike_rows(rows.table, level):
            together = cut_rows(rows.table.at(index), rows.counts[index], level, log_share) if len(index) >= FEWEST_ROWS else None
            if together is not None:
                parts.append((together, 1))  # its counts are inside
                uncut_rows[index] = False
        singles = (*singles, *(rows.losses[i] for i in np.flatnonzero(uncut_rows).tolist()))
    cut_singles = _cuts_alone(singles, level, log_share)
    if cut_singles is None:
        return None
    parts.extend(cut_singles)
    if not math.isclose(math.fsum(n * part.steps for part, n in parts), math.fsum(n for _, n in losses)):
        raise InternalError("some steps were lost between the parts of a composition")
    return tuple(parts)


def _cuts_alone(losses: Losses, level: float, log_share: float) -> Sequence[tuple[CutLoss | UncutLoss, int]] | None:
    """Return each loss cut by itself, or None if some loss cannot be cut.

    log_share: logarithm of the mass of each step that may be cut off below the level.
    """
    parts: list[tuple[CutLoss | UncutLoss, int]] = []
    for loss, n in losses:
        part = _cut(loss, level, log_share)
        if part is None:
            return None
        parts.append((part, n))
    return parts


def _cut(loss: Loss, level: float, log_mass: float) -> CutLoss | UncutLoss | None:
    """Return one loss cut at `level`, or whole if it has no far tail. It is None if neither is possible."""
    method: Callable[[float, float], CutLoss | None] | None = getattr(loss, "cut", None)
    if method is not None:
        return method(level, log_mass)
    return UncutLoss(loss) if uncut(loss) else None


def _cuts_above(losses: Losses, epsilon: float, level: float, log_delta: float) -> Cut | None:
    """Return the losses cut at the first multiple of `level` for which the third term of delta is negligible, or at the last multiple."""
    parts = None
    for factor in LEVEL_FACTORS:
        parts = cuts(losses, factor * level, log_delta + LOG_CUT_OFF - epsilon)
        if parts is None or log_third_term(parts, epsilon) <= log_delta + LOG_THIRD_TERM:
            break
    return parts


@np.errstate(all="ignore")  # an overflow ends as inf or NaN in a certificate, which is then of no use
def jump_to(losses: Losses, epsilon: float, log_delta: float) -> Jump | None:
    """Return bounds on delta near `epsilon`, where log delta is at most about `log_delta`; None if the method does not apply."""
    core = _core(losses)
    if core is None or not 0.0 < epsilon < MAX_EPSILON:
        return None
    level = max(epsilon, LEVEL_DEVIATIONS * core.deviation)
    least = max(min(log_delta, log_delta_of_one(losses, epsilon)), LEAST_LOG_DELTA)  # delta is at least about that of one big loss
    parts = _cuts_above(losses, epsilon, level, least)
    return None if parts is None else jump(parts, log_delta=None, epsilon=epsilon, level=level, floor=least)


@np.errstate(all="ignore")
def epsilon_by_jump(losses: Losses, log_delta: float) -> tuple[float, float, float] | None:
    """Return (lower, upper, tilt), with bounds on the epsilon at which delta is e^log_delta; None if no cut gives an upper bound."""
    core = _core(losses)
    if core is None:
        return None
    estimate, level_factor = first_estimate(losses, log_delta), 1.0
    low, high, tilt = 0.0, math.inf, math.nan
    last_valid = 0.0  # the last estimate for which the method applied; 0 before the first
    vain_cuts = 0  # number of cuts in a row that did not narrow the interval
    for _ in range(ROUNDS):
        level = level_factor * max(estimate, LEVEL_DEVIATIONS * core.deviation)
        try:
            # Bounds are searched at larger epsilons than the estimate, but end at MAX_EPSILON.
            parts = _cuts_above(losses, estimate, level, log_delta) if 0.0 < estimate < 0.5 * MAX_EPSILON else None
            bounds = None if parts is None else jump(parts, log_delta, estimate, level)
        except NotRepresentable:  # the bounds of earlier cuts hold nevertheless
            if not math.isfinite(high):
                raise
            break
        if bounds is None:
            if not last_valid:
                break
            estimate = math.sqrt(estimate * last_valid)  # half way back, on a logarithmic scale
            continue
        last_valid, width = estimate, high - low
        lower, upper = bounds.epsilon(log_delta, estimate)
        low = max(low, lower)
        if upper < high:
            high, tilt = upper, bounds.small.t
        vain_cuts = 0 if high - low < VAIN_RATIO * width or not math.isfinite(high) else vain_cuts + 1
        if high - low <= NARROW * high < math.inf or vain_cuts == MAX_VAIN_CUTS:
            break
        _, log_delta_at_zero = bounds.log_delta(0.0)
        if log_delta_at_zero <= log_delta:
            return 0.0, 0.0, bounds.small.t
        if abs(lower - estimate) <= NEAR_ESTIMATE * estimate:  # another cut at this level would not help
            level_factor *= HIGHER_LEVEL
        estimate = lower if lower > 0.0 else _farther(bounds, log_delta, estimate)
    return (min(low, high), high, tilt) if math.isfinite(high) else None


def _farther(last: Jump, log_delta: float, estimate: float) -> float:
    """Return the next estimate of epsilon after `estimate`, near which no lower bound was proved.

    It is where the tangent of log delta at `estimate` reaches the target. Its ratio to `estimate` is between LEAST_RATIO and MOST_RATIO if
    epsilon is larger, and between their inverses otherwise.
    """
    lower, upper = last.log_delta(estimate)
    _, upper_before = last.log_delta(0.8 * estimate)
    slope = (upper_before - upper) / (0.2 * estimate)
    is_larger = lower > log_delta
    tangent = estimate + (upper - log_delta) / slope if slope > 0.0 and math.isfinite(upper) else math.nan
    if not math.isfinite(tangent):
        return estimate * (LEAST_RATIO if is_larger else 1.0 / LEAST_RATIO)
    least, most = (LEAST_RATIO, MOST_RATIO) if is_larger else (1.0 / MOST_RATIO, 1.0 / LEAST_RATIO)
    return min(max(tangent / estimate, least), most) * estimate


def log_delta_of_one(losses: Losses, epsilon: float) -> float:
    """Return about the logarithm of the delta that one big loss alone causes."""
    rows, singles = in_rows(losses)
    log_deltas = [single_log_delta(loss, epsilon)[0] + math.log(n) for loss, n in singles]  # type: ignore[arg-type]
    return max(log_deltas if rows is None else [*log_deltas, rows.log_delta(epsilon)])


def _epsilon_of_one(losses: Losses, log_delta: float) -> float:
    """Return about the epsilon at e^log_delta that one big loss alone causes."""
    rows, singles = in_rows(losses)
    largest = 0.0 if rows is None else rows.epsilon(log_delta)
    for loss, n in singles:
        with suppress(NotRepresentable):
            largest = max(largest, single_epsilon(loss, log_delta - math.log(n))[0])  # type: ignore[arg-type]
    return largest


def first_estimate(losses: Losses, log_delta: float) -> float:
    """Return the first estimate of the epsilon at which delta is e^log_delta, or inf if there is none.

    It is the larger one of two: one big loss decides, or the sum of all losses does, by a normal approximation. If only some losses have a
    far tail, the sum of the largest values of the others plus the estimate for those with a far tail is another estimate. The smaller one
    is taken.
    """
    core = _core(losses)
    if core is None:
        return math.inf
    estimate = max(_epsilon_of_one(losses, log_delta), core.epsilon(log_delta))
    with_far_tail = tuple((loss, n) for loss, n in losses if hasattr(loss, "cut"))
    core_with_far_tail = _core(with_far_tail) if len(with_far_tail) < len(losses) else None
    if core_with_far_tail is None:
        return estimate
    largest_others = math.fsum(n * float(loss.cgf(np.array([FLAT]))[0]) / FLAT for loss, n in losses if not hasattr(loss, "cut"))
    return min(estimate, largest_others + max(_epsilon_of_one(with_far_tail, log_delta), core_with_far_tail.epsilon(log_delta)))


def _core(losses: Losses) -> Core | None:
    """Return the core of the losses, or None if they cannot be cut or do not vary."""
    rows, singles = in_rows(losses)
    parts = _cuts_alone(singles, HIGHEST_LEVEL, LOG_RARE - math.log(math.fsum(n for _, n in losses)))
    if parts is None:
        return None
    moments = [(part.moments(), n) for part, n in parts] + ([] if rows is None else [(rows.moments(LOG_RARE), 1)])
    mean = math.fsum(n * mean_of_one for (mean_of_one, _), n in moments)
    square = math.fsum(n * square_of_one for (_, square_of_one), n in moments)
    return Core(mean, math.sqrt(square)) if square > 0.0 else None  # if the steps' means are small, this is about the variance


def _normal_score(log_excess: float) -> float:
    """Return about the x at which log E[(Z - x)+] = `log_excess` for standard normal Z, or 0 if `log_excess` is large.

    At a large x, E[(Z - x)+] is about phi(x) / x^2, and log phi(x) is -x^2 / 2 - log(2 pi) / 2, about -x^2 / 2 - 0.92.
    """
    x = 1.0
    for _ in range(NORMAL_ROUNDS):
        x = math.sqrt(max(-2.0 * (log_excess + 0.92 + 2.0 * math.log(max(x, 1.0))), 0.0))
    return x
