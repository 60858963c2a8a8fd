"""Which other filter would take a run that a ledger's own has no number for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcli.base.errors import CannotCertify, InputError, NotRepresentable
from dpcli.ledger.filters.filter import opened_filter
from dpcli.ledger.plugin import FILTERS

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.ledger.terms import LedgerTerms


def other_filters(terms: LedgerTerms, pipeline: Pipeline, delta: float) -> str:
    """`; the filter of this ledger is zcdp, and one with --filter rdp takes this run`; "" for a declared set, and where none does."""
    others = (name for name in FILTERS if terms.mode != "declared" and name != terms.filter)
    name = next((name for name in others if _takes(name, terms, pipeline, delta)), None)  # the first: to ask is to price the run
    return f"; the filter of this ledger is {terms.filter}, and one with --filter {name} takes this run" if name else ""


def _takes(name: str, terms: LedgerTerms, pipeline: Pipeline, delta: float) -> bool:
    try:
        opened_filter(name, terms.epsilon, terms.delta, {}).cost(pipeline, delta)
    except (CannotCertify, InputError, NotRepresentable):
        return False
    return True
