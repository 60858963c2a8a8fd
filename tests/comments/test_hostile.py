"""Servers and environments that lie: one error in words, no token in a message, and nothing of others changed (comments/forge.py)."""

from __future__ import annotations

import copy
import json
import os
import random
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from dpcli.base.errors import InputError
from dpcli.cli.main import cli
from dpcli.comments import client as waiting
from dpcli.comments.client import ApiClient, SecretToken, checked_api
from dpcli.comments.forge import Forge, github_pull, gitlab_merge, update_comment
from dpcli.exam.subjects import SEED
from tests.cases import of_each
from tests.comments.forges import ME, ONE, FakeForge

MARK = "<!-- dpcli:gate -->"
WRONG: list[Any] = [None, True, 5, -1, 1.5, 1e400, "x", "", [], {}, [1], {"a": 1}, [[]], [None]]


def forge_of(fake_forge: FakeForge, patience: float = 30.0) -> Forge:
    forge: Forge = (
        github_pull(None, None, None, patience) if fake_forge.kind == "github" else gitlab_merge(None, None, None, patience)
    )
    return forge


def changed(value: Any, at: tuple[Any, ...], now: Any) -> Any:
    found = [copy.deepcopy(value)]
    part: Any = found
    *way, last = (0, *at)
    for key in way:
        part = part[key]
    part[last] = now
    return found[0]


def author_of(fake_forge: FakeForge) -> tuple[tuple[str, str], Any]:
    if fake_forge.kind == "github":
        return ("POST", "graphql"), {"data": {"viewer": {"login": ME}}}
    return ("GET", "job" if fake_forge.job else "user"), {"id": 5, "user": {"id": 41}} if fake_forge.job else {"id": 41}


def test_the_author_is_told_by_an_answer_of_the_right_shape_alone(fake_forge: FakeForge) -> None:
    question, answer = author_of(fake_forge)
    own = ("data", "viewer", "login") if fake_forge.kind == "github" else ("user", "id") if fake_forge.job else ("id",)
    kind = str if fake_forge.kind == "github" else int
    for depth in range(len(own) + 1):
        for now in WRONG:
            fake_forge.canned_answers = {question: (200, json.dumps(changed(answer, own[:depth], now)).encode(), {})}
            if depth == len(own) and type(now) is kind and now != "":
                continue
            forge = forge_of(fake_forge)
            with pytest.raises(InputError) as error:
                forge.whoami(forge.client)
            assert str(error.value).startswith(f"{question[0]} http://127.0.0.1:"), now


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_comment_on_two_pages_is_one(fake_forge: FakeForge, count: int) -> None:
    """A comment before it that goes while pages are read moves it to the page before; its own is never deleted for that."""
    draw = random.Random(f"{SEED} {count}")
    mine = [fake_forge.add(ME, f"{MARK}\n\n{number}") for number in range(count)]
    whole = list(fake_forge.comments)
    pages = [draw.sample(whole, draw.randint(1, count)) for _ in range(6)] + [whole]
    fake_forge._page = lambda query: pages[page - 1] if (page := int(query["page"][0])) <= len(pages) else []  # type: ignore[method-assign]
    assert update_comment(forge_of(fake_forge), MARK, "new", has_news=True) == "updated"
    assert fake_forge.bodies() == ["new"], SEED
    assert fake_forge.comments[0] in mine


def drawn_token(draw: random.Random) -> str:
    return "".join(draw.choices(string.ascii_letters + string.digits + "-_.~+/=\"'\\%&", k=draw.choice([8, 24, 40, 64, 200])))


def echoes(token: str, draw: random.Random) -> Iterator[tuple[int, bytes, dict[str, str]]]:
    """The token wherever an answer may have it, after as much else as moves it over the places where words are cut."""
    for before in (0, *draw.sample(range(260), 4)):
        text = "a" * before + token
        for status in (200, 400, 403, 500):
            yield status, text.encode(), {}
            yield status, text.encode("utf-16"), {}
            for words in (text, [text], {"a": {text: text}}):
                yield status, json.dumps({"message": words}).encode(), {}
                yield status, json.dumps({"error": words}).encode(), {}
        yield 302, text.encode(), {"Location": f"http://127.0.0.1:9/{text}"}
        yield 200, b"[]", {"Content-Length": text}


