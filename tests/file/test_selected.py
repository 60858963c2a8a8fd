"""Tests of tables whose class is selected by a key, and of keys that another key makes idle, on three classes made for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from dpcli.base.fields import POSITIVE, Constraint, Key, NeededSetting, Selection
from dpcli.file.keys.annotations import keys_without_effect, kind_of, members_of
from dpcli.file.keys.kinds import KeyPlace, Refused
from dpcli.file.keys.tables import KeyTable, SelectedTable
from dpcli.file.toml.findings import Findings

SHAPES = {name.lower(): f"tests.file.test_selected:{name}" for name in ("Circle", "Square", "Word")}
KNOWN = Constraint("a word with an e in it", lambda x: "e" in x, (("pattern", "e"),))


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a key says."""

    selection: ClassVar[Selection] = Selection("shape", SHAPES, "circle")
    shape: Annotated[str, Key("which")] = "circle"
    size: Annotated[float, Key("how large", POSITIVE)]


@dataclass(frozen=True, kw_only=True)
class Circle(Shape):
    radius: Annotated[float, Key("of it", POSITIVE)] = 2.0


@dataclass(frozen=True, kw_only=True)
class Square(Shape):
    width: Annotated[float, Key("of it", POSITIVE)]
    height: Annotated[float | None, Key("the width where absent", needs=NeededSetting("a width over 1", lambda s: s.width > 1))] = (
        None
    )


@dataclass(frozen=True, kw_only=True)
class Word(Shape):
    text: Annotated[str, Key("of it", KNOWN)] = "one"
    width: Annotated[float, Key("of it", POSITIVE)]


KIND = kind_of(Shape)
SCHEMA = KIND.schema(None)


def read(table: dict[str, Any]) -> Any:
    return KIND.read(table, KeyPlace((), Findings()))


def messages(table: dict[str, Any]) -> list[str]:
    findings = Findings()
    with pytest.raises(Refused):
        KIND.read(table, KeyPlace((), findings))
    assert not Draft202012Validator(SCHEMA).is_valid(table)
    return [f"{'.'.join(map(str, finding.key))}: {finding.message}" for finding in findings.items]


def test_the_base_selects_and_each_of_its_classes_is_a_plain_table() -> None:
    assert isinstance(KIND, SelectedTable)
    assert all(isinstance(kind_of(cls), KeyTable) for cls in (Circle, Square, Word))


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"size": 1}, Circle(size=1.0)),
        ({"size": 1, "shape": "circle", "radius": 3}, Circle(size=1.0, radius=3.0)),
        ({"size": 1, "shape": "square", "width": 3}, Square(shape="square", size=1.0, width=3.0)),
        ({"size": 1, "shape": "word", "width": 3, "text": "three"}, Word(shape="word", size=1.0, width=3.0, text="three")),
    ],
)
def test_the_word_or_its_default_selects_the_class(table: dict[str, Any], expected: Shape) -> None:
    assert read(table) == expected
    Draft202012Validator(SCHEMA).validate(table)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"size": 1, "width": 1}, ['width: expected a known key, found \'width\'; it belongs to shape = "square" or "word"']),
        (
            {"size": 1, "widht": 1},
            ["widht: expected a known key, found 'widht'; did you mean 'width', which belongs to shape = \"square\" or \"word\""],
        ),
        ({"size": 1, "radus": 1}, ["radus: expected a known key, found 'radus'; did you mean 'radius'"]),
        ({"size": 1, "shape": "square"}, ["width: expected a number > 0, found nothing"]),
        ({"size": 1, "shape": "word", "width": 1, "text": "a"}, ['text: expected a word with an e in it, found "a"']),
        (
            {"size": -1, "shape": "cirle", "width": -1},
            [
                "size: expected a number > 0, found -1",
                "shape: expected one of 'circle', 'square', 'word', found \"cirle\"; did you mean 'circle'",
            ],
        ),
    ],
)
def test_what_is_refused_and_why(table: dict[str, Any], expected: list[str]) -> None:
    assert sorted(messages(table)) == sorted(expected)


def test_the_schema_has_the_defaults() -> None:
    assert SCHEMA["properties"]["shape"]["enum"] == list(SHAPES)
    circle, square, word = (case["then"]["properties"] for case in SCHEMA["allOf"])
    assert circle["radius"]["default"] == 2.0
    assert word["text"]["default"] == "one"
    assert "default" not in square["width"] and "default" not in square["height"]
    assert all(case["shape"]["default"] == "circle" for case in (circle, square, word))


def test_common_keys_are_those_of_every_class() -> None:
    assert isinstance(KIND, SelectedTable)
    assert KIND.common_members() == {"size": members_of(Shape)["size"]}


def test_a_key_that_nothing_reads_is_a_problem_unless_it_is_at_its_default() -> None:
    assert list(keys_without_effect(Square(size=1.0, width=2.0, height=3.0))) == []
    assert list(keys_without_effect(Square(size=1.0, width=0.5))) == []
    assert list(keys_without_effect(Square(size=1.0, width=0.5, height=3.0))) == [
        (("height",), "this key only with a width over 1", "3.0")
    ]
