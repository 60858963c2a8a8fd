"""An attestation of a run as a document, and what became of its verification."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpcli.base.rounding import up
from dpcli.document.document import Document, visible
from dpcli.file.pipeline.datasets import blocks_words
from dpcli.sessions.documents.dry_run import rows_of, shown

if TYPE_CHECKING:
    from dpcli.train.trained.verification import Verification

UNSIGNED = "unsigned: whoever answers for it signs these bytes (DSSE, payload type application/vnd.in-toto+json)"
ENVELOPED = "its signatures were not checked here: the tool that made them does that"
COVERS = "that the run did what its file says rests on whoever signs; no file can prove that"


def attested(statement: Mapping[str, Any], path: str) -> Document:
    """What `dpcli attest` wrote."""
    predicate = statement["predicate"]
    details = (f"written to {shown(path)}", UNSIGNED)
    data = {"schema": "dpcli/attest/v1", "path": path, "attestation": statement, "exit_code": 0}
    said = f"attested: {statement['subject'][0]['name']} has {_guarantee(predicate['guarantee'])}"
    return Document(said, data, "pass", notes=details, details=details)


def verified(found: Verification) -> Document:
    """What `dpcli attest --verify` says; exit code 1 where the attestation is not one of this run."""
    place, signed = shown(found.folder), ENVELOPED if found.signed else UNSIGNED
    data = {
        "schema": "dpcli/attest-verify/v1",
        "verified": not found.problems,
        "problems": list(found.problems),
        "signatures": "not checked" if found.signed else "none",
        "exit_code": 1 if found.problems else 0,
    }
    if found.problems:
        problems = tuple(map(visible, found.problems))
        said = f"NOT verified: {place} is not what {visible(found.file)} attests"
        return Document(said, data, "fail", details=problems, notes=problems, exit_code=1, why=f"{said}: {problems[0]}")
    said = f"verified: {place} is what {visible(found.file)} attests: {_guarantee(found.claimed)}"
    return Document(said, data, "pass", notes=(signed, COVERS), details=(signed, COVERS))


def _guarantee(stated: Mapping[str, Any]) -> str:
    """Of a run that was found private."""
    window = f"; window {visible(blocks_words(stated['window']))}, {visible(rows_of(stated))}" if "window" in stated else ""
    setting = f"per {visible(stated['unit'])}, {stated['adjacency']}; {stated['accountant']} accountant{window}"
    return f"epsilon <= {up(stated['epsilon'])} at delta = {stated['delta']!r} ({setting})"
