"""What GitHub and GitLab are asked for alike: the comments of one pull request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from dpcli.base.errors import InputError
from dpcli.base.values import dataclass
from dpcli.comments.client import ApiClient

PER_PAGE = 20
PAGES = 1_000  # more comments than either system lets a pull request have
KINDS: dict[type, str] = {
    dict: "a JSON object",
    list: "a list",
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PostedComment:
    """A comment as it is there. author: an identity, None where the account is gone."""

    number: int
    author: str | int | None
    body: str


class Forge(Protocol):
    """The comments of one pull request; every method raises InputError where the server does not do it."""

    @property
    def place(self) -> str:
        """The pull request, in words."""

    def author(self) -> str | int:
        """Who writes with this token, as comments name their authors."""

    def comments(self) -> Iterator[PostedComment]:
        """All comments, the oldest first."""

    def create(self, body: str) -> None:
        """Write a new one."""

    def replace(self, comment: PostedComment, body: str) -> None:
        """Give one another text."""

    def remove(self, comment: PostedComment) -> None:
        """Delete one."""


def pages(
    client: ApiClient, path: str, read: Callable[[dict[str, Any]], PostedComment], **query: str | int
) -> Iterator[PostedComment]:
    """Every comment of every page, up to the first page that is empty. Raises InputError for pages without an end."""
    for page in range(1, PAGES + 1):
        answer = client.call("GET", path, query={"per_page": PER_PAGE, "page": page, **query})
        with asked(f"GET {client.root}{path}"):
            found = [read(expect(one, dict, "a comment")) for one in expect(answer, list, "a page of comments")]
        if not found:
            return
        yield from found
    raise InputError(f"GET {client.root}{path}: expected at most {PAGES:,} pages of comments, found more")


@contextmanager
def asked(where: str) -> Iterator[None]:
    """What is wrong with an answer is said with the question."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def posted(found: Mapping[str, Any], author: str, identity: str, kind: type[str] | type[int]) -> PostedComment:
    """A comment as an answer has it. author, identity: the keys of who wrote it, and of what tells one from another.

    Raises InputError for parts of another kind.
    """
    who, body = found.get(author), found.get("body")
    return PostedComment(
        expect(found.get("id"), int, "id of a comment"),
        None if who is None else expect(expect(who, dict, "author of a comment").get(identity), kind, "author of a comment"),
        "" if body is None else expect(body, str, "body of a comment"),
    )


def expect(value: Any, kind: type[T], what: str) -> T:
    """A part of an answer. Raises InputError where it is of another kind."""
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InputError(f"{what}: expected {KINDS[kind]} in the server's answer, found {KINDS.get(type(value), 'nothing')}")
    return value
