"""dpcli comment github."""

from __future__ import annotations

from typing import Any

import click

from dpcli.cli.printing import complain
from dpcli.comments.commands.post import comment_options, post


@click.command(short_help="On a pull request of GitHub.")
@comment_options()
@click.option("--repository", metavar="OWNER/NAME", help="Repository of the pull request, instead of the workflow's own.")
def command(
    files: tuple[str, ...],
    name: str | None,
    dry_run: bool,
    repository: str | None,
    number: int | None,
    api: str | None,
    patience: float,
    **flags: Any,
) -> int:
    """Judge FILES as dpcli gate does, and keep one comment on a pull request of GitHub up to date.

    The token is in GITHUB_TOKEN, with the permission to write pull requests. A workflow that runs for a pull request says its repository,
    its number and the address of the API in its environment (GITHUB_REPOSITORY, GITHUB_REF or GITHUB_EVENT_PATH, GITHUB_API_URL); flags
    come first. The earlier comment is found by a hidden first line, and only where the owner of the token wrote it.

    No comment is written where nothing rises, fails or is new; one that is there is brought up to date then too. --base-ref or --baseline
    says what to compare with. All flags of the gate mean what they mean there (dpcli-gate(1)).

    A server that asks for time (403 or 429 with Retry-After) is asked again then, after two minutes in all at most.

    Exit codes are the gate's; 2 also where the comment cannot be written, with the reason on standard error.
    """
    from dpcli.comments.surroundings import github_pull

    return post(files, name, dry_run, lambda: github_pull(repository, number, api, patience, complain), flags)
