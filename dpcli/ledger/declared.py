"""Declared mode: a set of runs fixed before the first one, composed by any sound accountant.

Nothing about the runs depends on an output. Which of them are made, and in which order, may be chosen freely: whoever sees some of the
outputs could have computed that view from all of them (post-processing).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import CannotCertify, InputError
from dpcli.file.pipeline.document import tables_of
from dpcli.ledger.chain import canonical
from dpcli.ledger.filters.filter import Cost

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline


Declared = Sequence[Mapping[str, Any]]  # the runs, as tables and how often


def composed(runs: Sequence[tuple[Pipeline, int]], delta: float) -> tuple[float, str]:
    """(epsilon, accountant) of a set of runs whose parameters were all fixed in advance, by the tightest sound accountant."""
    from dpcli.analysis.asking import tightest
    from dpcli.ledger.filters.filter import steps_of

    steps = [(m, n * count) for pipeline, count in runs for m, n in steps_of(pipeline)]
    row = tightest(tuple(steps), delta)
    if row is None:
        raise CannotCertify(f"no finite epsilon can be certified for the declared runs at delta = {delta!r}")
    return row.upper, row.accountant.name


def declared_caps(declared: Declared) -> dict[str, str]:
    """How often each declared run may be made."""
    return {name: str(item["runs"]) for name, item in numbered(declared)}


def numbered(declared: Declared) -> list[tuple[str, Mapping[str, Any]]]:
    """The declared runs by the names of their amounts, in their order: an entry's names are sorted, and "run 10" comes before "run 2"."""
    return [(_name(i), item) for i, item in enumerate(declared)]


def declared_cost(declared: Declared, pipeline: Pipeline) -> Cost:
    """One of the runs that were declared. Raises InputError for any other."""
    text = canonical(tables_of(pipeline))
    found = [i for i, item in enumerate(declared) if canonical(item["pipeline"]) == text]
    if not found:
        raise InputError(
            f"{pipeline.path or '<pipeline>'}: expected one of the {len(declared)} runs that were declared at the opening, "
            "found another; what was not fixed in advance needs a ledger in adaptive mode"
        )
    return Cost({_name(found[0]): "1"}, f"{_name(found[0])} of the declared set")


def _name(index: int) -> str:
    return f"run {index + 1}"
