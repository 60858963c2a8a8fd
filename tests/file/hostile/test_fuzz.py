"""Fuzz tests of the reader: any bytes give a pipeline or an InputError."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcli.base.errors import InputError
from dpcli.file.pipeline.read import parse, targets
from tests.file.samples import GOOD

SNIPPETS = [
    *GOOD.split("\n"),
    *("nan", "inf", "-1", "0", "1e400", "true", '"calibrate"', "[]", "{}", "[[", "]]", "'''", '"""', "\\", "\x1b", "\u202e", "\r"),
    *("[mechanism]", "[[mechanism]]", "[[privacy]]", "mechanism = [1, [2], {}]", "sampling = 3", "1979-05-27", "07:32:00", "."),
    *("mechanisms = [[]]", 'mechanisms = ["both"]', "orders = {}", "name = {}", "type = []", "scheme = 1", '"" = 1', "'a.b' = 1"),
]


def survives(data: bytes) -> None:
    with contextlib.suppress(InputError):
        parse(data, "x.toml")
    with contextlib.suppress(InputError):
        targets(data, "x.toml")
    with contextlib.suppress(InputError):
        parse(data, "x.toml", substitute=1.5)


@given(st.lists(st.sampled_from(SNIPPETS), max_size=30))
@settings(max_examples=150, deadline=None)
def test_shuffled_lines(lines: list[str]) -> None:
    survives("\n".join(lines).encode())


@pytest.mark.long
@given(st.data())
@settings(max_examples=300, deadline=None)
def test_mutated_file(data: st.DataObject) -> None:
    text = GOOD
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 20)))
        text = text[:start] + data.draw(st.one_of(st.sampled_from(SNIPPETS), st.text(max_size=5))) + text[end:]
    survives(text.encode(errors="surrogatepass"))


@pytest.mark.long
@given(st.data())
@settings(max_examples=200, deadline=None)
def test_mutated_values(data: st.DataObject) -> None:
    """Valid TOML throughout, so that decoding, and not only parsing, meets the surprise."""
    lines = GOOD.replace('"""two\nlines"""', '"x"').split("\n")
    values = ["nan", "-1", "0", "1e400", "true", '""', '"calibrate"', "[]", "[1]", "{}", '{ scheme = "none" }', "07:32:00"]
    for _ in range(data.draw(st.integers(1, 3))):
        index = data.draw(st.sampled_from([number for number, line in enumerate(lines) if " = " in line]))
        lines[index] = lines[index].split(" = ")[0] + " = " + data.draw(st.sampled_from(values))
    survives("\n".join(lines).encode())
