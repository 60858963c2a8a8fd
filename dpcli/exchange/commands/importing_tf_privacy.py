"""dpcli import tf-privacy."""

from __future__ import annotations

from typing import Any

import click

from dpcli.exchange.commands.importing_options import asserted_options, ignored_option, leave_made


@click.command(short_help="Flags of tensorflow-privacy's compute_dp_sgd_privacy.")
@click.argument("file")
@click.option(
    "--sampling",
    type=click.Choice(["poisson", "shuffle"]),
    required=True,
    help="How batches were drawn, which the program does not check.",
)
@ignored_option("FLAG")
@asserted_options
def command(file: str, sampling: str, ignored: tuple[str, ...], output: str | None, **given: Any) -> None:
    """Make a pipeline file of the flags of compute_dp_sgd_privacy in FILE, a flagfile or a command line ("-" for standard input):
    --N=60000 --batch_size=256 --noise_multiplier=1.12 --epochs=60.

    The program prints two numbers, of Poisson sampling and of each example once in an epoch: say with --sampling which batches were drawn.
    Without --noused_microbatching its noise counts half, as the program counts it, and --delta is 1e-6, its own.
    --max_examples_per_user makes the file's unit a user, unless --unit example is stated.
    """
    from dpcli.exchange.foreign import MOST
    from dpcli.exchange.tf_privacy import file_of_flags
    from dpcli.file.toml.limits import read_head

    data = read_head(file, MOST, "flags")
    leave_made(output, file, given, lambda asserted, place: file_of_flags(data, asserted, sampling, ignored, place))
