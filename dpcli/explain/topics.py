"""The topics: one text each, a page of the manual and what `dpcli explain TOPIC` prints."""

from __future__ import annotations

from importlib.resources import files

from dpcli.document.formats.troff import ManualSection
from dpcli.explain.markdown import Topic, read_topic

WRITTEN = (
    "tutorial",
    "accountants",
    "training",
    "federated",
    "private-prediction",
    "release",
    "ledger",
    "backup",
    "gate",
    "threats",
)
TOPICS = (*WRITTEN, "glossary")


def topic(name: str) -> Topic:
    """One of TOPICS, its lists filled in."""
    return _glossary() if name == "glossary" else read_topic(source(name))


def source(name: str) -> str:
    """The text of one of WRITTEN: Markdown."""
    return files(__name__.rpartition(".")[0]).joinpath(f"{name}.md").read_text(encoding="utf-8")


def with_command(words: str) -> tuple[str, ...]:
    """The topics that show a command, such as `dpcli budget init`, at work."""
    return tuple(name for name in WRITTEN if f"$ {words} " in source(name))


def _glossary() -> Topic:
    from dpcli.explain.glossary import SYMBOLS, TERMS

    words = "The words of differential privacy as dpcli uses them. dpcli explain WORD prints one of them."
    symbols = "The symbols of papers, and the word under which they are explained here."
    pages = "dpcli(1), dpcli-explain(1), dpcli-tutorial(7)"
    sections = (
        ManualSection("description", (words,)),
        ManualSection("words", terms=tuple(sorted(TERMS.items()))),
        ManualSection("symbols", (symbols,), tuple(SYMBOLS.items())),
        ManualSection("see also", (pages,)),
    )
    return Topic("the words of differential privacy", sections)
