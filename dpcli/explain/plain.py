"""A topic as text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from dpcli.document.formats.troff import ManualSection, unset
from dpcli.explain.markdown import Topic

WIDTH = 100


def plain(name: str, topic: Topic) -> str:
    """Title, then sections; blocks that are set as they stand are indented by four."""
    return "\n\n".join([f"{name}: {topic.title}", *(block for section in topic.sections for block in _section(section))])


def _section(section: ManualSection) -> Iterator[str]:
    if section.title:
        yield section.title.upper()
    for paragraph in section.paragraphs:
        body = unset(paragraph)
        yield _filled(paragraph) if body is None else textwrap.indent(body.rstrip("\n"), "    ")
    for term, definition in section.terms:
        yield f"  {term}\n{_filled(definition, '      ')}"


def _filled(text: str, indent: str = "") -> str:
    return textwrap.fill(
        " ".join(text.split()),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
