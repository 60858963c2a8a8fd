"""The commands `dpcli generate` and `dpcli prompt`: sessions with the same options and the same dry run.

A *session* is everything that one charge pays for: all of its texts or answers are charged at its start. Run again with --resume, it
continues (prediction_session.py). Each command passes `run_session` its plan, and the functions that make its outcome and the documents.
`output_options` adds -f and -o, and its arguments say what the documents contain; `emit` prints a document and returns its exit code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import click

from dpcli.cli.options import composed, emit, output_options
from dpcli.sessions.commands.ledger_options import charging_options


def session_options(resume: str) -> Callable[..., Any]:
    """Return a decorator that adds FILE and the options of a session to a command. `resume` is the help of --resume."""
    return composed(
        click.argument("file"),
        click.option("--dry-run", is_flag=True, help="Print the plan and its cost, and whether --ledger has room for it."),
        click.option("--resume", is_flag=True, help=resume),
        click.option(
            "--moved", is_flag=True, help="Confirm that the folder was moved here and that no copy of it is left elsewhere."
        ),
        charging_options("Charge this ledger before the first noise is drawn."),
        output_options("text", "total"),
    )


class SessionCommand(NamedTuple):
    """A command that runs a session.

    Attributes:
        plan_document: Function that returns the document of a plan.
        run: Function (plan, ledger, resume=..., report=...) that runs the session, and returns its outcome.
        outcome_document: Function that returns the document of an outcome.
    """

    plan_document: Callable[[Any], Any]
    run: Callable[..., Any]
    outcome_document: Callable[[Any], Any]


def run_session(
    plan: Any,
    command: SessionCommand,
    *,
    dry_run: bool,
    resume: bool,
    ledger: str | None,
    dataset: str | None,
    window: Sequence[str],
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Run the session of a plan and print its outcome; with --dry-run, print its plan only. The options are as in `session_options`.

    --window names the part of the ledger's dataset that the session reads.
    """
    from dpcli.cli.printing import progress
    from dpcli.sessions.commands.ledger_options import opened_or_warned, restrict_dry_run, restrict_run

    if dry_run:
        from dpcli.ledger.documents.ledger_answers import with_quote

        plan = restrict_dry_run(plan, ledger, dataset, window)
        quoting_ledger = None if resume else ledger  # it says whether it has room; a session that continues is charged already
        return emit(with_quote(command.plan_document(plan), quoting_ledger, dataset, plan.pipeline), format_, outputs)
    with opened_or_warned(ledger, dataset) as opened_ledger, progress("text") as report:
        outcome = command.run(restrict_run(plan, opened_ledger, window), opened_ledger, resume=resume, report=report)
    return emit(command.outcome_document(outcome), format_, outputs)


@click.command(short_help="Write synthetic texts from private texts, token by token.")
@session_options("Continue the session in the folder: write more of its texts.")
@click.option("--texts", type=click.IntRange(min=1), help="Number of texts to write now [default: all that are left].")
def generate(file: str, moved: bool, texts: int | None, **options: Any) -> int:
    """Write synthetic texts from private texts by a language model, as [generate] in FILE states.

    Each token is drawn from clipped, averaged logits. All tokens that may be written are charged beforehand. If the entry has a threshold,
    only the tokens that may be private are charged.

    Exit codes: 1 if the budget or the ledger refuses, or no text is left; 2 if the file asks for something impossible; 4 if the count of
    texts or the ledger cannot be relied on.

    Texts, and the private tokens of each batch, are counted in --ledger. Without a ledger they are counted in the session's folder, in
    queries.db and private-0.db. A copy of these files is refused if dpcli can detect it: it is another file, or on another machine. A disk
    or a virtual machine restored to an earlier state cannot be detected. To exclude both, count in PostgreSQL (the key count).
    """
    from dpcli.predict.decode.generate_plan import plan_of
    from dpcli.predict.decode.generation import write_texts
    from dpcli.predict.documents.sessions import generate_document, generate_plan_document

    command = SessionCommand(generate_plan_document, partial(write_texts, moved=moved, texts=texts), generate_document)
    return run_session(plan_of(file), command, **options)


@click.command(short_help="Make a prompt from private demonstrations, by noisy votes (PromptPATE).")
@session_options("Continue the session in the folder; no text is labelled twice.")
def prompt(file: str, moved: bool, **options: Any) -> int:
    """Label public texts by the noisy votes of teachers, and make a prompt from the labelled texts, as [prompt] in FILE states.

    Each teacher is a prompt with its own private demonstrations.

    Exit codes: 1 if the budget or the ledger refuses, 2 if the file asks for something impossible, 4 if the count of queries or the ledger
    cannot be relied on.

    Answers are counted in --ledger. Without a ledger they are counted in the session's folder, in queries.db. A copy of this file is
    refused if dpcli can detect it: it is another file, or on another machine. A disk or a virtual machine restored to an earlier state
    cannot be detected. To exclude both, count in PostgreSQL (the key count).
    """
    from dpcli.predict.documents.sessions import prompt_document, prompt_plan_document
    from dpcli.predict.prompt.prompt_plan import plan_of
    from dpcli.predict.prompt.prompt_session import vote_and_teach

    command = SessionCommand(prompt_plan_document, partial(vote_and_teach, moved=moved), prompt_document)
    return run_session(plan_of(file), command, **options)
