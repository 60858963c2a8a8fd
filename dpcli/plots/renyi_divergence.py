"""rdp: the Renyi divergence by order, and the epsilon that each order gives.

The accountant rdp adds up the divergences of all steps at each order, and converts the sum at every order to an epsilon at the file's delta
(Balle, Barthe, Gaboardi, Hsu, Sato 2020, arXiv:1905.09982, Theorem 21); its answer is the lowest of these, and the picture shows how sharp
that choice is. Orders around the best one are drawn, most densely near the highest, where the divergence may leave the picture at once
(CLIFF). A *stated delta* is that of a step whose guarantee is only stated as (epsilon, delta): with this probability it fails, and the
divergences are those if no step fails. Both lines are upper bounds.
"""

from __future__ import annotations

import math

from dpcli.accountants.base import Failing, PrivacyProfile, join_equal_steps, split_failures
from dpcli.accountants.renyi_curve import RenyiCurve, renyi_curve
from dpcli.analysis.account import account
from dpcli.base.errors import CannotCertify, InputError, NotRepresentable
from dpcli.base.rounding import up
from dpcli.document.chart import Axis, Chart, Line, Marker, Points, Tone, log_span
from dpcli.file.pipeline.resolve import steps_of
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.closed.conversion import balle
from dpcli.plots.drawing import name_of, setting
from dpcli.plots.epsilons import Question

# Choices of what is drawn. They change the picture, and no bound.
POINTS = 61  # number of orders
REACH = (0.02, 12.0)  # smallest and largest order - 1, relative to the best order - 1
TALL = 12.0  # height of the picture, in multiples of the best epsilon
TALLEST_RATIO = 1e4  # largest ratio of the ends of the vertical axis, so that a tiny divergence does not flatten the rest
ROOM = 1.1  # factor by which the vertical axis is longer than the lines, so that they do not touch the frame
CLIFF = 0.75  # share of the highest drawn order - 1 from which the orders are denser


def chart(question: Question) -> Chart:
    """Return the chart of the composition's divergence by order, and of each order's epsilon. Raises InputError or CannotCertify."""
    if question.accountants:
        raise InputError("--accountant cannot be combined with rdp, which draws the Renyi accountant only")
    result = account(question.pipeline, ("rdp",), question.delta, group_size=question.group_size)
    (row,) = result.rows
    if row.bound is None or not row.upper > 0.0:
        raise CannotCertify(f"nothing to draw: the Renyi accountant has no epsilon > 0 here: {row.reason or 'it is 0'}")
    best, epsilon = row.bound.detail["order"], row.upper
    most = TALL * epsilon  # the largest value that is drawn
    try:
        steps, log_kept = split_failures(steps_of(result.charges))
        curve = renyi_curve(join_equal_steps(steps))
        orders = _within(curve, best, most)
        divergences = curve.at(orders)
    except NotRepresentable as error:
        raise CannotCertify(f"nothing to draw: {error}") from None
    # The stated deltas are spent, and the rest is for the other steps.
    failing = Failing(PrivacyProfile(), log_kept)
    delta = failing.delta_of_rest(result.delta, sign=-1) if log_kept < 0.0 else result.delta  # a sign of -1 rounds down
    epsilons = balle(orders, divergences, math.log(delta))  # the epsilon that each order gives at this delta
    lines = (
        Line("epsilon from each order", _visible_points(orders, epsilons, most), Tone.SECOND),
        Line("Renyi divergence", _visible_points(orders, divergences, most), Tone.MAIN),
    )
    order_span = log_span(x for line in lines for x, _ in line.points)
    low, high = log_span((y for line in lines for _, y in line.points), ROOM)
    best_label = f"best order {best:.4g}: epsilon <= {up(epsilon)} (rdp)"
    return Chart(
        kind="rdp",
        title="Renyi divergence by order, and the epsilon that it gives",
        subtitle=f"{name_of(result)}: {setting(result)}",
        x=Axis("order", *order_span, scale="log"),
        y=Axis("divergence, epsilon", max(low, high / TALLEST_RATIO), high, scale="log", unit="nats"),
        lines=tuple(line for line in lines if len(line.points) > 1),
        markers=(Marker(best_label, best, epsilon, Tone.SECOND),),
        notes=(
            "both lines are upper bounds for the whole composition; every order is sound, and the lowest epsilon is the one reported",
            *(("the divergence is that of the steps when no stated delta fails",) if log_kept < 0.0 else ()),
        ),
    )


def _within(curve: RenyiCurve, best: float, most: float) -> Array:
    """Return orders around the best one, up to the order where the divergence leaves the picture. They are denser near that order."""
    candidates = 1.0 + (best - 1.0) * np.geomspace(*REACH, 4 * POINTS)  # dense enough to find the highest order
    highest: float = candidates[curve.at(candidates) <= most].max(initial=best)
    near_highest = 1.0 + (highest - 1.0) * np.linspace(CLIFF, 1.0, POINTS // 2)
    return np.unique(np.concatenate([1.0 + np.geomspace(candidates[0] - 1.0, highest - 1.0, POINTS), near_highest]))


def _visible_points(orders: Array, values: Array, most: float) -> Points:
    """Return the points that a log axis up to `most` can show."""
    return tuple((float(a), float(y)) for a, y in zip(orders, values, strict=True) if 0.0 < y <= most)
