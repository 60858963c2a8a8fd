"""A column that a table lacks: what was meant is said, and nothing that may be a value of a record."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.file.toml.shown import NAMED
from dpcli.file.toml.suggest import instead_of, meant_in

NAMES = ["id", "Dept", "salary-of-2024", "First Name", "Straße"]


@pytest.mark.parametrize("schema", [False, True])
def test_another_spelling_is_told_wherever_the_names_are_from(schema: bool) -> None:
    for name in NAMES:
        for stated in {name.upper(): 0, name.lower(): 0, name.replace(" ", "_"): 0, f"\ufeff{name} ": 0}.keys() - set(NAMES):
            said = instead_of(stated, NAMES, schema=schema)
            assert said.startswith("none: did you mean '"), stated
            assert not name.isascii() or said == f"none: did you mean '{name}'?", stated
            assert name.isascii() is (meant_in(dict.fromkeys(NAMES), [stated]) == f": did you mean '{name}'?"), stated


@given(
    line=st.lists(st.text("abcdefgh", min_size=4, max_size=12).map("value-{}".format), min_size=1, max_size=8),
    known=st.sets(st.sampled_from(["id", "dept", "salary", "name"]), min_size=1),
    held=st.sets(st.sampled_from(["id", "dept", "salary", "name"])),
)
def test_a_line_is_shown_only_where_half_of_what_is_expected_is_in_it(line: list[str], known: set[str], held: set[str]) -> None:
    names, others = [*line, *sorted(held - {"dept"})], known - {"dept"}
    said = instead_of("dept", names, known)
    assert ("value-" in said) == (len(others & held) * 2 >= len(others) > 0), said
    assert instead_of("dept", names, known, schema=True).startswith("none: ")


def test_a_few_of_many_are_told() -> None:
    names = [f"c{number}" for number in range(3 * NAMED)]
    said = instead_of("dept", names, schema=True)
    assert said == f"none: there are {', '.join(repr(name) for name in names[:NAMED])} and {2 * NAMED} more"
    assert instead_of("dept", names[:1], schema=True) == "none: there is 'c0'"
    assert instead_of("dept", [], schema=True) == "none: there are no columns"
    assert "\n" not in instead_of("dept", ["a\n\x1b[2J"], schema=True)


def test_of_a_row_without_names_nothing_is_told() -> None:
    assert meant_in(["Text"], ["text"]) == meant_in({"text": None}, ["text"]) == meant_in({3: "Text"}, ["text"]) == ""
