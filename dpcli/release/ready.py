"""Whether all that a release needs is here, before it is charged: a mistake in the file shall cost nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcli.release.expressed import require_expressions

if TYPE_CHECKING:
    from dpcli.release.plan import ReleasePlan


def require_ready(plan: ReleasePlan) -> None:
    """Raise InputError where an expression is refused, the source cannot be opened, or lacks a column that is asked for; Unavailable where
    a package is missing. No row is read.
    """
    from dpcli.release.engines.answers import totals_of
    from dpcli.release.engines.open import require_source
    from dpcli.release.noise.sampler import contributed

    contributed()
    require_expressions(plan.source, plan.asked, plan.path)
    questions = [one.query.aggregation(one.setting) for one in plan.asked]
    require_source(plan.source, plan.path, questions, plan.window)
    for one, question in zip(plan.asked, questions, strict=True):  # an empty table is answered first
        one.query.answer(one.setting, totals_of((), question))
        one.query.expected_error(one.setting)  # which the statement tells after the charge
