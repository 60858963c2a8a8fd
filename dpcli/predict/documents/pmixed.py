"""An ensemble of language models as a document: its fit, its answers, what they cost, and how they compare."""

from __future__ import annotations

import math

from dpcli.analysis.documents.account import headline
from dpcli.analysis.rho import OVER
from dpcli.base.rounding import up
from dpcli.document.document import Document, Sheet, Table, Value, visible
from dpcli.predict.pmixed.answer import Answered
from dpcli.predict.pmixed.costs import ChangeCost, Costs
from dpcli.predict.pmixed.fit import FitOutcome
from dpcli.predict.pmixed.plan import PmixedPlan
from dpcli.predict.pmixed.settings import NO_GUARANTEE
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
    """What all tokens of a plan cost together, in words."""
    if plan.account is not None:
        return f"{plan.tokens:,} tokens in all: {headline(plan.account)}"
    assert plan.published is not None
    claim = f"claimed epsilon {plan.published.epsilon:g} at delta = {plan.published.delta!r} for {plan.tokens:,} tokens"
    return f"{claim}: {NOT_DP}"


def fitted(outcome: FitOutcome) -> Document:
    """What `dpcli pmixed fit` did."""
    plan, count = outcome.plan, len(outcome.fit.models)
    resumed = (f"{outcome.resumed} models were there from before",) if outcome.resumed else ()
    paid = ("a ledger is charged with all tokens",) if outcome.fit.charged else (COUNTED_HERE,)
    details = (guarantee(plan), *window_note(plan), *paid, *resumed, PRIVATE)
    data = {
        "schema": "dpcli/pmixed-fit/v1",
        **rows_data(plan),
        "models": count,
        "folder": outcome.folder,
        "run": outcome.fit.run,
        "mode": plan.settings.mode,
        "tokens": plan.tokens,
        "charged": outcome.fit.charged,
        "result": result(plan),
        "exit_code": 0,
    }
    said = f"{count} models are fine-tuned, one on each shard, in {shown(outcome.folder)}"
    return Document(said, data, "pass" if plan.account else "warn", notes=details, details=details)


def result(plan: PmixedPlan) -> dict[str, float | str | None] | None:
    """What all tokens cost; None where nothing is guaranteed."""
    return None if plan.account is None else {"epsilon_upper": plan.account.upper, "delta": plan.account.delta}


def spent(found: Answered) -> str:
    """How many tokens an answer has, and how many are left of all."""
    what = "(an empty text)" if not found.tokens else "1 token" if found.tokens == 1 else f"{found.tokens:,} tokens"
    return f"{what}; {found.taken:,} of {found.total:,} are spent, {found.total - found.taken:,} are left"


def answer(plan: PmixedPlan, found: Answered) -> Document:
    """What `dpcli pmixed predict` drew: the text itself is the headline, so that standard output is the text."""
    notes = (spent(found), f"ended by {found.why}", guarantee(plan))
    data = {
        "schema": "dpcli/pmixed-predict/v1",
        "prompt": found.prompt,
        "text": found.text,
        "tokens": found.tokens,
        "ended_by": found.why,
        "taken": found.taken,
        "total": found.total,
        "mode": plan.settings.mode,
        "result": result(plan),
        "exit_code": 1 if found.refused else 0,
    }
    sheet = Sheet(
        ("prompt", "text", "tokens", "taken", "total"), ((found.prompt, found.text, found.tokens, found.taken, found.total),)
    )
    return Document(
        "\n".join(map(visible, found.text.split("\n"))),
        data,
        notes=notes,
        exit_code=1 if found.refused else 0,
        why=found.refused or "",
        sheet=sheet,
        records=(data,),
    )


def accounted(found: Costs) -> Document:
    """What `dpcli pmixed account` says."""
    if found.plan.account is None:
        return _claimed(found.plan)
    return _priced(found) if found.solve is None else _solved(found)


