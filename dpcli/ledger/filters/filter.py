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
from typing import TYPE_CHECKING, Any, Protocol

from dpcli.base.errors import CannotCertify, InputError
from dpcli.base.lazy import load
from dpcli.base.premise import Premise, Premises
from dpcli.ledger.amounts import Amounts, add, read, rounded_up
from dpcli.ledger.plugin import FILTERS

if TYPE_CHECKING:
    from dpcli.accountants.base import Steps
    from dpcli.file.pipeline.model import Pipeline

# What every filter rests on, beside its theorem.
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
    """What one run costs: amounts by name as decimal strings, rounded up; detail: how they came about, for people."""

    amounts: Mapping[str, str]
    detail: str


def sum_of(costs: Sequence[Cost]) -> Cost:
    """What they cost together, rounded up."""
    total: Amounts = {}
    for cost in costs:
        total = add(total, read(cost.amounts))
    return Cost({name: rounded_up(value) for name, value in total.items()}, "; ".join(cost.detail for cost in costs))


class Filter(Protocol):
    """One privacy filter with its parameters, which are fixed when a ledger is opened."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str:
        """Currency, and what it is for, in a few words."""
        ...

    @property
    def labels(self) -> Mapping[str, str]:
        """Its amounts as they are called in print, where that differs from their names."""
        ...

    @property
    def source(self) -> str:
        """The theorem."""
        ...

    @property
    def premises(self) -> Premises:
        """What must be true for its numbers to hold, beside the theorem."""
        ...

    @property
    def currency(self) -> tuple[str, ...]:
        """The names of its amounts."""
        ...

    @property
    def ranges(self) -> Mapping[str, tuple[float, float]]:
        """Its parameters, and the numbers that each may be, both ends included."""
        ...

    @property
    def group_power(self) -> int | None:
        """k such that a group of j changes costs j^k times as much in each amount but delta; None where that is not proved."""
        ...

    def parameters(self) -> Mapping[str, Any]:
        """What the opening entry must remember beside the name."""
        ...

    def caps(self, epsilon: float, delta: float) -> Mapping[str, str]:
        """The most of each amount that keeps the whole within (epsilon, delta), rounded down. Raises InputError where nothing does."""
        ...

    def cost(self, pipeline: Pipeline, delta: float) -> Cost:
        """What one run of `pipeline` costs, described at `delta` where the currency needs one.

        Raises NotRepresentable or CannotCertify where the currency has no number for it.
        """
        ...

    def pure_room(self, left: float) -> float:
        """The largest pure epsilon, rounded down, that costs at most `left` of the first amount; a closed form, without arrays."""
        ...

    def epsilon(self, amounts: Amounts, delta: float) -> float:
        """An upper bound on epsilon at the ledger's `delta` of everything that sums to `amounts`."""
        ...


def filter_named(name: str, parameters: Mapping[str, Any]) -> Filter:
    """The filter of an opening entry. Raises InputError for one that is not known."""
    if name not in FILTERS:
        raise InputError(f"expected a filter among {', '.join(FILTERS)}, found '{name}'")
    found: Filter = load(FILTERS[name])(**parameters)
    return found


def opened_filter(name: str, epsilon: float, delta: float, parameters: Mapping[str, Any]) -> Filter:
    """The filter for a new ledger, its own parameters chosen for the cap. Raises InputError where it cannot hold that cap."""
    if name not in FILTERS:
        raise InputError(f"--filter: expected {filter_wanted()}, found {repr(name) if name else 'none'}")
    found: Filter = load(FILTERS[name]).chosen(epsilon, delta, **parameters)
    return found


def filter_wanted() -> str:
    """What --filter takes, in words."""
    words = "; ".join(f"{key}: {text}" for key, text in summaries().items())
    return f"one, which cannot be changed later ({words})"


def summaries() -> dict[str, str]:
    """What each filter is for, by name."""
    return {name: load(target).summary for name, target in FILTERS.items()}


def label(name: str) -> str:
    """An amount as it is called in print."""
    labels: dict[str, str] = {key: text for target in FILTERS.values() for key, text in load(target).labels.items()}
    return labels.get(name, name)


def steps_of(pipeline: Pipeline) -> Steps:
    """What an accountant adds up."""
    from dpcli.file.pipeline.resolve import resolve

    return tuple((charge.mechanism, charge.count) for charge in resolve(pipeline))


def described(pipeline: Pipeline, delta: float) -> tuple[float, str]:
    """(epsilon, accountant) of one run at `delta`, by the tightest sound accountant; its parameters were fixed in advance.

    Raises CannotCertify where there is none.
    """
    from dpcli.analysis.account import headline

    found = headline(pipeline, delta=delta).listed  # an adaptive file's mechanisms are fixed when they are charged
    if found is None or math.isinf(found.upper):
        raise CannotCertify(
            f"no finite epsilon can be certified at delta = {delta!r}, so the run has no cost that could be charged"
        )
    return found.upper, found.accountant.name


def floored(cost: float, steps: Steps) -> float:
    """The cost, or the least there is for each step that is not free: what underflowed is still not nothing."""
    from dpcli.mechanisms.stated.pure_and_approx import Free

    return max(cost, math.ulp(0.0) * sum(count for mechanism, count in steps if mechanism != Free()))


def finite(cost: float, what: str) -> float:
    """The cost, or CannotCertify where it is infinite."""
    if not cost < math.inf:
        raise CannotCertify(f"its {what} is infinite: there is no cost that could be charged")
    return cost


def require_delta(delta: float, name: str) -> None:
    """Refuse a ledger at delta = 0 for filters whose currency needs some."""
    if delta <= 0.0:
        raise InputError(f"--delta: expected a number in (0, 1) with --filter {name}, found {delta!r}")


def pure_within(cost: Callable[[float], float], left: float) -> float:
    """The largest pure epsilon, rounded down, whose `cost` is at most `left`, also as the filter rounds it up."""
    return largest(lambda epsilon: cost(epsilon) <= left * (1.0 - 1e-12), 1e5) * (1.0 - 1e-12)


def largest(holds: Callable[[float], bool], high: float) -> float:
    """The largest double in [0, high] at which `holds`, a property that only smaller numbers have; 0 where none has it."""
    low = 0.0
    if holds(high):
        return high
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            return low
        low, high = (middle, high) if holds(middle) else (low, middle)
