"""frontier: the median metric of the best setting at each epsilon, from the least to the greatest of its runs, and the other settings."""

from __future__ import annotations

import math
from collections.abc import Iterable

from dpcli.document.chart import Axis, Chart, Cloud, Line, Span, Tone, log_span
from dpcli.plots.drawing import setting
from dpcli.sweep.documents.sweep import PUBLIC
from dpcli.sweep.result import MeasuredSweep

SHARES = frozenset({"accuracy"})  # metrics from 0 to 1
ROOM = 0.08  # of the height, above and below
AIR = 1.15  # a factor, on either side


def chart(sweep: MeasuredSweep) -> Chart:
    """The picture of a sweep in which a run has ended, at the certified epsilon of one run."""
    plan, best, metric = sweep.plan, sweep.best, sweep.metric
    shown = [cell for cell in best if all(map(math.isfinite, cell.values))]
    others = [cell for cell in sweep.cells if cell.values and cell not in best and math.isfinite(cell.median)]
    reference = plan.sweep.reference
    xs = log_span((epsilon for epsilon in plan.sweep.epsilon), AIR)
    heights = [value for cell in shown for value in cell.values] + [cell.median for cell in others]
    median = tuple(sorted((cell.variant.epsilon, cell.median) for cell in shown))
    runs = f"{plan.repeats} runs" if plan.repeats > 1 else "one run"
    return Chart(
        kind="frontier",
        title=f"{plan.name}: {metric} against epsilon",
        subtitle=f"one run, {setting(plan.variants[0].plan.account)}",
        x=Axis("epsilon of one run", *xs, scale="log"),
        y=Axis(f"{metric} on data declared public", *_range(metric, heights if reference is None else [*heights, reference])),
        lines=(
            *([Line(f"best setting, median of {runs}", median)] if median else []),
            *(
                [Line(f"not private: {reference:g}", ((xs[0], reference), (xs[1], reference)), Tone.MUTED, True)]
                if reference is not None
                else []
            ),
        ),
        spans=tuple(
            Span("least and greatest run", c.variant.epsilon, min(c.values), max(c.values)) for c in shown if len(c.values) > 1
        ),
        clouds=(
            *([Cloud("median of another setting", tuple((c.variant.epsilon, c.median) for c in others))] if others else []),
            *([Cloud("median of the best setting", median, Tone.MAIN)] if median else []),
        ),
        notes=tuple(_notes(sweep)),
    )


def _range(metric: str, heights: Iterable[float]) -> tuple[float, float]:
    """Around all values, with some room; shares stay within 0 and 1."""
    values = list(heights) or [0.0, 1.0]
    room = max(ROOM * (max(values) - min(values)), 1e-3 * max(map(abs, values)), 1e-9)
    low, high = min(values) - room, max(values) + room
    return (max(low, 0.0), min(high, 1.0)) if metric in SHARES else (low, high)


def _notes(sweep: MeasuredSweep) -> Iterable[str]:
    yield PUBLIC
    for cell in sweep.best:
        yield f"epsilon {cell.variant.epsilon:g}: {cell.variant.setting.label}: {cell.median:.4g}"
    yield "bars: from the least to the greatest run; gray dots: medians of the other settings"
    if sweep.plan.sweep.reference is not None:
        yield "the reference without privacy is stated in the file"
    if sweep.failures:
        yield f"{len(sweep.failures)} runs failed, and are not in the picture"
