"""Documents of `dpcli certify`: what was proved of a file (`document_of_proof`), and what a certificate proves (`document_of_check`).

A *document* holds what a command prints: the first line, notes, tables and the JSON object, with a verdict and an exit code; it is shown in
the format that the user asked for. The *headline* of a file is the bound that the accountants print. A *claim* of a certificate is an upper
or a lower bound, and its *proofs* are plans by which the checker recomputes the bound (certify/certificate.py).
"""

from __future__ import annotations

import json
from typing import Any

from dpcli.analysis.documents.account import lint_notes
from dpcli.base.errors import CannotCertify
from dpcli.certify.certificate import Proof
from dpcli.certify.named_certificate import digest_of, proved_sentences, require_same_mechanisms, text_of
from dpcli.document.document import Document, Table
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.parts import scheme_names
from dpcli.file.toml.findings import Diagnostic
from dpcli.lint.documents.diagnostics import diagnostic_data, finding

FAILED = 1  # exit code if a certificate proves nothing, or if a budget is exceeded


def document_of_proof(proof: Proof, diagnostics: tuple[Diagnostic, ...], path: str | None) -> Document:
    """Return the document of a proof. The verdict is "fail" if the proved epsilon, or the account, exceeds the budget of the file.

    diagnostics: what lint rules find in the file. An error among them makes the exit code 1.
    path: path of the written certificate; None if none was written.
    """
    account = proof.account  # the accountants' result: it bounds `quantity`, epsilon or delta, where the other one is `at`
    claims = proof.certificate["claims"]  # the upper bound, and then a lower one if it is proved
    digest = digest_of(text_of(proof.certificate))
    proved_bound = proof.epsilon if account.quantity == "epsilon" else proof.delta
    is_headline = proved_bound == proof.headline
    statement = f"epsilon <= {proof.epsilon} at delta = {proof.delta} (ball arithmetic, {_bits(claims[0])} bits)"
    privacy = account.pipeline.privacy
    setting = f"per {privacy.unit or 'record'}, {privacy.adjacency.value}, sampling: {scheme_names(account.pipeline)}"
    first_line = f"proved: {statement}, {setting}"
    notes = [*lint_notes(diagnostics), *_notes(proof, is_headline)]
    if path is not None:
        notes.append(f"certificate: {path}, sha256:{digest}; dpcli certify --check {path} checks it")
    is_over = account.exit_code == FAILED or _exceeds_cap(proof)
    has_error = any(diagnostic.severity == "error" for diagnostic in diagnostics)
    exit_code = FAILED if is_over else int(has_error)
    data = {
        "schema": "dpcli/certify/v1",
        "epsilon": proof.epsilon,
        "delta": proof.delta,
        "quantity": account.quantity,
        "headline": proof.headline,
        "headline_proved": is_headline,
        "lower": proof.lower,
        "reasons": list(proof.reasons),
        "certificate": proof.certificate,
        "certificate_sha256": digest,
        "diagnostics": [diagnostic_data(diagnostic) for diagnostic in diagnostics],
        "exit_code": exit_code,
    }
    return Document(
        first_line,
        data,
        verdict="fail" if is_over else "pass",
        tables=(_plans(claims),),
        notes=tuple(notes),
        total=proved_bound,
        findings=tuple(finding(diagnostic) for diagnostic in diagnostics),
        exit_code=exit_code,
        why="the proved epsilon exceeds the budget" if is_over else "",
    )


def _notes(proof: Proof, is_headline: bool) -> list[str]:
    """Return the notes about what is proved besides the headline, what is not, and what is assumed.

    is_headline: whether the proved bound is that of the accountants.
    """
    account, notes = proof.account, []
    if not is_headline:
        notes.append(f"the accountants say {account.quantity} <= {proof.headline}, of which no proof was found")
    if proof.lower is not None:
        notes.append(f"proved: {account.quantity} > {proof.lower} for some data, since the pairs are attained")
    notes += [f"not proved: {reason}" for reason in proof.reasons]
    notes += [f"assumed: {assumption}" for assumption in proof.certificate["assumes"]]
    notes.append(f"assumed: {account.pipeline.path or 'the file'} describes what runs (sha256 {str(account.pipeline.sha256)[:12]})")
    return notes


