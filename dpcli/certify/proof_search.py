"""The search for the plan of a proof: where the contour lies, how far and how densely it is sampled, and on which panels.

A certificate proves that delta(epsilon) of a pipeline is at most, or above, a number; checker.py verifies it in ball arithmetic along a
*plan* that is part of the certificate. certificate.py calls `find_plan` with the *parts*, the dominating pairs of the mechanisms as JSON
objects, and with the bound to prove. It returns the cheapest plan that it finds, or raises NoPlan. The search works in floating point and
is not trusted: a bad plan proves nothing, and no plan proves a false claim. Numbered items are those of the header of checker.py. No code
is shared with the accountants, so that their mistakes are not repeated here.

M(z) = E_P[e^{z L}] is the moment of the loss L of all runs. Chernoff's bound (item 1) is delta(epsilon) <= C(s) at an order s >= 0. The
contour (item 2) is the line z = t + i y. A sum T over the *frequencies* y = k h on this line is delta up to two errors. One comes from the
distance h, and is bounded by Chernoff's bounds at an order s_1 below t and an order s_2 above it. The other comes from the frequencies
that are left out (item 3).

* A `Form` (floating_parts.py) is a part in floating point. It plans the part's cells, for the bound on the decay (item 4), and its panels,
  for the quadrature (item 5).
* A run is *big* if its outcome lies beyond the *cut* (item 6).
* A *pad* is a small normal loss that is added, so that all frequencies decay. It costs a little of delta (item 7).
* The *room* of a proof is the share of delta that it may lose. It grows with the distance of the bound to prove from the accountants'
  number. Each of several errors may take a part of it, the *slack*.
* The *work* of a plan is the checker's, in frequencies times nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr

from dpcli.certify.floating_parts import (
    MARGIN,
    MAX_EXPONENT,
    Accuracy,
    Array,
    AtomicForm,
    ClosedForm,
    Form,
    Json,
    LogDecay,
    NoPlan,
    Plan,
    RenyiForm,
    SmoothForm,
    decimal_text,
    forms_of,
    log_sum,
    rounded,
)

LogMoment = Callable[[float], float]  # order z -> log M(z)

# These numbers decide whether a plan is found, how sharp a bound it can prove, and how long the search and the checker take.
SLACK = 1e-10  # least share of delta by which a proof may err, far less than the last printed digit of epsilon
MOST_SLACK = 1e-3  # largest such share; the search's estimates hold for small ones
PART_OF_ROOM = 0.05  # share of the distance between a bound and the accountants' number that each of several errors may take
PAD_OF_ROOM = 0.5  # share of that distance that the pad may take
LOG_HALF = 0.7  # a little more than log 2, since the slack is divided between two errors
MOST_FREQUENCIES = 150_000  # largest number of frequencies, far below what the checker refuses
MOST_WORK = 8e7  # largest work (frequencies times nodes) of a proof that is tried; the checker takes about 10 s
CHEAP = 3e6  # a plan with at most this work is good enough, so that no cheaper one is sought
PER_FREQUENCY = 60  # further work of the checker for one frequency and part, in nodes
MOST_LATTICE = 400_000  # losses of a composition that are added up one by one; the checker refuses more than 500,000
LOG_ROUGH = 3.0  # an integral that bounds a small term may err by e^-3 of its value
LOG_CHERNOFF = 24.0  # the integrals of Chernoff's bound may err by e^-24 of their value
DIGITS, CHERNOFF_DIGITS = 8, 12  # decimal digits of orders and distances in a plan, and of the order of Chernoff's bound
FACTORS = (1.0, 1.5, 2.5)  # multiples of the saddle point; those above 1 are tried only where runs are cut
LEAST_ORDER, MOST_ORDER = 1e-3, 1e6  # orders of Chernoff's bound that are searched
LEAST_LEVEL = 0.05  # the level at which runs are cut is above epsilon by a multiple of epsilon, or of this if epsilon is smaller
LEAST_LINE = 1e-2  # least t, and least order v of item 6


class CurvePoint(NamedTuple):
    """An epsilon and its delta, as the accountants have them."""

    epsilon: float
    delta: float


def log_moment_of(forms: Sequence[Form]) -> LogMoment:
    """Return the function log M(z) of all runs. It remembers its values."""
    known: dict[float, float] = {}

    def log_moment(z: float) -> float:
        if z not in known:
            known[z] = math.fsum(form.count * form.log_moment(z) for form in forms)
        return known[z]

    return log_moment


def place_of_minimum(function: Callable[[float], float], low: float, high: float, steps: int = 60) -> float:
    """Return where a convex function of log x is smallest, by a golden-section search. Each step leaves 0.618 of the interval of log x."""
    a, b = math.log(low), math.log(high)
    golden = 0.5 * (math.sqrt(5.0) - 1.0)
    c, d = b - golden * (b - a), a + golden * (b - a)
    fc, fd = function(math.exp(c)), function(math.exp(d))
    for _ in range(steps):
        if fc <= fd or not math.isfinite(fd):  # a large order may overflow
            b, d, fd = d, c, fc
            c = b - golden * (b - a)
            fc = function(math.exp(c))
        else:
            a, c, fc = c, d, fd
            d = a + golden * (b - a)
            fd = function(math.exp(d))
    return math.exp(0.5 * (a + b))


def delta_left(forms: Sequence[Form], delta: float) -> float:
    """Return `delta` less the mass at infinite losses of all runs; 0 or less if nothing is left."""
    return delta + math.expm1(math.fsum(form.count * math.log1p(-form.infinite_mass) for form in forms))


def log_chernoff(log_moment: LogMoment, s: float, epsilon: float) -> float:
    """Return log C(s) of item 1, for s > 0."""
    return log_moment(s) - s * epsilon + s * math.log(s) - (1.0 + s) * math.log1p(s)


def chernoff(forms: Sequence[Form], epsilon: float, log_room: float) -> Plan | None:
    """Return the plan of a proof by Chernoff's bound that delta is at most e^log_room; None if the bound is larger."""
    log_moment = log_moment_of(forms)
    s = rounded(place_of_minimum(lambda s: log_chernoff(log_moment, s, epsilon), LEAST_ORDER, MOST_ORDER), CHERNOFF_DIGITS)
    if not log_chernoff(log_moment, s, epsilon) <= log_room - MARGIN:
        return None
    plans = [form.quadrature([Accuracy(s, 0.0, form.log_moment(s) - math.log(form.count) - LOG_CHERNOFF)]) for form in forms]
    bits = 80 + math.ceil(math.log2(max(form.count for form in forms)))  # the width of a ball grows with the number of runs
    return {"method": "chernoff", "s": decimal_text(s, CHERNOFF_DIGITS), "parts": plans, "bits": bits}


