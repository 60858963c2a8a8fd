"""Calls of the user's own code about private values, of whose errors and warnings no word is shown: they may quote a record."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from dpcli.base.errors import DpcliError, InputError

Answer = TypeVar("Answer")


def on_private(target: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what the function returns. Raises InputError for whatever it raises, without its words."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return function(*arguments)
    except DpcliError:
        raise
    except KeyboardInterrupt:
        raise KeyboardInterrupt from None  # without the words of whoever raised it
    except BaseException as error:  # what a cancelled task raises is no Exception, and would be shown whole
        words = f"{type(error).__name__} (its message may quote a private record, and is not shown)"
        raise InputError(f"{target}: raised {words}") from error


def unless_it_fails(ask: Callable[[], Answer], otherwise: Answer) -> Answer:
    """Return the answer about something private; `otherwise` for whatever is raised, of which nothing is said: not that it was."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return ask()
    except KeyboardInterrupt:
        raise KeyboardInterrupt from None
    except BaseException:
        return otherwise
