"""The documents of an attestation and of its verification."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpcli.document.document import Document, visible
from dpcli.file.pipeline.datasets import blocks_words
from dpcli.sessions.documents.dry_run import rows_of, shown
from dpcli.train.run.outcome import epsilon_at_delta

if TYPE_CHECKING:
    from dpcli.train.trained.attestation import Verification

UNSIGNED = "unsigned: whoever answers for it signs these bytes (DSSE, payload type application/vnd.in-toto+json)"
ENVELOPED = "its signatures were not checked here: the tool that made them does that"
COVERS = "that the run did what its file says rests on whoever signs; no file can prove that"


def attested(statement: Mapping[str, Any], path: str) -> Document:
    """Return the document of an attestation that was written."""
    predicate = statement["predicate"]
    details = (f"written to {shown(path)}", UNSIGNED)
    data = {"schema": "dpcli/attest/v1", "path": path, "attestation": statement, "exit_code": 0}
    headline = f"attested: {statement['subject'][0]['name']} has {_guarantee(predicate['guarantee'])}"
    return Document(headline, data, "pass", notes=details, details=details)


def verified(verification: Verification) -> Document:
    """Return the document of a verification; exit code 1 if the attestation is not of this run."""
    place, signed = shown(verification.folder), ENVELOPED if verification.signed else UNSIGNED
    data = {
        "schema": "dpcli/attest-verify/v1",
        "verified": not verification.problems,
        "problems": list(verification.problems),
        "signatures": "not checked" if verification.signed else "none",
        "exit_code": 1 if verification.problems else 0,
    }
    if verification.problems:
        problems = tuple(map(visible, verification.problems))
        headline = f"NOT verified: {place} is not what {visible(verification.file)} attests"
        return Document(headline, data, "fail", details=problems, notes=problems, exit_code=1, why=f"{headline}: {problems[0]}")
    headline = f"verified: {place} is what {visible(verification.file)} attests: {_guarantee(verification.claimed)}"
    return Document(headline, data, "pass", notes=(signed, COVERS), details=(signed, COVERS))


def _guarantee(stated: Mapping[str, Any]) -> str:
    """Return the guarantee of a private run in words."""
    window = f"; window {visible(blocks_words(stated['window']))}, {visible(rows_of(stated))}" if "window" in stated else ""
    setting = f"per {visible(stated['unit'])}, {stated['adjacency']}; {stated['accountant']} accountant{window}"
    return f"{epsilon_at_delta(stated['epsilon'], stated['delta'])} ({setting})"
