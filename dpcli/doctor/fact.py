"""One fact about this machine, with a verdict and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "warn", "fail", "absent"]


ROOM = 100 * 2**20  # bytes below which a ledger may soon be unable to write


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing about this machine. advice: what to do, empty where nothing is to be done; absent: not there, and not needed."""

    name: str
    value: str
    verdict: Verdict
    advice: str = ""
