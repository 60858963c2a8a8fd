"""The documents that the commands of `dpcli pmixed` print, and the chart of an ablation."""

from __future__ import annotations

import math

from dpcli.analysis.budget_verdict import OVER
from dpcli.analysis.documents.account import headline
from dpcli.base.rounding import up
from dpcli.document.chart import Axis, Chart, Line, Points, Span, Tone, log_span
from dpcli.document.document import Document, Sheet, Table, Value, visible
from dpcli.predict.pmixed.ensemble_evaluation import AblationPoint, Evaluation, Way
from dpcli.predict.pmixed.ensemble_fit import FitOutcome
from dpcli.predict.pmixed.model_ensemble import EnsembleAnswer
from dpcli.predict.pmixed.pmixed_plan import NO_GUARANTEE, PmixedPlan
from dpcli.predict.pmixed.token_costs import ChangeCost, Costs
from dpcli.predict.pmixed.token_losses import Perplexity
from dpcli.sessions.documents.dry_run import rows_data, shown, window_note

COUNTED_IN_FOLDER = (
    "tokens are counted in that folder, and a restored older copy of it cannot be detected: protect the folder like a ledger"
)
PRIVATE = "the fitted models are as private as the texts: only dpcli pmixed predict may release anything computed from them"
NOT_DP = NO_GUARANTEE
NOTES = (
    "replace-shard: a record or a unit is added, removed or changed, which replaces the model of one shard",
    "remove-shard: a whole shard is added or removed, as the unit of privacy is a shard",
)
LEDGER = 'a ledger with filter = "rdp" charges by Renyi divergences: use the {} of the column rdp with it'
NAMES = {"rdp": "by Renyi divergences", "pld": "by privacy-loss distributions"}


def guarantee(plan: PmixedPlan) -> str:
    """Return a sentence about the cost of all tokens of a plan together."""
    if plan.account is not None:
        return f"{plan.tokens:,} tokens in all: {headline(plan.account)}"
    assert plan.published is not None
    claim = f"claimed epsilon {plan.published.epsilon:g} at delta = {plan.published.delta!r} for {plan.tokens:,} tokens"
    return f"{claim}: {NOT_DP}"


def fit_document(outcome: FitOutcome) -> Document:
    """Return the document of `dpcli pmixed fit`."""
    plan, count = outcome.plan, len(outcome.fit.models)
    resumed = (f"{outcome.resumed} models had been fitted before",) if outcome.resumed else ()
    paid = ("a ledger was charged for all tokens",) if outcome.fit.session.charged else (COUNTED_IN_FOLDER,)
    details = (guarantee(plan), *window_note(plan), *paid, *resumed, PRIVATE)
    data = {
        "schema": "dpcli/pmixed-fit/v1",
        **rows_data(plan),
        "models": count,
        "folder": outcome.folder,
        "run": outcome.fit.session.run,
        "mode": plan.pmixed.mode,
        "tokens": plan.tokens,
        "charged": outcome.fit.session.charged,
        "result": result(plan),
        "exit_code": 0,
    }
    text = f"{count} models are fine-tuned, one for each shard; they are in {shown(outcome.folder)}"
    return Document(text, data, "pass" if plan.account else "warn", notes=details, details=details)


def result(plan: PmixedPlan) -> dict[str, float | str | None] | None:
    """Return the cost of all tokens; None if there is no guarantee."""
    return None if plan.account is None else {"epsilon_upper": plan.account.upper, "delta": plan.account.delta}


def tokens_left(answered: EnsembleAnswer) -> str:
    """Return a sentence about the tokens of an answer, the tokens spent, and the tokens left."""
    count, total = answered.tokens, answered.total
    text = f"{count:,} token{'' if count == 1 else 's'}" if count else "(an empty text)"
    return f"{text}; {answered.taken:,} of {total:,} are spent, {total - answered.taken:,} are left"


def predict_document(plan: PmixedPlan, answered: EnsembleAnswer) -> Document:
    """Return the document of `dpcli pmixed predict`. Its headline is the drawn text, so that standard output is that text."""
    notes = (tokens_left(answered), f"ended by {answered.why}", guarantee(plan))
    data = {
        "schema": "dpcli/pmixed-predict/v1",
        "prompt": answered.prompt,
        "text": answered.text,
        "tokens": answered.tokens,
        "ended_by": answered.why,
        "taken": answered.taken,
        "total": answered.total,
        "mode": plan.pmixed.mode,
        "result": result(plan),
        "exit_code": 1 if answered.refused else 0,
    }
    sheet = Sheet(
        ("prompt", "text", "tokens", "taken", "total"),
        ((answered.prompt, answered.text, answered.tokens, answered.taken, answered.total),),
    )
    return Document(
        "\n".join(map(visible, answered.text.split("\n"))),
        data,
        notes=notes,
        exit_code=1 if answered.refused else 0,
        why=answered.refused or "",
        sheet=sheet,
        records=(data,),
    )


