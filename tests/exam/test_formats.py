"""Every registered format shows every item of what it says that it shows, and one that drops any is seen, though nobody names it."""

from __future__ import annotations

import functools
from dataclasses import fields
from random import Random

import pytest

from dpcli.base.lazy import load
from dpcli.base.registry import FORMATS
from dpcli.document.document import Document
from dpcli.document.formats.facts import shows
from tests.cases import of_each
from tests.exam.documents import WITHOUT, Render, Writing, left_out, rendering
from tests.exam.subjects import SEED

DOCUMENTS = 16


@functools.cache
def documents(name: str) -> tuple[tuple[Document, str], ...]:
    """Each with what the format makes of it."""
    drawn = [Writing(Random(f"{SEED}/{name}/{k}")).document() for k in range(DOCUMENTS)]
    return tuple((document, render_of(name)(document)) for document in drawn)


def render_of(name: str) -> Render:
    return rendering(name, load(FORMATS[name]))


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_is_left_out(name: str) -> None:
    assert shows(name)
    for document, _ in documents(name):
        assert list(left_out(name, render_of(name), document)) == [], f"seed {SEED}"


@pytest.mark.parametrize("name", FORMATS)
@of_each("what", WITHOUT)
def test_a_format_that_drops_something_is_seen(name: str, what: str) -> None:
    """Whatever changes when it is left out of the document is missed when the format leaves it out."""
    render, dropped = render_of(name), WITHOUT[what]
    changed = (document for document, shown in documents(name) if render(dropped(document)) != shown)
    seen = None
    for document in changed:
        seen = any(True for _ in left_out(name, lambda d: render(dropped(d)), document))
        if seen:
            break
    assert seen is not False, f"seed {SEED}"


def test_every_part_of_a_document_is_shown_by_some_format() -> None:
    shown = {part for name in FORMATS for part in shows(name)} - {"failures"}
    # colours, levels, drawings, what standard error says, how it is written
    silent = {"verdict", "exit_code", "pictures", "marker", "why", "place", "long", "alerts"}
    assert shown | silent == {field.name for field in fields(Document)}
