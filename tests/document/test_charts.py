"""The formats of charts (document/charts/): the structure of what they write, and that no word covers another."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from datetime import datetime, timedelta
from itertools import combinations, pairwise
from random import Random
from unittest import mock

import pytest

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import CHART_FORMATS, PLOTS
from dpcli.document.chart import SERIES, Axis, Band, Bar, Chart, Line, Marker, Tone, date_of, moment
from dpcli.document.charts import chart_csv
from dpcli.document.charts import png as chart_png
from dpcli.document.charts import svg as chart_svg
from dpcli.document.charts import terminal as chart_terminal
from dpcli.document.charts import vega as chart_vega
from dpcli.document.charts.labels import Box, inside, spread, text_width, wrap
from dpcli.document.charts.scene import scene
from dpcli.document.charts.shapes import DARK, LIGHT, TERMINAL
from dpcli.document.charts.ticks import ticks
from dpcli.plots.drawing import draw
from dpcli.plots.epsilons import Question
from tests.cases import fresh_random, of_each
from tests.document.drawn import SVG, boxes, luminance
from tests.plots.samples import GAUSSIAN, pipeline

CURVES = tuple(
    Line(f"line {i}", tuple((x / 10.0, (x / 10.0) ** (i + 1)) for x in range(11)), tone) for i, tone in enumerate(SERIES[:3])
)
PLAIN = Chart(
    "sample",
    "a <title> & more",
    "per user, add-remove, delta = 1e-05, sampling: none",
    Axis("steps", 0.0, 1.0),
    Axis("epsilon", 0.0, 1.0, unit="nats"),
    lines=CURVES,
    bands=(Band("between", CURVES[1].points, CURVES[0].points),),
    markers=(Marker("here \x1b[31m", 0.5, 0.5),),
    notes=("one", "two " * 60),
)


@pytest.fixture(scope="module", params=PLOTS)
def chart(request: pytest.FixtureRequest) -> Chart:
    return draw(request.param, Question(pipeline(GAUSSIAN)))


def test_every_format_is_a_file_with_a_line_about_itself() -> None:
    for name, target in CHART_FORMATS.items():
        assert callable(load(target))
        assert sys.modules[target.partition(":")[0]].__doc__.startswith(f"{name}: ")  # type: ignore[union-attr]


def test_every_tone_has_a_colour_that_can_be_read() -> None:
    for palette in (LIGHT, DARK):
        assert {*Tone} <= set(palette)
        paper = luminance(palette["paper"])
        for tone in (*Tone, "text", "quiet"):
            light, dark = sorted((luminance(palette[tone]), paper), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, tone  # WCAG 2.1, level AA
    assert set(TERMINAL) == {*Tone}


@pytest.mark.sampled(2)
def test_svg_is_a_self_contained_document_with_a_title(chart: Chart) -> None:
    text = chart_svg.render(chart)
    root = ElementTree.fromstring(text)
    assert root.find(f"{SVG}title").text == chart.title  # type: ignore[union-attr]
    assert chart.subtitle in (root.find(f"{SVG}desc").text or "")  # type: ignore[union-attr]
    words = [element.text or "" for element in root.iter(f"{SVG}text")]
    assert chart.x.title in words and chart.y.title in words
    assert not re.search(r"\b(nan|inf)\b", text, re.I)
    assert not re.search(r"https?://(?!www\.w3\.org)", text)
    assert "prefers-color-scheme: dark" in text


def test_svg_escapes_what_it_is_given() -> None:
    text = chart_svg.render(PLAIN)
    ElementTree.fromstring(text)
    assert "a &lt;title&gt; &amp; more" in text
    assert "\x1b" not in text


@pytest.mark.sampled(2)
def test_no_word_covers_another(chart: Chart) -> None:
    assert_apart(chart)


def assert_apart(chart: Chart) -> None:
    found = scene(chart)
    covered = boxes(found.words)
    for left, right in combinations(range(len(covered)), 2):
        assert not covered[left].overlaps(covered[right]), (found.words[left].text, found.words[right].text)
    for box in covered:
        assert box.within(Box(0.0, 0.0, found.width, found.height))


def test_csv_is_the_series(chart: Chart) -> None:
    rows = list(csv.reader(io.StringIO(chart_csv.render(chart))))
    if chart.bars:
        assert rows[0] == [chart.y.label, chart.x.label]
        assert [(name, float(value)) for name, value in rows[1:]] == [(bar.name, bar.value) for bar in chart.bars]
        return
    assert rows[0] == ["series", chart.x.label, chart.y.label]
    for line in chart.lines:
        assert tuple((float(x), float(y)) for name, x, y in rows[1:] if name == line.label) == line.points


@pytest.mark.long
def test_vega_lite_has_a_layer_for_everything(chart: Chart) -> None:
    spec = json.loads(chart_vega.render(chart))
    assert spec["$schema"] == "https://vega.github.io/schema/vega-lite/v5.json"
    assert spec["title"]["text"] == chart.title
    assert spec["title"]["subtitle"] == chart.subtitle
    assert spec["usermeta"]["dpcli"]["notes"] == list(chart.notes)
    layers = {layer.get("name"): layer for layer in spec["layer"]}
    for i, line in enumerate(chart.lines):
        layer = layers[f"line{i}"]
        assert tuple((row["x"], row["y"]) for row in layer["data"]["values"]) == line.points
        for axis, channel in ((chart.x, "x"), (chart.y, "y")):
            assert layer["encoding"][channel]["scale"]["type"] == axis.scale
            assert layer["encoding"][channel]["title"] == axis.title
    if chart.bars:
        values = spec["layer"][0]["data"]["values"]
        assert sorted(row["value"] for row in values) == sorted(bar.value for bar in chart.bars)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("width", [40, 72, 100, 160])
def test_terminal_keeps_to_its_width(chart: Chart, width: int) -> None:
    text = chart_terminal.render(chart, width=width)
    lines = text.split("\n")
    assert max(len(line) for line in lines) <= width
    assert "\x1b" not in text
    assert any(chart.x.title in line for line in lines)
    assert not any(line.endswith(" ") for line in lines)


@pytest.mark.sampled(2)
def test_terminal_falls_back_to_ascii(chart: Chart) -> None:
    assert chart_terminal.render(chart, encoding="ascii").isascii()
    assert not chart_terminal.render(chart, encoding="utf-8").isascii()
    assert chart_terminal.render(chart, encoding="latin-1").isascii()


@pytest.mark.long
def test_terminal_color_only_where_asked() -> None:
    assert "\x1b[" in chart_terminal.render(PLAIN, color=True)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", chart_terminal.render(PLAIN, color=True))
    assert plain == chart_terminal.render(PLAIN)
    assert "\x1b" not in chart_terminal.render(PLAIN)


def test_png_without_matplotlib_says_what_to_install() -> None:
    with mock.patch.dict(sys.modules, {"matplotlib.figure": None}), pytest.raises(InputError, match=r"pip install 'dpcli\[plot\]'"):
        chart_png.render(PLAIN)


@pytest.mark.long
def test_png_is_one(chart: Chart) -> None:
    pytest.importorskip("matplotlib", reason="the plot extra is not installed")
    assert chart_png.render(chart).startswith(b"\x89PNG")


@of_each(
    "axis, expected",
    [
        (Axis("a", 0.0, 1.0), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (Axis("a", 0.0, 23.0), ["0", "5", "10", "15", "20"]),
        (Axis("a", 1e-9, 1.0, "log"), ["1e-8", "1e-6", "1e-4", "0.01", "1"]),
        (Axis("a", 1.0, 100.0, "log"), ["1", "3", "10", "30", "100"]),
        (Axis("a", 140.0, 140000.0, "log"), ["300", "1,000", "3,000", "10,000", "30,000", "100,000"]),
        (Axis("a", 0.0, 2.1e-14), ["0", "5e-15", "1e-14", "1.5e-14", "2e-14"]),
        (Axis("a", 1.0, sys.float_info.max, "log"), ["1", "1e52", "1e104", "1e156", "1e208", "1e260"]),
        (Axis("a", -0.5, 1.5, categories=("x", "y")), ["x", "y"]),
    ],
)
def test_ticks_are_round(axis: Axis, expected: list[str]) -> None:
    assert [words for _, words in ticks(axis, 6)] == expected


def test_ticks_stay_within_the_axis_and_few() -> None:
    for low, high in ((1e-300, 1.0), (0.9, 1.1), (3.0, 1e17)):
        values = [value for value, _ in ticks(Axis("a", low, high, "log"), 7)]
        assert len(values) <= 8
        assert all(low * 0.999 <= value <= high * 1.001 for value in values)


def dates(first: datetime, days: float) -> Axis:
    return Axis("date", moment(first), moment(first + timedelta(days)), "utc")


def test_dates_are_round() -> None:
    first = datetime(2026, 11, 29, 17, 59, 51)
    for days, expected in (
        (0.01, ["2026-11-29 18:00", "18:05", "18:10"]),
        (0.3, ["2026-11-29 18:00", "21:00", "2026-11-30 00:00"]),
        (3.0, ["2026-11-30", "2026-12-01", "2026-12-02"]),
        (400.0, ["2027-01", "2027-04", "2027-07", "2027-10", "2028-01"]),
        (4000.0, ["2028", "2030", "2032", "2034", "2036"]),
    ):
        assert [words for _, words in ticks(dates(first, days), 9)] == expected, days


def test_dates_stay_within_the_axis_and_few() -> None:
    seed = fresh_random().getrandbits(32)
    random = Random(seed)
    for _ in range(100):
        axis = dates(
            datetime(random.randint(1, 9000), random.randint(1, 12), 3, random.randrange(24)), 10.0 ** random.uniform(-3, 5)
        )
        for most in (3, 9, 24):
            values = [value for value, _ in ticks(axis, most)]
            assert 1 <= len(values) <= max(5, (most + 1) // 2), (seed, axis)
            assert all(axis.low <= value <= axis.high for value in values), (seed, axis)


def test_a_picture_over_dates() -> None:
    for days in (0.001, 0.4, 40.0, 900.0):
        axis = dates(datetime(2026, 1, 31, 23, 5), days)
        line = Line("left", ((axis.low, 100.0), (axis.high, 40.0)))
        chart = Chart("burn-down", "remaining", "clicks", axis, Axis("left", 0.0, 100.0, unit="%"), lines=(line,))
        assert_apart(chart)
        assert "date (UTC)" in chart_terminal.render(chart, width=60)
        last = f"{date_of(axis.high).isoformat()}Z"
        assert chart_csv.render(chart).splitlines()[1:] == ["left,2026-01-31T23:05:00Z,100.0", f"left,{last},40.0"]
        across = json.loads(chart_vega.render(chart))["layer"][0]["encoding"]["x"]
        assert across["type"] == "temporal" and across["scale"]["domain"] == [axis.low, axis.high]


def test_spread_keeps_order_and_distance() -> None:
    placed = spread([10.0, 11.0, 50.0, 99.0, 100.0], 12.0, 0.0, 100.0)
    assert placed == sorted(placed)
    assert all(right - left >= 12.0 - 1e-9 for left, right in pairwise(placed))
    assert placed[-1] <= 100.0


def test_wrap_breaks_between_words_and_cuts_long_ones() -> None:
    assert " ".join(wrap("a few words that do not fit", 12.0, 80.0)) == "a few words that do not fit"
    assert all(text_width(part, 12.0) <= 80.0 for part in wrap("x" * 50, 12.0, 80.0))


def test_inside_a_square() -> None:
    square = ((0.0, 0.0), (2.0, 0.0), (2.0, 2.0), (0.0, 2.0))
    assert inside((1.0, 1.0), square)
    assert not inside((3.0, 1.0), square)


def test_a_bar_of_nothing_is_drawn() -> None:
    axis, names = Axis("epsilon", 0.0, 1.0), Axis("accountant", -0.5, 0.5, categories=("basic",))
    found = Chart("accountants", "t", "s", axis, names, bars=(Bar("basic", "0", 0.0, 0.0),))
    ElementTree.fromstring(chart_svg.render(found))
    assert "basic" in chart_terminal.render(found)
