"""What a move from one ledger to another came to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpcli.document.document import Document

if TYPE_CHECKING:
    from dpcli.ledger.copying import Copied


def moved(found: Sequence[Copied]) -> Document:
    """Every dataset with the end of what was copied; what their verification found comes after it."""
    lines = [_line(one) for one in found]
    problems = [f"{one.dataset}: {problem}" for one in found for problem in (*one.verified.problems, *one.verified.notes)]
    code = 1 if any(one.verified.problems for one in found) else 0
    records = [_record(one) for one in found]
    return Document(
        lines[0] if len(lines) == 1 else f"{len(lines)} datasets are in {found[0].to}",
        {"schema": "dpcli/budget-copy/v1", "datasets": records, "exit_code": code},
        "fail" if code else "pass",
        notes=tuple(problems),
        records=records,
        details=(*(lines if len(lines) > 1 else ()), *problems),
        log=tuple(problems),
        exit_code=code,
        why="the copies are whole, and verify finds more spent than the entries say" if code else "",
    )


def _line(one: Copied) -> str:
    done = "had moved before" if one.repeated else "moved"
    said = f"{one.verified.costs} cost{'' if one.verified.costs == 1 else 's'} computed again"
    return f"{one.dataset}: {done} to {one.to}, {one.at.seq} entries, head {one.at.hash[:16]}; the copy has {one.verified.entries}, {said}"


def _record(one: Copied) -> dict[str, Any]:
    return {
        "dataset": one.dataset,
        "to": one.to,
        "entries": one.at.seq,
        "head": one.at.hash,
        "repeated": one.repeated,
        "copy": {"entries": one.verified.entries, "head": one.verified.head.hash, "problems": list(one.verified.problems)},
    }
