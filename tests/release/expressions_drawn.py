"""Random SQL expressions, each with its meaning as a Python function of a row, for tests of the engines."""

from __future__ import annotations

import datetime
import math
import operator
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

Row = Mapping[str, Any]

TYPES = {"n": "integer", "m": "integer", "x": "decimal", "y": "decimal", "s": "text", "t": "text", "b": "boolean", "d": "date"}
WHOLE = [None, 0, 1, -1, 2, -3, 7, 10, -10, 2**31, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 4_000_000_000]
NUMBERS = [
    None,
    0.0,
    -0.0,
    0.1,
    -2.5,
    0.5,
    0.49999999999999994,
    -1e-20,
    4503599627370497.5,
    1e308,
    -1e308,
    1e-310,
    5e-324,
    1e150,
    1.1e150,
    1e-150,
    9e-151,
    math.nan,
    math.inf,
    -math.inf,
    3.0,
]
TEXTS = [
    None,
    "",
    " ",
    "a",
    "A",
    "ä",
    "Ä",
    "a\u0308",
    "ß",
    "ſ",
    "İ",
    "K",
    "z",
    "Z",
    "\U0001f600b",
    "it's",
    '"',
    "\\",
    "a,b",
    "x\ny",
    "%",
    "true",
    "7",
    " 7",
    "-9223372036854775809",
    "1e3",
    ".5 ",
    "2020-02-29",
    "2021-02-29",
    "2020-01-31T10:00",
    "F",
    "a_b!",
    "{0}",
    "\ufeff",
    "\u202e|",
]
TRUTHS = [None, True, False]
DAYS = [
    None,
    *(
        datetime.date.fromisoformat(day)
        for day in ("2020-02-29", "1999-12-31", "2021-01-03", "2024-12-30", "1582-10-10", "0001-01-01", "9999-12-31")
    ),
]
VALUES = {"integer": WHOLE, "decimal": NUMBERS, "text": TEXTS, "boolean": TRUTHS, "date": DAYS}


@dataclass(frozen=True)
class Drawn:
    sql: str
    value: Callable[[Row], Any]


def rows(draw: random.Random, count: int) -> list[dict[str, Any]]:
    """Draw rows of hostile values, each with its own id."""
    return [{"id": number, **{name: draw.choice(VALUES[kind]) for name, kind in TYPES.items()}} for number in range(count)]


def expression(draw: random.Random, kind: str, depth: int) -> Drawn:
    ways = [MADE[kind], MADE[kind], partial(chosen, kind=kind)]
    if kind in ("integer", "decimal", "date"):
        ways.append(partial(extreme, kind=kind))
    way = draw.choice(ways)
    made = way(draw, depth) if depth > 0 and draw.random() < 0.85 else leaf(draw, kind)
    return Drawn(f"({made.sql})", made.value)


def chosen(draw: random.Random, depth: int, kind: str) -> Drawn:
    """Draw a case, coalesce or nullif. One of two numbers may be whole, and the result is then a decimal."""
    mixed = kind == "decimal" and draw.random() < 0.5
    values = [expression(draw, kind, depth - 1), expression(draw, "integer" if mixed else kind, depth - 1)]
    left, right = values

    def made(value: Any) -> Any:
        return float(value) if kind == "decimal" and value is not None else value

    way = draw.choice(["case", "else", "coalesce", "nullif"])
    if way == "coalesce":
        return Drawn(
            f"coalesce({left.sql}, {right.sql})", lambda row: made(right.value(row) if left.value(row) is None else left.value(row))
        )
    if way == "nullif":

        def unequal(row: Row) -> Any:
            a, b = made(left.value(row)), made(right.value(row))
            return None if a is not None and a == b else a

        return Drawn(f"nullif({left.sql}, {right.sql})", unequal)
    tests = [expression(draw, "boolean", depth - 1) for _ in range(2 if way == "case" else 1)]
    branches = " ".join(f"when {test.sql} then {value.sql}" for test, value in zip(tests, values, strict=False))
    otherwise = f" else {right.sql}" if way == "else" else ""

    def value(row: Row) -> Any:
        for test, result in zip(tests, values, strict=False):
            if test.value(row) is True:
                return made(result.value(row))
        return made(right.value(row)) if way == "else" else None

    return Drawn(f"case {branches}{otherwise} end", value)


