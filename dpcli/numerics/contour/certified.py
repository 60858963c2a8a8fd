"""Certified intervals for a composition in one direction: methods are tried in turn until one gives a narrow interval.

The accountant exact asks for epsilon at a delta (`epsilon_between`, then `other_direction` for the reverse direction) and for delta at an
epsilon (`log_delta_between`), and delta_curve.py for bounds near one epsilon (`intervals`). The losses are L = log dP/dQ of dominating
pairs, each with its number of steps. Every interval holds by its own certificate, so their intersection holds too.

Words. K is the CGF, K(z) = log E_P[e^{z L}] of the sum of all losses, and a *tilt* t > 0 the real part of a contour (integral.py). A loss
with a *far tail* has rare outcomes so large that they dominate K. If they can be divided from the others (cut.py), the loss has the
attribute `cut`. Losses are *mixed* if only some have it. A *capped* loss lacks a far tail of negligible mass. The *bulk* is the part of a
loss that alone hardly reaches epsilon, and the *unchanged* integrand keeps it. A method is *refused* (NotRepresentable) if it takes too
much work or does not suit. tilted.py lists the attributes by which losses tell which method suits them.

The methods are tried in this order:

0. Quadrature over outcomes (few_steps.py), for two or three sampled Gaussian steps.
1. The number of participations (little_noise.py), for losses with very little noise.
2. The method of one big jump (jump.py), for losses with a far tail that can be cut. The unchanged integrand is tried briefly before it.
   For a tiny delta, so is the sum over the number of large losses (grid/large_losses.py), whose interval is wider. Losses that are many
   atoms cannot be cut, and get this sum after the contours.
3. Contours: first of the unchanged integrand, then without the far upper tail of each loss, then without the bulk of the losses.
4. Contours with a small Gaussian loss added (smoothed.py).
5. Sums of rounded losses (rounded_sums.py), for not too many steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from dpcli.base.errors import InternalError, NotRepresentable
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.contour.epsilon_search import solve
from dpcli.numerics.contour.integral import (
    NEGLIGIBLE,
    Contour,
    MakeFactor,
    any_decays,
    build,
    factor_without_bulk,
    log_hockey,
    total_cgf,
    total_cgf_about,
    whole_factor,
)
from dpcli.numerics.contour.tilt_search import tilt_for
from dpcli.numerics.contour.tilted import Losses, uncut
from dpcli.numerics.work import allowance, remaining

if TYPE_CHECKING:
    from dpcli.numerics.contour.few_steps import FewSteps
    from dpcli.numerics.contour.little_noise import CountedLoss
    from dpcli.numerics.contour.rounded_sums import RoundedSums
    from dpcli.numerics.contour.smoothed import ContourPair
    from dpcli.numerics.grid.large_losses import LargeLosses

# Accuracy and speed: every interval holds whatever these are. They decide which methods are tried, and when an interval is narrow enough.
# No other method is tried after an interval of at most this width, relative for epsilon. The first two hold for log delta too, absolute.
NARROW = 2e-9
NARROW_AFTER_JUMP = 2e-7  # after one big jump, because the other methods would take much longer
NARROW_IF_TINY = 4e-6  # after the sum over the number of large losses
NARROW_IF_MIXED = 1e-3  # the same, if only some losses have a far tail, because the other direction needs work too
# Widths of bounds on log delta. NARROW_SMOOTHED is used for epsilon too, where it is relative.
NARROW_LOG_IF_TINY = 4e-3  # no other method is tried if the sum over the number of large losses is as narrow
NARROW_SMOOTHED = 3e-5  # smoothing and the sums of rounded losses end here; less would take long for whole curves
WIDE_LOG_DELTA = 1.0  # wider bounds are computed again, for another estimate of delta
# When a method is tried.
TINY_LOG_DELTA = -200.0  # log delta below which the sum over the number of large losses is tried before one big jump
# The same for trying that sum after one big jump, if only some losses have a far tail, or after contours, if none has.
SMALL_LOG_DELTA = -69.0
FEW_STEPS = 3  # most steps for which bounds by quadrature over outcomes are tried
MOST_SUMMED = 200  # most steps of sums of rounded losses
SUMMED_FIRST = 6  # most steps for which such sums are tried before smoothing, if delta is wanted
CLEARLY_LESS = 0.8  # a sum is made again for an epsilon below this share of the one that it was made for
MAX_PARTS = 8  # most different losses that are cut one by one for one big jump
MAX_CHERNOFF_RATIO = 1.35  # with many losses, the unchanged integrand is tried if Chernoff's epsilon over the estimate is no more
NEGLIGIBLE_TAIL = 0.01  # if the far tails have a smaller share of the tilted mass, one big jump is tried last
LOG_CAPPED_SHARE = -26.0  # logarithm of the mass that may be capped, relative to delta; upper bounds include it
# For bounds on the second direction's epsilon, after that of the first one.
CHERNOFF_EXCESS = 8.0  # Chernoff's bound on log delta seldom exceeds log delta by more
# Least and largest of the other tilts for Chernoff's bound, in units of t, and their number. A tiny delta raises the largest.
OTHER_TILTS = (0.1, 100.0, 10)
# If the first direction's contour has more than MANY_NODES nodes, a rough contour for the second direction is tried first. It may cut off
# parts of this logarithm, relative to delta, and suffices if delta is clearly smaller in the second direction.
ROUGH_NEGLIGIBLE, MANY_NODES = -7.0, 1000
MAX_WIDTH_RATIO = 2.0  # largest ratio of the widths of the two directions' intervals, if both are smoothed
# Smoothed pairs of contours.
MAX_SMOOTHED_PAIRS = 2  # most pairs for bounds on delta
MIN_SMOOTHED_NODES = 1000.0  # a refused pair with fewer is not tried with still fewer
NODE_GROWTH = 9.0  # factor by which the number of nodes grows from one pair to the next
SPENT_GROWTH = 1.5  # the next pair is taken to cost this many times more for each node; it is not made if less work is left
MAX_SMOOTHED_CGF = 1e10  # largest K(t) of a pair, because only twelve digits of K(t) are known
# Work: cells (numerics/work.py), or shares of the cells that are left.
FIRST_CELLS = 1.5e5  # cells for the unchanged integrand, if all losses have a far tail
FIRST_CELLS_IF_MIXED = 5e5  # the same, if only some losses have a far tail
FIRST_CELLS_PER_LOSS = 8e3  # the same for each loss, if there are more than MAX_PARTS
JUMP_CELLS = 1.4e7  # cells for one big jump
JUMP_CELLS_OF_MANY = 1.9e7  # the same, if there are more than MAX_PARTS losses
LARGE_LOSSES_CELLS = 1.6e7  # cells for the sum over the number of large losses
LARGE_LOSSES_CELLS_IF_MIXED = 9e6  # the same, if not all losses have far tails: both directions may need it
BEFORE_SUMS = 0.75  # share that the methods before the sums of rounded losses may take
ATTEMPT_SHARE = 0.4  # share that one contour may take, because the other contours and the other direction need work too
LIMITED_SHARE = 0.67  # share that a method with a limit in cells, or a contour for the other direction, may take
SMOOTHED_SHARE = 0.5  # share that one pair of smoothed contours may take
SHARE_IF_SMALL = 0.85  # share for the first direction at a delta below e^SMALL_LOG_DELTA
SHARE_IF_BOTH_MIXED = 0.5  # the same, if some losses have a far tail in both directions, which are equally hard then
# Two bounds contradict each other, which is a bug, beyond this distance, relative for epsilon and of the logarithms for delta. It far
# exceeds the rounding. Too small a value would refuse right numbers, and too large a one would overlook false ones.
CONTRADICTION = 1e-6
LEAST_CONTRADICTION = 1e-12  # absolute distance of epsilons that is never a contradiction


T = TypeVar("T")


class EpsilonBounds(NamedTuple):
    """Bounds on epsilon, and how the upper bound was found.

    tilt: the tilt of the method that gave the upper bound, or about the tilt of a contour there; NaN if the method has none.
    smoothed: whether a small Gaussian loss was added. nodes: the number of nodes of a contour without such a loss; 0 for other methods.
    """

    lower: float
    upper: float
    tilt: float
    smoothed: bool = False
    nodes: int = 0


UNKNOWN = EpsilonBounds(0.0, math.inf, math.nan)


class Interval(Protocol):
    """Bounds on log delta that hold at every epsilon, and are narrow near one."""

    def log_delta(self, epsilon: float) -> tuple[float, float]: ...


class Attempt(NamedTuple):
    """A way to a contour, as arguments of `build`.

    t: the tilt. factor: the integrand, with or without the bulk of the losses. log_lost: logarithm of the mass that `losses` lack.
    """

    losses: Losses
    t: float
    factor: MakeFactor
    log_lost: float = -math.inf

    def contour(self, log_delta: float, epsilon: float | None = None) -> Contour | None:
        """Return the contour for log delta(epsilon) near `log_delta`. If epsilon is None, the tilt determines it."""
        return build(self.losses, log_delta, self.t, self.factor, self.log_lost, epsilon)


def _little_noise(losses: Losses, log_delta: float) -> Iterator[CountedLoss]:
    """Yield the sums over the numbers of participations, if all losses have very little noise."""
    if all(getattr(loss, "nearly_noiseless", False) for loss, _ in losses):
        from dpcli.numerics.contour.little_noise import counted_losses

        yield from counted_losses(losses, log_delta)


def _few_steps(losses: Losses, log_delta: float) -> FewSteps | None:
    """Return the bounds by quadrature over outcomes, for two or three sampled Gaussian steps; None for other losses."""
    if sum(n for _, n in losses) > FEW_STEPS or not all(hasattr(loss, "sampled_step") for loss, _ in losses):
        return None
    from dpcli.numerics.contour.few_steps import few_steps

    return few_steps(losses, log_delta)


def _large_losses(losses: Losses, log_delta: float, epsilon: float | None = None) -> tuple[LargeLosses, float] | None:
    """Return the bounds by the number of large losses, and the epsilon near which they are narrow.

    The result is None if the method does not apply or takes too much work. epsilon: where the bounds are wanted; None if it is not known.
    """
    from dpcli.numerics.grid.large_losses import large_losses

    cells = LARGE_LOSSES_CELLS if _all_have_far_tails(losses) else LARGE_LOSSES_CELLS_IF_MIXED
    return _limited_to(cells, lambda: large_losses(losses, log_delta, epsilon))


def _rounded_sums(losses: Losses, log_delta: float, epsilon: float) -> RoundedSums | None:
    """Return the bounds by sums of rounded losses, narrow near `epsilon`; None if they do not apply or take too much work."""
    from dpcli.numerics.contour.rounded_sums import rounded_sums

    if sum(n for _, n in losses) > MOST_SUMMED:
        return None
    with suppress(NotRepresentable):
        return rounded_sums(losses, log_delta, epsilon)
    return None


def attempts(losses: Losses, log_delta: float) -> Iterator[Attempt]:
    """Yield ways to a contour that suits log delta(eps) near `log_delta`. The way that suffices most often comes first."""
    if not any_decays(losses):
        return
    t = tilt_for(losses, log_delta)
    nearly_noiseless = any(getattr(loss, "nearly_noiseless", False) for loss, _ in losses)
    if nearly_noiseless:  # the characteristic function of the whole loss decays late, so it would need many nodes
        yield Attempt(losses, t, factor_without_bulk)
    yield Attempt(losses, t, whole_factor)
    log_lost = log_delta + LOG_CAPPED_SHARE
    capped = capped_losses(losses, log_lost)
    if capped is not None:
        yield Attempt(capped, tilt_for(capped, log_delta), whole_factor, log_lost)
    if not nearly_noiseless:
        yield Attempt(losses, t, factor_without_bulk)


def capped_losses(losses: Losses, log_mass: float) -> Losses | None:
    """Return the losses without tails of total mass e^log_mass, or None if no loss has a tail that can be taken off.

    Every step gets the same share of that mass.
    """
    log_share = log_mass - math.log(sum(n for _, n in losses))
    capped = tuple((loss.capped(log_share) if hasattr(loss, "capped") else loss, n) for loss, n in losses)
    # `capped` returns the loss itself if it has no such tail.
    return None if all(new is old for (new, _), (old, _) in zip(capped, losses, strict=True)) else capped


def epsilon_between(losses: Losses, log_delta: float) -> EpsilonBounds | None:
    """Return bounds on the epsilon >= 0 at which delta is e^log_delta, or None if no method gives a bound.

    Raises NotRepresentable if there is no bound and one of the methods was refused.
    """
    with np.errstate(all="ignore"):  # an overflow turns into inf or NaN in a certificate, which is then of no use
        # Beyond MOST_SUMMED steps there will be no sums of rounded losses, so no work is kept for them.
        with allowance(math.inf, share=1.0 if sum(n for _, n in losses) > MOST_SUMMED else BEFORE_SUMS):
            bounds, refused = _epsilon_by_integrals(losses, log_delta)
        if not _is_narrow(bounds, NARROW_SMOOTHED):
            bounds = _epsilon_of_rounded_sums(losses, log_delta, bounds)
    if refused and not math.isfinite(bounds.upper):
        raise refused
    return bounds if math.isfinite(bounds.upper) else None


def _epsilon_by_integrals(losses: Losses, log_delta: float) -> tuple[EpsilonBounds, NotRepresentable | None]:
    """Return the bounds of methods 0 to 4 of the module's docstring, and the error of the last refused contour, if any."""
    bounds = UNKNOWN
    by_quadrature = _few_steps(losses, log_delta)
    if by_quadrature is not None:
        bounds = _intersection(bounds, EpsilonBounds(*by_quadrature.epsilon()))
        if _is_narrow(bounds, NARROW):
            return bounds, None
    for by_counts in _little_noise(losses, log_delta):
        bounds = _intersection(bounds, EpsilonBounds(*by_counts.epsilon(log_delta), math.nan))
        if _is_narrow(bounds, NARROW):
            return bounds, None
    jump_is_left, has_far_tail, mixed = cuttable(losses), _any_has_far_tail(losses), _is_mixed(losses)
    enough = NARROW_IF_MIXED if mixed else NARROW_IF_TINY  # after the sum over the number of large losses
    if jump_is_left:
        bounds = _epsilon_first(losses, log_delta, bounds)
    if has_far_tail and log_delta < TINY_LOG_DELTA and not _is_narrow(bounds, enough):
        bounds = _epsilon_of_large_losses(losses, log_delta, bounds)
        if _is_narrow(bounds, enough):
            return bounds, None
    if jump_is_left:
        if not _is_narrow(bounds, NARROW) and _far_tail_matters(losses, log_delta):
            bounds, jump_is_left = _epsilon_by_jump(losses, log_delta, bounds), False
        if _is_narrow(bounds, NARROW_AFTER_JUMP):
            return bounds, None
    if mixed and TINY_LOG_DELTA <= log_delta < SMALL_LOG_DELTA and not _is_narrow(bounds, enough):
        bounds = _epsilon_of_large_losses(losses, log_delta, bounds)
        if _is_narrow(bounds, enough):
            return bounds, None
    bounds, refused = _epsilon_by_attempts(losses, log_delta, bounds)
    if not has_far_tail and log_delta < SMALL_LOG_DELTA and not _is_narrow(bounds, enough):
        bounds = _epsilon_of_large_losses(losses, log_delta, bounds)
        if _is_narrow(bounds, enough):
            return bounds, None
    if not _is_narrow(bounds, NARROW):
        bounds, error = _epsilon_smoothed(losses, log_delta, bounds)
        refused = refused or error
    if jump_is_left and not _is_narrow(bounds, NARROW_AFTER_JUMP):
        bounds = _epsilon_by_jump(losses, log_delta, bounds)
    return bounds, refused


