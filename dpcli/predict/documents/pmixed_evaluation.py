"""An evaluation of an ensemble as a document, and the picture of its ablation."""

from __future__ import annotations

import math

from dpcli.base.rounding import up
from dpcli.document.chart import Axis, Chart, Line, Points, Span, Tone, log_span
from dpcli.document.document import Document, Sheet, Table, Value
from dpcli.predict.pmixed.ensemble_evaluation import AblationPoint, Evaluation, Perplexity, Way
from dpcli.predict.pmixed.pmixed_plan import NO_GUARANTEE

PRIVATE = (
    "every figure but the public model's was computed from the private texts without noise: the epsilon covers none of them, and they are "
    "not for publication unless the texts are public"
)
INTERVALS = "95 % intervals: bootstrap over the records of the test text"
REDRAWN = (
    "with other shards there are other models, drawn anew for each token: the row of this file's shards differs from it by chance"
)
PAPER = "the published protocol, for the epsilon that it would claim: not a DP guarantee"
LABELS = {"epsilon": "epsilon", "steps": "tokens in all", "shards": "shards", "rate": "rate"}
ROOM = 1.1
REFERENCES = {"public": "public model", "dp": "one model, private counts or steps", "all": "no privacy"}


def evaluated(evaluation: Evaluation) -> Document:
    """Return the answer of `dpcli pmixed evaluate`."""
    sound, public, everything = evaluation.way("sound"), evaluation.way("public"), evaluation.way("all")
    assert sound is not None and public is not None and everything is not None
    headline = (
        f"perplexity {sound.perplexity.value:.4g} of {sound.name} at epsilon <= {up(evaluation.epsilon)}, delta = {evaluation.delta!r}; "
        f"public model {public.perplexity.value:.4g}, no privacy {everything.perplexity.value:.4g} ({evaluation.tokens:,} tokens of text "
        "declared public)"
    )
    tables = (_ways(evaluation), *([_points(evaluation)] if evaluation.points else []))
    data = {
        "schema": "dpcli/pmixed-evaluate/v1",
        "epsilon": evaluation.epsilon,
        "delta": evaluation.delta,
        "tokens": evaluation.tokens,
        "private": True,
        "ways": [_way(way) for way in evaluation.ways],
        "axis": evaluation.axis,
        "points": [_point(point) for point in evaluation.points],
        "exit_code": 0,
    }
    redrawn = (REDRAWN,) if evaluation.axis == "shards" else ()
    pictures = (picture(evaluation),) if len(evaluation.points) > 1 else ()
    return Document(
        headline,
        data,
        "pass",
        tables,
        (*_gained(evaluation), PRIVATE, INTERVALS, *redrawn),
        sheet=_sheet(evaluation),
        pictures=pictures,
    )


def _gained(evaluation: Evaluation) -> tuple[str, ...]:
    """Say where the ensemble is no better than the public model."""
    idle = [way.name for way in evaluation.ways if way.kind == "sound" and way.relative.value >= 1.0]
    return (f"the private texts gained nothing: {' and '.join(idle)} is no better than the public model",) if idle else ()


def _ways(evaluation: Evaluation) -> Table:
    rows = tuple((way.name, _epsilon(way), *_cells(way.perplexity), *_cells(way.relative)) for way in evaluation.ways)
    columns = ("way", "epsilon", "perplexity", "95 % interval", "over public", "95 % interval")
    footnotes = (f"-: {NO_GUARANTEE}",) if any(way.epsilon is None for way in evaluation.ways) else ()
    return Table("perplexity per token", columns, rows, frozenset({1, 2, 4}), footnotes)


def _epsilon(way: Way) -> str:
    return "-" if way.epsilon is None else "infinite" if math.isinf(way.epsilon) else "0" if way.epsilon == 0.0 else up(way.epsilon)


def _cells(measured: Perplexity) -> tuple[str, str]:
    return f"{measured.value:.2f}", f"{measured.low:.2f} to {measured.high:.2f}"


