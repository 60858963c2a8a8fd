"""Quotes of a ledger, which state whether several runs together would still fit in its current state. Nothing is charged.

A dry run (--dry-run --ledger) shows the quote for its run, and `dpcli gate` asks for all files of a call together, because they may be
charged one after the other. Costs and caps are *amounts* by name in the currency of the ledger's *filter*, the theorem that adds up runs,
such as {"rho": 0.1} (dpcli/ledger/amounts.py). A dataset may be cut into *blocks*, such as days, each with a cap of its own; a run is
charged on the blocks of its *window*; `LedgerState.on_blocks` returns the state with the spending of the fullest of them. `label` is the
printed name of an amount. Printed costs are rounded up, and what is left is rounded down.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from dpcli.base.errors import CannotCertify, InputError, NotRepresentable
from dpcli.base.rounding import down, up
from dpcli.ledger import amounts
from dpcli.ledger.amounts import cost_on_blocks, most_on_one_block
from dpcli.ledger.denial import delta_advice, percent_of_cap, retired_words, shortfall
from dpcli.ledger.filters.filter import Cost, label
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.planning.fit import changes_that_fit_now
from dpcli.ledger.state import LedgerState
from dpcli.ledger.stores.places import open_ledger

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline

Refusal = InputError | CannotCertify | NotRepresentable  # the error of a run that has no cost in this ledger


class RequestedRuns(NamedTuple):
    """A number of runs of one file.

    Attributes:
        wanted, cost: The cost of all runs together, as decimals and as texts.
        delta: The delta at which the filters approx-dp and advanced charge the epsilon of a run.
        window: The blocks that each run reads.
    """

    pipeline: Pipeline
    runs: int
    wanted: dict[str, Decimal]
    cost: Cost
    delta: float
    window: tuple[str, ...]

    @property
    def subject(self) -> str:
        """The beginning of a sentence about the cost of the runs: "it costs", or "3 runs cost"."""
        return "it costs" if self.runs == 1 else f"{self.runs} runs cost"


@dataclass(frozen=True, slots=True)
class Quote:
    """The quote of a ledger for the runs of one file, among the runs of several files.

    Attributes:
        fits: Whether the runs of all files together would fit on the blocks of this file.
        message: The quote in words.
        share: The cost of the runs of this file as a share of the cap. It may be above 1.
        left: The share of the cap that is left before any of the runs.
        delta: The delta of the ledger, which the cap is for.
    """

    fits: bool
    message: str
    share: float
    left: float
    delta: float


def quotes(url: str, dataset: str | None, pipelines: Sequence[tuple[Pipeline, int]]) -> tuple[Quote | Refusal, ...]:
    """Return a quote of the ledger at `url` for each pipeline. It states whether all runs of all pipelines still fit.

    If a pipeline states another unit or adjacency than the ledger, or has no cost in its currency, the result contains the error in place
    of its quote. The other quotes then do not include its runs.

    Args:
        dataset: Name of the dataset; None for the only dataset of the ledger.
        pipelines: Each pipeline with the number of its runs.

    Raises LedgerError if the ledger cannot be read, and InputError if the dataset must be named, or its name is invalid.
    """
    with open_ledger(url, dataset) as ledger:
        answers = [_request_or_error(ledger, pipeline, runs) for pipeline, runs in pipelines]
        state = ledger.state()
    requests = [answer for answer in answers if isinstance(answer, RequestedRuns)]
    total: dict[str, Decimal] = {}
    for request in requests:
        total = amounts.add(total, cost_on_blocks(request.wanted, request.window))
    return tuple(
        _quote_of(state, answer, total, files=len(requests)) if isinstance(answer, RequestedRuns) else answer for answer in answers
    )


def quote(url: str, dataset: str | None, pipeline: Pipeline, runs: int = 1) -> Quote:
    """Return the quote for one pipeline. Raises the error that `quotes` returns in place of a quote."""
    (answer,) = quotes(url, dataset, [(pipeline, runs)])
    if isinstance(answer, Exception):
        raise answer
    return answer


def _request_or_error(ledger: Ledger, pipeline: Pipeline, runs: int) -> RequestedRuns | Refusal:
    """Return the runs of one pipeline with their cost, or the error if they have no cost in this ledger."""
    try:
        cost, delta = ledger.cost(pipeline)
        window = ledger.stated_window(pipeline)
    except (InputError, CannotCertify, NotRepresentable) as error:
        return error
    wanted = {name: amounts.EXACT.multiply(value, Decimal(runs)) for name, value in amounts.read(cost.amounts).items()}
    total = Cost(amounts.texts(wanted), cost.detail)
    return RequestedRuns(pipeline, runs, wanted, total, delta, window)


def _quote_of(balance: LedgerState, request: RequestedRuns, cost_of_all: dict[str, Decimal], files: int) -> Quote:
    """Return the quote for one file.

    Args:
        balance: The state of the ledger before any of the runs.
        cost_of_all: The cost of all files together, on each block.
        files: The number of files that have a cost.
    """
    window = request.window
    state, retired = balance.on_blocks(window), balance.retired_block(window)
    total = most_on_one_block(cost_of_all, state.caps, window) if window else cost_of_all
    fits = False
    if retired is not None:
        message = f"{state.dataset}: {retired_words(retired)}"
    elif not state.fits(request.wanted):
        message = _alone_too_much(state, request)
    elif not _after_spending(balance, cost_of_all).on_blocks(window).fits({}):  # without a further cost
        message = _together_too_much(state, request, total, files)
    else:
        fits = True
        message = _cost_words(state, request) + _together_words(state, total, files)
    left = 1.0 - amounts.largest_share(state.spent, state.caps)
    return Quote(fits, message, amounts.largest_share(request.wanted, state.caps), left, state.open_terms().delta)


def _after_spending(state: LedgerState, more: dict[str, Decimal]) -> LedgerState:
    """Return a copy of the state in which `more` is spent, whether it fits or not."""
    after = copy(state)
    after.spent = amounts.add(state.spent, more)
    return after


def _cost_words(state: LedgerState, request: RequestedRuns) -> str:
    """Return the cost of the runs of one file and what is left before them, for the amount with the largest share."""
    name = _tightest_amount(state, request.wanted)
    amount = request.wanted[name]
    cost = f"{up(amount)} of {label(name)}, {percent_of_cap(amount, state, name)} of the cap of {state.dataset}"
    return f"{request.subject} {cost}; {down(state.left()[name])} is left"


def _together_words(state: LedgerState, total: dict[str, Decimal], files: int) -> str:
    """Return the share of the cap that all files together cost, in parentheses; "" if there is one file."""
    if files == 1:
        return ""
    name = _tightest_amount(state, total)
    return f" ({percent_of_cap(total[name], state, name)} of the cap for all {files} files together)"


def _tightest_amount(state: LedgerState, wanted: dict[str, Decimal]) -> str:
    """Return the name of the amount that takes the largest share of its cap."""
    return max(wanted, key=lambda name: amounts.largest_share({name: wanted[name]}, state.caps))


def _alone_too_much(state: LedgerState, request: RequestedRuns) -> str:
    """Return the message for runs that do not fit even without the runs of the other files."""
    changes = changes_that_fit_now(state, request.pipeline, request.delta) if request.runs == 1 else ()
    # `shortfall` speaks of one run.
    lines = [f"{state.dataset}: {shortfall(state, request.cost)}".replace("the run costs", request.subject)]
    if changes:
        lines.append(f"would fit: {'; or '.join(changes)}")
    if state.open_terms().mode != "declared":
        lines += delta_advice(state, request.cost, request.pipeline.path)
    return "; ".join(lines)


def _together_too_much(state: LedgerState, request: RequestedRuns, total: dict[str, Decimal], files: int) -> str:
    """Return the message for runs that would fit alone, but not together with the runs of the other files."""
    name = amounts.exceeded(amounts.add(state.spent, total), state.caps) or next(iter(total))
    subject = "this file" if request.runs == 1 else f"{request.runs} runs of this file"
    return (
        f"{state.dataset}: all {files} files together cost {up(total[name])} of {label(name)}, {down(state.left()[name])} is left; "
        f"{subject} alone: {up(request.wanted.get(name, Decimal(0)))}"
    )
