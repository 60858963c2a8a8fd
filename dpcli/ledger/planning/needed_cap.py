"""The cap that would suffice for charges that a ledger denies: those of a history, or of a correction.

For most denied runs the advice is to change the run (fit.py). A *history* is a list of runs that were made before the ledger was opened
(history.py), and a *correction* charges what is missing from the price of a run: both have happened, so only the cap or a quota can change.
The cap is in epsilon, while costs add up in the currency of the ledger's *filter*, the theorem that adds up runs: so the cap is searched by
bisection. The result is rounded up, and each candidate is checked, so that the charges fit it. `state.fullest().fits({})` says whether the
spending of the fullest block, without a further cost, is within the cap. Nothing is charged here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy

from dpcli.base.errors import InputError
from dpcli.ledger import amounts
from dpcli.ledger.amounts import cost_on_blocks
from dpcli.ledger.denial import cost_words
from dpcli.ledger.requests import Charge
from dpcli.ledger.state import LedgerState

# Limits of the search. They are arbitrary, and affect only the advice and the time.
LARGEST_CAP = 1e6  # largest epsilon that a message proposes as a cap
DOUBLINGS = 40  # largest number of doublings of the cap in the search for a cap that suffices
SEARCH_RATIO = 1.000001  # the search ends at this quotient of the two ends of its interval
DIGITS = 4  # significant digits of a proposed cap


def after_charges(state: LedgerState, requests: Sequence[Charge]) -> LedgerState:
    """Return a copy of the state in which the requests are charged, even if they exceed a cap or a quota."""
    # The charges by person may be unknown only in a ledger without quotas, to which they do not matter.
    after, people = copy(state), dict(state.people or {})
    for request in requests:
        total = cost_on_blocks(amounts.read(request.cost.amounts), request.window)
        after.spent = amounts.add(after.spent, total)
        people[request.who] = amounts.add(people.get(request.who, {}), total)
    after.people = people
    return after


def correction_denial(state: LedgerState, request: Charge, seq: int) -> str:
    """Return the message for a correction of the run in entry `seq` that does not fit. It states which cap would suffice."""
    beginning = f"denied, and nothing was written: entry {seq} lacks {cost_words(amounts.read(request.cost.amounts))}, "
    after = after_charges(state, [request])
    is_over_cap = after.open_terms().mode != "declared" and not after.fullest().fits({})
    epsilon = smallest_cap(after) if is_over_cap else None
    fitting = "" if epsilon is None else f" (a cap of epsilon {epsilon!r} suffices)"
    return (
        f"{beginning}and less is left: more was spent than the cap or a quota allows; change it with dpcli budget amend{fitting} or quota, "
        "and then correct the entry"
    )


def smallest_cap(after: LedgerState) -> float | None:
    """Return a cap on epsilon within which the spending fits, almost the smallest, rounded up to `DIGITS` digits.

    It is above the present cap. The result is None if no cap up to `LARGEST_CAP` was found.
    """

    def suffices(epsilon: float) -> bool:
        trial = copy(after)
        try:
            trial.caps = dict(amounts.read(after.open_terms().caps(epsilon)))
        except (InputError, ArithmeticError):
            return False
        return trial.fullest().fits({})

    doubled = (after.epsilon * 2.0**power for power in range(1, DOUBLINGS + 1))
    low, high = after.epsilon, next(filter(suffices, doubled), math.inf)
    if not high <= LARGEST_CAP:
        return None
    while high > low * SEARCH_RATIO:
        middle = 0.5 * (low + high)
        if suffices(middle):
            high = middle
        else:
            low = middle
    step = 10.0 ** (math.floor(math.log10(high)) - (DIGITS - 1))  # one unit of the last digit
    multiple = math.ceil(high / step)
    # The first candidate may be below `high` by rounding. Eight reach the next number of four digits even if `multiple` has five.
    candidates = (float(f"{(multiple + more) * step:.{DIGITS}g}") for more in range(8))
    return next(filter(suffices, candidates))
