"""Where a comment goes: flags, then the variables of the CI system; what is unknown or unsafe is refused, and no token is shown."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dpcli.base.errors import InputError
from dpcli.comments.client import checked_api
from dpcli.comments.forge import github_pull, gitlab_merge
from tests.cases import of_each

TOKEN = "t0ken"


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this machine's own CI."""
    for name in [name for name in os.environ if name.startswith(("GITHUB_", "GITLAB_", "CI_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    monkeypatch.setenv("GITLAB_TOKEN", TOKEN)


def test_flags_come_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "GITHUB_REPOSITORY": "shop/ads",
        "GITHUB_REF": "refs/pull/7/merge",
        "GITHUB_API_URL": "https://ghe.example/api/v3/",
        "CI_MERGE_REQUEST_PROJECT_ID": "12",
        "CI_MERGE_REQUEST_IID": "7",
        "CI_API_V4_URL": "https://gitlab.example/api/v4",
    }.items():
        monkeypatch.setenv(name, value)
    pull, merge = github_pull(None, None, None, 1.0), gitlab_merge(None, None, None, 1.0)
    assert (pull.place, pull.client.root) == ("shop/ads#7", "https://ghe.example/api/v3")
    assert (merge.place, merge.client.root) == ("12!7", "https://gitlab.example/api/v4")
    assert github_pull("a/b", 8, "https://x.example", 1.0).place == "a/b#8"
    assert gitlab_merge("a/b/c", 8, "https://x.example", 1.0).path == "/projects/a%2Fb%2Fc/merge_requests/8/notes"


def test_the_number_of_an_event_is_found_where_the_ref_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a workflow runs in the base of a pull request."""
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 9}}))
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(event))
    monkeypatch.setenv("GITHUB_REF", "refs/heads/main")
    assert github_pull("a/b", None, None, 1.0).place == "a/b#9"
    for text in (
        "{}",
        "[]",
        "x",
        '{"pull_request": 9}',
        '{"pull_request": {"number": "9/../1"}}',
        '{"pull_request": {"number": true}}',
    ):
        event.write_text(text)
        with pytest.raises(InputError, match=r"expected|not the JSON"):
            github_pull("a/b", None, None, 1.0)
    monkeypatch.delenv("GITHUB_EVENT_PATH")
    with pytest.raises(InputError, match="expected --number, or a workflow that runs for a pull request"):
        github_pull("a/b", None, None, 1.0)


@of_each("name", ["", "ads", "a/b/c", "a/..", "../b", "a/b?x", "a/b#1", "a b/c", "a/b\n", "a/%2e%2e", "ä/b"])
def test_a_repository_is_a_name_and_no_path(name: str) -> None:
    with pytest.raises(InputError, match="--repository"):
        github_pull(name, 1, None, 1.0)


@of_each("name", ["", "ads", "a/b?x", "a//b", "/a/b", "1\n", "a b/c"])
def test_a_project_is_a_number_or_a_path(name: str) -> None:
    with pytest.raises(InputError, match="--project"):
        gitlab_merge(name, 1, None, 1.0)


@of_each("number", ["", "0", "-1", "7/notes", "1" * 30, "٧"])
def test_a_number_is_a_number(number: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI_MERGE_REQUEST_IID", number)
    with pytest.raises(InputError, match="CI_MERGE_REQUEST_IID"):
        gitlab_merge("12", None, None, 1.0)


@of_each("address", ["https://api.github.com", "https://h:8443/api/v4/", "http://localhost:80/x", "http://[::1]:9"])
def test_an_address_that_a_token_may_go_to(address: str) -> None:
    assert checked_api(address, "--api") == address.rstrip("/")


@of_each(
    "address",
    [
        *("http://gitlab.example/api/v4", "ftp://h/x", "file:///etc/passwd", "//h/x", "h/x", "", "https://", "https:///x"),
        *("https://user:hunter2@h/x", "https://hunter2@h", "https://h/x?token=hunter2", "https://h/#hunter2"),
        *(
            "http://localhost.evil.example/",
            "http://127.0.0.1@evil.example/",
            "https://h:99999/",
            "https://h/\r\nX: y",
            "https://[x/",
            "https://ä/",
        ),
    ],
)
def test_an_address_that_no_token_may_go_to(address: str) -> None:
    with pytest.raises(InputError, match="--api: expected an address") as refused:
        checked_api(address, "--api")
    assert "hunter2" not in str(refused.value)


@of_each("value", ["", "  \n", "to ken", "tok\nen", "t\x00ken", "tökén"])
def test_a_token_that_no_header_can_hold_is_refused_unseen(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that refuses it would show it."""
    monkeypatch.setattr(os, "environ", {"GITHUB_TOKEN": value, "GITLAB_TOKEN": value})
    for make in (lambda: github_pull("a/b", 1, None, 1.0), lambda: gitlab_merge("12", 1, None, 1.0)):
        with pytest.raises(InputError, match="token") as refused:
            make()
        assert not value.strip() or value.strip() not in str(refused.value)


def test_a_line_break_after_a_token_is_no_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", f"{TOKEN}\n")
    assert github_pull("a/b", 1, None, 1.0).client.token.value == TOKEN


def test_no_representation_shows_a_token() -> None:
    for forge in (github_pull("a/b", 1, None, 1.0), gitlab_merge("12", 1, None, 1.0)):
        assert TOKEN not in repr(forge) + repr(forge.client) + repr(forge.client.token)


def test_a_job_token_is_taken_where_there_is_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI_JOB_TOKEN", "of-the-job")
    assert gitlab_merge("12", 1, None, 1.0).client.token.header == "PRIVATE-TOKEN"
    monkeypatch.delenv("GITLAB_TOKEN")
    merge = gitlab_merge("12", 1, None, 1.0)
    assert (merge.client.token.header, merge.client.token.value) == ("JOB-TOKEN", "of-the-job")
