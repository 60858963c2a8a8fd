"""What every import may be told beside the file, and where the result goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from dpcli.cli.options import adjacency_option, composed, dataset_size_option
from dpcli.errors import InputError

asserted_options = composed(
    adjacency_option("that was accounted"),
    click.option("--delta", type=float, help="Delta at which epsilon is reported."),
    click.option("--unit", help="What one individual is: example, user, ..."),
    click.option("--max-contributions", type=int, help="Most records that one unit contributes."),
    dataset_size_option,
    click.option("-o", "--output", metavar="PATH", help="Write to PATH, which must not exist; standard output where absent."),
)


def leave(output: str | None, make: Callable[[], str], note: str = "") -> None:
    """Make a text, then print it, or write it where nothing is yet. note: one line on standard error.

    Raises InputError in one line, also where the reader of files refuses what was made.
    """
    from dpcli.cli.printing import heard, show
    from dpcli.templates import write_new
    from dpcli.toml.render import InvalidFile

    try:
        text = make()
    except InvalidFile as refused:
        raise InputError("; ".join(dict.fromkeys(f"{d.key}: {d.message}" for d in refused.diagnostics))) from None
    if output is None:
        show(text)
    else:
        write_new(output, text)
    with heard():
        if note:
            click.echo(f"dpcli: {note}", err=True)
        if output is not None:
            click.echo(f"wrote {output}; next: dpcli account {output}", err=True)


def asserted(**given: Any) -> Any:
    """The flags as values of [privacy]."""
    from dpcli.exchange.stated import Asserted

    return Asserted(**given)
