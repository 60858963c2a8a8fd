"""The charges of a ledger priced again: under its own terms, whatever the entries say they are stated for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from dpcli.base.errors import CannotCertify, InputError, NotRepresentable
from dpcli.file.pipeline.document import pipeline_from, tables_of
from dpcli.ledger import amounts
from dpcli.ledger.chain import LedgerEntry
from dpcli.ledger.filters.filter import label
from dpcli.ledger.terms import LedgerTerms

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline

REMEMBERED = 1_000  # runs whose price is kept
SLACK = Decimal("1.000000001")  # two versions may differ in the last digits of one and the same bound


@dataclass(frozen=True, slots=True)
class Restated:
    """A run under the ledger's terms. others: what it was stated for instead, in words; least: whether its contributions are unknown."""

    pipeline: Pipeline
    others: tuple[str, ...]
    least: bool


def restated(terms: LedgerTerms, pipeline: Pipeline) -> Restated:
    """The run as the ledger has to count it: its mechanisms under the ledger's unit, adjacency and dataset_size.

    A unit that states no bound on its records is given one record: the cost is then a lower bound on the true one.
    """
    from dpcli.mechanisms.neighbours import Adjacency

    stated = pipeline.privacy
    size = stated.dataset_size if terms.dataset_size is None or stated.dataset_size is None else terms.dataset_size
    found = {"unit": stated.unit, "adjacency": stated.adjacency.value, "dataset_size": stated.dataset_size}
    wanted = {"unit": terms.unit, "adjacency": terms.adjacency, "dataset_size": size}
    others = tuple(f"{name} {found[name]} instead of {wanted[name]}" for name in wanted if found[name] != wanted[name])
    unknown = stated.unit != terms.unit and terms.unit != "example"
    records = None if terms.unit == "example" else stated.max_contributions or 1
    privacy = replace(stated, unit=terms.unit, adjacency=Adjacency(terms.adjacency), dataset_size=size, max_contributions=records)
    return Restated(replace(pipeline, privacy=privacy), others, unknown)


class Prices:
    """Charges of one ledger priced again. The same run at the same delta is composed once: of a year of nightly runs that is nearly all."""

    def __init__(self, terms: LedgerTerms) -> None:
        self.terms = terms
        self.known: dict[tuple[str, float], Mapping[str, Decimal]] = {}

    def understated(self, entry: LedgerEntry) -> Iterator[str]:
        """A charge under other terms than the ledger's, or of a cost that this version finds larger than what was charged.

        A run that cannot be priced is one of them, whatever its content does to whoever tries.
        """
        who = f'entry {entry.row.seq} ("{entry.key}", dpcli {entry.content.get("dpcli")})'
        try:
            said = " and ".join(_wrong(self, entry))
        except Exception as error:  # whatever pricing a forged run ends in is a problem with its entry
            said = f"its cost cannot be computed again: {str(error)[:300] or type(error).__name__}"
        if said:
            yield f"{who}: {said}"

    def of(self, pipeline: Pipeline, delta: float) -> Mapping[str, Decimal]:
        """What a run is charged. Raises CannotCertify or NotRepresentable where it has no cost; that is tried each time."""
        if self.terms.mode != "declared":  # where a run is looked up by all that it states
            pipeline = replace(pipeline, privacy=replace(pipeline.privacy, window=None))  # which decides on what, and no cost
        key = (json.dumps(tables_of(pipeline), sort_keys=True), delta)
        if key not in self.known:
            if len(self.known) >= REMEMBERED:
                self.known.clear()
            self.known[key] = amounts.read(self.terms.price(pipeline, delta).amounts)
        return self.known[key]


def undeclared(terms: LedgerTerms) -> Iterator[str]:
    """What this version finds about a declared set as a whole, under the ledger's terms."""
    try:
        yield from _above(terms)
    except Exception as error:  # whatever composing a forged set ends in
        yield f"the declared runs: their cost cannot be computed again: {str(error)[:300] or type(error).__name__}"


def _above(terms: LedgerTerms) -> Iterator[str]:
    from dpcli.ledger.declared import composed

    runs = [(restated(terms, pipeline_from(item["pipeline"])), int(item["runs"])) for item in terms.declared]
    for i, (run, _) in enumerate(runs, 1):
        if run.others:
            yield f"run {i} of the declared set: stated for {', '.join(run.others)} (DP103)"
    epsilon, accountant = composed([(run.pipeline, count) for run, count in runs], terms.delta)
    if epsilon > terms.epsilon:
        yield f"the declared runs: this version finds epsilon {epsilon:.10g} by {accountant}, above the cap {terms.epsilon!r} (DP408)"


def _wrong(prices: Prices, entry: LedgerEntry) -> Iterator[str]:
    terms, delta = prices.terms, float(entry.content["delta"])
    if not delta < 1.0:
        raise InputError(f"described at delta = {entry.content['delta']}, which promises nothing")
    run = restated(terms, pipeline_from(entry.content["pipeline"]))
    if run.others:
        yield f"stated for {', '.join(run.others)} (DP103)"
    if run.others and terms.mode == "declared":
        return  # the declared set has no such run
    stated = run.pipeline.privacy.window
    if stated is not None and terms.family is not None and [*terms.family.window(stated)] != entry.content.get("window"):
        yield "charged on other blocks than the window that it states"
    charged = amounts.read(entry.content["cost"])
    try:
        cost = prices.of(run.pipeline, delta)
    except (CannotCertify, NotRepresentable) as error:
        yield f"its cost cannot be computed again: {error}"
        return
    for name, value in cost.items():
        paid = charged.get(name, Decimal(0))
        if value > paid * SLACK:
            least = "at least " if run.least else ""
            yield f"charged {paid:.10g} of {label(name)}, this version finds {least}{value:.10g}{_times(value, paid)} (DP408)"


def _times(value: Decimal, paid: Decimal) -> str:
    return f", {float(value / paid):.4g} times as much" if paid else ""
