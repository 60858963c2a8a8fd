"""The document of an audit. It states the claim, the proven bounds, and the meaning of a failure or a pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from dpcli.audit.bounds import rate_lower, rate_upper
from dpcli.audit.claim import Claim
from dpcli.audit.decide import Audit, MeasuredScores, ProvenBound
from dpcli.base.errors import InputError
from dpcli.base.rounding import down, percent, up
from dpcli.document.chart import Axis, Band, Chart, Line, Marker, Tone
from dpcli.document.document import Check, Document, Passage, Table
from dpcli.file.toml.findings import Diagnostic
from dpcli.lint.documents.diagnostics import diagnostic_data, finding
from dpcli.numerics.arrays import Array, np

ASSUMED = "Both statements hold only under these assumptions:"


def document(audit: Audit, diagnostics: tuple[Diagnostic, ...] = (), pictures: Iterable[Chart] = ()) -> Document:
    """Return the output of `dpcli audit`. The exit code is 1 if the claim was refuted, or if a lint rule finds an error in the file."""
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
        checks=(Check(f"audit of {audit.subject}", not audit.violated, headline(audit)), *_check_verdicts(audit)),
        total=repr(audit.deciding.epsilon) if audit.deciding is not None else str(int(audit.violated)),
        details=tuple(_details(audit)),
        exit_code=code,
    )


def headline(audit: Audit) -> str:
    """Return the verdict in one sentence. A pass never states that a program is private."""
    share = _percent(audit.confidence)
    failed = [check for check in audit.checks if not check.passed]
    if failed:
        by_chance = f" at {share}" if all(check.statistical for check in failed) else ""
        return f"VIOLATION{by_chance}: {', '.join(check.name for check in failed)}"
    if audit.claim is None or audit.deciding is None:
        scope = f"{_count_words(audit.counts.get('replays', 0), 'replay')} of {_count_words(audit.counts['steps'], 'step')}"
        return f"no violation found in {scope}{_power_clause(audit)}"
    bound, claim = audit.deciding, audit.claim
    numbers = f"epsilon >= {down(bound.epsilon)} proven, epsilon <= {up(claim.epsilon)} claimed, at {_setting(claim)}"
    if bound.epsilon > claim.epsilon:
        return f"VIOLATION at {share}: {numbers}"
    if audit.curve is not None and audit.curve.refuted:
        claimed = f"epsilon <= {up(claim.epsilon)} at {_setting(claim)}"
        return f"VIOLATION at {share}: the claimed trade-off curve is refuted: {audit.curve.point} (claimed: {claimed})"
    return f"no violation found at {share}: {numbers}{_power_clause(audit)}"


def _power_clause(audit: Audit) -> str:
    """Return the power of the audit, as the end of a sentence."""
    return f"; {audit.power[0]}" if audit.power else ""


def _count_words(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _setting(claim: Claim) -> str:
    unit = claim.account.pipeline.privacy.unit if claim.account is not None else None
    return f"delta = {claim.delta!r} (per {unit or 'record'}, {claim.adjacency.value}; {claim.source})"


def _percent(share: float) -> str:
    return f"{100.0 * share:.6g} %"


def _tables(audit: Audit) -> Iterable[Table]:
    """Yield the tables of proven bounds, of the curve test and of checks, as far as the audit has them."""
    if audit.bounds:
        rows = tuple(_bound_row(audit, i, bound) for i, bound in enumerate(audit.bounds))
        feet = tuple(
            f"[{i}] assumes that {bound.assumes}; not used for the verdict" for i, bound in enumerate(audit.bounds) if bound.assumes
        )
        columns = ("lower bound", "epsilon: at least", "claimed: at most", "confidence", "evidence")
        yield Table("proven lower bounds", columns, rows, frozenset({1, 2, 3}), feet)
    if audit.curve is not None:
        verdict = "refuted" if audit.curve.refuted else "not refuted"
        row = (verdict, _percent(audit.curve.confidence), audit.curve.detail)
        flagged = frozenset({0}) if audit.curve.refuted else frozenset[int]()
        yield Table(
            "test of the claimed trade-off curve", ("verdict", "confidence", "evidence"), (row,), frozenset({1}), flagged=flagged
        )
    if audit.checks:
        flags = frozenset(i for i, check in enumerate(audit.checks) if not check.passed)
        checked = tuple(
            (check.name, "passed" if check.passed else "FAILED", check.message, check.power or "any counterexample in these pairs")
            for check in audit.checks
        )
        yield Table("checks", ("check", "verdict", "found", "would find (90 %)"), checked, flagged=flags)


def _bound_row(audit: Audit, i: int, bound: ProvenBound) -> tuple[str, ...]:
    assert audit.claim is not None
    mark = f" [{i}]" if bound.assumes else ""
    return (f"{bound.method}{mark}", down(bound.epsilon), up(audit.claim.epsilon), _percent(bound.confidence), bound.evidence)


def _meaning(audit: Audit) -> tuple[str, ...]:
    """Return paragraphs that explain a failure and a pass of this audit."""
    error_rate = _percent(1.0 - audit.confidence)
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
        more = f", assuming that {bound.assumes}" if bound.assumes else ""
        yield f"{bound.method}: epsilon >= {down(bound.epsilon)} at {_percent(bound.confidence)}{more}: {bound.evidence}"
    if audit.curve is not None:
        yield f"trade-off curve: {'refuted' if audit.curve.refuted else 'not refuted'}: {audit.curve.detail}"
    for check in audit.checks:
        yield f"{'passed' if check.passed else 'FAILED'}: {check.name}: {check.message}"
    yield from (f"power: {words}" for words in audit.power)
    yield from (f"assumes: {words}" for words in audit.assumptions)


def _check_verdicts(audit: Audit) -> Iterable[Check]:
    return (Check(check.name, check.passed, check.message) for check in audit.checks)


def _data(audit: Audit, diagnostics: tuple[Diagnostic, ...], code: int) -> dict[str, Any]:
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
        "curve": None if audit.curve is None else {**asdict(audit.curve), "point": audit.curve.point or None},
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


THRESHOLDS = 160  # largest number of thresholds along the measured curve
NO_INFORMATION = ((0.0, 1.0), (1.0, 0.0))


def chart(audit: Audit) -> Chart:
    """Return the picture of an audit. Raises InputError if the audit has no scores but only counts or checks."""
    claim, measured = audit.claim, audit.measured
    if claim is None or measured is None:
        raise InputError("expected scores, from which a trade-off curve can be drawn, found counts or a replay")
    rates = _rates(measured)
    line, least = tuple(zip(*(column.tolist() for column in rates), strict=True)), claim.corners
    unit = claim.account.pipeline.privacy.unit if claim.account is not None else None
    return Chart(
        kind="audit-trade-off",
        title=f"audit of {audit.subject}: {'VIOLATION' if audit.violated else 'no violation found'} at {100 * audit.confidence:g} %",
        subtitle=f"claimed: epsilon <= {up(claim.epsilon)} at delta = {claim.delta!r}, per {unit or 'record'}, "
        f"{claim.adjacency.value} ({claim.source})",
        x=Axis("false positive rate", 0.0, 1.0),
        y=Axis("false negative rate", 0.0, 1.0),
        lines=(
            Line("measured", line, Tone.MAIN),
            Line("limit of the claim", least, Tone.SECOND),
            Line("no information", NO_INFORMATION, Tone.MUTED, True),
        ),
        bands=(Band("ruled out by the claim", tuple((x, 0.0) for x, _ in least), least, Tone.SECOND), *_bands(measured, rates)),
        markers=_markers(audit, measured),
        notes=tuple(_notes(audit, measured)),
    )


def _rates(measured: MeasuredScores) -> tuple[Array, Array]:
    """Return false positive and false negative rates at thresholds from the strictest to the loosest."""
    sign = -1.0 if measured.threshold is not None and not measured.threshold.above else 1.0
    inside, outside = np.sort(sign * measured.scores.inside), np.sort(sign * measured.scores.outside)
    levels = np.unique(np.concatenate([inside, outside]))[::-1]
    ranks = np.unique(np.concatenate([np.linspace(0, len(levels) - 1, THRESHOLDS), np.arange(min(len(levels), 24))]).astype(int))
    chosen = np.concatenate(([np.inf], levels[ranks], [-np.inf]))
    missed = np.searchsorted(inside, chosen, side="left") / max(len(inside), 1)
    alarms = 1.0 - np.searchsorted(outside, chosen, side="left") / max(len(outside), 1)
    return alarms, missed


def _bands(measured: MeasuredScores, rates: tuple[Array, Array]) -> tuple[Band, ...]:
    """Return confidence bands around the measured curve. A band holds at each threshold by itself, not at all thresholds together.

    The scores of canaries in one run are not independent, so they have no bands.
    """
    if not measured.independent:
        return ()
    alarms, missed = rates
    inside, outside, each = len(measured.scores.inside), len(measured.scores.outside), 0.5 * (1.0 - measured.confidence)
    ends = [
        [(bound(np.rint(rate * count), count, each)).tolist() for rate, count in ((alarms, outside), (missed, inside))]
        for bound in (rate_lower, rate_upper)
    ]
    lower, upper = (tuple(zip(*end, strict=True)) for end in ends)
    return (Band(f"{100 * measured.confidence:g} % at each threshold", lower, upper, Tone.MAIN),)


def _markers(audit: Audit, measured: MeasuredScores) -> tuple[Marker, ...]:
    """Return a marker for the test that the audit used, at the upper bounds on both of its error rates."""
    bound = audit.deciding
    if measured.rates is None or bound is None:
        return ()
    words = "tested: refutes the claim" if audit.violated else f"tested: epsilon >= {down(bound.epsilon)}"
    return (
        Marker(words, measured.rates.false_positive, measured.rates.false_negative, Tone.LIMIT if audit.violated else Tone.MAIN),
    )


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