def chernoff_epsilon(parts: Sequence[Json], direction: str, delta: float) -> float:
    """Return about the smallest epsilon that Chernoff's bound proves at `delta`; inf if it proves none."""
    forms = forms_of(parts, direction)
    room = delta_left(forms, delta)
    if room <= 0.0:
        return math.inf
    log_room = math.log(room) - 1e-5  # more than MARGIN below, so that `chernoff` finds a proof at this epsilon
    log_moment = log_moment_of(forms)

    def epsilon_at(s: float) -> float:
        return (log_moment(s) + s * math.log(s) - (1.0 + s) * math.log1p(s) - log_room) / s

    return epsilon_at(place_of_minimum(epsilon_at, LEAST_ORDER, MOST_ORDER))


class Room(NamedTuple):
    """The share of delta by which a proof may err.

    log_delta: log of the delta to prove, without infinite losses.
    share: the relative distance between it and the accountants' number. At 0, each error gets the least slack.
    pad: share of the usual pad.
    """

    log_delta: float
    share: float
    pad: float

    @property
    def log_slack(self) -> float:
        """Log of a bound on each of several errors."""
        return self.log_delta + math.log(min(max(PART_OF_ROOM * self.share, SLACK), MOST_SLACK))

    def without_share(self) -> Room:
        return Room(self.log_delta, 0.0, 0.0)


class ProofTarget(NamedTuple):
    """The bound on delta that a contour is to prove.

    epsilon: where delta is bounded. room: what the proof may lose. upper: whether it is an upper bound; a lower one needs more orders.
    jump_order: the order v of item 6 if parts are cut; else None.
    """

    epsilon: float
    room: Room
    upper: bool
    jump_order: float | None = None


class ContourPlan(NamedTuple):
    """A plan of a proof by the contour, and the checker's work for it: frequencies times nodes."""

    plan: Plan
    work: float


