"""An audit as a document: the claim beside what was proven, and what neither a failure nor a pass means."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dpcli.audit.claim import Claim
from dpcli.audit.result import Audit, ProvenBound
from dpcli.base.rounding import down, up
from dpcli.document.chart import Chart
from dpcli.document.document import Check, Document, Passage, Table
from dpcli.file.toml.findings import Diagnostic
from dpcli.lint.documents.diagnostics import diagnostic_data, finding

ASSUMED = "Both hold only as far as this is true:"


def document(audit: Audit, diagnostics: tuple[Diagnostic, ...] = (), pictures: Iterable[Chart] = ()) -> Document:
    """Everything that `dpcli audit` says; exit code 1 where something was proven against the claim, or a rule calls the file unsound."""
    unsound = [d for d in diagnostics if d.severity == "error"]
    code = int(audit.violated or bool(unsound))
    return Document(
        headline=headline(audit),
        data=_data(audit, diagnostics, code),
        verdict="fail" if code else "pass",
        title="" if audit.measured is None and not audit.checks else f"audit of {audit.subject}",
        passages=(Passage("what this means", _meaning(audit), tuple(audit.assumptions)),),
        pictures=tuple(pictures),
        tables=tuple(_tables(audit)),
        notes=(*(f"{d.severity} {d.rule}: {d.message}" for d in diagnostics), *audit.notes),
        findings=tuple(finding(d) for d in diagnostics),
        checks=(Check(f"audit of {audit.subject}", not audit.violated, headline(audit)), *_checks(audit)),
        total=repr(audit.deciding.epsilon) if audit.deciding is not None else str(int(audit.violated)),
        details=tuple(_details(audit)),
        exit_code=code,
    )


def headline(audit: Audit) -> str:
    """The one sentence; a pass never says that something is private."""
    share = _percent(audit.confidence)
    failed = [check for check in audit.checks if not check.passed]
    if failed:
        by_chance = f" at {share}" if all(check.statistical for check in failed) else ""
        return f"VIOLATION{by_chance}: {', '.join(check.name for check in failed)}"
    if audit.claim is None or audit.deciding is None:
        done = f"{_counted(audit.counts.get('replays', 0), 'replay')} of {_counted(audit.counts['steps'], 'step')}"
        return f"no violation found in {done}{_could(audit)}"
    bound, claim = audit.deciding, audit.claim
    numbers = f"epsilon >= {down(bound.epsilon)} proven, epsilon <= {up(claim.epsilon)} claimed, at {_setting(claim)}"
    if bound.epsilon > claim.epsilon:
        return f"VIOLATION at {share}: {numbers}"
    if audit.curve is not None and audit.curve.refuted:
        claimed = f"epsilon <= {up(claim.epsilon)} at {_setting(claim)}"
        return f"VIOLATION at {share}: the claimed trade-off curve is refuted: {audit.curve.point} (claimed: {claimed})"
    return f"no violation found at {share}: {numbers}{_could(audit)}"


def _could(audit: Audit) -> str:
    """What it could have found."""
    return f"; {audit.power[0]}" if audit.power else ""


def _counted(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _setting(claim: Claim) -> str:
    unit = claim.account.pipeline.privacy.unit if claim.account is not None else None
    return f"delta = {claim.delta!r} (per {unit or 'record'}, {claim.adjacency.value}; {claim.source})"


def _percent(share: float) -> str:
    return f"{100.0 * share:.6g} %"


def _tables(audit: Audit) -> Iterable[Table]:
    if audit.bounds:
        rows = tuple(_row(audit, i, bound) for i, bound in enumerate(audit.bounds))
        feet = tuple(
            f"[{i}] assumes that {bound.assumes}; decides nothing" for i, bound in enumerate(audit.bounds) if bound.assumes
        )
        columns = ("lower bound", "epsilon: at least", "claimed: at most", "confidence", "evidence")
        yield Table("what was proven", columns, rows, frozenset({1, 2, 3}), feet)
    if audit.curve is not None:
        said = "refuted" if audit.curve.refuted else "not refuted"
        row = (said, _percent(audit.curve.confidence), audit.curve.detail)
        flagged = frozenset({0}) if audit.curve.refuted else frozenset[int]()
        yield Table(
            "the whole claimed trade-off curve", ("verdict", "confidence", "evidence"), (row,), frozenset({1}), flagged=flagged
        )
    if audit.checks:
        flags = frozenset(i for i, check in enumerate(audit.checks) if not check.passed)
        checked = tuple(
            (check.name, "passed" if check.passed else "FAILED", check.message, check.power or "whatever these pairs show")
            for check in audit.checks
        )
        yield Table("what was checked", ("check", "verdict", "found", "would find (90 %)"), checked, flagged=flags)


def _row(audit: Audit, i: int, bound: ProvenBound) -> tuple[str, ...]:
    assert audit.claim is not None
    mark = f" [{i}]" if bound.assumes else ""
    return (f"{bound.method}{mark}", down(bound.epsilon), up(audit.claim.epsilon), _percent(bound.confidence), bound.evidence)


def _meaning(audit: Audit) -> tuple[str, ...]:
    wrong = _percent(1.0 - audit.confidence)
    if audit.kind == "replay":
        return (
            "A failed check is a counterexample: two neighbouring datasets on which the program does what its claim rules out. "
            f"(The checks that say p are statistical: all of them together fail a correct program in at most {wrong} of audits.)",
            "A pass shows nothing but that these pairs of datasets are no counterexample.",
            ASSUMED,
        )
    return (
        "A violation is evidence against the program, its claim, or an assumption below: a true claim is failed in at most "
        f"{wrong} of audits.",
        "A pass is no proof of anything: this attack, on this much evidence, did not show more than the claim allows. A stronger "
        "attack may.",
        *(f"What it could have found: {said}." for said in audit.power),
        ASSUMED,
    )


def _details(audit: Audit) -> Iterable[str]:
    for bound in audit.bounds:
        more = f", assuming that {bound.assumes}" if bound.assumes else ""
        yield f"{bound.method}: epsilon >= {down(bound.epsilon)} at {_percent(bound.confidence)}{more}: {bound.evidence}"
    if audit.curve is not None:
        yield f"trade-off curve: {'refuted' if audit.curve.refuted else 'not refuted'}: {audit.curve.detail}"
    for check in audit.checks:
        yield f"{'passed' if check.passed else 'FAILED'}: {check.name}: {check.message}"
    yield from (f"could have found: {words}" for words in audit.power)
    yield from (f"assumes: {words}" for words in audit.assumptions)


def _checks(audit: Audit) -> Iterable[Check]:
    return (Check(check.name, check.passed, check.message) for check in audit.checks)


def _data(audit: Audit, diagnostics: tuple[Diagnostic, ...], code: int) -> dict[str, Any]:
    """The machine form dpcli/audit/v1; numbers unrounded."""
    return {
        "schema": "dpcli/audit/v1",
        "kind": audit.kind,
        "subject": audit.subject,
        "verdict": "violation" if audit.violated else "no violation found",
        "confidence": audit.confidence,
        "claim": None if audit.claim is None else _claim_data(audit.claim),
        "epsilon_lower": None if audit.deciding is None else audit.deciding.epsilon,
        "bounds": [_bound_data(bound) for bound in audit.bounds],
        "curve": None
        if audit.curve is None
        else {
            "refuted": audit.curve.refuted,
            "confidence": audit.curve.confidence,
            "detail": audit.curve.detail,
            "source": audit.curve.source,
            "point": audit.curve.point or None,
        },
        "checks": [
            {
                "name": c.name,
                "passed": c.passed,
                "found": c.message,
                "value": c.value,
                "statistical": c.statistical,
                "power": c.power or None,
            }
            for c in audit.checks
        ],
        "counts": audit.counts,
        "power": list(audit.power),
        "assumptions": list(audit.assumptions),
        "notes": list(audit.notes),
        "diagnostics": [diagnostic_data(d) for d in diagnostics],
        "exit_code": code,
    }


def _claim_data(claim: Claim) -> dict[str, Any]:
    pipeline = claim.account.pipeline if claim.account is not None else None
    return {
        "epsilon_upper": claim.epsilon,
        "delta": claim.delta,
        "adjacency": claim.adjacency.value,
        "source": claim.source,
        "pipeline": None if pipeline is None else {"name": pipeline.name, "path": pipeline.path, "sha256": pipeline.sha256},
    }


def _bound_data(bound: ProvenBound) -> dict[str, Any]:
    return {
        "method": bound.method,
        "epsilon_lower": bound.epsilon,
        "delta": bound.delta,
        "confidence": bound.confidence,
        "evidence": bound.evidence,
        "assumes": bound.assumes or None,
        "source": bound.source,
    }
