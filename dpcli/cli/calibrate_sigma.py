"""dpcli calibrate-sigma."""

from __future__ import annotations

import click

from dpcli.cli.options import accounting_options, emit, output_options, refuse


@click.command("calibrate-sigma", short_help="The smallest noise multiplier for a target epsilon.")
@click.argument("file", required=False)
@click.option("--target-epsilon", type=float, help="The epsilon to meet; the file's budget where absent.")
@click.option("--sampling-rate", type=float, help="Poisson sampling rate (without FILE)  [default: 1].")
@click.option("--steps", type=int, help="Number of steps (without FILE).")
@click.option(
    "--adjacency",
    type=click.Choice(["add-remove", "replace-one", "zero-out"]),
    help="Neighbouring relation (without FILE)  [default: add-remove].",
)
@click.option("-m", "--mechanism", "mechanisms", multiple=True, metavar="NAME", help="The mechanism of FILE that is to change.")
@accounting_options
@output_options("table", "total", "records")
def command(
    file: str | None,
    target_epsilon: float | None,
    sampling_rate: float | None,
    steps: int | None,
    adjacency: str | None,
    mechanisms: tuple[str, ...],
    accountants: tuple[str, ...],
    delta: float | None,
    group_size: int,
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """The smallest noise multiplier that keeps epsilon at most the target.

    With FILE: solves for every key that says "calibrate", or for the one mechanism that has noise. Without FILE: DP-SGD from
    --target-epsilon, --delta, --sampling-rate and --steps.
    """
    from dpcli.analysis.calibrate_file import calibrate_dp_sgd, calibrate_file
    from dpcli.present.calibration import document

    if file is None:
        found = calibrate_dp_sgd(target_epsilon, delta, sampling_rate, steps, adjacency, accountants or None, group_size)
    else:
        refuse("FILE", sampling_rate=sampling_rate, steps=steps, adjacency=adjacency)
        found = calibrate_file(file, "noise", target_epsilon, delta, mechanisms, accountants or None, group_size)
    return emit(document(found), format_, outputs)
