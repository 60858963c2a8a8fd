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
    from dpcli.release.engines.open import require_source
    from dpcli.release.noise.sampler import contributed

    contributed()
    require_expressions(plan.source, plan.asked, plan.path)
    require_source(plan.source, plan.path, [one.query.aggregation(one.setting) for one in plan.asked])
