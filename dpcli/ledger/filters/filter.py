"""Privacy filters, which bound the total loss of runs even if a later run is chosen from the outputs of earlier ones.

A filter has a currency, for example rho of zCDP. When a ledger is opened, the filter converts the cap (epsilon, delta) into caps in its
currency. It also converts a run into a cost in the currency, and a sum of costs back into an epsilon. The terms of a ledger
(dpcli/ledger/terms.py) ask it. This module has the interface and what the filters of currencies.py share. A ledger in *declared mode* has
no filter, because all of its runs are fixed at the opening (declared_set.py). In code a filter is called `rule`, because `filter` is a
function of Python.

A privacy-loss distribution may describe one run, because its parameters were fixed in advance. Distributions are not composed across runs
(arXiv:2602.06756, arXiv:2602.15815). The costs of runs that overlap in time add up like the costs of consecutive runs (Haney et al. 2023,
arXiv:2309.05901).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

from dpcli.base.errors import CannotCertify, InputError
from dpcli.base.lazy import load
from dpcli.base.premise import Premise, Premises
from dpcli.ledger.amounts import Amounts, add, read, sum_text
from dpcli.ledger.plugin import FILTERS

if TYPE_CHECKING:
    from dpcli.accountants.base import Steps
    from dpcli.file.pipeline.model import Pipeline


# The assumptions of every filter, in addition to those of its theorem. The ceiling is the largest cap that may be set after outputs were
# seen (terms.py).
PREMISES: Premises = (
    Premise(
        "Every release about the dataset is charged before anybody sees it.",
        "train, release, pate, pmixed, prompt and generate; otherwise the person who charges",
        "tests/premises/test_filters.py::test_what_is_not_charged_exceeds_the_cap",
    ),
    Premise(
        "The mechanisms for which a run is charged were fixed before it began.",
        "the ledger, which computes the cost of the file; that the run follows the file, the person who charges",
        "tests/premises/test_filters.py::test_a_run_that_grows_by_its_own_output_exceeds_the_cap",
    ),
    Premise(
        "Nobody who had seen an output raised the cap above the ceiling, or the ledger states that nothing is guaranteed.",
        "the ledger, and the statement of the approver who uses --no-output-seen",
        "tests/ledger/blocks/test_raised_caps.py::test_a_cap_that_is_raised_after_outputs_bounds_nothing",
    ),
)


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one run, or of several runs together.

    Attributes:
        amounts: The amounts in the currency of the filter, by name, as decimal texts that are rounded up.
        detail: How the amounts were computed, in words.
    """

    amounts: Mapping[str, str]
    detail: str


class Composition(NamedTuple):
    """The epsilon of mechanisms that were fixed in advance, and the name of the accountant that bounds it."""

    epsilon: float
    accountant: str


def sum_of(costs: Sequence[Cost]) -> Cost:
    """Return the sum of costs, rounded up."""
    total: Amounts = {}
    for cost in costs:
        total = add(total, read(cost.amounts))
    return Cost({name: sum_text(value) for name, value in total.items()}, "; ".join(cost.detail for cost in costs))


class Filter(Protocol):
    """A privacy filter with its parameters, which are fixed when a ledger is opened.

    Attributes:
        name, source: The name of the filter, and the source of its theorem.
        premises: The assumptions under which its numbers hold, in addition to the assumptions of the theorem.
        summary: The currency and its use, in a few words.
        currency: The names of the amounts.
        labels: The printed names of amounts, if they differ from the names in entries.
        ranges: The smallest and the largest value of each parameter.
        needs_delta: Whether a ledger with this filter needs delta > 0.
        group_power: The power k of group privacy: a group of j changes costs j^k times as much as one change, in each amount except delta.
            None if no such power is proved.
    """

    name: ClassVar[str]
    source: ClassVar[str]
    summary: ClassVar[str]
    currency: ClassVar[tuple[str, ...]]
    premises: ClassVar[Premises] = PREMISES
    labels: ClassVar[Mapping[str, str]] = {}
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {}
    needs_delta: ClassVar[bool] = True
    group_power: ClassVar[int | None] = None

    @classmethod
    def for_cap(cls, epsilon: float, delta: float) -> Self:
        """Return the filter for a cap. The parameters of a filter are further arguments. If one is None, this method chooses its value."""
        cls.refuse_delta(delta)
        return cls()

    @classmethod
    def refuse_delta(cls, delta: float) -> None:
        """Raise InputError if delta is 0 but the currency needs delta > 0."""
        if cls.needs_delta and delta <= 0.0:
            raise InputError(f"--delta: expected a number in (0, 1) with --filter {cls.name}, found {delta!r}")

    def parameters(self) -> Mapping[str, float]:
        """Return the parameters of the filter, which the opening entry records: {"order": 8.0}, or none."""
        return {name: getattr(self, name) for name in self.ranges}

    def caps(self, epsilon: float, delta: float) -> Mapping[str, str]:
        """Return the caps, in the currency of the filter, that keep all runs together within (epsilon, delta). They are rounded down.

        Raises InputError if no run fits within (epsilon, delta).
        """

    def cost(self, pipeline: Pipeline, delta: float) -> Cost:
        """Return the cost of one run of `pipeline`, rounded up. If the currency has a delta, the epsilon of the run is taken at `delta`.

        Raises NotRepresentable or CannotCertify if the run has no finite cost in the currency.
        """

    def pure_room(self, left: float) -> float:
        """Return the largest pure epsilon, rounded down, whose cost in the first amount is at most `left`. Does not need numpy."""

    def epsilon(self, amounts: Amounts, delta: float) -> float:
        """Return an upper bound on the epsilon, at the ledger's `delta`, of runs whose costs sum to `amounts`."""

    def odometer(self, amounts: Amounts, delta: float) -> float:
        """Return an upper bound on what the runs so far, whose costs sum to `amounts`, have spent: an epsilon at the ledger's `delta`.

        Unlike `epsilon`, it holds at every moment, also at one that is chosen from outputs (odometer.py).
        """


