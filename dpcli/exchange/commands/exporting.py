"""dpcli export: a pipeline, or a trained model, as another library keeps it."""

from __future__ import annotations

import click

from dpcli.cli.groups import LazyGroup
from dpcli.cli.outputs import new_file_option, path_or_stdout, write_new

SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "opacus": ("dpcli.exchange.commands.exporting:export_opacus", "The state of an Opacus accountant."),
    "dp-accounting": ("dpcli.exchange.commands.exporting:export_dp_accounting", "A DpEvent of dp-accounting, as JSON."),
    "tumult": ("dpcli.exchange.commands.exporting:export_tumult", "The budget of a Tumult Analytics Session, as JSON."),
    "hugging-face": ("dpcli.exchange.commands.exporting:export_hugging_face", "A trained model with its model card."),
}


@click.group(cls=LazyGroup, table=SUBCOMMANDS, short_help="Write a pipeline, or a trained model, as another library keeps it.")
def command() -> None:
    """Write a pipeline as another library keeps it, for its accountants to check the number, or a trained model with its model card.

    What that library cannot say is refused by its name. A pipeline's file holds [privacy] and the mechanisms as well, so that dpcli import
    gives back a pipeline of the same cost. Its name, its budget, comments and the tables of other commands are not kept.
    """


@click.command(short_help="The state of an Opacus accountant.")
@click.argument("file")
@click.option(
    "--accountant",
    type=click.Choice(["prv", "rdp", "gdp"]),
    default="prv",
    show_default=True,
    help="Accountant of Opacus that will read it.",
)
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    callback=path_or_stdout,
    help="Write to PATH, which must not exist: JSON where it ends in .json, else a file of torch. Without it, or for -, JSON on standard "
    "output.",
)
def export_opacus(file: str, accountant: str, output: str | None) -> None:
    """Write the pipeline in FILE ("-" for standard input) as the state_dict of an Opacus accountant: its history of noise multipliers,
    sampling rates and steps. torch.load reads it, also with weights_only, and load_state_dict of the accountant takes it.

    Opacus counts Gaussian noise over one record's contribution on Poisson samples, under add-remove; everything else is refused.
    """
    from dpcli.exchange.opacus.phases import json_text, state_of, torch_bytes
    from dpcli.file.pipeline.read import load

    state = state_of(load(file), accountant)
    write_new(output, json_text(state), None if output is None or output.endswith(".json") else torch_bytes(state))


@click.command(short_help="A DpEvent of dp-accounting, as JSON.")
@click.argument("file")
@new_file_option
def export_dp_accounting(file: str, output: str | None) -> None:
    """Write the pipeline in FILE ("-" for standard input) as a DpEvent: JSON with the names of classes and fields that
    dp_accounting.dp_event has, and the neighbouring relation that its accountant is to be given. In Python, to_dp_event makes the event.

    One record per unit alone. Under replace-one, PLDAccountant counts what the event says; RdpAccountant counts half the sensitivity.
    """
    from dpcli.cli.printing import standard_error
    from dpcli.exchange.events.dp_event import event_json
    from dpcli.file.pipeline.read import load

    pipeline = load(file)
    write_new(output, event_json(pipeline))
    with standard_error():
        if pipeline.privacy.adjacency.value == "replace-one":
            click.echo("dpcli: check it with PLDAccountant: under replace-one RdpAccountant counts half the sensitivity", err=True)


@click.command(short_help="The budget of a Tumult Analytics Session, as JSON.")
@click.argument("file")
@click.option("--table", default="data", show_default=True, metavar="NAME", help="The table of the Session that holds the records.")
@new_file_option
def export_tumult(file: str, table: str, output: str | None) -> None:
    """Write the guarantee that the pipeline in FILE ("-" for standard input) states as the privacy budget of a Session, with the change
    that it protects: the fields of Session.from_dataframe, as dpcli import tumult reads them.

    A Session has one budget, of pure epsilon, of epsilon and delta, or of rho, for a unit of at most max_contributions rows; a file of
    noise, of samples or of several mechanisms is refused.
    """
    from dpcli.exchange.tumult import session_of
    from dpcli.file.pipeline.read import load

    write_new(output, session_of(load(file), table))


@click.command(short_help="A trained model with its model card.")
@click.argument("run")
@click.option("-o", "--output", metavar="FOLDER", required=True, help="Write to FOLDER, which must not exist.")
def export_hugging_face(run: str, output: str) -> None:
    """Write the model of RUN, a folder that dpcli train left, to FOLDER for the Hugging Face Hub: the weights as transformers or PEFT reads
    them (any other model as dpcli.load_model does), the tokenizer, the statement, and README.md, a model card with epsilon, delta, unit and
    adjacency in its front matter.

    Nothing is uploaded. What dpcli attest would refuse is refused: a run that is NOT PRIVATE, or of which a file has changed. The files
    name the run, and may name its data as the training file does: read them before you publish.
    """
    from dpcli.cli.printing import standard_error
    from dpcli.train.trained.hub import write_hub_folder

    model = write_hub_folder(run, output)
    with standard_error():
        click.echo(f"wrote {output} for {model.library}: {', '.join(model.files)}; next: read {output}/README.md", err=True)
