"""The document that `dpcli pmixed evaluate` prints, and the chart of an ablation.

Most figures come from private texts without noise: the table and the chart say NOT_FOR_PUBLICATION, and JSON "private": true. A
*perplexity* is e to the mean loss per token: smaller is better. A *method* ("way" in the table and in JSON) predicts the text by the
ensemble of models of private shards, mixed with a public model, or by one model instead. Its `kind` is one of five (`MethodKind` in
ensemble_evaluation.py). An *ablation* varies one parameter. At each of its values it solves for the radius, which limits how far a model
may be from the public one.
"""

from __future__ import annotations

import math

from dpcli.base.rounding import up
from dpcli.document.chart import Axis, Chart, Line, Points, Span, Tone, log_span
from dpcli.document.document import Document, Sheet, Table, Value
from dpcli.predict.pmixed.ensemble_evaluation import AblationPoint, Evaluation, MeasuredMethod
from dpcli.predict.pmixed.pmixed_plan import NO_GUARANTEE
from dpcli.predict.pmixed.token_losses import Perplexity

NOT_FOR_PUBLICATION = (
    "every figure except the public model's was computed from the private texts without noise, and epsilon does not cover it: do not "
    "publish these figures unless the texts are public"
)
INTERVALS = "95 % intervals: bootstrap over the records of the test text"
REDRAWN = (
    "each number of shards has its own models, and they are drawn anew for each token: the row for this file's number of shards differs "
    "from the table above by chance"
)
PAPER = "the published protocol at the epsilon that it would claim is not a DP guarantee"
AXIS_LABELS = {"epsilon": "epsilon", "steps": "tokens in all", "shards": "shards", "rate": "rate"}
ROOM = 1.1  # factor by which the axes of the chart extend beyond the data; for looks alone
REFERENCES = {  # label of each horizontal line in the chart
    "public": "public model",
    "dp": "one model, private counts or steps",
    "all": "no privacy",
}


def evaluate_document(evaluation: Evaluation) -> Document:
    """Return the document of `dpcli pmixed evaluate`: a table of methods and, with --over, the ablation with its chart."""
    sound, public, no_privacy = (evaluation.method(kind) for kind in ("sound", "public", "all"))
    headline = (
        f"perplexity {sound.perplexity.value:.4g} of {sound.name} at epsilon <= {up(evaluation.epsilon)}, delta = {evaluation.delta!r}; "
        f"public model {public.perplexity.value:.4g}, no privacy {no_privacy.perplexity.value:.4g} ({evaluation.tokens:,} tokens of text "
        "declared public)"
    )
    tables = (_methods_table(evaluation), _points_table(evaluation)) if evaluation.points else (_methods_table(evaluation),)
    data = {
        "schema": "dpcli/pmixed-evaluate/v1",
        "epsilon": evaluation.epsilon,
        "delta": evaluation.delta,
        "tokens": evaluation.tokens,
        "private": True,
        "ways": [_method_data(method) for method in evaluation.methods],
        "axis": evaluation.axis,
        "points": [_point_data(point) for point in evaluation.points],
        "exit_code": 0,
    }
    measured = [method.perplexity for method in evaluation.methods]
    measured += [perplexity for point in evaluation.points for perplexity in (point.sound, point.paper) if perplexity is not None]
    is_drawn = len(evaluation.points) > 1 and all(math.isfinite(perplexity.high) for perplexity in measured)
    pictures = (picture(evaluation),) if is_drawn else ()
    notes, sheet = tuple(_notes(evaluation)), _evaluation_sheet(evaluation)
    return Document(headline, data, verdict="pass", tables=tables, notes=notes, sheet=sheet, pictures=pictures)


def _notes(evaluation: Evaluation) -> list[str]:
    """Return the sentences below the tables. The first says so if the private texts did not help."""
    notes = [NOT_FOR_PUBLICATION, INTERVALS]
    if evaluation.axis == "shards":
        notes.append(REDRAWN)
    # A ratio that is NaN counts as no better.
    no_better = [method.name for method in evaluation.methods if method.kind == "sound" and not method.relative.value < 1.0]
    if no_better:
        notes.insert(0, f"the private texts did not help: {' and '.join(no_better)} is no better than the public model")
    return notes


def _methods_table(evaluation: Evaluation) -> Table:
    rows = tuple(
        (method.name, _epsilon_text(method), *_perplexity_cells(method.perplexity), *_perplexity_cells(method.relative))
        for method in evaluation.methods
    )
    columns = ("way", "epsilon", "perplexity", "95 % interval", "over public", "95 % interval")
    footnotes = (f"-: {NO_GUARANTEE}",) if any(method.epsilon is None for method in evaluation.methods) else ()
    return Table("perplexity per token", columns, rows, numeric=frozenset({1, 2, 4}), footnotes=footnotes)


def _epsilon_text(method: MeasuredMethod) -> str:
    """Return epsilon as text: "-" without a guarantee, "infinite" without privacy, and "0" for the public model."""
    if method.epsilon is None:
        return "-"
    if math.isinf(method.epsilon):
        return "infinite"
    return up(method.epsilon) if method.epsilon else "0"


