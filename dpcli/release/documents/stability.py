"""Tables and pictures of `dpcli release --compare`: the lead that the most common value needs, for each mechanism that releases it.

The *gap* is the lead of the most common value over the next one, in rows, and the *domain* is the set of possible values. Mechanisms over
declared values need a gap that grows with the size of the domain. Propose-test-release (PTR, a noisy test of whether the value is stable)
and the stability histogram (STABILITY, a threshold on noisy counts) do not, and spend a delta instead. GUMBEL is the exponential mechanism,
a noisy maximum. A *curve* is the probability of the right value at each gap. The comparison reads no data; stability/mode_comparison.py
computes it, and its MECHANISMS has all of them.
"""

from __future__ import annotations

from dpcli.base.rounding import counted
from dpcli.document.chart import SERIES, Axis, Chart, Line, Points
from dpcli.document.document import Document, Sheet, Table
from dpcli.release.stability.mode_comparison import ERROR, GUMBEL, MECHANISMS, PTR, STABILITY, Comparison, ModeRelease, RightCurve

# Choices of what is shown. None of them changes a probability.
LARGE = 10**15  # larger domains are written as powers of ten, because their digits would fill a cell
DECADES = 13  # the axis of domain sizes ends at 10^(DECADES - 1)
ROOM = 1.1  # factor by which the axis of gaps is longer than the highest curve needs, so that no line touches the frame
DOMAINS = (10, 1000, 10**6)  # widths of a domain of numbers, in bins, as examples
ALONE = "in the compared data, all rows have the right value, so its count is the gap"
NOTES = (
    "without bounds, a noisy maximum is impossible and the sensitivity of a sum is infinite; propose-test-release needs no bounds: it "
    "answers if enough units agree on a value or a bin, and gives no answer otherwise",
    ALONE,
    f"each probability has an error of at most {ERROR:g}",
)


def document(comparison: Comparison) -> Document:
    """Return the document of a comparison: tables, pictures, and the probabilities as data."""
    crossings = {mechanism: comparison.crossing_size(PTR, mechanism) for mechanism in MECHANISMS if mechanism.needs_domain}
    needed_gap = comparison.needed_gap(PTR, size=2)  # the same for every size
    headline = (
        f"propose-test-release is right with probability {comparison.confidence:g} for gaps of at least {needed_gap}, for any domain; the "
        f"noisy maximum needs a larger gap in domains of {_size(crossings[GUMBEL])} values or more"
    )
    return Document(
        headline=headline,
        data=_data(comparison, crossings),
        tables=(_gaps_table(comparison, crossings), _sensitivity_table(comparison)),
        notes=NOTES,
        pictures=(picture(comparison), domains(comparison)),
        sheet=_sheet(comparison),
    )


def picture(comparison: Comparison) -> Chart:
    """Return the chart of the probability of the right answer as a function of the gap, for three of the mechanisms.

    Curves beyond the number of colours (SERIES) are left out.
    """
    drawn = []
    for mechanism in (PTR, STABILITY, GUMBEL):
        drawn += [curve for curve in comparison.curves if curve.mechanism is mechanism]
    labelled = [(_label(curve), _points(comparison, curve)) for curve in drawn[: len(SERIES)]]
    return Chart(
        kind="stability",
        title="probability of the right most common value, by its lead",
        subtitle=_setting(comparison),
        x=Axis("gap between the two largest counts", 0.0, float(max(comparison.gaps))),
        y=Axis("probability of the right answer", 0.0, 1.0),
        lines=_lines(labelled),
        notes=(ALONE,),
    )


def domains(comparison: Comparison) -> Chart:
    """Return the chart of the gap that each mechanism needs, as a function of the size of the domain."""
    sizes = [10**decade for decade in range(1, DECADES)]
    labelled: list[tuple[str, Points]] = []
    for mechanism in MECHANISMS:
        gaps = [comparison.needed_gap(mechanism, size) for size in sizes]
        labelled.append((mechanism.label, tuple((float(size), float(gap)) for size, gap in zip(sizes, gaps, strict=True))))
    highest = max(gap for _, points in labelled for _, gap in points)
    return Chart(
        kind="stability-domains",
        title=f"lead needed to be right with probability {comparison.confidence:g}",
        subtitle=_setting(comparison),
        x=Axis("values in the domain", float(sizes[0]), float(sizes[-1]), scale="log"),
        y=Axis("gap between the two largest counts", 0.0, ROOM * highest),
        lines=_lines(labelled),
        notes=(ALONE,),
    )