def leaf(draw: random.Random, kind: str) -> Drawn:
    if draw.random() < 0.7:
        name = draw.choice([name for name, own in TYPES.items() if own == kind])
        return Drawn(name, lambda row: row[name])
    value = draw.choice(
        [each for each in VALUES[kind] if each is not None and not (isinstance(each, float) and not math.isfinite(each))]
    )
    return Drawn(literal(value), lambda row: value)


def literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return "'{}'".format(value.replace("'", "''"))
    return f"date '{value.isoformat()}'" if isinstance(value, datetime.date) else repr(value)


def strict(function: Callable[..., Any], *operands: Drawn) -> Callable[[Row], Any]:
    """Return an expression whose value is None if an operand is None."""

    def value(row: Row) -> Any:
        found = [operand.value(row) for operand in operands]
        return None if None in found else function(*found)

    return value


def whole(draw: random.Random, depth: int) -> Drawn:
    way = draw.choice(["+", "-", "*", "//", "%", "neg", "part", "abs", "floor", "ceil", "round", "length", "cast"])
    if way in ("floor", "ceil", "round"):
        own = expression(draw, draw.choice(["decimal", "decimal", "integer"]), depth - 1)
        function = {"floor": math.floor, "ceil": math.ceil, "round": away_from_zero}[way]
        return Drawn(f"{way}({own.sql})", strict(lambda a: function(a) if isinstance(a, int) or abs(a) < 9.2e18 else None, own))
    if way == "length":
        own = expression(draw, "text", depth - 1)
        return Drawn(f"length({own.sql})", strict(len, own))
    if way == "cast":
        return cast(draw, depth, ["text", "boolean", "integer"], "bigint", {"text": whole_of_text})
    if way == "part":
        name, function = draw.choice(list(PARTS.items()))
        day = expression(draw, "date", 0)
        return Drawn(
            f"extract({name} from {day.sql})" if draw.random() < 0.5 else f"{CALLS[name]}({day.sql})", strict(function, day)
        )
    left, right = expression(draw, "integer", depth - 1), expression(draw, "integer", depth - 1)
    if way == "neg":
        return Drawn(f"- {left.sql}", strict(lambda a: fitting(-a), left))
    if way == "abs":
        return Drawn(f"abs({left.sql})", strict(lambda a: fitting(abs(a)), left))
    return Drawn(f"{left.sql} {way} {right.sql}", strict(WHOLE_WAYS[way], left, right))


def cast(
    draw: random.Random, depth: int, kinds: list[str], to: str, ways: Mapping[str, Callable[[Any], Any]], other: Any = int
) -> Drawn:
    """Draw a cast from one of several types, with the meaning that `ways` gives for the type, or else `other`."""
    kind = draw.choice(kinds)
    own, word = expression(draw, kind, depth - 1), draw.choice(["cast", "try_cast"])
    return Drawn(f"{word}({own.sql} as {to})", strict(ways.get(kind, other), own))


def whole_of_text(value: str) -> int | None:
    trimmed = value.strip(" ")
    return fitting(int(trimmed)) if re.fullmatch("[+-]?[0-9]{1,19}", trimmed) else None


def number_of_text(value: str) -> float | None:
    trimmed = value.strip(" ")
    return float(trimmed) if re.fullmatch("[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,3})?", trimmed) else None


def truth_of_text(value: str) -> bool | None:
    return {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}.get(value.strip(" ").lower())


def day_of_text(value: str) -> datetime.date | None:
    """Return the first ten characters as a date, if nothing or a time of day follows them."""
    trimmed = value.strip(" ")
    if not re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", trimmed[:10]) or trimmed[10:11] not in ("", "T", " "):
        return None
    try:
        return datetime.date.fromisoformat(trimmed[:10])
    except ValueError:
        return None


def extreme(draw: random.Random, depth: int, kind: str) -> Drawn:
    """Draw the least or the greatest of several values, of which null ones do not count."""
    way, function = draw.choice([("least", min), ("greatest", max)])
    other = draw.choice(["integer", kind]) if kind == "decimal" else kind
    operands = [expression(draw, kind, depth - 1), expression(draw, other, depth - 1)]

    def value(row: Row) -> Any:
        found = [each for each in (operand.value(row) for operand in operands) if each is not None]
        return None if not found else function(map(float, found)) if kind == "decimal" else function(found)

    return Drawn(f"{way}({operands[0].sql}, {operands[1].sql})", value)


def fitting(value: int | None) -> int | None:
    return value if value is not None and -(2**63) <= value < 2**63 else None


