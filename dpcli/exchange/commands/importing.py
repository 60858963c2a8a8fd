"""dpcli import: what another library keeps of a private run, as a pipeline file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from dpcli.base.errors import InputError
from dpcli.cli.groups import LazyGroup
from dpcli.cli.options import adjacency_option, composed, dataset_size_option
from dpcli.cli.outputs import new_file_option, write_new_pipeline

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

asserted_options = composed(
    adjacency_option("that was accounted"),
    click.option("--delta", type=float, help="Delta at which epsilon is reported."),
    click.option("--unit", help="What one individual is: example, user, ..."),
    click.option("--max-contributions", type=int, help="Most records that one unit contributes."),
    dataset_size_option,
    new_file_option,
)


def sampling_option(text: str, *schemes: str) -> Callable[[Any], Any]:
    """Add --sampling, which the file does not state."""
    return click.option("--sampling", type=click.Choice(schemes), required=True, help=text)


def ignored_option(part: str) -> Callable[[Any], Any]:
    """Add --ignore, for parts of a file without a known meaning."""
    text = f"A {part.lower()} that says nothing about privacy; repeatable."
    return click.option("--ignore", "ignored", multiple=True, metavar=part, help=text)


def write_made(
    output: str | None, file: str, given: Mapping[str, Any], make: Callable[[Asserted, str], str], note: str = ""
) -> None:
    """Make a text, then print it, or write it to a new file.

    Args:
        given: the flags of `asserted_options`. make: takes what they state, and what messages call the file.
        note: one line on standard error.

    Raises:
        InputError: with the name of the file, in one line also if the reader of files refuses what was made.
    """
    from dpcli.cli.printing import standard_error
    from dpcli.exchange.foreign import Asserted
    from dpcli.file.toml.limits import title

    with naming_file(file, given):
        text = make(Asserted(**given), title(file))
    write_new_pipeline(output, text)
    _complain_about_delta(text, title(file), given["delta"])
    if note:
        with standard_error():
            click.echo(f"dpcli: {note}", err=True)


def _read_and_write_made(
    output: str | None, file: str, given: Mapping[str, Any], what: str, make: Callable[..., str], *more: Any, most: int = 16 << 20
) -> None:
    """Read a file, of at most so many bytes, and leave what `make` makes of its data, of what is asserted, of `more` and of its name."""
    from dpcli.file.toml.limits import read_head, title

    data = read_head(file, most, what)
    if len(data) > most:
        raise InputError(f"{title(file)}: expected at most {most >> 20} MiB of {what}")
    write_made(output, file, given, lambda asserted, place: make(data, asserted, *more, place))


def _complain_about_delta(text: str, path: str, delta: float | None) -> None:
    """Print what DP105 says of --delta, by the number of records that the made pipeline states."""
    from dpcli.cli.printing import complain
    from dpcli.file.pipeline.read import parse
    from dpcli.lint.delta import judged_deltas
    from dpcli.lint.documents.diagnostics import note

    if delta is not None:
        for diagnostic in judged_deltas({"--delta": delta}, parse(text.encode(), path).privacy.dataset_size, path):
            complain(note(diagnostic))


@contextmanager
def naming_file(file: str, given: Mapping[str, Any] = MappingProxyType({})) -> Iterator[None]:
    """Raise every InputError with the name of the file in front. given: flags that stand for the keys that they state."""
    from dpcli.file.toml.findings import InvalidFile
    from dpcli.file.toml.limits import title

    place = title(file)
    try:
        yield
    except InvalidFile as refused:
        lines = "; ".join(dict.fromkeys(_by_flags(d.key, d.message, given) for d in refused.diagnostics))
        raise InputError(f"{place}: {lines}") from None
    except InputError as error:
        raise InputError(str(error) if str(error).startswith(place) else f"{place}: {error}") from None


def _by_flags(key: str, message: str, given: Mapping[str, Any]) -> str:
    """Return a message of the reader with the flag in place of the key that it states, or that is missing."""
    lacking = re.search(r"found (nothing|none)(;|$)", message)
    for name, value in given.items():
        if lacking or value is not None:
            flag = f"--{name.replace('_', '-')}"
            message, key = message.replace(f"privacy.{name}", flag), flag if key == f"privacy.{name}" else key
    return f"{key}: {message}" if key else message


@click.group(cls=LazyGroup, table=SUBCOMMANDS, short_help="Convert another library's record to a pipeline file.")
def command() -> None:
    """Make a pipeline file of what another library keeps of a private run.

    What the library does not record is asked for by a flag, or left as a comment where it belongs. What the format cannot express is
    refused by its name.
    """


@click.command(short_help="The history of an Opacus accountant, from a checkpoint.")
@click.argument("checkpoint")
@click.option(
    "--sampling",
    type=click.Choice(["poisson", "shuffle"]),
    help="How batches were drawn: poisson_sampling of make_private  [default: poisson, and the file says that it is assumed].",
)
@asserted_options
def import_opacus(checkpoint: str, sampling: str | None, output: str | None, **given: Any) -> None:
    """Make a pipeline file of the accountant's history in CHECKPOINT: a file of PrivacyEngine.save_checkpoint, of torch.save of the
    accountant or its state_dict, alone or among other things, or the state_dict as JSON ("-" for standard input).

    Nothing in CHECKPOINT is run, and torch is not needed: pickles are read as plain values, and one that names anything else than
    tensors and plain values is refused.

    The history has noise multipliers, sampling rates and steps, which become one entry, with lists where they change. It does not say how
    batches were drawn (Opacus's number holds for Poisson sampling alone), at which delta, or whose data they are.

    Of Poisson samples and one record, dpcli account finds a little less than Opacus: its PRV accountant adds eps_error, 0.01 where nobody
    set it, and its RDP accountant finds what dpcli account -a rdp does, or a little more.
    """
    from dpcli.exchange.opacus.accountant import read_checkpoint, state_in
    from dpcli.exchange.opacus.phases import ASSUMED, file_of_state, is_assumed

    with naming_file(checkpoint):
        state = state_in(read_checkpoint(checkpoint))
    note = ASSUMED if is_assumed(state, sampling) else ""
    write_made(output, checkpoint, given, lambda asserted, place: file_of_state(state, asserted, sampling, place), note)


@click.command(short_help="A DpEvent of dp-accounting, from JSON.")
@click.argument("file")
@asserted_options
def import_dp_accounting(file: str, output: str | None, **given: Any) -> None:
    """Make a pipeline file of the DpEvent in FILE ("-" for standard input), as json.dump(event.to_named_tuple(), file) writes it.

    An event may also be a table of JSON with the names of its class and of its fields: { "type": "PoissonSampledDpEvent",
    "sampling_probability": 0.01, "event": { "type": "GaussianDpEvent", "noise_multiplier": 1.1 } }. What dpcli export has written is read
    as well. A field that nobody knows is refused. In Python, from_dp_event takes the event itself.

    The event does not say its neighbouring relation, which is the accountant's: state --adjacency. Under replace-one a record moves a sum
    by twice the bound that noise_multiplier is relative to, as PLDAccountant counts it; RdpAccountant counts half of that.
    """
    from dpcli.exchange.events.dp_event import file_of_json

    _read_and_write_made(output, file, given, "a DpEvent", file_of_json)


@click.command(short_help="Flags of tensorflow-privacy's compute_dp_sgd_privacy.")
@click.argument("file")
@sampling_option("How batches were drawn, which the program does not check.", "poisson", "shuffle")
@ignored_option("FLAG")
@asserted_options
def import_tf_privacy(file: str, sampling: str, ignored: tuple[str, ...], output: str | None, **given: Any) -> None:
    """Make a pipeline file of the flags of compute_dp_sgd_privacy in FILE, a flagfile or a command line ("-" for standard input):
    --N=60000 --batch_size=256 --noise_multiplier=1.12 --epochs=60.

    The program prints two numbers, of Poisson sampling and of each example once in an epoch: say with --sampling which batches were drawn.
    Without --noused_microbatching its noise counts half, as the program counts it, and --delta is 1e-6, its own.
    --max_examples_per_user makes the file's unit a user, unless --unit example is stated.
    """
    from dpcli.exchange.tf_privacy import file_of_flags

    _read_and_write_made(output, file, given, "flags", file_of_flags, sampling, ignored)


@click.command(short_help="A DPKerasConfig of jax-privacy, from JSON.")
@click.argument("file")
@sampling_option("How batches were drawn, which jax-privacy does not check.", "poisson", "shuffle")
@ignored_option("FIELD")
@asserted_options
def import_jax_privacy(file: str, sampling: str, ignored: tuple[str, ...], output: str | None, **given: Any) -> None:
    """Make a pipeline file of the DPKerasConfig in FILE, as JSON: json.dumps(dataclasses.asdict(config)) ("-" for standard input).

    Its epsilon becomes the file's budget. jax-privacy counts every step as Poisson sampling: say with --sampling how batches were drawn.
    Noise that is to be calibrated is not known yet: take update_with_calibrated_noise_multiplier(). Where batches are accumulated, each of
    them is a step, with its part of the noise.

    The dp_event of an execution plan is read by dpcli import dp-accounting.
    """
    from dpcli.exchange.jax_privacy import file_of_config

    _read_and_write_made(output, file, given, "a DPKerasConfig", file_of_config, sampling, ignored)


@click.command(short_help="The budget of an OpenDP Context, as OpenDP serialises it.")
@click.argument("file")
@ignored_option("ARGUMENT")
@asserted_options
def import_opendp(file: str, ignored: tuple[str, ...], output: str | None, **given: Any) -> None:
    """Make a pipeline file of the budget of an OpenDP Context: FILE holds what opendp.prelude.serialize(context.accountant) gives
    ("-" for standard input). Nothing of it is run.

    The file states a guarantee for each part of the budget, or one for all of it where queries share it, whatever was spent. Whom it
    protects, the accountant says: its distance between data sets, and d_in.
    """
    from dpcli.exchange.opendp import file_of_accountant

    _read_and_write_made(output, file, given, "an accountant of OpenDP", file_of_accountant, ignored)


@click.command(short_help="The budget of a Tumult Analytics Session, from JSON.")
@click.argument("file")
@ignored_option("FIELD")
@asserted_options
def import_tumult(file: str, ignored: tuple[str, ...], output: str | None, **given: Any) -> None:
    """Make a pipeline file of the budget of a Session and of what it protects, as JSON ("-" for standard input): { "privacy_budget":
    { "type": "ApproxDPBudget", "epsilon": 1, "delta": 1e-9 }, "protected_changes": { "visits": { "type": "AddMaxRows", "max_rows": 3 } } },
    with the names of classes and of their fields. A Session itself keeps no file.

    The file states one guarantee for the whole budget, whatever was spent. A unit may change all tables at once, each by as many rows, or
    by the rows of one identifier.
    """
    from dpcli.exchange.tumult import file_of_session

    _read_and_write_made(output, file, given, "a Session", file_of_session, ignored)


@click.command(short_help="The noise of each step, from a csv.")
@click.argument("file")
@sampling_option("How every batch was drawn: a sample of its own, each record by its own chance.", "poisson")
@ignored_option("COLUMN")
@asserted_options
def import_schedule(file: str, sampling: str, ignored: tuple[str, ...], output: str | None, **given: Any) -> None:
    """Make a pipeline file of the schedule in FILE, a csv with a header row ("-" for standard input).

    A row is a step, or a stage of as many as its steps say. Columns: noise_multiplier, the noise over one record's bound; sampling_rate, or
    batch_size with --dataset-size; steps where a row is several. sigma and noise are read as noise_multiplier, q, sample_rate and
    sampling_probability as sampling_rate, num_steps as steps, and the file says so. Any other column is refused, as it might change what a
    row means: --ignore what does not. The numbers are copied: what is signed does not change with the csv. State --adjacency. A pipeline
    file holds 1 MiB: some 50,000 numbers with all of their digits, 100,000 stages where they are short.

    Shuffled batches cannot be imported as a schedule, because a stage that begins within a pass may hold a record twice.
    """
    from dpcli.exchange.schedule_csv import MOST_BYTES, file_of_schedule

    _read_and_write_made(output, file, given, "a csv", file_of_schedule, ignored, most=MOST_BYTES)
