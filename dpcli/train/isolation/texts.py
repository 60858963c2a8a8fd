"""Lengths that are read as text: what is made of it follows the batch's size, and no operator and no question tells."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from dpcli.train.isolation.frames import ours
from dpcli.train.isolation.lengths import records
from dpcli.train.isolation.tracing import Seen

SYMBOLS: tuple[Any, ...] = (torch.SymInt, torch.SymFloat, torch.SymBool)


@contextmanager
def reading(seen: Seen) -> Iterator[None]:
    """Notes, as a doubt, each length of the batch's that user code shows, compares or measures as text."""
    with ExitStack() as before:
        for kind in SYMBOLS:
            before.callback(setattr, kind, "__repr__", kind.__repr__)
            kind.__repr__ = noted(seen, kind.__repr__)
        yield


def noted(seen: Seen, shown: Callable[[Any], str]) -> Callable[[Any], str]:
    def text(length: Any) -> str:
        if records(length) and not ours(sys._getframe(1)):
            seen.doubts.append("the batch's size as text")
        return shown(length)

    return text
