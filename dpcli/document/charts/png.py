"""png: an image painted by matplotlib, with the layout of svg.

A *scene* is a picture whose layout is done (shapes.py). scene.py decides the positions of everything, and matplotlib only paints, on light
paper. It is an optional dependency (`pip install 'dpcli[plot]'`), so it is imported when the first png is drawn.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.document.chart import Chart
from dpcli.document.charts.describe import describe
from dpcli.document.charts.scene import scene
from dpcli.document.charts.shapes import LIGHT, Scene
from dpcli.document.document import visible

DPI = 200  # two pixels of the picture for each pixel of the scene
UNITS_PER_INCH = 100.0  # units of the scene
POINT = 72.0 / UNITS_PER_INCH  # typographic points for each unit of the scene

ANCHORS = {"start": "left", "middle": "center", "end": "right"}


def render(chart: Chart, **_terminal_settings: object) -> bytes:
    """Return a PNG image. Raises InputError if matplotlib is not installed."""
    try:
        figure_type, halo = load("matplotlib.figure:Figure"), load("matplotlib.patheffects:withStroke")
    except ImportError:
        raise InputError("png: matplotlib is not installed: pip install 'dpcli[plot]', or write an .svg") from None
    result = scene(chart)
    size = result.width / UNITS_PER_INCH, result.height / UNITS_PER_INCH
    figure = figure_type(figsize=size, dpi=DPI, facecolor=LIGHT["paper"])
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    axes.set_xlim(0.0, result.width)
    axes.set_ylim(result.height, 0.0)
    _paint(axes, result, halo)
    out = io.BytesIO()
    figure.savefig(out, format="png", metadata={"Title": visible(chart.title), "Description": describe(chart), "Software": "dpcli"})
    return out.getvalue()


def _paint(axes: Any, scene: Scene, halo: Callable[..., Any]) -> None:
    """Paint a scene. `halo` makes an outline of text: matplotlib's withStroke.

    A shape with a larger `zorder` covers others, so that these numbers give the order of the fields of `Scene`.
    """
    paper = LIGHT["paper"]
    for fill in scene.fills:
        axes.fill(*zip(*fill.points, strict=True), color=LIGHT[fill.tone], alpha=fill.opacity, linewidth=0.0, zorder=1)
    for layer, strokes in ((0, scene.grid), (2, scene.strokes)):
        for stroke in strokes:
            x, y = zip(*stroke.points, strict=True)
            dashes = (0.0, (4.0, 2.7)) if stroke.dashed else "solid"
            axes.plot(x, y, color=LIGHT[stroke.tone], linewidth=stroke.width * POINT, linestyle=dashes, zorder=layer)
    for dot in scene.dots:
        size = 2.0 * dot.radius * POINT
        axes.plot(
            *dot.at,
            marker="o",
            markersize=size,
            color=LIGHT[dot.tone],
            markeredgecolor=paper,
            markeredgewidth=0.7 * dot.edge,
            zorder=4,
        )
    for words in scene.words:
        axes.text(
            *words.at,
            words.text,
            fontsize=words.size * POINT,
            color=LIGHT[words.tone],
            ha=ANCHORS[words.anchor],
            va="baseline",
            fontweight="bold" if words.bold else "normal",
            path_effects=[halo(linewidth=3.0, foreground=paper)] if words.halo else [],
            family="DejaVu Sans",
            parse_math=False,  # a text may contain $
            zorder=5,
        )