def refusal(client: ApiClient) -> str:
    try:
        client.call("GET", "/x")
    except InputError as error:
        return str(error)
    return ""


@ONE
@pytest.mark.parametrize("number", [0, *(pytest.param(number, marks=pytest.mark.long) for number in range(1, 4))])
def test_no_part_of_the_token_is_repeated(number: int, fake_forge: FakeForge) -> None:
    draw = random.Random(f"{SEED} {number}")
    token = drawn_token(draw)
    client = ApiClient(fake_forge.api, SecretToken("TOKEN", "X-Token", token), 30.0, "a hint")
    parts = [token[at : at + 8] for at in range(len(token) - 7)]
    for answer in echoes(token, draw):
        fake_forge.canned_answers = {("GET", "/x"): answer}
        said = refusal(client)
        assert not any(part in said for part in parts), (SEED, token, answer, said)
        assert said.isprintable()


def commands(one: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, one
    if isinstance(one, click.Group):
        for name in one.list_commands(click.Context(one)):
            found = one.get_command(click.Context(one), name)
            assert found is not None
            yield from commands(found, (*words, name))


def test_no_range_has_not_a_number_in_it() -> None:
    ranges = [
        (words, parameter)
        for words, one in commands(cli)
        for parameter in one.params
        if isinstance(parameter.type, click.FloatRange)
    ]
    assert len(ranges) >= 3
    for words, parameter in ranges:
        for text in ("nan", "-nan", "NaN"):
            with pytest.raises(click.BadParameter):
                parameter.type.convert(text, parameter, click.Context(cli, info_name=" ".join(words)))


def refusing(answers: list[tuple[int, dict[str, str]]], fake_forge: FakeForge) -> tuple[ApiClient, list[str]]:
    """A client of a server that answers so first, and [] afterwards, and what it is told."""

    class Once(dict):  # type: ignore[type-arg]
        def items(self) -> list[tuple[tuple[str, str], tuple[int, bytes, dict[str, str]]]]:  # type: ignore[override]
            status, headers = answers.pop(0) if answers else (200, {})
            return [(("POST", "/x"), (status, b"[]" if status == 200 else b'{"message": "slow down"}', headers))]

    fake_forge.canned_answers = Once()
    said: list[str] = []
    return ApiClient(fake_forge.api, SecretToken("TOKEN", "X-Token", "secret-token"), 30.0, "a hint", said.append), said


@ONE
@of_each("code", [*range(400, 430), *range(500, 505)])
def test_a_server_that_is_asked_too_often_is_asked_again_when_it_says(
    code: int, fake_forge: FakeForge, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(waiting, "sleep", slept.append)
    client, said = refusing([(code, {"Retry-After": "7"}), (code, {"Retry-After": "0"})], fake_forge)
    if code in waiting.RATE_LIMITED:
        assert client.call("POST", "/x", {}) == []
        assert slept == [7.0, 1.0]
        assert [line.partition("/x: ")[2] for line in said] == [
            f"{code}: slow down{'; a hint' if code == 403 else ''}; retrying in {seconds} s" for seconds in (7, 1)
        ]
    else:
        with pytest.raises(InputError, match=f"{code}: slow down"):
            client.call("POST", "/x", {})
        assert slept == [] and said == []


@of_each("after", ["", "-1", "1e3", "inf", "nan", "7.5", "\u0667", "Wed, 21 Oct 2076 07:28:00 GMT", "9" * 400])
def test_a_time_that_is_none_is_not_waited_for(after: str) -> None:
    assert waiting.seconds_asked(429, after) is None
    assert waiting.seconds_asked(429, None) is None


@pytest.mark.long
@ONE
@of_each("after", ["0", "1", "50", "121", "999999999"])
def test_no_server_is_waited_for_without_end(after: str, fake_forge: FakeForge, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(waiting, "sleep", slept.append)
    client, said = refusing([(429, {"Retry-After": after})] * 1000, fake_forge)
    with pytest.raises(InputError, match=r"429: slow down; it asks to wait [\d,]+ s, and \d+ s are left to wait"):
        client.call("POST", "/x", {})
    assert sum(slept) <= waiting.LONGEST_WAITS and len(said) == len(slept) == waiting.LONGEST_WAITS // max(
        float(after), waiting.SHORTEST_WAIT
    )


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
