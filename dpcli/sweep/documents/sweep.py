"""The documents of a sweep: its plan, its results, the result of a private search, and the picture of the frontier.

A *point* is a variant of the sweep: a setting at one epsilon, run several times (sweep_plan.py). The *frontier* shows the median metric of
the best setting at each epsilon, the range of its runs, and the other settings. Two warnings belong to every result of public tuning and
must stay: epsilon covers one run and not the search; and the median of a setting that was chosen by it is biased. A private search shows
only its best run, since its guarantee needs the other trials, and their number, to stay secret. `plan.trials` is the distribution of that
number; None if tuning is public. Every certified epsilon is an upper bound, rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dpcli.base.rounding import up
from dpcli.document.chart import Axis, Chart, Cloud, Line, Span, Tone, log_span
from dpcli.document.document import Document, Sheet, Table, Value
from dpcli.file.pipeline.parts import scheme_names
from dpcli.plots.drawing import setting as conditions_of
from dpcli.sessions.documents.dry_run import rows_data, shown, window_note
from dpcli.sweep.sweep_plan import MeasuredSweep, MeasuredVariant, PrivateSelection, SweepPlan, Variant
from dpcli.train.run.outcome import epsilon_at_delta

if TYPE_CHECKING:
    from dpcli.train.plan.plan import TrainingPlan

PUBLIC_TUNING = (
    "tuned on public data: the epsilon of each point covers one run, and not the search; if the data of these runs are private, the "
    "publication of the best run reveals more than its epsilon allows"
)
SELECTION_BIAS = "the best setting is chosen by the runs whose median is shown, so this median is biased in its favour"
FRESH_NOISE = "each run draws separate random numbers from the operating system; nobody knows a seed"
SECRECY = (
    "the guarantee requires that the number of trials, their duration and the other trials stay secret; dpcli does not keep them"
)
FAILED = 2  # exit code if a run or a trial failed
SEARCH_SCHEMA = "dpcli/sweep-search/v1"
PLAN_COLUMNS = ("epsilon", "setting", "noise_multipliers", "steps", "epsilon_upper", "delta")  # of a variant in the spreadsheet
SHARES = frozenset({"accuracy"})  # metrics from 0 to 1
# Margins of the picture, for looks alone: above and below, as a share of its height; on either side, as a factor of epsilon.
VERTICAL_MARGIN, HORIZONTAL_MARGIN = 0.08, 1.15


def plan_document(plan: SweepPlan) -> Document:
    """Return the document of a dry run: each point with its noise and certified epsilon, and the number of runs."""
    runs = "" if plan.trials else f"{plan.repeats}"
    columns = ("epsilon", "setting", "noise multiplier", "steps", "certified epsilon", "runs")
    rows = tuple((*_plan_row(variant), runs) for variant in plan.variants)
    table = Table("points", columns, rows, numeric=frozenset({0, 2, 3, 4, 5}))
    sheet = Sheet(PLAN_COLUMNS, tuple(map(_sheet_row, plan.variants)))
    headline, notes = f"{_title(plan)}: {_size(plan)}", _notes(plan)
    return Document(headline, _plan_data(plan), "", (table,), notes, details=notes, sheet=sheet)


def _plan_row(variant: Variant) -> tuple[str, ...]:
    """Return the row of a variant in the printed table of a plan, without the number of runs."""
    plan = variant.plan
    return (f"{variant.epsilon:g}", variant.setting.label, _noise_text(variant), f"{plan.steps:,}", up(plan.account.upper))


def result_document(sweep: MeasuredSweep, pictures: Sequence[Chart]) -> Document:
    """Return the document of a finished sweep. Its exit code is 2 if a run failed."""
    plan, best, failures = sweep.plan, sweep.best, sweep.failures
    headline = f"{_title(plan)}: no run has ended"
    if best:
        medians = ", ".join(f"{point.median:.4g} at epsilon {point.variant.epsilon:g}" for point in best)
        headline = f"{_title(plan)}: median {sweep.metric} of the best setting: {medians}"
    if failures:
        headline += f"; {len(failures):,} of {sum(point.runs for point in sweep.measured):,} runs failed"
    notes = (*_failure_notes(failures), *_notes(plan), *window_note(plan.first), SELECTION_BIAS)
    metric = sweep.metric or "metric"
    columns = ("epsilon", "setting", f"median {metric}", "min", "max", "runs", "best", "noise")
    rows = tuple(_table_row(point, point in best) for point in sweep.measured)
    flagged = frozenset(i for i, point in enumerate(sweep.measured) if point.failures)
    table = Table("runs", columns, rows, numeric=frozenset({0, 2, 3, 4, 5, 7}), flagged=flagged)
    sheet_rows = tuple(_measured_row(point, metric, point in best) for point in sweep.measured)
    return Document(
        headline,
        _measured_data(sweep),
        "fail" if failures else "pass",
        (table,),
        notes,
        exit_code=FAILED if failures else 0,
        details=notes,
        pictures=tuple(pictures),
        sheet=Sheet((*PLAN_COLUMNS, "metric", "median", "min", "max", "runs", "failures", "best"), sheet_rows),
    )


def search_document(selection: PrivateSelection) -> Document:
    """Return the document of a private search. Its exit code is 2 if a trial failed."""
    if selection.failures:
        return _failed_search(selection)
    variant, value = selection.variant, selection.value
    first = selection.plan.first
    guarantee = epsilon_at_delta(first.account.upper, first.account.delta)
    data = {
        **_sweep_data(selection.plan),
        "schema": SEARCH_SCHEMA,
        "exit_code": 0,
        "metric": selection.metric,
        "value": value,
        "setting": None if variant is None else _setting_data(variant),
        "folder": selection.folder,
        "result": _result_data(first),
    }
    notes = (*_search_notes(selection), SECRECY)
    if variant is None or value is None or selection.metric is None:
        headline = f"the number of trials was drawn as 0, so nothing is released, at the same cost: {guarantee}"
        return Document(headline, data, "pass", notes=notes, details=notes)
    row = (f"{variant.epsilon:g}", variant.setting.label, f"{value:.4f}")
    table = Table("the best trial", ("epsilon", "setting", selection.metric), (row,), numeric=frozenset({0, 2}))
    headline = f"the best of a private search: {selection.metric} {value:.4f}; the whole search: {guarantee}"
    return Document(headline, data, "pass", (table,), notes, details=notes)


def _failed_search(selection: PrivateSelection) -> Document:
    """Return the document of a private search in which a trial failed. Nothing of the trials is shown but the errors."""
    plan = selection.plan
    headline = f"{_title(plan)}: a trial failed, so nothing is released; if the machine was at fault, run the same command again"
    data = {**_sweep_data(plan), "schema": SEARCH_SCHEMA, "exit_code": FAILED}
    notes = (*(f"failed: {failure}" for failure in selection.failures), SECRECY)
    return Document(headline, data, "fail", notes=notes, details=notes, exit_code=FAILED)


def _search_notes(selection: PrivateSelection) -> tuple[str, ...]:
    """Return the notes on a private search that ended. Without a variant, its number of trials was drawn as 0."""
    notes = (
        *window_note(selection.plan.first),
        "the search is complete; more trials, or a new search, would be another release",
    )
    if selection.variant is None:
        return notes
    return (f"the model, the statement and the file of the best trial are in {selection.folder}", *notes)


def _title(plan: SweepPlan) -> str:
    """Return the name of the sweep with delta and the unit of protection."""
    privacy, account = plan.pipeline.privacy, plan.first.account
    protection = f"per {privacy.unit or 'record'}, {privacy.adjacency.value}, sampling: {scheme_names(account.pipeline)}"
    return f"{plan.name} at delta = {account.delta!r} ({protection})"


def _size(plan: SweepPlan) -> str:
    """Return the number of points and runs in words: "8 points, 2 runs each, 16 in all"."""
    points = len(plan.variants)
    if plan.trials is not None:
        return f"a private search among {points:,} setting{'s' * (points > 1)}, a secret random number of trials"
    runs = f"{plan.repeats:,} run{'s' * (plan.repeats > 1)} each"
    return f"{points:,} point{'s' * (points > 1)}, {runs}, {points * plan.repeats:,} in all"


def _notes(plan: SweepPlan) -> tuple[str, ...]:
    """Return the notes on the meaning of epsilon and on the folder of the runs."""
    if plan.trials is not None:
        return f"the epsilon covers the whole search, with {plan.trials.mean:g} trials on average", SECRECY
    return PUBLIC_TUNING, FRESH_NOISE, f"the runs are in {shown(plan.folder)}"


def _failure_notes(failures: Sequence[tuple[Variant, str]]) -> tuple[str, ...]:
    notes = {f"failed: epsilon {variant.epsilon:g}, {variant.setting.label}: {failure}" for variant, failure in failures}
    return tuple(sorted(notes))


def _table_row(point: MeasuredVariant, best: bool) -> tuple[str, ...]:
    """Return the row of a point in the printed table."""
    variant = point.variant
    runs = f"{len(point.values)} of {point.runs}" if point.failures else f"{len(point.values)}"
    numbers = ("-" if math.isnan(value) else f"{value:.6g}" for value in (point.median, point.lowest, point.highest))
    return (f"{variant.epsilon:g}", variant.setting.label, *numbers, runs, "best" if best else "", _noise_text(variant))


def _sheet_row(variant: Variant) -> tuple[Value, ...]:
    """Return the values of a variant in PLAN_COLUMNS."""
    account = variant.plan.account
    noises = " ".join(map(repr, variant.noise_multipliers))
    return (variant.epsilon, variant.setting.label, noises, variant.plan.steps, account.upper, account.delta)


def _measured_row(point: MeasuredVariant, metric: str, best: bool) -> tuple[Value, ...]:
    """Return the values of a point in the spreadsheet."""
    values = (point.median, point.lowest, point.highest) if point.values else (None, None, None)
    return (*_sheet_row(point.variant), metric, *values, point.runs, len(point.failures), best)


def _noise_text(variant: Variant) -> str:
    return ", ".join(f"{value:.7g}" for value in variant.noise_multipliers)


def _sweep_data(plan: SweepPlan) -> dict[str, Any]:
    """Return the part of the JSON document that all kinds of sweeps share."""
    privacy = plan.pipeline.privacy
    return {
        "tuning": plan.sweep.tuning,
        "covers_search": plan.trials is not None,
        "statement": {"unit": privacy.unit, "adjacency": privacy.adjacency.value, "releases": privacy.releases},
        "folder": plan.folder,
        **rows_data(plan.first),
    }


def _result_data(plan: TrainingPlan) -> dict[str, Any]:
    return {"epsilon_upper": plan.account.upper, "delta": plan.account.delta}


def _setting_data(variant: Variant) -> dict[str, Any]:
    return {change.dotted: change.value for change in variant.setting.changes}


def _point_data(variant: Variant) -> dict[str, Any]:
    return {
        "epsilon": variant.epsilon,
        "setting": _setting_data(variant),
        "noise_multipliers": list(variant.noise_multipliers),
        "steps": variant.plan.steps,
        "result": _result_data(variant.plan),
        "fingerprint": variant.plan.fingerprint(),
    }


def _plan_data(plan: SweepPlan) -> dict[str, Any]:
    """Return the JSON document dpcli/sweep-plan/v1."""
    points = [_point_data(variant) for variant in plan.variants]
    repeats = None if plan.trials is not None else plan.repeats
    return {"schema": "dpcli/sweep-plan/v1", **_sweep_data(plan), "repeats": repeats, "points": points, "exit_code": 0}


def _measured_data(sweep: MeasuredSweep) -> dict[str, Any]:
    """Return the JSON document dpcli/sweep/v1."""
    best = sweep.best
    points = [_measured_point_data(point, point in best) for point in sweep.measured]
    code = FAILED if sweep.failures else 0
    return {"schema": "dpcli/sweep/v1", **_sweep_data(sweep.plan), "metric": sweep.metric, "points": points, "exit_code": code}


def _measured_point_data(point: MeasuredVariant, best: bool) -> dict[str, Any]:
    """Return the JSON data of a point with its results."""
    return {
        **_point_data(point.variant),
        "values": list(point.values),
        "median": point.median if point.values else None,
        "failures": list(point.failures),
        "best": best,
    }


def chart(sweep: MeasuredSweep) -> Chart:
    """Return the picture of the frontier. At least one run of the sweep must have ended."""
    plan, best, metric = sweep.plan, sweep.best, sweep.metric
    best_points = [point for point in best if all(map(math.isfinite, point.values))]  # infinity and NaN cannot be drawn
    other_points = [point for point in sweep.measured if point.values and point not in best and math.isfinite(point.median)]
    left, right = log_span(plan.sweep.epsilon, HORIZONTAL_MARGIN)
    heights = [point.median for point in other_points]
    lines, spans, clouds = [], [], []
    if other_points:
        clouds.append(Cloud("median of another setting", _medians(other_points)))
    if best_points:
        runs = f"{plan.repeats} runs" if plan.repeats > 1 else "one run"
        lines.append(Line(f"best setting, median of {runs}", _medians(best_points)))
        clouds.append(Cloud("median of the best setting", _medians(best_points), Tone.MAIN))
    for point in best_points:
        heights += point.values
        if len(point.values) > 1:
            spans.append(Span("lowest and highest run", point.variant.epsilon, point.lowest, point.highest))
    reference = plan.sweep.reference
    if reference is not None:
        heights.append(reference)
        lines.append(Line(f"not private: {reference:g}", ((left, reference), (right, reference)), Tone.MUTED, dashed=True))
    return Chart(
        kind="frontier",
        title=f"{plan.name}: {metric} against epsilon",
        subtitle=f"one run, {conditions_of(plan.first.account)}",  # unit, adjacency, delta and sampling in words
        x=Axis("epsilon of one run", left, right, scale="log"),
        y=Axis(f"{metric} on data declared public", *_range(metric, heights)),
        lines=tuple(lines),
        spans=tuple(spans),
        clouds=tuple(clouds),
        notes=tuple(_chart_notes(sweep)),
    )


def _medians(points: Iterable[MeasuredVariant]) -> tuple[tuple[float, float], ...]:
    """Return the coordinates (epsilon, median) of points, by increasing epsilon."""
    return tuple(sorted((point.variant.epsilon, point.median) for point in points))


def _range(metric: str, heights: Iterable[float]) -> tuple[float, float]:
    """Return the range of all values, with a margin, also if all are equal. The range of a share stays within 0 and 1."""
    values = list(heights) or [0.0, 1.0]
    # The last two terms are margins for values that are all equal, or all 0.
    margin = max(VERTICAL_MARGIN * (max(values) - min(values)), 1e-3 * max(map(abs, values)), 1e-9)
    low, high = min(values) - margin, max(values) + margin
    return (max(low, 0.0), min(high, 1.0)) if metric in SHARES else (low, high)


def _chart_notes(sweep: MeasuredSweep) -> Iterable[str]:
    yield PUBLIC_TUNING
    for point in sweep.best:
        yield f"epsilon {point.variant.epsilon:g}: {point.variant.setting.label}: {point.median:.4g}"
    yield "bars: from the lowest to the highest run; gray dots: medians of the other settings"
    if sweep.plan.sweep.reference is not None:
        yield "the reference without privacy is declared in the file"
    if sweep.failures:
        yield f"{len(sweep.failures)} runs failed, and are not in the picture"
