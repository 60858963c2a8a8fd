"""audit-trade-off: the error rates that an attack attained, beside those that the claim allows at best."""

from __future__ import annotations

from dpcli.audit.binomial import rate_lower, rate_upper
from dpcli.audit.result import Audit, MeasuredScores
from dpcli.base.errors import InputError
from dpcli.base.rounding import down, percent, up
from dpcli.document.chart import Axis, Band, Chart, Line, Marker, Tone
from dpcli.numerics.arrays import Array, np

THRESHOLDS = 160  # at most, along the measured curve
BLIND = ((0.0, 1.0), (1.0, 0.0))


def chart(audit: Audit) -> Chart:
    """The picture of an audit that has scores. Raises InputError for one that has counts or checks alone."""
    claim, measured = audit.claim, audit.measured
    if claim is None or measured is None:
        raise InputError("expected scores to draw a trade-off curve from, found counts or a replay")
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
            Line("the claim's limit", least, Tone.SECOND),
            Line("no information", BLIND, Tone.MUTED, True),
        ),
        bands=(Band("ruled out by the claim", tuple((x, 0.0) for x, _ in least), least, Tone.SECOND), *_bands(measured, rates)),
        markers=_markers(audit, measured),
        notes=tuple(_notes(audit, measured)),
    )


def _rates(measured: MeasuredScores) -> tuple[Array, Array]:
    """False positive and false negative rates at thresholds from the strictest to the loosest."""
    sign = -1.0 if measured.threshold is not None and not measured.threshold.above else 1.0
    inside, outside = np.sort(sign * measured.scores.inside), np.sort(sign * measured.scores.outside)
    levels = np.unique(np.concatenate([inside, outside]))[::-1]
    ranks = np.unique(np.concatenate([np.linspace(0, len(levels) - 1, THRESHOLDS), np.arange(min(len(levels), 24))]).astype(int))
    chosen = np.concatenate(([np.inf], levels[ranks], [-np.inf]))
    missed = np.searchsorted(inside, chosen, side="left") / max(len(inside), 1)
    alarms = 1.0 - np.searchsorted(outside, chosen, side="left") / max(len(outside), 1)
    return alarms, missed


def _bands(measured: MeasuredScores, rates: tuple[Array, Array]) -> tuple[Band, ...]:
    """Around the measured curve at each threshold by itself; none for canaries of one run, which are not independent."""
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
    """The test that was judged, at upper bounds on both of its errors."""
    bound = audit.deciding
    if measured.rates is None or bound is None:
        return ()
    words = "judged: refutes the claim" if audit.violated else f"judged: epsilon >= {down(bound.epsilon)}"
    return (
        Marker(words, measured.rates.false_positive, measured.rates.false_negative, Tone.LIMIT if audit.violated else Tone.MAIN),
    )


def _notes(audit: Audit, measured: MeasuredScores) -> list[str]:
    found = [f"{bound.method}: epsilon >= {down(bound.epsilon)}: {bound.evidence}" for bound in audit.bounds if not bound.assumes]
    if measured.rates is not None:
        fpr, fnr = percent(measured.rates.false_positive), percent(measured.rates.false_negative)
        found.append(
            f"the dot: upper bounds on both errors of the one test that was judged, {fpr} and {fnr}; within the claim's shaded region it "
            f"refutes the claim. The band around the measured curve holds at {100 * measured.confidence:g} % at each threshold by itself"
        )
    else:
        found.append(
            "measured on the canaries of one run, which share its noise: the verdict counts right guesses, and draws no band"
        )
    if audit.power and not audit.violated:
        found.append(f"what it could have found: {audit.power[0]}")
    found.append("a measured curve outside of the shaded region is no proof of privacy: another attack may do better")
    return found