def _perplexity_cells(measured: Perplexity) -> tuple[str, str]:
    return f"{measured.value:.2f}", f"{measured.low:.2f} to {measured.high:.2f}"


def _points_table(evaluation: Evaluation) -> Table:
    """Return the table of the ablation, which has one row for each value of the parameter."""
    columns = (AXIS_LABELS[evaluation.axis or ""], "radius", _sound_name(evaluation), "95 % interval", "published, no guarantee")
    rows = []
    for point in evaluation.points:
        paper = "-" if point.paper is None else f"{point.paper.value:.2f}"
        rows.append((f"{point.value:g}", f"{point.radius:.7g}", *_perplexity_cells(point.sound), paper))
    footnotes: tuple[str, ...] = ()
    if any(point.paper is None for point in evaluation.points):
        footnotes = ("-: the published protocol has no radius here, as the conversion at its order alone exceeds epsilon",)
    title = f"ablation over {evaluation.axis}; the radius is solved for at each value"
    return Table(title, columns, tuple(rows), numeric=frozenset({0, 1, 2, 4}), footnotes=footnotes)


def _sound_name(evaluation: Evaluation) -> str:
    return f"PMixED, {evaluation.plan.pmixed.projection}"


def _method_data(method: MeasuredMethod) -> dict[str, object]:
    return {
        "name": method.name,
        "kind": method.kind,
        "epsilon": method.epsilon,
        **_perplexity_data(method.perplexity),
        "relative": _perplexity_data(method.relative),
    }


def _point_data(point: AblationPoint) -> dict[str, object]:
    return {
        "value": point.value,
        "radius": point.radius,
        "sound": _perplexity_data(point.sound),
        "paper": None if point.paper is None else _perplexity_data(point.paper),
    }


def _perplexity_data(measured: Perplexity) -> dict[str, float]:
    return {"perplexity": measured.value, "low": measured.low, "high": measured.high}


def _evaluation_sheet(evaluation: Evaluation) -> Sheet:
    """Return the table for csv: the methods, and then the points of the ablation, in which `kind` is the parameter that varies."""
    rows: list[tuple[Value, ...]] = [
        ("way", method.name, None, method.epsilon, *_perplexity_data(method.perplexity).values()) for method in evaluation.methods
    ]
    for point in evaluation.points:
        for name, measured in (("sound", point.sound), ("paper", point.paper)):
            if measured is not None:
                rows.append((evaluation.axis or "", name, point.value, None, *_perplexity_data(measured).values()))
    return Sheet(("kind", "name", "value", "epsilon", "perplexity", "low", "high"), tuple(rows))


def picture(evaluation: Evaluation) -> Chart:
    """Return a chart of perplexity against the parameter of the ablation, with the other models as horizontal lines."""
    assert evaluation.axis is not None and evaluation.plan.account is not None
    points, label = evaluation.points, AXIS_LABELS[evaluation.axis]
    sound: Points = tuple(sorted((point.value, point.sound.value) for point in points))
    paper: Points = tuple(sorted((point.value, point.paper.value) for point in points if point.paper is not None))
    references = [method for method in evaluation.methods if method.kind in REFERENCES]
    if evaluation.axis == "epsilon":  # The private baseline has the epsilon of the file only.
        references = [method for method in references if method.kind != "dp"]
    perplexities = [point.sound.low for point in points] + [point.sound.high for point in points]
    perplexities += [value for _, value in paper]
    perplexities += [method.perplexity.value for method in references]
    x_ends, y_ends = log_span([point.value for point in points], ROOM), log_span(perplexities, ROOM)
    lines = [Line(_sound_name(evaluation), sound)]
    if len(paper) > 1:
        lines.append(Line("published, no guarantee", paper, Tone.SECOND, dashed=True))
    for method in references:
        across = tuple((x, method.perplexity.value) for x in x_ends)
        lines.append(Line(REFERENCES[method.kind], across, Tone.MUTED, dashed=True))
    return Chart(
        kind="pmixed",
        title=f"{evaluation.plan.pipeline.name or 'PMixED'}: perplexity against {label}",
        subtitle=_shared_parameters(evaluation),
        x=Axis(label, *x_ends, scale="log"),
        y=Axis("perplexity per token", *y_ends, scale="log"),
        lines=tuple(lines),
        spans=tuple(Span("95 % interval", point.value, point.sound.low, point.sound.high) for point in points),
        notes=(NOT_FOR_PUBLICATION, f"bars: {INTERVALS}", PAPER),
    )


def _shared_parameters(evaluation: Evaluation) -> str:
    """Return a line with the parameters that all points of the ablation share."""
    plan, privacy = evaluation.plan, evaluation.plan.pipeline.privacy
    fixed = {
        "epsilon": f"epsilon <= {up(evaluation.epsilon)}",
        "delta": f"delta = {evaluation.delta!r}",
        "steps": f"{plan.tokens:,} tokens",
        "shards": f"{plan.spec.shards} shards",
        "rate": f"rate {plan.spec.model_rate:g}",
    }
    stated = [words for name, words in fixed.items() if name != evaluation.axis]
    return ", ".join([f"per {privacy.unit or 'record'}", privacy.adjacency.value, *stated])
