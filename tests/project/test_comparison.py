"""The site's page of comparisons: what it says of dpcli is what dpcli says, and its words for others' bounds."""

from __future__ import annotations

import re

import pytest

from tests.benchmarks import peers, table
from tests.benchmarks.isolation import Answer
from tests.command import ROOT

PAGE = (ROOT / ".github" / "docs" / "comparison.md").read_text("utf-8")


def test_a_bound_below_the_lower_end_is_said_to_be_too_small() -> None:
    assert table.excess(Answer("ok", upper=1.1), 1.0) == "10 %"
    assert table.excess(Answer("ok", upper=1.0 + 1e-9), 1.0) == "1e-09"
    assert table.excess(Answer("ok", upper=0.9), 1.0) == "**0.1 below: too small**"
    assert table.bound(Answer("ok", 1.23456789, 1.23456789)) == "1.234567 to 1.234568"
    assert table.bound(Answer("timeout", message="over 60 s of CPU")) == "timeout: over 60 s of CPU"


def test_a_section_is_replaced_and_the_others_stay() -> None:
    """The page is what the program writes, and one section can be measured again."""
    sections = table.sections_of(PAGE)
    assert sections and set(sections) <= set(table.TITLES.values())
    assert table.page(sections) == PAGE
    changed = table.page({**sections, table.TITLES["attack"]: "another\n"})
    assert table.sections_of(changed) == {**sections, table.TITLES["attack"]: "another\n"}


@pytest.mark.long
def test_the_page_has_todays_numbers_of_dpcli() -> None:
    for words, drawn in table.SETTINGS:
        lower, upper = peers.dpcli(drawn)
        row = re.search(rf"^\| {re.escape(words)} \| dpcli \| (.*?) \|", PAGE, re.M)
        assert row is not None, words
        assert row[1] == table.bound(Answer("ok", lower, upper)), words
    for package in {peer.package for questions in peers.QUESTIONS.values() for peer in questions.values()}:
        assert re.search(rf"^Versions: .*\b{package} \d", PAGE, re.M), package