def _exceeds_cap(proof: Proof) -> bool:
    """Return whether the proved epsilon is above the file's cap on epsilon at the same delta. Without such a cap it is not."""
    account = proof.account
    cap = account.budget.epsilon if account.budget else None
    return cap is not None and account.quantity == "epsilon" and cap.delta == account.at and float(proof.epsilon) > cap.cap


def _plans(claims: list[dict[str, Any]]) -> Table:
    """Return a table with the plan of each proof. Frequencies and nodes are empty where a method has none."""
    columns = ("bound", "direction", "method", "frequencies", "nodes", "bits")
    rows = []
    for claim in claims:
        for direction, plan in claim["proofs"].items():
            frequencies, nodes = str(plan.get("frequencies", "")), str(_nodes(plan) or "")
            rows.append((claim["bound"], direction, plan["method"], frequencies, nodes, str(plan["bits"])))
    numeric = frozenset(map(columns.index, ("frequencies", "nodes", "bits")))
    return Table("proofs", columns, tuple(rows), numeric)


def document_of_check(path: str, certificate: dict[str, Any], digest: str, pipeline: Pipeline | None) -> Document:
    """Check a certificate and return the document that says what it proves. If it proves nothing, the verdict is "fail", with the reason.

    digest: SHA-256 of the certificate's file.
    pipeline: the pipeline that the certificate must be about; None to check the proofs alone.
    Raises CannotCertify if the certificate is about other mechanisms than those of the pipeline.
    """
    if pipeline is not None:
        require_same_mechanisms(path, certificate, pipeline)
    data: dict[str, Any] = {"schema": "dpcli/certify-check/v1", "certificate": path, "sha256": digest}
    data |= {"proved": [], "reason": None, "exit_code": 0}
    try:
        sentences = proved_sentences(path, certificate)
    except CannotCertify as error:
        reason = str(error).removeprefix(f"{path}: not proved: ")
        return Document(str(error), data | {"reason": reason, "exit_code": FAILED}, verdict="fail", exit_code=FAILED)
    notes = [f"certificate: sha256:{digest}"]
    own_file = certificate.get("file")
    if pipeline is not None and isinstance(own_file, dict) and own_file.get("sha256") != pipeline.sha256:
        notes.append(
            f"{pipeline.path} has other bytes than the file that was proved (sha256 {str(pipeline.sha256)[:12]}, not "
            f"{str(own_file.get('sha256'))[:12]}), and the same mechanisms"
        )
    notes.append("assumed: the stated pairs dominate the mechanisms, which is what the next lines are about")
    notes += [f"assumed: {' '.join(str(text).split())}" for text in certificate.get("assumes", ())]
    notes += [f"about: {json.dumps(certificate.get(key))}" for key in ("statement", "file")]
    notes += [f"part: {json.dumps(part)}" for part in certificate["parts"]]
    for place, alternative in enumerate(certificate.get("alternatives") or (), 1):
        notes += [f"part of alternative {place}: {json.dumps(part)}" for part in alternative]
    return Document("; ".join(sentences), data | {"proved": sentences}, verdict="pass", notes=tuple(notes))


def _bits(claim: dict[str, Any]) -> int:
    """Return the largest precision, in bits, of a claim's proofs."""
    return max(int(plan["bits"]) for plan in claim["proofs"].values())


def _nodes(plan: dict[str, Any]) -> int:
    """Return the number of nodes of all integrals of a plan; 0 if it has none."""
    return sum(part["order"] * len(part["panels"]) for part in plan.get("parts", ()) if "panels" in part)
