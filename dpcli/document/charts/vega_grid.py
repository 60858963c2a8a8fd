"""A grid of squares as layers of vega-lite."""

from __future__ import annotations

from typing import Any

from dpcli.document.chart import Grid
from dpcli.document.charts.colours import LIGHT
from dpcli.document.charts.shapes import STEPS
from dpcli.document.document import visible


def grid_layers(grid: Grid) -> list[dict[str, Any]]:
    """Rectangles by step, what is hatched and what is marked on them, and the headings."""
    words = [grid.empty, *(text for _, text in grid.steps)]
    place = {
        "x": {"field": "column", "type": "ordinal", "axis": None, "sort": "ascending"},
        "y": {"field": "row", "type": "ordinal", "axis": None, "sort": "ascending"},
    }
    colour = {
        "field": "step",
        "type": "nominal",
        "title": None,
        "scale": {"domain": words, "range": [LIGHT["empty"], *(LIGHT[step] for step in STEPS[: len(grid.steps)])]},
    }
    squares = [
        {
            grid.what: visible(square.label),
            "column": square.column,
            "row": square.row,
            "value": square.value,
            "said": visible(square.said),
            "closed": square.closed,
            "marked": grid.marked(square),
            "step": grid.empty if square.value is None else grid.steps[grid.step(square.value)][1],
        }
        for square in grid.squares
    ]
    headings = [{"text": visible(h.text), "column": h.column, "row": h.row} for h in grid.headings]
    tip = [{"field": grid.what, "type": "nominal"}, {"field": "said", "type": "nominal"}]
    return [
        {
            "name": "squares",
            "data": {"values": squares},
            "mark": {"type": "rect", "stroke": LIGHT["paper"]},
            "encoding": {**place, "color": colour, "tooltip": tip},
        },
        *(
            {
                "name": name,
                "data": {"values": [square for square in squares if square[name]]},
                "mark": {"type": "text", "text": sign, "color": LIGHT["axis"], "fontWeight": "bold"},
                "encoding": place,
            }
            for name, sign in (("closed", "///"), ("marked", "●"))
        ),
        {
            "name": "headings",
            "data": {"values": headings},
            "mark": {"type": "text", "align": "left", "color": LIGHT["quiet"]},
            "encoding": {**place, "text": {"field": "text", "type": "nominal"}},
        },
    ]
