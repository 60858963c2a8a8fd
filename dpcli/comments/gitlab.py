"""Comments (notes) on a merge request of GitLab."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from dpcli.base.values import dataclass
from dpcli.comments.client import ApiClient
from dpcli.comments.forge import PostedComment, asked, expect, pages, posted


@dataclass(frozen=True, slots=True)
class GitLabMerge:
    """A merge request. project: its id, or its path. job: whether the token is a CI job's, which the API knows by its job alone."""

    client: ApiClient
    project: str
    number: int
    job: bool

    @property
    def place(self) -> str:
        return f"{self.project}!{self.number}"

    @property
    def path(self) -> str:
        """Of its notes."""
        return f"/projects/{quote(self.project, safe='')}/merge_requests/{self.number}/notes"

    def author(self) -> int:
        path = "/job" if self.job else "/user"
        answer = self.client.call("GET", path)
        with asked(f"GET {self.client.root}{path}"):
            found = expect(answer, dict, "who writes")
            user = expect(found.get("user"), dict, "who runs the job") if self.job else found
            return expect(user.get("id"), int, "id of who writes")

    def comments(self) -> Iterator[PostedComment]:
        return pages(self.client, self.path, _read, sort="asc", order_by="created_at")

    def create(self, body: str) -> None:
        self.client.call("POST", self.path, {"body": body})

    def replace(self, comment: PostedComment, body: str) -> None:
        self.client.call("PUT", f"{self.path}/{comment.number}", {"body": body})

    def remove(self, comment: PostedComment) -> None:
        self.client.call("DELETE", f"{self.path}/{comment.number}")


def _read(found: dict[str, Any]) -> PostedComment:
    return posted(found, "author", "id", int)
