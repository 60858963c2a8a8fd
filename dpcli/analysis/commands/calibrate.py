"""The command `dpcli calibrate`: solve for one parameter of a pipeline file so that it meets a target.

It reads the flags; analysis/calibrate_file.py solves, and documents/calibration.py says the answer. calibrate_sigma.py is the same for
noise only, and also without a file.
"""

from __future__ import annotations

import click

from dpcli.analysis.commands.stating import goal_options
from dpcli.cli.accounting_options import accounting_options, require_one_unit, write_option
from dpcli.cli.options import emit, output_options


@click.command(short_help="Solve for steps, epochs, batch size, rate, radius, scale or noise.")
@click.argument("file")
@click.option(
    "--solve",
    type=click.Choice(["steps", "epochs", "batch-size", "rate", "radius", "scale", "noise"]),
    required=True,
    help="Parameter to solve for.",
)
@click.option("--target-epsilon", type=float, help="Largest permitted epsilon. The default is the budget of the file.")
@goal_options
@click.option(
    "-m",
    "--mechanism",
    "mechanisms",
    multiple=True,
    metavar="NAME",
    help="Mechanism to change; required if several mechanisms have the parameter.",
)
@write_option("FILE with the answer")
@accounting_options
@output_options("table", "total", "records")
def command(
    file: str,
    solve: str,
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
) -> int:
    """Solve for one parameter of FILE that meets a target.

    Steps, epochs, batch size, rate and radius are maximised. Noise and scale are minimised.

    The target is an upper bound on epsilon, on the success of an attacker (advantage, true positives), on rho or on mu. Only a target
    epsilon depends on delta.

    The answer errs on the safe side. The next cheaper value, shown below it, misses the target.

    Exit code 1: the delta is too large for the dataset.
    """
    require_one_unit(write, group_size)  # no file can state the cost of a group
    from dpcli.analysis.calibrate_file import calibrate_file, solved_text
    from dpcli.analysis.documents.calibration import document
    from dpcli.analysis.goals import goal_of, refuse_epsilon_flags
    from dpcli.file.toml.limits import read_bytes
    from dpcli.lint.run import file_deltas

    data = read_bytes(file)
    goal = goal_of(rho=target_rho, advantage=target_advantage, tpr=target_tpr, fpr=at_fpr, mu=target_mu, epsilon=target_epsilon)
    if goal is not None:
        refuse_epsilon_flags(delta, accountants)
    result = calibrate_file(file, solve, target_epsilon, delta, mechanisms, accountants or None, group_size, data=data, goal=goal)
    text = solved_text(data, result) if write is not None else ""  # before anything is printed, as it may be refused
    findings = file_deltas(result.pipeline, data, delta, result.delta)  # such as a delta that is too large for the dataset
    code = emit(document(result, findings), format_, outputs)
    if write is not None:
        from dpcli.cli.new_files import write_new_pipeline
        from dpcli.file.toml.syntax import text_of

        write_new_pipeline(write, text, text_of(data))
    return code
