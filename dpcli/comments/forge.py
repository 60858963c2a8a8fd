"""What GitHub and GitLab are asked for alike: the comments of one pull request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

from dpcli.comments.client import ApiClient
from dpcli.errors import InputError
from dpcli.values import dataclass

PER_PAGE = 20
PAGES = 1_000  # more comments than either system lets a pull request have
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
        try:
            found = [read(expect(one, dict, "a comment")) for one in expect(answer, list, "a page of comments")]
        except InputError as error:
            raise InputError(f"GET {client.root}{path}: {error}") from None
        if not found:
            return
        yield from found
    raise InputError(f"GET {client.root}{path}: expected at most {PAGES:,} pages of comments, found more")


def expect(value: Any, kind: type[T], what: str) -> T:
    """A part of an answer. Raises InputError where it is of another kind."""
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InputError(f"{what}: expected {kind.__name__} in the server's answer, found {type(value).__name__}")
    return value
