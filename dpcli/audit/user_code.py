"""A user's own function, by name, from the folder of the pipeline file or the current one."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable
from importlib.machinery import PathFinder
from typing import Any

from dpcli.audit.libraries import is_own_code
from dpcli.base.errors import InputError
from dpcli.base.extras import unavailable

OF_CODE = (ImportError, SyntaxError, NameError)  # whose messages quote names and code, and no data
FAILURES = (Exception, SystemExit)  # sys.exit() in a user's code must not end us, with exit code 0 at that


def user_function(target: str, folders: tuple[str, ...]) -> Callable[..., Any]:
    """The function that "package.module:name" names.

    Args:
        folders: where the user's modules are. Installed modules of the same name come first: a statistics.py of the user's must not stand
            in for Python's own wherever torch imports that.

    Raises:
        InputError: no such module or function, or the module itself fails while it is imported, when it may read private data: then
            without the words of that. Unavailable: it needs an extra.
    """
    module, colon, name = target.partition(":")
    if not colon or not module or not name:
        raise InputError(f"expected module:function, found {target!r}")
    sys.path += [folder for folder in dict.fromkeys(folders) if folder not in sys.path]
    try:
        imported = importlib.import_module(module)
        found = getattr(imported, name, None)
    except FAILURES as error:
        raise unavailable(error) or InputError(f"{target}: cannot be imported: {_of_import(error)}") from None
    if not callable(found):
        place = getattr(imported, "__file__", None) or "a module of Python's own"
        raise InputError(f"{target}: expected a function, found {'nothing' if found is None else type(found).__name__} in {place}")
    function: Callable[..., Any] = found
    return function


def module_file(module: str, folders: tuple[str, ...]) -> str | None:
    """Where an import of a module would find its file, without running it or a package around it; None where it finds none."""
    if module in sys.modules:
        return getattr(sys.modules[module], "__file__", None)
    names, places, spec = module.split("."), [*sys.path, *folders], None
    for depth in range(1, len(names) + 1):
        spec = PathFinder.find_spec(".".join(names[:depth]), places)
        places = list(spec.submodule_search_locations or ()) if spec else []
    return spec.origin if spec else None


def called(target: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """What it returns. Raises InputError for what it raises, so that a bug in it is not taken for one of ours."""
    try:
        return function(*arguments)
    except InputError:
        raise
    except FAILURES as error:
        raise InputError(f"{target}: raised {error_text(error)}") from error


def error_text(error: BaseException) -> str:
    """Its type, and its message where it has one."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def raised_at(error: BaseException) -> str:
    """Of which type it is, and where in the user's code: the last line that is neither installed nor ours."""
    own = [line for line in traceback.extract_tb(error.__traceback__) if is_own_code(line.filename)]
    place = f" at {os.path.basename(own[-1].filename)}, line {own[-1].lineno}" if own else ""
    return f"{type(error).__name__}{place} (its message may quote a private record, and is not shown)"


def _of_import(error: BaseException) -> str:
    return error_text(error) if isinstance(error, OF_CODE) or not str(error) else raised_at(error)
