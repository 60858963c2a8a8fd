"""Libraries ask whether they are followed, and read numbers of a whole batch where they are not: on records they are told that they are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

# By module and name: functions that say of a tensor whether it is one without numbers, and decide nothing else.
QUESTIONS = (("transformers.utils.import_utils", "is_fake_tensor"),)

_told: ContextVar[bool] = ContextVar("told", default=False)


@contextmanager
def as_followed() -> Iterator[None]:
    """The answer is yes, for what runs inside."""
    for module, name in QUESTIONS:
        asked = getattr(sys.modules.get(module), name, None)
        if asked is not None and not isinstance(asked, WhetherFollowed):
            setattr(sys.modules[module], name, WhetherFollowed(asked))
    before = _told.set(True)
    try:
        yield
    finally:
        _told.reset(before)


class WhetherFollowed:
    """Yes where it is told so, else what was answered before."""

    def __init__(self, asked: Callable[[Any], bool]) -> None:
        self.asked = asked

    def __call__(self, tensor: Any) -> bool:
        return _told.get() or self.asked(tensor)
