"""Would this still fit? For a gate, which asks and spends nothing."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from dpcli.ledger import amounts
from dpcli.ledger.denial import down, label, percent, shortfall, up
from dpcli.ledger.filters import Cost
from dpcli.ledger.fit import fitting
from dpcli.ledger.places import open_ledger
from dpcli.ledger.state import State

if TYPE_CHECKING:
    from dpcli.pipeline.model import Pipeline


@dataclass(frozen=True, slots=True)
class Quote:
    """The answer of a ledger about a number of runs that have not been made.

    share: of the cap, for all of them; left: of the cap, before them. Both between 0 and 1, share above 1 where they never fit.
    """

    fits: bool
    message: str
    share: float
    left: float


def quote(url: str, dataset: str | None, pipeline: Pipeline, runs: int = 1) -> Quote:
    """Ask the ledger at `url` whether `runs` runs of a pipeline would still fit.

    Raises InputError for a run stated for another unit or adjacency, NotRepresentable or CannotCertify where its cost is unknown in the
    ledger's currency, LedgerError where the ledger cannot be read.
    """
    ledger = open_ledger(url, dataset)
    try:
        cost, delta = ledger.cost(pipeline)
        state = ledger.state()
    finally:
        ledger.store.close()
    wanted = {name: amounts.EXACT.multiply(value, Decimal(runs)) for name, value in amounts.read(cost.amounts).items()}
    fits = state.fits(wanted)
    whole = Cost({name: str(value) for name, value in wanted.items()}, cost.detail)
    message = _fits(state, whole, runs) if fits else _too_much(state, whole, runs, pipeline, delta)
    return Quote(fits, message, amounts.share(wanted, state.caps), 1.0 - amounts.share(state.spent, state.caps))


def _fits(state: State, cost: Cost, runs: int) -> str:
    name, amount = max(amounts.read(cost.amounts).items(), key=lambda item: amounts.share(dict([item]), state.caps))
    many = "it costs" if runs == 1 else f"{runs} runs cost"
    of = f"{up(amount)} of {label(name)}, {percent(amount, state, name)} of the cap of {state.dataset}"
    return f"{many} {of}; {down(state.left()[name])} is left"


def _too_much(state: State, cost: Cost, runs: int, pipeline: Pipeline, delta: float) -> str:
    would = fitting(state, pipeline, delta) if runs == 1 else ()
    said = f"{state.dataset}: {shortfall(state, cost)}".replace("the run costs", "it costs" if runs == 1 else f"{runs} runs cost")
    return said + (f"; would fit: {'; or '.join(would)}" if would else "")
