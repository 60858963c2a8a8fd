"""A chart of epsilon over one key of one mechanism, with the file's value marked and its budget drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcli.analysis.account import Account
from dpcli.analysis.solved_keys import substitute
from dpcli.base.errors import InputError
from dpcli.document.chart import Axis, Chart, Line, Marker, Tone, log_span
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.plots.drawing import epsilon_at_most, few, name_of, not_a_bound, setting
from dpcli.plots.epsilons import EpsilonCurve, Question, certificates, curves

ROOM = 1.08  # factor by which the epsilon axis is longer than the lines
NEAR = 1e-2  # relative difference up to which the line agrees with the headline; it is hardly visible


@dataclass(frozen=True, slots=True)
class VariedKey:
    """A key of one mechanism, and the values at which epsilon is drawn.

    Attributes:
        entry: The mechanism.
        name: Name of the key.
        stated: Value in the file.
        values: Values at which epsilon is drawn, in increasing order, with `stated` among them.
    """

    entry: Entry
    name: str
    stated: float
    values: list[float]


def chart(kind: str, title: str, label: str, question: Question, varied_key: VariedKey) -> Chart:
    """Return the chart of epsilon at each value of a key. Both axes are logarithmic.

    Args:
        kind: Name of the kind of chart.
        title: Title of the chart.
        label: Label of the axis of values.
        question: Pipeline and settings of its account.
        varied_key: The key and its values.

    Raises:
        InputError: Epsilon is 0 for all values.
        CannotCertify: There is no finite epsilon.
    """
    account = question.headline()
    target = (varied_key.entry.name, varied_key.name)

    def pipeline_and_delta(value: float) -> tuple[Pipeline, float]:
        return substitute(question.pipeline, (target,), value), account.delta

    epsilon_curves = curves(question, account, varied_key.values, pipeline_and_delta)
    lines = tuple(line for line in map(_positive_line, epsilon_curves) if len(line.points) > 1)
    if not lines:
        raise InputError(f"nothing to draw: epsilon is 0 at delta = {account.delta!r} for all values of {label}")
    value_span = log_span(x for line in lines for x, _ in line.points)
    epsilon_span = log_span((y for line in lines for _, y in line.points), ROOM)
    bands = (band for curve in epsilon_curves for band in curve.bands(_upright))
    return Chart(
        kind=kind,
        title=title,
        subtitle=f"{name_of(account)}, mechanism {varied_key.entry.name}: {setting(account)}",
        x=Axis(label, *value_span, scale="log"),
        y=Axis("epsilon", *epsilon_span, scale="log"),
        lines=(*lines, *_budget_line(account, value_span, epsilon_span)),
        bands=tuple(band for band in bands if all(epsilon > 0.0 for _, epsilon in band.lower)),  # as a log axis requires
        markers=_file_marker(account, epsilon_curves, varied_key),
        notes=(*certificates(epsilon_curves), *not_a_bound(account, question.accountants)),
    )


def _upright(x: float, y: float) -> tuple[float, float]:
    """Return the point of a value and its epsilon."""
    return x, y


def _positive_line(curve: EpsilonCurve) -> Line:
    """Return the line of a curve without points at epsilon 0, which a log axis cannot show."""
    line = curve.line(_upright)
    return Line(line.label, tuple((x, y) for x, y in line.points if y > 0.0), line.tone, line.dashed)


def _file_marker(account: Account, epsilon_curves: tuple[EpsilonCurve, ...], varied_key: VariedKey) -> tuple[Marker, ...]:
    """Return the headline at the file's value as a marker; () if the lines differ from it, as the file then uses another value."""
    stated = varied_key.stated
    at_stated = (epsilon.upper for curve in epsilon_curves for value, epsilon in curve.epsilons if value == stated)
    drawn = min(at_stated, default=math.inf)
    if account.winner is None or account.upper <= 0.0 or not math.isclose(drawn, account.upper, rel_tol=NEAR):
        return ()
    label = f"this file: {varied_key.name.replace('_', ' ')} {few(stated)}, {epsilon_at_most(account)}"
    return (Marker(label, stated, account.upper),)


def _budget_line(account: Account, value_span: tuple[float, float], epsilon_span: tuple[float, float]) -> tuple[Line, ...]:
    """Return the file's cap on epsilon as a line; () if it is for another delta or outside of the picture."""
    verdict = None if account.budget is None else account.budget.epsilon
    lowest, highest = epsilon_span
    if verdict is None or verdict.delta != account.delta or not lowest <= verdict.cap <= highest:
        return ()
    points = tuple((value, verdict.cap) for value in value_span)
    return (Line(f"budget {verdict.cap!r}", points, Tone.LIMIT, dashed=True),)
