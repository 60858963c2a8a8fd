"""The commands `dpcli generate` and `dpcli prompt`: sessions with the same options and the same dry run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from dpcli.cli.options import composed, emit, output_options
from dpcli.sessions.commands.predicting import charged_ledger


def session_options(resume: str) -> Callable[..., Any]:
    """Return the options of a session.

    Args:
        resume: Help of --resume.
    """
    return composed(
        click.argument("file"),
        click.option("--dry-run", is_flag=True, help="Print what it would do and cost, and whether --ledger has room for it."),
        click.option("--resume", is_flag=True, help=resume),
        click.option("--moved", is_flag=True, help="The folder was moved here from another place, which is gone."),
        charged_ledger("Charge this ledger before the first noise."),
        output_options("text", "total"),
    )


def run_session(
    plan: Any,
    planned: Callable[[Any], Any],
    work: Callable[..., Any],
    outcome: Callable[[Any], Any],
    dry_run: bool,
    resume: bool,
    ledger: str | None,
    dataset: str | None,
    window: Sequence[str],
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Print a plan, or hold its session and print its outcome.

    Args:
        work: (plan, ledger, resume, report) -> what `outcome` documents.
    """
    from dpcli.cli.printing import progress
    from dpcli.sessions.commands.predicting import charged_to, on_window, windowed

    if dry_run:
        from dpcli.ledger.documents.ledger_answers import with_quote

        plan = windowed(plan, ledger, dataset, window)
        return emit(with_quote(planned(plan), None if resume else ledger, dataset, plan.pipeline), format_, outputs)
    with charged_to(ledger, dataset) as books, progress("text") as report:
        done = work(on_window(plan, books, window), books, resume, report)
    return emit(outcome(done), format_, outputs)


@click.command(short_help="Write private texts, token by token.")
@session_options("Go on with the session in the folder: write more of its texts.")
@click.option("--texts", type=click.IntRange(min=1), help="How many to write now; all that are left without it.")
def generate(file: str, moved: bool, texts: int | None, **options: Any) -> int:
    """Write texts from private ones by a language model, as [generate] in FILE says: each token is drawn from clipped, averaged logits.

    All tokens that may be written are paid for beforehand; where the entry has a threshold, all that may be private. Exit code 1 where the
    budget or the ledger says no or no text is left, 2 where the file asks for what cannot be done, 4 where the count of texts or the ledger
    cannot be relied on.

    Texts, and the private tokens of each batch, are counted in --ledger; without one, in the session's folder, in queries.db and
    private-0.db. A copy of these is refused where that can be seen: another file, or another machine. A disk or a virtual machine that is
    put back as a whole cannot be told from the first; a count in PostgreSQL (the key count) is none of them.
    """
    from dpcli.predict.decode.generate_plan import plan_of
    from dpcli.predict.documents.sessions import planned_texts, written_texts

    def work(plan: Any, books: Any, resume: bool, report: Any) -> Any:
        from dpcli.predict.decode.generation import write_texts

        return write_texts(plan, books, resume, moved, texts, report)

    return run_session(plan_of(file), planned_texts, work, written_texts, **options)


@click.command(short_help="Make a prompt of private demonstrations, by noisy votes (PromptPATE).")
@session_options("Go on with the session in the folder: texts that were answered are not asked about again.")
def prompt(file: str, moved: bool, **options: Any) -> int:
    """Label public texts by the noisy votes of teachers, each a prompt with private demonstrations of its own, as [prompt] in FILE says,
    and make a prompt of those labels.

    Exit code 1 where the budget or the ledger says no, 2 where the file asks for what cannot be done, 4 where the count of queries or the
    ledger cannot be relied on.

    Answers are counted in --ledger; without one, in the session's folder, in queries.db. A copy of it is refused where that can be seen:
    another file, or another machine. A disk or a virtual machine that is put back as a whole cannot be told from the first; a count in
    PostgreSQL (the key count) is none of them.
    """
    from dpcli.predict.documents.sessions import chosen_prompt, planned_prompt
    from dpcli.predict.prompt.prompt_plan import plan_of

    def work(plan: Any, books: Any, resume: bool, report: Any) -> Any:
        from dpcli.predict.prompt.prompt_session import vote_and_teach

        return vote_and_teach(plan, books, resume, moved, report)

    return run_session(plan_of(file), planned_prompt, work, chosen_prompt, **options)
