"""What an audit found, before any format."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from dpcli.audit.claim import Claim

if TYPE_CHECKING:
    from dpcli.audit.scores import Scores, Threshold
    from dpcli.audit.two_run import ErrorRates

AuditKind = Literal["one-run", "two-run", "replay"]


@dataclass(frozen=True, slots=True)
class ProvenBound:
    """A lower bound on epsilon (nats) at `delta`.

    confidence: of this bound by itself. evidence: the counts, in words. assumes: what it needs beyond fair coins or independent runs;
    a bound that assumes something decides nothing.
    """

    method: str
    epsilon: float
    delta: float
    confidence: float
    evidence: str
    source: str
    assumes: str = ""


@dataclass(frozen=True, slots=True)
class CurveTest:
    """Whether the whole claimed trade-off curve is refuted, at `confidence`; detail: by what, in words.

    point: what the claim allows there and what was found, in words; for the headline where it is refuted.
    """

    refuted: bool
    confidence: float
    detail: str
    source: str
    point: str = ""


@dataclass(frozen=True, slots=True)
class ReplayCheck:
    """One property that a replay showed or refuted.

    value: what was measured, where that is a number. statistical: whether it may fail a correct program, as seldom as the audit says.
    power: the least fault that it would have found with 90 %, in words; empty for an exact check.
    """

    name: str
    passed: bool
    message: str
    value: float | None = None
    statistical: bool = False
    power: str = ""


@dataclass(frozen=True, slots=True)
class MeasuredScores:
    """What the picture shows: all scores of the judged part, the test that was made of them, and bounds on its errors."""

    scores: Scores
    threshold: Threshold | None = None
    rates: ErrorRates | None = None
    independent: bool = True
    confidence: float = 0.95


@dataclass(frozen=True, slots=True)
class Audit:
    """One audit.

    kind: of it. claim: None for a replay, which tests steps and no epsilon. bounds: the first decides, the others assume more.
    confidence: chance that a program whose claim is true is passed. assumptions: what makes that so.
    power: what it could have found, shortly and in full: beside every "no violation found".
    """

    kind: AuditKind
    subject: str
    confidence: float
    claim: Claim | None = None
    bounds: tuple[ProvenBound, ...] = ()
    curve: CurveTest | None = None
    checks: tuple[ReplayCheck, ...] = ()
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    power: tuple[str, ...] = ()
    measured: MeasuredScores | None = None
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def deciding(self) -> ProvenBound | None:
        """The bound that is held against the claim."""
        return next((bound for bound in self.bounds if not bound.assumes), None)

    @property
    def violated(self) -> bool:
        """Whether something was proven against the claim: a bound above it, its curve refuted, or a check failed."""
        bound = self.deciding
        above = bound is not None and self.claim is not None and bound.epsilon > self.claim.epsilon
        return above or (self.curve is not None and self.curve.refuted) or any(not check.passed for check in self.checks)
