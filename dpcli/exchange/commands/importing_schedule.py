"""dpcli import schedule."""

from __future__ import annotations

from typing import Any

import click

from dpcli.exchange.commands.importing_options import asserted_options, ignored_option, leave_made


@click.command(short_help="The noise of each step, from a csv.")
@click.argument("file")
@click.option(
    "--sampling",
    type=click.Choice(["poisson"]),
    required=True,
    help="How every batch was drawn: a sample of its own, each record by its own chance.",
)
@ignored_option("COLUMN")
@asserted_options
def command(file: str, sampling: str, ignored: tuple[str, ...], output: str | None, **given: Any) -> None:
    """Make a pipeline file of the schedule in FILE, a csv with a header row ("-" for standard input).

    A row is a step, or a stage of as many as its steps say. Columns: noise_multiplier, the noise over one record's bound; sampling_rate, or
    batch_size with --dataset-size; steps where a row is several. sigma and noise are read as noise_multiplier, q, sample_rate and
    sampling_probability as sampling_rate, num_steps as steps, and the file says so. Any other column is refused, as it might change what a
    row means: --ignore what does not. The numbers are copied: what is signed does not change with the csv. State --adjacency. A pipeline
    file holds 1 MiB: some 50,000 numbers with all of their digits, 100,000 stages where they are short.

    Shuffled batches cannot be imported as a schedule, because a stage that begins within a pass may hold a record twice.
    """
    from dpcli.exchange.schedule import MOST, file_of_schedule
    from dpcli.file.toml.limits import read_head

    data = read_head(file, MOST, "a csv")
    leave_made(output, file, given, lambda asserted, place: file_of_schedule(data, asserted, ignored, place))
