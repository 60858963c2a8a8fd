"""The comment on a pull request of GitHub or a merge request of GitLab: finding it by its first line, writing it, and updating it.

A *forge* is such a server, and `Forge` says where it keeps the comments of one pull request; below, "pull request" means a merge request
too. The commands (commands/comment.py) ask for a forge (`github_pull`, `gitlab_merge`), and then call `update_comment` with the text. The
*marker* is an invisible first line, by which a later job recognises its own comment. Only comments by the token's owner are changed:
anyone may write a comment with the marker. Answers of a server are checked in form, and read up to an empty page.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any, Literal, TypeVar
from urllib.parse import quote

from dpcli.base.errors import InputError
from dpcli.base.values import dataclass
from dpcli.comments.client import ApiClient, OnWait, SecretToken, checked_api, ignore_wait
from dpcli.file.toml.limits import read_head

UpdateResult = Literal["written", "updated", "unchanged", "not written: nothing rises"]
PER_PAGE = 20  # number of comments on a page of an answer; affects the number of requests and, with MOST_PAGES, of comments
MOST_PAGES = 1_000  # these pages have more comments than either forge allows, so that a server without an empty page is noticed
LARGEST_EVENT = 1 << 25  # largest size of an event in bytes; GitHub's limit is 25 MB
LONGEST_NAME = 64  # characters of a comment's name; chosen by hand
TYPE_NAMES: dict[type, str] = {
    dict: "a JSON object",
    list: "a list",
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}
T = TypeVar("T")
_NAME = re.compile(r"[A-Za-z0-9](-?[A-Za-z0-9])*")  # "--" might end the marker's comment
_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
_PROJECT = re.compile(r"[0-9]+|[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)+")


@dataclass(frozen=True, slots=True)
class PostedComment:
    """A comment on the server. `author` identifies its author, by login or number; None if the account was deleted."""

    number: int
    author: str | int | None
    body: str


@dataclass(frozen=True, slots=True)
class Forge:
    """The comments of one pull request. Every method raises InputError if the server refuses.

    place: name of the pull request, for messages.
    path: path of its comments in the API.
    comment_path: path below which the API has single comments, by number.
    update_method: HTTP method that changes a comment.
    author_key: key of the author in a comment.
    identity_key: key in an author that identifies it, with a value of the type `identity_type`.
    whoami: function that asks for the identity of the token's owner.
    query: parameters that request the oldest comments first.
    """

    client: ApiClient
    place: str
    path: str
    comment_path: str
    update_method: str
    author_key: str
    identity_key: str
    identity_type: type[str] | type[int]
    whoami: Callable[[ApiClient], str | int]
    query: Mapping[str, str] = field(default_factory=dict)

    def comments(self) -> Iterator[PostedComment]:
        """Yield every comment, up to the first empty page. Raises InputError if no page is empty."""
        where = f"GET {self.client.root}{self.path}"
        for page in range(1, MOST_PAGES + 1):
            answer = self.client.call("GET", self.path, query={"per_page": PER_PAGE, "page": page, **self.query})
            comments = [self._read(item, where) for item in expect(answer, list, "a page of comments", where)]
            if not comments:
                return
            yield from comments
        raise InputError(f"{where}: expected at most {MOST_PAGES:,} pages of comments, found more")

    def create(self, body: str) -> None:
        self.client.call("POST", self.path, {"body": body})

    def replace(self, comment: PostedComment, body: str) -> None:
        self.client.call(self.update_method, f"{self.comment_path}/{comment.number}", {"body": body})

    def remove(self, comment: PostedComment) -> None:
        self.client.call("DELETE", f"{self.comment_path}/{comment.number}")

    def _read(self, answer: Any, where: str) -> PostedComment:
        """Return a comment from its JSON. Raises InputError if the JSON has another form."""
        stated = expect(answer, dict, "a comment", where)
        number = expect(stated.get("id"), int, "id of a comment", where)
        author, body = stated.get(self.author_key), stated.get("body")
        identity = None
        if author is not None:
            what = "author of a comment"
            identity = expect(expect(author, dict, what, where).get(self.identity_key), self.identity_type, what, where)
        return PostedComment(number, identity, "" if body is None else expect(body, str, "body of a comment", where))


def expect(value: Any, expected: type[T], what: str, where: str) -> T:
    """Return a part of an answer. Raises InputError unless it has the expected type.

    True and False are refused for every type, because they are numbers in Python.

    what, where: name of the part, and method and address of the request, for the message.
    """
    if not isinstance(value, expected) or isinstance(value, bool):
        actual = TYPE_NAMES.get(type(value), "nothing")
        raise InputError(f"{where}: {what}: expected {TYPE_NAMES[expected]} in the server's answer, found {actual}")
    return value


def github_pull(
    repository: str | None, number: int | None, api: str | None, patience: float, on_wait: OnWait = ignore_wait
) -> Forge:
    """Return the pull request of a GitHub workflow, from flags or the environment.

    Raises InputError if a value is missing or invalid, or if GITHUB_TOKEN has no token.
    """
    name = _either("--repository", repository, "GITHUB_REPOSITORY")
    if not _REPOSITORY.fullmatch(name) or set(name.split("/")) & {".", ".."}:
        raise InputError(f"--repository: expected OWNER/NAME, found {name!r}")
    root = checked_api(api or os.environ.get("GITHUB_API_URL") or "https://api.github.com", "--api (GITHUB_API_URL)")
    token = _token("GITHUB_TOKEN", "Authorization", "Bearer ")
    hint = "GITHUB_TOKEN needs the permission to write pull requests, which a pull request from a fork does not get"
    pull, issues = number or _number_of_event(), f"/repos/{name}/issues"
    return Forge(
        client=ApiClient(root, token, patience, hint, on_wait),
        place=f"{name}#{pull}",
        path=f"{issues}/{pull}/comments",
        comment_path=f"{issues}/comments",
        update_method="PATCH",
        author_key="user",
        identity_key="login",
        identity_type=str,
        whoami=_github_login,
    )


def _github_login(client: ApiClient) -> str:
    """Return the login of the token's owner by GraphQL, because the REST API does not reveal it to a workflow's token."""
    address = client.root.removesuffix("/v3") + "/graphql"
    where = f"POST {address}"
    answer = client.call("POST", address, {"query": "query { viewer { login } }"})
    data = expect(expect(answer, dict, "an answer", where).get("data"), dict, "data", where)
    login = expect(expect(data.get("viewer"), dict, "viewer", where).get("login"), str, "login of the token's owner", where)
    if not login:
        raise InputError(f"{where}: the login of the token's owner is empty")
    return login


def gitlab_merge(project: str | None, number: int | None, api: str | None, patience: float, on_wait: OnWait = ignore_wait) -> Forge:
    """Return the merge request of a GitLab pipeline, from flags or the environment.

    Raises InputError if a value is missing or invalid, or if neither GITLAB_TOKEN nor CI_JOB_TOKEN has a token.
    """
    name = _either("--project", project, "CI_MERGE_REQUEST_PROJECT_ID")
    if not _PROJECT.fullmatch(name):
        raise InputError(f"--project: expected a number or a path such as GROUP/NAME, found {name!r}")
    root = checked_api(api or os.environ.get("CI_API_V4_URL") or "https://gitlab.com/api/v4", "--api (CI_API_V4_URL)")
    if os.environ.get("CI_JOB_TOKEN") and not os.environ.get("GITLAB_TOKEN"):
        token, whoami = _token("CI_JOB_TOKEN", "JOB-TOKEN"), _gitlab_job_owner
        hint = "GitLab allows comments with few job tokens: set GITLAB_TOKEN to a project access token with the scope api"
    else:
        token, whoami = _token("GITLAB_TOKEN", "PRIVATE-TOKEN"), _gitlab_user
        hint = "GITLAB_TOKEN needs the scope api, and must belong to a member who may comment"
    merge = number or _positive(_either("--number", None, "CI_MERGE_REQUEST_IID"), "CI_MERGE_REQUEST_IID")
    path = f"/projects/{quote(name, safe='')}/merge_requests/{merge}/notes"
    return Forge(
        client=ApiClient(root, token, patience, hint, on_wait),
        place=f"{name}!{merge}",
        path=path,
        comment_path=path,
        update_method="PUT",
        author_key="author",
        identity_key="id",
        identity_type=int,
        whoami=whoami,
        query={"sort": "asc", "order_by": "created_at"},
    )


def _gitlab_user(client: ApiClient) -> int:
    """Return the user of a project, group or personal access token."""
    where = f"GET {client.root}/user"
    user = expect(client.call("GET", "/user"), dict, "the token's owner", where)
    return expect(user.get("id"), int, "id of the token's owner", where)


def _gitlab_job_owner(client: ApiClient) -> int:
    """Return the user of a CI job's token. With such a token the API shows only the job."""
    where = f"GET {client.root}/job"
    job = expect(client.call("GET", "/job"), dict, "the token's owner", where)
    user = expect(job.get("user"), dict, "the user of the job", where)
    return expect(user.get("id"), int, "id of the token's owner", where)


