"""The documents that `dpcli pmixed fit`, `predict` and `account` print.

PMixED fits one model on each *shard* of private texts. A token is drawn from some of them, each moved to within a *radius* of a public
model. The cost covers all tokens of the file together, whether they are drawn or not, and is rounded up. `account` shows it for two changes
of the data: a shard that is replaced, and a shard that is removed. The drawn text is the only value here that the private texts decide. The
claim of the *published protocol*, which is not a DP guarantee, must never appear without NO_GUARANTEE beside it. A *window* is the part of
the dataset that a fit reads.
"""

from __future__ import annotations

import math

from dpcli.analysis.documents import account as account_report
from dpcli.base.rounding import up
from dpcli.document.document import Document, Sheet, Table, Value, visible
from dpcli.predict.pmixed.ensemble_fit import FitOutcome
from dpcli.predict.pmixed.model_ensemble import EnsembleAnswer
from dpcli.predict.pmixed.pmixed_plan import NO_GUARANTEE, PmixedPlan
from dpcli.predict.pmixed.token_costs import ChangeCost, Costs
from dpcli.sessions.documents.dry_run import rows_data, shown, window_note

COUNTED_IN_FOLDER = (
    "tokens are counted in that folder, and a restored older copy of it cannot be detected: protect the folder like a ledger"
)
PRIVATE = "the fitted models are as private as the texts: only dpcli pmixed predict may release anything computed from them"
NOTES = (
    "replace-shard: a record or a unit is added, removed or changed, which replaces the model of one shard",
    "remove-shard: a whole shard is added or removed, as the unit of privacy is a shard",
)
LEDGER = 'a ledger with filter = "rdp" charges by Renyi divergences: use the {} of the column rdp with it'
ACCOUNTANT_NAMES = {"rdp": "by Renyi divergences", "pld": "by privacy-loss distributions"}


def guarantee(plan: PmixedPlan) -> str:
    """Return a sentence about the cost of all tokens of a plan together."""
    if plan.account is not None:
        return f"{plan.tokens:,} tokens in all: {account_report.headline_of_run(plan.account)}"
    assert plan.published is not None
    claim = f"claimed epsilon {plan.published.epsilon:g} at delta = {plan.published.delta!r} for {plan.tokens:,} tokens"
    return f"{claim}: {NO_GUARANTEE}"


def fit_document(outcome: FitOutcome) -> Document:
    """Return the document of `dpcli pmixed fit`: where the models are, and the cost of all tokens that they may draw."""
    plan, count = outcome.plan, len(outcome.fit.models)
    resumed = (f"{outcome.resumed} models had been fitted before",) if outcome.resumed else ()
    paid = ("a ledger was charged for all tokens",) if outcome.fit.session.charged else (COUNTED_IN_FOLDER,)
    details = (guarantee(plan), *window_note(plan), *paid, *resumed, PRIVATE)
    data = {
        "schema": "dpcli/pmixed-fit/v1",
        **rows_data(plan),
        "models": count,
        "folder": plan.folder,
        "run": outcome.fit.session.run,
        "mode": plan.pmixed.mode,
        "tokens": plan.tokens,
        "charged": outcome.fit.session.charged,
        "result": result_data(plan),
        "exit_code": 0,
    }
    text = f"{count} models are fine-tuned, one for each shard; they are in {shown(plan.folder)}"
    # notes: sentences below the tables; details: lines of the plain text format
    return Document(text, data, "pass" if plan.account else "warn", notes=details, details=details)


def result_data(plan: PmixedPlan) -> dict[str, float | str | None] | None:
    """Return the cost of all tokens; None if there is no guarantee."""
    return None if plan.account is None else {"epsilon_upper": plan.account.upper, "delta": plan.account.delta}


def tokens_left(answer: EnsembleAnswer) -> str:
    """Return a sentence about the number of tokens of an answer, of tokens spent, and of tokens left."""
    count, left = answer.tokens, answer.total - answer.taken
    if count == 0:
        length = "(an empty text)"
    else:
        length = "1 token" if count == 1 else f"{count:,} tokens"
    return f"{length}; {answer.taken:,} of {answer.total:,} are spent, {left:,} are left"


