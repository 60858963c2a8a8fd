"""Laws that every privacy filter must obey. A law is a function that yields its violations.

A *filter* (dpcli/ledger/filters) decides whether a ledger grants one more run, even if the run was chosen from earlier outputs. It prices a
run in the *amounts* of its currency, such as rho, adds them up, and refuses a run by which an amount would exceed its cap. Some laws
compare this with a certified lower bound on the epsilon of the same runs fixed in advance: no filter may report less. examine.py asks
`violations` for the violations of each filter, also of filters with planted bugs (filter_plants.py).
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from random import Random

from dpcli.analysis.account import account
from dpcli.base.errors import CannotCertify, InputError, NotRepresentable
from dpcli.base.lazy import load
from dpcli.base.registry import MECHANISMS
from dpcli.exam.subjects import drawn, entry, pipeline
from dpcli.file.pipeline.model import Pipeline
from dpcli.ledger import amounts
from dpcli.ledger.amounts import Amounts
from dpcli.ledger.filters.filter import Filter
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.mechanisms.sampling.schemes import Unsampled

OPENINGS = ((2.0, 1e-6), (0.3, 1e-4))  # (epsilon, delta) of each ledger that is opened; arbitrary
# Deltas at which a run is priced: zero, a small delta, and two above the delta of any ledger. Some laws use only the first ones.
PRICED_AT = (0.0, 1e-7, 0.03, 0.3)
MOST_CHARGES = 10**5  # largest number of successive charges of one run, so that a run that costs nothing ends
ROUNDING = 1e-9  # relative error allowed in a comparison of two epsilons
CERTIFYING = ("exact", "pld", "basic")  # accountants that certify lower bounds
SMALL_DELTA = 1e-9  # a delta below every delta of PRICED_AT but 0
STEP_GROWTH = 256  # factor by which a law raises the number of steps; the cost then grows by far more than rounding
LARGE_EPSILON = 300.0  # an epsilon above the epsilon of any ledger
DRAWN_TYPES = 3  # number of mechanism types from which random runs are drawn; more take longer


@dataclass(frozen=True, slots=True)
class ExaminedLedger:
    """A privacy filter with the cap (epsilon, delta) of its ledger."""

    the_filter: Filter
    epsilon: float
    delta: float

    def cost(self, run: Pipeline, delta: float) -> Amounts | None:
        """Return the run's cost, priced at `delta`; None if the filter cannot price the run, and therefore refuses it."""
        try:
            return amounts.read(self.the_filter.cost(run, delta).amounts)
        except (CannotCertify, NotRepresentable, InputError):
            return None

    @property
    def caps(self) -> Amounts:
        return amounts.read(self.the_filter.caps(self.epsilon, self.delta))

    def epsilon_of(self, spent: Amounts) -> float:
        """Return the epsilon that the filter reports for the amounts charged."""
        return self.the_filter.epsilon(spent, self.delta)

    def granted(self, cost: Amounts) -> int:
        """Return the number of successive runs of this cost that the filter grants, at most MOST_CHARGES."""
        caps = self.caps

        def is_refused(count: int) -> bool:
            return amounts.exceeded(times(cost, count), caps) is not None

        return bisect.bisect_left(range(1, MOST_CHARGES + 1), True, key=is_refused)


def times(cost: Amounts, count: int) -> dict[str, Decimal]:
    """Return the cost of `count` runs, exactly."""
    return {name: amounts.EXACT.multiply(value, Decimal(count)) for name, value in cost.items()}


@functools.cache
def certified_lower(run: Pipeline, count: int, delta: float) -> float:
    """Return a certified lower bound on epsilon of `count` runs that are fixed in advance; 0 if there is none.

    No filter may report a smaller epsilon. Runs whose mechanisms have a positive delta may have no finite epsilon at `delta`. If they need
    a larger delta even at epsilon = LARGE_EPSILON, the bound is LARGE_EPSILON.
    """
    epsilon_bound = account(run, CERTIFYING, delta=delta, runs=count).lower
    if epsilon_bound is None:
        delta_bound = account(run, CERTIFYING, epsilon=LARGE_EPSILON, runs=count).lower
        return LARGE_EPSILON if delta_bound is not None and delta_bound > delta * (1.0 + ROUNDING) else 0.0
    return epsilon_bound