def _far_tail_matters(losses: Losses, log_delta: float) -> bool:
    """Return whether one big loss may decide epsilon: at the tilt for delta, the far tails hold much of the tilted mass.

    It is assumed for many losses, and if all losses have far tails, because only these can make a contour fail then.
    """
    if _all_have_far_tails(losses) or len(losses) > MAX_PARTS:
        return True
    with_tails = tuple((loss, n) for loss, n in losses if hasattr(loss, "cut"))
    without_tails = capped_losses(with_tails, log_delta + LOG_CAPPED_SHARE)
    if without_tails is None:
        return True
    at = np.array([tilt_for(losses, log_delta)])
    # The difference of the CGFs is about the share of the tilted mass in the tails. If it is NaN, the tails are taken to matter.
    return not float((total_cgf(with_tails, at) - total_cgf(without_tails, at))[0]) < NEGLIGIBLE_TAIL


def _epsilon_by_jump(losses: Losses, log_delta: float, bounds: EpsilonBounds) -> EpsilonBounds:
    """Return `bounds`, narrowed by the method of one big jump."""
    from dpcli.numerics.contour.jump_levels import epsilon_by_jump

    cells = JUMP_CELLS if len(losses) <= MAX_PARTS else JUMP_CELLS_OF_MANY
    by_jump = _limited_to(cells, lambda: epsilon_by_jump(losses, log_delta))
    return bounds if by_jump is None else _intersection(bounds, EpsilonBounds(*by_jump))


