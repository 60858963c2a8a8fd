"""The shapes of a scene, in pixels, y downwards, and the sheet of every chart: width, margins, title and notes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from dpcli.document.chart import Tone
from dpcli.document.charts.labels import Point

Ink = Literal["text", "quiet", "grid", "axis", "paper", "empty", "step0", "step1", "step2", "step3", "step4", "step5"]
STEPS: tuple[Ink, ...] = ("step0", "step1", "step2", "step3", "step4", "step5")  # from little to much: darker on light paper


@dataclass(frozen=True, slots=True)
class Stroke:
    """A polyline."""

    points: tuple[Point, ...]
    tone: Tone | Ink
    width: float
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Fill:
    """A polygon, more or less transparent. title: the words shown on hover."""

    points: tuple[Point, ...]
    tone: Tone | Ink
    opacity: float
    title: str = ""


@dataclass(frozen=True, slots=True)
class Dot:
    """A filled circle. edge: the width of its edge in the colour of the paper, which keeps it apart from a line below."""

    at: Point
    radius: float
    tone: Tone | Ink
    edge: float = 2.0


@dataclass(frozen=True, slots=True)
class Words:
    """A line of text; `at` is the end that `anchor` names, on the baseline. halo: an edge in the colour of the paper."""

    at: Point
    text: str
    size: float
    tone: Tone | Ink = "text"
    anchor: Literal["start", "middle", "end"] = "start"
    bold: bool = False
    halo: bool = False


@dataclass(slots=True)
class Scene:
    """Shapes to paint, in this order."""

    width: float
    height: float
    grid: list[Stroke] = field(default_factory=list)
    fills: list[Fill] = field(default_factory=list)
    strokes: list[Stroke] = field(default_factory=list)
    dots: list[Dot] = field(default_factory=list)
    words: list[Words] = field(default_factory=list)


WIDTH = 800.0  # pixels
MARGIN = 24.0  # pixels
TITLE, TEXT, SMALL = 18.0, 13.0, 12.0  # pixels: sizes of words
LEADING = 1.4  # distance of lines relative to the size of words


def head(scene: Scene, title: str, subtitle: list[str]) -> None:
    """Add the title, and the lines of the subtitle below it."""
    y = MARGIN + TITLE * 0.8
    scene.words.append(Words((MARGIN, y), title, TITLE, bold=True))
    for i, line in enumerate(subtitle):
        scene.words.append(Words((MARGIN, y + 8.0 + LEADING * TEXT * (i + 1)), line, TEXT, "quiet"))


def foot(scene: Scene, notes: list[list[str]], y: float) -> None:
    """Add notes, each of some lines, from `y` on."""
    for lines in notes:
        for line in lines:
            scene.words.append(Words((MARGIN, y), line, SMALL, "quiet"))
            y += LEADING * SMALL
        y += 4.0
