"""Privacy filters: what may be added up where a later run is chosen from an earlier one's output.

A filter has a currency. It turns a cap (epsilon, delta) into caps in that currency once, when a ledger is opened; a run into a cost in
it; and a sum of costs back into an epsilon. Privacy-loss distributions and the like may describe one run, whose parameters were fixed in
advance, but are not added up across runs (arXiv:2602.06756, arXiv:2602.15815). Runs that overlap in time add up like others (Haney et
al. 2023, arXiv:2309.05901).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from dpcli.base.errors import CannotCertify, InputError
from dpcli.base.lazy import load
from dpcli.base.premise import Premise, Premises
from dpcli.ledger.amounts import Amounts, add, read, sum_text
from dpcli.ledger.plugin import FILTERS

if TYPE_CHECKING:
    from dpcli.accountants.base import Steps
    from dpcli.file.pipeline.model import Pipeline


# What every filter rests on, besides its theorem.
PREMISES: Premises = (
    Premise(
        "Whatever is released of the dataset is charged, before anybody sees it.",
        "train, release, pate, pmixed, prompt and generate; elsewhere whoever charges",
        "tests/premises/test_filters.py::test_what_is_not_charged_exceeds_the_cap",
    ),
    Premise(
        "What a run is charged for was fixed before it began.",
        "the ledger, which prices the file; that the run is the file's, whoever charges",
        "tests/premises/test_filters.py::test_a_run_that_grows_by_its_own_output_exceeds_the_cap",
    ),
    Premise(
        "Nobody who had seen an output raised the cap beyond the ceiling, or the ledger says that nothing is guaranteed.",
        "the ledger, and the word of who approves with --no-output-seen",
        "tests/ledger/test_raised_caps.py::test_a_cap_that_is_raised_after_outputs_bounds_nothing",
    ),
)


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one run: amounts by name as decimal strings, rounded up.

    Attributes:
        detail: How they came about, for people.
    """

    amounts: Mapping[str, str]
    detail: str


def sum_of(costs: Sequence[Cost]) -> Cost:
    """Return what runs cost together, rounded up."""
    total: Amounts = {}
    for cost in costs:
        total = add(total, read(cost.amounts))
    return Cost({name: sum_text(value) for name, value in total.items()}, "; ".join(cost.detail for cost in costs))


class Filter(Protocol):
    """A privacy filter with its parameters, which are fixed when a ledger is opened.

    Attributes:
        name, source: Its theorem.
        premises: What must be true for its numbers to hold beyond the theorem.
        summary: Its currency and use, in a few words.
        currency: The names of its amounts.
        labels: How they are printed, where that differs.
        ranges: Its parameters and the numbers that each may be, both ends included.
        needs_delta: Whether it refuses a ledger at delta = 0.
        group_power: k such that a group of j changes costs j^k times as much in each amount but delta; None if that is not proved.
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
    def chosen(cls, epsilon: float, delta: float) -> Self:
        """Return the filter for a cap; a filter with parameters takes them as further arguments, and chooses those that are None."""
        cls.refuse_delta(delta)
        return cls()

    @classmethod
    def refuse_delta(cls, delta: float) -> None:
        """Raise InputError at delta = 0 if the currency needs more."""
        if cls.needs_delta and delta <= 0.0:
            raise InputError(f"--delta: expected a number in (0, 1) with --filter {cls.name}, found {delta!r}")

    def parameters(self) -> Mapping[str, float]:
        """Return what the opening entry must remember besides the name."""
        return {name: getattr(self, name) for name in self.ranges}

    def caps(self, epsilon: float, delta: float) -> Mapping[str, str]:
        """Return the most of each amount that keeps the sum within (epsilon, delta), rounded down. Raises InputError if nothing does."""
        ...

    def cost(self, pipeline: Pipeline, delta: float) -> Cost:
        """Return what one run of `pipeline` costs, described at `delta` where the currency needs one.

        Raises:
            NotRepresentable, CannotCertify: If the currency has no number for it.
        """
        ...

    def pure_room(self, left: float) -> float:
        """Return the largest pure epsilon, rounded down, that costs at most `left` of the first amount; a closed form, without arrays."""
        ...

    def epsilon(self, amounts: Amounts, delta: float) -> float:
        """Return an upper bound on epsilon at the ledger's `delta` of everything that sums to `amounts`."""
        ...


def filter_named(name: str, parameters: Mapping[str, Any]) -> Filter:
    """Return the filter of an opening entry. Raises InputError for one that is not known."""
    if name not in FILTERS:
        raise InputError(f"expected a filter among {', '.join(FILTERS)}, found '{name}'")
    rule: Filter = load(FILTERS[name])(**parameters)
    return rule


def opened_filter(name: str, epsilon: float, delta: float, parameters: Mapping[str, Any]) -> Filter:
    """Return the filter for a new ledger, its own parameters chosen for the cap. Raises InputError if it cannot hold that cap."""
    if name not in FILTERS:
        raise InputError(f"--filter: expected {filter_wanted()}, found {repr(name) if name else 'none'}")
    rule: Filter = load(FILTERS[name]).chosen(epsilon, delta, **parameters)
    return rule


def filter_wanted() -> str:
    """Return what --filter takes, in words."""
    words = "; ".join(f"{name}: {load(target).summary}" for name, target in FILTERS.items())
    return f"one, which cannot be changed later ({words})"


def label(name: str) -> str:
    """Return an amount as it is called in print."""
    labels: dict[str, str] = {key: text for target in FILTERS.values() for key, text in load(target).labels.items()}
    return labels.get(name, name)


def steps_of(pipeline: Pipeline) -> Steps:
    """Return what an accountant adds up."""
    from dpcli.file.pipeline.resolve import resolve

    return tuple((charge.mechanism, charge.count) for charge in resolve(pipeline))


def epsilon_of_run(pipeline: Pipeline, delta: float) -> tuple[float, str]:
    """Return (epsilon, accountant) of one run at `delta`, by the tightest sound accountant; its parameters were fixed in advance.

    Raises:
        CannotCertify: If there is none.
    """
    from dpcli.analysis.account import headline

    row = headline(pipeline, delta=delta).listed  # an adaptive file's mechanisms are fixed when they are charged
    if row is None or math.isinf(row.upper):
        raise CannotCertify(
            f"no finite epsilon can be certified at delta = {delta!r}, so the run has no cost that could be charged"
        )
    return row.upper, row.accountant.name


def at_least_smallest(cost: float, steps: Steps) -> float:
    """Return the cost, or the least there is for each step that is not free: what underflowed is still not nothing."""
    from dpcli.mechanisms.stated.pure_and_approx import Free

    return max(cost, math.ulp(0.0) * sum(count for mechanism, count in steps if mechanism != Free()))


def require_finite(cost: float, what: str) -> float:
    """Return the cost. Raises CannotCertify if it is infinite."""
    if not cost < math.inf:
        raise CannotCertify(f"its {what} is infinite: there is no cost that could be charged")
    return cost


def pure_within(cost: Callable[[float], float], left: float) -> float:
    """Return the largest pure epsilon, rounded down, whose `cost` is at most `left`, also as the filter rounds it up."""
    return largest_within(lambda epsilon: cost(epsilon) <= left * (1.0 - 1e-12), 1e5) * (1.0 - 1e-12)


def largest_within(holds: Callable[[float], bool], high: float) -> float:
    """Return the largest double in [0, high] at which `holds`, a property that only smaller numbers have; 0 if none has it."""
    low = 0.0
    if holds(high):
        return high
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            return low
        low, high = (middle, high) if holds(middle) else (low, middle)
