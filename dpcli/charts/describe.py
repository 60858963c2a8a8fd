"""A picture in words, for those who do not see it."""

from __future__ import annotations

from dpcli.document.chart import Chart, Line
from dpcli.document.document import visible


def describe(chart: Chart) -> str:
    """Subtitle, axes, where each line starts and ends, what is marked, and the notes."""
    parts = [
        f"{chart.subtitle}",
        f"across: {chart.x.title}; upwards: {chart.y.title}",
        *(_line(line) for line in chart.lines),
        *(marker.label for marker in chart.markers),
        *(f"{bar.name}: {bar.label}" for bar in chart.bars),
        *(f"{span.label} at {span.x:.4g}: {span.low:.3g} to {span.high:.3g}" for span in chart.spans),
        *chart.notes,
    ]
    return visible(". ".join(parts) + ".")


def _line(line: Line) -> str:
    (x0, y0), (x1, y1) = line.points[0], line.points[-1]
    return f"{line.label}: from about ({x0:.4g}, {y0:.3g}) to about ({x1:.4g}, {y1:.3g})"
