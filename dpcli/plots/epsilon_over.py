"""A chart of epsilon over one parameter of one mechanism, with the file's value marked and its budget drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpcli.analysis.account import Account
from dpcli.analysis.solved_keys import substitute
from dpcli.base.errors import InputError
from dpcli.document.chart import Axis, Chart, Line, Marker, Tone, log_span
from dpcli.file.pipeline.model import Entry
from dpcli.plots.drawing import epsilon_at_most, few, name_of, not_a_bound, setting
from dpcli.plots.epsilons import EpsilonCurve, Question, certificates, curves

ROOM = 1.08  # factor by which the epsilon axis is longer than the lines
NEAR = 1e-2  # relative difference up to which the line agrees with the headline


def chart(
    kind: str, title: str, label: str, question: Question, entry: Entry, key: str, own: float, values: Sequence[float]
) -> Chart:
    """Return the chart of epsilon at `values` of an entry's key, which is `own` in the file. Both axes are logarithmic."""
    account = question.headline()
    delta = account.delta
    result = curves(question, account, values, lambda value: (substitute(question.pipeline, ((entry.name, key),), value), delta))
    lines = tuple(line for line in map(_positive, result) if len(line.points) > 1)
    if not lines:
        raise InputError(f"nothing to draw: epsilon is 0 at delta = {delta!r} for all values of {label}")
    low, high = log_span((y for line in lines for _, y in line.points), ROOM)
    xs = log_span(x for line in lines for x, _ in line.points)
    return Chart(
        kind=kind,
        title=title,
        subtitle=f"{name_of(account)}, mechanism {entry.name}: {setting(account)}",
        x=Axis(label, *xs, scale="log"),
        y=Axis("epsilon", low, high, scale="log"),
        lines=(*lines, *_budget(account, xs, low, high)),
        bands=tuple(band for curve in result for band in curve.bands(_upright) if all(y > 0.0 for _, y in band.lower)),
        markers=_own_point(account, result, key, own),
        notes=(*certificates(result), *not_a_bound(account, question.accountants or ())),
    )


def _upright(x: float, y: float) -> tuple[float, float]:
    return x, y


def _positive(curve: EpsilonCurve) -> Line:
    """Return the line of a curve without points at epsilon 0, which a log axis cannot show."""
    line = curve.line(_upright)
    return Line(line.label, tuple((x, y) for x, y in line.points if y > 0.0), line.tone, line.dashed)


def _own_point(account: Account, epsilon_curves: tuple[EpsilonCurve, ...], key: str, own: float) -> tuple[Marker, ...]:
    """Return the headline at the file's value as a marker; () if the lines differ from it, as the file then uses another value."""
    drawn = min((e.upper for curve in epsilon_curves for value, e in curve.epsilons if value == own), default=math.inf)
    if account.winner is None or account.upper <= 0.0 or not math.isclose(drawn, account.upper, rel_tol=NEAR):
        return ()
    words = key.replace("_", " ")
    return (Marker(f"this file: {words} {few(own)}, {epsilon_at_most(account)}", own, account.upper),)


def _budget(account: Account, xs: tuple[float, float], low: float, high: float) -> tuple[Line, ...]:
    """Return the file's cap on epsilon as a line; () if it is for another delta or outside of the picture."""
    cap = account.budget.epsilon if account.budget is not None else None
    if cap is None or cap.delta != account.delta or not low <= cap.cap <= high:
        return ()
    return (Line(f"budget {cap.cap!r}", tuple((x, cap.cap) for x in xs), Tone.LIMIT, dashed=True),)
