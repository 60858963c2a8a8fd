"""delta-epsilon: the privacy profile, the smallest delta for every epsilon.

A guarantee is not one pair (epsilon, delta) but all pairs on this curve. The account's own pair, the *headline*, is marked. Accountants
answer the inverse question: epsilon is computed at POINTS deltas and the account's (epsilons.py), and each pair is drawn with epsilon
across and delta upwards. Each point is a guarantee, because its epsilon is an upper bound at its delta, unless the user named an accountant
that only approximates.
"""

from __future__ import annotations

import math
from dataclasses import replace

from dpcli.analysis.account import Account
from dpcli.document.chart import Axis, Chart, Line, Marker
from dpcli.numerics.arrays import np
from dpcli.plots.drawing import epsilon_at_most, name_of, not_a_bound, positive_delta, setting
from dpcli.plots.epsilons import EpsilonCurve, Question, accuracy_notes, curves

# Choices of what is drawn. They change the picture and the time, and no bound.
POINTS = 49  # number of deltas
LOWEST_SHARE, HIGHEST_DELTA = 1e-3, 0.5  # lowest delta, relative to the file's; highest delta
# Range of the lowest delta of the axis: a positive double, and small enough to show small deltas in every picture
LEAST_LOWEST, LARGEST_LOWEST = 1e-300, 1e-9
ROOM = 1.05  # factor by which the epsilon axis is longer than the curves, so that they do not touch the frame
GUARANTEES = (
    "each computed point is an (epsilon, delta) guarantee, and so is every point above it; the line between points is only a guide"
)


def chart(question: Question) -> Chart:
    """Return the chart of the privacy profile. It is computed as epsilon at many deltas.

    Raises InputError if no delta is stated, and CannotCertify if there is no finite epsilon, or a named accountant has none.
    """
    account = question.headline()
    lowest = max(min(LOWEST_SHARE * positive_delta(account), LARGEST_LOWEST), LEAST_LOWEST)
    deltas = set(np.geomspace(lowest, HIGHEST_DELTA, POINTS).tolist())
    if account.delta > lowest:
        deltas.add(account.delta)
    profiles = curves(question, account, sorted(deltas), lambda delta: (question.pipeline, delta))
    largest = max(epsilon.upper for curve in profiles for _, epsilon in curve.epsilons)
    guarantees = (GUARANTEES,) if any(curve.sound for curve in profiles) else ()
    return Chart(
        kind="delta-epsilon",
        title="privacy profile: delta by epsilon",
        subtitle=f"{name_of(account)}: {setting(account)}",
        x=Axis("epsilon", 0.0, ROOM * largest if largest > 0.0 else 1.0),
        y=Axis("delta", lowest, 1.0, scale="log"),
        lines=tuple(_line(curve) for curve in profiles),
        bands=tuple(band for curve in profiles for band in curve.bands(_across)),
        markers=headline_marker(account),
        notes=(*guarantees, *accuracy_notes(profiles), *not_a_bound(account, question.accountants), *_pure_note(account)),
    )


def _line(curve: EpsilonCurve) -> Line:
    """Return the line of a curve without its points at epsilon = 0, unless too few points are left.

    Several deltas may have epsilon = 0. The points at the larger ones are guarantees, but no part of the curve of the smallest delta.
    """
    line = curve.line(_across)
    positive = tuple(point for point in line.points if point[0] > 0.0)
    return replace(line, points=positive if len(positive) > 1 else line.points)


def _across(delta: float, epsilon: float) -> tuple[float, float]:
    """Return the point of a pair in this chart, whose horizontal axis is that of epsilon."""
    return epsilon, delta


def headline_marker(account: Account) -> tuple[Marker, ...]:
    """Return the headline as a marker; () if delta is 0 or epsilon infinite, which the axes cannot show."""
    if not account.delta or not math.isfinite(account.upper):
        return ()
    return (Marker(f"{epsilon_at_most(account)} at delta = {account.delta!r}", account.upper, account.delta),)


def _pure_note(account: Account) -> tuple[str, ...]:
    """Return a note that states the headline at delta = 0; () if delta is positive or epsilon infinite."""
    if account.delta or not math.isfinite(account.upper):
        return ()
    return (f"{epsilon_at_most(account)} at delta = 0, which a log axis cannot show",)
