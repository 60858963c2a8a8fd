"""Documents of results of the Python interface, which a notebook shows as HTML (base/displayed.py).

A *document* is a result in words and tables, before a format renders it. plugin.py registers each function here by the name of the class of
results that it shows. A result in Python has no command that would have checked its delta, so findings about delta (lint/delta.py) are
added here.
"""

from __future__ import annotations

from dpcli.analysis.account import Account
from dpcli.analysis.calibrate import Calibration
from dpcli.analysis.documents import account as account_report
from dpcli.analysis.documents import calibration as calibration_report
from dpcli.analysis.epsilon import Epsilons
from dpcli.base.displayed import Displayed
from dpcli.base.rounding import down, up
from dpcli.document.document import Document, Table
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.toml.findings import Diagnostic
from dpcli.lint.delta import judged_deltas

MOST_ROWS = 60  # rows that a notebook shows of a table; a note counts the others


def account(account: Account) -> Document:
    """Return the document that `dpcli account` prints, with findings about the deltas at which bounds are printed."""
    delta = account.at if account.quantity == "epsilon" else None
    epsilon_verdict = None if account.budget is None else account.budget.epsilon
    cap_delta = None if epsilon_verdict is None else epsilon_verdict.delta
    deltas = {"delta": delta, "budget.delta": None if cap_delta == delta else cap_delta}
    return account_report.document(account, _findings(account.pipeline, deltas))


def calibration(calibration: Calibration) -> Document:
    """Return the document that `dpcli calibrate` prints, with findings about its delta."""
    return calibration_report.document(calibration, _findings(calibration.pipeline, {"delta": calibration.delta}))


def _findings(pipeline: Pipeline, deltas: dict[str, float | None]) -> tuple[Diagnostic, ...]:
    """Return findings about the deltas, by the key that states each. None stands for no delta."""
    return judged_deltas(deltas, pipeline.privacy.dataset_size, pipeline.path or "<pipeline>")


def line(displayed: Displayed) -> Document:
    """Return a document with the one-line description of a result that has no document of its own."""
    return Document(headline=repr(displayed), data={})


def pipeline(pipeline: Pipeline) -> Document:
    """Return the document of a pipeline: the protected unit and the mechanisms, as the file states them. It computes no cost."""
    privacy, cap = pipeline.privacy, pipeline.budget
    stated = f"per {privacy.unit or 'record'}, {privacy.adjacency.value}, releases: {privacy.releases or 'not stated'}"
    delta = "" if privacy.delta is None else f", delta = {privacy.delta!r}"
    budget = "" if cap is None or cap.epsilon is None else f"; budget: epsilon {cap.epsilon!r}"
    rows = tuple(
        (
            entry.name,
            entry.type,
            f"{entry.steps:,} steps" if entry.epochs is None else f"{entry.epochs:g} epochs",
            "none" if entry.sampling is None else entry.sampling.scheme,
        )
        for entry in pipeline.mechanisms
    )
    more = (f"and {len(rows) - MOST_ROWS:,} more",) if len(rows) > MOST_ROWS else ()
    table = Table("mechanisms", ("mechanism", "type", "runs", "sampling"), rows[:MOST_ROWS], numeric=frozenset({2}), footnotes=more)
    return Document(headline=f"{pipeline.name or pipeline.path or 'pipeline'}: {stated}{delta}{budget}", data={}, tables=(table,))


def epsilons(epsilons: Epsilons) -> Document:
    """Return the document of arrays of epsilons, with a row for each setting in the order of the arrays."""
    deltas, lowers, uppers = epsilons.delta.ravel(), epsilons.lower.ravel(), epsilons.upper.ravel()
    shown = zip(deltas[:MOST_ROWS].tolist(), lowers[:MOST_ROWS].tolist(), uppers[:MOST_ROWS].tolist(), strict=True)
    rows = tuple((repr(delta), up(upper), down(lower)) for delta, lower, upper in shown)
    more = (f"and {len(deltas) - MOST_ROWS:,} more",) if len(deltas) > MOST_ROWS else ()
    table = Table("epsilon", ("at delta", "epsilon: at most", "at least"), rows, numeric=frozenset({0, 1, 2}), footnotes=more)
    return Document(headline=f"epsilon of {len(deltas):,} settings (upper bounds, rounded up)", data={}, tables=(table,))
