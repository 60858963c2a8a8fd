"""dpcli pmixed fit."""

from __future__ import annotations

from contextlib import nullcontext

import click

from dpcli.audit.commands.trials import progress
from dpcli.cli.options import emit, output_options
from dpcli.sessions.commands.predicting import charged_ledger, charged_to, on_window


@click.command(short_help="Fine-tune a model on each shard, and pay for all tokens.")
@click.argument("file")
@click.option("--resume", is_flag=True, help="Go on with a fit that did not end.")
@charged_ledger("Charge this ledger with all tokens before the first model.")
@output_options("text")
def command(
    file: str,
    resume: bool,
    ledger: str | None,
    dataset: str | None,
    window: tuple[str, ...],
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Fine-tune the models of [pmixed] in FILE without noise, one on each shard of the private texts, and begin to count their tokens.

    The models are as private as the texts: only dpcli pmixed predict may release anything of them. Exit code 1 where the file's budget or
    the ledger says no, 130 where it was interrupted: --resume goes on with the next model.
    """
    from dpcli.predict.documents.pmixed import fitted
    from dpcli.predict.pmixed.fit import fit
    from dpcli.predict.pmixed.plan import plan_of

    plan = plan_of(file)
    unpriced = ledger is None and plan.account is None  # what is no guarantee has no cost that adds up
    with nullcontext() if unpriced else charged_to(ledger, dataset) as books, progress("models") as report:
        try:
            found = fit(on_window(plan, books, window), books, resume, report)
        except KeyboardInterrupt:
            click.echo(f"dpcli: the models so far are in {plan.folder}; --resume goes on from there", err=True)
            raise
    return emit(fitted(found), format_, outputs)