def _epsilon_of_large_losses(losses: Losses, log_delta: float, bounds: EpsilonBounds) -> EpsilonBounds:
    """Return `bounds`, narrowed by the sum over the number of large losses, unless it does not apply or takes too much work."""
    with suppress(NotRepresentable):
        result = _large_losses(losses, log_delta)
        if result is not None:
            large, near = result
            return _intersection(bounds, EpsilonBounds(*large.epsilon(log_delta, near), large.t))
    return bounds


def _epsilon_by_attempts(losses: Losses, log_delta: float, bounds: EpsilonBounds) -> tuple[EpsilonBounds, NotRepresentable | None]:
    """Return `bounds`, narrowed by the contours in turn, and the error of the last refused one, if any.

    A refusal does not invalidate the bounds that other contours gave. The outer `try` is for a refusal before a contour is built: the
    choice of its tilt takes work too.
    """
    refused = None
    try:
        for attempt in attempts(losses, log_delta):
            try:
                with allowance(math.inf, share=ATTEMPT_SHARE):
                    bounds = _epsilon_near(attempt, log_delta, bounds)
            except NotRepresentable as error:
                refused = error
            if _is_narrow(bounds, NARROW):
                break
    except NotRepresentable as error:
        refused = error
    return bounds, refused


def _epsilon_of_rounded_sums(losses: Losses, log_delta: float, bounds: EpsilonBounds) -> EpsilonBounds:
    """Return `bounds`, narrowed by sums of rounded losses. Without an upper end, Chernoff's bound tells where to look."""
    with suppress(NotRepresentable):
        near = bounds.upper
        if not math.isfinite(near):
            t = np.array([tilt_for(losses, log_delta)])
            near = float(((total_cgf(losses, t) - log_delta + log_hockey(t)) / t)[0])
        for _ in range(2):  # the grid is finer if it is made for a better epsilon
            sums = _rounded_sums(losses, log_delta, near)
            if sums is None:
                break
            bounds = _intersection(bounds, EpsilonBounds(*sums.epsilon(log_delta), math.nan))
            if not 0.0 < bounds.upper < CLEARLY_LESS * near:
                break
            near = bounds.upper
    return bounds


