"""The shapes of a scene, the layout that all charts share (width, margins, title and notes), and the colour palettes.

A *scene* is a picture whose layout is done: scene.py makes it, and svg.py and png.py paint its shapes in the order of the fields of
`Scene`, without moving any. A shape has a *tone*, the role of a colour: a `Tone` of chart.py for data, and an `OtherTone` for everything
else. A palette has the colour of each. The tones and the colours of texts have a contrast of at least 4.5 to the paper (WCAG 2.1, level
AA). Coordinates are pixels, and y increases downwards. Sizes were chosen by eye.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from dpcli.document.chart import Chart, Tone
from dpcli.document.charts.labels import Box, Point, wrap
from dpcli.document.document import visible

# Roles of colours other than those of `Tone`: texts, lines of the grid, axes, paper, and squares without a value or at a step of values.
OtherTone = Literal["text", "quiet", "grid", "axis", "paper", "empty", "step0", "step1", "step2", "step3", "step4", "step5"]
# Colours of the squares of a grid, from small to large values. Larger values are darker on light paper, and lighter on dark paper.
STEPS: tuple[OtherTone, ...] = ("step0", "step1", "step2", "step3", "step4", "step5")

WIDTH = 800.0  # pixels
MARGIN = 24.0  # pixels
TITLE, TEXT, SMALL = 18.0, 13.0, 12.0  # font sizes in pixels
INNER = WIDTH - 2.0 * MARGIN  # width, in pixels, of the picture without its margins
LEADING = 1.4  # distance of text lines relative to the font size


@dataclass(frozen=True, slots=True)
class Stroke:
    """A polyline."""

    points: tuple[Point, ...]
    tone: Tone | OtherTone
    width: float
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Fill:
    """A filled polygon.

    opacity: opacity from 0 to 1.
    title: text that is shown on hover.
    """

    points: tuple[Point, ...]
    tone: Tone | OtherTone
    opacity: float
    title: str = ""


@dataclass(frozen=True, slots=True)
class Dot:
    """A filled circle.

    at: centre.
    edge: width of the outline in the colour of the paper, which separates the circle from a line below it.
    """

    at: Point
    radius: float
    tone: Tone | OtherTone
    edge: float = 2.0


@dataclass(frozen=True, slots=True)
class Words:
    """A line of text.

    at: point on the baseline, at the start, middle or end of the text, as `anchor` states.
    halo: whether the text has an outline in the colour of the paper.
    """

    at: Point
    text: str
    size: float
    tone: Tone | OtherTone = "text"
    anchor: Literal["start", "middle", "end"] = "start"
    bold: bool = False
    halo: bool = False


@dataclass(slots=True)
class Scene:
    """The shapes of a picture. They are painted in the order of the fields, and later shapes cover earlier ones."""

    width: float
    height: float
    grid: list[Stroke] = field(default_factory=list)
    fills: list[Fill] = field(default_factory=list)
    strokes: list[Stroke] = field(default_factory=list)
    dots: list[Dot] = field(default_factory=list)
    words: list[Words] = field(default_factory=list)


def head(scene: Scene, chart: Chart) -> float:
    """Add the title and the subtitle of a chart, and return their lower edge."""
    y = MARGIN + TITLE * 0.8
    scene.words.append(Words((MARGIN, y), visible(chart.title), TITLE, bold=True))
    lines = wrap(visible(chart.subtitle), TEXT, INNER)
    for i, line in enumerate(lines):
        scene.words.append(Words((MARGIN, y + 8.0 + LEADING * TEXT * (i + 1)), line, TEXT, "quiet"))
    return MARGIN + TITLE + 6.0 + LEADING * TEXT * len(lines)


def foot(scene: Scene, chart: Chart, y: float) -> float:
    """Add the notes of a chart from `y` downwards, and return their lower edge."""
    for note in chart.notes:
        for line in wrap(visible(note), SMALL, INNER):
            scene.words.append(Words((MARGIN, y), line, SMALL, "quiet"))
            y += LEADING * SMALL
        y += 4.0
    return y


def corners(box: Box) -> tuple[Point, ...]:
    """Return the corners of a box, clockwise from the upper left one."""
    return (box.left, box.top), (box.right, box.top), (box.right, box.bottom), (box.left, box.bottom)


# Colours on light paper, on dark paper, and in a terminal (parameters of ANSI escape sequences).
LIGHT: dict[Tone | str, str] = {
    Tone.MAIN: "#005f9e",
    Tone.SECOND: "#b84700",
    Tone.THIRD: "#00705a",
    Tone.FOURTH: "#9c3d74",
    Tone.FIFTH: "#6a5a00",
    Tone.MUTED: "#6b7178",
    Tone.LIMIT: "#8a1c1c",
    "text": "#1b1f24",
    "quiet": "#565d66",
    "grid": "#e6e8eb",
    "axis": "#8b929a",
    "paper": "#ffffff",
    "empty": "#cfd4da",
    "step0": "#d3e6f5",
    "step1": "#a3cbe8",
    "step2": "#6aa8d6",
    "step3": "#2f74ab",
    "step4": "#1a4f82",
    "step5": "#0b2545",
}
DARK: dict[Tone | str, str] = {
    Tone.MAIN: "#6cb8f0",
    Tone.SECOND: "#ff9a57",
    Tone.THIRD: "#3fcfa8",
    Tone.FOURTH: "#eba0c8",
    Tone.FIFTH: "#e2cf4a",
    Tone.MUTED: "#9aa2ab",
    Tone.LIMIT: "#ff8080",
    "text": "#e8eaed",
    "quiet": "#a9b1ba",
    "grid": "#2c3138",
    "axis": "#727a84",
    "paper": "#15181c",
    "empty": "#444b54",
    "step0": "#1b3853",
    "step1": "#244f75",
    "step2": "#2f6a97",
    "step3": "#5b9fd4",
    "step4": "#94c8f0",
    "step5": "#e3f3ff",
}
TERMINAL: dict[Tone, str] = {
    Tone.MAIN: "34;1",
    Tone.SECOND: "33",
    Tone.THIRD: "36",
    Tone.FOURTH: "35",
    Tone.FIFTH: "32",
    Tone.MUTED: "2",
    Tone.LIMIT: "31",
}


def style_class(tone: Tone | str) -> str:
    """Return the name of a colour's class in the style sheet of an svg: Tone.MAIN -> "main", "grid" -> "grid"."""
    return tone if isinstance(tone, str) else tone.name.lower()
