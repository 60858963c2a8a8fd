"""vega-lite: a specification of version 5 that contains the data, for notebooks and web pages.

Vega-Lite is a language for pictures in JSON: a picture is a list of *layers*, each with data, a *mark* that is drawn for each row of them,
and an *encoding* of fields as positions and colours. Vega-Lite lays out axes and legends itself, but the labels inside a plot are placed by
scene.py, because it would let them cover each other. Ticks and colours are those of the other formats; sizes were chosen by eye.
"""

from __future__ import annotations

import json
from typing import Any

from dpcli.document.chart import Axis, Chart, Grid, Line, Points, Square, Tone
from dpcli.document.charts.describe import describe
from dpcli.document.charts.scene import labels
from dpcli.document.charts.shapes import LIGHT, STEPS, Words
from dpcli.document.charts.ticks import MOST_TICKS, ticks
from dpcli.document.document import visible

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
WIDTH, HEIGHT = 640, 340  # pixels of the plot, without axes and title
BAR_HEIGHT = 30  # least height for one bar, in pixels, so that a plot of many bars is taller
CLOUD_AREA, MARKER_AREA = 40, 90  # areas of a point of a cloud and of a marker, in square pixels
ALIGN = {"start": "left", "middle": "center", "end": "right"}  # Vega-Lite's word for each anchor of `Words`

# The encoding of the place of a square or a heading.
GRID_PLACE = {
    "x": {"field": "column", "type": "ordinal", "axis": None, "sort": "ascending"},
    "y": {"field": "row", "type": "ordinal", "axis": None, "sort": "ascending"},
}

Layer = dict[str, Any]  # a Vega-Lite object: a layer, or a part of one


