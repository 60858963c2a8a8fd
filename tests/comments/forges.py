"""Fake GitHub and GitLab servers on this machine, for tests of `dpcli comment`.

A `FakeForge` keeps the comments of one pull request (7), and records each request. It answers as the real API does, except where a test
sets `canned_answers`. `serving` runs it at a port of its own; the fixture `fake_forge` (conftest.py) also sets the environment of a CI job.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

TOKEN = "s3cret-t0ken-of-the-job"
ME, ANOTHER = "ci[bot]", "mallory"  # the owner of the token, and another author of comments
# (kind, whether only the token of a GitLab job is set). A test that is about something else takes one of them (ONE), or one in a quick run.
FORGES = [("github", False), ("gitlab", False), ("gitlab", True)]
IDS = ["github", "gitlab", "gitlab-job"]
ONE = pytest.mark.parametrize("fake_forge", FORGES[:1], ids=IDS[:1], indirect=True)
ONE_QUICK = pytest.mark.parametrize(
    "fake_forge", [FORGES[0], *(pytest.param(forge, marks=pytest.mark.long) for forge in FORGES[1:])], ids=IDS, indirect=True
)
NUMBERS = {ME: 41, ANOTHER: 42}  # GitLab identifies people by numbers


@dataclass
class FakeForge:
    """A fake forge.

    kind: "github" or "gitlab".
    requests: The method and the path of each request.
    tokens: The tokens in the requests.
    canned_answers: Answers (status, body, headers) that replace the usual one, by method and end of the path.
    job: Whether GitLab gets the token of a CI job, with which its API shows only the job.
    count: The number of comments so far.
    largest: The largest number of comments on a page, whatever the request asks for.
    """

    kind: str
    comments: list[dict[str, Any]] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    canned_answers: dict[tuple[str, str], tuple[int, bytes, dict[str, str]]] = field(default_factory=dict)
    job: bool = False
    port: int = 0
    count: int = 0
    largest: int = 20

    @property
    def api(self) -> str:
        return f"http://127.0.0.1:{self.port}" + ("/api/v4" if self.kind == "gitlab" else "/api/v3")

    @property
    def environment(self) -> dict[str, str]:
        """The variables that a CI job of this forge sets."""
        if self.kind == "github":
            return {
                "GITHUB_API_URL": self.api,
                "GITHUB_REPOSITORY": "shop/ads",
                "GITHUB_REF": "refs/pull/7/merge",
                "GITHUB_TOKEN": TOKEN,
            }
        token = {"CI_JOB_TOKEN": TOKEN} if self.job else {"GITLAB_TOKEN": TOKEN, "CI_JOB_TOKEN": "another"}
        return {"CI_API_V4_URL": self.api, "CI_MERGE_REQUEST_PROJECT_ID": "12", "CI_MERGE_REQUEST_IID": "7", **token}

    def add(self, author: str, body: str) -> dict[str, Any]:
        self.count += 1
        who = {"login": author} if self.kind == "github" else {"id": NUMBERS[author], "username": author}
        comment = {"id": 1000 + self.count, ("user" if self.kind == "github" else "author"): who, "body": body}
        self.comments.append(comment)
        return comment

    def bodies(self) -> list[str]:
        return [comment["body"] for comment in self.comments]

    def changes(self) -> list[str]:
        """Return the method of each request that may change a comment."""
        return [method for method, path in self.requests if method != "GET" and not path.endswith("graphql")]

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        found = (self._github if self.kind == "github" else self._gitlab)(method, path.split("/")[3:], query, body)
        return (404, {"message": "Not Found"}) if found is None else found

    def _github(self, method: str, parts: list[str], query: dict[str, list[str]], body: Any) -> tuple[int, Any] | None:
        match method, parts:
            case "POST", ["graphql"] if "viewer" in body["query"]:
                return 200, {"data": {"viewer": {"login": ME}}}
            case "GET", ["repos", "shop", "ads", "issues", "7", "comments"]:
                return 200, self._page(query)
            case "POST", ["repos", "shop", "ads", "issues", "7", "comments"]:
                return 201, self.add(ME, body["body"])
            case "PATCH" | "DELETE", ["repos", "shop", "ads", "issues", "comments", number]:
                return self._change(method, int(number), body)
        return None

    def _gitlab(self, method: str, parts: list[str], query: dict[str, list[str]], body: Any) -> tuple[int, Any] | None:
        match method, parts:
            case "GET", ["user"] if not self.job:
                return 200, {"id": NUMBERS[ME]}
            case "GET", ["job"] if self.job:
                return 200, {"id": 5, "user": {"id": NUMBERS[ME]}}
            case "GET", ["projects", "12", "merge_requests", "7", "notes"]:
                assert (query["sort"], query["order_by"]) == (["asc"], ["created_at"])
                return 200, self._page(query)
            case "POST", ["projects", "12", "merge_requests", "7", "notes"]:
                return 201, self.add(ME, body["body"])
            case "PUT" | "DELETE", ["projects", "12", "merge_requests", "7", "notes", number]:
                return self._change(method, int(number), body)
        return None

    def _page(self, query: dict[str, list[str]]) -> list[dict[str, Any]]:
        size, page = min(int(query["per_page"][0]), self.largest), int(query["page"][0])
        return self.comments[(page - 1) * size : page * size]

    def _change(self, method: str, number: int, body: Any) -> tuple[int, Any] | None:
        found = next((comment for comment in self.comments if comment["id"] == number), None)
        if found is None:
            return None
        if method == "DELETE":
            self.comments.remove(found)
            return 204, None
        found["body"] = body["body"]
        return 200, found


@contextmanager
def serving(fake_forge: FakeForge) -> Iterator[FakeForge]:
    """Run the forge at a port of its own within this context."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            parts = urlsplit(self.path)
            read = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fake_forge.requests.append((self.command, parts.path))
            header = {"github": "Authorization", "gitlab": "JOB-TOKEN" if fake_forge.job else "PRIVATE-TOKEN"}[fake_forge.kind]
            token = (self.headers.get(header) or "").removeprefix("Bearer ")
            fake_forge.tokens.add(token)
            canned = next(
                (
                    said
                    for (method, end), said in fake_forge.canned_answers.items()
                    if self.command == method and parts.path.endswith(end)
                ),
                None,
            )
            if canned is not None:
                self._send(*canned)
            elif token != TOKEN:
                self._send(401, b'{"message": "Bad credentials"}', {})
            else:
                path = "/api/v3/graphql" if parts.path == "/api/graphql" else parts.path
                status, found = fake_forge.answer(self.command, path, parse_qs(parts.query), json.loads(read or b"null"))
                self._send(status, b"" if found is None else json.dumps(found).encode(), {})

        def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    fake_forge.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield fake_forge
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
