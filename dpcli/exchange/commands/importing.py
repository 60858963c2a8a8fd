"""The command `dpcli import`, which converts the record that another library keeps of a private run to a pipeline file.

A *record* is a file, such as an accountant's history, flags or a csv; each subcommand has its reader in dpcli/exchange, and runs no code of
the record. What the record lacks, such as the adjacency, the user asserts by flags (`asserted_options`). An unknown field might change the
meaning of the others, and is refused unless --ignore names it. The text of the new file is read once by the ordinary reader before it is
written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from dpcli.base.errors import InputError
from dpcli.cli.accounting_options import adjacency_option, dataset_size_option
from dpcli.cli.groups import LazyGroup
from dpcli.cli.new_files import new_file_option, write_new_pipeline
from dpcli.cli.options import composed

if TYPE_CHECKING:
    from dpcli.exchange.foreign import Asserted

SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "opacus": ("dpcli.exchange.commands.importing:import_opacus", "The history of an Opacus accountant, from a checkpoint."),
    "dp-accounting": ("dpcli.exchange.commands.importing:import_dp_accounting", "A DpEvent of dp-accounting, from JSON."),
    "tf-privacy": ("dpcli.exchange.commands.importing:import_tf_privacy", "Flags of tensorflow-privacy's compute_dp_sgd_privacy."),
    "jax-privacy": ("dpcli.exchange.commands.importing:import_jax_privacy", "A DPKerasConfig of jax-privacy, from JSON."),
    "opendp": ("dpcli.exchange.commands.importing:import_opendp", "The budget of an OpenDP Context, as OpenDP serialises it."),
    "tumult": ("dpcli.exchange.commands.importing:import_tumult", "The budget of a Tumult Analytics Session, from JSON."),
    "schedule": ("dpcli.exchange.commands.importing:import_schedule", "The noise of each step, from a csv."),
}

MOST_BYTES = 16 << 20  # largest number of bytes of a record, unless its format has another limit

asserted_options = composed(
    adjacency_option("of the record"),
    click.option("--delta", type=float, help="Delta at which epsilon is reported."),
    click.option("--unit", help="Unit of privacy: example, user, ..."),
    click.option("--max-contributions", type=int, help="Largest number of records that one unit contributes."),
    dataset_size_option,
    new_file_option,
)


def sampling_option(text: str, *schemes: str) -> Callable[[Any], Any]:
    """Return the option --sampling with this help, for records that do not state the sampling scheme."""
    return click.option("--sampling", type=click.Choice(schemes), required=True, help=text)


def ignored_option(part: str) -> Callable[[Any], Any]:
    """Return the option --ignore for unknown parts of a file, each of which is a `part`, such as FIELD."""
    text = f"Ignore this {part.lower()}, which does not concern privacy; repeatable."
    return click.option("--ignore", "ignored", multiple=True, metavar=part, help=text)


def convert_and_write(
    output: str | None, file: str, stated: Mapping[str, Any], make: Callable[[Asserted, str], str], note: str = ""
) -> None:
    """Convert a record to the text of a pipeline file, and print the text or write it to a new file.

    Args:
        output: Path of the new file; None to print the text.
        file: Path of the record.
        stated: Values of `asserted_options` by name.
        make: Function that returns the text, from the keys that the user states and the name of the record in messages.
        note: Line that is printed to standard error, if any.

    Raises:
        InputError: The record cannot be converted, or the reader of pipeline files refuses the text. The message is one line that begins
            with the name of the record.
    """
    from dpcli.cli.printing import standard_error
    from dpcli.exchange.foreign import Asserted
    from dpcli.file.toml.limits import title

    with naming_file(file, stated):
        text = make(Asserted(**stated), title(file))
    write_new_pipeline(output, text)
    _warn_about_delta(text, title(file), stated["delta"])
    if note:
        with standard_error():
            click.echo(f"dpcli: {note}", err=True)


def _read_convert_and_write(
    output: str | None,
    file: str,
    stated: Mapping[str, Any],
    record: str,
    make: Callable[..., str],
    *more: Any,
    most: int = MOST_BYTES,
) -> None:
    """Read a record of at most `most` bytes, convert it, and print or write the pipeline file. Arguments as in `convert_and_write`.

    Args:
        record: Description of the expected record, for messages.
        make: Function that returns the text, from the data, the stated keys, `more`, and the name of the record.
    """
    from dpcli.file.toml.limits import read_head, title

    data = read_head(file, most, record)
    if len(data) > most:
        raise InputError(f"{title(file)}: expected at most {most >> 20} MiB of {record}")
    convert_and_write(output, file, stated, lambda asserted, place: make(data, asserted, *more, place))


def _warn_about_delta(text: str, path: str, delta: float | None) -> None:
    """Print the finding of DP105 about a large --delta, or that of DP306 about an unknown number of records, if there is one."""
    from dpcli.cli.printing import complain
    from dpcli.file.pipeline.read import parse
    from dpcli.lint.delta import judged_deltas
    from dpcli.lint.documents.diagnostics import note

    if delta is not None:
        for diagnostic in judged_deltas({"--delta": delta}, parse(text.encode(), path).privacy.dataset_size, path):
            complain(note(diagnostic))


@contextmanager
def naming_file(file: str, stated: Mapping[str, Any] = MappingProxyType({})) -> Iterator[None]:
    """Put the name of the file in front of the message of every InputError that is raised inside.

    Args:
        file: Path of the file.
        stated: Values of flags by the key of [privacy] that they state. Messages name the flag in place of the key.
    """
    from dpcli.file.toml.findings import InvalidFile
    from dpcli.file.toml.limits import title

    place = title(file)
    try:
        yield
    except InvalidFile as refused:
        messages = (_by_flags(diagnostic.key, diagnostic.message, stated) for diagnostic in refused.diagnostics)
        lines = "; ".join(dict.fromkeys(messages))
        raise InputError(f"{place}: {lines}") from None
    except InputError as error:
        raise InputError(str(error) if str(error).startswith(place) else f"{place}: {error}") from None


def _by_flags(key: str, message: str, stated: Mapping[str, Any]) -> str:
    """Return a message of the reader, with flags in place of the keys that they state or, in a message about a missing key, could state."""
    is_missing = re.search(r"found (nothing|none)(;|$)", message) is not None
    for name, value in stated.items():
        if is_missing or value is not None:
            flag, flag_key = f"--{name.replace('_', '-')}", f"privacy.{name}"
            message = message.replace(flag_key, flag)
            if key == flag_key:
                key = flag
    return f"{key}: {message}" if key else message


@click.group(cls=LazyGroup, table=SUBCOMMANDS, short_help="Convert another library's record to a pipeline file.")
def command() -> None:
    """Convert the record that another library keeps of a private run to a pipeline file.

    Flags state what the record lacks. A missing key without a flag becomes a comment in the file. A record that a pipeline file cannot
    express is refused, and the message names the reason.
    """


@click.command(short_help=SUBCOMMANDS["opacus"][1])
@click.argument("checkpoint")
@click.option(
    "--sampling",
    type=click.Choice(["poisson", "shuffle"]),
    help="How batches were drawn: poisson_sampling of make_private  [default: poisson, marked in the file as an assumption].",
)
@asserted_options
def import_opacus(checkpoint: str, sampling: str | None, output: str | None, **stated: Any) -> None:
    """Convert the history of the accountant in CHECKPOINT to a pipeline file. CHECKPOINT is a file of PrivacyEngine.save_checkpoint, a file
    of torch.save that contains the accountant or its state_dict, or the state_dict as JSON ("-" for standard input).

    No code in CHECKPOINT is run, and torch is not needed. Pickles are read as plain values. A pickle that names anything but tensors and
    plain values is refused.

    The history has noise multipliers, sampling rates and steps. They become one entry, with a list for each value that changes. The history
    does not say how batches were drawn (the epsilon of Opacus holds only for Poisson sampling), and it has no delta and no unit.

    With Poisson sampling and one record per unit, dpcli account prints a little less than Opacus: the PRV accountant of Opacus adds
    eps_error, 0.01 by default, and its RDP accountant gives the epsilon of dpcli account -a rdp, or a little more.
    """
    from dpcli.exchange.opacus.accountant import read_checkpoint, state_in
    from dpcli.exchange.opacus.phases import ASSUMED, file_of_state, is_assumed

    with naming_file(checkpoint):
        state = state_in(read_checkpoint(checkpoint))
    note = ASSUMED if is_assumed(state, sampling) else ""
    convert_and_write(output, checkpoint, stated, lambda asserted, place: file_of_state(state, asserted, sampling, place), note)


@click.command(short_help=SUBCOMMANDS["dp-accounting"][1])
@click.argument("file")
@asserted_options
def import_dp_accounting(file: str, output: str | None, **stated: Any) -> None:
    """Convert the DpEvent in FILE ("-" for standard input), as json.dump(event.to_named_tuple(), file) writes it, to a pipeline file.

    An event may also be a JSON table with the names of its class and of its fields: { "type": "PoissonSampledDpEvent",
    "sampling_probability": 0.01, "event": { "type": "GaussianDpEvent", "noise_multiplier": 1.1 } }. A file of dpcli export is read too. An
    unknown field is refused. In Python, dpcli.from_dp_event takes the event itself.

    An event has no neighbouring relation, as its accountant has it: state --adjacency. Under replace-one, a record moves a sum by twice the
    bound to which noise_multiplier is relative. PLDAccountant uses this sensitivity, and RdpAccountant half of it.
    """
    from dpcli.exchange.events.dp_event import file_of_json

    _read_convert_and_write(output, file, stated, "a DpEvent", file_of_json)


@click.command(short_help=SUBCOMMANDS["tf-privacy"][1])
@click.argument("file")
@sampling_option("How batches were drawn. The program does not check this.", "poisson", "shuffle")
@ignored_option("FLAG")
@asserted_options
def import_tf_privacy(file: str, sampling: str, ignored: tuple[str, ...], output: str | None, **stated: Any) -> None:
    """Convert the flags of compute_dp_sgd_privacy in FILE, a flagfile or a command line ("-" for standard input), to a pipeline file. Such
    flags are --N=60000 --batch_size=256 --noise_multiplier=1.12 --epochs=60.

    The program prints two numbers: one for Poisson sampling, and one for batches that contain each example once per epoch. State with
    --sampling how batches were drawn. As in the program, the noise is halved unless --noused_microbatching is given, and the default of
    --delta is 1e-6. --max_examples_per_user makes the unit a user, unless --unit example is stated.
    """
    from dpcli.exchange.tf_privacy import file_of_flags

    _read_convert_and_write(output, file, stated, "flags", file_of_flags, sampling, ignored)


@click.command(short_help=SUBCOMMANDS["jax-privacy"][1])
@click.argument("file")
@sampling_option("How batches were drawn. jax-privacy does not check this.", "poisson", "shuffle")
@ignored_option("FIELD")
@asserted_options
def import_jax_privacy(file: str, sampling: str, ignored: tuple[str, ...], output: str | None, **stated: Any) -> None:
    """Convert the DPKerasConfig in FILE, the JSON of json.dumps(dataclasses.asdict(config)) ("-" for standard input), to a pipeline file.

    The epsilon of the config becomes the budget of the file. jax-privacy accounts for every step as Poisson sampling: state with --sampling
    how batches were drawn. If the noise is still to be calibrated, call update_with_calibrated_noise_multiplier() first. If batches are
    accumulated, each batch is a step with its part of the noise.

    For the dp_event of an execution plan, use dpcli import dp-accounting.
    """
    from dpcli.exchange.jax_privacy import file_of_config

    _read_convert_and_write(output, file, stated, "a DPKerasConfig", file_of_config, sampling, ignored)


@click.command(short_help=SUBCOMMANDS["opendp"][1])
@click.argument("file")
@ignored_option("ARGUMENT")
@asserted_options
def import_opendp(file: str, ignored: tuple[str, ...], output: str | None, **stated: Any) -> None:
    """Convert the budget of an OpenDP Context to a pipeline file. FILE has the output of opendp.prelude.serialize(context.accountant) ("-"
    for standard input). No code in FILE is run.

    The pipeline file states a guarantee for each part of the budget or, if queries share the budget, one guarantee for all of it. Unspent
    budget is included. The distance between data sets and d_in of the accountant determine the adjacency and max_contributions.
    """
    from dpcli.exchange.opendp import file_of_accountant

    _read_convert_and_write(output, file, stated, "an accountant of OpenDP", file_of_accountant, ignored)


@click.command(short_help=SUBCOMMANDS["tumult"][1])
@click.argument("file")
@ignored_option("FIELD")
@asserted_options
def import_tumult(file: str, ignored: tuple[str, ...], output: str | None, **stated: Any) -> None:
    """Convert the budget and the protected changes of a Session, as JSON in FILE ("-" for standard input), to a pipeline file. The JSON has
    the names of Tumult's classes and fields: { "privacy_budget": { "type": "ApproxDPBudget", "epsilon": 1, "delta": 1e-9 },
    "protected_changes": { "visits": { "type": "AddMaxRows", "max_rows": 3 } } }. A Session itself writes no file.

    The pipeline file states one guarantee for the whole budget, including its unspent part. A unit may change all tables at once: each by
    its number of rows, or all rows of one identifier.
    """
    from dpcli.exchange.tumult import file_of_session

    _read_convert_and_write(output, file, stated, "a Session", file_of_session, ignored)


@click.command(short_help=SUBCOMMANDS["schedule"][1])
@click.argument("file")
@sampling_option("How batches were drawn: each is a new sample, and contains each record independently.", "poisson")
@ignored_option("COLUMN")
@asserted_options
def import_schedule(file: str, sampling: str, ignored: tuple[str, ...], output: str | None, **stated: Any) -> None:
    """Convert the schedule in FILE, a csv with a header row ("-" for standard input), to a pipeline file.

    A row is a step or, with a column steps, a stage of several steps. The columns are: noise_multiplier, the noise over the bound of one
    record; sampling_rate, or batch_size with --dataset-size; and steps. sigma and noise are read as noise_multiplier; q, sample_rate and
    sampling_probability as sampling_rate; num_steps as steps. The file says so. Any other column is refused, as it might change the meaning
    of a row: use --ignore if it does not. The pipeline file contains the numbers and does not refer to the csv. State --adjacency. A
    pipeline file has at most 1 MiB. That suffices for about 50,000 numbers with all digits, or for 100,000 stages of short numbers.

    Shuffled batches cannot be imported as a schedule, because a stage that begins within a pass may contain a record twice.
    """
    # `sampling` has only one possible value. The option is there so that the user states it.
    from dpcli.exchange.schedule_csv import MOST_BYTES as MOST_BYTES_OF_CSV
    from dpcli.exchange.schedule_csv import file_of_schedule

    _read_convert_and_write(output, file, stated, "a csv", file_of_schedule, ignored, most=MOST_BYTES_OF_CSV)
