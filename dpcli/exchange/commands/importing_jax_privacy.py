"""dpcli import jax-privacy."""

from __future__ import annotations

from typing import Any

import click

from dpcli.exchange.commands.importing_options import asserted_options, ignored_option, leave_made


@click.command(short_help="A DPKerasConfig of jax-privacy, from JSON.")
@click.argument("file")
@click.option(
    "--sampling",
    type=click.Choice(["poisson", "shuffle"]),
    required=True,
    help="How batches were drawn, which jax-privacy does not check.",
)
@ignored_option("FIELD")
@asserted_options
def command(file: str, sampling: str, ignored: tuple[str, ...], output: str | None, **given: Any) -> None:
    """Make a pipeline file of the DPKerasConfig in FILE, as JSON: json.dumps(dataclasses.asdict(config)) ("-" for standard input).

    Its epsilon becomes the file's budget. jax-privacy counts every step as Poisson sampling: say with --sampling how batches were drawn.
    Noise that is to be calibrated is not known yet: take update_with_calibrated_noise_multiplier(). Where batches are accumulated, each of
    them is a step, with its part of the noise.

    The dp_event of an execution plan is read by dpcli import dp-accounting.
    """
    from dpcli.exchange.foreign import MOST
    from dpcli.exchange.jax_privacy import file_of_config
    from dpcli.file.toml.limits import read_head

    data = read_head(file, MOST, "a DPKerasConfig")
    leave_made(output, file, given, lambda asserted, place: file_of_config(data, asserted, sampling, ignored, place))
