"""What the gate says of a file: its conditions, each with a verdict, and the worst of them; unknown is never a pass."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from dpcli.base.values import dataclass
from dpcli.file.toml.findings import Path

if TYPE_CHECKING:
    from dpcli.file.pipeline.gate_keys import Waiver

Verdict = Literal["pass", "warn", "waived", "fail", "unknown", "invalid", "error"]
EXIT_CODES: dict[Verdict, int] = {"pass": 0, "warn": 0, "waived": 0, "fail": 1, "unknown": 3, "invalid": 2, "error": 4}
PRECEDENCE: tuple[Verdict, ...] = ("error", "invalid", "unknown", "fail", "waived", "pass")


@dataclass(frozen=True, slots=True)
class Target:
    """What a remedy must meet: epsilon at most this at delta, for so many runs."""

    epsilon: float
    delta: float | None
    runs: int = 1


@dataclass(frozen=True, slots=True)
class Pardon:
    """A waiver that turned a no into "waived". new: the change itself adds it; external: it is written in the policy."""

    waiver: Waiver
    days: int
    new: bool
    external: bool


@dataclass(frozen=True, slots=True)
class Condition:
    """One thing a file must satisfy, and whether it does.

    key: what it is about, as a path into the file; place: line and column of that.
    measured: the epsilon that it judged, where it did. target: what would pass. shares: of a ledger's cap, taken and left before; delta:
    the cap's.
    """

    name: str
    verdict: Verdict
    message: str
    key: Path = ("budget",)
    place: tuple[int, int] = (1, 1)
    mechanism: str | None = None
    measured: float | None = None
    target: Target | None = None
    pardon: Pardon | None = None
    shares: tuple[float, float] | None = None
    delta: float | None = None


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict that decides the exit code; a warning passes."""
    found = set(verdicts)
    return next((verdict for verdict in PRECEDENCE if verdict in found), "pass")
