"""The promise of an adaptive file: its cap, which one filter holds whatever is chosen, not its list so far."""

from __future__ import annotations

import math
from dataclasses import replace

from dpcli.accountants.base import rho_of
from dpcli.analysis.account_rows import AccountRow, Quantity, accountant_named, row_of
from dpcli.base.errors import InputError, NotRepresentable
from dpcli.file.pipeline.model import Budget, Pipeline
from dpcli.file.pipeline.resolve import BillLine, repeated, resolve
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.stated.pure_and_approx import Pure
from dpcli.mechanisms.stated.renyi import Zcdp
from dpcli.numerics.closed.conversion import zcdp_epsilon
from dpcli.numerics.roots import bracket_root

MOST = 1e9  # rho
UNCAPPED = "privacy.adaptive is true, and what then holds is a cap fixed before the first output: state one in [budget]"


def binding_charges(pipeline: Pipeline, group_size: int = 1, runs: int = 1) -> tuple[BillLine, ...]:
    """Return what a pipeline costs at most: its mechanisms, or of an adaptive one its cap, which is fixed before the first output.

    Raises InputError where an adaptive one has no cap, and as `resolve`.
    """
    listed = resolve(pipeline, group_size)
    if not pipeline.privacy.adaptive:
        return repeated(listed, runs)
    cap = _cap(pipeline, listed, group_size)
    return repeated((BillLine("the cap of [budget], whatever is chosen", cap, 1, pipeline.mechanisms),), runs)


def promised(
    pipeline: Pipeline, listed: AccountRow | None, quantity: Quantity, at: float, group_size: int, runs: int
) -> AccountRow | None:
    """Return the row of an adaptive pipeline's cap, by the filter that adds up what is `listed`; None without one, or without a cap."""
    try:
        charges = binding_charges(pipeline, group_size, runs)
    except InputError:
        return None
    if listed is None:
        return None
    accountant = accountant_named("basic" if isinstance(charges[0].mechanism, Pure) else "zcdp")
    steps = tuple((charge.mechanism, charge.count) for charge in charges)
    row = row_of(accountant, accountant.profile(steps), quantity, at)
    cap = pipeline.budget or Budget()
    own = group_size == runs == 1 and quantity == "epsilon" and at == _delta(pipeline)
    if row.bound is None:
        return None
    if not own or cap.epsilon is None:
        return row
    exact = max(cap.epsilon, listed.upper)  # what meets the cap at this delta, however its rho was rounded
    return replace(row, bound=replace(row.bound, upper=min(row.bound.upper, exact)))


def _delta(pipeline: Pipeline) -> float | None:
    stated = None if pipeline.budget is None else pipeline.budget.delta
    return pipeline.privacy.delta if stated is None else stated


def _cap(pipeline: Pipeline, listed: tuple[BillLine, ...], group_size: int) -> Mechanism:
    """A cap as the mechanism that it allows; what is listed, where that is more and the cap is broken."""
    cap, delta = pipeline.budget or Budget(), _delta(pipeline)
    steps = tuple((charge.mechanism, charge.count) for charge in listed)
    if cap.rho is None and (cap.epsilon is None or delta is None):
        raise InputError(
            f"{pipeline.path or '<pipeline>'}: budget: {'a cap' if cap.epsilon is None else 'the delta of the cap'} is missing: "
            + UNCAPPED
        )
    if cap.epsilon is not None and delta == 0.0 and cap.rho is None:
        basic = accountant_named("basic")
        spent = row_of(basic, basic.profile(steps), "epsilon", 0.0)
        return Pure(max(cap.epsilon * group_size, spent.upper))
    rho = math.inf if cap.rho is None else cap.rho
    if cap.epsilon is not None and delta:
        rho = min(rho, _rho(cap.epsilon, delta))
    try:
        spent_rho = rho_of(steps)
    except NotRepresentable:
        spent_rho = math.inf
    return Zcdp(max(rho * group_size * group_size, spent_rho))


def _rho(epsilon: float, delta: float) -> float:
    """The largest rho of which some epsilon at `delta` is within the cap, rounded up."""
    if zcdp_epsilon(MOST, delta) <= epsilon:
        return math.inf
    return bracket_root(lambda rho: epsilon - zcdp_epsilon(rho, delta), 0.0, MOST)[1]