def _epsilon_smoothed(losses: Losses, log_delta: float, bounds: EpsilonBounds) -> tuple[EpsilonBounds, NotRepresentable | None]:
    """Return `bounds`, narrowed by contours with a small Gaussian loss as far as the work allows, and the error that ended it, if any."""
    epsilons: list[float] = [bounds.upper] if math.isfinite(bounds.upper) else []  # grows while `smoothed_pairs` reads it
    try:
        for pair in smoothed_pairs(losses, log_delta, epsilons):
            bounds = _intersection(bounds, EpsilonBounds(*solve(pair, log_delta), pair.t, smoothed=True))
            if _is_narrow(bounds, NARROW):
                break
            if math.isfinite(bounds.upper):
                epsilons.append(bounds.upper)
    except NotRepresentable as error:
        return bounds, error
    return bounds, None


def smoothed_pairs(losses: Losses, log_delta: float, epsilons: Sequence[float], tilt: float | None = None) -> Iterator[ContourPair]:
    """Yield pairs of contours for log delta(eps) near `log_delta`, each with more nodes than the one before, as long as the work allows.

    epsilons: those found so far; the caller may append to it. The next pair is made for the last of them, or for the epsilon of the saddle
        point if there is none.
    tilt: the tilt of the pairs; None for one near the saddle point.
    """
    from dpcli.numerics.contour.smoothed import FEW, MANY, best_contour_pair

    log_lost = log_delta + LOG_CAPPED_SHARE
    capped = capped_losses(losses, log_lost)
    losses, log_lost = (losses, -math.inf) if capped is None else (capped, log_lost)
    t = tilt_for(losses, log_delta) if tilt is None else tilt
    # K is convex with K(0) <= 0, so a tilt that is smaller by this factor has a K of at most MAX_SMOOTHED_CGF.
    t = min(t, MAX_SMOOTHED_CGF * t / max(float(total_cgf(losses, np.array([t]))[0]), MAX_SMOOTHED_CGF))
    nodes, needed_cells = FEW, 0.0  # FEW: nodes of the first pair; MANY: most nodes of any pair
    while nodes <= MANY and not needed_cells > remaining():
        cells_before = remaining()
        try:
            with allowance(math.inf, share=SMOOTHED_SHARE):
                pair = best_contour_pair(losses, log_delta, t, epsilons[-1] if epsilons else None, nodes, log_lost)
        except NotRepresentable:
            if nodes > FEW or nodes < MIN_SMOOTHED_NODES:
                raise
            nodes /= NODE_GROWTH  # a pair with few nodes is better than none
            continue
        if pair is None:
            break
        yield pair  # the caller's own work on the pair is part of `spent`
        spent = cells_before - remaining() if math.isfinite(cells_before) else 0.0
        nodes, needed_cells = NODE_GROWTH * nodes, SPENT_GROWTH * NODE_GROWTH * spent


