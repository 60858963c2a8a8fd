"""The documents of `dpcli predict`, `dpcli evaluate` and `dpcli attest`, which are about the model of a training run.

The documents state the guarantee of the run as its description holds it (model.json, train/run/description.py), and say whether the printed
numbers are covered by it.

A document is what a command prints (document/document.py): a headline, and the same facts as JSON (`data`). `details` are the lines of
plain text, and `notes` those of other formats. `total` is the single number of the result, for scripts. `records` and `sheet` are the rows
of jsonl and csv. `visible` escapes characters of a text that could control a terminal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpcli.certify.named_certificate import NamedProof
from dpcli.document.document import Document, Sheet, Table, visible
from dpcli.file.pipeline.datasets import blocks_words
from dpcli.sessions.documents.dry_run import shown, stored_rows_words
from dpcli.train.documents.run_statement import metrics_words
from dpcli.train.run.outcome import epsilon_at_delta

if TYPE_CHECKING:
    from dpcli.train.run.description import Description
    from dpcli.train.trained.attestation import Verification
    from dpcli.train.trained.loading import ModelEvaluation
    from dpcli.train.trained.trained_model import Predictions

LARGEST_TABLE = 20  # largest number of rows in a printed table; csv and json have every row. Arbitrary.
FIRST_COLUMNS = 3  # columns of a printed table: the row, and the label with its probability, or the prompt with its text
FREE = "predictions cost no epsilon: they are computed from the private model alone"
NOISELESS = (
    "the metric was computed from these data without noise: the epsilon of the run does not cover it; do not publish it unless the data "
    "are public"
)
DECLARED = "the training file declares these data public (not checked); no noise was added"
SEEDED = "NOT PRIVATE (the noise is seeded, or visible to an audit): the run guarantees nothing"

UNSIGNED = "unsigned: the person responsible for the run signs these bytes (DSSE, payload type application/vnd.in-toto+json)"
ENVELOPED = "the signatures were not checked: use the tool that made them"
COVERS = "the signer vouches that the run followed its file; no file can prove this"


def predictions_document(description: Description, answers: Predictions) -> Document:
    """Return the document of `dpcli predict`."""
    private, count = description.guarantee["private"], len(answers.rows)
    columns = answers.columns[:FIRST_COLUMNS]
    rows = tuple(tuple(map(_cell_text, row[:FIRST_COLUMNS])) for row in answers.rows[:LARGEST_TABLE])
    more = (f"{count - LARGEST_TABLE:,} more rows: -f csv and -f json have all of them",) if count > LARGEST_TABLE else ()
    first_row = answers.rows[0][:FIRST_COLUMNS] if answers.rows else ()
    numeric = frozenset(number for number, value in enumerate(first_row) if not isinstance(value, str))
    headline = f"{count:,} answers of {shown(description.folder)}, {guarantee_words(description)}"
    records = tuple(dict(zip(answers.columns, row, strict=True)) for row in answers.rows)
    data = {"schema": "dpcli/predict/v1", "run": description.run, "result": result(description), "answers": records, "exit_code": 0}
    return Document(
        headline,
        data,
        verdict="pass" if private else "warn",
        tables=(Table("answers", columns, rows, numeric, more),),
        notes=(FREE,) if private else (SEEDED,),
        records=records,
        sheet=Sheet(answers.columns, answers.rows),
    )


def _cell_text(value: object) -> str:
    """Return a value as the text of a table's cell."""
    return f"{value:.4f}" if isinstance(value, float) else visible(str(value))


def evaluation_document(evaluation: ModelEvaluation) -> Document:
    """Return the document of `dpcli evaluate`."""
    description = evaluation.description
    measured = f"{metrics_words(evaluation.metrics)} on {visible(evaluation.source)}"
    headline = f"{measured}: {shown(description.folder)}, {guarantee_words(description)}"
    warned = DECLARED if evaluation.declared else NOISELESS
    data = {
        "schema": "dpcli/evaluate/v1",
        "run": description.run,
        "metrics": dict(evaluation.metrics),
        "data": evaluation.source,
        "declared_public": evaluation.declared,
        "result": result(description),
        "exit_code": 0,
    }
    total = repr(next(iter(evaluation.metrics.values()), None))
    verdict = "pass" if evaluation.declared and description.guarantee["private"] else "warn"
    return Document(headline, data, verdict, notes=(warned,), details=(warned,), total=total)  # type: ignore[arg-type]


def guarantee_words(description: Description) -> str:
    """Return the guarantee of a run in words, with its unit and adjacency."""
    guarantee = description.guarantee
    if guarantee["epsilon"] is None:
        return SEEDED
    setting = f"per {visible(guarantee['unit'])}, {guarantee['adjacency']}"
    return f"{epsilon_at_delta(guarantee['epsilon'], guarantee['delta'])} ({setting})"


def result(description: Description) -> dict[str, Any]:
    """Return the guarantee as JSON values."""
    return {"epsilon_upper": description.guarantee["epsilon"], "delta": description.guarantee["delta"]}


def attestation_document(statement: Mapping[str, Any], path: str) -> Document:
    """Return the document of `dpcli attest`, after the attestation was written to `path`."""
    predicate = statement["predicate"]
    details = (*_proof_lines(predicate.get("certificate")), f"written to {shown(path)}", UNSIGNED)
    data = {"schema": "dpcli/attest/v1", "path": path, "attestation": statement, "exit_code": 0}
    headline = f"attested: {statement['subject'][0]['name']} has {_attested_guarantee(predicate['guarantee'])}"
    return Document(headline, data, "pass", notes=details, details=details)


def verification_document(verification: Verification) -> Document:
    """Return the document of `dpcli attest --verify`. Its exit code is 1 if the attestation does not match the run."""
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
        headline = f"NOT verified: {place} does not match the attestation {visible(verification.file)}"
        why = f"{headline}: {problems[0]}"  # the reason for the exit code, in one line
        return Document(headline, data, "fail", details=problems, notes=problems, exit_code=1, why=why)
    headline = (
        f"verified: {place} matches the attestation {visible(verification.file)}: {_attested_guarantee(verification.claimed)}"
    )
    lines = (*_proof_lines(verification.proof), signed, COVERS)
    return Document(headline, data | {"certificate": verification.proof}, "pass", notes=lines, details=lines)


def _proof_lines(proof: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the line about the certificate that an attestation names; an empty tuple if it names none."""
    return () if proof is None else (NamedProof(proof["digest"]["sha256"], proof["epsilon"], proof["delta"]).words,)


def _attested_guarantee(guarantee: Mapping[str, Any]) -> str:
    """Return the guarantee of a private run in words, with its unit, adjacency and accountant, and the window of its data."""
    window = ""
    if "window" in guarantee:
        window = f"; window {visible(blocks_words(guarantee['window']))}, {visible(stored_rows_words(guarantee))}"
    setting = f"per {visible(guarantee['unit'])}, {guarantee['adjacency']}; {guarantee['accountant']} accountant{window}"
    return f"{epsilon_at_delta(guarantee['epsilon'], guarantee['delta'])} ({setting})"
