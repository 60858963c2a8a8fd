"""The SQL of a file, read before anything is priced or charged: a mistake in it shall cost nothing."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError

if TYPE_CHECKING:
    from dpcli.release.entries import AskedQuery
    from dpcli.release.settings import Source

UNREAD = "conditions and expressions were not read: that needs pip install 'dpcli[release]'"


def reads_expressions() -> bool:
    """Whether what parses SQL is installed."""
    return importlib.util.find_spec("sqlglot") is not None


def require_expressions(source: Source, asked: Sequence[AskedQuery], path: str) -> None:
    """Raise InputError where a `where` or an `expression` of the file is refused; Unavailable where nothing reads it."""
    from dpcli.release.expressions.check import Expressions

    columns, place = source.columns, path
    try:
        for name, column in columns.items():
            if column.expression is not None:
                Expressions(columns).column(name, name)
        for one in asked:
            if one.query.where is not None:
                place = f'{path}: query "{one.query.name}"'
                Expressions(columns).condition(one.query.where, "where")
    except InputError as error:
        raise InputError(f"{place}: {error}") from None