def _epsilon_first(losses: Losses, log_delta: float, bounds: EpsilonBounds) -> EpsilonBounds:
    """Return `bounds`, narrowed by the unchanged integrand.

    This may take little work only. With many losses it is tried only if Chernoff's bound suggests that it will suffice. If all losses have
    far tails, the capped losses are not tried here.
    """
    if len(losses) > MAX_PARTS:
        narrowed = _limited_to(FIRST_CELLS_PER_LOSS * len(losses), lambda: _epsilon_of_many(losses, log_delta, bounds))
    elif not _all_have_far_tails(losses):
        narrowed = _limited_to(FIRST_CELLS_IF_MIXED, lambda: _epsilon_with_bulk(losses, log_delta, bounds))
    else:
        narrowed = _limited_to(FIRST_CELLS, lambda: _epsilon_near(_unchanged(losses, log_delta), log_delta, bounds))
    return narrowed or bounds


def _unchanged(losses: Losses, log_delta: float) -> Attempt:
    """Return the attempt with the unchanged integrand, at the tilt for log_delta."""
    return Attempt(losses, tilt_for(losses, log_delta), whole_factor)


def _epsilon_with_bulk(losses: Losses, log_delta: float, bounds: EpsilonBounds) -> EpsilonBounds:
    """Return `bounds`, narrowed by the contours that keep the bulk of the losses: all up to the first one without it."""
    for attempt in attempts(losses, log_delta):
        if attempt.factor is not whole_factor:
            break
        bounds = _epsilon_near(attempt, log_delta, bounds)
        if _is_narrow(bounds, NARROW):
            break
    return bounds