def _priced(found: Costs) -> Document:
    best, plan = found.best, found.plan
    cells = [up(row.epsilon) if row.epsilon < math.inf else "-" for row in found.rows]
    refused = ("-: this accountant certifies no epsilon here",) if "-" in cells else ()
    said = (
        f"epsilon <= {up(best.epsilon)} at delta = {found.delta!r} for {plan.tokens:,} tokens of {plan.spec.shards} shards, rate "
        f"{plan.spec.model_rate:g}, radius {plan.spec.radius:.7g} ({best.change}; {NAMES[best.accountant]})"
    )
    verdict = plan.account.budget if plan.account is not None else None
    budget, rho = (None, None) if verdict is None else (verdict.epsilon, verdict.rho)
    over = budget is not None and budget.delta == found.delta and best.epsilon > budget.cap
    why = f"over the budget of epsilon {budget.cap:g}" if budget is not None and over else ""
    if rho is not None and rho.verdict in OVER:
        over, why = True, f"over the budget: {rho.words()}"
    data = {**_data(found), "exit_code": int(over)}
    table = _table(found, cells, f"epsilon at delta = {found.delta!r} (rounded up)", refused)
    return Document(
        said,
        data,
        "fail" if over else "pass",
        (table,),
        _notes(),
        exit_code=int(over),
        total=repr(best.epsilon),
        sheet=_sheet(found),
        why=why,
    )


def _solved(found: Costs) -> Document:
    best = found.best
    assert best.solved is not None
    cells = ["-" if row.solved is None else _value(row.solved.value) for row in found.rows]
    said = (
        f"{found.solve} = {_value(best.solved.value)}: epsilon <= {up(best.epsilon)} at delta = {found.delta!r} (target {found.target!r}; "
        f"{best.change}; {NAMES[best.accountant]})"
    )
    refused = (f"-: this accountant certifies no {found.solve} that meets the target",) if "-" in cells else ()
    table = _table(found, cells, f"largest {found.solve} with epsilon <= {found.target!r} at delta = {found.delta!r}", refused)
    data = {**_data(found), "exit_code": 0}
    return Document(
        said, data, "pass", (table,), (*_notes(), LEDGER.format(found.solve)), total=repr(best.solved.value), sheet=_sheet(found)
    )


def _value(solved: float) -> str:
    """A whole number with all of its digits: rounded to ten it may be one that no longer meets the target."""
    return f"{int(solved)}" if solved == int(solved) else f"{solved:.10g}"


def _table(found: Costs, cells: list[str], title: str, footnotes: tuple[str, ...] = ()) -> Table:
    """A row for each change, a column for each accountant."""
    by = {(row.change, row.accountant): cell for row, cell in zip(found.rows, cells, strict=True)}
    stated = {row.change: row.stated for row in found.rows}
    rows = tuple(
        (f"{change}{' (this file)' if own else ''}", *(by[change, name] for name in NAMES)) for change, own in stated.items()
    )
    return Table(title, ("what one change does", *NAMES), rows, frozenset({1, 2}), footnotes)


def _notes() -> tuple[str, ...]:
    return f"replace-shard: {REPLACED}", f"remove-shard: {REMOVED}"


def _data(found: Costs) -> dict[str, object]:
    spec = found.plan.spec
    return {
        "schema": "dpcli/pmixed-account/v1",
        "shards": spec.shards,
        "rate": spec.model_rate,
        "radius": spec.radius,
        "steps": found.plan.tokens,
        "delta": found.delta,
        "solve": found.solve,
        "target_epsilon": found.target,
        "rows": [_row(row) for row in found.rows],
        "best": _row(found.best),
    }


def _row(row: ChangeCost) -> dict[str, object]:
    value = None if row.solved is None else row.solved.value
    return {"change": row.change, "accountant": row.accountant, "stated": row.stated, "epsilon_upper": row.epsilon, "value": value}


def _sheet(found: Costs) -> Sheet:
    rows: list[tuple[Value, ...]] = [
        (row.change, row.accountant, row.stated, row.epsilon, None if row.solved is None else row.solved.value)
        for row in found.rows
    ]
    return Sheet(("change", "accountant", "stated", "epsilon_upper", found.solve or "value"), tuple(rows))


def _claimed(plan: PmixedPlan) -> Document:
    """What the published protocol claims, and why that is no guarantee."""
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