def filter_named(name: str, parameters: Mapping[str, Any]) -> Filter:
    """Return the filter that an opening entry names. Raises InputError if it is unknown."""
    if name not in FILTERS:
        raise InputError(f"expected a filter among {', '.join(FILTERS)}, found '{name}'")
    rule: Filter = load(FILTERS[name])(**parameters)
    return rule


def filter_for_cap(name: str, epsilon: float, delta: float, parameters: Mapping[str, Any]) -> Filter:
    """Return the filter for a new ledger, with parameters that suit the cap. Raises InputError if the filter does not support the cap."""
    if name not in FILTERS:
        raise InputError(f"--filter: expected {filter_choices()}, found {repr(name) if name else 'none'}")
    rule: Filter = load(FILTERS[name]).for_cap(epsilon, delta, **parameters)
    return rule


def filter_choices() -> str:
    """Return the values of --filter, with a summary of each, for messages."""
    words = "; ".join(f"{name}: {load(target).summary}" for name, target in FILTERS.items())
    return f"a filter, which cannot be changed later ({words})"


@lru_cache(64)  # there are fewer names of amounts, except for "run 1", "run 2", ... of declared sets; affects speed alone
def label(name: str) -> str:
    """Return the printed name of an amount: "mu^2" for "mu_squared", and "rho" for "rho"."""
    labels: dict[str, str] = {key: text for target in FILTERS.values() for key, text in load(target).labels.items()}
    return labels.get(name, name)


def steps_of(pipeline: Pipeline) -> Steps:
    """Return the mechanisms of a pipeline, each with the number of its runs, as accountants compose them."""
    from dpcli.file.pipeline.resolve import resolve

    return tuple((charge.mechanism, charge.count) for charge in resolve(pipeline))


def epsilon_of_run(pipeline: Pipeline, delta: float) -> Composition:
    """Return the smallest sound bound on the epsilon of one run at `delta`.

    Any accountant may compose the mechanisms of one run, because their parameters were fixed in advance.

    Raises CannotCertify if no accountant finds a finite bound.
    """
    from dpcli.analysis.account import headline

    # `listed` is the bound for mechanisms that were fixed in advance. Those of an adaptive file are fixed when the run is charged.
    row = headline(pipeline, delta=delta).listed
    if row is None or math.isinf(row.upper):
        raise CannotCertify(
            f"no finite epsilon can be certified at delta = {delta!r}, so the run has no cost that could be charged"
        )
    return Composition(row.upper, row.accountant.name)


def at_least_smallest(cost: float, steps: Steps) -> float:
    """Return the cost, but at least the smallest positive double for each run of a mechanism that is not free.

    So a cost that underflowed to 0 is still charged.
    """
    from dpcli.mechanisms.stated.pure_and_approx import Free

    return max(cost, math.ulp(0.0) * sum(count for mechanism, count in steps if mechanism != Free()))


def require_finite(cost: float, what: str) -> float:
    """Return the cost, which must be finite to be charged. Raises CannotCertify if it is not."""
    if not cost < math.inf:
        raise CannotCertify(f"its {what} is infinite, so the run has no cost that could be charged")
    return cost


def pure_within(cost: Callable[[float], float], left: float) -> float:
    """Return the largest pure epsilon in [0, 1e5] whose `cost` is at most `left`, rounded down so far that the rounded cost still fits.

    The factors 1 - 1e-12 exceed the rounding errors of a cost. An epsilon of 1e5 is far above every cap in use. Both affect only the advice
    to users: the cost of a run is computed by `Filter.cost`.
    """
    return largest_within(lambda epsilon: cost(epsilon) <= left * (1.0 - 1e-12), 1e5) * (1.0 - 1e-12)


def largest_within(holds: Callable[[float], bool], high: float) -> float:
    """Return the largest double in [0, high] at which `holds` is true, by bisection; 0 if `holds` is false everywhere.

    If `holds` is true at a number, it must be true at all smaller numbers > 0.
    """
    low = 0.0
    if holds(high):
        return high
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            return low
        if holds(middle):
            low = middle
        else:
            high = middle