def _epsilon_of_many(losses: Losses, log_delta: float, bounds: EpsilonBounds) -> EpsilonBounds:
    """Return `bounds`, narrowed by the unchanged integrand if Chernoff's epsilon is close enough to the estimate."""
    from dpcli.numerics.contour.jump_levels import first_estimate

    t = tilt_for(losses, log_delta)
    at = np.array([t])
    chernoff = float((total_cgf(losses, at) - log_delta + log_hockey(at))[0]) / t
    if chernoff > MAX_CHERNOFF_RATIO * first_estimate(losses, log_delta):
        return bounds
    return _epsilon_near(Attempt(losses, t, whole_factor), log_delta, bounds)


def _limited_to(cells: float, compute: Callable[[], T]) -> T | None:
    """Return the result of `compute`, or None if it takes more than `cells`, or LIMITED_SHARE of the work left."""
    try:
        with allowance(cells, share=LIMITED_SHARE):
            return compute()
    except NotRepresentable:
        return None


def _epsilon_near(attempt: Attempt, log_delta: float, bounds: EpsilonBounds) -> EpsilonBounds:
    """Return `bounds`, narrowed by one way to a contour.

    The contour is built twice: first for the epsilon of the saddle point, then for the upper bound that the first one gave, because away
    from the saddle point more nodes may be needed.
    """
    for at_upper in (False, True):
        if at_upper and not bounds.lower < bounds.upper < math.inf:
            continue
        try:
            contour = attempt.contour(log_delta, bounds.upper if at_upper else None)
        except NotRepresentable:  # the bounds of the first contour hold nevertheless
            if not at_upper:
                raise
            break
        if contour is None:
            break
        bounds = _intersection(bounds, EpsilonBounds(*solve(contour, log_delta), contour.t, nodes=len(contour.y)))
        if _is_narrow(bounds, NARROW):
            break
    return bounds


def _intersection(bounds: EpsilonBounds, other: EpsilonBounds) -> EpsilonBounds:
    """Return the intersection of two intervals, with the tilt of the smaller upper end.

    Raises InternalError if they have no point in common, beyond rounding: one of two certificates is false then.
    """
    smaller = other if other.upper < bounds.upper else bounds
    lower, upper = max(bounds.lower, other.lower), max(smaller.upper, 0.0)
    if lower > upper * (1.0 + CONTRADICTION) + LEAST_CONTRADICTION:
        raise InternalError(f"two certified intervals contradict each other: epsilon >= {lower!r} and epsilon <= {upper!r}")
    return smaller._replace(lower=min(lower, upper), upper=upper)


def _is_narrow(bounds: EpsilonBounds, width: float) -> bool:
    """Return whether the interval is finite and its relative width is at most `width`."""
    return bounds.upper - bounds.lower <= width * bounds.upper < math.inf