def cheapest_contour(forms: Sequence[Form], target: ProofTarget) -> ContourPlan:
    """Return the cheapest of the plans that are tried, with a pad or without one.

    forms: the parts, perhaps cut. Raises NoPlan if the work is too much for every line that is tried.
    """
    log_moment, room = log_moment_of(forms), target.room
    saddle = _saddle(log_moment, target.epsilon)
    pads = [(0.0, room.without_share())]  # without a pad, each error gets the least slack
    if room.share > 0.0:  # item 7: a pad m^2 raises delta by about the share m^2 t (t+1) / 2
        pads.append((rounded(2.0 * PAD_OF_ROOM * room.pad * room.share / (saddle * (saddle + 1.0))), room))
    plans, reasons = [], []
    for pad, allowed in pads:
        for factor in FACTORS[:1] if target.jump_order is None else FACTORS:
            try:
                plans.append(
                    contour_through(rounded(saddle * factor, DIGITS), forms, target._replace(room=allowed), log_moment, pad)
                )
            except NoPlan as error:
                reasons.append(error)
        if plans and min(candidate.work for candidate in plans) <= CHEAP:
            break
    if not plans:
        raise reasons[-1]
    return min(plans, key=lambda candidate: candidate.work)


def _saddle(log_moment: LogMoment, epsilon: float, steps: int = 60) -> float:
    """Return the saddle point: the t at which G(0) on the line through t is least."""
    return place_of_minimum(lambda t: log_moment(t) - t * epsilon - math.log(t) - math.log1p(t), LEAST_LINE, MOST_ORDER, steps)


def contour_through(t: float, forms: Sequence[Form], target: ProofTarget, log_moment: LogMoment, pad: float) -> ContourPlan:
    """Return the plan whose line has the real part t.

    log_moment: log M(z) of all runs. pad: m^2 of item 7, or 0. Raises NoPlan if the plan would take too much work.
    """
    log_slack = target.room.log_slack

    def log_padded(z: float) -> float:
        return log_moment(z) + 0.5 * pad * z * (z + 1.0)

    h, s1, s2 = frequency_spacing(log_padded, target.epsilon, t, log_slack)
    log_scale = log_padded(t) - t * target.epsilon
    decays = [form.decay(t, form.log_moment(t)) for form in forms]

    def log_left_out(y: Array) -> Array:  # item 3, and the last line of item 7
        log_decay = sum(form.count * decay(y)[0] for form, (decay, _) in zip(forms, decays, strict=True))
        log_rest = log_scale + log_decay - 0.5 * pad * y * y - np.log(math.pi * y)
        if target.upper or not pad:
            return log_rest
        return np.logaddexp(log_rest, log_scale + 0.5 * math.log(2.0 * pad / math.pi) + log_ndtr(-math.sqrt(pad) * y))

    ys = np.geomspace(h, h * MOST_FREQUENCIES, 4000)
    enough = np.flatnonzero(log_left_out(ys) <= log_slack - LOG_HALF)
    if not len(enough):
        raise NoPlan("the characteristic function falls too slowly")
    count = math.ceil(ys[enough[0]] / h) + 1
    log_largest = log_scale - math.log(2.0 * math.pi * t)  # about the largest term of the sum times the width of the line
    orders = [*(() if target.upper else (s1, s2)), *(() if target.jump_order is None else (-1.0 - target.jump_order,))]
    # The factor of 20 keeps the errors of all parts well below the slack.
    log_share = min(log_slack - log_largest, -1.0) - math.log(20.0 * len(forms))
    y = (count + 1) * h
    plans = [_part_plan(form, *decay, t, y, log_share, orders) for form, decay in zip(forms, decays, strict=True)]
    nodes = sum(_node_count(form, plan) for form, plan in zip(forms, plans, strict=True))
    work = float(count) * (nodes + PER_FREQUENCY * len(forms))
    if work > MOST_WORK:
        raise NoPlan(f"it would take {count} frequencies and {nodes} nodes")
    # 40 bits beyond those that separate the largest term from the slack, and those that errors of many runs take up.
    bits = 40 + (log_largest - log_slack) / math.log(2.0) + math.log2(max(form.count for form in forms))
    total: Plan = {
        "method": "contour",
        "t": decimal_text(t, DIGITS),
        "h": decimal_text(h, DIGITS),
        "frequencies": count,
        "parts": plans,
    }
    if pad:
        total["pad"] = decimal_text(pad)
    if not target.upper:
        total |= {"s1": decimal_text(s1, DIGITS), "s2": decimal_text(s2, DIGITS)}
    if target.jump_order is not None:
        total |= {"jump_order": decimal_text(target.jump_order, DIGITS)}
    return ContourPlan(total | {"bits": max(64, math.ceil(bits))}, work)


