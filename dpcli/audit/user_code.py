"""A user's own function, by name, from the folder of the pipeline file or the current one."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from dpcli.errors import InputError


def user_function(target: str, folders: tuple[str, ...]) -> Callable[..., Any]:
    """The function that "package.module:name" names; `folders` are looked in first.

    Raises:
        InputError: no such module or function, or the module itself fails while it is imported.
    """
    module, colon, name = target.partition(":")
    if not colon or not module or not name:
        raise InputError(f"expected module:function, found {target!r}")
    sys.path[:0] = [folder for folder in folders if folder not in sys.path]
    try:
        found = getattr(importlib.import_module(module), name, None)
    except Exception as error:
        raise InputError(f"{target}: cannot be imported: {type(error).__name__}: {error}") from None
    if not callable(found):
        raise InputError(f"{target}: expected a function, found {'nothing' if found is None else type(found).__name__}")
    function: Callable[..., Any] = found
    return function


def called(target: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """What it returns. Raises InputError for what it raises, so that a bug in it is not taken for one of ours."""
    try:
        return function(*arguments)
    except Exception as error:
        raise InputError(f"{target}: raised {type(error).__name__}: {error}") from error
