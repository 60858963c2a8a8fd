"""A server that is asked too often says how long to wait, and is asked again then.

Source: RFC 9110, section 10.2.3; RFC 6585, section 4.
"""

from __future__ import annotations

from collections.abc import Callable
from time import sleep
from typing import TypeVar

from dpcli.base.errors import InputError

WAIT = 120.0  # seconds in all for one question: a job is paid for while it waits
LEAST = 1.0  # seconds: who asks for none is asked again all the same, and not without end
TOO_OFTEN = (403, 429)  # with Retry-After; the first is GitHub's. Nothing was done then, whatever was asked for
T = TypeVar("T")
Told = Callable[[str], None]


class AskedToWait(InputError):
    """A refusal for now. seconds: until the server may be asked again."""

    def __init__(self, text: str, seconds: float) -> None:
        super().__init__(text)
        self.seconds = seconds


def silent(_: str) -> None:
    """Nobody is told."""


def seconds_asked(code: int, after: str | None) -> float | None:
    """The seconds that the header Retry-After has where the server was asked too often, else None; a date in it is not read."""
    text = after or ""
    return float(text) if code in TOO_OFTEN and text.isascii() and text.isdecimal() and len(text) < 10 else None


def patiently(ask: Callable[[], T], told: Told) -> T:
    """What `ask` returns, asked again as the server wishes; `told` is told of each wait. Raises InputError where that takes too long."""
    left = WAIT
    while True:
        try:
            return ask()
        except AskedToWait as later:
            seconds = max(later.seconds, LEAST)
            if seconds > left:
                raise InputError(f"{later}; it asks to wait {later.seconds:,.0f} s, and {left:,.0f} s are left for that") from None
            told(f"{later}; asked again in {seconds:,.0f} s")
            sleep(seconds)
            left -= seconds