def predict_document(plan: PmixedPlan, answer: EnsembleAnswer) -> Document:
    """Return the document of `dpcli pmixed predict`. Its headline is the drawn text, so that standard output is that text."""
    notes = (tokens_left(answer), f"ended by {answer.ended_by}", guarantee(plan))
    exit_code = 1 if answer.refusal else 0
    data = {
        "schema": "dpcli/pmixed-predict/v1",
        "prompt": answer.prompt,
        "text": answer.text,
        "tokens": answer.tokens,
        "ended_by": answer.ended_by,
        "taken": answer.taken,
        "total": answer.total,
        "mode": plan.pmixed.mode,
        "result": result_data(plan),
        "exit_code": exit_code,
    }
    columns = ("prompt", "text", "tokens", "taken", "total")
    row = (answer.prompt, answer.text, answer.tokens, answer.taken, answer.total)
    headline = "\n".join(map(visible, answer.text.split("\n")))  # control characters of the text become escapes, its lines stay
    why = answer.refusal or ""
    return Document(headline, data, notes=notes, exit_code=exit_code, why=why, sheet=Sheet(columns, (row,)), records=(data,))


def account_document(costs: Costs) -> Document:
    """Return the document of `dpcli pmixed account`: costs, a solved parameter, or the claim of the published protocol."""
    if costs.plan.account is None:
        return _claim_document(costs.plan)
    return _priced_document(costs) if costs.solve is None else _solved_document(costs)


def _priced_document(costs: Costs) -> Document:
    """Return the document of costs for which nothing was solved: epsilon by change and accountant."""
    best, plan, spec = costs.best, costs.plan, costs.plan.spec
    cells = [up(row.epsilon) if row.epsilon < math.inf else "-" for row in costs.rows]
    headline = (
        f"epsilon <= {up(best.epsilon)} at delta = {costs.delta!r} for {plan.tokens:,} tokens of {spec.shards} shards, rate "
        f"{spec.model_rate:g}, radius {spec.radius:.7g} ({best.change}; {ACCOUNTANT_NAMES[best.accountant]})"
    )
    table = _costs_table(
        costs, cells, f"epsilon at delta = {costs.delta!r} (rounded up)", "-: this accountant certifies no epsilon here"
    )
    return _costs_document(costs, headline, table, NOTES, best.epsilon, _over_budget(costs))


def _over_budget(costs: Costs) -> str:
    """Return how the tokens exceed the budget of the file, at the delta of the budget or of the costs; "" if they do not."""
    budget = None if costs.plan.account is None else costs.plan.account.budget
    if budget is None:
        return ""
    if budget.over:
        return f"over the budget: {budget.words()}"
    cap = budget.epsilon
    if cap is not None and cap.delta == costs.delta and costs.best.epsilon > cap.cap:
        return f"over the budget: epsilon {up(costs.best.epsilon)} of {cap.cap!r} at delta = {cap.delta!r}"
    return ""


def _solved_document(costs: Costs) -> Document:
    """Return the document of a radius or a number of tokens that meets a target, by change and accountant."""
    best = costs.best
    assert best.solved is not None
    cells = ["-" if row.solved is None else _value_text(row.solved.value) for row in costs.rows]
    headline = (
        f"{costs.solve} = {_value_text(best.solved.value)}: epsilon <= {up(best.epsilon)} at delta = {costs.delta!r} "
        f"(target {costs.target!r}; {best.change}; {ACCOUNTANT_NAMES[best.accountant]})"
    )
    title = f"largest {costs.solve} with epsilon <= {costs.target!r} at delta = {costs.delta!r}"
    table = _costs_table(costs, cells, title, f"-: this accountant certifies no {costs.solve} that meets the target")
    return _costs_document(costs, headline, table, (*NOTES, LEDGER.format(costs.solve)), best.solved.value)


