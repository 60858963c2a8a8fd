"""What the gate says of a file: its conditions, each with a verdict, and the worst of them; unknown is never a pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dpcli.pipeline.findings import Path

if TYPE_CHECKING:
    from dpcli.accounting import Account
    from dpcli.difference import Priced
    from dpcli.gate.bases import Base
    from dpcli.pipeline.diagnostics import Diagnostic
    from dpcli.pipeline.gate_keys import Waiver
    from dpcli.pipeline.model import Pipeline

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
    measured: the epsilon that it judged, where it did. target: what would pass. shares: of a ledger's cap, taken and left before.
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


@dataclass(frozen=True, slots=True)
class Judged:
    """One file: its account (None where it cannot be read), the conditions, and how it compares with the base.

    now: epsilon at the base's delta, where there is a base. changes: what each change costs, made alone to the base.
    asked: positions of the policy's waivers that had something to say here. own: the file as it stands, where it can be read: with its
    own caps, which the account's pipeline has only where no others hold.
    """

    path: str
    account: Account | None
    conditions: tuple[Condition, ...]
    diagnostics: tuple[Diagnostic, ...] = ()
    base: Base | None = None
    now: float | None = None
    changes: tuple[Priced, ...] = ()
    asked: frozenset[int] = frozenset()
    own: Pipeline | None = None

    @property
    def verdict(self) -> Verdict:
        """The worst of the conditions."""
        return worst(condition.verdict for condition in self.conditions)


@dataclass(frozen=True, slots=True)
class Gated:
    """All files, and what there is to say of the policy itself."""

    files: tuple[Judged, ...]
    policy: str | None = None
    notices: tuple[Condition, ...] = ()

    @property
    def verdict(self) -> Verdict:
        return worst(file.verdict for file in self.files)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict that decides the exit code; a warning passes."""
    found = set(verdicts)
    return next((verdict for verdict in PRECEDENCE if verdict in found), "pass")
