"""The set of runs that a ledger in declared mode was opened for: certified together before the first, and charged by number.

A declared set is fixed before the first run, so any sound accountant may compose it: nothing about the runs depends on an output. Which of
them are made, and in which order, may be chosen freely: whoever sees some of the outputs could have computed that view from all of them
(post-processing).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from dpcli.base.errors import CannotCertify, InputError
from dpcli.file.pipeline.canonical import tables_of
from dpcli.ledger.chain import canonical
from dpcli.ledger.filters.filter import Cost, steps_of

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline

DeclaredRuns = Sequence[Mapping[str, Any]]  # as the opening entry has them: {"pipeline": tables, "runs": how often}
MOST_RUNS = 10**6  # of one pipeline


class Composition(NamedTuple):
    """The epsilon of several runs together, and the name of the accountant that bounds it."""

    epsilon: float
    accountant: str


def compose(runs: Sequence[tuple[Pipeline, int]], delta: float) -> Composition:
    """Return the smallest sound bound at `delta` on (pipeline, count) runs whose parameters were all fixed in advance."""
    from dpcli.analysis.inquiry import tightest

    steps = [(mechanism, steps * count) for pipeline, count in runs for mechanism, steps in steps_of(pipeline)]
    row = tightest(tuple(steps), delta)
    if row is None:
        raise CannotCertify(f"no finite epsilon can be certified for the declared runs at delta = {delta!r}")
    return Composition(row.upper, row.accountant.name)


def numbered_runs(declared: DeclaredRuns) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the declared runs by the names of their amounts, in order: an entry's names are sorted, "run 10" before "run 2"."""
    return [(f"run {number}", item) for number, item in enumerate(declared, 1)]


def declared_caps(declared: DeclaredRuns) -> dict[str, str]:
    """Return how often each declared run may be made."""
    return {name: str(item["runs"]) for name, item in numbered_runs(declared)}


def declared_cost(declared: DeclaredRuns, pipeline: Pipeline) -> Cost:
    """Return the cost of one of the declared runs: one of its number. Raises InputError for a pipeline that was not declared."""
    text = canonical(tables_of(pipeline))
    for name, item in numbered_runs(declared):
        if canonical(item["pipeline"]) == text:
            return Cost({name: "1"}, f"{name} of the declared set")
    raise InputError(
        f"{pipeline.path or '<pipeline>'}: is not one of the {len(declared)} runs that were declared at the opening; what was not "
        "fixed in advance needs a ledger in adaptive mode"
    )
