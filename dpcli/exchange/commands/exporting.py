"""The command `dpcli export`, which converts a pipeline or a trained model to the format of another library.

Each subcommand calls one converter, and writes its result to a new file or folder, or prints it. A pipeline that the format cannot express
is refused, since the accountant of the other library would otherwise answer for another pipeline.
"""

from __future__ import annotations

import click

from dpcli.cli.groups import LazyGroup
from dpcli.cli.new_files import new_file_option, path_or_stdout, write_new

SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "opacus": ("dpcli.exchange.commands.exporting:export_opacus", "The state of an Opacus accountant."),
    "dp-accounting": ("dpcli.exchange.commands.exporting:export_dp_accounting", "A DpEvent of dp-accounting, as JSON."),
    "tumult": ("dpcli.exchange.commands.exporting:export_tumult", "The budget of a Tumult Analytics Session, as JSON."),
    "hugging-face": ("dpcli.exchange.commands.exporting:export_hugging_face", "A trained model with its model card."),
}


@click.group(
    cls=LazyGroup, table=SUBCOMMANDS, short_help="Convert a pipeline, or a trained model, to the format of another library."
)
def command() -> None:
    """Convert a pipeline to the format of another library, so that its accountants can check the epsilon; or write a trained model with its
    model card.

    A pipeline that the library cannot express is refused, and the message names the reason. The new file also contains [privacy] and the
    mechanisms of the pipeline, so that dpcli import restores a pipeline of the same cost. The name, the budget, comments and the tables of
    other commands are lost.
    """


@click.command(short_help=SUBCOMMANDS["opacus"][1])
@click.argument("file")
@click.option(
    "--accountant",
    type=click.Choice(["prv", "rdp", "gdp"]),
    default="prv",
    show_default=True,
    help="Accountant of Opacus that will read the state.",
)
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    callback=path_or_stdout,
    help="Write to PATH, which must not exist: JSON if PATH ends in .json, else a file of torch. Without PATH, or for -, print JSON to "
    "standard output.",
)
def export_opacus(file: str, accountant: str, output: str | None) -> None:
    """Write the pipeline in FILE ("-" for standard input) as the state_dict of an Opacus accountant: its history of noise multipliers,
    sampling rates and steps. torch.load reads the file, also with weights_only, and load_state_dict of the accountant takes the result.

    Opacus accounts for Gaussian noise on Poisson samples under add-remove, with one record per unit. Everything else is refused.
    """
    from dpcli.exchange.opacus.phases import json_text, state_of, torch_bytes
    from dpcli.file.pipeline.read import load

    state = state_of(load(file), accountant)
    is_json = output is None or output.endswith(".json")
    write_new(output, json_text(state), data=None if is_json else torch_bytes(state))


@click.command(short_help=SUBCOMMANDS["dp-accounting"][1])
@click.argument("file")
@new_file_option
def export_dp_accounting(file: str, output: str | None) -> None:
    """Write the pipeline in FILE ("-" for standard input) as a DpEvent: JSON with the names of classes and fields in
    dp_accounting.dp_event, and the neighbouring relation for its accountant. In Python, dpcli.to_dp_event returns the event itself.

    A unit must contribute one record. Under replace-one, PLDAccountant uses the sensitivity of the event, and RdpAccountant half of it.
    """
    from dpcli.cli.printing import standard_error
    from dpcli.exchange.events.dp_event import event_json
    from dpcli.file.pipeline.read import load

    pipeline = load(file)
    write_new(output, event_json(pipeline))
    with standard_error():  # discards the message if nobody can read it
        if pipeline.privacy.adjacency.value == "replace-one":
            click.echo(
                "dpcli: check the event with PLDAccountant: under replace-one RdpAccountant uses half the sensitivity", err=True
            )


@click.command(short_help=SUBCOMMANDS["tumult"][1])
@click.argument("file")
@click.option("--table", default="data", show_default=True, metavar="NAME", help="Name of the Session's table with the records.")
@new_file_option
def export_tumult(file: str, table: str, output: str | None) -> None:
    """Write the guarantee that the pipeline in FILE ("-" for standard input) states as the privacy budget of a Session, with its protected
    change: the fields of Session.from_dataframe, which dpcli import tumult reads too.

    A Session has one budget for a unit of at most max_contributions rows: a pure epsilon, an epsilon and a delta, or a rho. A file with
    noise, sampling or several mechanisms is refused.
    """
    from dpcli.exchange.tumult import session_of
    from dpcli.file.pipeline.read import load

    write_new(output, session_of(load(file), table))


@click.command(short_help=SUBCOMMANDS["hugging-face"][1])
@click.argument("run")
@click.option("-o", "--output", metavar="FOLDER", required=True, help="Write to FOLDER, which must not exist.")
def export_hugging_face(run: str, output: str) -> None:
    """Write the model of RUN, a folder of dpcli train, to FOLDER for the Hugging Face Hub: the weights in the format of transformers or
    PEFT (for other models, that of dpcli.load_model), the tokenizer, the statement, and README.md, a model card with epsilon, delta, unit
    and adjacency in its front matter.

    Nothing is uploaded. A run that dpcli attest refuses is refused: one that is NOT PRIVATE, or with a changed file. The new files name the
    run, and may name its data if the training file does. Read them before you publish.
    """
    from dpcli.cli.printing import standard_error
    from dpcli.train.trained.hub import write_hub_folder

    model = write_hub_folder(run, output)
    with standard_error():
        click.echo(f"wrote {output} for {model.library}: {', '.join(model.files)}; next: read {output}/README.md", err=True)
