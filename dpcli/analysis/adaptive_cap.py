"""The guarantee of an adaptive file: the cap that a privacy filter enforces, whatever mechanisms the outputs choose.

In an adaptive file (`privacy.adaptive = true`), earlier outputs may decide which mechanism runs next, so the list in the file is only one
of the runs that could happen. What holds for all of them is the cap in [budget]: a privacy *filter*, such as a ledger has, lets no
mechanism run that would make the sum of the costs exceed the cap (Rogers et al. 2016, arXiv:1605.08294). `binding_charges` turns the cap
into one mechanism that costs as much (or as the list does, if that is more), which accountants bound like any other. A *charge* is a
mechanism with the number of its runs. account.py shows the cap as the headline (`row_of_cap`).
"""

from __future__ import annotations

import math
from dataclasses import replace

from dpcli.accountants.base import rho_of
from dpcli.analysis.account_rows import AccountRow, Quantity, accountant_named, row_of
from dpcli.base.errors import InputError, NotRepresentable
from dpcli.file.pipeline.model import Budget, Pipeline
from dpcli.file.pipeline.resolve import BillLine, charges_of_runs, resolve, steps_of
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.stated.pure_and_approx import Pure
from dpcli.mechanisms.stated.renyi import Zcdp
from dpcli.numerics.closed.conversion import zcdp_epsilon
from dpcli.numerics.roots import bracket_root

LARGEST_RHO = 1e9  # end of the search for the rho of a cap; a cap that allows more counts as no cap on rho (arbitrary, and sound)
# The reason why an adaptive file without a cap guarantees nothing.
UNCAPPED = "privacy.adaptive is true, so only a cap fixed before the first output is guaranteed: state one in [budget]"


def binding_charges(pipeline: Pipeline, group_size: int = 1, runs: int = 1) -> tuple[BillLine, ...]:
    """Return the charges that bound the cost of a pipeline.

    They are the mechanisms of the pipeline. For an adaptive pipeline they are its cap, which is fixed before the first output.

    Raises InputError if an adaptive pipeline has no cap, or the pipeline contradicts itself.
    """
    charges = resolve(pipeline, group_size)
    if not pipeline.privacy.adaptive:
        return charges_of_runs(charges, runs)
    cap = _mechanism_of_cap(pipeline, charges, group_size)
    return charges_of_runs((BillLine("the cap of [budget], whatever is chosen", cap, count=1, entries=pipeline.mechanisms),), runs)


def row_of_cap(
    pipeline: Pipeline, listed: AccountRow | None, quantity: Quantity, at: float, group_size: int, runs: int
) -> AccountRow | None:
    """Return the row of an adaptive pipeline's cap, with the filter that enforces it; None if there is no cap.

    listed: the row of the mechanisms in the file. If it is None, they have no bound, so the cap is no guarantee and the result is None.
    """
    if listed is None:
        return None
    try:
        charges = binding_charges(pipeline, group_size, runs)
    except InputError:
        return None
    accountant = accountant_named("basic" if isinstance(charges[0].mechanism, Pure) else "zcdp")
    row = row_of(accountant, accountant.profile(steps_of(charges)), quantity, at)
    if row.bound is None:
        return None
    cap = pipeline.budget or Budget()
    is_as_stated = group_size == runs == 1 and quantity == "epsilon" and at == pipeline.cap_delta
    if not is_as_stated or cap.epsilon is None:
        return row
    epsilon = max(cap.epsilon, listed.upper)  # the stated cap, instead of the epsilon of its rounded rho
    return replace(row, bound=replace(row.bound, upper=min(row.bound.upper, epsilon)))


def _mechanism_of_cap(pipeline: Pipeline, charges: tuple[BillLine, ...], group_size: int) -> Mechanism:
    """Return a mechanism that costs as much as the cap, or as much as the mechanisms in the file if they exceed the cap.

    The cap is for one unit. For a group, pure epsilons grow in proportion to its size, and rho with the square of it.

    Raises InputError if the file states no cap, or no delta for its cap.
    """
    cap, delta = pipeline.budget or Budget(), pipeline.cap_delta
    steps = steps_of(charges)
    if cap.rho is None and (cap.epsilon is None or delta is None):
        missing_key = "a cap" if cap.epsilon is None else "the delta of the cap"
        raise InputError(f"{pipeline.path or '<pipeline>'}: budget: {missing_key} is missing: {UNCAPPED}")
    if cap.rho is None and cap.epsilon is not None and delta == 0.0:
        basic = accountant_named("basic")
        spent_epsilon = row_of(basic, basic.profile(steps), "epsilon", 0.0).upper
        return Pure(max(cap.epsilon * group_size, spent_epsilon))
    rho = math.inf if cap.rho is None else cap.rho
    if cap.epsilon is not None and delta:
        rho = min(rho, _largest_rho(cap.epsilon, delta))
    try:
        spent_rho = rho_of(steps)
    except NotRepresentable:
        spent_rho = math.inf
    return Zcdp(max(rho * group_size * group_size, spent_rho))


def _largest_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho whose epsilon at `delta` is within the cap, rounded up; inf if it is larger than LARGEST_RHO."""
    if zcdp_epsilon(LARGEST_RHO, delta) <= epsilon:
        return math.inf
    _, rounded_up = bracket_root(lambda rho: epsilon - zcdp_epsilon(rho, delta), 0.0, LARGEST_RHO)
    return rounded_up
