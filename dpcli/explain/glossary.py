"""The terms of differential privacy as dpcli uses them, and the symbols of papers with the term for each, from glossary.md."""

from __future__ import annotations

import re
from importlib.resources import files

ITEM = re.compile(r"^- \*\*(.+?)\*\*: (.+(?:\n  .+)*)", re.MULTILINE)


def _items(text: str) -> dict[str, str]:
    return {item[1]: " ".join(item[2].split()) for item in ITEM.finditer(text)}


_words, _, _symbols = files("dpcli.explain").joinpath("glossary.md").read_text(encoding="utf-8").partition("\n## symbols\n")
TERMS, SYMBOLS = _items(_words), _items(_symbols)