def _points(evaluation: Evaluation) -> Table:
    columns = (LABELS[evaluation.axis or ""], "radius", _sound(evaluation), "95 % interval", "published, no guarantee")
    footnotes = (
        ("-: the published protocol has no radius here: its order leaves nothing of the epsilon",)
        if any(p.paper is None for p in evaluation.points)
        else ()
    )
    rows = tuple(
        (f"{p.value:g}", f"{p.radius:.7g}", *_cells(p.sound), "-" if p.paper is None else f"{p.paper.value:.2f}")
        for p in evaluation.points
    )
    return Table(
        f"ablation over {evaluation.axis}: the radius solved for at each", columns, rows, frozenset({0, 1, 2, 4}), footnotes
    )


def _sound(evaluation: Evaluation) -> str:
    return f"PMixED, {evaluation.plan.pmixed.projection}"


def _way(way: Way) -> dict[str, object]:
    stated = {"name": way.name, "kind": way.kind, "epsilon": way.epsilon}
    return {**stated, **_perplexity(way.perplexity), "relative": _perplexity(way.relative)}


def _point(point: AblationPoint) -> dict[str, object]:
    return {
        "value": point.value,
        "radius": point.radius,
        "sound": _perplexity(point.sound),
        "paper": None if point.paper is None else _perplexity(point.paper),
    }


def _perplexity(measured: Perplexity) -> dict[str, float]:
    return {"perplexity": measured.value, "low": measured.low, "high": measured.high}


def _sheet(evaluation: Evaluation) -> Sheet:
    rows: list[tuple[Value, ...]] = [
        ("way", way.name, None, way.epsilon, way.perplexity.value, way.perplexity.low, way.perplexity.high)
        for way in evaluation.ways
    ]
    for point in evaluation.points:
        for name, measured in (("sound", point.sound), ("paper", point.paper)):
            if measured is not None:
                rows.append((evaluation.axis or "", name, point.value, None, measured.value, measured.low, measured.high))
    return Sheet(("kind", "name", "value", "epsilon", "perplexity", "low", "high"), tuple(rows))


def picture(evaluation: Evaluation) -> Chart:
    """Draw perplexity over what was varied, with the public model and what there is without privacy as lines across."""
    assert evaluation.axis is not None and evaluation.plan.account is not None
    values = [point.value for point in evaluation.points]
    xs = log_span(values, ROOM)
    sound: Points = tuple(sorted((p.value, p.sound.value) for p in evaluation.points))
    paper: Points = tuple(sorted((p.value, p.paper.value) for p in evaluation.points if p.paper is not None))
    across = [way for way in evaluation.ways if way.kind in REFERENCES and (way.kind != "dp" or evaluation.axis != "epsilon")]
    heights = [end for p in evaluation.points for end in (p.sound.low, p.sound.high)] + [y for _, y in paper]
    ys = log_span([*heights, *(way.perplexity.value for way in across)], ROOM)
    return Chart(
        kind="pmixed",
        title=f"{evaluation.plan.pipeline.name or 'PMixED'}: perplexity against {LABELS[evaluation.axis]}",
        subtitle=_setting(evaluation),
        x=Axis(LABELS[evaluation.axis], *xs, scale="log"),
        y=Axis("perplexity per token", *ys, scale="log"),
        lines=(
            Line(_sound(evaluation), sound),
            *([Line("published, no guarantee", paper, Tone.SECOND, True)] if len(paper) > 1 else []),
            *(Line(REFERENCES[way.kind], tuple((x, way.perplexity.value) for x in xs), Tone.MUTED, True) for way in across),
        ),
        spans=tuple(Span("95 % interval", p.value, p.sound.low, p.sound.high) for p in evaluation.points),
        notes=(PRIVATE, f"bars: {INTERVALS}", PAPER),
    )


def _setting(evaluation: Evaluation) -> str:
    """Return everything that the points share."""
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
