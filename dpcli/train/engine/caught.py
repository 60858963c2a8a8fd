"""Errors of torch's functions that a model catches: one record's numbers may raise one, and the whole batch goes another way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.overrides import TorchFunctionMode

from dpcli.train.engine.rule import Strayed, Unsuitable

TEXTS = ("__repr__", "__format__", "tolist", "numpy", "__array__")


class RaisedErrors(TorchFunctionMode):
    """Notes which functions raised, and which showed all numbers where `texts` are looked for."""

    def __init__(self, texts: bool = False) -> None:
        super().__init__()
        self.texts = texts
        self.names: list[str] = []
        self.read: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        if self.texts and getattr(func, "__name__", "") in TEXTS:
            self.read.append(func.__name__)
        try:
            return func(*args, **(kwargs or {}))
        except Exception as error:
            if not stops(error):
                self.names.append(getattr(func, "__name__", type(func).__name__))
            raise


def stops(error: Exception) -> bool:
    """Whether it is torch's own, by which what is computed a second time ends where all is there."""
    return type(error).__module__ == "torch.utils.checkpoint"


@contextmanager
def nothing_caught(texts: bool = False) -> Iterator[None]:
    """Raises Strayed where a function raised and the program went on; or, of `texts`, where a tensor was shown: under vmap it is shown with
    the numbers of all records."""
    raised = RaisedErrors(texts)
    try:
        with raised:
            yield
    except Unsuitable:
        if not raised.names:
            raise
    if raised.read:
        raise Strayed(f"the model reads numbers by {raised.read[0]}")
    if raised.names:
        raise Strayed(f"the model catches an error of {raised.names[0]}")
