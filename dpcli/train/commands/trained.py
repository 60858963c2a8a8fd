"""The commands about the model of a training run: `dpcli predict`, `dpcli evaluate` and `dpcli attest`.

Each takes the folder of a run, which train/run/results.py wrote. No command here charges a ledger. The work is done in train/trained, and
train/documents/trained.py turns its results into documents, which `emit` prints in the requested formats.
"""

from __future__ import annotations

import os

import click

from dpcli.base.errors import InputError
from dpcli.cli.document_files import write
from dpcli.cli.options import RealRange, emit, output_options


@click.command(short_help="Print labels or text from a training run's model.")
@click.argument("run")
@click.argument("data", required=False)
@click.option("--prompt", "prompts", multiple=True, metavar="TEXT", help="Give this text to the language model; repeatable.")
@click.option(
    "--tokens", type=click.IntRange(min=1), default=64, show_default=True, help="Largest number of tokens of generated text."
)
@click.option(
    "--temperature",
    type=RealRange(min=0.0),
    default=1.0,
    show_default=True,
    help="Sampling temperature; 0 picks the most likely token.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    help="Seed of generated text; the same seed gives the same text. By default, the text is random.",
)
@click.option("--parquet", metavar="PATH", help="Also write all rows to PATH as parquet.")
@output_options("table", "records")
def predict(
    run: str,
    data: str | None,
    prompts: tuple[str, ...],
    tokens: int,
    temperature: float,
    seed: int | None,
    parquet: str | None,
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Print the answers of the model in RUN, a folder that dpcli train wrote. An answer is a label with its probability, or a text.

    DATA names the records: digits, a .npz file with an array "inputs", a .csv or .parquet file with the columns of the training data in
    their order, or module:function. For a language model, DATA names the texts: a .txt, .csv, .jsonl or .parquet file, or module:function.
    Labels in DATA are ignored. Predictions cost no epsilon, however many there are.
    """
    from dpcli.train.documents.trained import predictions_document
    from dpcli.train.trained.loading import load_model
    from dpcli.train.trained.trained_model import ModelInput, parquet_of

    if data is None and not prompts:
        raise InputError("DATA: expected records, or a --prompt, found neither")
    model = load_model(run)
    answers = model.answers(ModelInput(data, prompts, tokens, temperature, seed))
    if parquet is not None:
        write(parquet, parquet_of(answers))
    return emit(predictions_document(model.description, answers), format_, outputs)


@click.command(short_help="Measure the metric of a training run's model.")
@click.argument("run")
@click.argument("data", required=False)
@output_options("text", "total")
def evaluate(run: str, data: str | None, format_: str, outputs: tuple[str, ...]) -> int:
    """Print the metric of the model in RUN, a folder that dpcli train wrote. The metric is accuracy, perplexity, or your own function.

    DATA names labelled records, as in dpcli predict. Without DATA, the metric is measured on the data that the training file declares
    public. The metric is computed without noise, so the epsilon of the run does not cover it. Do not publish it unless the data are public.
    """
    from dpcli.train.documents.trained import evaluation_document
    from dpcli.train.trained.loading import evaluate as evaluate_model

    return emit(evaluation_document(evaluate_model(run, data)), format_, outputs)


@click.command(short_help="Attest the guarantee of a training run's model, or verify an attestation.")
@click.argument("run")
@click.option(
    "--verify",
    metavar="FILE",
    help="Compare RUN with the attestation in FILE, or with a signed envelope of one. Signatures are not checked.",
)
@click.option(
    "--certificate", metavar="PATH", help="Name the certificate at PATH, which dpcli certify wrote, as the proof of epsilon."
)
@output_options("text")
def attest(run: str, verify: str | None, certificate: str | None, format_: str, outputs: tuple[str, ...]) -> int:
    """Write attestation.json to RUN, a folder that dpcli train wrote. The attestation is an in-toto statement (v1).

    It contains the digests of the model, the statement and the pipeline file. It also contains epsilon, delta, the unit, the adjacency, the
    accountant, and the head of the ledger. Epsilon is computed again from the run's copy of its file. The attestation is not signed: sign
    its bytes with a tool for DSSE or in-toto, such as cosign. A run that is NOT PRIVATE is refused, and so is a run with a changed file.

    With --certificate, the certificate is checked: it must prove the epsilon of the run, of its pipeline file. The attestation then
    contains its SHA-256. Such an attestation is verified with the same --certificate.

    With --verify, the exit code is 1 if the model, its description, the statement or the pipeline file differs from the attestation in any
    byte. The log of the run (metrics.jsonl) is not attested.
    """
    from dpcli.train.documents.trained import attestation_document, verification_document

    if verify is not None:
        from dpcli.train.trained.attestation import verify as verify_attestation

        return emit(verification_document(verify_attestation(run, verify, certificate)), format_, outputs)
    from dpcli.sessions.folder import replace_file
    from dpcli.train.run.outcome import ATTESTATION
    from dpcli.train.trained.attestation import attestation, attestation_bytes

    statement, path = attestation(run, certificate), os.path.join(run, ATTESTATION)
    replace_file(path, attestation_bytes(statement))
    return emit(attestation_document(statement, path), format_, outputs)
