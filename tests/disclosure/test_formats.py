"""Every item in every format; pages that load and run nothing and are well formed; hostile names; golden outputs."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from dpcli.disclosure.documents.disclosure import charts, document
from dpcli.document.document import Document
from dpcli.document.formats import html as format_html
from dpcli.document.formats import markdown as format_markdown
from tests.command import dpcli
from tests.document.drawn import luminance

from .samples import MINIMAL, SAMPLED, facts, statements, toml

GOLDEN = Path(__file__).parent / "golden"
EXAMPLE = "examples/disclosure.toml"
VOID = {"meta", "wbr", "rect", "path", "circle"}
HOSTILE = "<script>alert(1)</script>&amp;\"'|*[x](http://evil.example)`"


@functools.cache
def drawn(text: str) -> Document:
    found = facts(text)
    return document(statements(text)[0], charts(found))


@pytest.mark.parametrize("name", [pytest.param("disclosure", marks=pytest.mark.long), "mnist"])
def test_json_has_the_numbers_of_the_account(name: str) -> None:
    result = dpcli("report", f"examples/{name}.toml", "-f", "json")
    found = json.loads(result.out)
    assert found["schema"] == "dpcli/report/v1"
    assert found["not_stated"] == [one["id"] for one in found["items"] if not one["stated"]]
    assert all((one["answer"] is not None) == one["stated"] for one in found["items"])
    assert found["exit_code"] == result.code
    numbers = json.loads(dpcli("account", f"examples/{name}.toml", "-f", "json").out)
    for key in ("pipeline", "statement", "delta", "result", "accountants", "mechanisms", "budget", "diagnostics"):
        assert found[key] == numbers[key]


class Page(HTMLParser):
    """Checks nesting, and collects tags, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append((self.open[-1] if self.open else "", data))


@pytest.mark.long
@pytest.mark.parametrize("text", [MINIMAL, toml(SAMPLED)], ids=["minimal", "full"])
def test_the_page_is_well_formed_and_accessible(text: str) -> None:
    page = Page(format_html.render(drawn(text)))
    names = [tag for tag, _ in page.tags]
    assert names.count("h1") == names.count("main") == names.count("title") - names.count("svg") == 1
    assert names.count("caption") == names.count("table") == len(drawn(text).tables)
    assert names.count("svg") == names.count("desc") == len(drawn(text).pictures) >= 2
    headings = [int(tag[1]) for tag in names if re.fullmatch("h[1-6]", tag)]
    assert headings[0] == 1 and all(after - before <= 1 for before, after in pairwise(headings))
    ids = [found["id"] for _, found in page.tags if "id" in found]
    assert len(ids) == len(set(ids))
    for _, found in page.tags:
        assert set((found.get("aria-labelledby") or "").split()) <= set(ids)
    assert ("html", "en") in [(tag, found.get("lang")) for tag, found in page.tags]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("text", [MINIMAL, toml(SAMPLED), MINIMAL.replace("count", "x")], ids=["minimal", "full", "other"])
def test_the_page_loads_and_runs_nothing(text: str) -> None:
    rendered = format_html.render(drawn(text))
    page = Page(rendered)
    assert {tag for tag, _ in page.tags} & {
        "script",
        "link",
        "img",
        "iframe",
        "object",
        "embed",
        "base",
        "form",
        "a",
        "use",
        "image",
    } == set()
    for _, found in page.tags:
        assert not {name for name in found if name.startswith("on")}
        assert not {"src", "href", "xlink:href", "srcset", "action", "style", "data"} & set(found)
    assert not re.search(r"url\(|@import|expression\(", rendered)
    assert set(re.findall(r"https?://[^\s\"<]+", rendered)) <= {"http://www.w3.org/2000/svg"}


def test_the_content_policy_admits_the_style_sheet_alone() -> None:
    page = Page(format_html.render(drawn(MINIMAL)))
    (policy,) = [found["content"] for _, found in page.tags if found.get("http-equiv") == "Content-Security-Policy"]
    (sheet,) = [text for tag, text in page.text if tag == "style"]
    digest = base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert "prefers-color-scheme:dark" in sheet and "@media print" in sheet


@pytest.mark.long
def test_colours_are_legible() -> None:
    """Contrast of at least 4.5 to 1 on both papers (WCAG 2.1, AA) for every colour that words have."""
    sheet = next(text for tag, text in Page(format_html.render(drawn(MINIMAL))).text if tag == "style")
    for block in re.findall(r":root\{(.*?)\}", sheet):
        colours = dict(re.findall(r"--([a-z-]+):(#[0-9a-f]{6})", block))
        for name in ("text", "quiet", "alarm"):
            assert contrast(colours[name], colours["paper"]) >= 4.5, name
        assert contrast(colours["text"], colours["alarm-paper"]) >= 4.5


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def hostile() -> str:
    text = MINIMAL.replace("format = 1", f"format = 1\nname = {json.dumps(HOSTILE)}").replace('"count"', json.dumps(HOSTILE))
    text = text.replace("[privacy]", f"[privacy]\nunit = {json.dumps(HOSTILE)}\nmax_contributions = 2")
    second = '[[mechanism]]\nname = "y"\ntype = "gaussian"\nnoise_multiplier = 4.0\n'
    return f"{text}{second}[disclosure]\ncontroller = {json.dumps(HOSTILE)}\n"


def test_hostile_words_stay_words_in_a_page() -> None:
    rendered = format_html.render(drawn(hostile()))
    page = Page(rendered)
    assert not [tag for tag, _ in page.tags if tag == "script"]
    assert "<script" not in rendered and "&amp;amp;" in rendered
    assert HOSTILE in "".join(text for _, text in page.text)
    for _, found in page.tags:
        assert HOSTILE not in "".join(value or "" for value in found.values())


def test_hostile_words_stay_words_in_markdown() -> None:
    rendered = format_markdown.render(drawn(hostile()))
    assert not re.search(r"(?<!\\)<(?!!-- -->)|(?<!\\)\[x", rendered)
    assert "\\<script\\>" in rendered
    rows = [line for line in rendered.splitlines() if line.startswith("| Who answers")]
    assert len(rows) == 1 and len(re.findall(r"(?<!\\)\|", rows[0])) == 4


@pytest.mark.long
def test_the_same_bytes_every_time() -> None:
    first, second = (dpcli("report", "-", "-f", "html", stdin=MINIMAL.encode()).out for _ in range(2))
    assert first == second
    assert not re.search(r"20\d\d-\d\d-\d\d", first)


@pytest.mark.long
def test_a_date_is_printed_where_it_is_given() -> None:
    result = dpcli("report", EXAMPLE, "--registry", "-f", "markdown", "--date", "2026-03-04")
    assert result.out.startswith("# Registry entry: shop-recommender, 2026-03-04\n")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        pytest.param("statement.txt", (EXAMPLE, "-f", "text"), marks=pytest.mark.long),
        pytest.param("registry.md", (EXAMPLE, "--registry", "-f", "markdown"), marks=pytest.mark.long),
        ("silent.md", ("examples/survey-count.toml", "-f", "markdown")),
    ],
)
def test_golden(name: str, arguments: tuple[str, ...]) -> None:
    """Reviewed outputs; a change of words or numbers must show in them."""
    assert dpcli("report", *arguments).out == (GOLDEN / name).read_text()
