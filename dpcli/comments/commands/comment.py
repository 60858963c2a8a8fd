"""dpcli comment: what the gate says, in one comment on a pull request of GitHub or a merge request of GitLab."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from dpcli.base.errors import DpcliError, InputError, InternalError
from dpcli.cli.groups import LazyGroup
from dpcli.cli.options import RealRange, composed
from dpcli.cli.printing import complain, message_of, show
from dpcli.gate.commands.gate import gate_options

if TYPE_CHECKING:
    from dpcli.comments.forge import Forge
    from dpcli.document.document import Document

PRECEDENCE = (0, 1, 3, 2, 4)  # of exit codes, the last one first
SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "github": ("dpcli.comments.commands.comment:github", "On a pull request of GitHub."),
    "gitlab": ("dpcli.comments.commands.comment:gitlab", "On a merge request of GitLab."),
}


@click.group(cls=LazyGroup, table=SUBCOMMANDS, short_help="Tell a pull request what the gate says, in one comment.")
def command() -> None:
    """Tell a pull request what dpcli gate says of it, in one comment that is kept up to date.

    The comment is written once something rises, fails or is new. It shows the verdict, each file with its epsilon before and now, its cap
    and the change, and what was found. Text of files and branches does nothing there: it mentions nobody and links to nothing.
    """


def comment_options() -> Callable[..., Any]:
    """Return the gate's options and those of every comment."""
    return composed(
        gate_options,
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
            help="How long the server may be silent.",
        ),
        click.option("--dry-run", is_flag=True, help="Print the comment (Markdown); ask no server."),
    )


@click.command(short_help="On a pull request of GitHub.")
@comment_options()
@click.option("--repository", metavar="OWNER/NAME", help="Repository of the pull request, instead of the workflow's own.")
def github(
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
    from dpcli.comments.forge import github_pull

    return _post(files, name, dry_run, lambda: github_pull(repository, number, api, patience, complain), flags)


@click.command(short_help="On a merge request of GitLab.")
@comment_options()
@click.option("--project", metavar="ID", help="Project of the merge request, by its number or path, instead of the pipeline's own.")
def gitlab(
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
    from dpcli.comments.forge import gitlab_merge

    return _post(files, name, dry_run, lambda: gitlab_merge(project, number, api, patience, complain), flags)


def _post(files: tuple[str, ...], name: str | None, dry_run: bool, forge: Callable[[], Forge], flags: dict[str, Any]) -> int:
    """Judge the files and keep the comment up to date; the exit code is the gate's, or 2 if the comment cannot be written.

    forge: made only if a server is asked. Raises InputError for a name that cannot be one, and without a base to compare with.
    """
    from dpcli.comments.comment_text import comment_text
    from dpcli.comments.forge import marker, update_comment

    mark = marker(name)
    base = flags["base_ref"] or flags["baseline"]
    if not base:
        raise InputError("needs --base-ref or --baseline, to tell what rises")
    document, news = _judged(files, name, base, flags)
    text = comment_text(document, mark)
    if dry_run:
        show(text)
        if not news:
            complain("nothing rises: without --dry-run, no new comment would be written")
        return document.exit_code
    try:
        target = forge()
        show(f"comment on {target.place}: {update_comment(target, mark, text, news)}\n")
    except InputError as error:
        complain(message_of(error))
        return max(document.exit_code, error.exit_code, key=PRECEDENCE.index)
    return document.exit_code


def _judged(files: tuple[str, ...], name: str | None, base: str, flags: dict[str, Any]) -> tuple[Document, bool]:
    """Return the comment and whether it is news; so is a refusal to judge, or an earlier comment would still say pass."""
    from dpcli.comments.documents.comment import document, is_news, stopped
    from dpcli.document.document import reason
    from dpcli.gate.gate_terms import checked_terms
    from dpcli.gate.judge import gate

    try:
        gated = gate(files, checked_terms(**flags))
    except InternalError:
        raise
    except DpcliError as error:
        complain(message_of(error))
        return stopped(error, name), True
    comment = document(gated, name, base)
    if comment.exit_code:
        complain(reason(comment))
    return comment, is_news(gated)
