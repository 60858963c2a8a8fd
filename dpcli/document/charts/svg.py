"""svg: a self-contained picture for light and dark paper, with a title and a description for screen readers.

scene.py decides the positions of everything: a *scene* is a picture whose layout is done (shapes.py). The description comes from
describe.py. `element` is the same picture inside a page (formats/html.py), which brings its own style sheet.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape

from dpcli.document.chart import Chart
from dpcli.document.charts.describe import describe
from dpcli.document.charts.labels import Point
from dpcli.document.charts.scene import scene
from dpcli.document.charts.shapes import DARK, LIGHT, Scene, Stroke, Words, style_class
from dpcli.document.document import visible

FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"


def render(chart: Chart, **_terminal_settings: object) -> str:
    """Return an SVG 1.1 document. Colours are attributes. A style sheet overrides them if the reader prefers a dark scheme."""
    style = f"<style>@media (prefers-color-scheme: dark) {{ {dark_rules()} }}</style>"
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{element(chart, "", style)}\n'


def element(chart: Chart, id_prefix: str, style: str = "") -> str:
    """Return the <svg> element.

    id_prefix: prefix of the ids in the element, which must differ between the pictures of one page.
    style: <style> element; "" if the page has these rules.
    """
    result = scene(chart)
    size = f"{result.width:g} {result.height:.0f}"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="{id_prefix}title {id_prefix}desc" '
            f'viewBox="0 0 {size}" width="{result.width:g}" height="{result.height:.0f}" font-family="{FONTS}">',
            f'<title id="{id_prefix}title">{escape(visible(chart.title))}</title>',
            f'<desc id="{id_prefix}desc">{escape(describe(chart))}</desc>',
            *([style] if style else []),
            f'<rect class="paper" width="100%" height="100%" fill="{LIGHT["paper"]}"/>',
            *_body(result),
            "</svg>",
        ]
    )


def dark_rules() -> str:
    """Return the style rules of dark paper. The class of a shape is the name of its colour, with -line for an outline."""
    fills = " ".join(f".{style_class(tone)}{{fill:{colour}}}" for tone, colour in DARK.items())
    strokes = " ".join(f".{style_class(tone)}-line{{stroke:{colour}}}" for tone, colour in DARK.items())
    return f"{fills} {strokes}"


def _body(scene: Scene) -> Iterator[str]:
    """Yield the elements of the shapes, in the order in which they are painted."""
    yield from map(_stroke, scene.grid)
    for fill in scene.fills:
        opacity = f' fill-opacity="{fill.opacity:g}"' if fill.opacity < 1.0 else ""
        title = f"><title>{escape(visible(fill.title))}</title></path>" if fill.title else "/>"
        yield f'<path class="{style_class(fill.tone)}" d="{_path(fill.points)}Z" fill="{LIGHT[fill.tone]}"{opacity}{title}'
    yield from map(_stroke, scene.strokes)
    for dot in scene.dots:
        yield (
            f'<circle class="{style_class(dot.tone)} paper-line" cx="{dot.at[0]:.1f}" cy="{dot.at[1]:.1f}" r="{dot.radius:g}" '
            f'fill="{LIGHT[dot.tone]}" stroke="{LIGHT["paper"]}" stroke-width="{dot.edge:g}"/>'
        )
    for words in scene.words:
        yield from _words(words)


def _stroke(stroke: Stroke) -> str:
    dashes = ' stroke-dasharray="6 4"' if stroke.dashed else ""
    return (
        f'<path class="{style_class(stroke.tone)}-line" d="{_path(stroke.points)}" fill="none" stroke="{LIGHT[stroke.tone]}" '
        f'stroke-width="{stroke.width:g}" stroke-linejoin="round"{dashes}/>'
    )


def _words(words: Words) -> Iterator[str]:
    """Yield the element of a text and, before it, that of its halo, which screen readers skip."""
    place = f'x="{words.at[0]:.1f}" y="{words.at[1]:.1f}" font-size="{words.size:g}" text-anchor="{words.anchor}"'
    bold = ' font-weight="600"' if words.bold else ""
    if words.halo:
        edge = f'fill="none" stroke="{LIGHT["paper"]}" stroke-width="4" stroke-linejoin="round" aria-hidden="true"'
        yield f'<text class="paper-line" {place}{bold} {edge}>{escape(words.text)}</text>'
    yield f'<text class="{style_class(words.tone)}" {place}{bold} fill="{LIGHT[words.tone]}">{escape(words.text)}</text>'


def _path(points: tuple[Point, ...]) -> str:
    return "M" + "L".join(f"{x:.2f} {y:.2f}" for x, y in points)