def intervals(losses: Losses, log_estimate: float, epsilon: float) -> Iterator[tuple[Interval, float]]:
    """Yield bounds on log delta around `epsilon`, by the methods of `epsilon_between` in turn, each with a width.

    log_estimate: about log delta(epsilon). If the bounds at `epsilon` are at most that width apart, the next method would not help.
    """
    by_quadrature = _few_steps(losses, log_estimate)
    if by_quadrature is not None:
        yield by_quadrature, NARROW
    yield from ((by_counts, NARROW) for by_counts in _little_noise(losses, log_estimate))
    if cuttable(losses):
        cells = FIRST_CELLS if _all_have_far_tails(losses) else FIRST_CELLS_IF_MIXED
        first = _limited_to(cells, lambda: _unchanged(losses, log_estimate).contour(log_estimate, epsilon))
        if first is not None:
            yield first, NARROW
        yield from _large(losses, log_estimate, epsilon, TINY_LOG_DELTA)
        from dpcli.numerics.contour.jump_levels import jump_to

        by_jump = _limited_to(JUMP_CELLS, lambda: jump_to(losses, epsilon, log_estimate))
        if by_jump is not None:
            yield by_jump, NARROW_AFTER_JUMP
    for attempt in attempts(losses, log_estimate):
        for at in (epsilon, None):  # away from the saddle point the integrand may not decay soon enough
            contour = attempt.contour(log_estimate, at)
            if contour is not None:
                yield contour, NARROW
    if not _any_has_far_tail(losses):
        yield from _large(losses, log_estimate, epsilon, SMALL_LOG_DELTA)
    sums_first = sum(n for _, n in losses) <= SUMMED_FIRST
    if sums_first:
        yield from _rounded(losses, log_estimate, epsilon)
    yield from ((pair, NARROW_SMOOTHED) for pair in islice(smoothed_pairs(losses, log_estimate, (epsilon,)), MAX_SMOOTHED_PAIRS))
    if not sums_first:
        yield from _rounded(losses, log_estimate, epsilon)


def _large(losses: Losses, log_estimate: float, epsilon: float, most: float) -> Iterator[tuple[Interval, float]]:
    """Yield the bounds by the number of large losses, with their width, if they apply and `log_estimate` is below `most`."""
    result = _large_losses(losses, log_estimate, epsilon) if log_estimate < most else None
    if result is not None:
        large, _ = result
        yield large, NARROW_LOG_IF_TINY


def _rounded(losses: Losses, log_estimate: float, epsilon: float) -> Iterator[tuple[Interval, float]]:
    """Yield the bounds by sums of rounded losses, if there are any, with their width."""
    sums = _rounded_sums(losses, log_estimate, epsilon)
    if sums is not None:
        yield sums, NARROW_SMOOTHED


def _any_has_far_tail(losses: Losses) -> bool:
    """Return whether some loss has a far tail that can be cut."""
    return any(hasattr(loss, "cut") for loss, _ in losses)


def _all_have_far_tails(losses: Losses) -> bool:
    """Return whether every loss has a far tail that can be cut."""
    return all(hasattr(loss, "cut") for loss, _ in losses)


def _is_mixed(losses: Losses) -> bool:
    """Return whether only some of the losses have a far tail that can be cut."""
    return _any_has_far_tail(losses) and not _all_have_far_tails(losses)


def cuttable(losses: Losses) -> bool:
    """Return whether the method of one big jump applies: some loss can be cut, every other one has no far tail, and they are not too many.

    Of many losses, all but MAX_PARTS must be rows of one table (numerics/mixture.py), which are cut together.
    """
    if not _any_has_far_tail(losses):
        return False
    if not all(hasattr(loss, "cut") or uncut(loss) for loss, _ in losses):
        return False
    if len(losses) > MAX_PARTS:
        from dpcli.numerics.contour.jump_levels import in_rows

        _, cut_one_by_one = in_rows(losses)
        return len(cut_one_by_one) <= MAX_PARTS
    return True


def log_delta_between(losses: Losses, epsilon: float, log_estimate: float) -> tuple[float, float]:
    """Return bounds on log delta(epsilon), which are (-inf, inf) if no method gives any.

    The contours are for log delta near `log_estimate`. If their bounds are vague, contours for the log delta of one big loss alone are
    tried too.
    """
    low, high = _log_delta_near(losses, epsilon, log_estimate)
    if not high - low <= WIDE_LOG_DELTA and cuttable(losses):
        from dpcli.numerics.contour.jump_levels import LEAST_LOG_DELTA, log_delta_of_one

        with np.errstate(all="ignore"):
            estimate_of_one = max(min(log_delta_of_one(losses, epsilon), log_estimate), LEAST_LOG_DELTA)
        other_low, other_high = _log_delta_near(losses, epsilon, estimate_of_one)
        low, high = max(low, other_low), min(high, other_high)
    return low, high


