"""Calls of the user's own functions. They are imported from the folder of the training file, or from the current folder.

A function is named "module:function", and `own_function` returns it. A function that handles private records is called by `private_result`
or `call_on_records`, which hide its error messages, because these may quote a record. `path` is the path of the training file, from whose
folder relative names start.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from dpcli.audit.own_code import FAILURES, call_user_code, module_file, raised_at, user_function
from dpcli.base.errors import DpcliError, InputError

if TYPE_CHECKING:
    from torch import nn


class Raised(DpcliError, RuntimeError):
    """An error of the user's code in a step.

    It is not an InputError, because the engine's method for gradients may be its cause. The engine then tries another method.
    """


def own_function(target: str, path: str) -> Callable[..., Any]:
    """Return the function that "module:function" names. Raises InputError if there is none."""
    return user_function(target, _folders(path))


def _folders(path: str) -> tuple[str, ...]:
    """Return the folders from which the user's code is imported."""
    return os.path.dirname(os.path.abspath(path)), os.getcwd()


def public_result(target: str, path: str) -> Any:
    """Return the result of a function that takes no arguments.

    If the function raises an error, the message is shown in an InputError. Do not use this for functions that read private data.
    """
    return call_user_code(target, own_function(target, path))


def build_model(target: str, data: str, path: str) -> nn.Module:
    """Return the model that the user's function `target` builds.

    Raises:
        InputError: The function raises an error, returns no module, or calls the function `data` that returns the private records. Weights
            and constants that depend on records would be released without noise.
    """
    function, called_code = own_function(target, path), set[object]()

    def record_call(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            called_code.add(frame.f_code)

    profiler = sys.getprofile()
    sys.setprofile(record_call)
    try:
        model = call_user_code(target, function)
    finally:
        sys.setprofile(profiler if callable(profiler) else None)  # cProfile's profiler is not a function and cannot be set again
    module, _, name = data.partition(":")
    loaded = getattr(sys.modules.get(module), name, None)  # a module that is not loaded was not called
    if callable(loaded) and getattr(inspect.unwrap(loaded), "__code__", None) in called_code:
        raise InputError(
            f"{path}: train.model: expected a model that is made without the private records, found that {target} calls {data}: values "
            "from the records would have no noise; write shapes and numbers of classes into the code"
        )
    from torch import nn  # imported late, because other functions of this module do not need torch

    if not isinstance(model, nn.Module):
        raise InputError(f"{path}: train.model: expected a torch module from {target}, found {type(model).__name__}")
    return model


def code_of(target: str, path: str) -> dict[str, str]:
    """Return a fact about a model: the SHA-256 of the file that defines a function. Other sources have no such fact."""
    if ":" not in target:
        return {}
    file = module_file(target.partition(":")[0], _folders(path))
    if file is None or not os.path.isfile(file):
        return {}
    with open(file, "rb") as source:
        return {"code_sha256": hashlib.sha256(source.read()).hexdigest()}


def private_result(target: str, path: str) -> Any:
    """Return the result of a function that returns private data.

    If the function raises an error, the InputError omits its message, which may quote a record.
    """
    function = own_function(target, path)
    try:
        return function()
    except DpcliError:
        raise
    except FAILURES as error:  # any exception, and sys.exit()
        raise InputError(f"{target}: raised {raised_at(error)}") from error  # `raised_at`: the type and the line only


def call_on_records(target: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a function that is called with records.

    Raises:
        Raised: The function raised an error. Its message is omitted, because it may quote a record.
        Unsuitable: A hook of the engine raised this error.
    """
    from dpcli.train.engine.method import Unsuitable  # imported late, because other functions of this module do not need torch

    try:
        return function(*arguments)
    except (DpcliError, Unsuitable):
        raise
    except FAILURES as error:
        raise Raised(f"{target}: raised {raised_at(error)}") from error


def relative_to_file(source: str, path: str) -> str:
    """Return the path of a source that the file at `path` names. A relative source is in the folder of that file."""
    return source if os.path.isabs(source) else os.path.join(os.path.dirname(os.path.abspath(path)), source)
