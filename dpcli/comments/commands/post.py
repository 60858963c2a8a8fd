"""What the commands of dpcli comment share: their flags, and the way from files to a comment."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from dpcli.base.errors import DpcliError, InputError, InternalError
from dpcli.cli.options import RealRange, composed, gate_options
from dpcli.cli.printing import complain, message_of, show

if TYPE_CHECKING:
    from dpcli.comments.forge import Forge
    from dpcli.document.document import Document

PRECEDENCE = (0, 1, 3, 2, 4)  # of exit codes, the last one first


def comment_options() -> Callable[..., Any]:
    """The gate's flags, and those of every comment."""
    return composed(
        gate_options(),
        click.option("--number", type=click.IntRange(min=1), help="Number of the pull request, instead of the job's own."),
        click.option("--api", metavar="URL", help="Address of the API, instead of the one that the job names."),
        click.option("--name", metavar="NAME", help="Keeps several comments on one pull request apart."),
        click.option(
            "--timeout",
            "patience",
            type=RealRange(min=0.0, min_open=True, max=600.0),
            default=30.0,
            show_default=True,
            metavar="SECONDS",
            help="How long one answer of the server may take.",
        ),
        click.option("--dry-run", is_flag=True, help="Print the comment (Markdown); ask no server."),
    )


def post(files: tuple[str, ...], name: str | None, dry_run: bool, forge: Callable[[], Forge], flags: dict[str, Any]) -> int:
    """Judge the files and keep the comment up to date; the exit code is the gate's, or 2 where the comment cannot be written.

    forge: made only where a server is asked. Raises InputError for a name that cannot be one, and without a base to compare with.
    """
    from dpcli.comments.sticky import keep, marker
    from dpcli.comments.text import comment_text

    mark = marker(name)
    base = flags["base_ref"] or flags["baseline"]
    if not base:
        raise InputError("expected --base-ref or --baseline, to tell what rises, found neither")
    said, news = _judged(files, name, base, flags)
    text = comment_text(said, mark)
    if dry_run:
        show(text)
        if not news:
            complain("nothing rises: without --dry-run, no new comment would be written")
        return said.exit_code
    try:
        target = forge()
        show(f"comment on {target.place}: {keep(target, mark, text, news)}\n")
    except InputError as error:
        complain(message_of(error))
        return max(said.exit_code, error.exit_code, key=PRECEDENCE.index)
    return said.exit_code


def _judged(files: tuple[str, ...], name: str | None, base: str, flags: dict[str, Any]) -> tuple[Document, bool]:
    """What is to be said, and whether it is news; that nothing could be judged is both, or an earlier comment would still say pass."""
    from dpcli.comments.documents.comment import document, stopped, told
    from dpcli.document.document import reason
    from dpcli.gate.flags import checked_terms
    from dpcli.gate.judge import gate

    try:
        gated = gate(files, checked_terms(**flags))
    except InternalError:
        raise
    except DpcliError as error:
        complain(message_of(error))
        return stopped(error, name), True
    found = document(gated, name, base)
    if found.exit_code:
        complain(reason(found))
    return found, told(gated)
