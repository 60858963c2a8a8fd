"""dpcli calibrate-sigma."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from dpcli.cli.options import accounting_options, adjacency_option, emit, output_options, refuse, write_option

if TYPE_CHECKING:
    from dpcli.analysis.calibrate import Calibration


@click.command("calibrate-sigma", short_help="The smallest noise multiplier for a target epsilon.")
@click.argument("file", required=False)
@click.option("--target-epsilon", type=float, help="The epsilon to meet; the file's budget where absent.")
@click.option("--sampling-rate", type=float, help="Poisson sampling rate (without FILE)  [default: 1].")
@click.option("--steps", type=int, help="Number of steps (without FILE).")
@adjacency_option("(without FILE)  [default: add-remove]")
@click.option("-m", "--mechanism", "mechanisms", multiple=True, metavar="NAME", help="The mechanism of FILE that is to change.")
@write_option("the file with the answer in place")
@accounting_options
@output_options("table", "total", "records")
def command(
    file: str | None,
    target_epsilon: float | None,
    sampling_rate: float | None,
    steps: int | None,
    adjacency: str | None,
    mechanisms: tuple[str, ...],
    write: str | None,
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
    from dpcli.analysis.solved_file import solved_text
    from dpcli.present.calibration import document
    from dpcli.toml.limits import read_bytes

    if file is None:
        found = calibrate_dp_sgd(target_epsilon, delta, sampling_rate, steps, adjacency, accountants or None, group_size)
        given = {"target_epsilon": target_epsilon, "delta": delta, "sampling_rate": sampling_rate, "steps": steps}
        text = _written(found, given, adjacency) if write is not None else ""
    else:
        refuse("FILE", sampling_rate=sampling_rate, steps=steps, adjacency=adjacency)
        data = read_bytes(file)
        found = calibrate_file(file, "noise", target_epsilon, delta, mechanisms, accountants or None, group_size, data)
        text = solved_text(data, found) if write is not None else ""
    if write is not None:
        from dpcli.cli.new_file import leave_pipeline

        leave_pipeline(write, text)
    return emit(document(found), format_, outputs)


def _written(found: Calibration, given: dict[str, Any], adjacency: str | None) -> str:
    """The file of the flags, with the answer."""
    from dpcli.pipeline.flags import Stated, text_of_flags

    ((_, _, noise),) = found.values
    stated = Stated(noise, sampling_rate=given["sampling_rate"], steps=given["steps"], adjacency=adjacency)
    asked = {**given, "adjacency": adjacency}
    tables = stated.tables(found.delta, found.target)
    return text_of_flags(tables, "calibrate-sigma", {name: value for name, value in asked.items() if value is not None})
