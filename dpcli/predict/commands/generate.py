"""dpcli generate."""

from __future__ import annotations

import click

from dpcli.cli.options import emit, output_options
from dpcli.sessions.commands.predicting import charged_ledger


@click.command(short_help="Write private texts, token by token.")
@click.argument("file")
@click.option("--dry-run", is_flag=True, help="Print what it would do and cost, and whether --ledger has room for it.")
@click.option("--resume", is_flag=True, help="Go on with the session in the folder: write more of its texts.")
@click.option("--moved", is_flag=True, help="The folder was moved here from another place, which is gone.")
@click.option("--texts", type=click.IntRange(min=1), help="How many to write now; all that are left without it.")
@charged_ledger("Charge this ledger before the first noise.")
@output_options("text", "total")
def command(
    file: str,
    dry_run: bool,
    resume: bool,
    moved: bool,
    texts: int | None,
    ledger: str | None,
    dataset: str | None,
    window: tuple[str, ...],
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Write texts from private ones by a language model, as [generate] in FILE says: each token is drawn from clipped, averaged logits.

    All tokens that may be written are paid for beforehand; where the entry has a threshold, all that may be private. Exit code 1 where the
    budget or the ledger says no or no text is left, 2 where the file asks for what cannot be done, 4 where the count of texts or the ledger
    cannot be relied on.

    Texts, and the private tokens of each batch, are counted in --ledger; without one, in the session's folder, in queries.db and
    private-0.db. A copy of these is refused where that can be seen: another file, or another machine. A disk or a virtual machine that is
    put back as a whole cannot be told from the first; a count in PostgreSQL (the key count) is none of them.
    """
    from dpcli.predict.decode.plan import plan_of
    from dpcli.predict.documents.generate import outcome, planned

    plan = plan_of(file)
    if dry_run:
        from dpcli.ledger.documents.ledger_answers import quoted
        from dpcli.sessions.commands.predicting import windowed

        plan = windowed(plan, ledger, dataset, window)
        return emit(quoted(planned(plan), None if resume else ledger, dataset, plan.pipeline), format_, outputs)
    from dpcli.predict.decode.run import write_texts
    from dpcli.sessions.commands.predicting import charged_to, on_window, progress

    with charged_to(ledger, dataset) as found, progress("text") as report:
        done = write_texts(on_window(plan, found, window), found, resume, moved, texts, report)
    return emit(outcome(done), format_, outputs)
