"""The command `dpcli attest`: write an attestation of the guarantee of a training run's model, or verify one."""

from __future__ import annotations

import os

import click

from dpcli.cli.options import emit, output_options


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
def command(run: str, verify: str | None, certificate: str | None, format_: str, outputs: tuple[str, ...]) -> int:
    """Write attestation.json to RUN, a folder that dpcli train wrote. The attestation is an in-toto statement (v1).

    It contains the digests of the model, the statement and the pipeline file. It also contains epsilon, delta, the unit, the adjacency, the
    accountant, and the head of the ledger. Epsilon is computed again from the run's copy of its file. The attestation is not signed: sign
    its bytes with a tool for DSSE or in-toto, such as cosign. A run that is NOT PRIVATE is refused, and so is a run with a changed file.

    With --certificate, the certificate is checked: it must prove the epsilon of the run, of its pipeline file. The attestation then
    contains its SHA-256. Such an attestation is verified with the same --certificate.

    With --verify, the exit code is 1 if the model, its description, the statement or the pipeline file differs from the attestation in any
    byte. The log of the run (metrics.jsonl) is not attested.
    """
    from dpcli.train.documents.trained import attested, verified

    if verify is not None:
        from dpcli.train.trained.attestation import verify as compared

        return emit(verified(compared(run, verify, certificate)), format_, outputs)
    from dpcli.sessions.folder import replace_file
    from dpcli.train.run.outcome import ATTESTATION
    from dpcli.train.trained.attestation import attestation, text_of

    statement, path = attestation(run, certificate), os.path.join(run, ATTESTATION)
    replace_file(path, text_of(statement))
    return emit(attested(statement, path), format_, outputs)
