"""html: a self-contained page for a browser or for print. It loads no files and runs no scripts.

Names and messages come from files, and must not become markup: `_text` escapes them, and the content security policy forbids the browser to
run or load anything. The page has everything of a `Document` that is read by itself: title, passages (paragraphs under a heading), pictures
(as svg), tables, notes, and further documents as parts. `fragment` is the same without page and style, for a notebook. The style sheet has
colours for light and dark screens, and for print; the sizes in it and in the constants are chosen by eye.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from html import escape

from dpcli.document.chart import Tone
from dpcli.document.charts.shapes import DARK, LIGHT
from dpcli.document.charts.svg import FONTS, dark_rules, element
from dpcli.document.document import Document, Passage, Table, visible

# Properties of the format, which facts.py reads by name.
CI_READS_VERDICT = False
PATH_ENDINGS = (".html", ".htm")
COMPLETE_FIELDS = ("title", "headline", "passages", "tables", "notes", "parts")  # shown in full

MANY = 8  # a list with more points is set in columns, because it would be long
WORD = 24  # a longer word, such as a path, may be broken, so that it fits on a narrow screen
# Parts of a text that are not broken: bounds, percentages, numbers with an exponent, dates, flags and arrows.
UNBROKEN = (
    r"\b(?:epsilon|delta) [<>]?= [0-9.e+-]*[0-9]|\b[0-9.]+ %|\b[0-9.]+e[-+][0-9]+|\b[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9:.]+Z?)?"
    r"|(?<![\w-])--[a-z-]+|->"
)
SPECIAL = re.compile(rf"(?P<unbroken>{UNBROKEN})|\S{{{WORD + 1},}}")  # a part that is not broken, or a long word
BREAKS = r"/\\._:;,=@-"  # characters after which a long word may be broken
PARTS = re.compile(rf"[^{BREAKS}]{{1,{WORD}}}[{BREAKS}]*|[{BREAKS}]+")  # parts of a long word


def style() -> str:
    """Return the style sheet, which is the same for all pages."""
    return f":root{{{_colours(LIGHT)}--alarm:#8a1c1c;--alarm-paper:#fdf0ef;}}\n{_RULES}\n{_dark()}\n{_PRINT}"


def _colours(palette: dict[Tone | str, str]) -> str:
    """Return the colours of a palette as properties of a style sheet."""
    return "".join(f"--{name}:{palette[name]};" for name in ("text", "quiet", "grid", "axis", "paper"))


def _dark() -> str:
    """Return the rules that replace the colours on a dark screen."""
    return (
        "@media screen and (prefers-color-scheme:dark){"
        f":root{{{_colours(DARK)}--alarm:#ff9a90;--alarm-paper:#35191b;}} {dark_rules()}}}"
    )


_RULES = f"""
*{{box-sizing:border-box}}
html{{color-scheme:light dark;-webkit-text-size-adjust:100%}}
body{{margin:0;background:var(--paper);color:var(--text);font:16px/1.55 {FONTS}}}
.page{{max-width:64rem;margin:0 auto;padding:2rem 1.25rem 4rem}}
h1{{font-size:1.6rem;line-height:1.25;margin:0 0 1rem;overflow-wrap:anywhere}}
h2{{font-size:1.15rem;line-height:1.3;margin:2.25rem 0 .5rem;overflow-wrap:anywhere}}
.part{{margin-top:3rem;border-top:1px solid var(--axis)}}
.part>h2{{font-size:1.35rem}}
h3{{font-size:1.15rem;margin:1.5rem 0 .5rem}}
p{{margin:.5rem 0;max-width:44rem;overflow-wrap:anywhere}}
ul{{margin:.5rem 0;padding-left:1.25rem;max-width:44rem}}
.many{{columns:20rem;column-gap:2rem;max-width:none}}
.together{{white-space:nowrap}}
li{{break-inside:avoid;margin:0 0 .3rem;overflow-wrap:anywhere}}
.headline{{font-size:1.1rem;border-left:4px solid var(--axis);padding:.4rem .9rem;margin:1rem 0;max-width:none}}
.pass{{border-color:#00705a}}.warn{{border-color:#b84700}}
.fail,.unknown{{border-color:var(--alarm);background:var(--alarm-paper)}}
.scroll{{overflow-x:auto}}
table{{border-collapse:collapse;width:100%;font-size:.92rem}}
caption{{text-align:left;font-weight:600;font-size:1.15rem;padding:2.25rem 0 .5rem}}
th,td{{text-align:left;vertical-align:top;padding:.4rem 1.1rem .4rem 0;border-bottom:1px solid var(--grid)}}
th:last-child,td:last-child{{padding-right:0}}
.mark{{width:1px;white-space:nowrap}}
h1::first-letter,h2::first-letter,caption::first-letter{{text-transform:uppercase}}
thead th{{color:var(--quiet);font-weight:400;border-bottom-color:var(--axis);white-space:nowrap}}
tbody th{{font-weight:400}}
.number{{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}}
.flagged td:last-child{{color:var(--alarm)}}
.foot{{color:var(--quiet);font-size:.85rem}}
figure{{margin:1.5rem 0;overflow-x:auto}}
svg{{display:block;max-width:100%;height:auto}}
@media screen and (max-width:40rem){{
svg{{min-width:34rem}}
thead th,thead .number{{white-space:normal}}
.words thead{{position:absolute;clip-path:inset(50%);width:1px;height:1px;overflow:hidden}}
.words table,.words caption,.words tbody,.words tr,.words th{{display:block}}
.words td{{display:inline}}
.words th,.words td{{width:auto;border:0;padding:0}}
.words tr{{border-bottom:1px solid var(--grid);padding:.6rem 0}}
.words td:not(:empty)~td:not(:empty)::before{{content:" \\b7  "}}
.words tbody th{{color:var(--quiet)}}
}}"""

_PRINT = """@media print{
body{font-size:10pt}
.page{max-width:none;padding:0}
h2,h3,caption{break-after:avoid}
.part{break-before:page;margin:0;border:0}
tr,figure,li{break-inside:avoid}
table{font-size:9pt}
thead th,thead .number{white-space:normal}
tbody tr:nth-child(n+3):nth-last-child(2){break-after:avoid}
.scroll,figure{overflow:visible}
.many{columns:2}
figure svg{max-width:32rem}
figure{margin:.5rem 0}
thead{display:table-header-group}
}"""


def render(document: Document) -> str:
    """Return the page of a document. Its content security policy allows only its own style sheet, identified by its hash."""
    title = document.title or document.headline
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_policy(style())}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>{escape(visible(title))}</title>",
            f"<style>{style()}</style>",
            "</head>",
            "<body>",
            '<main class="page">',
            *_body(document),
            "</main>",
            "</body>",
            "</html>",
            "",
        ]
    )


def fragment(document: Document) -> str:
    """Return only the body of the page, for a notebook. It uses the style of the notebook, and its ids are unique to the document."""
    # The ids begin with a digest of the content, because a notebook shows several documents on one page.
    body = "\n".join(_body(document))
    name = hashlib.sha256(body.encode()).hexdigest()[:8]
    return '<div class="dpcli">\n' + "\n".join(_body(document, f"{name}-")) + "\n</div>\n"


def _policy(sheet: str) -> str:
    """Return the content security policy of a page: nothing may be loaded or run, and only this style sheet applies."""
    digest = base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def _body(document: Document, prefix: str = "", level: int = 1) -> Iterator[str]:
    """Yield the lines of the body. `prefix` is the prefix of all ids, and `level` is the level of the title's heading."""
    if document.title:
        yield f"<h{level}>{_text(document.title)}</h{level}>"
    verdict = f" {document.verdict}" if document.verdict else ""
    yield f'<p class="headline{verdict}">{_text(document.headline)}</p>'
    for passage in document.passages:
        yield from _passage(passage)
    if document.pictures:
        yield f"<h{level + 1}>Pictures</h{level + 1}>"
    for i, chart in enumerate(document.pictures, start=1):
        yield f'<figure tabindex="0" role="group" aria-labelledby="{prefix}picture{i}-title">'
        yield element(chart, f"{prefix}picture{i}-")
        yield "</figure>"
    for i, table in enumerate(document.tables, start=1):
        yield from _table(table, f"{prefix}table{i}")
    yield from (f'<p class="foot">{_text(note)}</p>' for note in document.notes)
    for i, part in enumerate(document.parts, start=1):
        yield '<section class="part">'
        yield from _body(part, f"{prefix}part{i}-", level + 1)
        yield "</section>"


def _passage(passage: Passage) -> Iterator[str]:
    yield f"<section>\n<h2>{_text(passage.title)}</h2>"
    yield from (f"<p>{_text(words)}</p>" for words in passage.paragraphs)
    if passage.points:
        yield '<ul class="many">' if len(passage.points) > MANY else "<ul>"
        yield from (f"<li>{_text(words)}</li>" for words in passage.points)
        yield "</ul>"
    yield "</section>"


def _table(table: Table, name: str) -> Iterator[str]:
    """Yield the lines of a table. A table that is too wide scrolls.

    On a narrow screen, the style sheet shows a table without numbers as paragraphs, so its elements state their roles for screen readers.
    """
    kind = "scroll" if table.numeric else "scroll words"
    yield f'<div class="{kind}" tabindex="0" role="region" aria-labelledby="{name}">'
    yield f'<table role="table">\n<caption id="{name}">{_text(table.title)}</caption>'
    heads = "".join(
        f'<th role="columnheader" scope="col"{_class(table, i)}>{_text(head)}</th>' for i, head in enumerate(table.columns)
    )
    yield f'<thead role="rowgroup">\n<tr role="row">{heads}</tr>\n</thead>\n<tbody role="rowgroup">'
    for i, row in enumerate(table.rows):
        flagged = ' class="flagged"' if i in table.flagged else ""
        yield f'<tr role="row"{flagged}>{"".join(_cells(table, row))}</tr>'
    yield "</tbody>\n</table>"
    yield from (f'<p class="foot">{_text(note)}</p>' for note in table.footnotes)
    yield "</div>"


def _cells(table: Table, row: tuple[str, ...]) -> Iterator[str]:
    """Yield the cells of a row. The first one with a word is its heading, because the first of all may contain only a mark."""
    head = next((i for i, cell in enumerate(row) if any(map(str.isalnum, cell))), 0)
    for i, cell in enumerate(row):
        if i == head:
            yield f'<th role="rowheader" scope="row"{_class(table, i)}>{_text(cell)}</th>'
        else:
            yield f'<td role="cell"{_class(table, i)}>{_text(cell)}</td>'


def _class(table: Table, column: int) -> str:
    """Return the class attribute of the cells of a column: numbers, or marks if the column has no name."""
    if column in table.numeric:
        return ' class="number"'
    return "" if table.columns[column] else ' class="mark"'


def _text(text: str) -> str:
    """Return a text escaped for HTML.

    Numbers stay together with their units and names (1 %, epsilon <= 2.3). Long paths may be broken after a slash or a dot.
    """
    shown, parts, end = visible(text), [], 0  # `end` is the end of the text that was escaped so far
    for special in SPECIAL.finditer(shown):
        parts.append(escape(shown[end : special.start()]))
        if special["unbroken"]:
            parts.append(f'<span class="together">{escape(special[0])}</span>')
        else:
            parts.append("<wbr>".join(map(escape, PARTS.findall(special[0]))))
        end = special.end()
    return "".join((*parts, escape(shown[end:])))
