"""Every mechanism type, sampling scheme, filter, kind of blocks and private command states its premises, each with a test that is there."""

from __future__ import annotations

import ast

import pytest

from dpcli.base.lazy import load
from dpcli.base.premise import AUTHOR, Premise
from dpcli.base.registry import MECHANISMS, RELEASED, SAMPLING, SECTIONS
from dpcli.explain.lookup import explain
from dpcli.explain.topics import topic
from dpcli.ledger.plugin import BLOCKS, FILTERS
from tests.command import ROOT

TABLES = (
    MECHANISMS,
    SAMPLING,
    FILTERS,
    {f"blocks by {by}": target for by, target in BLOCKS.items()},
    {**SECTIONS, "release": RELEASED["source"]},
)
STATING = [(name, target) for table in TABLES for name, target in table.items()]


def problems(premise: Premise) -> list[str]:
    """What is missing of a row of the table."""
    file, _, name = premise.test.partition("::")
    path = ROOT / file
    tests = (
        {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)} if path.is_file() else set()
    )
    return [
        *(["no sentence"] if not (premise.holds[:1].isupper() and premise.holds.endswith(".")) else []),
        *(["nobody sees to it"] if not premise.owner else []),
        *([f"no test {premise.test}"] if name not in tests else []),
    ]


@pytest.mark.parametrize(("name", "target"), STATING)
def test_each_states_its_premises(name: str, target: str) -> None:
    premises = load(target).premises
    assert premises
    assert [fault for premise in premises for fault in problems(premise)] == []


def test_a_row_whose_test_is_not_there_is_seen() -> None:
    assert problems(Premise("It holds.", AUTHOR, "tests/premises/test_sampling.py::test_of_nothing"))
    assert problems(Premise("It holds.", AUTHOR, "tests/premises/test_nothing.py::test_of_nothing"))
    assert problems(Premise("It holds.", "", "tests/premises/test_table.py::test_each_states_its_premises"))


def test_the_page_has_a_row_for_each() -> None:
    """Under the heading of its own table: by its name, or by all but a few others."""
    shown: dict[str, list[str]] = {}
    for section in topic("threats").sections:
        for terms, text in section.terms:
            shown.setdefault(text, []).append(terms)
    for name, target in STATING:
        for premise in load(target).premises:
            terms = shown[str(premise)]
            assert any(name in one.split(", ") or (one.startswith("all") and name not in one[8:].split(", ")) for one in terms), (
                name
            )


@pytest.mark.parametrize("name", [*MECHANISMS, *SAMPLING])
def test_each_word_is_explained_with_its_premises(name: str) -> None:
    said = "".join(explain(name).split())
    assert all("".join(str(premise).split()) in said for premise in load({**MECHANISMS, **SAMPLING}[name]).premises)
