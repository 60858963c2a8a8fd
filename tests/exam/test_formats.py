"""Tests that every registered format shows all parts that it declares, and that an omission in any format is detected."""

from __future__ import annotations

from dataclasses import fields

import pytest

from dpcli.base.registry import FORMATS
from dpcli.document.document import Document
from dpcli.document.formats.facts import shows
from dpcli.exam.format_omissions import OMISSIONS, drawn_documents, renderer, rendering_faults, undetected_in_format
from dpcli.exam.subjects import SEED
from tests.cases import of_each


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_is_left_out(name: str) -> None:
    assert shows(name)
    for document, _ in drawn_documents(name, str(SEED)):
        assert list(rendering_faults(name, renderer(name), document)) == [], f"seed {SEED}"


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", FORMATS)
@of_each("what", OMISSIONS)
def test_a_format_that_drops_something_is_seen(name: str, what: str) -> None:
    """Whatever changes when it is left out of the document is missed when the format leaves it out."""
    assert not undetected_in_format(name, what, str(SEED)), f"seed {SEED}"


def test_every_part_of_a_document_is_shown_by_some_format() -> None:
    shown = {part for name in FORMATS for part in shows(name)} - {"failures"}
    # colours, levels, drawings, what standard error says, how it is written
    silent = {"verdict", "exit_code", "pictures", "marker", "why", "place", "long", "alerts"}
    assert shown | silent == {field.name for field in fields(Document)}
