"""What a file of private prediction mentions: paths beside it, and functions of the user's own. Nothing here needs torch."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

from dpcli.audit.user_code import user_function
from dpcli.base.errors import DpcliError, InputError


def beside(source: str, path: str) -> str:
    """A path that a file mentions, which is relative to the file."""
    return source if os.path.isabs(source) else os.path.join(os.path.dirname(os.path.abspath(path)), source)


def own_function(target: str, path: str) -> Callable[..., Any]:
    """The function that "module:function" names. Raises InputError where there is none."""
    return user_function(target, (os.path.dirname(os.path.abspath(path)), os.getcwd()))


def on_private(target: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """What it returns. Raises InputError for what it raises, without its words: they may quote a record, as a warning may."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return function(*arguments)
    except DpcliError:
        raise
    except KeyboardInterrupt:
        raise KeyboardInterrupt from None  # without the words of whoever raised it
    except BaseException as error:  # what a cancelled task raises is no Exception, and would be shown whole
        said = f"{type(error).__name__} (its message may quote a private record, and is not shown)"
        raise InputError(f"{target}: raised {said}") from error
