"""An ensemble of language models as a document: its fit, its answers, and what they cost."""

from __future__ import annotations

import math

from dpcli.analysis.documents.account import headline
from dpcli.analysis.rho import OVER
from dpcli.base.rounding import up
from dpcli.document.document import Document, Sheet, Table, Value, visible
from dpcli.predict.pmixed.ensemble_fit import FitOutcome
from dpcli.predict.pmixed.model_ensemble import Answered
from dpcli.predict.pmixed.pmixed_plan import NO_GUARANTEE, PmixedPlan
from dpcli.predict.pmixed.token_costs import ChangeCost, Costs
from dpcli.sessions.documents.dry_run import rows_data, shown, window_note

COUNTED_HERE = (
    "tokens are counted in that folder: nothing can tell whether it was put back to an earlier state; keep it as one keeps a ledger"
)
PRIVATE = "the fitted models are as private as the texts: only dpcli pmixed predict may release anything of them"
NOT_DP = NO_GUARANTEE
REPLACED = "what a record or a unit does that comes, goes or changes: one shard's model becomes another one"
REMOVED = "a whole shard comes or goes: the unit of privacy is a shard"
LEDGER = 'a ledger with filter = "rdp" charges by Renyi divergences, and takes the {} of the column rdp'
NAMES = {"rdp": "by Renyi divergences", "pld": "by privacy-loss distributions"}


def guarantee(plan: PmixedPlan) -> str:
    """Return what all tokens of a plan cost together, in words."""
    if plan.account is not None:
        return f"{plan.tokens:,} tokens in all: {headline(plan.account)}"
    assert plan.published is not None
    claim = f"claimed epsilon {plan.published.epsilon:g} at delta = {plan.published.delta!r} for {plan.tokens:,} tokens"
    return f"{claim}: {NOT_DP}"


def fitted(outcome: FitOutcome) -> Document:
    """Return what `dpcli pmixed fit` did."""
    plan, count = outcome.plan, len(outcome.fit.models)
    resumed = (f"{outcome.resumed} models were made before",) if outcome.resumed else ()
    paid = ("a ledger is charged with all tokens",) if outcome.fit.session.charged else (COUNTED_HERE,)
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
    text = f"{count} models are fine-tuned, one on each shard, in {shown(outcome.folder)}"
    return Document(text, data, "pass" if plan.account else "warn", notes=details, details=details)


def result(plan: PmixedPlan) -> dict[str, float | str | None] | None:
    """Return what all tokens cost; None where nothing is guaranteed."""
    return None if plan.account is None else {"epsilon_upper": plan.account.upper, "delta": plan.account.delta}


def spent(answered: Answered) -> str:
    """Say how many tokens an answer has, and how many are left of all."""
    count, total = answered.tokens, answered.total
    what = "(an empty text)" if not count else "1 token" if count == 1 else f"{count:,} tokens"
    return f"{what}; {answered.taken:,} of {total:,} are spent, {total - answered.taken:,} are left"


def answer(plan: PmixedPlan, answered: Answered) -> Document:
    """Return what `dpcli pmixed predict` drew: the text itself is the headline, so that standard output is the text."""
    notes = (spent(answered), f"ended by {answered.why}", guarantee(plan))
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


def accounted(costs: Costs) -> Document:
    """Return the answer of `dpcli pmixed account`."""
    if costs.plan.account is None:
        return _claimed(costs.plan)
    return _priced(costs) if costs.solve is None else _solved(costs)


def _priced(costs: Costs) -> Document:
    best, plan = costs.best, costs.plan
    cells = [up(row.epsilon) if row.epsilon < math.inf else "-" for row in costs.rows]
    refused = ("-: this accountant certifies no epsilon here",) if "-" in cells else ()
    text = (
        f"epsilon <= {up(best.epsilon)} at delta = {costs.delta!r} for {plan.tokens:,} tokens of {plan.spec.shards} shards, rate "
        f"{plan.spec.model_rate:g}, radius {plan.spec.radius:.7g} ({best.change}; {NAMES[best.accountant]})"
    )
    verdict = plan.account.budget if plan.account is not None else None
    budget, rho = (None, None) if verdict is None else (verdict.epsilon, verdict.rho)
    over = budget is not None and budget.delta == costs.delta and best.epsilon > budget.cap
    why = f"over the budget of epsilon {budget.cap:g}" if budget is not None and over else ""
    if rho is not None and rho.verdict in OVER:
        over, why = True, f"over the budget: {rho.words()}"
    data = {**_data(costs), "exit_code": int(over)}
    table = _table(costs, cells, f"epsilon at delta = {costs.delta!r} (rounded up)", refused)
    return Document(
        text,
        data,
        "fail" if over else "pass",
        (table,),
        _notes(),
        exit_code=int(over),
        total=repr(best.epsilon),
        sheet=_sheet(costs),
        why=why,
    )


def _solved(costs: Costs) -> Document:
    best = costs.best
    assert best.solved is not None
    cells = ["-" if row.solved is None else _value(row.solved.value) for row in costs.rows]
    text = (
        f"{costs.solve} = {_value(best.solved.value)}: epsilon <= {up(best.epsilon)} at delta = {costs.delta!r} (target {costs.target!r}; "
        f"{best.change}; {NAMES[best.accountant]})"
    )
    refused = (f"-: this accountant certifies no {costs.solve} that meets the target",) if "-" in cells else ()
    table = _table(costs, cells, f"largest {costs.solve} with epsilon <= {costs.target!r} at delta = {costs.delta!r}", refused)
    data = {**_data(costs), "exit_code": 0}
    return Document(
        text, data, "pass", (table,), (*_notes(), LEDGER.format(costs.solve)), total=repr(best.solved.value), sheet=_sheet(costs)
    )


def _value(solved: float) -> str:
    """Return a whole number with all of its digits: rounded to ten it may be one that no longer meets the target."""
    return f"{int(solved)}" if solved == int(solved) else f"{solved:.10g}"


def _table(costs: Costs, cells: list[str], title: str, footnotes: tuple[str, ...] = ()) -> Table:
    """Return a row for each change, a column for each accountant."""
    by = {(row.change, row.accountant): cell for row, cell in zip(costs.rows, cells, strict=True)}
    stated = {row.change: row.stated for row in costs.rows}
    rows = tuple(
        (f"{change}{' (this file)' if own else ''}", *(by[change, name] for name in NAMES)) for change, own in stated.items()
    )
    return Table(title, ("what one change does", *NAMES), rows, frozenset({1, 2}), footnotes)


def _notes() -> tuple[str, ...]:
    return f"replace-shard: {REPLACED}", f"remove-shard: {REMOVED}"


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


def _claimed(plan: PmixedPlan) -> Document:
    """Return what the published protocol claims, and why that is no guarantee."""
    published, shards = plan.published, plan.spec.shards
    assert published is not None
    drawn = sorted({count for count in (1, 2, 4, 8, shards) if count <= shards})
    rows = tuple((f"{count}", f"{published.radius(count):.7g}") for count in drawn)
    title = f"radius at order {published.order}, by how many models were drawn"
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
        (NOT_DP, 'two models can tell 129 times as much in one token as the claim says; mode = "sound" bounds every order'),
        exit_code=3,
        why=NOT_DP,
        sheet=Sheet(("models", "radius"), tuple((count, published.radius(count)) for count in drawn)),
    )
