"""Cuts of the losses for one big jump: at an epsilon that is known, or at one that is found on the way.

Rough looks (`LoneRows`) say where among many different losses of one family; nothing of them is a bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress

from dpcli.base.errors import InternalError, NotRepresentable
from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.contour.cut import CutLoss, UncutLoss
from dpcli.numerics.contour.cut_rows import alike_rows, cut_rows
from dpcli.numerics.contour.jump import MAX_EPSILON, Cut, Divided, Jump, jump, log_short
from dpcli.numerics.contour.tilted import Loss, Losses, uncut
from dpcli.numerics.logspace import log_ndtr_array
from dpcli.numerics.mixture import LEAST as ROWS
from dpcli.numerics.mixture import Shifted, ShiftedRemove, row_of, table_of
from dpcli.numerics.quadrature import TAIL
from dpcli.numerics.roots import bracket_root
from dpcli.numerics.tails import single_epsilon, single_log_delta

NODES = 160  # over the outcomes of a step
LEAST_LOG, MOST_LOG = -36.0, 6.0  # logarithms of the epsilons that are looked at
ROUGH = 1e-4  # relative
FARTHEST_EPSILON = 700.0  # epsilon, beyond which e^epsilon is no number: this only says where to look
NARROW = 1e-7  # relative width at which no other cut is tried
NEAR = 0.1  # relative distance from the cut at which another would not help
ROUNDS = 8  # cuts
VAIN, GAINED = 1, 0.9  # of them that show nothing new: an interval of more than that of the width before
FARTHER = 2.5  # the next place to look at, over one from where no epsilon can be shown
RISES = (1.0, 1.2, 1.5, 2.0)  # of a level
SHORT = -21.0  # logarithm of what big losses that fall short of epsilon may make of delta
FARTHEST = 12.0  # the same, at most
HIGHER = 2.0  # the next cut, where one near epsilon does not serve
LEAST = -1400.0  # logarithm of a delta that no floating-point number holds
SPREAD = 2.0  # standard deviations of the sum below which nothing is big
RARE = -7.0  # logarithm of the probability that is left out of those
TOGETHER = 2  # rows that are cut as such, where there are many in all
FLAT = 1e6  # order at which K over it is about the largest loss of those that have one
EVERYTHING = 100.0  # a level that leaves nothing else out
SHARE = -28.0  # logarithm of what may be cut off below the level, relative to delta


@dataclass(frozen=True, slots=True, eq=False)
class LoneRows:
    """Losses of the remove direction, row i `counts[i]` times."""

    table: Shifted
    counts: Array
    losses: Losses

    def log_delta(self, epsilon: float) -> float:
        """log SUM n_i delta_i(epsilon): in closed form, as r_i passes e^epsilon at x_i."""
        mu, q = self.table.shifts, self.table.weights
        level = math.expm1(min(epsilon, FARTHEST_EPSILON)) + q
        x = np.log(level / q) / mu + 0.5 * mu
        log_p, log_q = log_ndtr_array(np.stack((mu - x, -x)))
        total = float(self.counts @ (np.exp(log_p) * q * -np.expm1(np.minimum(log_q - log_p + np.log(level / q), 0.0))))
        return math.log(total) if total > 0.0 else -math.inf

    def epsilon(self, log_delta: float) -> float:
        """Return about the epsilon at which that is e^log_delta; 0 where it never is."""
        if self.log_delta(math.exp(LEAST_LOG)) <= log_delta:
            return 0.0
        log_epsilon = bracket_root(lambda at: self.log_delta(math.exp(at)) - log_delta, LEAST_LOG, MOST_LOG, rtol=ROUGH)[0]
        return math.exp(log_epsilon)

    def core(self, log_mass: float) -> tuple[float, float]:
        """Sums of E_P[L] and E_P[L^2] without outcomes that are beyond with a probability of e^log_mass in all."""
        mu, q = self.table.shifts, self.table.weights
        rest = math.log(float(self.counts.sum())) - log_mass
        x = np.linspace(-TAIL, math.sqrt(2.0 * rest) + float(mu.max()), NODES)[None, :].repeat(len(mu), axis=0)
        base, ratio = self.table.line(x)
        weights = np.exp(base + ratio) * (x[0, 1] - x[0, 0])
        log_tail = np.logaddexp(np.log1p(-q)[:, None] + log_ndtr_array(-x), np.log(q)[:, None] + log_ndtr_array(mu[:, None] - x))
        weights[log_tail < -rest] = 0.0
        return float(self.counts @ (weights * ratio).sum(axis=1)), float(self.counts @ (weights * ratio**2).sum(axis=1))


def in_rows(losses: Losses) -> tuple[LoneRows | None, Losses]:
    """(rows, the losses that are in none); no rows where they are few."""
    if len(losses) < ROWS:
        return None, losses
    each = [row_of(loss) for loss, _ in losses]
    inside = [row is not None and row.family is ShiftedRemove for row in each]
    if sum(inside) < ROWS:
        return None, losses
    chosen = tuple(part for part, into in zip(losses, inside, strict=True) if into)
    table = table_of([row for row, into in zip(each, inside, strict=True) if row is not None and into])
    others = tuple(part for part, into in zip(losses, inside, strict=True) if not into)
    return LoneRows(table, np.array([float(n) for _, n in chosen]), chosen), others


def cuts(losses: Losses, level: float, log_mass: float) -> Cut | None:
    """Every loss cut at `level`, or where no more than e^log_mass is left in all; None where one of them cannot be. Many of one family are
    cut as rows."""
    share = log_mass - math.log(math.fsum(n for _, n in losses))
    rows, left = in_rows(losses)
    parts: list[tuple[Divided, int]] = []
    if rows is not None:
        alone = np.ones(len(rows.losses), dtype=bool)
        for index in alike_rows(rows.table, level):
            several = cut_rows(rows.table.at(index), rows.counts[index], level, share) if len(index) >= TOGETHER else None
            if several is not None:
                parts.append((several, 1))
                alone[index] = False
        left = (*left, *(rows.losses[i] for i in np.flatnonzero(alone).tolist()))
    rest = _cuts_alone(left, level, share)
    if rest is None:
        return None
    parts.extend(rest)
    if not math.isclose(math.fsum(n * part.steps for part, n in parts), math.fsum(n for _, n in losses)):
        raise InternalError("some steps were lost between the parts of a composition")
    return tuple(parts)


def _cuts_alone(losses: Losses, level: float, share: float) -> Sequence[tuple[CutLoss | UncutLoss, int]] | None:
    """Each loss by itself, with e^share at most left out of a step; None where one of them cannot be cut."""
    parts = [(_cut(loss, level, share), n) for loss, n in losses]
    return None if any(part is None for part, _ in parts) else [(part, n) for part, n in parts if part is not None]


def _cut(loss: Loss, level: float, log_mass: float) -> CutLoss | UncutLoss | None:
    """Cut one loss; take it as it is where it has no far tail."""
    method: Callable[[float, float], CutLoss | None] | None = getattr(loss, "cut", None)
    if method is not None:
        return method(level, log_mass)
    return UncutLoss(loss) if uncut(loss) else None


def _fitting(losses: Losses, epsilon: float, level: float, log_delta: float) -> Cut | None:
    """The cuts at the first level from which on hardly any big loss falls short of epsilon; at the last where none is high enough."""
    parts = None
    for rise in RISES:
        parts = cuts(losses, rise * level, log_delta + SHARE - epsilon)
        if parts is None or log_short(parts, epsilon) <= log_delta + SHORT:
            break
    return parts


@np.errstate(all="ignore")  # an overflow ends as inf or NaN in a certificate, which is then of no use
def jump_to(losses: Losses, epsilon: float, log_delta: float) -> Jump | None:
    """Bounds on delta near `epsilon`, where log delta is at most about `log_delta`; None where they cannot be had."""
    core = _core(losses)
    if core is None or not 0.0 < epsilon < MAX_EPSILON:
        return None
    level = max(epsilon, SPREAD * core[1])
    about = max(min(log_delta, by_one(losses, epsilon)), LEAST)
    parts = _fitting(losses, epsilon, level, about)
    return None if parts is None else jump(parts, None, epsilon, level, about)


@np.errstate(all="ignore")
def epsilon_by_jump(losses: Losses, log_delta: float) -> tuple[float, float, float] | None:
    """(lower, upper, tilt): bounds on the epsilon > 0 of e^log_delta; None where no cut shows any."""
    core = _core(losses)
    if core is None:
        return None
    near, higher = about(losses, log_delta), 1.0
    low, high, tilt = 0.0, math.inf, math.nan
    tried = 0.0  # where a cut served last
    in_vain = 0  # cuts in a row that have shown nothing new
    for _ in range(ROUNDS):
        level = higher * max(near, SPREAD * core[1])
        try:
            parts = _fitting(losses, near, level, log_delta) if 0.0 < near < 0.5 * MAX_EPSILON else None
            jumped = None if parts is None else jump(parts, log_delta, near, level)
        except NotRepresentable:  # what has been shown by then holds
            if not math.isfinite(high):
                raise
            break
        if jumped is None and not tried:
            break
        if jumped is None:
            near = math.sqrt(near * tried)  # back towards there
            continue
        tried = near
        ends, width = jumped.epsilon(log_delta, near), high - low
        low = max(low, ends[0])
        if ends[1] < high:
            high, tilt = ends[1], jumped.small.t
        in_vain = 0 if high - low < GAINED * width or not math.isfinite(high) else in_vain + 1
        if high - low <= NARROW * high < math.inf or in_vain == VAIN:
            break
        if jumped.log_delta(0.0)[1] <= log_delta:
            return 0.0, 0.0, jumped.small.t
        higher *= 1.0 if abs(ends[0] - near) > NEAR * near else HIGHER
        near = ends[0] if ends[0] > 0.0 else _farther(jumped, log_delta, near)
    return (min(low, high), high, tilt) if math.isfinite(high) else None


def _farther(last: Jump, log_delta: float, near: float) -> float:
    """Return the epsilon to look at next, if no epsilon could be shown about `near`: along the tangent, which falls short of a convex
    curve's crossing."""
    now, before = (last.log_delta(share * near)[1] for share in (1.0, 0.8))
    slope = (before - now) / (0.2 * near)
    up = last.log_delta(near)[0] > log_delta
    along = near + (now - log_delta) / slope if slope > 0.0 and math.isfinite(now) else math.nan
    least, most = (FARTHER, FARTHEST) if up else (1.0 / FARTHEST, 1.0 / FARTHER)
    return min(max(along / near, least), most) * near if math.isfinite(along) else near * (FARTHER if up else 1.0 / FARTHER)