def render(chart: Chart, **_terminal_settings: object) -> str:
    """Return the specification of a chart as JSON text. The notes are not drawn; they are in `usermeta`."""
    spec = {
        "$schema": SCHEMA,
        "title": {"text": visible(chart.title), "subtitle": visible(chart.subtitle), "anchor": "start"},
        "description": describe(chart),
        "usermeta": {"dpcli": {"kind": chart.kind, "notes": [visible(note) for note in chart.notes]}},
        "width": WIDTH,
        "height": max(HEIGHT, BAR_HEIGHT * len(chart.bars)),
        "config": {"view": {"stroke": None}, "axis": {"gridColor": LIGHT["grid"], "titleFontWeight": "normal"}},
        "layer": _layers(chart) if chart.grid is None else _grid_layers(chart.grid),
    }
    return json.dumps(spec, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _layers(chart: Chart) -> list[Layer]:
    """Return the layers of a plot. Later layers cover earlier ones. A plot with bars has its labels at the bars, and no others."""
    layers = [*_bands(chart), *_spans(chart)]
    layers += [_dots(chart, cloud.label, cloud.points, cloud.tone, CLOUD_AREA) for cloud in chart.clouds]
    layers += [*_lines(chart), *_bars(chart)]
    layers += [_dots(chart, marker.label, ((marker.x, marker.y),), marker.tone, MARKER_AREA) for marker in chart.markers]
    return layers if chart.bars else [*layers, *(_text(words) for words in labels(chart, WIDTH, HEIGHT))]


def _channel(axis: Axis, field: str) -> Layer:
    """Return the encoding of a field of the data as positions along an axis, with the ticks of the other formats."""
    values = [value for value, _ in ticks(axis, MOST_TICKS)]
    scale = {"type": axis.scale, "domain": [axis.low, axis.high], "nice": False}
    if axis.scale == "linear":  # other scales have no zero to include or not
        scale["zero"] = False
    kind = "temporal" if axis.scale == "utc" else "quantitative"  # Vega-Lite's times are in ms, too
    return {"field": field, "type": kind, "title": axis.title, "scale": scale, "axis": {"values": values}}


def _point_encoding(chart: Chart) -> Layer:
    """Return the encoding of the fields x and y of the data as positions."""
    return {"x": _channel(chart.x, "x"), "y": _channel(chart.y, "y")}


def _values(points: Points) -> Layer:
    """Return points as data. `order` is the order in which lines join them; without it Vega-Lite sorts by x."""
    return {"values": [{"x": x, "y": y, "order": i} for i, (x, y) in enumerate(points)]}


def _path_encoding(chart: Chart) -> Layer:
    """Return the encoding of points that are joined in their order."""
    return {**_point_encoding(chart), "order": {"field": "order", "type": "quantitative"}}


def _bands(chart: Chart) -> list[Layer]:
    """Return a layer for each band: a polygon along its lower edge and back along its upper one."""
    return [
        {
            "name": f"band{i}",
            "description": visible(band.label),
            "data": _values((*band.lower, *reversed(band.upper))),
            "mark": {"type": "line", "filled": True, "fill": LIGHT[band.tone], "fillOpacity": 0.13, "strokeOpacity": 0.0},
            "encoding": _path_encoding(chart),
        }
        for i, band in enumerate(chart.bands)
    ]


def _lines(chart: Chart) -> list[Layer]:
    return [
        {
            "name": f"line{i}",
            "description": visible(line.label),
            "data": _values(line.points),
            "mark": _line_mark(line),
            "encoding": _path_encoding(chart),
        }
        for i, line in enumerate(chart.lines)
    ]


def _line_mark(line: Line) -> Layer:
    mark = {"type": "line", "color": LIGHT[line.tone], "strokeWidth": 2, "tooltip": True, "clip": True}
    return {**mark, "strokeDash": [6, 4]} if line.dashed else mark


def _spans(chart: Chart) -> list[Layer]:
    """Return a layer for each span: a vertical line from its low to its high end."""
    return [
        {
            "description": visible(span.label),
            "data": {"values": [{"x": span.x, "y": span.low, "high": span.high}]},
            "mark": {"type": "rule", "color": LIGHT[span.tone], "strokeWidth": 1.6, "tooltip": True},
            "encoding": {**_point_encoding(chart), "y2": {"field": "high"}},
        }
        for span in chart.spans
    ]


def _dots(chart: Chart, label: str, points: Points, tone: Tone, area: int) -> Layer:
    """Return a layer of filled circles of this area, in square pixels."""
    return {
        "description": visible(label),
        "data": _values(points),
        "mark": {"type": "point", "filled": True, "size": area, "opacity": 1.0, "tooltip": True, "color": LIGHT[tone]},
        "encoding": _point_encoding(chart),
    }


def _text(words: Words) -> Layer:
    """Return a layer with one label at its place in pixels, instead of at values on the axes."""
    x, y = words.at
    return {
        "data": {"values": [{}]},  # one row, because a layer draws its mark once for each row
        "mark": {
            "type": "text",
            "text": words.text,
            "align": ALIGN[words.anchor],
            "baseline": "alphabetic",
            "color": LIGHT[words.tone],
            "fontSize": words.size,
            "fontWeight": "bold" if words.bold else "normal",
        },
        "encoding": {"x": {"value": round(x, 1)}, "y": {"value": round(y, 1)}},
    }


def _bars(chart: Chart) -> list[Layer]:
    """Return one layer with all bars and the labels at their ends; no layer without bars. The bar with the largest position is on top."""
    if not chart.bars:
        return []
    values = [
        {"name": visible(bar.name), "value": bar.value, "low": chart.x.low, "label": bar.label, "color": LIGHT[bar.tone]}
        for bar in sorted(chart.bars, key=lambda bar: -bar.position)
    ]
    y = {"field": "name", "type": "nominal", "title": chart.y.title, "sort": None}  # in the order of the data
    x = _channel(chart.x, "value")
    bars: Layer = {
        "mark": {"type": "bar", "tooltip": True},
        "encoding": {"x": x, "x2": {"field": "low"}, "y": y, "color": {"field": "color", "type": "nominal", "scale": None}},
    }
    bar_labels: Layer = {
        "mark": {"type": "text", "align": "left", "dx": 5},
        "encoding": {"x": x, "y": y, "text": {"field": "label", "type": "nominal"}},
    }
    return [{"data": {"values": values}, "layer": [bars, bar_labels]}]


def _grid_layers(grid: Grid) -> list[Layer]:
    """Return the layers of a grid: squares coloured by step, signs on closed and marked squares, and headings."""
    squares = [_square_data(square, grid) for square in grid.squares]
    headings = [{"text": visible(heading.text), "column": heading.column, "row": heading.row} for heading in grid.headings]
    tooltip = [{"field": grid.what, "type": "nominal"}, {"field": "said", "type": "nominal"}]
    return [
        {
            "name": "squares",
            "data": {"values": squares},
            "mark": {"type": "rect", "stroke": LIGHT["paper"]},
            "encoding": {**GRID_PLACE, "color": _step_colours(grid), "tooltip": tooltip},
        },
        _signs("closed", "///", squares),
        _signs("marked", "●", squares),
        {
            "name": "headings",
            "data": {"values": headings},
            "mark": {"type": "text", "align": "left", "color": LIGHT["quiet"]},
            "encoding": {**GRID_PLACE, "text": {"field": "text", "type": "nominal"}},
        },
    ]


def _square_data(square: Square, grid: Grid) -> dict[str, Any]:
    """Return the row of data of a square. `step` is the description of its step, by which it is coloured. "said" has its value in words."""
    step = grid.empty
    if square.value is not None:
        _least_value, step = grid.steps[grid.step(square.value)]
    return {
        grid.what: visible(square.label),
        "column": square.column,
        "row": square.row,
        "value": square.value,
        "said": visible(square.printed),
        "closed": square.closed,
        "marked": grid.marked(square),
        "step": step,
    }


def _step_colours(grid: Grid) -> Layer:
    """Return the encoding of the colours of squares: one for squares without a value, and one for each step."""
    descriptions = [grid.empty, *(text for _, text in grid.steps)]
    colours = [LIGHT["empty"], *(LIGHT[step] for step in STEPS[: len(grid.steps)])]
    return {"field": "step", "type": "nominal", "title": None, "scale": {"domain": descriptions, "range": colours}}


def _signs(name: str, sign: str, squares: list[dict[str, Any]]) -> Layer:
    """Return the layer that writes a sign on each square whose field `name`, "closed" or "marked", is true."""
    return {
        "name": name,
        "data": {"values": [square for square in squares if square[name]]},
        "mark": {"type": "text", "text": sign, "color": LIGHT["axis"], "fontWeight": "bold"},
        "encoding": GRID_PLACE,
    }
