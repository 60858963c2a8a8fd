"""Tests that features of TOML 1.1 are refused with every version of tomli, so that a file is valid everywhere or nowhere."""

from __future__ import annotations

import sys
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.file.toml.syntax import NotToml, tables_of

ESCAPE = "expected an escape that TOML knows (\\\\ for a backslash), found an unknown one"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a = {x = 1,}", 1, "expected a key, found }"),
        ("b = 1\na = {x = 1 , }", 2, "expected a key, found }"),
        ("a.b = {c = {d = 1,}}", 1, "expected a key, found }}"),
        ("a = {\nx = 1}", 1, "expected a key, found the end of the line"),
        ("a = {x = 1,\n y = 2}", 1, "expected a key, found the end of the line"),
        ("a = {x = [1,\n2]\n}", 2, "expected a table ended by }, found no end"),
        ("a = {x = 1 # why\n}", 1, "expected a table ended by }, found no end"),
        ('a = "\\e"', 1, ESCAPE),
        ('"\\x41" = 1', 1, ESCAPE),
        ('[a."\\x41"]\n', 1, ESCAPE),
        ('a = """\n\\\\\\x41"""', 2, ESCAPE),
        ("a = 12:30", 1, "expected the end of the line after a value, found :30"),
    ],
)
def test_refused_in_the_same_words_by_every_tomli(text: str, line: int, message: str) -> None:
    with pytest.raises(NotToml) as fault:
        tables_of(text)
    assert (fault.value.line, str(fault.value)) == (line, message)


LEAVES = st.sampled_from(
    [
        *(
            "1",
            "1.5",
            "true",
            '"x"',
            "'{'",
            '"\\\\e"',
            "'\\x41'",
            '"\\x41"',
            '"\\e"',
            '"""\n\\u0041"""',
            '"""a\n\\\\\\x41"""',
            '"#"',
        ),
        *(
            "12:30",
            "12:30:00",
            "12:30:00.5",
            "2020-01-01",
            "2020-01-01 12:30",
            "2020-01-01T12:30:00-07:30",
            "2020-01-01T12:30-07:30",
        ),
    ]
)
SPACES = st.sampled_from(["", " ", "", " ", "\n", " # {, 12:30\n"])


def listed(items: st.SearchStrategy[str], ends: str) -> st.SearchStrategy[str]:
    """Items in brackets, with whatever may stand between them, and a comma at the end now and then."""
    between = st.tuples(SPACES, SPACES).map(",".join)
    several = st.lists(st.tuples(items, between).map("".join), max_size=2).map("".join)
    return st.tuples(SPACES, several, st.one_of(items, st.just("")), SPACES).map(lambda parts: ends[0] + "".join(parts) + ends[1])


def nested(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    keys = st.sampled_from(["a", "b.c", '"\\x41"', "'\\e'", "12"])
    return listed(values, "[]") | listed(st.tuples(keys, values).map("=".join), "{}")


def accepted(read: object, text: str) -> object:
    try:
        return read(text)  # type: ignore[operator]
    except (NotToml, tomllib.TOMLDecodeError):
        return None


@pytest.mark.skipif(sys.version_info >= (3, 15), reason="Python's own reader is one of TOML 1.1 from 3.15 on")
@given(st.lists(st.recursive(LEAVES, nested, max_leaves=6), min_size=1, max_size=3))
def test_python_s_own_reader_of_toml_1_0_accepts_the_same(values: list[str]) -> None:
    text = "".join(f"k{index} = {value}  # , }}\n[t{index}]\n" for index, value in enumerate(values))
    assert accepted(tables_of, text) == accepted(tomllib.loads, text)
