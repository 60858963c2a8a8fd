"""Quotes: would these runs still fit? All of them together, against one reading of the ledger; nothing is spent."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from dpcli.base.errors import CannotCertify, InputError, NotRepresentable
from dpcli.base.rounding import down, up
from dpcli.ledger import amounts
from dpcli.ledger.amounts import fullest, spread
from dpcli.ledger.denial import delta_advice, percent, shortfall
from dpcli.ledger.filters.filter import Cost, label
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.planning.fit import fitting
from dpcli.ledger.state import LedgerState
from dpcli.ledger.stores.places import open_ledger

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline

Refusal = InputError | CannotCertify | NotRepresentable
Wanted = dict[str, Decimal]
Priced = tuple[Wanted, Cost, float, tuple[str, ...]]  # all runs together, in decimals and as a cost, their delta, and their blocks


@dataclass(frozen=True, slots=True)
class Quote:
    """The answer of a ledger about a number of runs that have not been made, among all that were asked for with them.

    fits: all of them together. share: of the cap, for these runs; left: of the cap, before any of them. Both between 0 and 1, share above 1
    where they never fit. delta: of the cap.
    """

    fits: bool
    message: str
    share: float
    left: float
    delta: float | None = None


def quotes(url: str, dataset: str | None, pipelines: Sequence[tuple[Pipeline, int]]) -> tuple[Quote | Refusal, ...]:
    """Ask the ledger at `url` whether all of these still fit: (pipeline, runs), each answered in its place.

    A pipeline that is stated for another unit or adjacency, or whose cost is unknown in the ledger's currency, is answered by the error,
    and the others without it. Raises LedgerError where the ledger cannot be read, InputError where it cannot be found.
    """
    with open_ledger(url, dataset) as ledger:
        items = [_wanted(ledger, pipeline, runs) for pipeline, runs in pipelines]
        state = ledger.state()
    costs = [item for item in items if not isinstance(item, Exception)]
    total: Wanted = {}
    for wanted, _, _, window in costs:
        total = amounts.add(total, spread(wanted, window))
    return tuple(
        item if isinstance(item, Exception) else _answer(state, item, total, len(costs), *request)
        for item, request in zip(items, pipelines, strict=True)
    )


def quote(url: str, dataset: str | None, pipeline: Pipeline, runs: int = 1) -> Quote:
    """Ask about one pipeline. Raise what `quotes` would answer."""
    (answer,) = quotes(url, dataset, [(pipeline, runs)])
    if isinstance(answer, Exception):
        raise answer
    return answer


def _wanted(ledger: Ledger, pipeline: Pipeline, runs: int) -> Priced | Refusal:
    try:
        cost, delta = ledger.cost(pipeline)
        window = ledger.stated_window(pipeline)
    except (InputError, CannotCertify, NotRepresentable) as error:
        return error
    many = {name: amounts.EXACT.multiply(value, Decimal(runs)) for name, value in amounts.read(cost.amounts).items()}
    return many, Cost({name: str(value) for name, value in many.items()}, cost.detail), delta, window


def _answer(balance: LedgerState, item: Priced, everything: Wanted, files: int, pipeline: Pipeline, runs: int) -> Quote:
    wanted, cost, delta, window = item
    state, closed = balance.over(window), balance.closed(window)
    total = fullest(everything, state.caps, window) if window else everything
    if closed is not None:
        message, fits = f"{state.dataset}: block {closed} was retired, and takes no further run", False
    elif not state.fits(wanted):
        message, fits = _too_much(state, cost, runs, pipeline, delta), False
    elif not _with(balance, everything).over(window).fits({}):
        message, fits = _too_many(state, cost, total, runs, files), False
    else:
        message, fits = _fits(state, cost, runs) + _together(state, total, files), True
    left = 1.0 - amounts.share(state.spent, state.caps)
    return Quote(fits, message, amounts.share(wanted, state.caps), left, state.open_terms().delta)


def _with(state: LedgerState, more: Wanted) -> LedgerState:
    """Return the balance after more was spent."""
    after = copy(state)
    after.spent = amounts.add(state.spent, more)
    return after


def _fits(state: LedgerState, cost: Cost, runs: int) -> str:
    name, amount = max(amounts.read(cost.amounts).items(), key=lambda item: amounts.share(dict([item]), state.caps))
    many = "it costs" if runs == 1 else f"{runs} runs cost"
    of = f"{up(amount)} of {label(name)}, {percent(amount, state, name)} of the cap of {state.dataset}"
    return f"{many} {of}; {down(state.left()[name])} is left"


def _together(state: LedgerState, total: Wanted, files: int) -> str:
    if files == 1:
        return ""
    name = max(total, key=lambda amount: amounts.share({amount: total[amount]}, state.caps))
    return f" ({percent(total[name], state, name)} of the cap for all {files} files together)"


def _too_much(state: LedgerState, cost: Cost, runs: int, pipeline: Pipeline, delta: float) -> str:
    would = fitting(state, pipeline, delta) if runs == 1 else ()
    missing = f"{state.dataset}: {shortfall(state, cost)}".replace(
        "the run costs", "it costs" if runs == 1 else f"{runs} runs cost"
    )
    advice = [] if state.open_terms().mode == "declared" else delta_advice(state, cost, pipeline.path)
    return "; ".join((missing, *([f"would fit: {'; or '.join(would)}"] if would else []), *advice))


def _too_many(state: LedgerState, cost: Cost, total: Wanted, runs: int, files: int) -> str:
    """Return the message for a run that would fit, but not with the others."""
    name = amounts.exceeded(amounts.add(state.spent, total), state.caps) or next(iter(total))
    alone = amounts.read(cost.amounts).get(name, Decimal(0))
    return (
        f"{state.dataset}: all {files} files together cost {up(total[name])} of {label(name)}, {down(state.left()[name])} is left; "
        f"{'this one' if runs == 1 else f'{runs} runs of this one'} alone: {up(alone)}"
    )
