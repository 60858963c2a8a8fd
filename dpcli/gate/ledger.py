"""Whether what a file costs would still fit into a dataset's ledger; asks, and spends nothing."""

from __future__ import annotations

from typing import Protocol

from dpcli.errors import CannotCertify, InputError, LedgerError, NotRepresentable
from dpcli.gate.verdicts import Condition
from dpcli.pipeline.model import Pipeline
from dpcli.registry import load

KEY = ("privacy",)


class Quote(Protocol):
    """What a ledger answers. share: of its cap that this pipeline alone would take; left: the share that is left before it."""

    @property
    def fits(self) -> bool: ...

    @property
    def message(self) -> str: ...

    @property
    def share(self) -> float: ...

    @property
    def left(self) -> float: ...


class Quoter(Protocol):
    """The ledger's side: one call, from outside any spend."""

    def __call__(self, url: str, dataset: str | None, pipeline: Pipeline, runs: int = 1) -> Quote: ...


def ledger_condition(pipeline: Pipeline, url: str, dataset: str | None) -> Condition:
    """One run of the pipeline against what is left: each file is asked for alone, as if it were the next to be spent."""
    quote: Quoter = load("dpcli.ledger.quote:quote")
    try:
        answer = quote(url, dataset, pipeline)
    except LedgerError as error:
        return Condition("ledger", "error", str(error), ())
    except InputError as error:
        return Condition("ledger", "invalid", str(error), KEY)
    except (CannotCertify, NotRepresentable) as error:
        return Condition("ledger", "unknown", str(error), KEY)
    return Condition(
        "ledger", "pass" if answer.fits else "fail", answer.message, ("mechanism",), shares=(answer.share, answer.left)
    )
