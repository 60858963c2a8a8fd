"""delta-epsilon: the privacy profile, the smallest delta for every epsilon."""

from __future__ import annotations

import math
from dataclasses import replace

from dpcli.analysis.account import Account
from dpcli.document.chart import Axis, Chart, Line, Marker
from dpcli.numerics.arrays import np
from dpcli.plots.drawing import epsilon_at_most, name_of, not_a_bound, setting
from dpcli.plots.epsilons import EpsilonCurve, Question, certificates, curves

POINTS = 49  # number of deltas
REACH = (1e-3, 0.5)  # lowest delta, relative to the file's; highest delta
SMALLEST = 1e-300  # smallest delta of the axis
GUARANTEES = (
    "each computed point is an (epsilon, delta) guarantee, and so is every point above it; the line between points is only a guide"
)


def chart(question: Question) -> Chart:
    """Return the chart of the privacy profile. It is computed as epsilon at many deltas. Raises InputError or CannotCertify."""
    account = question.headline()
    low = max(min(REACH[0] * (account.delta or 1e-6), 1e-9), SMALLEST)
    deltas = sorted({*np.geomspace(low, REACH[1], POINTS).tolist(), *([account.delta] if account.delta > low else [])})
    result = curves(question, account, deltas, lambda delta: (question.pipeline, delta))
    most = max(e.upper for curve in result for _, e in curve.epsilons)
    return Chart(
        kind="delta-epsilon",
        title="privacy profile: delta by epsilon",
        subtitle=f"{name_of(account)}: {setting(account)}",
        x=Axis("epsilon", 0.0, 1.05 * most if most > 0.0 else 1.0),
        y=Axis("delta", low, 1.0, scale="log"),
        lines=tuple(_line(curve) for curve in result),
        bands=tuple(band for curve in result for band in curve.bands(_across)),
        markers=own_point(account),
        notes=(
            *([GUARANTEES] if any(curve.sound for curve in result) else []),
            *certificates(result),
            *not_a_bound(account, question.accountants or ()),
            *_pure(account),
        ),
    )


def _line(curve: EpsilonCurve) -> Line:
    """Return the line of a curve without its points at epsilon = 0, as a smaller delta holds there too, unless too few are left."""
    line = curve.line(_across)
    positive = tuple(point for point in line.points if point[0] > 0.0)
    return replace(line, points=positive if len(positive) > 1 else line.points)


def _across(delta: float, epsilon: float) -> tuple[float, float]:
    return epsilon, delta


def own_point(account: Account) -> tuple[Marker, ...]:
    """Return the headline as a marker; () if delta is 0 or epsilon infinite, which the axes cannot show."""
    if not account.delta or not math.isfinite(account.upper):
        return ()
    return (Marker(f"{epsilon_at_most(account)} at delta = {account.delta!r}", account.upper, account.delta),)


def _pure(account: Account) -> tuple[str, ...]:
    if account.delta or not math.isfinite(account.upper):
        return ()
    return (f"{epsilon_at_most(account)} at delta = 0, which a log axis cannot show",)
