"""dpcli export hugging-face."""

from __future__ import annotations

import click


@click.command(short_help="A trained model with its model card.")
@click.argument("run")
@click.option("-o", "--output", metavar="FOLDER", required=True, help="Write to FOLDER, which must not exist.")
def command(run: str, output: str) -> None:
    """Write the model of RUN, a folder that dpcli train left, to FOLDER for the Hugging Face Hub: the weights as transformers or PEFT reads
    them (any other model as dpcli.load_model does), the tokenizer, the statement, and README.md, a model card with epsilon, delta, unit and
    adjacency in its front matter.

    Nothing is uploaded. What dpcli attest would refuse is refused: a run that is NOT PRIVATE, or of which a file has changed. The files
    name the run, and may name its data as the training file does: read them before you publish.
    """
    from dpcli.cli.printing import heard
    from dpcli.train.trained.hub import published

    found = published(run, output)
    with heard():
        click.echo(f"wrote {output} for {found.library}: {', '.join(found.files)}; next: read {output}/README.md", err=True)
