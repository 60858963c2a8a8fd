"""What every import may be told beside the file, and where the result goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from dpcli.cli.new_file import leave_pipeline, new_file_option
from dpcli.cli.options import adjacency_option, composed, dataset_size_option
from dpcli.errors import InputError

asserted_options = composed(
    adjacency_option("that was accounted"),
    click.option("--delta", type=float, help="Delta at which epsilon is reported."),
    click.option("--unit", help="What one individual is: example, user, ..."),
    click.option("--max-contributions", type=int, help="Most records that one unit contributes."),
    dataset_size_option,
    new_file_option,
)


def ignored_option(part: str) -> Callable[[Any], Any]:
    """--ignore, of what a file of the library has and nobody has said the meaning of."""
    text = f"A {part.lower()} that says nothing about privacy; repeatable."
    return click.option("--ignore", "ignored", multiple=True, metavar=part, help=text)


def leave_made(output: str | None, make: Callable[[], str], note: str = "") -> None:
    """Make a text, then print it, or write it where nothing is yet. note: one line on standard error.

    Raises InputError in one line, also where the reader of files refuses what was made.
    """
    from dpcli.cli.printing import heard
    from dpcli.toml.render import InvalidFile

    try:
        text = make()
    except InvalidFile as refused:
        raise InputError("; ".join(dict.fromkeys(f"{d.key}: {d.message}" for d in refused.diagnostics))) from None
    leave_pipeline(output, text)
    if note:
        with heard():
            click.echo(f"dpcli: {note}", err=True)


def asserted(**given: Any) -> Any:
    """The flags as values of [privacy]."""
    from dpcli.exchange.stated import Asserted

    return Asserted(**given)