def by_one(losses: Losses, epsilon: float) -> float:
    """About the logarithm of what one big loss alone makes of delta."""
    rows, left = in_rows(losses)
    alone = [single_log_delta(loss, epsilon)[0] + math.log(n) for loss, n in left]  # type: ignore[arg-type]
    return max(alone if rows is None else [*alone, rows.log_delta(epsilon)])


def _single(losses: Losses, log_delta: float) -> float:
    """The epsilon that one big loss alone makes, about."""
    rows, left = in_rows(losses)
    largest = 0.0 if rows is None else rows.epsilon(log_delta)
    for loss, n in left:
        with suppress(NotRepresentable):
            largest = max(largest, single_epsilon(loss, log_delta - math.log(n))[0])  # type: ignore[arg-type]
    return largest


def about(losses: Losses, log_delta: float) -> float:
    """Return the epsilon at which to look for that of e^log_delta first; inf where nothing says so."""
    core, jumping = _core(losses), tuple((loss, n) for loss, n in losses if hasattr(loss, "cut"))
    if core is None:
        return math.inf
    near = max(_single(losses, log_delta), _central(core, log_delta))
    rest = _core(jumping) if len(jumping) < len(losses) else None
    if rest is None:
        return near
    most = math.fsum(n * float(loss.cgf(np.array([FLAT]))[0]) / FLAT for loss, n in losses if not hasattr(loss, "cut"))
    return min(near, most + max(_single(jumping, log_delta), _central(rest, log_delta)))


def _central(core: tuple[float, float], log_delta: float) -> float:
    """The epsilon that all but the rare losses make, by a normal law."""
    return core[0] + core[1] * _normal_score(log_delta - math.log(core[1]))


def _core(losses: Losses) -> tuple[float, float] | None:
    """Mean and standard deviation of the sum without what is rare; None where there is none."""
    rows, left = in_rows(losses)
    parts = _cuts_alone(left, EVERYTHING, RARE - math.log(math.fsum(n for _, n in losses)))
    if parts is None:
        return None
    moments = [(part.moments(), n) for part, n in parts] + ([] if rows is None else [(rows.core(RARE), 1)])
    mean, square = (math.fsum(n * values[i] for values, n in moments) for i in (0, 1))
    return (mean, math.sqrt(square)) if square > 0.0 else None


def _normal_score(log_mean: float) -> float:
    """About the x with log E[(Z - x)+] = `log_mean`, Z standard normal; 0 where that is large."""
    x = 1.0
    for _ in range(8):
        x = math.sqrt(max(-2.0 * (log_mean + 0.92 + 2.0 * math.log(max(x, 1.0))), 0.0))
    return x
