"""A pipeline's own tables inside of what another library reads: they say what that library has no words for, and are believed where they
say the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dpcli.base.errors import InputError
from dpcli.exchange.foreign import ForeignTable, with_asserted
from dpcli.exchange.stated import Asserted
from dpcli.file.pipeline.document import pipeline_from
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.toml.limits import MAX_DEPTH

PART = "dpcli's part"  # of a file, in messages
TABLES = ("privacy", "mechanism")
WHOM = ("adjacency", "max_contributions")
MOST = 1_000_000  # values of the tables, each counted wherever it stands
_SINGLE = (bool, int, float, str, type(None))


def tables_carried(
    carried: Mapping[str, Any], asserted: Asserted, exported: Callable[[Pipeline], Any], found: Any
) -> dict[str, Any]:
    """The tables of the file to write: those that are carried, and what is asserted where they are silent.

    Args:
        exported: makes of a pipeline what the file should hold. found: what it holds.

    Raises:
        InputError: the tables are none or not these two, the file says something else than what they are exported as, before or after
            what is asserted, or they say something else than is asserted.
    """
    plain = plain_copy(carried, PART)
    ForeignTable(PART, plain).only(TABLES)
    tables = {key: plain[key] for key in TABLES}
    _require_same(tables, exported, found)
    if any(tables["privacy"].get(key, 1) != value for key, value in asserted.table.items() if key in WHOM):
        raise InputError("the file says whom its noise protects: expected no other adjacency or max_contributions")
    tables["privacy"] = with_asserted(tables["privacy"], asserted, PART)
    _require_same(tables, exported, found)
    return {"format": 1, **tables}


def _require_same(tables: Mapping[str, Any], exported: Callable[[Pipeline], Any], found: Any) -> None:
    if exported(pipeline_from(tables)) != found:
        raise InputError(
            "expected the file as dpcli export wrote it, found that it says something else than its own pipeline: "
            "remove dpcli's part of it to import the rest"
        )


def plain_copy(value: Any, name: str) -> Any:
    """The value as JSON has it, tuples as lists: what is shared is copied, so it is bounded first.

    Raises InputError where something in it is no value of JSON, it is deeper than MAX_DEPTH, as what holds itself is, or has more than
    MOST values.
    """
    left = MOST

    def copied(value: Any, depth: int) -> Any:
        nonlocal left
        left -= 1
        if depth > MAX_DEPTH or left < 0:
            raise InputError(f"{name}: expected tables at most {MAX_DEPTH} deep, of at most {MOST:,} values, found more")
        if type(value) in _SINGLE:
            return value
        if isinstance(value, list | tuple):
            return [copied(each, depth + 1) for each in value]
        if isinstance(value, dict) and all(type(key) is str for key in value):
            return {key: copied(each, depth + 1) for key, each in value.items()}
        raise InputError(f"{name}: expected tables of numbers, texts and lists, found something else")

    return copied(value, 0)