def away_from_zero(value: float) -> int:
    """Return the nearest integer, computed exactly. Of two, it is the one further from 0."""
    size = math.floor(abs(Fraction(value)) + Fraction(1, 2))
    return -size if value < 0 else size


def toward_zero(a: int, b: int) -> int | None:
    return None if b == 0 else fitting(abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1))


def remainder(a: int, b: int) -> int | None:
    return None if b == 0 else int(math.copysign(1, a)) * (abs(a) % abs(b))


WHOLE_WAYS: dict[str, Callable[[int, int], int | None]] = {
    "+": lambda a, b: fitting(a + b),
    "-": lambda a, b: fitting(a - b),
    "*": lambda a, b: fitting(a * b),
    "//": toward_zero,
    "%": remainder,
}
PARTS = {
    "year": lambda day: day.year,
    "quarter": lambda day: (day.month + 2) // 3,
    "month": lambda day: day.month,
    "week": lambda day: day.isocalendar().week,
    "day": lambda day: day.day,
    "doy": lambda day: day.timetuple().tm_yday,
    "dow": lambda day: day.isoweekday() % 7,
    "isodow": lambda day: day.isoweekday(),
}
CALLS = {**{name: name for name in PARTS}, "doy": "dayofyear", "dow": "dayofweek"}


def decimal(draw: random.Random, depth: int) -> Drawn:
    way = draw.choice(["+", "-", "*", "/", "neg", "abs", "cast"])
    if way == "abs":
        own = expression(draw, "decimal", depth - 1)
        return Drawn(f"abs({own.sql})", strict(abs, own))
    if way == "cast":
        return cast(draw, depth, ["text", "integer", "decimal"], "double", {"text": number_of_text}, float)
    left, right = (expression(draw, draw.choice(["decimal", "decimal", "integer"]), depth - 1) for _ in range(2))
    if way == "neg":
        own = expression(draw, "decimal", depth - 1)
        return Drawn(f"- {own.sql}", strict(lambda a: decimals("-", 0.0, a), own))
    if way != "/":  # two integers would stay integers
        left = expression(draw, "decimal", depth - 1)
    return Drawn(f"{left.sql} {way} {right.sql}", strict(lambda a, b: decimals(way, a, b), left, right))


def decimals(way: str, left: float, right: float) -> float | None:
    a, b = limited(float(left)), limited(float(right))
    if a is None or b is None or (way == "/" and b == 0.0):
        return None
    return {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}[way](a, b)


def limited(value: float) -> float | None:
    return None if abs(value) > 1e150 else 0.0 if abs(value) < 1e-150 else value


def text(draw: random.Random, depth: int) -> Drawn:
    way = draw.choice(["lower", "upper", "substr", "trim", "cast", "||", "concat"])
    if way in ("||", "concat"):
        parts = [expression(draw, "text", depth - 1) for _ in range(2 if way == "||" else draw.choice([1, 2, 3]))]
        if way == "||":
            return Drawn(f"{parts[0].sql} || {parts[1].sql}", strict(operator.add, *parts))
        return Drawn(
            f"concat({', '.join(part.sql for part in parts)})", lambda row: "".join(part.value(row) or "" for part in parts)
        )
    if way == "cast":
        ways = {"boolean": lambda value: str(value).lower(), "date": lambda value: value.isoformat()}
        return cast(draw, depth, ["integer", "boolean", "date", "text"], "text", ways, str)
    own = expression(draw, "text", depth - 1)
    if way == "trim":
        return Drawn(f"trim({own.sql})", strict(lambda a: a.strip(" "), own))
    if way == "substr":
        start, length = draw.choice([1, 2, 5]), draw.choice([None, 0, 1, 3])
        end = None if length is None else start - 1 + length
        sql = f"substr({own.sql}, {start})" if length is None else f"substring({own.sql} from {start} for {length})"
        return Drawn(sql, strict(lambda a: a[start - 1 : end], own))
    old, new = ("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")[:: 1 if way == "lower" else -1]
    return Drawn(f"{way}({own.sql})", strict(lambda a: a.translate(str.maketrans(old, new)), own))


