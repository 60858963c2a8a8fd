"""dpcli comment: a group, one file per system."""

from __future__ import annotations

import click

from dpcli.cli.groups import LazyGroup

SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "github": ("dpcli.comments.commands.github:command", "On a pull request of GitHub."),
    "gitlab": ("dpcli.comments.commands.gitlab:command", "On a merge request of GitLab."),
}


@click.group(cls=LazyGroup, table=SUBCOMMANDS, short_help="Tell a pull request what the gate says, in one comment.")
def command() -> None:
    """Tell a pull request what dpcli gate says of it, in one comment that is kept up to date.

    The comment is written once something rises, fails or is new. It shows the verdict, each file with its epsilon before and now, its cap
    and the change, and what was found. Text of files and branches does nothing there: it mentions nobody and links to nothing.
    """
