"""Tests that a rule finds the same in any order of mechanisms, next to any others, and in any spelling of TOML."""

from __future__ import annotations

import tomllib
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dpcli.exam.subjects import SEED
from dpcli.lint.catalogue import READER_RULES, SECTION_RULES, codes, rule
from dpcli.lint.run import lint_bytes
from tests.cases import of_each
from tests.lint.toml_text import spelled

CORPUS = {path.stem: path for path in (Path(__file__).parent / "corpus").glob("*.toml") if path.stem != "labels"}
OTHERS = [
    {"name": "part-a", "description": "part a", "type": "pure-dp", "epsilon": 0.01, "stated_for": "unit"},
    {"name": "part-b", "description": "part b", "type": "post-processing"},
]


def rules_of(text: str) -> set[str]:
    return {diagnostic.rule for diagnostic in lint_bytes(text.encode(), "generated.toml")}


def rewritten(random: Random, document: dict[str, Any]) -> str:
    """Return the document with other mechanisms among its own, in another spelling."""
    mechanisms = list(document.get("mechanism", []))
    for other in random.sample(OTHERS, random.randint(0, len(OTHERS))):
        mechanisms.insert(random.randint(0, len(mechanisms)), other)
    return spelled(random, {**document, "mechanism": mechanisms})


def sources() -> list[str]:
    """Return the examples of every rule and the labelled files, but for those that no reader of TOML takes."""
    examples = [text for code in codes() for text in (rule(code).bad, rule(code).good)]
    return [text for text in (*examples, *(path.read_text() for path in CORPUS.values())) if "DP001" not in rules_of(text)]


@pytest.mark.parametrize("count", [1, pytest.param(10, marks=pytest.mark.long)])
@of_each("text", sources)
def test_place_company_and_spelling_make_no_difference(text: str, count: int) -> None:
    expected = rules_of(text)
    for number in range(count):
        random = Random(f"{SEED} {number}")
        again = rewritten(random, tomllib.loads(text))
        assert rules_of(again) == expected, (SEED, number, again)


@of_each("code", SECTION_RULES)
def test_the_reader_refuses_what_a_rule_about_sections_finds(code: str) -> None:
    assert rules_of(rule(code).bad) & set(READER_RULES)
