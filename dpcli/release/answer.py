"""What a query is answered with: values with their intervals, as they are kept and shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

KeyValue = str | int | bool
Value = float | int | str | bool | None


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """One value. key: the values of the columns in `by`. lower, upper: of its interval, None where it has none; infinite where nothing
    bounds it."""

    key: tuple[KeyValue, ...]
    value: Value
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """The noisy answer to one query.

    by: names of the key's columns. confidence: of each interval. covers: what the interval speaks of, and what not. postprocessed: what
    was done to the noisy numbers.
    """

    query: str
    measure: str
    by: tuple[str, ...]
    rows: tuple[AnswerRow, ...]
    confidence: float
    covers: str
    postprocessed: tuple[str, ...] = ()


def as_json(answer: QueryAnswer) -> dict[str, Any]:
    """JSON values; infinities as text."""
    return {**asdict(answer), "rows": [{name: _jsonable(value) for name, value in asdict(row).items()} for row in answer.rows]}


def of_json(content: Mapping[str, Any]) -> QueryAnswer:
    """What `as_json` wrote. Raises TypeError, KeyError or ValueError where it did not."""
    rows = tuple(
        AnswerRow(tuple(row["key"]), row["value"], _number(row["lower"]), _number(row["upper"])) for row in content["rows"]
    )
    listed = {name: tuple(content[name]) for name in ("by", "postprocessed")}
    return QueryAnswer(**{**content, **listed, "rows": rows})


def _jsonable(value: Any) -> Any:
    return str(value) if isinstance(value, float) and abs(value) == float("inf") else value


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