def _part_plan(form: Form, decay: LogDecay, cells: Plan, t: float, y: float, log_share: float, orders: Sequence[float]) -> Plan:
    """Return the plan of one part on the line through t.

    decay, cells: the results of `form.decay`. y: the largest frequency. log_share: logarithm of the relative error that the part may have
    on the line, over all of its runs. orders: other orders, at which a rough value of M suffices.
    """
    # An error of M_i counts as often as the part runs.
    line = Accuracy(t, y, form.log_moment(t) - math.log(form.count) + log_share)
    rough = [Accuracy(order, 0.0, form.log_moment(order) - math.log(form.count) - LOG_ROUGH) for order in orders]
    plan = form.quadrature([line, *rough])
    if isinstance(form, SmoothForm):
        plan |= cells | {"cap": decimal_text(float(decay(np.array([y]))[1][0]))}
        if form.cut is not None:
            plan["cut"] = decimal_text(form.cut)
    return plan


def _node_count(form: Form, plan: Plan) -> int:
    """Return the number of nodes, or of atoms, that the checker adds up for one frequency of a part."""
    if isinstance(form, SmoothForm):
        return len(plan["panels"]) * int(plan["order"]) * len(form.sides)
    return len(form.atoms) if isinstance(form, AtomicForm) else 0


def frequency_spacing(log_moment: LogMoment, epsilon: float, t: float, log_slack: float) -> tuple[float, float, float]:
    """Return the largest distance h of the frequencies for which T - delta is within the slack, and the orders s_1 and s_2 that show it."""

    def largest_distance(s: float) -> float:
        log_c = log_chernoff(log_moment, s, epsilon) if s > 0.0 else 0.0
        return 2.0 * math.pi * abs(t - s) / max(log_c - log_slack + LOG_HALF, 1.0)

    # Any order below t and any above it give a bound. The orders of two grids that allow the largest distance are used.
    below = max([0.0, *(t * np.linspace(0.02, 0.98, 25))], key=largest_distance)
    above = max(t * (1.0 + np.geomspace(0.02, 30.0, 40)), key=largest_distance)
    h = rounded(0.999 * min(largest_distance(below), largest_distance(above)))
    return h, rounded(below, DIGITS), rounded(above, DIGITS)


def with_cuts(forms: Sequence[Form], epsilon: float, room: Room) -> tuple[list[Form], float] | None:
    """Return the parts cut where the loss of one run exceeds a level above epsilon, and the order v for the error of big runs.

    The level is the lowest of those tried whose error is allowed. Return None if no loss exceeds a level, or if every error is too large.
    """
    for multiple in np.geomspace(0.02, 3.0, 24):
        cut = [_cut_above(form, epsilon + max(epsilon, LEAST_LEVEL) * multiple) for form in forms]
        if all(form.cut is None for form in cut):
            return None
        order = place_of_minimum(partial(log_big_run_error, cut, epsilon), LEAST_LINE, MOST_ORDER, 25)
        if log_big_run_error(cut, epsilon, order) <= room.log_slack - LOG_HALF:
            return cut, rounded(order, DIGITS)
    return None


def _cut_above(form: Form, level: float) -> Form:
    """Return the part cut at about the x where its loss exceeds `level`; the part itself if the checker knows no cut of it there."""
    if isinstance(form, SmoothForm) and form.normal and form.sides == (1.0,):
        x = np.linspace(-5.0, 60.0 + 3.0 * form.records * form.slope, 20001)  # the loss rises in x
        above = np.flatnonzero(form.loss(x, 1.0) > level)
        if len(above):
            return form.with_cut(rounded(float(x[above[0]])))
    return form


def log_big_run_error(forms: Sequence[Form], epsilon: float, v: float) -> float:
    """Return log of the error of item 6 at the order v."""
    log_none, log_growth = 0.0, 0.0  # logs of PROD N_i^{n_i}, and of PROD (1 + R_i / N_i)^{n_i} to first order
    for form in forms:
        log_n = form.log_moment(-1.0 - v)
        log_none += form.count * log_n
        if form.cut is not None:
            assert isinstance(form, SmoothForm)
            j = np.arange(form.records + 1.0)
            if form.two_sided:
                log_q = float(log_sum(form.log_weights + log_ndtr(-(form.cut + j * form.slope))))
            else:
                log_q = float(log_ndtr(-form.cut))
            loss_at_cut = float(form.loss(np.array([form.cut]), 1.0)[0])
            log_growth += form.count * math.exp(min(log_q - v * loss_at_cut - log_n, MAX_EXPONENT))
    if log_growth == 0.0:
        return -math.inf
    log_excess = math.log(math.expm1(log_growth)) if log_growth < MAX_EXPONENT else log_growth
    return (1.0 + v) * epsilon + log_none + log_excess


