"""Tests of lint on about forty files that were labelled by hand with the failures in them."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path

from dpcli.lint.catalogue import READER_RULES, codes
from dpcli.lint.run import lint
from tests.cases import of_each

CORPUS = Path(__file__).parent / "corpus"
LABELS: dict[str, list[str]] = tomllib.loads((CORPUS / "labels.toml").read_text())
NAMES = sorted(LABELS)


@functools.cache
def found(name: str) -> set[str]:
    return {diagnostic.rule for diagnostic in lint(str(CORPUS / name))}


def test_every_file_is_labelled() -> None:
    assert {path.name for path in CORPUS.glob("*.toml")} - {"labels.toml"} == set(LABELS)
    assert len(LABELS) >= 42


def test_every_rule_about_files_that_can_be_read_has_a_file() -> None:
    assert {code for labels in LABELS.values() for code in labels} >= set(codes()) - set(READER_RULES)


def test_a_good_part_of_the_files_is_in_order() -> None:
    assert 14 <= sum(not set(labels) - set(READER_RULES) for labels in LABELS.values()) <= 20


@of_each("name", NAMES)
def test_a_file_gives_what_is_wrong_with_it_and_no_more(name: str) -> None:
    assert found(name) == set(LABELS[name])
