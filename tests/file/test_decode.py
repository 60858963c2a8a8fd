"""Tests of every kind of value: what it accepts, what it refuses, and in which words."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest

from dpcli.base.fields import COUNT, POSITIVE, Key, Note
from dpcli.file.keys.annotations import kind_of, members_of
from dpcli.file.keys.kinds import KeyPlace, Refused
from dpcli.file.toml.findings import Findings
from tests.cases import of_each


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


@dataclass(frozen=True, slots=True)
class Inner:
    width: Annotated[int, Key("a width", COUNT)]
    depth: Annotated[float | None, Key("a depth")] = None


@dataclass(frozen=True, slots=True)
class Outer:
    number: Annotated[float | None, Key("a number", POSITIVE)] = None
    count: Annotated[int | None, Key("a count", COUNT)] = None
    text: Annotated[str | None, Key("a text")] = None
    description: Annotated[Note | None, Key("prose")] = None
    flag: Annotated[bool, Key("a flag")] = False
    colour: Annotated[Colour | None, Key("a colour")] = None
    shape: Annotated[Literal["round", "square"] | None, Key("a shape")] = None
    numbers: Annotated[tuple[float, ...], Key("numbers", POSITIVE)] = ()
    words: Annotated[tuple[str, ...], Key("words")] = ()
    day: Annotated[datetime.date | None, Key("a day")] = None
    inner: Annotated[Inner | None, Key("a table")] = None
    inners: Annotated[tuple[Inner, ...], Key("tables")] = ()
    either: Annotated[str | Inner | None, Key("a name or a table")] = None
    unwritten: int = 3


def read(table: Any) -> Any:
    return kind_of(Outer).read(table, KeyPlace((), Findings()))


def found(table: Any) -> list[tuple[str, tuple[str | int, ...], str]]:
    findings = Findings()
    with pytest.raises(Refused):
        kind_of(Outer).read(table, KeyPlace((), findings))
    return [(finding.rule, finding.key, finding.message) for finding in findings.items]


@of_each(
    ("key", "value", "expected"),
    [
        ("number", 1.5, 1.5),
        ("number", 3, 3.0),
        ("count", 10**18, 10**18),
        ("text", "M\u00fcller", "M\u00fcller"),
        ("description", "two\n\tlines", "two\n\tlines"),
        ("description", "", ""),
        ("flag", True, True),
        ("colour", "red", Colour.RED),
        ("shape", "round", "round"),
        ("numbers", [1, 2.5], (1.0, 2.5)),
        ("numbers", [], ()),
        ("words", ["a", "b"], ("a", "b")),
        ("day", datetime.date(2030, 1, 2), datetime.date(2030, 1, 2)),
        ("inner", {"width": 2}, Inner(2)),
        ("inners", [{"width": 2}, {"width": 3, "depth": 1}], (Inner(2), Inner(3, 1.0))),
        ("either", "name", "name"),
        ("either", {"width": 2}, Inner(2)),
    ],
)
def test_takes(key: str, value: Any, expected: Any) -> None:
    taken = getattr(read({key: value}), key)
    assert taken == expected
    assert type(taken) is type(expected)


def test_negative_zero_is_zero() -> None:
    taken = kind_of(float).read(-0.0, KeyPlace(("x",), Findings()))
    assert str(taken) == "0.0"


@of_each(
    ("key", "value", "rule", "message"),
    [
        ("number", True, "DP003", "expected a number > 0, found true"),
        ("number", "1.5", "DP003", 'expected a number > 0, found "1.5"; write 1.5 without quotes'),
        ("number", "1_000", "DP003", 'expected a number > 0, found "1_000"; write 1_000 without quotes'),
        ("number", "much", "DP003", 'expected a number > 0, found "much"'),
        ("number", "", "DP003", 'expected a number > 0, found ""'),
        ("number", [1.5], "DP003", "expected a number > 0, found a list"),
        ("number", {}, "DP003", "expected a number > 0, found a table"),
        ("number", 0, "DP004", "expected a number > 0, found 0"),
        ("number", float("nan"), "DP004", "expected a number > 0, found nan"),
        ("number", float("inf"), "DP004", "expected a number > 0, found inf"),
        ("number", 10**400, "DP004", "expected a number > 0, found a whole number of 1329 bits"),
        ("count", 3.0, "DP003", "expected a whole number from 1 to 10^18, found 3.0; write 3"),
        ("count", 1e18, "DP003", "expected a whole number from 1 to 10^18, found 1e+18; write 1_000_000_000_000_000_000"),
        ("count", 1e300, "DP003", "expected a whole number from 1 to 10^18, found 1e+300"),
        ("count", 2.5, "DP003", "expected a whole number from 1 to 10^18, found 2.5"),
        ("count", False, "DP003", "expected a whole number from 1 to 10^18, found false"),
        ("count", float("-inf"), "DP004", "expected a whole number from 1 to 10^18, found -inf"),
        ("count", 0, "DP004", "expected a whole number from 1 to 10^18, found 0"),
        ("text", 3, "DP003", 'expected text in quotes, found 3; write "3"'),
        ("text", ["a"], "DP003", "expected text in quotes, found a list"),
        ("text", "", "DP004", 'expected text that is not empty, found ""'),
        ("text", "a\nb", "DP004", 'expected text without control or invisible characters, found "a\\nb"'),
        ("text", "a\u200bb", "DP004", 'expected text without control or invisible characters, found "a\\u200bb"'),
        ("description", "\x1b[31m", "DP004", 'expected text without control or invisible characters, found "\\u001b[31m"'),
        ("flag", 1, "DP003", "expected true or false, found 1"),
        ("flag", "True", "DP003", 'expected true or false, found "True"; write true without quotes'),
        ("colour", "RED", "DP004", "expected one of 'red', 'green', found \"RED\"; did you mean 'red'"),
        ("colour", 1, "DP003", "expected one of 'red', 'green', found 1"),
        ("shape", "oval", "DP004", "expected one of 'round', 'square', found \"oval\""),
        ("numbers", 1.5, "DP003", "expected a list, each a number > 0, found 1.5"),
        ("words", "a", "DP003", 'expected a list, each text in quotes, found "a"'),
        ("day", "2030-01-02", "DP003", 'expected a date (2030-12-31, without quotes), found "2030-01-02"'),
        ("day", datetime.datetime(2030, 1, 2), "DP003", "expected a date (2030-12-31, without quotes), found 2030-01-02 00:00:00"),
        ("inner", 3, "DP003", "expected a table { width = ... }, found 3"),
        ("either", 3, "DP003", "expected text in quotes, or a table { width = ... }, found 3"),
    ],
)
def test_refuses(key: str, value: Any, rule: str, message: str) -> None:
    assert found({key: value}) == [(rule, (key,), message)]


def test_an_integer_that_python_will_not_write() -> None:
    assert found({"count": 16**5000}) == [
        ("DP004", ("count",), "expected a whole number from 1 to 10^18, found a whole number of 20001 bits")
    ]


def test_every_item_of_a_list_is_judged() -> None:
    assert found({"numbers": [1, -1, 2, "3"]}) == [
        ("DP004", ("numbers", 1), "expected a number > 0, found -1"),
        ("DP003", ("numbers", 3), 'expected a number > 0, found "3"; write 3 without quotes'),
    ]


def test_every_key_of_a_table_is_judged() -> None:
    assert found({"inner": {"widht": 2, "depth": "x"}, "inners": [{"width": 1}, {}], "unwritten": 3}) == [
        ("DP002", ("unwritten",), "expected one of " + ", ".join(members_of(Outer)) + ", found 'unwritten'"),
        ("DP002", ("inner", "widht"), "expected a known key, found 'widht'; did you mean 'width'"),
        ("DP003", ("inner", "depth"), 'expected a number, found "x"'),
        ("DP005", ("inners", 1, "width"), "expected a whole number from 1 to 10^18, found nothing"),
    ]


def test_a_table_must_be_one() -> None:
    assert found("x") == [("DP003", (), 'expected a table { number = ..., count = ... }, found "x"')]
