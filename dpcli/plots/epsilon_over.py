"""A chart of epsilon over one number, with the file's value marked and its budget drawn, for the kinds epsilon-sigma and epsilon-steps.

`Varied` says which number varies and how to make the pipeline at each value; epsilons.py computes the curves, one for each group of
accountants. Each point of a line is an upper bound, unless an approximation was named; error bars show certified intervals, between an
upper and a certified lower bound, where they are wide enough to be seen. The marker shows the *headline*, the smallest bound on epsilon of
the file itself. It is left out if the drawn lines do not go through it, which would read as a contradiction: the pipeline with its stated
value then differs from the file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dpcli.analysis.account import Account
from dpcli.analysis.solved_keys import substitute
from dpcli.base.errors import InputError
from dpcli.document.chart import Axis, Chart, Line, Marker, Scale, Span, Tone, log_span
from dpcli.document.short_numbers import short_number
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.plots.drawing import epsilon_at_most, name_of, not_a_bound, setting
from dpcli.plots.epsilons import PROBE, EpsilonCurve, Question, accuracy_notes, curves

# Choices of what is drawn. They change the picture, and no bound.
ROOM = 1.08  # factor by which the epsilon axis is longer than the lines, so that they do not touch the frame
TALLEST = 2.0  # a budget of more than this multiple of the largest epsilon is not drawn; it would press the lines to the bottom
WIDE = 0.02  # relative width of an interval from which on it is drawn as an error bar; narrower ones cannot be seen
BAR_DISTANCE = PROBE  # number of values from one error bar to the next; any number would do
NEAR = 1e-2  # relative difference up to which the line agrees with the headline; it is hardly visible


@dataclass(frozen=True, slots=True)
class Varied:
    """A number on which epsilon depends, and its values at which epsilon is drawn.

    words: what is varied, for the subtitle.
    name: name of the number, for the marker.
    stated: value in the file.
    values: values at which epsilon is drawn, in increasing order, with `stated` among them.
    pipeline_at: function that returns the pipeline with another value.
    scale: scale of both axes.
    notes: lines of text under the chart, before those about the accuracy.
    """

    words: str
    name: str
    stated: float
    values: list[float]
    pipeline_at: Callable[[float], Pipeline]
    scale: Scale = "log"
    notes: tuple[str, ...] = ()


def of_key(question: Question, entry: Entry, key: str, stated: float, values: list[float]) -> Varied:
    """Return a key of one mechanism as the number that varies, with the mechanism as it is in the file otherwise."""

    def pipeline_at(value: float) -> Pipeline:
        return substitute(question.pipeline, ((entry.name, key),), value)

    return Varied(f"mechanism {entry.name}", key.replace("_", " "), stated, values, pipeline_at)


def chart(kind: str, title: str, label: str, question: Question, varied: Varied) -> Chart:
    """Return the chart of epsilon at each value. `label` is that of the axis of values.

    Raises InputError if epsilon is 0 for all values, and CannotCertify if there is no finite epsilon.
    """
    account = question.headline()
    epsilon_curves = curves(question, account, varied.values, lambda value: (varied.pipeline_at(value), account.delta))
    lines = tuple(line for line in map(_positive_line, epsilon_curves) if len(line.points) > 1)
    if not lines:
        raise InputError(f"nothing to draw: epsilon is 0 at delta = {account.delta!r} for all values of {label}")
    heights = [y for line in lines for _, y in line.points]
    # The cap of the question is always drawn.
    caps = [(word, cap) for word, cap in _caps(account, question) if cap <= TALLEST * max(heights) or cap == question.cap]
    heights += [cap for _, cap in caps]
    if varied.scale == "log":
        value_span, epsilon_span = log_span(x for line in lines for x, _ in line.points), log_span(heights, ROOM)
    else:
        value_span, epsilon_span = (0.0, varied.values[-1]), (0.0, ROOM * max(heights))
    limits = (Line(f"{word} {cap!r}", tuple((x, cap) for x in value_span), Tone.LIMIT, dashed=True) for word, cap in caps)
    bands = (band for curve in epsilon_curves for band in curve.bands(_upright))
    return Chart(
        kind=kind,
        title=title,
        subtitle=f"{name_of(account)}, {varied.words}: {setting(account)}",
        x=Axis(label, *value_span, scale=varied.scale),
        y=Axis("epsilon", *epsilon_span, scale=varied.scale),
        lines=(*lines, *limits),
        bands=tuple(band for band in bands if all(epsilon > 0.0 for _, epsilon in band.lower)),  # a log axis requires it
        markers=_file_marker(account, epsilon_curves, varied),
        spans=tuple(span for curve in epsilon_curves for span in _error_bars(curve)),
        notes=(*varied.notes, *accuracy_notes(epsilon_curves), *not_a_bound(account, question.accountants)),
    )


def _error_bars(curve: EpsilonCurve) -> Iterator[Span]:
    """Yield the interval of certified bounds at every BAR_DISTANCE-th of the values where it is wide."""
    wide_intervals = [
        (value, epsilon.lower, epsilon.upper)
        for value, epsilon in curve.epsilons
        if epsilon.lower is not None and epsilon.upper - epsilon.lower > WIDE * epsilon.upper
    ]
    for value, lower, upper in wide_intervals[::BAR_DISTANCE]:
        yield Span("certified interval", value, lower, upper, curve.tone)


def _upright(value: float, epsilon: float) -> tuple[float, float]:
    """Return the point of a value and its epsilon: the value across, and epsilon upwards."""
    return value, epsilon


def _positive_line(curve: EpsilonCurve) -> Line:
    """Return the line of a curve without points at epsilon 0, which a log axis cannot show."""
    line = curve.line(_upright)
    return Line(line.label, tuple((x, y) for x, y in line.points if y > 0.0), line.tone, line.dashed)


def _file_marker(account: Account, epsilon_curves: tuple[EpsilonCurve, ...], varied: Varied) -> tuple[Marker, ...]:
    """Return the headline at the file's value as a marker; () if the lines differ from it there by more than NEAR."""
    stated = varied.stated
    at_stated = (epsilon.upper for curve in epsilon_curves for value, epsilon in curve.epsilons if value == stated)
    drawn = min(at_stated, default=math.inf)
    if account.winner is None or account.upper <= 0.0 or not math.isclose(drawn, account.upper, rel_tol=NEAR):
        return ()
    # `short_number` prints a stated number with few digits, without rounding to a safe side, because it is no bound.
    return (Marker(f"this file: {varied.name} {short_number(stated)}, {epsilon_at_most(account)}", stated, account.upper),)


def _caps(account: Account, question: Question) -> list[tuple[str, float]]:
    """Return the file's cap on epsilon, unless it is for another delta, and the cap of the question, each with a word for it."""
    verdict = None if account.budget is None else account.budget.epsilon
    caps = [("budget", verdict.cap)] if verdict is not None and verdict.delta == account.delta else []
    return caps if question.cap is None else [*caps, ("cap", question.cap)]
