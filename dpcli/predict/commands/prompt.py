"""dpcli prompt."""

from __future__ import annotations

import click

from dpcli.cli.options import emit, output_options
from dpcli.sessions.commands.predicting import charged_ledger


@click.command(short_help="Make a prompt of private demonstrations, by noisy votes (PromptPATE).")
@click.argument("file")
@click.option("--dry-run", is_flag=True, help="Print what it would do and cost, and whether --ledger has room for it.")
@click.option(
    "--resume", is_flag=True, help="Go on with the session in the folder: texts that were answered are not asked about again."
)
@click.option("--moved", is_flag=True, help="The folder was moved here from another place, which is gone.")
@charged_ledger("Charge this ledger before the first noise.")
@output_options("text", "total")
def command(
    file: str,
    dry_run: bool,
    resume: bool,
    moved: bool,
    ledger: str | None,
    dataset: str | None,
    window: tuple[str, ...],
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Label public texts by the noisy votes of teachers, each a prompt with private demonstrations of its own, as [prompt] in FILE says,
    and make a prompt of those labels.

    Exit code 1 where the budget or the ledger says no, 2 where the file asks for what cannot be done, 4 where the count of queries or the
    ledger cannot be relied on.

    Answers are counted in --ledger; without one, in the session's folder, in queries.db. A copy of it is refused where that can be seen:
    another file, or another machine. A disk or a virtual machine that is put back as a whole cannot be told from the first; a count in
    PostgreSQL (the key count) is none of them.
    """
    from dpcli.predict.documents.prompt import outcome, planned
    from dpcli.predict.prompt.plan import plan_of

    plan = plan_of(file)
    if dry_run:
        from dpcli.ledger.documents.ledger_answers import quoted
        from dpcli.sessions.commands.predicting import windowed

        plan = windowed(plan, ledger, dataset, window)
        return emit(quoted(planned(plan), None if resume else ledger, dataset, plan.pipeline), format_, outputs)
    from dpcli.predict.prompt.run import vote_and_teach
    from dpcli.sessions.commands.predicting import charged_to, on_window, progress

    with charged_to(ledger, dataset) as found, progress("text") as report:
        done = vote_and_teach(on_window(plan, found, window), found, resume, moved, report)
    return emit(outcome(done), format_, outputs)
