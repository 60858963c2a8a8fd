"""Check HTML pages in a real browser without a window: `faults` finds broken words and pages that are wider than the window.

A script in the page measures each word at several widths of the window, and writes the faults into the page, which the browser then prints.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "headless_shell")
WIDTHS = (600, 1000, 1600)  # in pixels: a narrow window, a usual one and a wide one

# A word may break after a hyphen, an en dash or a slash. A word without letters is a number or a date, and must not break; an e alone may
# be the exponent of a number.
SCRIPT = r"""
const faults = [];
const words = text => [...text.matchAll(/\S+/g)].flatMap(word => /[A-Za-df-z]/.test(word[0])
  ? [...word[0].matchAll(/[^\/\u2013-]+[\/\u2013-]*|[\/\u2013-]+/g)].map(part => [word.index + part.index, part[0]])
  : [[word.index, word[0]]]);
function check(name, frame, width) {
  frame.style.width = width + "px";
  const page = frame.contentDocument, paper = page.scrollingElement;
  if (paper.scrollWidth > paper.clientWidth) faults.push([name, width, "wider than the page", String(paper.scrollWidth)]);
  const walker = page.createTreeWalker(page.body, NodeFilter.SHOW_TEXT), range = page.createRange();
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    for (const [start, word] of words(node.data)) {
      range.setStart(node, start);
      range.setEnd(node, start + word.length);
      const lines = new Set([...range.getClientRects()].map(line => Math.round(line.bottom)));
      if (lines.size > 1) faults.push([name, width, "broken", word]);
    }
  }
}
window.onload = () => {
  for (const frame of document.querySelectorAll("iframe")) for (const width of WIDTHS) check(frame.title, frame, width);
  document.body.textContent = JSON.stringify(faults);
};
"""


def browser() -> str:
    """Return the path of Chromium or Chrome. Without one the test skips. On GitHub it fails, as the machines there have Chrome."""
    path = next((path for path in map(shutil.which, NAMES) if path), None)
    if path is None and os.environ.get("GITHUB_ACTIONS"):
        pytest.fail(f"no browser on PATH: {', '.join(NAMES)}")
    return path or pytest.skip(f"no browser on PATH: {', '.join(NAMES)}")


FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")


def printed(page: str, folder: Path) -> int:
    """Return the number of sheets on which the browser prints a page. `folder` must be empty."""
    sheet, paper = folder / "page.html", folder / "page.pdf"
    sheet.write_text(page, "utf-8")
    command = [browser(), *FLAGS, f"--user-data-dir={folder / 'profile'}", f"--print-to-pdf={paper}", sheet.as_uri()]
    subprocess.run(command, capture_output=True, timeout=300, check=True)
    return len(re.findall(rb"/Type /Page\b", paper.read_bytes()))


def faults(pages: Mapping[str, str], folder: Path, widths: Sequence[int] = WIDTHS) -> list[tuple[str, int, str, str]]:
    """Return each fault as (page, width of the window, kind of fault, broken word or width of the page).

    The browser is started once for all pages. `folder` must be empty.
    """
    frames = "".join(
        f'<iframe title="{html.escape(name)}" srcdoc="{html.escape(page)}" style="border:0;height:900px"></iframe>'
        for name, page in pages.items()
    )
    sheet = folder / "pages.html"
    script = f"const WIDTHS = {json.dumps(list(widths))};{SCRIPT}"
    sheet.write_text(f'<!DOCTYPE html><meta charset="utf-8"><script>{script}</script><body>{frames}</body>', "utf-8")
    dumped = subprocess.run(
        [
            *(browser(), *FLAGS),
            *(f"--user-data-dir={folder / 'profile'}", "--dump-dom", sheet.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    ).stdout
    body = re.search(r"<body>(\[.*\])</body>", dumped, re.DOTALL)
    assert body is not None, dumped[-500:]
    return [tuple(fault) for fault in json.loads(html.unescape(body[1]))]
