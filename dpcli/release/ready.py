"""Whether all that a release needs is here, before it is charged: a mistake in the file shall cost nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from dpcli.release.expressed import require_expressions

if TYPE_CHECKING:
    from dpcli.release.engines.files import Files
    from dpcli.release.plan import ReleasePlan


def require_ready(plan: ReleasePlan) -> None:
    """Raise InputError where an expression is refused, the source cannot be opened, or the first line of a csv lacks a declared column;
    Unavailable where a package is missing. No row is read.
    """
    from dpcli.release.engines.open import require_source
    from dpcli.release.noise.sampler import contributed

    contributed()
    require_expressions(plan.source, plan.asked, plan.path)
    require_source(plan.source, plan.path)
    _require_columns(plan)


def _require_columns(plan: ReleasePlan) -> None:
    """Those of other kinds of files are found where an engine reads them."""
    from dpcli.release.engines.files import files_of, header_of
    from dpcli.release.plan import here

    if plan.source.path is None:
        return
    headers: Mapping[str, Callable[[Files, frozenset[str]], object]] = {"csv": header_of}
    files = files_of(plan.source.path, here(plan.path))
    if files.kind in headers:
        headers[files.kind](files, frozenset(name for name, column in plan.source.columns.items() if column.expression is None))
