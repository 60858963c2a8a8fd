"""The document of an audit: the claim, the proven bounds, and the meaning of a failure or a pass.

An audit attacks a program and proves a lower bound on its epsilon, at a confidence. A bound above the *claim*, an epsilon of the file's
account or of a flag, refutes the program or its assumptions. The opposite proves nothing, and no sentence may say that a program is
private: after a pass, the *power* says which fault would have been detected. Lower bounds are rounded down, claims up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from dpcli.audit.audit_result import Audit, CurveTest, MeasuredScores, ProvenBound, ReplayCheck
from dpcli.audit.bounds import rate_lower, rate_upper
from dpcli.audit.claim import Claim
from dpcli.base.errors import InputError
from dpcli.base.rounding import counted, down, percent, stated_percent, up
from dpcli.document.chart import Axis, Band, Chart, Line, Marker, Points, Tone
from dpcli.document.document import Check, Document, Passage, Table
from dpcli.file.toml.findings import Diagnostic
from dpcli.lint.documents.diagnostics import diagnostic_data, finding
from dpcli.numerics.arrays import Array, np

ASSUMED = "Both statements hold only under these assumptions:"
# Thresholds of the measured curve in the picture; no verdict depends on them.
SPREAD_THRESHOLDS = 160  # number of those that are spread over the curve; more would not be seen
STRICTEST_THRESHOLDS = 24  # number of those at its strict end, all of which are drawn, because the smallest rates prove the most
NO_INFORMATION = ((0.0, 1.0), (1.0, 0.0))  # ends of the line of error rates that an attack by pure chance reaches


def document(audit: Audit, diagnostics: tuple[Diagnostic, ...] = (), pictures: Iterable[Chart] = ()) -> Document:
    """Return the output of `dpcli audit`. The exit code is 1 if the claim was refuted, or if a lint rule finds an error in the file."""
    is_unsound_file = any(diagnostic.severity == "error" for diagnostic in diagnostics)
    exit_code = 1 if audit.violated or is_unsound_file else 0
    # An audit of stated counts has neither a picture nor a table of checks, and so no page of its own.
    has_page = audit.measured is not None or bool(audit.checks)
    lint_notes = [f"{diagnostic.severity} {diagnostic.rule}: {diagnostic.message}" for diagnostic in diagnostics]
    checks = [Check(f"audit of {audit.subject}", not audit.violated, headline(audit))]
    checks += [Check(check.name, check.passed, check.message) for check in audit.checks]
    return Document(
        headline=headline(audit),
        data=_data(audit, diagnostics, exit_code),
        verdict="fail" if exit_code else "pass",
        title=f"audit of {audit.subject}" if has_page else "",
        passages=(Passage("what this means", _meaning(audit), tuple(audit.assumptions)),),
        pictures=tuple(pictures),
        tables=tuple(_tables(audit)),
        notes=(*lint_notes, *audit.notes),
        findings=tuple(finding(diagnostic) for diagnostic in diagnostics),
        checks=tuple(checks),
        # The single number for scripts: the proven epsilon, or 1 for a failed replay and 0 for another.
        total=repr(audit.deciding.epsilon) if audit.deciding is not None else str(int(audit.violated)),
        details=tuple(_details(audit)),
        exit_code=exit_code,
    )


def headline(audit: Audit) -> str:
    """Return the verdict in one sentence, with the power of the audit after a pass. It never states that a program is private."""
    share = stated_percent(audit.confidence)
    failed = [check for check in audit.checks if not check.passed]
    if failed:
        by_chance = f" at {share}" if all(check.statistical for check in failed) else ""
        return f"VIOLATION{by_chance}: {', '.join(check.name for check in failed)}"
    if audit.claim is None or audit.deciding is None:  # a replay
        scope = f"{counted(audit.counts.get('replays', 0), 'replay')} of {counted(audit.counts['steps'], 'step')}"
        return f"no violation found in {scope}{_power_clause(audit)}"
    bound, claim = audit.deciding, audit.claim
    numbers = f"epsilon >= {down(bound.epsilon)} proven, epsilon <= {up(claim.epsilon)} claimed, at {_claim_terms(claim)}"
    if bound.epsilon > claim.epsilon:
        return f"VIOLATION at {share}: {numbers}"
    if audit.curve is not None and audit.curve.refuted:
        claimed = f"epsilon <= {up(claim.epsilon)} at {_claim_terms(claim)}"
        return f"VIOLATION at {share}: the claimed trade-off curve is refuted: {audit.curve.point} (claimed: {claimed})"
    return f"no violation found at {share}: {numbers}{_power_clause(audit)}"


def _power_clause(audit: Audit) -> str:
    """Return the power of the audit, as the end of a sentence."""
    return f"; {audit.power[0]}" if audit.power else ""


def _claim_terms(claim: Claim) -> str:
    """Return delta, the unit, the adjacency and the source of a claim, in words."""
    return f"delta = {claim.delta!r} (per {_unit(claim)}, {claim.adjacency.value}; {claim.source})"


def _unit(claim: Claim) -> str:
    """Return the unit that the pipeline of a claim protects; "record" if none is stated."""
    unit = claim.account.pipeline.privacy.unit if claim.account is not None else None
    return unit or "record"


def _tables(audit: Audit) -> Iterable[Table]:
    """Yield the tables of proven bounds, of the curve test and of checks, as far as the audit has them."""
    if audit.bounds:
        yield _bounds_table(audit)
    if audit.curve is not None:
        yield _curve_table(audit.curve)
    if audit.checks:
        yield _checks_table(audit.checks)


def _bounds_table(audit: Audit) -> Table:
    """Return the table of proven bounds. Footnotes state the assumptions of bounds that do not decide."""
    assert audit.claim is not None
    claimed = up(audit.claim.epsilon)
    rows, footnotes = [], []
    for number, bound in enumerate(audit.bounds):
        method = bound.method
        if bound.assumes:
            method += f" [{number}]"
            footnotes.append(f"[{number}] assumes that {bound.assumes}; not used for the verdict")
        rows.append((method, down(bound.epsilon), claimed, stated_percent(bound.confidence), bound.evidence))
    columns = ("lower bound", "epsilon: at least", "claimed: at most", "confidence", "evidence")
    return Table("proven lower bounds", columns, tuple(rows), numeric=frozenset({1, 2, 3}), footnotes=tuple(footnotes))


def _curve_table(curve: CurveTest) -> Table:
    """Return the table of the curve test, which has one row."""
    row = (_curve_verdict(curve), stated_percent(curve.confidence), curve.detail)
    flagged = frozenset({0}) if curve.refuted else frozenset[int]()
    columns = ("verdict", "confidence", "evidence")
    return Table("test of the claimed trade-off curve", columns, (row,), numeric=frozenset({1}), flagged=flagged)


def _curve_verdict(curve: CurveTest) -> str:
    return "refuted" if curve.refuted else "not refuted"


def _checks_table(checks: Sequence[ReplayCheck]) -> Table:
    rows = [
        (check.name, _check_verdict(check), check.message, check.power or "any counterexample in these pairs") for check in checks
    ]
    failed = frozenset(number for number, check in enumerate(checks) if not check.passed)
    return Table("checks", ("check", "verdict", "found", "would find (90 %)"), tuple(rows), flagged=failed)


def _check_verdict(check: ReplayCheck) -> str:
    return "passed" if check.passed else "FAILED"


def _meaning(audit: Audit) -> tuple[str, ...]:
    """Return paragraphs that explain a failure and a pass of this audit."""
    error_rate = stated_percent(1.0 - audit.confidence)
    if audit.kind == "replay":
        return (
            "A failed check is a counterexample: two neighbouring datasets on which the program does what its claim rules out. "
            f"(Checks with a p-value are statistical. Together they fail a correct program in at most {error_rate} of audits.)",
            "A pass shows only that these pairs of datasets are no counterexample.",
            ASSUMED,
        )
    return (
        "A violation is evidence against the program, its claim, or an assumption below. A true claim fails in at most "
        f"{error_rate} of audits.",
        "A pass is no proof of privacy. This attack, with this amount of evidence, did not show more than the claim allows. A stronger "
        "attack may.",
        *(f"Power of this audit: {words}." for words in audit.power),
        ASSUMED,
    )


def _details(audit: Audit) -> Iterable[str]:
    """Yield every result, the power and the assumptions, each as one line."""
    for bound in audit.bounds:
        assumption = f", assuming that {bound.assumes}" if bound.assumes else ""
        yield f"{bound.method}: epsilon >= {down(bound.epsilon)} at {stated_percent(bound.confidence)}{assumption}: {bound.evidence}"
    if audit.curve is not None:
        yield f"trade-off curve: {_curve_verdict(audit.curve)}: {audit.curve.detail}"
    for check in audit.checks:
        yield f"{_check_verdict(check)}: {check.name}: {check.message}"
    yield from (f"power: {words}" for words in audit.power)
    yield from (f"assumes: {words}" for words in audit.assumptions)


def _data(audit: Audit, diagnostics: tuple[Diagnostic, ...], exit_code: int) -> dict[str, Any]:
    """Return the JSON document dpcli/audit/v1. Its numbers are not rounded."""
    return {
        "schema": "dpcli/audit/v1",
        "kind": audit.kind,
        "subject": audit.subject,
        "verdict": "violation" if audit.violated else "no violation found",
        "confidence": audit.confidence,
        "claim": None if audit.claim is None else _claim_data(audit.claim),
        "epsilon_lower": None if audit.deciding is None else audit.deciding.epsilon,
        "bounds": [_bound_data(bound) for bound in audit.bounds],
        "curve": None if audit.curve is None else asdict(audit.curve),
        "checks": [_check_data(check) for check in audit.checks],
        "counts": audit.counts,
        "power": list(audit.power),
        "assumptions": list(audit.assumptions),
        "notes": list(audit.notes),
        "diagnostics": [diagnostic_data(diagnostic) for diagnostic in diagnostics],
        "exit_code": exit_code,
    }


def _claim_data(claim: Claim) -> dict[str, Any]:
    """Return a claim as JSON values."""
    pipeline = claim.account.pipeline if claim.account is not None else None
    return {
        "epsilon_upper": claim.epsilon,
        "delta": claim.delta,
        "adjacency": claim.adjacency.value,
        "source": claim.source,
        "pipeline": None if pipeline is None else {"name": pipeline.name, "path": pipeline.path, "sha256": pipeline.sha256},
    }


def _bound_data(bound: ProvenBound) -> dict[str, Any]:
    """Return a lower bound as JSON values."""
    return {
        "method": bound.method,
        "epsilon_lower": bound.epsilon,
        "delta": bound.delta,
        "confidence": bound.confidence,
        "evidence": bound.evidence,
        "assumes": bound.assumes,
        "source": bound.source,
    }


def _check_data(check: ReplayCheck) -> dict[str, Any]:
    """Return a check of a replay as JSON values."""
    return {
        "name": check.name,
        "passed": check.passed,
        "found": check.message,
        "value": check.value,
        "statistical": check.statistical,
        "power": check.power or None,
    }


def chart(audit: Audit) -> Chart:
    """Return the picture of an audit. Raises InputError if the audit has no scores but only counts or checks."""
    claim, measured = audit.claim, audit.measured
    if claim is None or measured is None:
        raise InputError("expected scores, from which a trade-off curve can be drawn, found counts or a replay")
    rates = _measured_rates(measured)
    verdict = "VIOLATION" if audit.violated else "no violation found"
    # The area below the curve: smaller error rates than the claim allows.
    ruled_out = Band("ruled out by the claim", tuple((x, 0.0) for x, _ in claim.corners), claim.corners, Tone.SECOND)
    return Chart(
        kind="audit-trade-off",
        title=f"audit of {audit.subject}: {verdict} at {100 * audit.confidence:g} %",
        subtitle=f"claimed: epsilon <= {up(claim.epsilon)} at delta = {claim.delta!r}, per {_unit(claim)}, {claim.adjacency.value} "
        f"({claim.source})",
        x=Axis("false positive rate", 0.0, 1.0),
        y=Axis("false negative rate", 0.0, 1.0),
        lines=(
            Line("measured", _points(*rates), Tone.MAIN),
            Line("limit of the claim", claim.corners, Tone.SECOND),
            Line("no information", NO_INFORMATION, Tone.MUTED, dashed=True),
        ),
        bands=(ruled_out, *_bands(measured, rates)),
        markers=_markers(audit, measured),
        notes=tuple(_notes(audit, measured)),
    )


def _points(xs: Array, ys: Array) -> Points:
    """Return the points of a line from their coordinates."""
    return tuple(zip(xs.tolist(), ys.tolist(), strict=True))


class MeasuredRates(NamedTuple):
    """False positive and false negative rates at thresholds from the strictest to the loosest."""

    false_positive: Array
    false_negative: Array


def _measured_rates(measured: MeasuredScores) -> MeasuredRates:
    """Return the error rates at some of the thresholds between scores."""
    # If scores below the threshold mean "member", the signs of all scores are changed, so that high scores mean "member" again.
    sign = -1.0 if measured.threshold is not None and not measured.threshold.above else 1.0
    inside, outside = np.sort(sign * measured.scores.inside), np.sort(sign * measured.scores.outside)
    # Thresholds from the strictest. A score at or above a threshold means "member".
    levels = np.unique(np.concatenate([inside, outside]))[::-1]
    strictest, spread = np.arange(min(len(levels), STRICTEST_THRESHOLDS)), np.linspace(0, len(levels) - 1, SPREAD_THRESHOLDS)
    ranks = np.unique(np.concatenate([spread, strictest]).astype(int))
    thresholds = np.concatenate(([np.inf], levels[ranks], [-np.inf]))
    missed = np.searchsorted(inside, thresholds, side="left") / max(len(inside), 1)
    alarms = 1.0 - np.searchsorted(outside, thresholds, side="left") / max(len(outside), 1)
    return MeasuredRates(alarms, missed)


def _bands(measured: MeasuredScores, rates: MeasuredRates) -> tuple[Band, ...]:
    """Return confidence bands around the measured curve. A band holds at each threshold by itself, not at all thresholds together.

    The scores of canaries in one run are not independent, so they have no bands.
    """
    if not measured.independent:
        return ()
    inside, outside = len(measured.scores.inside), len(measured.scores.outside)
    alarm_counts, missed_counts = np.rint(rates.false_positive * outside), np.rint(rates.false_negative * inside)
    failure = 0.5 * (1.0 - measured.confidence)  # probability that one end of an interval is wrong
    lower = _points(rate_lower(alarm_counts, outside, failure), rate_lower(missed_counts, inside, failure))
    upper = _points(rate_upper(alarm_counts, outside, failure), rate_upper(missed_counts, inside, failure))
    return (Band(f"{100 * measured.confidence:g} % at each threshold", lower, upper, Tone.MAIN),)


def _markers(audit: Audit, measured: MeasuredScores) -> tuple[Marker, ...]:
    """Return a marker for the test that the audit used, at the upper bounds on both of its error rates."""
    bound = audit.deciding
    if measured.rates is None or bound is None:
        return ()
    label = "tested: refutes the claim" if audit.violated else f"tested: epsilon >= {down(bound.epsilon)}"
    tone = Tone.LIMIT if audit.violated else Tone.MAIN
    return (Marker(label, measured.rates.false_positive, measured.rates.false_negative, tone),)


def _notes(audit: Audit, measured: MeasuredScores) -> list[str]:
    """Return the notes below the picture."""
    notes = [f"{bound.method}: epsilon >= {down(bound.epsilon)}: {bound.evidence}" for bound in audit.bounds if not bound.assumes]
    if measured.rates is not None:
        fpr, fnr = percent(measured.rates.false_positive), percent(measured.rates.false_negative)
        notes.append(
            f"the dot shows upper bounds on both error rates of the test that decided, {fpr} and {fnr}. A dot within the claim's shaded "
            f"region refutes the claim. The band around the measured curve holds at {100 * measured.confidence:g} % at each threshold by "
            "itself"
        )
    else:
        notes.append("the canaries of one run share its noise, so the measured curve has no band; the verdict counts right guesses")
    if audit.power and not audit.violated:
        notes.append(f"power of this audit: {audit.power[0]}")
    notes.append("a measured curve outside of the shaded region is no proof of privacy, because another attack may do better")
    return notes
