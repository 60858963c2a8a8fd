"""The name of a region is placed within the region, in every picture: outside of it, it would say the opposite (charts/labels.py)."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator

import numpy as np
import pytest

from dpcli.document.chart import Axis, Band, Chart, Line, Marker, Points, Tone
from dpcli.document.charts import terminal as chart_terminal
from dpcli.document.charts.labels import Box, place_within, text_width
from dpcli.document.charts.scene import SMALL, scene

NAME = "wholly ruled out"  # words that no other label has


def trade_off(epsilon: float, delta: float, points: int = 60) -> Points:
    alphas = np.linspace(0.0, 1.0, points)
    falls = np.maximum(1.0 - delta - math.exp(epsilon) * alphas, math.exp(-epsilon) * (1.0 - delta - alphas))
    return tuple(zip(alphas.tolist(), np.maximum(falls, 0.0).tolist(), strict=True))


def made(seed: int) -> Chart:
    """A trade-off curve, a dashed one, a marker, and the region below: some steep, some flat, some too small for any word."""
    rng = random.Random(seed)
    curve = trade_off(rng.choice((0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 9.0)), rng.choice((0.0, 1e-5, 0.3)))
    other = trade_off(rng.uniform(0.0, 5.0), 0.0)
    axis = Axis("false positive rate", 0.0, 1.0), Axis("false negative rate", 0.0, 1.0)
    lines = (Line("one curve", curve), Line("another, by itself", other, Tone.THIRD, True), Line("none", ((0.0, 1.0), (1.0, 0.0))))
    markers = (Marker("here", rng.random(), rng.random()),) if rng.random() < 0.5 else ()
    band = Band(NAME, tuple((x, 0.0) for x, _ in curve), curve)
    return Chart("k", "t", "s", *axis, lines=lines, bands=(band,), markers=markers)


def between(seed: int) -> Chart:
    """A band between two curves that do not share their x, on log axes."""
    rng = random.Random(seed)
    middle = [(10.0**u, 10.0 ** (u * rng.uniform(-1.0, 1.0))) for u in np.linspace(0.0, 2.0, 30).tolist()]
    wide = rng.choice((1.05, 1.5, 4.0))
    lower, upper = tuple((x * 1.01, y / wide) for x, y in middle), tuple((x, y * wide) for x, y in middle)
    axes = Axis("x", 1.0, 101.0, "log"), Axis("y", 1e-3, 1e3, "log")
    return Chart("k", "t", "s", *axes, lines=(Line("line", tuple(middle)),), bands=(Band(NAME, lower, upper),))


def contained(chart: Chart, band: Band, corners: Iterator[tuple[float, float]]) -> bool:
    """Whether points in shares of the axes lie in a band, by winding numbers; its border counts."""
    polygon = np.array([(chart.x.share(x), chart.y.share(y)) for x, y in (*band.lower, *reversed(band.upper))])
    return all(_winds(polygon, np.array(corner)) for corner in corners)


def _winds(polygon: np.ndarray, point: np.ndarray) -> bool:
    start = polygon - point
    end = np.roll(start, -1, axis=0)
    along = end - start
    squared = np.maximum((along**2).sum(axis=1), 1e-300)
    nearest = start + along * np.clip(-(start * along).sum(axis=1) / squared, 0.0, 1.0)[:, None]
    if np.hypot(*nearest.T).min() < 2e-3:
        return True
    turns = np.arctan2(start[:, 0] * end[:, 1] - start[:, 1] * end[:, 0], (start * end).sum(axis=1)).sum()
    return abs(turns) > math.pi


def words_within(chart: Chart, band: Band, width: int, encoding: str) -> int:
    """How many words of a band's name the terminal shows, each of them found to be within the band."""
    lines = chart_terminal.render(chart, width=width, encoding=encoding).split("\n")
    foot = next(i for i, line in enumerate(lines) if re.match(r" *[└+][─-]{5}", line))
    left = re.search("[└+]", lines[foot])
    assert left is not None
    columns, seen = len(lines[foot].strip()) - 1, 0
    for row, line in enumerate(lines[foot - chart_terminal.ROWS : foot]):
        for word in (word for word in band.label.split() if word != "no"):  # another label has that one
            for found in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", line):
                start, end = found.start() - left.start() - 1, found.end() - left.start() - 1
                corners = [
                    (x / (columns - 0.01), 1.0 - y / (chart_terminal.ROWS - 0.01)) for x in (start, end) for y in (row, row + 1)
                ]
                assert contained(chart, band, iter(corners)), (width, line)
                seen += 1
    return seen


def svg_within(chart: Chart, band: Band) -> int:
    """The same in what svg, png and vega-lite draw."""
    found, seen = scene(chart), 0
    (left, top), (_, bottom), (right, _), *_ = found.grid[-1].points
    for words in found.words:
        x, y = words.at
        if words.text in band.label and words.tone == "quiet" and len(words.text) > 3 and top <= y <= bottom and x > left:
            edges = (x, x + 0.8 * text_width(words.text, SMALL)), (y - 0.7 * SMALL, y)
            corners = [((a - left) / (right - left), (bottom - b) / (bottom - top)) for a in edges[0] for b in edges[1]]
            assert contained(chart, band, iter(corners)), words
            seen += 1
    return seen


@pytest.mark.sampled(0, 3)
@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("make", [made, between])
def test_a_name_is_within_its_region(make: type[Chart], seed: int) -> None:
    chart = make(seed)  # type: ignore[call-arg, arg-type]
    for width in random.Random(seed).sample(range(40, 201), 4):
        assert words_within(chart, chart.bands[0], width, "utf-8" if width % 2 else "ascii") in (0, len(NAME.split()))
    svg_within(chart, chart.bands[0])


def test_where_there_is_no_room_nothing_is_placed() -> None:
    thin = ((0.0, 0.0), (100.0, 0.0), (100.0, 5.0), (0.0, 5.0))
    frame = Box(0.0, 0.0, 100.0, 100.0)
    size = {1: (40.0, 10.0), 2: (20.0, 20.0)}
    assert place_within(thin, "two words", lambda block: size[len(block)], (1.0, 1.0), frame, [], []) is None
    tall = ((0.0, 0.0), (30.0, 0.0), (30.0, 90.0), (0.0, 90.0))
    placed = place_within(tall, "two words", lambda block: size[len(block)], (1.0, 1.0), frame, [], [])
    assert placed is not None and placed.block == ("two", "words")
    assert place_within(tall, "two words", lambda block: size[len(block)], (1.0, 1.0), frame, [frame], []) is None
