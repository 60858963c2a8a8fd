"""Flags that state a pipeline of one mechanism in place of FILE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpcli.errors import InputError


def stated(flags: Mapping[str, Any], delta: float | None, epsilon: float | None) -> tuple[dict[str, Any], str]:
    """The tables that the flags state, and the text of their file.

    Raises InputError where they state no mechanism, or no delta where nothing is pure and no epsilon is given.
    """
    from dpcli.pipeline.flags import Stated, text_of_flags

    given = Stated(**flags)
    pure = given.pure is not None or given.laplace
    tables = given.tables(0.0 if delta is None and epsilon is None and pure else delta)
    if delta is None and epsilon is None and not pure:
        raise InputError("expected --delta (well below 1 / number of records), found none")
    asked = {"delta": delta} if delta is not None else {}
    return tables, text_of_flags(tables, "account", {**given.given, **asked})
