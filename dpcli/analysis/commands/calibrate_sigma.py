"""The command `dpcli calibrate-sigma`: solve for the noise of a pipeline that flags or a file describe.

It is the question that most users have first: how much noise for this epsilon? For other parameters there is `dpcli calibrate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from dpcli.analysis.commands.stating import goal_options, refuse_with_file, without_lines
from dpcli.cli.accounting_options import accounting_options, require_one_unit, run_options, write_option
from dpcli.cli.options import emit, output_options

if TYPE_CHECKING:
    from dpcli.analysis.calibrate import Calibration


@click.command("calibrate-sigma", short_help="Find the smallest noise multiplier for a target epsilon.")
@click.argument("file", required=False)
@click.option("--target-epsilon", type=float, help="Largest permitted epsilon. The default is the budget of FILE.")
@goal_options
@run_options
@click.option("-m", "--mechanism", "mechanisms", multiple=True, metavar="NAME", help="Mechanism of FILE to change.")
@write_option("the file with the answer")
@accounting_options
@output_options("table", "total", "records")
def command(
    file: str | None,
    target_epsilon: float | None,
    target_rho: float | None,
    target_advantage: float | None,
    target_tpr: float | None,
    at_fpr: float | None,
    target_mu: float | None,
    mechanisms: tuple[str, ...],
    write: str | None,
    accountants: tuple[str, ...],
    delta: float | None,
    group_size: int,
    format_: str,
    outputs: tuple[str, ...],
    **flags: Any,
) -> int:
    """Find the smallest noise multiplier that keeps epsilon at most the target.

    With FILE, the command solves for every key with the value "calibrate", or for the only mechanism with noise. Several keys get a common
    ratio of noise to sensitivity. A key with { calibrate = { weight = 4.0 } } gets this ratio divided by the square root of its weight, or
    by the weight if delta = 0.

    Without FILE, flags describe DP-SGD: --target-epsilon, --delta, --sampling-rate and --steps. --batch-size with --dataset-size replaces
    --sampling-rate, and --epochs replaces --steps. Without --sampling-rate and --batch-size, the noise is Gaussian on all records, once or
    in each of --steps.

    Exit code 1: a rule calls the pipeline of the flags unsound, or the delta of FILE is too large for its dataset.
    """
    require_one_unit(write, group_size)
    from dpcli.analysis.calibrate_file import calibrate_dp_sgd, calibrate_file, solved_text
    from dpcli.analysis.documents.calibration import document
    from dpcli.analysis.goals import goal_of, refuse_epsilon_flags
    from dpcli.base.errors import InputError
    from dpcli.file.pipeline.flags import pipeline_of_flags
    from dpcli.file.toml.limits import read_bytes
    from dpcli.lint.run import file_deltas, judge

    goal = goal_of(rho=target_rho, advantage=target_advantage, tpr=target_tpr, fpr=at_fpr, mu=target_mu, epsilon=target_epsilon)
    if goal is not None:
        refuse_epsilon_flags(delta, accountants)
    if file is None:
        if goal is not None and write is not None:
            raise InputError("--write without FILE needs --target-epsilon, which becomes the [budget] of the new file")
        result = calibrate_dp_sgd(target_epsilon, delta, flags, accountants or None, group_size, goal)
        text = _file_text(result, flags)
        diagnostics = without_lines(judge(pipeline_of_flags(tables={}, text=text), text.encode()))  # only the text is read
    else:
        refuse_with_file(file, flags)
        data = read_bytes(file)
        result = calibrate_file(
            file, "noise", target_epsilon, delta, mechanisms, accountants or None, group_size, data=data, goal=goal
        )
        diagnostics = file_deltas(result.pipeline, data, delta, result.delta)
        text = solved_text(data, result) if write is not None else ""
    code = emit(document(result, diagnostics), format_, outputs)
    if write is not None:
        from dpcli.cli.new_files import write_new_pipeline
        from dpcli.file.toml.syntax import text_of

        write_new_pipeline(write, text, text_of(data) if file is not None else None)
    return code


def _file_text(calibration: Calibration, flags: dict[str, Any]) -> str:
    """Return the file that the flags describe, with the answer."""
    from dpcli.file.pipeline.flags import Stated, text_of_flags

    ((_, _, noise),) = calibration.values
    stated = Stated(noise_multiplier=noise, **flags)
    given = {name: value for name, value in stated.given.items() if name in flags}  # the answer itself was not a flag
    if calibration.delta is None:
        return text_of_flags(stated.tables(None), "calibrate-sigma", given)
    flags_given = {"target_epsilon": calibration.target, "delta": calibration.delta, **given}
    return text_of_flags(stated.tables(calibration.delta, calibration.target), "calibrate-sigma", flags_given)
