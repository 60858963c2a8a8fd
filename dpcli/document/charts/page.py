"""The sheet on which a picture is laid out: its width, its margins, the title above and the notes below."""

from __future__ import annotations

from dpcli.document.charts.shapes import Scene, Words

WIDTH = 800.0
MARGIN = 24.0
TITLE, TEXT, SMALL = 18.0, 13.0, 12.0  # sizes of the words
LEADING = 1.4


def head(scene: Scene, title: str, subtitle: list[str]) -> None:
    """The title, and the lines below it."""
    y = MARGIN + TITLE * 0.8
    scene.words.append(Words((MARGIN, y), title, TITLE, bold=True))
    for i, line in enumerate(subtitle):
        scene.words.append(Words((MARGIN, y + 8.0 + LEADING * TEXT * (i + 1)), line, TEXT, "quiet"))


def foot(scene: Scene, notes: list[list[str]], y: float) -> None:
    """Notes, each of some lines, from `y` on."""
    for lines in notes:
        for line in lines:
            scene.words.append(Words((MARGIN, y), line, SMALL, "quiet"))
            y += LEADING * SMALL
        y += 4.0