def runs() -> tuple[Pipeline, ...]:
    """Return a run for each kind of charge that a ledger may receive. Some have several entries, and some have several steps."""
    return (
        pipeline(entry("gaussian", steps=8, noise_multiplier=20.0), delta=None),
        pipeline(entry("gaussian", steps=300, rate=0.01, noise_multiplier=2.0), delta=None),
        pipeline(entry("laplace", steps=5, noise_multiplier=40.0), entry("gaussian", steps=3, noise_multiplier=10.0), delta=None),
        pipeline(entry("laplace", steps=5, noise_multiplier=40.0), delta=None),
        pipeline(entry("pure-dp", steps=4, epsilon=0.01), entry("pure-dp", steps=2, epsilon=0.02), delta=None),
        pipeline(entry("approx-dp", steps=3, epsilon=0.01, delta=1e-8), delta=None),
        pipeline(entry("approx-dp", epsilon=0.01, delta=0.02), delta=None),
    )


def drawn_runs(seed: str) -> Iterator[Pipeline]:
    """Yield random runs without sampling, of some of the registered mechanism types."""
    for kind in Random(seed).sample(list(MECHANISMS), DRAWN_TYPES):
        for subject in drawn(kind, seed):
            run = subject.pipeline
            is_unsampled = all(isinstance(entry.sampling, Unsampled | None) for entry in run.mechanisms)
            if is_unsampled and run.privacy.adjacency is Adjacency.ADD_REMOVE:
                yield run


def never_cheaper(ledger: ExaminedLedger, run: Pipeline) -> Iterator[str]:
    """Granted runs stay within the cap, and their reported epsilon is no less than their certified epsilon."""
    for delta in PRICED_AT:
        cost = ledger.cost(run, delta)
        count = 0 if cost is None else ledger.granted(cost)
        if cost is None or count == 0:
            continue
        bound = certified_lower(run, count=count, delta=ledger.delta)
        reported = ledger.epsilon_of(times(cost, count))
        if bound > ledger.epsilon * (1.0 + ROUNDING):
            yield f"{count} runs priced at {delta} are granted, and have epsilon >= {bound}, above the cap {ledger.epsilon}"
        if bound > reported * (1.0 + ROUNDING):
            yield f"{count} runs priced at {delta} are reported as {reported}, and have epsilon >= {bound}"


def counts(ledger: ExaminedLedger, run: Pipeline) -> Iterator[str]:
    """Many more steps of any entry never cost less, and cost more if the run costs anything."""
    for i, mechanism in enumerate(run.mechanisms):
        longer = replace(mechanism, steps=STEP_GROWTH * mechanism.steps)
        more = replace(run, mechanisms=(*run.mechanisms[:i], longer, *run.mechanisms[i + 1 :]))
        for delta in PRICED_AT[:2]:
            cost, cost_of_more = ledger.cost(run, delta), ledger.cost(more, delta)
            if cost is None or cost_of_more is None:
                continue
            is_cheaper = any(cost_of_more[name] < cost[name] for name in cost)
            # A run without a certified epsilon may cost nothing, also after more steps.
            costs_no_more = cost == cost_of_more and certified_lower(run, count=1, delta=SMALL_DELTA) > 0.0
            if is_cheaper or costs_no_more:
                yield f"{STEP_GROWTH} times the steps of {mechanism.name}, priced at {delta}: {cost_of_more} after {cost}"


def no_free_delta(ledger: ExaminedLedger, run: Pipeline) -> Iterator[str]:
    """A larger delta of a run never makes an amount smaller without making another amount larger."""
    cost_at = {delta: ledger.cost(run, delta) for delta in PRICED_AT}
    priced = [(delta, cost) for delta, cost in cost_at.items() if cost is not None]
    for (low, low_cost), (high, high_cost) in itertools.pairwise(priced):
        some_smaller = any(high_cost[name] < low_cost[name] for name in low_cost)
        some_larger = any(high_cost[name] > low_cost[name] for name in low_cost)
        if some_smaller and not some_larger:
            yield f"priced at {high} instead of {low}: {high_cost} after {low_cost}"


def a_currency(ledger: ExaminedLedger, run: Pipeline) -> Iterator[str]:
    """Amounts and caps have the same names, and pricing a run twice gives the same cost."""
    for delta in PRICED_AT:
        cost = ledger.cost(run, delta)
        if cost is not None and not set(cost) == set(ledger.caps) == set(ledger.the_filter.currency):
            yield f"amounts {set(cost)}, caps {set(ledger.caps)}"
        if cost != ledger.cost(run, delta):
            yield f"priced at {delta}, it costs {cost}, and then {ledger.cost(run, delta)}"


