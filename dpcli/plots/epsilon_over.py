"""epsilon-steps and epsilon-sigma: epsilon over one parameter of one mechanism, the file's own value marked and its budget drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpcli.analysis.account import Account
from dpcli.analysis.calibrate import substitute
from dpcli.base.errors import InputError
from dpcli.document.chart import Axis, Chart, Line, Marker, Tone, log_span
from dpcli.file.pipeline.model import Entry
from dpcli.numerics.arrays import np
from dpcli.plots.drawing import epsilon_at_most, few, name_of, not_a_bound, setting
from dpcli.plots.epsilons import EpsilonCurve, Question, certificates, curves, varied

ROOM = 1.08  # factor by which the epsilon axis is longer than the lines
NEAR = 1e-2  # relative difference up to which the line agrees with the headline
NOISE_POINTS, NOISE_REACH = 49, (0.4, 6.0)  # times the file's own noise
STEP_POINTS, STEP_REACH = 41, (1e-2, 10.0)  # times the file's own number of steps
MOST_STEPS = 10**18  # that a file may state


def over_noise(question: Question) -> Chart:
    """Return epsilon around the file's own noise multiplier, sigma or scale. Raises InputError, CannotCertify."""
    entry, key = varied(question, "noise")
    own = float(getattr(entry.spec, key))
    values = sorted({*(own * np.geomspace(*NOISE_REACH, NOISE_POINTS)).tolist(), own})
    words = key.replace("_", " ")
    return _chart("epsilon-sigma", f"epsilon by {words}", words, question, entry, key, own, values)


def over_steps(question: Question) -> Chart:
    """Return epsilon from a hundredth of the file's steps (at least 1) to ten times as many. Raises InputError, CannotCertify."""
    entry, key = varied(question, "steps")
    own = _steps(entry, question.pipeline.privacy.dataset_size)
    low, high = max(1.0, STEP_REACH[0] * own), min(max(STEP_REACH[1] * own, 10.0), MOST_STEPS)
    steps = sorted({round(value) for value in np.geomspace(low, high, STEP_POINTS)} | {own})
    values = [float(count) for count in steps]
    return _chart("epsilon-steps", "epsilon by number of steps", "steps", question, entry, key, float(own), values)


def _steps(entry: Entry, dataset_size: int | None) -> int:
    """Return the number of steps in the file, from its epochs where it states those."""
    rate = getattr(entry.sampling, "lower_rate", lambda _: None)(dataset_size)
    return entry.runs(dataset_size).steps_at(rate)


def _chart(
    kind: str, title: str, label: str, question: Question, entry: Entry, key: str, own: float, values: Sequence[float]
) -> Chart:
    """Return epsilon at `values` of entry's key, which is `own` in the file; on log axes, where composition is a straight line."""
    account = question.headline()
    delta = account.delta
    result = curves(question, account, values, lambda value: (substitute(question.pipeline, ((entry.name, key),), value), delta))
    lines = tuple(line for line in map(_positive, result) if len(line.points) > 1)
    if not lines:
        raise InputError(f"nothing to draw: epsilon is 0 at delta = {delta!r}, whatever the {label}")
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
    """Return the headline at the file's own value; none where the lines differ from it, as the file then does not run at that value."""
    drawn = min((e.upper for curve in epsilon_curves for value, e in curve.epsilons if value == own), default=math.inf)
    if account.winner is None or account.upper <= 0.0 or not math.isclose(drawn, account.upper, rel_tol=NEAR):
        return ()
    words = key.replace("_", " ")
    return (Marker(f"this file: {words} {few(own)}, {epsilon_at_most(account)}", own, account.upper),)


def _budget(account: Account, xs: tuple[float, float], low: float, high: float) -> tuple[Line, ...]:
    """Return the file's cap on epsilon, where it is for the same delta and within the picture."""
    cap = account.budget.epsilon if account.budget is not None else None
    if cap is None or cap.delta != account.delta or not low <= cap.cap <= high:
        return ()
    return (Line(f"budget {cap.cap!r}", tuple((x, cap.cap) for x in xs), Tone.LIMIT, dashed=True),)
