"""Calls of the user's own functions, which are imported from the folder of the training file or the current one."""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dpcli.audit.own_code import FAILURES, call_user_code, module_file, raised_at, user_function
from dpcli.base.errors import DpcliError, InputError

if TYPE_CHECKING:
    from torch import nn


class Raised(DpcliError, RuntimeError):
    """An error of the user's loss.

    It is no InputError, because a method of the engine may be its cause. The engine then uses another method.
    """


def user(target: str, path: str) -> Callable[..., Any]:
    """Return the function that "module:function" names. Raises InputError if there is none."""
    return user_function(target, _folders(path))


def _folders(path: str) -> tuple[str, ...]:
    """Return the folders from which the user's code is imported."""
    return os.path.dirname(os.path.abspath(path)), os.getcwd()


def result(target: str, path: str) -> Any:
    """Return the result of a function without arguments.

    Raises InputError with the message of the function's error. It must therefore not be used for private data.
    """
    return call_user_code(target, user(target, path))


def built(target: str, data: str, path: str) -> nn.Module:
    """Return the model that the user's function builds.

    Raises InputError as `result` does, and if the function calls that of the private data. Weights and constants that depend on records
    would be released without noise.
    """
    function, called_code, before = user(target, path), set[object](), sys.getprofile()
    sys.setprofile(lambda frame, event, argument: called_code.add(frame.f_code) if event == "call" else None)
    try:
        model_made = call_user_code(target, function)
    finally:
        sys.setprofile(before)
    module, _, name = data.partition(":")
    loaded = getattr(sys.modules.get(module), name, None)  # a module that is not loaded was not called
    if callable(loaded) and getattr(inspect.unwrap(loaded), "__code__", None) in called_code:
        raise InputError(
            f"{path}: train.model: expected a model that is made without the private records, found that {target} calls {data}: what it "
            "takes from them has no noise; state a shape or a number of classes in the code"
        )
    from torch import nn  # imported late: functions of texts do not need torch

    if not isinstance(model_made, nn.Module):
        raise InputError(f"{path}: train.model: expected a torch module from {target}, found {type(model_made).__name__}")
    return model_made


def code_of(target: str, path: str) -> dict[str, str]:
    """Return the SHA-256 of the file that defines a function, as a fact about a model. Return no fact for other sources."""
    if ":" not in target:
        return {}
    file = module_file(target.partition(":")[0], _folders(path))
    if file is None or not os.path.isfile(file):
        return {}
    with open(file, "rb") as source:
        return {"code_sha256": hashlib.sha256(source.read()).hexdigest()}


def private_result(target: str, path: str) -> Any:
    """Return the result of a function that returns private data.

    Raises InputError without the message of the function's error, which may quote a record.
    """
    function = user(target, path)
    try:
        return function()
    except DpcliError:
        raise
    except FAILURES as error:
        raise InputError(f"{target}: raised {raised_at(error)}") from error


def called_on_records(target: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a function of records.

    Raises:
        Raised: The function raised an error. Its message is omitted, because it may quote a record.
        Unsuitable: A hook of the engine raised it.
    """
    from dpcli.train.engine.method import Unsuitable  # imported late: functions of texts do not need torch

    try:
        return function(*arguments)
    except (DpcliError, Unsuitable):
        raise
    except FAILURES as error:
        raise Raised(f"{target}: raised {raised_at(error)}") from error


def relative_to_file(source: str, path: str) -> str:
    """Return a path that the file at `path` states. It is relative to the folder of the file unless it is absolute."""
    return source if os.path.isabs(source) else os.path.join(os.path.dirname(os.path.abspath(path)), source)
