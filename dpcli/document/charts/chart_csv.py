"""csv: one row for each point of a chart, with series, x and y. Numbers are not rounded.

It is for readers who want to draw the picture themselves. A *series* is a line, a *cloud* (points without labels), a marker, or an edge of
a *band* (the area between two curves) or of a *span* (a vertical interval at one x). A chart of bars or a grid has one row for each bar or
square instead.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from dpcli.document.chart import Chart, Points
from dpcli.document.document import safe


def render(chart: Chart, **_terminal_settings: object) -> str:
    """Return the chart as RFC 4180 csv with a header line, such as "series,steps,epsilon"."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerows(_rows(chart))
    return out.getvalue()


def _rows(chart: Chart) -> Iterator[tuple[str, ...]]:
    if chart.grid is not None:
        yield chart.grid.what, "value", "closed"
        for square in chart.grid.squares:
            yield safe(square.label), "" if square.value is None else repr(square.value), str(square.closed).lower()
    elif chart.bars:
        yield chart.y.label, chart.x.label
        for bar in chart.bars:
            yield safe(bar.name), repr(bar.value)
    else:
        yield "series", chart.x.label, chart.y.label
        for name, points in _series(chart):
            for x, y in points:
                yield safe(name), chart.x.words(x), chart.y.words(y)


def _series(chart: Chart) -> Iterator[tuple[str, Points]]:
    """Yield the name and the points of each series. A band is two series, "NAME, lower" and "NAME, upper", and so is a span."""
    for line in chart.lines:
        yield line.label, line.points
    for band in chart.bands:
        yield f"{band.label}, lower", band.lower
        yield f"{band.label}, upper", band.upper
    for span in chart.spans:
        yield f"{span.label}, lower", ((span.x, span.low),)
        yield f"{span.label}, upper", ((span.x, span.high),)
    for cloud in chart.clouds:
        yield cloud.label, cloud.points
    for marker in chart.markers:
        yield marker.label, ((marker.x, marker.y),)