def _log_delta_near(losses: Losses, epsilon: float, log_estimate: float) -> tuple[float, float]:
    """Return bounds on log delta(epsilon) by contours for log delta near `log_estimate`.

    Raises InternalError if two of them contradict each other.
    """
    low, high = -math.inf, math.inf
    with np.errstate(all="ignore"):
        try:
            for interval, enough in intervals(losses, log_estimate, epsilon):
                lower, upper = interval.log_delta(epsilon)
                low, high = max(low, lower), min(high, upper)
                if low > high + CONTRADICTION:
                    raise InternalError(
                        f"two certified intervals contradict each other at epsilon {epsilon!r}: "
                        f"log delta >= {low!r} and log delta <= {high!r}"
                    )
                if high - low <= enough:
                    break
        except NotRepresentable:  # the bounds that were computed before hold nevertheless
            if low == -math.inf:
                raise
    return low, high


def share_of_first(first: Losses, others: Sequence[Losses], log_delta: float) -> float:
    """Return the share of the work that the first direction may use.

    At small deltas the first direction could take all work, so some is kept for the second one. If only some losses have a far tail, in
    both directions, both are equally hard.
    """
    if log_delta >= SMALL_LOG_DELTA or not others:
        return 1.0
    return SHARE_IF_BOTH_MIXED if all(map(_is_mixed, (first, *others))) else SHARE_IF_SMALL


def other_direction(losses: Losses, first: EpsilonBounds, log_delta: float) -> EpsilonBounds | None:
    """Return bounds on the epsilon at which delta is e^log_delta in this direction, after `first` in the other direction.

    The result is None if this direction's delta at the upper bound of `first` is proved to be at most e^log_delta, so that its epsilon is
    not the larger one. It is UNKNOWN if neither is proved quickly.

    Chernoff's bound proves it if this direction is much better. Otherwise a contour at the tilt of `first` may prove it. If the two
    directions are nearly equal, the same contour bounds this direction's epsilon.
    """
    bounds = UNKNOWN
    with np.errstate(all="ignore"):
        has_tilt = math.isfinite(first.tilt)
        t = first.tilt if has_tilt else 1.0 / max(first.upper, 1e-6)  # a guess; Chernoff's bound holds at any tilt
        far, cumulants = total_cgf_about(losses, t)  # a contour at this tilt needs them too
        chernoff = _log_chernoff(np.append(t, far), cumulants, first.upper)
        last_is_best = _log_chernoff(far[-1:], cumulants[-1:], first.upper) <= chernoff  # so a larger tilt may be better
        if last_is_best or chernoff > log_delta + CHERNOFF_EXCESS or not has_tilt:
            least, largest, number = OTHER_TILTS
            other_tilts = t * np.geomspace(least, max(largest, -10.0 * log_delta), number)
            chernoff = min(chernoff, _log_chernoff(other_tilts, total_cgf(losses, other_tilts), first.upper))
        if chernoff <= log_delta:
            return None
        if not has_tilt:
            return UNKNOWN
        # If a smoothed pair was needed in the first direction, the other methods would fail in this one too, so no work is kept for them.
        if first.smoothed:
            share, widest = 1.0, max(NARROW, MAX_WIDTH_RATIO * (1.0 - first.lower / first.upper))
        else:
            share, widest = LIMITED_SHARE, NARROW
        with suppress(NotRepresentable), allowance(math.inf, share=share):
            for curve in _curves_like(losses, first, log_delta):
                _, log_delta_upper = curve.log_delta(first.upper)
                if log_delta_upper <= log_delta:
                    return None
                bounds = _intersection(bounds, EpsilonBounds(*solve(curve, log_delta), curve.t, first.smoothed))
                if _is_narrow(bounds, NARROW):
                    break
    return bounds if _is_narrow(bounds, widest) else UNKNOWN


def _log_chernoff(z: Array, cumulants: Array, epsilon: float) -> float:
    """Return the least of Chernoff's bounds on log delta(epsilon) at the tilts z. A bound that is NaN is not used."""
    return float(np.nanmin(np.append(cumulants - z * epsilon + log_hockey(z), math.inf)))  # inf, in case all are NaN


def _curves_like(losses: Losses, first: EpsilonBounds, log_delta: float) -> Iterator[Contour | ContourPair]:
    """Yield contours of the kind that gave `first`, for its epsilon and at its tilt: a rough one first if that saves much work."""
    if first.smoothed:
        yield from smoothed_pairs(losses, log_delta, (first.upper,), first.tilt)
        return
    for negligible in (ROUGH_NEGLIGIBLE, NEGLIGIBLE) if first.nodes > MANY_NODES else (NEGLIGIBLE,):
        contour = build(losses, log_delta, first.tilt, epsilon=first.upper, negligible=negligible)
        if contour is None:
            return
        yield contour