def two_runs(ledger: ExaminedLedger, run: Pipeline) -> Iterator[str]:
    """Two different runs cost no less than the certified epsilon of both, in either order."""
    second_run = pipeline(entry("gaussian", steps=2, noise_multiplier=9.0), delta=None)
    if run.privacy.adjacency is not second_run.privacy.adjacency:
        return
    (second_entry,) = second_run.mechanisms
    joint_run = replace(run, mechanisms=(*run.mechanisms, replace(second_entry, name="another")))
    for delta in PRICED_AT[:3]:
        cost, second_cost = ledger.cost(run, delta), ledger.cost(second_run, delta)
        if cost is None or second_cost is None:
            continue
        spent = amounts.add(cost, second_cost)
        if spent != amounts.add(second_cost, cost):
            yield "the sum depends on the order of the charges"
        if amounts.exceeded(spent, ledger.caps) is None:
            bound, reported = certified_lower(joint_run, count=1, delta=ledger.delta), ledger.epsilon_of(spent)
            if bound > reported * (1.0 + ROUNDING):
                yield f"{run} and another run are reported as {reported}, not {bound} or more"


def spending(ledger: ExaminedLedger) -> Iterator[str]:
    """The reported epsilon begins at 0, never decreases from one charge to the next, and is at most the cap in the end.

    An amount above its cap is refused, however small the difference is.
    """
    eighths = [{name: cap * k / 8 for name, cap in ledger.caps.items()} for k in range(9)]
    epsilons = [ledger.epsilon_of(spent) for spent in eighths]
    if epsilons[0] != 0.0 or any(math.isnan(epsilon) for epsilon in epsilons) or epsilons != sorted(epsilons):
        yield f"reported epsilons from no charge to the cap: {epsilons}"
    if not epsilons[-1] <= ledger.epsilon * (1.0 + ROUNDING):
        yield f"amounts within the caps are reported as {epsilons[-1]}, above the cap {ledger.epsilon}"
    for name, cap in ledger.caps.items():
        just_above = amounts.EXACT.add(cap, Decimal("1e-300"))
        if amounts.exceeded({**ledger.caps, name: just_above}, ledger.caps) is None:
            yield f"an amount above the cap of {name} is granted"


def free(ledger: ExaminedLedger) -> Iterator[str]:
    """Runs that never touch private data cost nothing."""
    for kind, target in MECHANISMS.items():
        if load(target).free:
            cost = ledger.cost(pipeline(entry(kind, steps=3), delta=None), 0.0)
            if cost is None or any(cost.values()):
                yield f"{kind} costs {cost}"


def room(ledger: ExaminedLedger) -> Iterator[str]:
    """A pure run whose epsilon is the room that the filter reports costs no more than the remaining amount of its first currency."""
    name, cap = next((name, ledger.caps[name]) for name in ledger.the_filter.currency)
    for share in (Decimal("0.01"), Decimal("0.3"), Decimal(1)):
        remaining = cap * share
        # A float may exceed the decimal number that it represents by a relative 1.1e-16. The factor 1 - 1e-15 makes it smaller.
        epsilon = ledger.the_filter.pure_room(float(remaining) * (1.0 - 1e-15))
        cost = ledger.cost(pipeline(entry("pure-dp", epsilon=epsilon), delta=None), 0.0) if epsilon > 0.0 else None
        if cost is not None and cost[name] > remaining:
            yield f"room for a pure epsilon of {epsilon} in {remaining} of {name}, but it costs {cost[name]}"


LAWS_OF_RUNS = (never_cheaper, counts, no_free_delta, a_currency, two_runs)
LAWS_OF_LEDGERS = (spending, free, room)


def violations(ledger: ExaminedLedger, sample_runs: tuple[Pipeline, ...]) -> Iterator[str]:
    """Yield each violation of a law, by the ledger alone or by the ledger with one of the runs."""
    for law in LAWS_OF_LEDGERS:
        yield from (f"{law.__name__}: {fault}" for fault in law(ledger))
    for run in sample_runs:
        for law_of_runs in LAWS_OF_RUNS:
            yield from (f"{law_of_runs.__name__}: {fault}" for fault in law_of_runs(ledger, run))
