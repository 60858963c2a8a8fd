"""The cost under other assumptions that users of the same flags often mean: shuffled batches, and the other adjacency.

Flags such as --sampling-rate are taken to mean Poisson samples and, without --adjacency, add-remove. Many programs shuffle their data
instead, and papers use both adjacencies, so `dpcli account` without a file shows what the same numbers cost there. With a file, nothing
needs to be guessed.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpcli.analysis.account import account, headline
from dpcli.analysis.account_rows import Quantity
from dpcli.base.errors import DpcliError
from dpcli.base.rounding import up
from dpcli.document.document import Document, Table
from dpcli.file.pipeline.flags import pipeline_of_flags

SHUFFLED = "shuffle"  # the sampling scheme for batches that are slices of a shuffled order
OTHER_ADJACENCY = {"add-remove": "replace-one", "replace-one": "add-remove"}
NEIGHBOURS = {"add-remove": "one record more or less", "replace-one": "one record replaced", "zero-out": "one record blanked"}


@dataclass(frozen=True, slots=True)
class Alternative:
    """The headline under another sampling scheme or adjacency. If nothing is certified, `upper` is inf and `reason` says why.

    scheme: the sampling scheme; None if every step uses all records.
    """

    scheme: str | None
    adjacency: str
    quantity: Quantity
    upper: float
    lower: float | None
    accountant: str | None
    reason: str | None = None


def alternatives(
    tables: Mapping[str, Any], delta: float | None, epsilon: float | None, accountants: Sequence[str] | None, group_size: int
) -> tuple[Alternative, ...]:
    """Return the cost under the other adjacency and, if a step uses a sample, the cost of shuffled batches under both adjacencies.

    Zero-out has no other adjacency. There are no alternatives if the entry has no noise_multiplier: a stated epsilon holds only for its own
    adjacency.

    tables: the tables that the flags describe, with Poisson sampling if a step uses a sample. Other arguments are those of `account`.
    """
    stated_adjacency = tables["privacy"]["adjacency"]
    entry = tables["mechanism"][0]  # flags describe one mechanism
    stated_scheme = entry["sampling"]["scheme"] if "sampling" in entry else None
    if "noise_multiplier" not in entry:
        return ()
    other_adjacencies = [OTHER_ADJACENCY[stated_adjacency]] if stated_adjacency in OTHER_ADJACENCY else []
    settings: list[tuple[str | None, str]] = [(stated_scheme, adjacency) for adjacency in other_adjacencies]
    if stated_scheme is not None:
        settings += [(SHUFFLED, adjacency) for adjacency in (stated_adjacency, *other_adjacencies)]
    return tuple(_alternative(tables, scheme, adjacency, delta, epsilon, accountants, group_size) for scheme, adjacency in settings)


def _alternative(
    tables: Mapping[str, Any],
    scheme: str | None,
    adjacency: str,
    delta: float | None,
    epsilon: float | None,
    accountants: Sequence[str] | None,
    group_size: int,
) -> Alternative:
    """Return the cost of the pipeline in `tables` with another sampling scheme and adjacency."""
    quantity: Quantity = "epsilon" if epsilon is None else "delta"
    changed_tables = copy.deepcopy(dict(tables))
    changed_tables["privacy"]["adjacency"] = adjacency
    if scheme is not None:
        changed_tables["mechanism"][0]["sampling"]["scheme"] = scheme
    try:
        pipeline = pipeline_of_flags(changed_tables)
        if accountants:  # `account` asks the named ones; without names, `headline` gives the same number with less work
            result = account(pipeline, accountants, delta, epsilon, group_size)
        else:
            result = headline(pipeline, delta, epsilon, group_size)
    except DpcliError as problem:
        return Alternative(scheme, adjacency, quantity, upper=math.inf, lower=None, accountant=None, reason=str(problem))
    if result.winner is None:
        return Alternative(scheme, adjacency, quantity, result.upper, result.lower, accountant=None, reason="nothing is certified")
    return Alternative(scheme, adjacency, quantity, result.upper, result.lower, result.winner.accountant.name)


def with_alternatives(document: Document, others: Sequence[Alternative], decimals: int) -> Document:
    """Return the document with a table of the alternatives after the table of accountants. In JSON they are the list "beside"."""
    if not others:
        return document
    notes: dict[str, int] = {}
    rows = []
    for other in others:
        sampling = f"{SHUFFLED}, no amplification" if other.scheme == SHUFFLED else other.scheme or "none"
        mark = "" if other.reason is None else f"[{notes.setdefault(other.reason, len(notes) + 1)}]"
        number = up(other.upper, decimals) if math.isfinite(other.upper) else "-"
        rows.append((sampling, other.adjacency, number, other.accountant or mark, NEIGHBOURS[other.adjacency]))
    table = Table(
        f"cost under other assumptions ({others[0].quantity}, upper bounds, rounded up)",
        ("sampling", "adjacency", others[0].quantity, "accountant", "neighbours"),
        tuple(rows),
        numeric=frozenset({2}),
        footnotes=tuple(f"[{number}] {reason}" for reason, number in notes.items()),
    )
    return replace(
        document,
        tables=(document.tables[0], table, *document.tables[1:]),
        data={**document.data, "beside": [_data(o) for o in others]},
    )


def _data(other: Alternative) -> dict[str, object]:
    """Return an alternative as JSON values. Its keys stay, because programs read them."""
    return {
        "sampling": other.scheme,
        "adjacency": other.adjacency,
        f"{other.quantity}_upper": other.upper if math.isfinite(other.upper) else None,
        f"{other.quantity}_lower": other.lower,
        "accountant": other.accountant,
        **({} if other.reason is None else {"reason": other.reason}),
    }