def account_document(costs: Costs) -> Document:
    """Return the document of `dpcli pmixed account`."""
    if costs.plan.account is None:
        return _claim_document(costs.plan)
    return _priced_document(costs) if costs.solve is None else _solved_document(costs)


def _priced_document(costs: Costs) -> Document:
    best, plan = costs.best, costs.plan
    cells = [up(row.epsilon) if row.epsilon < math.inf else "-" for row in costs.rows]
    text = (
        f"epsilon <= {up(best.epsilon)} at delta = {costs.delta!r} for {plan.tokens:,} tokens of {plan.spec.shards} shards, rate "
        f"{plan.spec.model_rate:g}, radius {plan.spec.radius:.7g} ({best.change}; {NAMES[best.accountant]})"
    )
    verdict = plan.account.budget if plan.account is not None else None
    budget, rho = (None, None) if verdict is None else (verdict.epsilon, verdict.rho)
    why = ""
    if rho is not None and rho.verdict in OVER:
        why = f"over the budget: {rho.words()}"
    elif budget is not None and budget.delta == costs.delta and best.epsilon > budget.cap:
        why = f"over the budget of epsilon {budget.cap:g}"
    table = _table(costs, cells, f"epsilon at delta = {costs.delta!r} (rounded up)", "-: this accountant certifies no epsilon here")
    return _costs_document(costs, text, table, NOTES, best.epsilon, why)


def _solved_document(costs: Costs) -> Document:
    best = costs.best
    assert best.solved is not None
    cells = ["-" if row.solved is None else _value(row.solved.value) for row in costs.rows]
    text = (
        f"{costs.solve} = {_value(best.solved.value)}: epsilon <= {up(best.epsilon)} at delta = {costs.delta!r} (target {costs.target!r}; "
        f"{best.change}; {NAMES[best.accountant]})"
    )
    title = f"largest {costs.solve} with epsilon <= {costs.target!r} at delta = {costs.delta!r}"
    table = _table(costs, cells, title, f"-: this accountant certifies no {costs.solve} that meets the target")
    return _costs_document(costs, text, table, (*NOTES, LEDGER.format(costs.solve)), best.solved.value)


def _costs_document(costs: Costs, text: str, table: Table, notes: tuple[str, ...], total: float, why: str = "") -> Document:
    """Return the document of costs.

    Args:
        why: How the costs exceed the budget; "" if they do not.
    """
    code = int(why != "")
    data = {**_data(costs), "exit_code": code}
    return Document(
        text, data, "fail" if why else "pass", (table,), notes, exit_code=code, total=repr(total), sheet=_sheet(costs), why=why
    )


def _value(solved: float) -> str:
    """Return a solved value as text. A whole number keeps all its digits, as a rounded one might no longer meet the target."""
    return f"{int(solved)}" if solved == int(solved) else f"{solved:.10g}"


def _table(costs: Costs, cells: list[str], title: str, footnote: str) -> Table:
    """Return a table with a row for each change and a column for each accountant.

    Args:
        footnote: Footnote that explains a cell without a number.
    """
    by = {(row.change, row.accountant): cell for row, cell in zip(costs.rows, cells, strict=True)}
    stated = {row.change: row.stated for row in costs.rows}
    rows = tuple(
        (f"{change}{' (this file)' if own else ''}", *(by[change, name] for name in NAMES)) for change, own in stated.items()
    )
    return Table(title, ("what one change does", *NAMES), rows, frozenset({1, 2}), (footnote,) if "-" in cells else ())


def _data(costs: Costs) -> dict[str, object]:
    spec = costs.plan.spec
    return {
        "schema": "dpcli/pmixed-account/v1",
        "shards": spec.shards,
        "rate": spec.model_rate,
        "radius": spec.radius,
        "steps": costs.plan.tokens,
        "delta": costs.delta,
        "solve": costs.solve,
        "target_epsilon": costs.target,
        "rows": [_row(row) for row in costs.rows],
        "best": _row(costs.best),
    }


def _row(row: ChangeCost) -> dict[str, object]:
    value = None if row.solved is None else row.solved.value
    return {"change": row.change, "accountant": row.accountant, "stated": row.stated, "epsilon_upper": row.epsilon, "value": value}


