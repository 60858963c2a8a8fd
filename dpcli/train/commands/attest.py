"""The command `dpcli attest`: state what the model of a training run guarantees, or verify such a statement."""

from __future__ import annotations

import click

from dpcli.cli.options import emit, output_options


@click.command(short_help="Attest what the model of a training run guarantees; verify it.")
@click.argument("run")
@click.option(
    "--verify", metavar="FILE", help="Compare RUN with an attestation, or a signed envelope of one; signatures are not checked."
)
@output_options("text")
def command(run: str, verify: str | None, format_: str, outputs: tuple[str, ...]) -> int:
    """Write attestation.json into the folder RUN, which dpcli train left: an in-toto statement (v1) with the digest of the model, epsilon,
    delta, unit and adjacency, the accountant, the digests of the statement and the pipeline file, and the head of the ledger.

    The epsilon is computed anew from the run's copy of its file first. The attestation is not signed: sign its bytes with a tool for DSSE
    or in-toto, such as cosign. A run that is NOT PRIVATE, or of which a file has changed, is refused.

    --verify: exit code 1 where a byte of the model, its description, the statement or the pipeline file differs from what is
    attested. The log of the run (metrics.jsonl) is not attested.
    """
    from dpcli.train.documents.trained import attested, verified

    if verify is not None:
        from dpcli.train.trained.attestation import verify as compared

        return emit(verified(compared(run, verify)), format_, outputs)
    import os

    from dpcli.sessions.folder import replace_file
    from dpcli.train.run.outcome import ATTESTATION
    from dpcli.train.trained.attestation import attestation, text_of

    statement, path = attestation(run), os.path.join(run, ATTESTATION)
    replace_file(path, text_of(statement))
    return emit(attested(statement, path), format_, outputs)
