"""The budget of a plan, run by run: what each leaves of the cap."""

from __future__ import annotations

from dpcli.document.chart import Axis, Chart, Line, Marker, Tone
from dpcli.ledger.documents.burn_down import steps
from dpcli.ledger.planning.rehearse import BudgetPlan
from dpcli.ledger.remaining import share_of


def chart(plan: BudgetPlan) -> Chart:
    """The share of the cap that is left now and after each run, as steps; the first that does not fit is marked."""
    state = plan.before.fullest()
    left = [100.0 * max(1.0 - used, 0.0) for used in (share_of(state, state.spent), *(run.used for run in plan.runs))]
    terms, last = state.open_terms(), float(len(plan.runs))
    refused = [
        Marker(f"{run.day}: does not fit", plan.in_order + 1.0, left[plan.in_order], Tone.LIMIT) for run in (plan.refused,) if run
    ]
    return Chart(
        kind="plan",
        title="what the plan leaves of the budget",
        subtitle=f"{state.dataset}, runs from {plan.runs[0].day} to {plan.runs[-1].day}: cap epsilon {state.epsilon!r} at delta = "
        f"{terms.delta!r}, per {terms.unit}, {terms.adjacency}",
        x=Axis("run of the plan", 0.0, last),
        y=Axis("left of the cap", 0.0, 100.0, unit="%"),
        lines=(
            Line("left", steps(left, first=0)),
            Line("empty", ((0.0, 0.0), (last, 0.0)), Tone.LIMIT, dashed=True),
        ),
        markers=tuple(refused),
    )