def _sheet(costs: Costs) -> Sheet:
    rows: list[tuple[Value, ...]] = [
        (row.change, row.accountant, row.stated, row.epsilon, None if row.solved is None else row.solved.value)
        for row in costs.rows
    ]
    return Sheet(("change", "accountant", "stated", "epsilon_upper", costs.solve or "value"), tuple(rows))


def _claim_document(plan: PmixedPlan) -> Document:
    """Return the document of the published protocol's claim, with the reason why the claim is not a guarantee."""
    published, shards = plan.published, plan.spec.shards
    assert published is not None
    drawn = sorted({count for count in (1, 2, 4, 8, shards) if count <= shards})
    rows = tuple((f"{count}", f"{published.radius(count):.7g}") for count in drawn)
    title = f"radius at order {published.order}, by number of models drawn"
    data = {
        "schema": "dpcli/pmixed-account/v1",
        "claimed_epsilon": published.epsilon,
        "delta": published.delta,
        "order": published.order,
        "steps": plan.tokens,
        "radius": {str(count): published.radius(count) for count in drawn},
        "result": None,
        "exit_code": 3,
    }
    return Document(
        f"NOT A DP GUARANTEE: the published protocol claims epsilon {published.epsilon:g} at delta = {published.delta!r} for "
        f"{plan.tokens:,} tokens",
        data,
        "unknown",
        (Table(title, ("models", "radius"), rows, frozenset({0, 1})),),
        (NOT_DP, 'with two models, one token can cost 129 times the claim; mode = "sound" bounds every order'),
        exit_code=3,
        why=NOT_DP,
        sheet=Sheet(("models", "radius"), tuple((count, published.radius(count)) for count in drawn)),
    )


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
LABELS = {"epsilon": "epsilon", "steps": "tokens in all", "shards": "shards", "rate": "rate"}
ROOM = 1.1  # factor by which the axes of the chart extend beyond the data
REFERENCES = {  # label of each horizontal line in the chart
    "public": "public model",
    "dp": "one model, private counts or steps",
    "all": "no privacy",
}


def evaluate_document(evaluation: Evaluation) -> Document:
    """Return the document of `dpcli pmixed evaluate`."""
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
        (*_no_gain(evaluation), NOT_FOR_PUBLICATION, INTERVALS, *redrawn),
        sheet=_evaluation_sheet(evaluation),
        pictures=pictures,
    )


def _no_gain(evaluation: Evaluation) -> tuple[str, ...]:
    """Return a note about the ensembles that are no better than the public model; () if all are better."""
    no_better = [way.name for way in evaluation.ways if way.kind == "sound" and way.relative.value >= 1.0]
    return (f"the private texts did not help: {' and '.join(no_better)} is no better than the public model",) if no_better else ()


def _ways(evaluation: Evaluation) -> Table:
    rows = tuple((way.name, _epsilon(way), *_cells(way.perplexity), *_cells(way.relative)) for way in evaluation.ways)
    columns = ("way", "epsilon", "perplexity", "95 % interval", "over public", "95 % interval")
    footnotes = (f"-: {NO_GUARANTEE}",) if any(way.epsilon is None for way in evaluation.ways) else ()
    return Table("perplexity per token", columns, rows, frozenset({1, 2, 4}), footnotes)


def _epsilon(way: Way) -> str:
    if way.epsilon is None:
        return "-"
    if math.isinf(way.epsilon):
        return "infinite"
    return up(way.epsilon) if way.epsilon else "0"


def _cells(measured: Perplexity) -> tuple[str, str]:
    return f"{measured.value:.2f}", f"{measured.low:.2f} to {measured.high:.2f}"


def _points(evaluation: Evaluation) -> Table:
    columns = (LABELS[evaluation.axis or ""], "radius", _sound(evaluation), "95 % interval", "published, no guarantee")
    footnotes = (
        ("-: the published protocol has no radius here, as the conversion at its order alone exceeds epsilon",)
        if any(p.paper is None for p in evaluation.points)
        else ()
    )
    rows = tuple(
        (f"{p.value:g}", f"{p.radius:.7g}", *_cells(p.sound), "-" if p.paper is None else f"{p.paper.value:.2f}")
        for p in evaluation.points
    )
    return Table(
        f"ablation over {evaluation.axis}; the radius is solved for at each value",
        columns,
        rows,
        frozenset({0, 1, 2, 4}),
        footnotes,
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


def _evaluation_sheet(evaluation: Evaluation) -> Sheet:
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
    """Return a chart of perplexity against the parameter of the ablation, with the other models as horizontal lines."""
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
        notes=(NOT_FOR_PUBLICATION, f"bars: {INTERVALS}", PAPER),
    )


def _setting(evaluation: Evaluation) -> str:
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
