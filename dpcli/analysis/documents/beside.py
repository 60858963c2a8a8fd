"""The flags under other assumptions, as one more table of an account."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from dpcli.analysis.beside import SHUFFLED, Beside
from dpcli.base.rounding import up
from dpcli.document.document import Document, Table

SAYS = {
    "add-remove": "one record more or less",
    "replace-one": "one record replaced",
    "zero-out": "one record blanked",
}


def with_beside(found: Document, others: Sequence[Beside], decimals: int) -> Document:
    """The document with what else the flags could have meant, after the accountants."""
    if not others:
        return found
    notes: dict[str, int] = {}
    rows = []
    for other in others:
        sampling = f"{SHUFFLED}, no amplification" if other.scheme == SHUFFLED else other.scheme or "none"
        mark = "" if other.reason is None else f"[{notes.setdefault(other.reason, len(notes) + 1)}]"
        number = up(other.upper, decimals) if math.isfinite(other.upper) else "-"
        rows.append((sampling, other.adjacency, number, other.accountant or mark, SAYS[other.adjacency]))
    table = Table(
        f"the same under other assumptions ({others[0].quantity}, upper bounds, rounded up)",
        ("sampling", "adjacency", others[0].quantity, "accountant", "neighbours"),
        tuple(rows),
        frozenset({2}),
        tuple(f"[{number}] {reason}" for reason, number in notes.items()),
    )
    return replace(
        found, tables=(found.tables[0], table, *found.tables[1:]), data={**found.data, "beside": [_data(o) for o in others]}
    )


def _data(other: Beside) -> dict[str, object]:
    return {
        "sampling": other.scheme,
        "adjacency": other.adjacency,
        f"{other.quantity}_upper": other.upper if math.isfinite(other.upper) else None,
        f"{other.quantity}_lower": other.lower,
        "accountant": other.accountant,
        **({} if other.reason is None else {"reason": other.reason}),
    }
