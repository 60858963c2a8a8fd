"""What the commands of dpcli comment share: their flags, and the way from files to a comment."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from dpcli.cli.options import composed, gate_options
from dpcli.cli.printing import complain, show
from dpcli.errors import InputError

if TYPE_CHECKING:
    from dpcli.comments.forge import Forge


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
            type=click.FloatRange(min=0.0, min_open=True, max=600.0),
            default=30.0,
            show_default=True,
            metavar="SECONDS",
            help="How long the server may be silent.",
        ),
        click.option("--dry-run", is_flag=True, help="Print the comment (Markdown); ask no server."),
    )


def post(files: tuple[str, ...], name: str | None, dry_run: bool, forge: Callable[[], Forge], flags: dict[str, Any]) -> int:
    """Judge the files and keep the comment up to date; the exit code is the gate's, or 2 where the comment cannot be written.

    forge: made only where a server is asked. Raises InputError as the gate does, and without a base to compare with.
    """
    from dpcli.comments.sticky import keep, marker
    from dpcli.comments.text import comment_text
    from dpcli.document.verdict import reason
    from dpcli.gate.flags import checked_terms
    from dpcli.gate.judge import gate
    from dpcli.gate.verdicts import EXIT_CODES, worst
    from dpcli.present.comment import document, told

    mark = marker(name)
    base = flags["base_ref"] or flags["baseline"]
    if not base:
        raise InputError("expected --base-ref or --baseline, to tell what rises, found neither")
    gated = gate(files, checked_terms(**flags))
    said = document(gated, name, base)
    text, news = comment_text(said, mark), told(gated)
    if said.exit_code:
        complain(reason(said))
    if dry_run:
        show(text)
        if not news:
            complain("nothing rises: without --dry-run, no new comment would be written")
        return said.exit_code
    try:
        target = forge()
        show(f"comment on {target.place}: {keep(target, mark, text, news)}\n")
    except InputError as error:
        complain(str(error))
        return EXIT_CODES[worst((gated.verdict, "invalid"))]
    return said.exit_code
