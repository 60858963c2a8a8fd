"""dpcli comment gitlab."""

from __future__ import annotations

from typing import Any

import click

from dpcli.cli.printing import complain
from dpcli.comments.commands.post import comment_options, post


@click.command(short_help="On a merge request of GitLab.")
@comment_options()
@click.option("--project", metavar="ID", help="Project of the merge request, by its number or path, instead of the pipeline's own.")
def command(
    files: tuple[str, ...],
    name: str | None,
    dry_run: bool,
    project: str | None,
    number: int | None,
    api: str | None,
    patience: float,
    **flags: Any,
) -> int:
    """Judge FILES as dpcli gate does, and keep one comment on a merge request of GitLab up to date.

    The token is in GITLAB_TOKEN, with the scope api, else in CI_JOB_TOKEN, which most servers let no job comment with. A pipeline of a
    merge request says its project, its number and the address of the API in its environment (CI_MERGE_REQUEST_PROJECT_ID,
    CI_MERGE_REQUEST_IID, CI_API_V4_URL); flags come first. The earlier comment is found by a hidden first line, and only where the owner of
    the token wrote it.

    No comment is written where nothing rises, fails or is new; one that is there is brought up to date then too. --base-ref or --baseline
    says what to compare with. All flags of the gate mean what they mean there (dpcli-gate(1)).

    A server that asks for time (403 or 429 with Retry-After) is asked again then, after two minutes in all at most.

    Exit codes are the gate's; 2 also where the comment cannot be written, with the reason on standard error.
    """
    from dpcli.comments.surroundings import gitlab_merge

    return post(files, name, dry_run, lambda: gitlab_merge(project, number, api, patience, complain), flags)
