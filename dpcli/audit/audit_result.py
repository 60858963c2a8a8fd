"""The result of an audit, whatever its kind: proven lower bounds, the test of a claimed trade-off curve, and the checks of a replay.

An audit attacks a program to refute its *claim*, an (epsilon, delta) pair and perhaps a trade-off curve. Its kinds are *one run* (guesses
about canaries), *two runs* (many runs with and without a record) and *replay* (steps repeated with and without a record). audit_run.py
makes them, and documents/audit.py prints a result.

`violated` is the verdict: a bound without further assumptions exceeds the claim, the curve is refuted, or a check failed. Bounds that
assume something (`assumes`) are shown and never decide. `confidence` holds for all tests of an audit together, so that a true claim fails
with at most the remaining probability.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from dpcli.audit.bounds import ErrorRates
    from dpcli.audit.claim import Claim
    from dpcli.audit.scores import Scores, Threshold

AuditKind = Literal["one-run", "two-run", "replay"]

# Assumptions that the results of audits with scores and with counts state.
GAUSSIAN = "the trade-off curve of the program is the curve of a Gaussian mechanism"
TRUSTED = (
    "the scores come from the program as it normally runs; an audit cannot detect a program that behaves differently under audit"
)


@dataclass(frozen=True, slots=True)
class Audit:
    """An audit and its outcome.

    Attributes:
        subject: The program or file that was audited.
        confidence: Lower bound on the probability that a program with a true claim passes.
        claim: The privacy claim; None for a replay, which tests steps and not epsilon.
        bounds: Lower bounds on epsilon. The first one without assumptions decides.
        curve: Test of the claimed trade-off curve, if the claim has one.
        assumptions: Conditions that the confidence depends on.
        notes: Further sentences about the result.
        power: Sentences about the smallest fault that the audit could have found. The first is printed with "no violation found".
        measured: Scores for the picture.
        counts: Numbers of the result, by name.
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
        """The bound that is compared with the claim, which is the first one without assumptions; None if there is none."""
        return next((bound for bound in self.bounds if not bound.assumes), None)

    @property
    def violated(self) -> bool:
        """True if the claim is refuted, which means that a bound exceeds it, its curve is contradicted, or a check failed."""
        bound = self.deciding
        if bound is not None and self.claim is not None and bound.epsilon > self.claim.epsilon:
            return True
        if self.curve is not None and self.curve.refuted:
            return True
        return not all(check.passed for check in self.checks)


@dataclass(frozen=True, slots=True)
class ProvenBound:
    """A lower bound on epsilon (in nats) at `delta`.

    Attributes:
        method: Name of the test.
        confidence: Confidence of this bound alone.
        evidence: Description of the counts.
        source: Publication of the method.
        assumes: Assumption beyond fair coins or independent runs; None if there is none. A bound with one does not decide the audit.
    """

    method: str
    epsilon: float
    delta: float
    confidence: float
    evidence: str
    source: str
    assumes: str | None = None


@dataclass(frozen=True, slots=True)
class CurveTest:
    """A test of the claimed trade-off curve at every point.

    Attributes:
        refuted: Whether the measurement contradicts the curve.
        detail: Description of the tested counts or rates.
        source: Publication of the method.
        point: Description of the rate that the curve allows and of the measured rate; None if the curve is not refuted.
    """

    refuted: bool
    confidence: float
    detail: str
    source: str
    point: str | None = None


@dataclass(frozen=True, slots=True)
class ReplayCheck:
    """A property of a program that a replay confirmed or refuted.

    Attributes:
        passed: Whether the property holds.
        message: The result, in a sentence.
        value: The measured number, if there is one.
        statistical: Whether the check can fail a correct program, with the probability that the audit states.
        power: Description of the smallest fault that the check detects with probability 90 %; empty for an exact check.
    """

    name: str
    passed: bool
    message: str
    value: float | None = None
    statistical: bool = False
    power: str = ""


@dataclass(frozen=True, slots=True)
class MeasuredScores:
    """Scores for the picture of an audit.

    Attributes:
        threshold: Threshold that was tested on the scores, if any.
        rates: Bounds on the error rates of the threshold.
        independent: Whether each score comes from a separate run. The canaries of a single run share its noise.
        confidence: Confidence of the bands around the measured curve, at each threshold by itself.
    """

    scores: Scores
    threshold: Threshold | None = None
    rates: ErrorRates | None = None
    independent: bool = True
    confidence: float = 0.95
