"""Functions of the user's own, found from the folder of the training file or the current one."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from dpcli.audit.user_code import called, user_function


def user(target: str, path: str) -> Callable[..., Any]:
    """The function that "module:function" names. Raises InputError where there is none."""
    return user_function(target, (os.path.dirname(os.path.abspath(path)), os.getcwd()))


def result(target: str, path: str) -> Any:
    """What it returns, called with nothing. Raises InputError for what it raises."""
    return called(target, user(target, path))


def beside(source: str, path: str) -> str:
    """A path that a file mentions, which is relative to the file."""
    return source if os.path.isabs(source) else os.path.join(os.path.dirname(os.path.abspath(path)), source)
