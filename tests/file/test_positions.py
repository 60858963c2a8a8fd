"""Tests of the positions of keys, in every way in which TOML can spell a key."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dpcli.file.toml.findings import Path
from dpcli.file.toml.positions import locate
from tests.cases import of_each

TEXT = '''\
# [table] in a comment
format = 1
"quo ted" = "x = 1"  # y = 2
'lit"eral' = 2
"uni\\u0063ode" = 3
dotted . "two" = { inner = 1, "deep er" . key = [10, { at = 2 }] }
multi = """
[table]
key = 1 \\"""
""""
literal = \'\'\'
[[mechanism]]
\'\'\'
list = [
  1, # one ]
  "]",
  [2,
   3],
]

[table]
\tkey = 1

  [table.sub]
  key = 2

[[mechanism]]
name = "a"
[mechanism.sampling]
rate = 1
[[mechanism.part]]
x = 1
[[mechanism.part]]
x = 2

[[mechanism]]
name = "b"
sampling.rate = 2
date = 1979-05-27 07:32:00
after = 1
[a.b]
[a]
key = 1'''


PLACES: dict[Path, tuple[int, int]] = {
    (): (1, 1),
    ("format",): (2, 1),
    ("quo ted",): (3, 1),
    ('lit"eral',): (4, 1),
    ("unicode",): (5, 1),
    ("dotted",): (6, 1),
    ("dotted", "two"): (6, 10),
    ("dotted", "two", "inner"): (6, 20),
    ("dotted", "two", "deep er"): (6, 31),
    ("dotted", "two", "deep er", "key"): (6, 43),
    ("dotted", "two", "deep er", "key", 0): (6, 50),
    ("dotted", "two", "deep er", "key", 1, "at"): (6, 56),
    ("multi",): (7, 1),
    ("literal",): (11, 1),
    ("list",): (14, 1),
    ("list", 0): (15, 3),
    ("list", 1): (16, 3),
    ("list", 2): (17, 3),
    ("list", 2, 1): (18, 4),
    ("table",): (21, 2),
    ("table", "key"): (22, 2),
    ("table", "sub"): (24, 10),
    ("table", "sub", "key"): (25, 3),
    ("mechanism",): (27, 3),
    ("mechanism", 0): (27, 3),
    ("mechanism", 0, "name"): (28, 1),
    ("mechanism", 0, "sampling"): (29, 12),
    ("mechanism", 0, "sampling", "rate"): (30, 1),
    ("mechanism", 0, "part", 0, "x"): (32, 1),
    ("mechanism", 0, "part", 1): (33, 13),
    ("mechanism", 0, "part", 1, "x"): (34, 1),
    ("mechanism", 1): (36, 3),
    ("mechanism", 1, "sampling"): (38, 1),
    ("mechanism", 1, "sampling", "rate"): (38, 10),
    ("mechanism", 1, "date"): (39, 1),
    ("mechanism", 1, "after"): (40, 1),
    ("a",): (42, 2),
    ("a", "b"): (41, 4),
    ("a", "key"): (43, 1),
}


def test_found() -> None:
    """Each alone, and all at once."""
    tomllib.loads(TEXT)
    assert {path: locate(TEXT, [path]) for path in PLACES} == {path: {path: place} for path, place in PLACES.items()}
    assert locate(TEXT, list(PLACES)) == PLACES


@of_each(
    ("path", "place"),
    [
        (("mechanism", 1, "type"), (36, 3)),
        (("mechanism", 0, "sampling", "scheme"), (29, 12)),
        (("mechanism", 1, "sampling", "scheme"), (38, 1)),
        (("mechanism", 7, "name"), (27, 3)),
        (("table", "missing", "deeper"), (21, 2)),
        (("missing",), (1, 1)),
        (("missing", 3, "deeper"), (1, 1)),
    ],
)
def test_falls_back_on_what_is_around(path: Path, place: tuple[int, int]) -> None:
    assert locate(TEXT, [path]) == {path: place}


def test_columns_count_characters() -> None:
    assert locate('"\u00fc\U0001f512" = 1\na = ["\U0001f512", 2]', [("\u00fc\U0001f512",), ("a", 1)]) == {
        ("\u00fc\U0001f512",): (1, 1),
        ("a", 1): (2, 11),
    }


@of_each("text", ["", "= 1", "a", "[a", "a = {b", "a = [1", '"a', "a = ]", "[[a]"])
def test_never_stumbles(text: str) -> None:
    assert locate(text, [("z",)]) == {("z",): (1, 1)}


def keys(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every path of a document."""
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from keys(item, (*path, key))
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from keys(item, (*path, index))


NAMES = st.sampled_from(["a", "b", "c d", "e.f", 'g"h', "\u00e9"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([1, "x", 'y"]', True, 1.5]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


def written(value: Any) -> str:
    """A value as TOML, inline."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{written(key)} = {written(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[ # [\n" + "".join(f"{written(item)} , # , ]\n" for item in value) + "]"
    if isinstance(value, str):
        return '"' + value.replace('"', '\\"') + '"'
    return str(value).lower()


@given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=4))
def test_what_is_written_is_found(document: dict[str, Any]) -> None:
    text = "\n".join(f"{written(key)} = {written(value)}" for key, value in document.items())
    assert tomllib.loads(text) == document
    paths = list(keys(document))
    places = locate(text, paths)
    lines = text.split("\n")
    for path in paths[1:]:
        line, column = places[path]
        last = path[-1]
        stands = lines[line - 1][column - 1 :]
        item: Any = document
        for part in path:
            item = item[part]
        assert stands.startswith(written(last) + " = " if isinstance(last, str) else written(item).split("\n")[0])
