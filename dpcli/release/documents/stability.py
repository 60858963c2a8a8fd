"""Tables and pictures of `dpcli release --compare`: the lead that the most common value needs, for each mechanism that releases it."""

from __future__ import annotations

from dpcli.document.chart import SERIES, Axis, Chart, Line, Points
from dpcli.document.document import Document, Sheet, Table
from dpcli.release.stability.mode_comparison import ERROR, GUMBEL, MECHANISMS, PTR, STABILITY, Comparison, ModeRelease, RightCurve

SCHEMA = "dpcli/stability/v1"
LARGE = 10**15  # larger domains are written as powers of ten
DECADES = 13  # number of decades in the picture of domains
DOMAINS = (10, 1000, 10**6)  # widths of a domain of numbers, in bins
MOST_CURVES = len(SERIES)  # largest number of curves in the picture of gaps
ALONE = "in the compared data, all rows have the right value, so its count is the gap"


def document(comparison: Comparison) -> Document:
    """Return the document of a comparison: tables, pictures, and the probabilities as data."""
    confidence = comparison.confidence
    needed = comparison.needed(PTR, 2, confidence)
    crossings = {mechanism: comparison.crossing(PTR, mechanism, confidence) for mechanism in MECHANISMS if mechanism.needs_domain}
    return Document(
        headline=f"propose-test-release is right with probability {confidence:g} for gaps of at least {needed}, for any domain; the noisy "
        f"maximum needs a larger gap in domains of {_size(crossings[GUMBEL])} values or more",
        data=_data(comparison, confidence, crossings),
        tables=(_gaps_table(comparison, confidence, crossings), _sensitivity_table(comparison)),
        notes=NOTES,
        pictures=(picture(comparison), domains(comparison)),
        sheet=_sheet(comparison),
    )


def picture(comparison: Comparison) -> Chart:
    """Return the chart of the probability of the right answer as a function of the gap."""
    drawn = [curve for mechanism in (PTR, STABILITY, GUMBEL) for curve in comparison.curves if curve.mechanism is mechanism][
        :MOST_CURVES
    ]
    return Chart(
        kind="stability",
        title="probability of the right most common value, by its lead",
        subtitle=_setting(comparison),
        x=Axis("gap between the two largest counts", 0.0, float(max(comparison.gaps))),
        y=Axis("probability of the right answer", 0.0, 1.0),
        lines=_lines([(_label(curve), _points(comparison, curve)) for curve in drawn]),
        notes=(ALONE,),
    )


def domains(comparison: Comparison) -> Chart:
    """Return the chart of the gap that each mechanism needs, as a function of the size of the domain."""
    confidence = comparison.confidence
    sizes = [10**decade for decade in range(1, DECADES)]
    needed = [
        (mechanism.label, tuple((float(n), float(comparison.needed(mechanism, n, confidence))) for n in sizes))
        for mechanism in MECHANISMS
    ]
    highest = max(y for _, points in needed for _, y in points)
    return Chart(
        kind="stability-domains",
        title=f"lead needed to be right with probability {confidence:g}",
        subtitle=_setting(comparison),
        x=Axis("values in the domain", float(sizes[0]), float(sizes[-1]), scale="log"),
        y=Axis("gap between the two largest counts", 0.0, 1.1 * highest),
        lines=_lines(needed),
        notes=(ALONE,),
    )


def _lines(curves: list[tuple[str, Points]]) -> tuple[Line, ...]:
    """Return the lines of a chart: one for each curve, where equal curves share a line."""
    drawn: list[tuple[str, Points]] = []
    for label, points in curves:
        same = next((i for i, (_, other) in enumerate(drawn) if _equal(points, other)), None)
        if same is None:
            drawn.append((label, points))
        else:
            drawn[same] = (f"{drawn[same][0]} and {label}", points)
    return tuple(Line(label, points, tone) for (label, points), tone in zip(drawn, SERIES, strict=False))


def _equal(one: Points, other: Points) -> bool:
    return all(abs(y - z) <= 2.0 * ERROR for (_, y), (_, z) in zip(one, other, strict=True))


def _points(comparison: Comparison, curve: RightCurve) -> Points:
    return tuple((float(gap), right) for gap, right in zip(comparison.gaps, curve.right, strict=True))


def _label(curve: RightCurve) -> str:
    return curve.mechanism.label if curve.size is None else f"{curve.mechanism.label}, {_size(curve.size)} values"


def _gaps_table(comparison: Comparison, confidence: float, crossings: dict[ModeRelease, int]) -> Table:
    rows = tuple(
        (
            mechanism.label,
            *(str(comparison.needed(mechanism, size, confidence)) for size in comparison.sizes),
            f"{_size(crossings[mechanism])} values" if mechanism in crossings else "-",
        )
        for mechanism in MECHANISMS
    )
    columns = ("mechanism", *(f"{_size(size)} values" for size in comparison.sizes), "test better from")
    title = f"gap needed to be right with probability {confidence:g}, by the size of the domain"
    return Table(title, columns, rows, frozenset(range(1, len(columns))))


def _sensitivity_table(comparison: Comparison) -> Table:
    """Return a table of the sensitivity of a sum, in bins, for numbers clamped to the domain or to three bins around the fullest bin."""
    around = f"{comparison.sensitivity_after_test():g}"
    rows = [(f"{_size(width)} bins", f"{comparison.clamped_sensitivity(width):,.10g}", around) for width in DOMAINS]
    title = "sensitivity of a centred sum, in bins: clamped to the domain, or around the fullest bin after a test"
    rows.append(("the real line", "inf", around))
    return Table(title, ("domain of numbers", "clamped", "after a test"), tuple(rows), frozenset({1, 2}))


NOTES = (
    "without bounds, a noisy maximum is impossible and the sensitivity of a sum is infinite; propose-test-release needs no bounds: it "
    "answers if enough units agree on a value or a bin, and gives no answer otherwise",
    ALONE,
    f"each probability has an error of at most {ERROR:g}",
)


def _setting(comparison: Comparison) -> str:
    one = comparison.setting
    rows = f"{one.rows:,} row{'s' if one.rows > 1 else ''}"
    most = rows if one.groups == 1 else f"{rows} in each of {one.groups:,} values"
    return f"epsilon = {one.epsilon:g}, delta = {one.delta!r}, {one.adjacency.value}, at most {most} per unit"


def _size(size: int) -> str:
    return f"{size:,}" if size < LARGE else f"10^{len(str(size)) - 1}"


def _data(comparison: Comparison, confidence: float, crossings: dict[ModeRelease, int]) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "epsilon": comparison.setting.epsilon,
        "delta": comparison.setting.delta,
        "adjacency": comparison.setting.adjacency.value,
        "max_groups": comparison.setting.groups,
        "max_rows": comparison.setting.rows,
        "others": 0,
        "confidence": confidence,
        "gaps": list(comparison.gaps),
        "ways": [
            {"name": curve.mechanism.name, "domain_size": curve.size, "right": list(curve.right)} for curve in comparison.curves
        ],
        "needed": [
            {"name": mechanism.name, "domain_size": size, "gap": comparison.needed(mechanism, size, confidence)}
            for mechanism in MECHANISMS
            for size in comparison.sizes
        ],
        "test_better_from": {mechanism.name: float(size) for mechanism, size in crossings.items()},
    }


def _sheet(comparison: Comparison) -> Sheet:
    rows = tuple(
        (curve.mechanism.name, curve.size, gap, right)
        for curve in comparison.curves
        for gap, right in zip(comparison.gaps, curve.right, strict=True)
    )
    return Sheet(("way", "domain_size", "gap", "probability"), rows)
