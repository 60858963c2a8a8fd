"""Servers on this machine that play GitHub and GitLab: they keep the comments of one pull request, and every request to them."""

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
ME, ANOTHER = "ci[bot]", "mallory"
# Each kind, and GitLab once more as a job sees it; where a test is about something else, a quick run takes one of them.
FORGES = [("github", False), ("gitlab", False), ("gitlab", True)]
IDS = ["github", "gitlab", "gitlab-job"]
ONE = pytest.mark.parametrize("played", FORGES[:1], ids=IDS[:1], indirect=True)
ONE_QUICK = pytest.mark.parametrize(
    "played", [FORGES[0], *(pytest.param(forge, marks=pytest.mark.long) for forge in FORGES[1:])], ids=IDS, indirect=True
)
NUMBERS = {ME: 41, ANOTHER: 42}  # GitLab knows people by number


@dataclass
class Played:
    """A forge. say: what it answers in place of the truth, by method and end of the path: status, body, headers."""

    kind: str
    comments: list[dict[str, Any]] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    say: dict[tuple[str, str], tuple[int, bytes, dict[str, str]]] = field(default_factory=dict)
    job: bool = False
    port: int = 0
    count: int = 0
    largest: int = 20  # comments of a page, whatever is asked for

    @property
    def api(self) -> str:
        return f"http://127.0.0.1:{self.port}" + ("/api/v4" if self.kind == "gitlab" else "/api/v3")

    @property
    def environment(self) -> dict[str, str]:
        """What a job of it finds."""
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

    def written(self) -> list[str]:
        """The methods of what changed something."""
        return [method for method, path in self.asked if method != "GET" and not path.endswith("graphql")]

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
def playing(played: Played) -> Iterator[Played]:
    """The forge, at a port of its own."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            parts = urlsplit(self.path)
            read = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            played.asked.append((self.command, parts.path))
            header = {"github": "Authorization", "gitlab": "JOB-TOKEN" if played.job else "PRIVATE-TOKEN"}[played.kind]
            token = (self.headers.get(header) or "").removeprefix("Bearer ")
            played.tokens.add(token)
            canned = next(
                (said for (method, end), said in played.say.items() if self.command == method and parts.path.endswith(end)), None
            )
            if canned is not None:
                self._send(*canned)
            elif token != TOKEN:
                self._send(401, b'{"message": "Bad credentials"}', {})
            else:
                path = "/api/v3/graphql" if parts.path == "/api/graphql" else parts.path
                status, found = played.answer(self.command, path, parse_qs(parts.query), json.loads(read or b"null"))
                self._send(status, b"" if found is None else json.dumps(found).encode(), {})

        def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    played.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield played
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