def _either(flag: str, value: str | None, variable: str) -> str:
    """Return the value of a flag or else of an environment variable. Raises InputError if both are missing or empty."""
    stated = value or os.environ.get(variable)
    if not stated:
        raise InputError(f"expected {flag}, or {variable} in the environment, found neither")
    return stated


def _token(variable: str, header: str, prefix: str = "") -> SecretToken:
    """Return the token in an environment variable. Raises InputError if there is none, or if it cannot stand in a header."""
    value = os.environ.get(variable, "").strip()
    if not value:
        raise InputError(f"the variable {variable} has no token")
    if not value.isascii() or not value.isprintable() or " " in value:
        raise InputError(f"{variable}: expected a token of visible ASCII characters")
    return SecretToken(variable, header, value, prefix)


def _number_of_event() -> int:
    """Return the pull request's number, from the ref of the checkout, or from the event that started the workflow.

    The ref of some events, such as pull_request_target, is that of a branch, and only the event names the pull request.

    Raises InputError if neither names a pull request, or if the event is not JSON.
    """
    ref = re.fullmatch(r"refs/pull/([0-9]+)/(merge|head)", os.environ.get("GITHUB_REF", ""))
    if ref:
        return _positive(ref[1], "GITHUB_REF")
    path = os.environ.get("GITHUB_EVENT_PATH")
    pull = None
    if path:
        try:
            event = json.loads(read_head(path, LARGEST_EVENT, "an event"))
        except (ValueError, RecursionError):
            raise InputError(f"{path}: not the JSON of an event") from None
        pull = event.get("pull_request") if isinstance(event, dict) else None
    number = pull.get("number") if isinstance(pull, dict) else None
    if number is None:
        raise InputError("expected --number, or a workflow that runs for a pull request, found neither")
    return _positive(str(number), "GITHUB_EVENT_PATH")


