"""The set of runs for which a ledger in declared mode is opened. Their epsilon is certified together, and each run is charged by number.

A ledger in adaptive mode adds up its runs by a privacy filter (filter.py), because a run may be chosen from earlier outputs. A declared set
is fixed before the first run, so that no run depends on an output. Any sound accountant may therefore compose the set, usually to a smaller
epsilon. The operator may freely choose which runs are made and in which order. The outputs of some runs are a function of the outputs of
all runs, and such post-processing reveals nothing more.

In such a ledger an amount is a number of runs, in a text like all amounts: the cap of "run 1" is how often the first declared run may be
made. opening.py composes the set when the ledger is opened, verify.py composes it again, and terms.py asks for the cost of a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import CannotCertify, InputError
from dpcli.file.pipeline.canonical import tables_of
from dpcli.ledger.chain import canonical
from dpcli.ledger.filters.filter import Composition, Cost, steps_of

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline

DeclaredRuns = Sequence[Mapping[str, Any]]  # the runs as in the opening entry, each {"pipeline": tables, "runs": number of runs}
# The largest number of runs of one pipeline. It is arbitrary, and a part of the SQL definitions that guard a ledger in a database.
MOST_RUNS = 10**6


def compose(runs: Sequence[tuple[Pipeline, int]], delta: float) -> Composition:
    """Return the smallest sound bound on the epsilon of all runs together at `delta`. All runs must be fixed in advance.

    `runs` has each pipeline with the number of its runs. Raises CannotCertify if no accountant finds a finite bound.
    """
    from dpcli.analysis.inquiry import tightest

    steps = [(mechanism, times * count) for pipeline, count in runs for mechanism, times in steps_of(pipeline)]
    row = tightest(tuple(steps), delta)  # the accountant with the smallest epsilon
    if row is None:
        raise CannotCertify(f"no finite epsilon can be certified for the declared runs at delta = {delta!r}")
    return Composition(row.upper, row.accountant.name)


def numbered_runs(declared: DeclaredRuns) -> list[tuple[str, Mapping[str, Any]]]:
    """Return each declared run with the name of its amount ("run 1", "run 2", ...), in the order of the declaration.

    The order in an entry is different, because names are sorted as texts there: "run 10" comes before "run 2".
    """
    return [(f"run {number}", item) for number, item in enumerate(declared, 1)]


def declared_caps(declared: DeclaredRuns) -> dict[str, str]:
    """Return the caps of a declared set, which state how often each run may be made, by the name of its amount."""
    return {name: str(item["runs"]) for name, item in numbered_runs(declared)}


def declared_cost(declared: DeclaredRuns, pipeline: Pipeline) -> Cost:
    """Return the cost of a declared run, which is 1 of its own amount. Raises InputError if the pipeline was not declared."""
    text = canonical(tables_of(pipeline))  # the tables [privacy] and [[mechanism]], which determine the cost
    for name, item in numbered_runs(declared):
        if canonical(item["pipeline"]) == text:
            return Cost({name: "1"}, f"{name} of the declared set")
    raise InputError(
        f"{pipeline.path or '<pipeline>'}: is not one of the {len(declared)} runs that were declared at the opening; a run that "
        "was not fixed in advance needs a ledger in adaptive mode"
    )
