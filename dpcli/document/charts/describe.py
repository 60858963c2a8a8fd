"""A chart in words, for readers who cannot see the picture.

A screen reader speaks this text in place of an svg, which has it as its <desc>; png stores it as metadata and vega-lite as its description.
All that it says is read from the `Chart` (chart.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from dpcli.document.chart import Chart, Grid, Line
from dpcli.document.document import visible

NAMED_SQUARES = 5  # number of squares of a grid that are named, those with the largest values, so that the text stays short


def describe(chart: Chart) -> str:
    """Return a description as sentences: subtitle, axes, ends of each line, labels of markers, bars and spans, and notes.

    Bands and clouds are left out. Of a grid, it has the number of squares of each kind and the largest values, but no axes.
    """
    if chart.grid is not None:
        return visible(". ".join((chart.subtitle, *_grid(chart.grid), *chart.notes)) + ".")
    parts = [
        chart.subtitle,
        f"across: {chart.x.title}; upwards: {chart.y.title}",
        *(_line(chart, line) for line in chart.lines),
        *(marker.label for marker in chart.markers),
        *(f"{bar.name}: {bar.label}" for bar in chart.bars),
        *(f"{span.label} at {span.x:.4g}: {span.low:.3g} to {span.high:.3g}" for span in chart.spans),
        *chart.notes,
    ]
    return visible(". ".join(parts) + ".")


def _grid(grid: Grid) -> Iterator[str]:
    """Yield the number of squares of each kind, and the largest values."""
    valued = [square for square in grid.squares if square.value is not None]
    count_of_step = Counter(grid.step(square.value or 0.0) for square in valued)
    counts = [(count_of_step[index], words) for index, (_, words) in enumerate(grid.steps)]
    counts.append((len(grid.squares) - len(valued), grid.empty))
    counts.append((sum(square.closed for square in grid.squares), grid.closed))
    kinds = ", ".join(f"{count} {words}" for count, words in counts if count)
    yield f"{len(grid.squares)} squares, each a {grid.what}: {kinds}"
    largest = sorted(valued, key=lambda square: -(square.value or 0.0))[:NAMED_SQUARES]
    if largest:
        yield "the largest values: " + ", ".join(f"{square.label} {square.printed}" for square in largest)


def _line(chart: Chart, line: Line) -> str:
    """Return a line in words, by its two ends."""
    (x0, y0), (x1, y1) = line.points[0], line.points[-1]
    start, end = chart.x.words(x0, ".4g"), chart.x.words(x1, ".4g")
    return f"{line.label}: from about ({start}, {y0:.3g}) to about ({end}, {y1:.3g})"