def _positive(text: str, variable: str) -> int:
    """Return a number of at most 18 digits that is at least 1. Raises InputError for any other text, with the variable it came from."""
    if not re.fullmatch(r"[1-9][0-9]{0,17}", text):
        raise InputError(f"{variable}: expected the number of a pull request, found {text!r}")
    return int(text)


def marker(name: str | None) -> str:
    """Return the first line of the comment, which identifies it. Several comments on one pull request have different names.

    Raises InputError unless the name consists of letters, digits and single hyphens between them.
    """
    if name is not None and not (len(name) <= LONGEST_NAME and _NAME.fullmatch(name)):
        raise InputError(f"--name: expected at most {LONGEST_NAME} letters, digits and single hyphens between them, found {name!r}")
    return f"<!-- dpcli:gate{'' if name is None else f' {name}'} -->"


def update_comment(forge: Forge, mark: str, text: str, has_news: bool) -> UpdateResult:
    """Replace the text of the comment whose first line is `mark`, or write a new comment if there is none but there is news.

    Only comments by the token's owner are considered. If two jobs at the same time wrote several such comments, the oldest is kept and the
    others are deleted. Texts that differ only in white space count as equal, because a server may change line breaks. Raises InputError as
    the forge does.
    """
    marked = [comment for comment in forge.comments() if comment.body.partition("\n")[0].strip() == mark]
    owner = forge.whoami(forge.client) if marked else None
    # A dict, because a comment that moves during the requests may be on two pages.
    own = list({comment.number: comment for comment in marked if comment.author == owner}.values())
    if not own:
        if not has_news:
            return "not written: nothing rises"
        forge.create(text)
        return "written"
    oldest, *copies = own  # a forge yields the oldest comments first
    is_same = oldest.body.split() == text.split()
    if not is_same:
        forge.replace(oldest, text)
    for comment in copies:
        forge.remove(comment)
    return "unchanged" if is_same else "updated"
