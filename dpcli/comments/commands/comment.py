"""The commands `dpcli comment github` and `dpcli comment gitlab`: keep the gate's verdict in one comment on a pull request.

A job of CI runs them with a token. The files are judged as by `dpcli gate` (gate/judge.py), documents/comment.py and comment_text.py make
the text, and forge.py writes it. Whatever happens to the comment, the gate's verdict is not lost: the exit code is the worse of both.
"""

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

PRECEDENCE = (0, 1, 3, 2, 4)  # exit codes (dpcli explain exit-codes), from the one that matters least to the one that matters most
SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "github": ("dpcli.comments.commands.comment:github", "Comment on a pull request of GitHub."),
    "gitlab": ("dpcli.comments.commands.comment:gitlab", "Comment on a merge request of GitLab."),
}


@click.group(cls=LazyGroup, table=SUBCOMMANDS, short_help="Keep the gate's verdict in one comment on a pull request.")
def command() -> None:
    """Write the verdict of dpcli gate on a pull request into one comment, and keep it up to date.

    The first comment is written if epsilon rises, or a file fails or is new. It shows the verdict, the findings, and for each file the
    earlier and the new epsilon, the cap and the change. Text from files and branches is inert in the comment: it mentions nobody and links
    to nothing.
    """


# The options of the gate and of every comment.
comment_options = composed(
    gate_options,
    click.option("--number", type=click.IntRange(min=1), help="Number of the pull request [default: the job's]."),
    click.option("--api", metavar="URL", help="Address of the API [default: the job's]."),
    click.option("--name", metavar="NAME", help="Name of this comment, if one pull request has several."),
    click.option(
        "--timeout",
        "patience",
        type=RealRange(min=0.0, min_open=True, max=600.0),
        default=30.0,
        show_default=True,
        metavar="SECONDS",
        help="Longest time for which the server may be silent.",
    ),
    click.option("--dry-run", is_flag=True, help="Print the comment (Markdown) without contacting a server."),
)


@click.command(short_help="Comment on a pull request of GitHub.")
@comment_options
@click.option("--repository", metavar="OWNER/NAME", help="Repository of the pull request [default: the workflow's].")
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

    The token is in GITHUB_TOKEN, and needs the permission to write pull requests. The environment of a workflow for a pull request has its
    repository, its number and the address of the API (GITHUB_REPOSITORY, GITHUB_REF or GITHUB_EVENT_PATH, GITHUB_API_URL). Flags override
    the environment. An earlier comment is recognised by a hidden first line, and only if the owner of the token wrote it.

    If nothing rises, fails or is new, no new comment is written, but an existing comment is updated. --base-ref or --baseline states the
    base of the comparison. The flags of the gate are explained in dpcli-gate(1).

    If a server asks for a wait (403 or 429 with Retry-After), the request is repeated after it. All waits together are at most two minutes.

    Exit codes are those of the gate, and 2 if the comment cannot be written. The reason is then on standard error.
    """
    from dpcli.comments.forge import github_pull

    return _post(files, name, dry_run, lambda: github_pull(repository, number, api, patience, on_wait=complain), flags)


@click.command(short_help="Comment on a merge request of GitLab.")
@comment_options
@click.option("--project", metavar="ID", help="Project of the merge request, by number or path [default: the pipeline's].")
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

    The token is in GITLAB_TOKEN, and needs the scope api. Otherwise CI_JOB_TOKEN is used, with which most servers allow no comments. The
    environment of a pipeline for a merge request has its project, its number and the address of the API (CI_MERGE_REQUEST_PROJECT_ID,
    CI_MERGE_REQUEST_IID, CI_API_V4_URL). Flags override the environment. An earlier comment is recognised by a hidden first line, and only
    if the owner of the token wrote it.

    If nothing rises, fails or is new, no new comment is written, but an existing comment is updated. --base-ref or --baseline states the
    base of the comparison. The flags of the gate are explained in dpcli-gate(1).

    If a server asks for a wait (403 or 429 with Retry-After), the request is repeated after it. All waits together are at most two minutes.

    Exit codes are those of the gate, and 2 if the comment cannot be written. The reason is then on standard error.
    """
    from dpcli.comments.forge import gitlab_merge

    return _post(files, name, dry_run, lambda: gitlab_merge(project, number, api, patience, on_wait=complain), flags)


def _post(files: tuple[str, ...], name: str | None, dry_run: bool, find_pull: Callable[[], Forge], flags: dict[str, Any]) -> int:
    """Judge the files, update the comment, and return the gate's exit code, or 2 if the comment cannot be written.

    find_pull: returns the pull request. It is called only if a server is contacted.

    Raises InputError if the name is invalid, or no base is given.
    """
    from dpcli.comments.comment_text import comment_text
    from dpcli.comments.forge import marker, update_comment

    mark = marker(name)
    base = flags["base_ref"] or flags["baseline"]
    if not base:
        raise InputError("needs --base-ref or --baseline, the base of the comparison")
    document, has_news = _judged_document(files, name, base, flags)
    text = comment_text(document, mark)
    if dry_run:
        show(text)
        if not has_news:
            complain("nothing rises: without --dry-run, no new comment would be written")
        return document.exit_code
    try:
        pull = find_pull()
        show(f"comment on {pull.place}: {update_comment(pull, mark, text, has_news)}\n")
    except InputError as error:
        complain(message_of(error))
        return max(document.exit_code, error.exit_code, key=PRECEDENCE.index)
    return document.exit_code


def _judged_document(files: tuple[str, ...], name: str | None, base: str, flags: dict[str, Any]) -> tuple[Document, bool]:
    """Return the comment, and whether it is news, for which a first comment is written.

    An error that prevents any verdict is news, because an earlier comment might still show a pass.
    """
    from dpcli.comments.documents.comment import document, error_document, is_news
    from dpcli.document.document import reason
    from dpcli.gate.gate_terms import GateFlags, checked_terms
    from dpcli.gate.judge import gate

    try:
        result = gate(files, checked_terms(GateFlags(**flags)))
    except InternalError:  # a bug in dpcli, which main.py reports
        raise
    except DpcliError as error:
        complain(message_of(error))
        return error_document(error, name), True
    comment = document(result, name, base)
    if comment.exit_code:
        complain(reason(comment))
    return comment, is_news(result)
