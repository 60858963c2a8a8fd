"""dpcli train."""

from __future__ import annotations

import click

from dpcli.cli.options import emit, output_options
from dpcli.sessions.commands.predicting import charged_ledger


@click.command(short_help="Train a model privately, as a file declares it.")
@click.argument("file")
@click.option("--dry-run", is_flag=True, help="Print what it would do, cost and take: one step is timed, and thrown away.")
@click.option("--resume", is_flag=True, help="Go on from the last state of a run that did not end.")
@charged_ledger("Charge this ledger before the first noise.")
@click.option("--insecure-seed", type=click.IntRange(min=0), help="Reproducible noise, for debugging: NOT PRIVATE.")
@output_options("text", "total")
def command(
    file: str,
    dry_run: bool,
    resume: bool,
    ledger: str | None,
    dataset: str | None,
    window: tuple[str, ...],
    insecure_seed: int | None,
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Train the model of [train] in FILE with the mechanism that the file declares (DP-SGD), and leave a model, metrics and a statement.

    Exit code 1 where the budget or the ledger says no, 2 where the file asks for what cannot be honoured, 130 where the run was
    interrupted: --resume goes on from its last state, with fresh noise.
    """
    from dpcli.train.commands.training import run_with_progress
    from dpcli.train.documents.training import outcome, planned
    from dpcli.train.plan.plan import plan_of
    from dpcli.train.run.processes import first_process

    plan = plan_of(file)
    if dry_run:
        from dpcli.ledger.documents.ledger_answers import quoted
        from dpcli.sessions.commands.predicting import windowed

        plan = windowed(plan, ledger, dataset, window)
        return emit(quoted(planned(plan), None if resume else ledger, dataset, plan.pipeline), format_, outputs)
    found = run_with_progress(plan, ledger, dataset, window, resume, insecure_seed)
    return emit(outcome(found), format_, outputs) if first_process() else 0
