"""Errors of torch's functions that a model catches: one record's numbers may raise one, and the whole batch goes another way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.overrides import TorchFunctionMode

from dpcli.train.engine.rule import Unsuitable


class RaisedErrors(TorchFunctionMode):
    """Notes which functions raised."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        try:
            return func(*args, **(kwargs or {}))
        except Exception as error:
            if type(error).__module__ != "torch.utils.checkpoint":  # its own ends what is computed again, once all is there
                self.names.append(getattr(func, "__name__", type(func).__name__))
            raise


@contextmanager
def nothing_caught() -> Iterator[None]:
    """Raises Unsuitable where a function raised and the program went on."""
    raised = RaisedErrors()
    try:
        with raised:
            yield
    except Unsuitable:
        if not raised.names:
            raise
    if raised.names:
        raise Unsuitable(f"the model catches an error of {raised.names[0]}")