def find_plan(
    parts: Sequence[Json],
    direction: str,
    epsilon: float,
    delta: float,
    *,
    upper: bool,
    known: CurvePoint | None = None,
    pad: float = 1.0,
) -> Plan:
    """Return a plan to prove that delta(epsilon) is at most `delta`, or that it is above it, by the cheapest method that applies.

    Args:
        parts: The parts of the certificate.
        direction: "remove" or "add".
        epsilon: Where delta is bounded, in nats.
        delta: The bound.
        upper: Whether the bound is an upper one.
        known: A point of the accountants' curve near the one that is bounded. The nearer it is, the less a proof may lose.
        pad: Share of the usual pad (item 7). Where losses lie much more densely just below epsilon, a usual one loses too much.

    Raises:
        NoPlan: No method applies, or the work is too much.
    """
    try:
        with np.errstate(all="ignore"):
            return _find_plan(parts, direction, epsilon, delta, upper=upper, known=known, pad=pad)
    except (ValueError, OverflowError, ZeroDivisionError, IndexError) as error:  # a search in floating point may fail at extremes
        raise NoPlan(f"the search for a proof fails ({error})") from None


def _find_plan(
    parts: Sequence[Json], direction: str, epsilon: float, delta: float, *, upper: bool, known: CurvePoint | None, pad: float
) -> Plan:
    """Return the plan of the first method that applies. At extremes, errors of floating-point computations are raised as they are.

    Closed forms come first, then Chernoff's bound if it proves an upper bound, then finite sums, and last the contour.
    """
    if delta == 0.0:
        return {"method": "pure", "bits": 128}
    forms = forms_of(parts, direction)
    room = delta_left(forms, delta)
    if room <= 0.0:
        raise NoPlan("the stated deltas add up to more")
    log_room = math.log(room)
    # 100 bits beyond those that a delta of this size, and errors that grow with the number of runs, take up.
    bits = 100 + math.ceil(-log_room / math.log(2.0) + math.log2(math.fsum(form.count for form in forms)))
    if all(isinstance(form, ClosedForm) and form.form == "gaussian" for form in forms):
        return {"method": "gaussian", "bits": bits}
    only_form = forms[0] if len(forms) == 1 else None
    is_of_one_record = isinstance(only_form, ClosedForm) or (isinstance(only_form, SmoothForm) and only_form.records == 1)
    if only_form is not None and is_of_one_record and only_form.count == 1:
        return {"method": "one-step", "bits": bits}
    if upper and (plan := chernoff(forms, epsilon, log_room)) is not None:
        return plan
    if any(isinstance(form, RenyiForm) for form in forms):
        raise NoPlan("a part with rho alone has no sharper proof than Chernoff's bound")
    if isinstance(only_form, AtomicForm):
        number = len(only_form.atoms)
        if number == 2:
            return {"method": "sum", "bits": bits}
        if (number > 1 and only_form.count == 1) or (only_form.rate == 1.0 and only_form.count * number <= MOST_LATTICE):
            return {"method": "lattice", "bits": bits}
    share = 0.0 if known is None else -math.expm1(-abs(_log_gap(forms, epsilon, delta, known)))
    return _contour_plan(forms, ProofTarget(epsilon, Room(log_room, share * min(delta / room, 1e6), pad), upper))


def _log_gap(forms: Sequence[Form], epsilon: float, delta: float, known: CurvePoint) -> float:
    """Return about the log of `delta` over the true delta at `epsilon`: near `known`, delta falls as e^{-t epsilon}."""
    t = _saddle(log_moment_of(forms), epsilon, 25)
    return math.log(delta / max(known.delta, 1e-300)) + t * (epsilon - known.epsilon)  # a known delta may be 0


def _contour_plan(forms: Sequence[Form], target: ProofTarget) -> Plan:
    """Return the plan of a proof by the contour of all parts, or of cut parts if that is cheaper.

    Raises NoPlan if neither has a plan.
    """
    plans = []
    try:
        plans.append(cheapest_contour(forms, target))
        if plans[0].work <= CHEAP:
            return plans[0].plan
    except NoPlan as error:
        reason = error
    cut = with_cuts(forms, target.epsilon, target.room)
    if cut is not None:
        cut_forms, jump_order = cut
        try:
            plans.append(cheapest_contour(cut_forms, target._replace(jump_order=jump_order)))
        except NoPlan as error:
            reason = error
    if not plans:
        raise reason
    return min(plans, key=lambda candidate: candidate.work).plan
