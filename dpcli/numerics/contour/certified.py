"""Certified intervals for a composition in one direction: several contours in turn, until one is narrow enough.

Every contour's interval holds by its own certificate, so their intersection does. In turn: the integrand as it is; with the far
upper tail of each loss taken off; without the bulk of the losses that never reaches epsilon. Losses with a tail that can be cut off
are first looked at for one big jump (jump.py), unless the integrand as it is serves at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from dpcli.base.errors import NotRepresentable
from dpcli.numerics.arrays import np
from dpcli.numerics.contour.integral import Contour, Method, beyond, build, log_hockey, solve, tilt_for, total_cgf, undivided
from dpcli.numerics.contour.tilted import Losses, uncut
from dpcli.numerics.work import allowance, remaining

if TYPE_CHECKING:
    from dpcli.numerics.contour.apart import CountedLoss
    from dpcli.numerics.contour.smoothed import Smoothed

NARROW = 2e-9  # relative width at which no other contour is tried
ENOUGH = 2e-7  # the same, where the others would take much longer for less
LOOKS = 2  # with more and more nodes, where delta is asked for
LOOSE = 3e-5  # width of bounds on log delta, where closer ones take ever more nodes: whole curves are asked for
VAGUE = 1.0  # width of bounds on log delta that say next to nothing
MAX_PARTS = 8  # that are looked at for one big jump one by one
QUICK, JUMP = 1.5e5, 1.4e7  # cells for the integrand as it is, where one big jump may serve better, and for that
BESIDE = 5e5  # the former, where some losses have no far tail
ROW, JUMP_OF_MANY = 8e3, 1.9e7  # the same where parts are many: the former for each
CLIFF = 1.35  # Chernoff's epsilon over where epsilon is looked for, beyond which the integrand as it is would not serve many parts
FEWEST = 1000.0  # nodes of the coarsest look
STEEPEST = 1e10  # K(t), of which twelve digits are known, at most
MORE = 9.0  # times the nodes of one look, of the next
SHARE = -26.0  # logarithm of what may be capped, relative to delta


Ends = tuple[float, float, float]
T = TypeVar("T")


class Interval(Protocol):
    """Bounds on log delta that hold at every epsilon, and are narrow near one."""

    def log_delta(self, epsilon: float) -> tuple[float, float]: ...


class Attempt(NamedTuple):
    """Arguments of `build`."""

    losses: Losses
    t: float
    factor: Method
    log_lost: float = -math.inf

    def contour(self, log_delta: float, epsilon: float | None = None) -> Contour | None:
        """The contour for log delta(epsilon) near `log_delta`, at any epsilon where none is given."""
        return build(self.losses, log_delta, self.t, self.factor, self.log_lost, epsilon)


def _counts_apart(losses: Losses, log_delta: float) -> Iterator[CountedLoss]:
    """Sums over the numbers of participations, where there is hardly any noise."""
    if all(getattr(loss, "loud", False) for loss, _ in losses):
        from dpcli.numerics.contour.apart import counts_apart

        yield from counts_apart(losses, log_delta)


def attempts(losses: Losses, log_delta: float) -> Iterator[Attempt]:
    """Ways to a contour that suits log delta(eps) near `log_delta`, most often enough first."""
    t = tilt_for(losses, log_delta)
    loud = any(getattr(loss, "loud", False) for loss, _ in losses)
    if loud:  # the whole decays late, and takes many nodes
        yield Attempt(losses, t, beyond)
    yield Attempt(losses, t, undivided)
    capped = capped_losses(losses, log_delta + SHARE)
    if capped is not None:
        yield Attempt(capped, tilt_for(capped, log_delta), undivided, log_delta + SHARE)
    if not loud:
        yield Attempt(losses, t, beyond)


def capped_losses(losses: Losses, log_mass: float) -> Losses | None:
    """The losses with tails of e^log_mass in all taken off; None where none of them has a tail to take off."""
    counts = sum(n for _, n in losses)
    share = log_mass - math.log(counts)
    methods = [(loss, getattr(loss, "capped", None), n) for loss, n in losses]
    if not any(method for _, method, _ in methods):
        return None
    return tuple((loss if method is None else method(share), n) for loss, method, n in methods)


def epsilon_between(losses: Losses, log_delta: float) -> tuple[float, float, float] | None:
    """(lower, upper, tilt): bounds on the epsilon >= 0 of e^log_delta; None where no contour serves."""
    ends = 0.0, math.inf, math.nan
    with np.errstate(all="ignore"):  # an overflow ends as inf or NaN in a certificate, which is then of no use
        for counts in _counts_apart(losses, log_delta):
            ends = _within(ends, (*counts.epsilon(log_delta), math.nan))
            if _settled(ends, NARROW):
                return ends
        if cuttable(losses):
            ends = _epsilon_first(losses, log_delta, ends)
            if not _settled(ends, NARROW):
                from dpcli.numerics.contour.jumped import epsilon_by_jump

                jump = JUMP if len(losses) <= MAX_PARTS else JUMP_OF_MANY
                ends = _within(ends, _within_work(jump, lambda: epsilon_by_jump(losses, log_delta)))
            if _settled(ends, ENOUGH):
                return ends
        ends, refused = _epsilon_by_attempts(losses, log_delta, ends)
        if not _settled(ends, NARROW):
            ends, error = _epsilon_smoothed(losses, log_delta, ends)
            refused = refused or error
    if refused and not math.isfinite(ends[1]):
        raise refused
    return ends if math.isfinite(ends[1]) else None


def _epsilon_by_attempts(losses: Losses, log_delta: float, ends: Ends) -> tuple[Ends, NotRepresentable | None]:
    """`ends`, made narrower by the attempts in turn, and why one was refused: what has been shown by then holds."""
    refused = None
    try:
        for attempt in attempts(losses, log_delta):
            try:
                with allowance(math.inf, share=0.4):  # others, and the other direction, come after this one
                    ends = _epsilon_near(attempt, log_delta, ends)
            except NotRepresentable as error:
                refused = error
            if _settled(ends, NARROW):
                break
    except NotRepresentable as error:
        refused = error
    return ends, refused


def _epsilon_smoothed(losses: Losses, log_delta: float, ends: Ends) -> tuple[Ends, NotRepresentable | None]:
    """`ends`, made narrower with a Gaussian that costs next to nothing, as closely as the work allows; and why no more than that."""
    places: list[float] = [ends[1]] if math.isfinite(ends[1]) else []
    try:
        for pair in smoothed_pairs(losses, log_delta, places):
            ends = _within(ends, (*solve(pair, log_delta), pair.t))
            if _settled(ends, NARROW):
                break
            if math.isfinite(ends[1]):
                places.append(ends[1])
    except NotRepresentable as error:
        return ends, error
    return ends, None


def smoothed_pairs(losses: Losses, log_delta: float, places: Sequence[float]) -> Iterator[Smoothed]:
    """Pairs of contours for log delta(eps) near `log_delta`, each with more nodes than the one before, as long as the work allows.

    places: epsilons to look near, of which the last one counts; that of the saddle point where there is none.
    """
    from dpcli.numerics.contour.smoothed import FEW, MANY, best_smoothed

    capped = capped_losses(losses, log_delta + SHARE)
    losses, log_lost = (losses, -math.inf) if capped is None else (capped, log_delta + SHARE)
    t, nodes, least = tilt_for(losses, log_delta), FEW, 0.0
    t = min(t, STEEPEST * t / max(float(total_cgf(losses, np.array([t]))[0]), STEEPEST))
    while nodes <= MANY and not least > remaining():
        start = remaining()
        try:
            with allowance(math.inf, share=0.5):
                pair = best_smoothed(losses, log_delta, t, places[-1] if places else None, nodes, log_lost)
        except NotRepresentable:
            if nodes > FEW or nodes < FEWEST:
                raise
            nodes /= MORE  # a coarse look is better than none
            continue
        if pair is None:
            break
        yield pair
        spent = start - remaining() if math.isfinite(start) else 0.0
        nodes, least = MORE * nodes, 1.5 * MORE * spent


def _epsilon_first(losses: Losses, log_delta: float, ends: Ends) -> Ends:
    """`ends`, made narrower by the integrand as it is: with little work for a few parts, and for many where Chernoff's bound shows that
    it will do."""
    if len(losses) <= MAX_PARTS:
        if not all(hasattr(loss, "cut") for loss, _ in losses):
            return _within_work(BESIDE, lambda: _epsilon_with_bulk(losses, log_delta, ends)) or ends
        return (
            _within_work(QUICK, lambda: _epsilon_near(Attempt(losses, tilt_for(losses, log_delta), undivided), log_delta, ends))
            or ends
        )
    return _within_work(ROW * len(losses), lambda: _epsilon_of_many(losses, log_delta, ends)) or ends


def _epsilon_with_bulk(losses: Losses, log_delta: float, ends: Ends) -> Ends:
    """Return `ends`, made narrower by the attempts that keep the bulk of the losses."""
    for attempt in attempts(losses, log_delta):
        if attempt.factor is not undivided:
            break
        ends = _epsilon_near(attempt, log_delta, ends)
        if _settled(ends, NARROW):
            break
    return ends


def _epsilon_of_many(losses: Losses, log_delta: float, ends: Ends) -> Ends:
    from dpcli.numerics.contour.jumped import about

    t = tilt_for(losses, log_delta)
    at = np.array([t])
    chernoff = float((total_cgf(losses, at) - log_delta + log_hockey(at))[0]) / t
    return ends if chernoff > CLIFF * about(losses, log_delta) else _epsilon_near(Attempt(losses, t, undivided), log_delta, ends)


def _within_work(cells: float, compute: Callable[[], T]) -> T | None:
    """Return what `compute` returns with so much work, or two thirds of what is left; None where it takes more."""
    try:
        with allowance(cells, share=0.67):
            return compute()
    except NotRepresentable:
        return None


def _epsilon_near(attempt: Attempt, log_delta: float, ends: Ends) -> Ends:
    """`ends`, made narrower by one way to a contour. The second time it is known where to look; beside the saddle point more nodes
    may be needed."""
    for again in (False, True):
        if again and not ends[0] < ends[1] < math.inf:
            continue
        try:
            contour = attempt.contour(log_delta, ends[1] if again else None)
        except NotRepresentable:  # what the first time has shown holds
            if not again:
                raise
            break
        if contour is None:
            break
        ends = _within(ends, (*solve(contour, log_delta), contour.t))
        if _settled(ends, NARROW):
            break
    return ends


def _within(ends: Ends, other: Ends | None) -> Ends:
    """The intersection of two intervals, with the tilt of the smaller upper end."""
    if other is None:
        return ends
    high, tilt = (max(other[1], 0.0), other[2]) if other[1] < ends[1] else ends[1:]
    return min(max(ends[0], other[0]), high), high, tilt


def _settled(ends: Ends, width: float) -> bool:
    return ends[1] - ends[0] <= width * ends[1] < math.inf


def intervals(losses: Losses, near: float, epsilon: float) -> Iterator[tuple[Interval, float]]:
    """Bounds on log delta around `epsilon`, where it is about `near`, in turn as with `epsilon_between`; and for each the width from
    which on the next would be in vain."""
    yield from ((counts, NARROW) for counts in _counts_apart(losses, near))
    if cuttable(losses):
        cells = QUICK if all(hasattr(loss, "cut") for loss, _ in losses) else BESIDE
        first = _within_work(cells, lambda: Attempt(losses, tilt_for(losses, near), undivided).contour(near, epsilon))
        if first is not None:
            yield first, NARROW
        from dpcli.numerics.contour.jumped import jump_to

        jumped = _within_work(JUMP, lambda: jump_to(losses, epsilon, near))
        if jumped is not None:
            yield jumped, ENOUGH
    for attempt in attempts(losses, near):
        for at in (epsilon, None):  # beside the saddle point the integrand may not decay soon enough
            contour = attempt.contour(near, at)
            if contour is not None:
                yield contour, NARROW
    yield from ((pair, LOOSE) for pair in islice(smoothed_pairs(losses, near, (epsilon,)), LOOKS))


def cuttable(losses: Losses) -> bool:
    """Return whether one big jump may be looked for at all: where every loss can be divided, most of many as rows."""
    if not any(hasattr(loss, "cut") for loss, _ in losses):
        return False
    if not all(hasattr(loss, "cut") or uncut(loss) for loss, _ in losses):
        return False
    if len(losses) > MAX_PARTS:
        from dpcli.numerics.contour.jumped import in_rows

        return len(in_rows(losses)[1]) <= MAX_PARTS
    return True


def log_delta_between(losses: Losses, epsilon: float, near: float) -> tuple[float, float]:
    """Bounds on log delta(epsilon), by contours that suit log delta near `near`, or, where those say next to nothing, near what one big
    loss alone makes of it; (-inf, inf) where none serves."""
    low, high = _log_delta_near(losses, epsilon, near)
    if not high - low <= VAGUE and cuttable(losses):
        from dpcli.numerics.contour.jumped import LEAST, by_one

        with np.errstate(all="ignore"):
            again = _log_delta_near(losses, epsilon, max(min(by_one(losses, epsilon), near), LEAST))
        low, high = max(low, again[0]), min(high, again[1])
    return low, high


def _log_delta_near(losses: Losses, epsilon: float, near: float) -> tuple[float, float]:
    low, high = -math.inf, math.inf
    with np.errstate(all="ignore"):
        try:
            for interval, enough in intervals(losses, near, epsilon):
                ends = interval.log_delta(epsilon)
                low, high = max(low, ends[0]), min(high, ends[1])
                if high - low <= enough:
                    break
        except NotRepresentable:  # what has been shown by then holds
            if low == -math.inf:
                raise
    return low, high


def covers(losses: Losses, epsilon: float, t: float, log_delta: float) -> bool:
    """Return whether delta(epsilon) is at most e^log_delta in this direction too: by Chernoff's bound, which shows it of a direction that
    is far from the worse one, or by one value on a contour at the tilt of the other.
    """
    with np.errstate(all="ignore"):
        z = np.geomspace(0.1, 100.0, 10) * (t if math.isfinite(t) else 1.0 / max(epsilon, 1e-6))
        bounds = total_cgf(losses, z) - z * epsilon + log_hockey(z)  # NaN where a CGF is no number: no bound
        if float(np.nanmin(np.append(bounds, math.inf))) <= log_delta:
            return True
        contour = _within_work(math.inf, lambda: build(losses, log_delta, t)) if math.isfinite(t) else None
        return contour is not None and contour.log_delta(epsilon)[1] <= log_delta