def _lines(curves: list[tuple[str, Points]]) -> tuple[Line, ...]:
    """Return the lines of a chart: one for each curve, where equal curves share a line."""
    drawn: list[tuple[str, Points]] = []
    for label, points in curves:
        equal = next((index for index, (_, other) in enumerate(drawn) if _are_equal(points, other)), None)
        if equal is None:
            drawn.append((label, points))
        else:
            earlier_label, _ = drawn[equal]
            drawn[equal] = (f"{earlier_label} and {label}", points)
    return tuple(Line(label, points, tone) for (label, points), tone in zip(drawn, SERIES, strict=False))


def _are_equal(points: Points, others: Points) -> bool:
    """Return whether two curves are equal within the errors of both."""
    return all(abs(y - other_y) <= 2.0 * ERROR for (_, y), (_, other_y) in zip(points, others, strict=True))


def _points(comparison: Comparison, curve: RightCurve) -> Points:
    return tuple((float(gap), right) for gap, right in zip(comparison.gaps, curve.probabilities, strict=True))


def _label(curve: RightCurve) -> str:
    return curve.mechanism.label if curve.size is None else f"{curve.mechanism.label}, {_size(curve.size)} values"


def _gaps_table(comparison: Comparison, crossings: dict[ModeRelease, int]) -> Table:
    """Return a table of the gap that each mechanism needs, and of the size of the domain from which propose-test-release needs less."""
    rows = []
    for mechanism in MECHANISMS:
        gaps = (str(comparison.needed_gap(mechanism, size)) for size in comparison.sizes)
        better_from = f"{_size(crossings[mechanism])} values" if mechanism in crossings else "-"
        rows.append((mechanism.label, *gaps, better_from))
    columns = ("mechanism", *(f"{_size(size)} values" for size in comparison.sizes), "test better from")
    title = f"gap needed to be right with probability {comparison.confidence:g}, by the size of the domain"
    return Table(title, columns, tuple(rows), numeric=frozenset(range(1, len(columns))))


def _sensitivity_table(comparison: Comparison) -> Table:
    """Return a table of the sensitivity of a sum, in bins, for numbers clamped to the domain or to three bins around the fullest bin."""
    around = f"{comparison.sensitivity_after_test():g}"
    rows = [(f"{_size(width)} bins", f"{comparison.clamped_sensitivity(width):,.10g}", around) for width in DOMAINS]
    title = "sensitivity of a centred sum, in bins: clamped to the domain, or around the fullest bin after a test"
    rows.append(("the real line", "inf", around))
    return Table(title, ("domain of numbers", "clamped", "after a test"), tuple(rows), numeric=frozenset({1, 2}))


def _setting(comparison: Comparison) -> str:
    """Return epsilon, delta, the adjacency and the bounds on a unit in words."""
    setting = comparison.setting
    most = counted(setting.rows, "row")
    if setting.groups > 1:
        most += f" in each of {setting.groups:,} values"
    return f"epsilon = {setting.epsilon:g}, delta = {setting.delta!r}, {setting.adjacency.value}, at most {most} per unit"


def _size(size: int) -> str:
    """Return the size of a domain as text; from LARGE on, the power of ten that it reaches."""
    return f"{size:,}" if size < LARGE else f"10^{len(str(size)) - 1}"


def _data(comparison: Comparison, crossings: dict[ModeRelease, int]) -> dict[str, object]:
    """Return the JSON data. crossings: size of the domain from which propose-test-release needs a smaller gap than a mechanism."""
    setting = comparison.setting
    ways = [
        {"name": curve.mechanism.name, "domain_size": curve.size, "right": list(curve.probabilities)} for curve in comparison.curves
    ]
    needed = [
        {"name": mechanism.name, "domain_size": size, "gap": comparison.needed_gap(mechanism, size)}
        for mechanism in MECHANISMS
        for size in comparison.sizes
    ]
    return {
        "schema": "dpcli/stability/v1",
        "epsilon": setting.epsilon,
        "delta": setting.delta,
        "adjacency": setting.adjacency.value,
        "max_groups": setting.groups,
        "max_rows": setting.rows,
        "others": 0,  # count of every other value in the compared data
        "confidence": comparison.confidence,
        "gaps": list(comparison.gaps),
        "ways": ways,
        "needed": needed,
        "test_better_from": {mechanism.name: float(size) for mechanism, size in crossings.items()},
    }


def _sheet(comparison: Comparison) -> Sheet:
    rows = tuple(
        (curve.mechanism.name, curve.size, gap, right)
        for curve in comparison.curves
        for gap, right in zip(comparison.gaps, curve.probabilities, strict=True)
    )
    return Sheet(("way", "domain_size", "gap", "probability"), rows)
