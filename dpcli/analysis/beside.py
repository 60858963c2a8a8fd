"""The same flags under other assumptions that people often mean: batches that are shuffled, neighbours that are replaced."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpcli.analysis.account import Account, account, headline
from dpcli.analysis.rows import Quantity
from dpcli.base.errors import DpcliError
from dpcli.file.pipeline.flags import pipeline_of_flags

SHUFFLED = "shuffle"
OTHER = {"add-remove": "replace-one", "replace-one": "add-remove"}


@dataclass(frozen=True, slots=True)
class Beside:
    """One other reading of the flags.

    scheme: None where every step sees every record. upper: its headline, inf where nothing is certified; reason: why it has none.
    """

    scheme: str | None
    adjacency: str
    quantity: Quantity
    upper: float
    lower: float | None
    accountant: str | None
    reason: str | None = None


def beside(
    tables: Mapping[str, Any], delta: float | None, epsilon: float | None, accountants: Sequence[str] | None, group_size: int
) -> tuple[Beside, ...]:
    """What holds under the other adjacency, and where batches are slices of a shuffled order, under both.

    Args:
        tables: what the flags say; Poisson sampling where a step sees a sample.
        delta, epsilon, accountants, group_size: as for `account`.
    """
    stated = tables["privacy"]["adjacency"]
    entry = tables["mechanism"][0]
    scheme = entry["sampling"]["scheme"] if "sampling" in entry else None
    if "noise_multiplier" not in entry:
        return ()  # somebody's statement, which holds for what it was made
    others = [OTHER[stated]] if stated in OTHER else []
    other: list[tuple[str | None, str]] = [(scheme, adjacency) for adjacency in others]
    if scheme is not None:
        other += [(SHUFFLED, adjacency) for adjacency in (stated, *others)]
    return tuple(_one(_changed(tables, *to), *to, delta, epsilon, accountants, group_size) for to in other)


def _changed(tables: Mapping[str, Any], scheme: str | None, adjacency: str) -> dict[str, Any]:
    found = copy.deepcopy(dict(tables))
    found["privacy"]["adjacency"] = adjacency
    if scheme is not None:
        found["mechanism"][0]["sampling"]["scheme"] = scheme
    return found


def _one(
    tables: Mapping[str, Any],
    scheme: str | None,
    adjacency: str,
    delta: float | None,
    epsilon: float | None,
    accountants: Sequence[str] | None,
    group_size: int,
) -> Beside:
    quantity: Quantity = "epsilon" if epsilon is None else "delta"
    try:
        pipeline = pipeline_of_flags(tables)
        found: Account = (
            account(pipeline, accountants, delta, epsilon, group_size)
            if accountants
            else headline(pipeline, delta, epsilon, group_size)
        )
    except DpcliError as problem:
        return Beside(scheme, adjacency, quantity, math.inf, None, None, str(problem))
    winner = None if found.winner is None else found.winner.accountant.name
    return Beside(scheme, adjacency, quantity, found.upper, found.lower, winner, None if winner else "nothing is certified")
