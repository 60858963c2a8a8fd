"""Comments on a pull request of GitHub, or of a GitHub Enterprise server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dpcli.base.errors import InputError
from dpcli.base.values import dataclass
from dpcli.comments.client import ApiClient
from dpcli.comments.forge import PostedComment, asked, expect, pages, posted


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
        answer = self.client.call("POST", whole, {"query": "query { viewer { login } }"})
        with asked(f"POST {whole}"):
            viewer = expect(expect(expect(answer, dict, "an answer").get("data"), dict, "data").get("viewer"), dict, "viewer")
            login = expect(viewer.get("login"), str, "login of who writes")
            if not login:
                raise InputError("expected the login of who writes, found none")
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
    return posted(found, "user", "login", str)
