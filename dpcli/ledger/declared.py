"""Declared mode: a set of runs fixed before the first one, composed by any sound accountant.

Nothing about the runs depends on an output. Which of them are made, and in which order, may be chosen freely: whoever sees some of the
outputs could have computed that view from all of them (post-processing).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpcli.errors import CannotCertify, Denied, InputError
from dpcli.ledger.chain import canonical
from dpcli.ledger.filters import Cost
from dpcli.ledger.terms import Terms
from dpcli.pipeline.canonical import tables_of

if TYPE_CHECKING:
    from dpcli.pipeline.model import Pipeline

MOST = 10**6


def declared_terms(terms: Terms, pipelines: Sequence[tuple[Pipeline, int]]) -> Terms:
    """The terms with a set of (pipeline, runs), certified as a whole.

    Raises:
        InputError: a run is stated for another unit or adjacency, is adaptive itself, or is declared twice.
        Denied: the whole set exceeds the cap. CannotCertify: nobody can say what it costs.
    """
    declared: list[dict[str, Any]] = [
        {"pipeline": tables_of(pipeline), "runs": _runs(pipeline, runs)} for pipeline, runs in pipelines
    ]
    texts = [canonical(item["pipeline"]) for item in declared]
    if not declared or len(set(texts)) != len(texts):
        raise InputError(
            f"expected distinct runs to declare, found {'the same one twice: state how often' if declared else 'none'}"
        )
    for pipeline, _ in pipelines:
        terms.refuse_other(pipeline)
        if pipeline.privacy.adaptive:
            raise InputError(f"{pipeline.path}: privacy.adaptive: expected false in declared mode, found true: use --mode adaptive")
    epsilon, accountant = composed(pipelines, terms.delta)
    if epsilon > terms.epsilon:
        from dpcli.rounding import up

        raise Denied(
            f"the declared runs cost epsilon {up(epsilon)} by {accountant} at delta = {terms.delta!r}, above the cap {terms.epsilon!r}"
        )
    return replace(terms, mode="declared", declared=declared, certified={"epsilon": epsilon, "accountant": accountant})


def composed(runs: Sequence[tuple[Pipeline, int]], delta: float) -> tuple[float, str]:
    """(epsilon, accountant) of a set of runs whose parameters were all fixed in advance, by the tightest sound accountant."""
    from dpcli.accounting import tightest
    from dpcli.ledger.filters import steps_of

    steps = [(m, n * count) for pipeline, count in runs for m, n in steps_of(pipeline)]
    row = tightest(tuple(steps), delta)
    if row is None:
        raise CannotCertify(f"no finite epsilon can be certified for the declared runs at delta = {delta!r}")
    return row.upper, row.accountant.name


def declared_caps(terms: Terms) -> dict[str, str]:
    """How often each declared run may be made."""
    return {name: str(item["runs"]) for name, item in numbered(terms)}


def numbered(terms: Terms) -> list[tuple[str, Mapping[str, Any]]]:
    """The declared runs by the names of their amounts, in their order: an entry's names are sorted, and "run 10" comes before "run 2"."""
    return [(_name(i), item) for i, item in enumerate(terms.declared)]


def declared_cost(terms: Terms, pipeline: Pipeline) -> Cost:
    """One of the runs that were declared. Raises InputError for any other."""
    text = canonical(tables_of(pipeline))
    found = [i for i, item in enumerate(terms.declared) if canonical(item["pipeline"]) == text]
    if not found:
        raise InputError(
            f"{pipeline.path or '<pipeline>'}: expected one of the {len(terms.declared)} runs that were declared at the opening, "
            "found another; what was not fixed in advance needs a ledger in adaptive mode"
        )
    return Cost({_name(found[0]): "1"}, f"{_name(found[0])} of the declared set")


def _runs(pipeline: Pipeline, runs: int) -> int:
    if not 1 <= runs <= MOST:
        raise InputError(f"{pipeline.path}: expected a number of runs from 1 to {MOST}, found {runs!r}")
    return runs


def _name(index: int) -> str:
    return f"run {index + 1}"