def truth(draw: random.Random, depth: int) -> Drawn:
    way = draw.choice(["and", "or", "not", "compare", "compare", "between", "in", "null", "like", "cast"])
    if way == "cast":
        return cast(draw, depth, ["text", "boolean"], "boolean", {"text": truth_of_text}, bool)
    if way == "like":
        return like(draw, depth)
    if way in ("and", "or"):
        left, right = expression(draw, "boolean", depth - 1), expression(draw, "boolean", depth - 1)
        return Drawn(f"{left.sql} {way} {right.sql}", lambda row: connected(way, left.value(row), right.value(row)))
    if way == "not":
        own = expression(draw, "boolean", depth - 1)
        return Drawn(f"not {own.sql}", strict(operator.not_, own))
    kind = draw.choice(["integer", "decimal", "text", "date"])
    if way == "null":
        own = expression(draw, kind, depth - 1)
        negated = draw.random() < 0.5
        return Drawn(f"{own.sql} is {'not ' if negated else ''}null", lambda row: (own.value(row) is None) != negated)
    if way == "in":
        own = expression(draw, kind, depth - 1)
        listed = [leaf_value(draw, kind) for _ in range(draw.choice([1, 3]))]
        return Drawn(f"{own.sql} in ({', '.join(map(literal, listed))})", strict(lambda a: a in listed, own))
    other = draw.choice(["integer", "decimal"]) if kind in ("integer", "decimal") else kind
    operands = [expression(draw, kind, depth - 1), *(expression(draw, other, depth - 1) for _ in range(2))]
    mixed = kind != other

    def ordered(value: Any) -> Any:
        return float(value) if mixed else value.encode() if isinstance(value, str) else value

    if way == "between":
        own, least, most = operands
        return Drawn(
            f"{own.sql} between {least.sql} and {most.sql}",
            lambda row: between(*(ordered_or_none(each.value(row), ordered) for each in operands)),
        )
    sign, function = draw.choice(list(COMPARISONS.items()))
    return Drawn(
        f"{operands[0].sql} {sign} {operands[1].sql}", strict(lambda a, b: function(ordered(a), ordered(b)), *operands[:2])
    )


def like(draw: random.Random, depth: int) -> Drawn:
    own = expression(draw, "text", depth - 1)
    pattern = "".join(draw.choice(["%", "_", "a", "A", "ä", "!", "\\", "K", "b", "'"]) for _ in range(draw.choice([0, 1, 2, 4])))
    way, negated = draw.choice(["like", "ilike"]), draw.random() < 0.3
    fold = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz") if way == "ilike" else {}
    wanted = re.compile("".join({"%": ".*", "_": "."}.get(each, re.escape(each)) for each in pattern.translate(fold)), re.DOTALL)
    return Drawn(
        f"{own.sql} {'not ' if negated else ''}{way} {literal(pattern)}",
        strict(lambda a: (wanted.fullmatch(a.translate(fold)) is not None) != negated, own),
    )


COMPARISONS = {
    "=": operator.eq,
    "<>": operator.ne,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def ordered_or_none(value: Any, ordered: Callable[[Any], Any]) -> Any:
    return None if value is None else ordered(value)


def between(value: Any, least: Any, most: Any) -> bool | None:
    """Return value >= least AND value <= most in SQL's logic, in which None is unknown."""
    above = None if value is None or least is None else value >= least
    below = None if value is None or most is None else value <= most
    return connected("and", above, below)


def connected(way: str, left: bool | None, right: bool | None) -> bool | None:
    decisive = way == "or"
    if decisive in (left, right):
        return decisive
    return None if None in (left, right) else not decisive


def leaf_value(draw: random.Random, kind: str) -> Any:
    return draw.choice(
        [each for each in VALUES[kind] if each is not None and not (isinstance(each, float) and not math.isfinite(each))]
    )


def day(draw: random.Random, depth: int) -> Drawn:
    way = draw.choice(["leaf", "trunc", "trunc", "cast"])
    if way == "cast":
        return cast(draw, depth, ["text", "date"], "date", {"text": day_of_text}, lambda value: value)
    if way == "leaf":
        return leaf(draw, "date")
    own = expression(draw, "date", depth - 1)
    period, function = draw.choice(list(PERIODS.items()))
    return Drawn(f"date_trunc('{period}', {own.sql})", strict(function, own))


PERIODS: dict[str, Callable[[datetime.date], datetime.date]] = {
    "year": lambda day: day.replace(month=1, day=1),
    "quarter": lambda day: day.replace(month=day.month - (day.month - 1) % 3, day=1),
    "month": lambda day: day.replace(day=1),
    "week": lambda day: day - datetime.timedelta(days=day.weekday()),
}


MADE = {"integer": whole, "decimal": decimal, "text": text, "boolean": truth, "date": day}
