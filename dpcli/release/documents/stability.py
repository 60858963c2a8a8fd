"""Tables and pictures of release --compare: the lead that a most common value needs, by each way to release it."""

from __future__ import annotations

from dpcli.document.chart import SERIES, Axis, Chart, Line, Points
from dpcli.document.document import Document, Sheet, Table
from dpcli.release.stability.mode_comparison import ERROR, GUMBEL, PTR, STABILITY, WAYS, Comparison, ModeRelease, RightCurve

SCHEMA = "dpcli/stability/v1"
LARGE = 10**15  # larger domains are written as powers of ten
DECADES = 13  # number of decades in the picture of domains
DOMAINS = (10, 1000, 10**6)  # widths of a domain of numbers, in bins
MOST_CURVES = len(SERIES)  # largest number of curves in the picture of gaps
ALONE = "nobody holds another value of the domain: the right one is counted as often as the gap says"


def document(compared: Comparison) -> Document:
    """Return the document of a comparison: tables, pictures, and the probabilities as data."""
    confidence = compared.confidence
    needed = compared.needed(PTR, 2, confidence)
    crossings = {way: compared.crossing(PTR, way, confidence) for way in WAYS if way.sized}
    return Document(
        headline=f"propose-test-release is right with probability {confidence:g} from a gap of {needed} on, whatever the domain; the noisy "
        f"maximum needs more than that in domains of {_size(crossings[GUMBEL])} values or more",
        data=_data(compared, confidence, crossings),
        tables=(_gaps(compared, confidence, crossings), _numbers(compared)),
        notes=NOTES,
        pictures=(picture(compared), domains(compared)),
        sheet=_sheet(compared),
    )


def picture(compared: Comparison) -> Chart:
    """Return the chart of the probability of the right answer as a function of the gap."""
    drawn = [curve for way in (PTR, STABILITY, GUMBEL) for curve in compared.curves if curve.way is way][:MOST_CURVES]
    return Chart(
        kind="stability",
        title="the right most common value, by its lead",
        subtitle=_setting(compared),
        x=Axis("gap between the two largest counts", 0.0, float(max(compared.gaps))),
        y=Axis("probability of the right answer", 0.0, 1.0),
        lines=_lines([(_label(curve), _points(compared, curve)) for curve in drawn]),
        notes=(ALONE,),
    )


def domains(compared: Comparison) -> Chart:
    """Return the chart of the gap that each mechanism needs, as a function of the size of the domain."""
    confidence = compared.confidence
    sizes = [10**decade for decade in range(1, DECADES)]
    needed = [(way.label, tuple((float(n), float(compared.needed(way, n, confidence))) for n in sizes)) for way in WAYS]
    highest = max(y for _, points in needed for _, y in points)
    return Chart(
        kind="stability-domains",
        title=f"the lead that is needed to be right with probability {confidence:g}",
        subtitle=_setting(compared),
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


def _points(compared: Comparison, curve: RightCurve) -> Points:
    return tuple((float(gap), right) for gap, right in zip(compared.gaps, curve.right, strict=True))


def _label(curve: RightCurve) -> str:
    return curve.way.label if curve.size is None else f"{curve.way.label}, {_size(curve.size)} values"


def _gaps(compared: Comparison, confidence: float, crossings: dict[ModeRelease, int]) -> Table:
    rows = tuple(
        (
            way.label,
            *(str(compared.needed(way, size, confidence)) for size in compared.sizes),
            f"{_size(crossings[way])} values" if way in crossings else "-",
        )
        for way in WAYS
    )
    columns = ("release", *(f"{_size(size)} values" for size in compared.sizes), "test better from")
    title = f"gap needed to be right with probability {confidence:g}, by the size of the domain"
    return Table(title, columns, rows, frozenset(range(1, len(columns))))


def _numbers(compared: Comparison) -> Table:
    """Return a table of the sensitivity of a sum, in bins, if numbers are clamped to the domain or to three bins around the fullest one."""
    around = f"{compared.sensitivity_after_test():g}"
    rows = [(f"{_size(width)} bins", f"{compared.clamped_sensitivity(width):,.10g}", around) for width in DOMAINS]
    title = "sensitivity of a centred sum, in bins: clamped to the domain, or around the fullest bin after a test"
    rows.append(("the real line", "inf", around))
    return Table(title, ("domain of numbers", "clamped", "after a test"), tuple(rows), frozenset({1, 2}))


NOTES = (
    "without bounds there is no noisy maximum, and a clamped sum has no sensitivity: propose-test-release stays as it is where enough "
    "units agree on a value or a bin, and says nothing where they do not",
    ALONE,
    f"probabilities are within {ERROR:g} of what they are",
)


def _setting(compared: Comparison) -> str:
    one = compared.of
    rows = f"{one.rows:,} row{'s' if one.rows > 1 else ''}"
    most = rows if one.groups == 1 else f"{rows} in each of {one.groups:,} values"
    return f"epsilon = {one.epsilon:g}, delta = {one.delta!r}, {one.adjacency.value}, at most {most} of a unit"


def _size(size: int) -> str:
    return f"{size:,}" if size < LARGE else f"10^{len(str(size)) - 1}"


def _data(compared: Comparison, confidence: float, crossings: dict[ModeRelease, int]) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "epsilon": compared.of.epsilon,
        "delta": compared.of.delta,
        "adjacency": compared.of.adjacency.value,
        "max_groups": compared.of.groups,
        "max_rows": compared.of.rows,
        "others": 0,
        "confidence": confidence,
        "gaps": list(compared.gaps),
        "ways": [{"name": curve.way.name, "domain_size": curve.size, "right": list(curve.right)} for curve in compared.curves],
        "needed": [
            {"name": way.name, "domain_size": size, "gap": compared.needed(way, size, confidence)}
            for way in WAYS
            for size in compared.sizes
        ],
        "test_better_from": {way.name: float(size) for way, size in crossings.items()},
    }


def _sheet(compared: Comparison) -> Sheet:
    rows = tuple(
        (curve.way.name, curve.size, gap, right)
        for curve in compared.curves
        for gap, right in zip(compared.gaps, curve.right, strict=True)
    )
    return Sheet(("way", "domain_size", "gap", "probability"), rows)
