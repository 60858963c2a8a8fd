"""A plan with what a ledger says of it: whether it would be granted. Nothing is written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dpcli.base.errors import CannotCertify, NotRepresentable
from dpcli.document.document import Document
from dpcli.ledger.quote import Quote, quote
from dpcli.ledger.stores.places import open_ledger

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline


def quoted(document: Document, ledger: str | None, dataset: str | None, pipeline: Pipeline, run: str = "") -> Document:
    """The document of a dry run, and the answer of the ledger at `ledger`; as it is where that is None.

    run: the key under which it may have been charged before: then it fits, whatever is left.

    Raises LedgerError where the ledger cannot be read, InputError where it cannot be found or adds up other units.
    """
    if ledger is None:
        return document
    if run:
        with open_ledger(ledger, dataset) as found:
            known = found.state().runs.get(run)
        if known is not None and known.status != "void":
            return _with(document, Quote(True, f"charged before, as {run[:12]}: nothing more would be charged", 0.0, 0.0))
    try:
        return _with(document, quote(ledger, dataset, pipeline))
    except (CannotCertify, NotRepresentable) as refusal:
        return _with(document, Quote(False, str(refusal), 0.0, 0.0), refusal.exit_code)


def _with(document: Document, answer: Quote, code: int = 1) -> Document:
    line = f"{'fits in the ledger' if answer.fits else 'the ledger would deny it'}: {answer.message}"
    exit_code = document.exit_code if answer.fits or document.exit_code else code
    said = replace(
        document,
        data={**document.data, "ledger": {"fits": answer.fits, "message": answer.message}, "exit_code": exit_code},
        notes=(*document.notes, line),
        details=(*document.details, line),
    )
    if answer.fits:
        return said
    headline = f"{document.headline}; the ledger would deny it"
    return replace(said, headline=headline, verdict="fail", exit_code=exit_code, why=document.why or "the ledger would deny it")
