"""Comments on a pull request of GitHub, or of a GitHub Enterprise server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dpcli.comments.client import ApiClient
from dpcli.comments.forge import PostedComment, expect, pages
from dpcli.errors import InputError
from dpcli.values import dataclass


@dataclass(frozen=True, slots=True)
class GitHubPull:
    """A pull request, whose comments are those of the issue of its number."""

    client: ApiClient
    repository: str
    number: int

    @property
    def place(self) -> str:
        return f"{self.repository}#{self.number}"

    def author(self) -> str:
        """The login; GraphQL says it to every kind of token, the rest of the API not to a workflow's."""
        whole = self.client.root.removesuffix("/v3") + "/graphql"
        answer = expect(self.client.call("POST", whole, {"query": "query { viewer { login } }"}), dict, "an answer")
        viewer = (answer.get("data") or {}).get("viewer") or {}
        login = viewer.get("login")
        if not isinstance(login, str) or not login:
            raise InputError(f"{whole}: expected the login of the token's owner, found none")
        return login

    def comments(self) -> Iterator[PostedComment]:
        return pages(self.client, f"/repos/{self.repository}/issues/{self.number}/comments", _read)

    def create(self, body: str) -> None:
        self.client.call("POST", f"/repos/{self.repository}/issues/{self.number}/comments", {"body": body})

    def replace(self, comment: PostedComment, body: str) -> None:
        self.client.call("PATCH", f"/repos/{self.repository}/issues/comments/{comment.number}", {"body": body})

    def remove(self, comment: PostedComment) -> None:
        self.client.call("DELETE", f"/repos/{self.repository}/issues/comments/{comment.number}")


def _read(found: dict[str, Any]) -> PostedComment:
    user = found.get("user")
    login = user.get("login") if isinstance(user, dict) else None
    body = found.get("body")
    return PostedComment(
        expect(found.get("id"), int, "id of a comment"),
        None if login is None else expect(login, str, "author of a comment"),
        "" if body is None else expect(body, str, "body of a comment"),
    )