def _costs_document(costs: Costs, headline: str, table: Table, notes: tuple[str, ...], total: float, why: str = "") -> Document:
    """Return the document of costs.

    Args:
        total: The number that `-f total` prints.
        why: How the costs exceed the budget; "" if they do not.
    """
    exit_code = 1 if why else 0
    data = {**_costs_data(costs), "exit_code": exit_code}
    return Document(
        headline,
        data,
        verdict="fail" if why else "pass",
        tables=(table,),
        notes=notes,
        exit_code=exit_code,
        total=repr(total),
        sheet=_costs_sheet(costs),
        why=why,
    )


def _value_text(solved: float) -> str:
    """Return a solved value as text. A whole number keeps all its digits: a rounded one might no longer meet the target."""
    return f"{int(solved)}" if solved == int(solved) else f"{solved:.10g}"


def _costs_table(costs: Costs, cells: list[str], title: str, footnote: str) -> Table:
    """Return a table with a row for each change and a column for each accountant. `footnote` explains a cell without a number."""
    cell_of = {(row.change, row.accountant): cell for row, cell in zip(costs.rows, cells, strict=True)}
    is_stated = {row.change: row.stated for row in costs.rows}
    rows = []
    for change, stated in is_stated.items():
        label = f"{change} (this file)" if stated else change
        rows.append((label, *(cell_of[change, accountant] for accountant in ACCOUNTANT_NAMES)))
    footnotes = (footnote,) if "-" in cells else ()
    return Table(title, ("what one change does", *ACCOUNTANT_NAMES), tuple(rows), numeric=frozenset({1, 2}), footnotes=footnotes)


def _costs_data(costs: Costs) -> dict[str, object]:
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
        "rows": [_row_data(row) for row in costs.rows],
        "best": _row_data(costs.best),
    }


def _row_data(row: ChangeCost) -> dict[str, Value]:
    """Return a cost by keys, in the order of the columns of `_costs_sheet`. It is `stated` if the file states that change."""
    return {
        "change": row.change,
        "accountant": row.accountant,
        "stated": row.stated,
        "epsilon_upper": row.epsilon,
        "value": None if row.solved is None else row.solved.value,
    }


def _costs_sheet(costs: Costs) -> Sheet:
    columns = ("change", "accountant", "stated", "epsilon_upper", costs.solve or "value")
    return Sheet(columns, tuple(tuple(_row_data(row).values()) for row in costs.rows))


def _claim_document(plan: PmixedPlan) -> Document:
    """Return the document of the published protocol's claim, with the reason why the claim is not a guarantee."""
    published, shards = plan.published, plan.spec.shards
    assert published is not None
    drawn_counts = sorted({count for count in (1, 2, 4, 8, shards) if count <= shards})  # some numbers of models, for orientation
    radius_of = {count: published.radius(count) for count in drawn_counts}
    title = f"radius at order {published.order}, by number of models drawn"
    rows = tuple((f"{count}", f"{radius:.7g}") for count, radius in radius_of.items())
    columns = ("models", "radius")
    headline = (
        f"NOT A DP GUARANTEE: the published protocol claims epsilon {published.epsilon:g} at delta = {published.delta!r} for "
        f"{plan.tokens:,} tokens"
    )
    data = {
        "schema": "dpcli/pmixed-account/v1",
        "claimed_epsilon": published.epsilon,
        "delta": published.delta,
        "order": published.order,
        "steps": plan.tokens,
        "radius": {str(count): radius for count, radius in radius_of.items()},
        "result": None,
        "exit_code": 3,
    }
    notes = (NO_GUARANTEE, 'with two models, one token can cost 129 times the claim; mode = "sound" bounds every order')
    table = Table(title, columns, rows, numeric=frozenset({0, 1}))
    sheet = Sheet(columns, tuple(radius_of.items()))
    return Document(headline, data, verdict="unknown", tables=(table,), notes=notes, exit_code=3, why=NO_GUARANTEE, sheet=sheet)
