"""The document of an audit that is planned."""

from __future__ import annotations

from dpcli.audit.planned_power import SEEN, PlannedPower
from dpcli.document.document import Document, Table


def planned_document(power: PlannedPower) -> Document:
    """Return the output of `dpcli audit --dry-run`."""
    seen = SEEN[power.kind]
    rows = (("too little noise", power.sentences[0]), *seen.items())
    data = {"schema": "dpcli/audit-plan/v1", "kind": power.kind, "power": list(power.sentences), "seen": seen}
    return Document(
        headline=f"nothing was run: {power.sentences[0]}",
        data=data,
        verdict="pass",
        tables=(Table("what the audit would find", ("fault", "found"), rows, frozenset[int]()),),
        notes=power.sentences[1:],
    )
