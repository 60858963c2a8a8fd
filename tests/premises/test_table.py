"""Every mechanism type and sampling scheme states its premises, and each names a test that is there."""

from __future__ import annotations

import ast

import pytest

from dpcli.explain.topics import topic
from dpcli.premise import AUTHOR, Premise
from dpcli.registry import MECHANISMS, SAMPLING, load
from tests.command import ROOT

STATING = {**MECHANISMS, **SAMPLING}


def problems(premise: Premise) -> list[str]:
    """What is missing of a row of the table."""
    file, _, name = premise.test.partition("::")
    path = ROOT / file
    tests = (
        {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)} if path.is_file() else set()
    )
    return [
        *(["no sentence"] if not (premise.holds[:1].isupper() and premise.holds.endswith(".")) else []),
        *(["nobody sees to it"] if not premise.owner.endswith(AUTHOR) else []),
        *([f"no test {premise.test}"] if name not in tests else []),
    ]


@pytest.mark.parametrize("name", STATING)
def test_each_states_its_premises(name: str) -> None:
    premises = load(STATING[name]).premises
    assert premises
    assert [fault for premise in premises for fault in problems(premise)] == []


def test_a_row_whose_test_is_not_there_is_seen() -> None:
    assert problems(Premise("It holds.", AUTHOR, "tests/premises/test_sampling.py::test_of_nothing"))
    assert problems(Premise("It holds.", AUTHOR, "tests/premises/test_nothing.py::test_of_nothing"))
    assert problems(Premise("It holds.", "", "tests/premises/test_table.py::test_each_states_its_premises"))


def test_the_page_has_a_row_for_each() -> None:
    shown = {term for section in topic("threats").sections for term, _ in section.terms}
    assert set(STATING) <= shown
