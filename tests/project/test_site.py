"""The documentation site: what .github/docs/pages.py makes of the manual, and the site that mkdocs builds of it, in a browser."""

from __future__ import annotations

import functools
import importlib.util
import io
import json
import posixpath
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

import dpcli
from dpcli.base.registry import COMMANDS
from dpcli.explain.topics import TOPICS
from tests.browser import browser
from tests.command import ROOT

PLACE = ROOT / ".github" / "docs"
WIDTHS = (390, 1280)


@functools.cache
def site() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_pages", PLACE / "pages.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def pages() -> dict[str, str]:
    made: dict[str, str] = site().pages()
    return made


@pytest.mark.long
def test_everything_has_a_page() -> None:
    places = {f"reference/commands/{name}.md" for name in COMMANDS}
    places |= {f"explanation/{name}.md" for name in TOPICS if name not in ("tutorial", "glossary")}
    places |= {
        f"reference/{name}.md" for name in ("dpcli", "pipeline", "policy", "schedule", "glossary", "python", "json", "examples")
    }
    assert places <= set(pages())
    assert [
        name for name in dpcli.__all__ if name != "__version__" and f"heading: dpcli.{name}," not in pages()["reference/python.md"]
    ] == []


@pytest.mark.long
def test_every_task_is_answered_by_a_command() -> None:
    """Commands after a $ are run by test_docs.py; those without one need what the reader has: a checkpoint, a repository, a loop."""
    tasks = [task.name for task in site().TASKS]
    blocks = {name: re.findall(r"(?ms)^```(console|sh|yaml|python)", pages()[f"how-to/{name}.md"]) for name in tasks}
    assert [name for name in tasks if not blocks[name]] == []
    assert sum("console" in kinds for kinds in blocks.values()) >= 12, blocks


@pytest.mark.long
def test_a_page_leads_to_the_files_of_its_commands() -> None:
    files = set(zipfile.ZipFile(io.BytesIO(site()._archive())).namelist())
    named = 0
    for place, text in pages().items():
        commands = "".join(re.findall(r"(?ms)^```(?:console|sh)\n(.*?)^```", text))
        words = set(re.findall(r"(?<!\S)examples/[\w./-]+", commands))
        if place.startswith(("how-to/", "tutorial", "explanation/")) and words:
            assert words <= files and "examples.zip)" in text, (place, words - files)
            named += len(words)
    assert named > 20


def places_of(navigation: object) -> list[str]:
    """The pages of a table of contents."""
    if isinstance(navigation, str):
        return [navigation]
    below = navigation.values() if isinstance(navigation, dict) else navigation
    assert hasattr(below, "__iter__")
    return [place for one in below for place in places_of(one)]


@pytest.mark.long
def test_every_page_is_in_the_contents_once() -> None:
    assert sorted(places_of(site().navigation())) == sorted([*pages(), site().REPOSITORY])


@pytest.mark.long
def test_a_link_leads_to_a_page() -> None:
    count = 0
    for place, text in pages().items():
        for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"(?ms)^```.*?^```$|`[^`\n]*`", "", text)):
            target = link.partition("#")[0]
            if not re.match(r"\w+:", link) and target and target not in ("../documents.json", "../examples.zip", "examples.zip"):
                assert posixpath.normpath(posixpath.join(posixpath.dirname(place), target)) in pages(), (place, link)
                count += 1
    assert count > 100


@pytest.mark.long
def test_a_sample_of_the_manual_is_in_its_page_as_it_is() -> None:
    """No change of headings, lists or links reaches into a block of code."""
    blocks = 0
    for name in site().EXPLANATIONS:
        bodies = re.findall(r"(?ms)^```console\n(.*?)^```$", (ROOT / "dpcli" / "explain" / f"{name}.md").read_text())
        assert all(body in pages()[f"explanation/{name}.md"] for body in bodies), name
        blocks += len(bodies)
    assert blocks > 40


def test_a_text_becomes_markdown_that_shows_it() -> None:
    assert site()._plain("a `b*c` of <x> and _y_ [1]\n  more") == r"a `b*c` of \<x> and \_y\_ \[1\] more"
    assert (
        site()._readable("as:\n- one\n- two\n```toml a.toml\nas:\n- 1\n```\n")
        == 'as:\n\n- one\n- two\n```toml title="a.toml"\nas:\n- 1\n```\n'
    )
    assert (
        site()._referring("see dpcli-gate(7), `dpcli-gate(7)`", "how-to/x.md")
        == "see [dpcli-gate(7)](../explanation/gate.md), `dpcli-gate(7)`"
    )
    assert site()._referring("dpcli-budget-init(1)", "a.md") == "[dpcli-budget-init(1)](reference/commands/budget.md)"


@pytest.mark.nightly
@pytest.mark.needs("mkdocs", "material", "mkdocstrings")
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """With its search, which needs no server, and nothing that is fetched from elsewhere; no page is wider than a telephone."""
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "-q",
        "-f",
        str(PLACE / "mkdocs.yml"),
        "-d",
        str(tmp_path / "site"),
    ]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    made = {path.relative_to(tmp_path / "site").as_posix() for path in (tmp_path / "site").rglob("*.html")}
    assert made >= {place.replace(".md", ".html") for place in pages()} - {"how-to/index.html"}
    assert (tmp_path / "site" / "iframe-worker.js").is_file()  # the search of a page that is read from a disk
    assert "var __index" in (tmp_path / "site" / "search" / "search_index.js").read_text()[:100]
    for name in made:
        text = (tmp_path / "site" / name).read_text()
        assert re.findall(r'<(?:script|img|link)[^>]* (?:src|href)="https?://(?!github\.com/OWNER)[^"]*"', text) == [], name
    too_wide = wider_than_window(tmp_path / "site", sorted(made - {"404.html"}), tmp_path)
    assert too_wide == []


SCRIPT = """
window.onload = async () => {
  const faults = [];
  for (const page of PAGES) for (const width of WIDTHS) {
    const frame = document.createElement("iframe");
    frame.style = `border:0;height:900px;width:${width}px`;
    await new Promise(done => { frame.onload = done; frame.src = page; document.body.append(frame); });
    const paper = frame.contentDocument.scrollingElement;
    if (paper.scrollWidth > width) faults.push([page, width, paper.scrollWidth]);
    frame.remove();
  }
  document.body.textContent = JSON.stringify(faults);
};
"""


def wider_than_window(folder: Path, names: list[str], profile: Path) -> list[tuple[str, int, int]]:
    """(page, width of the window, width of the page), where a page has to be moved sideways to be read."""
    sheet = folder / "sheet.html"
    sheet.write_text(
        f"<!DOCTYPE html><script>const PAGES={json.dumps(names)},WIDTHS={json.dumps(WIDTHS)};{SCRIPT}</script><body></body>"
    )
    flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--allow-file-access-from-files")
    quiet = (
        "--disable-background-networking",
        "--disable-component-update",
        "--virtual-time-budget=600000",
        f"--user-data-dir={profile / 'profile'}",
    )
    command = [browser(), *flags, *quiet, "--dump-dom", sheet.as_uri()]
    dumped = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout
    body = re.search(r"<body>(\[.*\])</body>", dumped, re.DOTALL)
    assert body is not None, dumped[-500:]
    return [tuple(fault) for fault in json.loads(body[1])]
