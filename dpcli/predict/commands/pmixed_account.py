"""dpcli pmixed account."""

from __future__ import annotations

import click

from dpcli.cli.options import emit, output_options


@click.command(short_help="What a file costs; or solve for its radius or tokens.")
@click.argument("file")
@click.option(
    "--solve", type=click.Choice(["radius", "steps"]), help="Solve for the radius, or for the tokens, that meet the budget."
)
@click.option("--target-epsilon", type=float, help="The epsilon to meet; the file's budget where absent.")
@click.option("--delta", type=float, help="At this delta instead of the file's.")
@output_options("table", "total")
def command(
    file: str, solve: str | None, target_epsilon: float | None, delta: float | None, format_: str, outputs: tuple[str, ...]
) -> int:
    """Print what the tokens of FILE cost by Renyi divergences and by privacy-loss distributions, where a shard is replaced and where one is
    removed, side by side; or the largest radius or the most tokens that a target allows, to seven digits, on the private side.

    Exit code 1 where the budget is overspent, or the delta too large for the dataset.

    With mode = "paper" it prints what the published protocol claims, which is not a DP guarantee.
    """
    from dpcli.lint.delta import judged_deltas
    from dpcli.lint.documents.diagnostics import with_diagnostics
    from dpcli.predict.documents.pmixed import accounted
    from dpcli.predict.pmixed.costs import costs
    from dpcli.predict.pmixed.plan import plan_of

    plan = plan_of(file)
    found = costs(plan, solve, target_epsilon, delta)
    stated = {"delta" if delta is None else "--delta": found.delta}
    diagnostics = judged_deltas(stated, plan.pipeline.privacy.dataset_size, file)
    return emit(with_diagnostics(accounted(found), diagnostics), format_, outputs)
