"""csv: one row for each point of a chart, with series, x and y. Numbers are not rounded."""

from __future__ import annotations

import csv
import io

from dpcli.document.chart import Chart
from dpcli.document.document import safe


def render(chart: Chart, **_: object) -> str:
    """Return the chart as RFC 4180 csv with a header line that names the axes.

    A band gives two series. Bars and squares give one row for each name.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    if chart.grid is not None:
        writer.writerow((chart.grid.what, "value", "closed"))
        for square in chart.grid.squares:
            writer.writerow((safe(square.label), "" if square.value is None else repr(square.value), str(square.closed).lower()))
        return out.getvalue()
    if chart.bars:
        writer.writerow((chart.y.label, chart.x.label))
        writer.writerows((safe(bar.name), repr(bar.value)) for bar in chart.bars)
        return out.getvalue()
    writer.writerow(("series", chart.x.label, chart.y.label))
    series = [(line.label, line.points) for line in chart.lines]
    for band in chart.bands:
        series += [(f"{band.label}, lower", band.lower), (f"{band.label}, upper", band.upper)]
    for span in chart.spans:
        series += [(f"{span.label}, lower", ((span.x, span.low),)), (f"{span.label}, upper", ((span.x, span.high),))]
    series += [(cloud.label, cloud.points) for cloud in chart.clouds]
    series += [(marker.label, ((marker.x, marker.y),)) for marker in chart.markers]
    writer.writerows((safe(name), repr(x), repr(y)) for name, points in series for x, y in points)
    return out.getvalue()
