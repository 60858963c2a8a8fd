"""The comment on a pull request, written to a fake forge (forges.py), and its order where there is no room for all."""

from __future__ import annotations

import json
import random
import re
import socket
from functools import partial
from pathlib import Path

import pytest

from dpcli.comments import comment_text as comment_module
from dpcli.exam.subjects import SEED
from tests.cases import of_each
from tests.command import Result, dpcli
from tests.comments.forges import ANOTHER, FORGES, ME, ONE, ONE_QUICK, TOKEN, FakeForge
from tests.gate.repositories import git
from tests.gate.samples import GATE, OVER

CALM = GATE.replace('name = "ads-ranking"', 'name = "ads"')
RISEN = GATE.replace("= 400.0\n", "= 380.0\n")  # still within its cap
MARK = "<!-- dpcli:gate -->"


def comment(forge: FakeForge, folder: Path, *arguments: str, base: tuple[str, ...] = ("--base-ref", "main")) -> Result:
    """dpcli comment in the repository; the token is nowhere in what it says, and went nowhere else."""
    files = [path.name for path in sorted(folder.glob("*.toml"))]
    result = dpcli("comment", forge.kind, *files, *base, *arguments, folder=folder)
    assert TOKEN not in result.out + result.err
    assert forge.tokens <= {TOKEN}
    assert TOKEN not in "".join(forge.bodies())
    return result


@pytest.mark.long
def test_a_rise_is_told_once_and_kept_up_to_date(fake_forge: FakeForge, pipeline: Path) -> None:
    pipeline.write_text(RISEN)
    first = comment(fake_forge, pipeline.parent)
    assert (first.code, first.err) == (0, "")
    assert first.out.endswith(": written\n") and first.out.startswith("comment on ")
    (body,) = fake_forge.bodies()
    assert body.startswith(f"{MARK}\n\n**gate: pass (1 pass)**")
    assert comment(fake_forge, pipeline.parent).out.endswith(": unchanged\n")
    assert fake_forge.changes() == ["POST"]
    pipeline.write_text(OVER)
    failed = comment(fake_forge, pipeline.parent)
    assert failed.code == 1
    assert "gate/budget" in failed.err
    assert failed.out.endswith(": updated\n")
    (body,) = fake_forge.bodies()
    assert "**gate: FAIL" in body
    pipeline.write_text(CALM)
    calmed = comment(fake_forge, pipeline.parent)
    assert (calmed.code, calmed.out[-10:]) == (0, ": updated\n")
    (body,) = fake_forge.bodies()
    assert "**gate: pass (1 pass)**" in body  # a comment of a failure that is mended does not stay


@pytest.mark.sampled(1)
@ONE_QUICK
@pytest.mark.parametrize("text", [GATE, CALM, GATE.replace("= 400.0\n", "= 420.0\n")], ids=["same", "renamed", "less"])
def test_nothing_is_written_where_nothing_rises(fake_forge: FakeForge, pipeline: Path, text: str) -> None:
    pipeline.write_text(text)
    result = comment(fake_forge, pipeline.parent)
    assert (result.code, result.err) == (0, "")
    assert result.out.endswith(": not written: nothing rises\n")
    assert fake_forge.bodies() == []


NEWS = {
    "rise": lambda path: path.write_text(RISEN),
    "new": lambda path: (path.parent / "other.toml").write_text(GATE.replace("ads-ranking", "other").replace("400.0", "401.0")),
    "gone": lambda path: path.unlink(),
    "over": lambda path: path.write_text(OVER),
    "unreadable": lambda path: path.write_text("x"),
    "adjacency": lambda path: path.write_text(GATE.replace('"add-remove"', '"zero-out"')),
    "weaker": lambda path: path.write_text(GATE.replace("epsilon = 3.0", "epsilon = 4.0")),
}


@pytest.mark.long
@pytest.mark.sampled
@pytest.mark.parametrize("news", NEWS)
def test_what_a_reviewer_must_hear_of_is_told(fake_forge: FakeForge, pipeline: Path, news: str) -> None:
    NEWS[news](pipeline)
    assert comment(fake_forge, pipeline.parent).out.endswith(": written\n")
    assert len(fake_forge.bodies()) == 1


@ONE_QUICK
def test_only_a_comment_of_the_same_author_is_its_own(fake_forge: FakeForge, pipeline: Path) -> None:
    """A marker is no secret: whoever writes it into a comment of his own has it not overwritten, and hides nothing by it."""
    pipeline.write_text(OVER)
    theirs = f"{MARK}\n\nlooks good"
    fake_forge.add(ANOTHER, theirs)
    fake_forge.add(ME, f"as I said: {MARK}")  # the same author, about something else
    assert comment(fake_forge, pipeline.parent).code == 1
    assert fake_forge.bodies()[:2] == [theirs, f"as I said: {MARK}"]
    assert "**gate: FAIL" in fake_forge.bodies()[2]
    assert fake_forge.changes() == ["POST"]


def test_a_comment_without_an_author_is_nobodys(fake_forge: FakeForge, pipeline: Path) -> None:
    pipeline.write_text(OVER)
    gone = fake_forge.add(ANOTHER, MARK)
    gone["user" if fake_forge.kind == "github" else "author"] = None
    comment(fake_forge, pipeline.parent)
    assert fake_forge.changes() == ["POST"]


@pytest.mark.sampled(1)
@ONE_QUICK
@pytest.mark.parametrize(("before", "largest"), [(19, 20), (20, 20), (45, 20), (7, 3)])
def test_pages_are_walked_to_their_end(fake_forge: FakeForge, pipeline: Path, before: int, largest: int) -> None:
    """Also where the server's pages are smaller than what was asked for."""
    fake_forge.largest = largest
    for number in range(before):
        fake_forge.add(ANOTHER, f"comment {number}")
    fake_forge.add(ME, f"{MARK}\n\nold")
    for number in range(3):
        fake_forge.add(ANOTHER, f"later {number}")
    pipeline.write_text(RISEN)
    assert comment(fake_forge, pipeline.parent).out.endswith(": updated\n")
    assert len(fake_forge.bodies()) == before + 4
    assert "gate: pass" in fake_forge.bodies()[before]


def test_pages_without_an_end_are_an_error(fake_forge: FakeForge, pipeline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpcli.comments.forge.MOST_PAGES", 3)
    fake_forge.canned_answers["GET", "comments" if fake_forge.kind == "github" else "notes"] = (200, b'[{"id": 1, "body": ""}]', {})
    result = comment(fake_forge, pipeline.parent)
    assert result.code == 2
    assert "expected at most 3 pages of comments, found more" in result.err


def test_of_two_comments_that_are_its_own_the_oldest_stays(fake_forge: FakeForge, pipeline: Path) -> None:
    for text in ("one", "two", "three"):
        fake_forge.add(ME, f"{MARK}\n\n{text}")
    fake_forge.add(ANOTHER, f"{MARK}\n\nfour")
    pipeline.write_text(RISEN)
    comment(fake_forge, pipeline.parent)
    first, other = fake_forge.bodies()
    assert "gate: pass" in first and other.endswith("four")
    assert fake_forge.comments[0]["id"] == 1001


@ONE_QUICK
def test_names_keep_comments_apart(fake_forge: FakeForge, pipeline: Path) -> None:
    pipeline.write_text(RISEN)
    for name in ("ads", "ads-2", "ads"):
        assert comment(fake_forge, pipeline.parent, "--name", name).code == 0
    assert [body.partition("\n")[0] for body in fake_forge.bodies()] == ["<!-- dpcli:gate ads -->", "<!-- dpcli:gate ads-2 -->"]
    assert "**`ads` gate: pass (1 pass)**" in fake_forge.bodies()[0]


@ONE
@of_each("name", ["", "a b", "a--b", "-->", "x" * 65, "ä", "a-"])
def test_a_name_cannot_end_the_marker(fake_forge: FakeForge, pipeline: Path, name: str) -> None:
    assert comment(fake_forge, pipeline.parent, "--name", name).code == 2
    assert fake_forge.requests == []


@pytest.mark.long
@ONE_QUICK
@pytest.mark.parametrize(("text", "code", "news"), [(OVER, 1, True), (CALM, 0, False)])
def test_a_dry_run_prints_the_comment_and_asks_nobody(
    fake_forge: FakeForge, pipeline: Path, text: str, code: int, news: bool
) -> None:
    pipeline.write_text(text)
    dry = comment(fake_forge, pipeline.parent, "--dry-run")
    assert dry.code == code
    assert fake_forge.requests == []
    assert dry.out.startswith(f"{MARK}\n\n**gate: ")
    assert ("nothing rises" in dry.err) is not news
    fake_forge.add(ME, MARK)
    comment(fake_forge, pipeline.parent)
    assert fake_forge.bodies() == [dry.out]


@pytest.mark.long
@ONE_QUICK
def test_the_exit_code_is_the_gates(fake_forge: FakeForge, pipeline: Path) -> None:
    for text in (RISEN, OVER, "x", GATE.replace("400.0", "1e-300")):
        pipeline.write_text(text)
        gate = dpcli("gate", pipeline.name, "--base-ref", "main", folder=pipeline.parent)
        found = comment(fake_forge, pipeline.parent)
        assert (found.code, found.err) == (gate.code, gate.err)


STOPS = {
    "ref": ("--base-ref", "gone"),
    "policy": ("--base-ref", "main", "--policy", "bad`policy.toml"),
    "baseline": ("--baseline", "bad`policy.toml"),
    "flag": ("--base-ref", "main", "--max-epsilon", "-1"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("stop", STOPS)
def test_an_earlier_pass_does_not_stay_where_nothing_can_be_judged(fake_forge: FakeForge, pipeline: Path, stop: str) -> None:
    fake_forge.add(ME, f"{MARK}\n\n**gate: pass (1 pass)**\n")
    (pipeline.parent / "bad`policy.toml").write_text("epsilon = [\n@all")
    result = dpcli("comment", fake_forge.kind, "train.toml", *STOPS[stop], folder=pipeline.parent)
    gate = dpcli("gate", "train.toml", *STOPS[stop], folder=pipeline.parent)
    assert (result.code, result.err) == (2, gate.err)
    (body,) = fake_forge.bodies()
    assert body.startswith(f"{MARK}\n\n**gate: INVALID (nothing was judged)**\n\n### findings\n\n- error `.` `dpcli/stopped`: `")
    assert body.count("\n") == 7


def test_a_ledger_that_cannot_be_asked_comes_before_a_comment_that_cannot_be_written(fake_forge: FakeForge, pipeline: Path) -> None:
    fake_forge.canned_answers["GET", "comments" if fake_forge.kind == "github" else "notes"] = ANSWERS["broken"]
    assert comment(fake_forge, pipeline.parent, "--ledger", "none.db").code == 4


def test_something_to_compare_with_is_required(fake_forge: FakeForge, pipeline: Path) -> None:
    result = comment(fake_forge, pipeline.parent, base=())
    assert (result.code, result.err) == (2, "dpcli: needs --base-ref or --baseline, the base of the comparison\n")
    assert fake_forge.requests == []


def test_a_baseline_is_compared_with_too(fake_forge: FakeForge, pipeline: Path) -> None:
    dpcli("gate", pipeline.name, "-o", "json=base.json", folder=pipeline.parent)
    assert comment(fake_forge, pipeline.parent, base=("--baseline", "base.json")).out.endswith("nothing rises\n")
    pipeline.write_text(RISEN)
    assert comment(fake_forge, pipeline.parent, base=("--baseline", "base.json")).out.endswith("written\n")


ANSWERS = {
    "unauthorized": (401, b'{"message": "401 Unauthorized"}', {}),
    "forbidden": (403, b'{"message": {"base": ["no"]}}', {}),
    "missing": (404, b"<html>", {}),
    "limited": (429, b'{"error": "later\\u001b[31m"}', {}),
    "broken": (500, b"", {}),
    "moved": (302, b"", {"Location": "http://127.0.0.1:1/elsewhere"}),
    "moved for good": (308, b"", {"Location": "http://localhost:1/elsewhere"}),
    "no json": (200, b"<html>hello</html>", {}),
    "no list": (200, b'{"id": 1}', {}),
    "no comments": (200, b"[7]", {}),
    "no number": (200, b'[{"id": "1", "body": "x"}]', {}),
    "no text": (200, b'[{"id": 1, "body": 7}]', {}),
    "deep": (200, b"[" * 100_000, {}),
    "short": (200, b"[]", {"Content-Length": "100"}),
    "echo": (400, f'{{"message": "token {TOKEN} is odd"}}'.encode(), {}),
    "echo of no json": (200, f"token {TOKEN}".encode(), {}),
}


def told_in_one_line(fake_forge: FakeForge, pipeline: Path, method: str, answer: str) -> None:
    """What the server says in place of the truth is told, with exit code 2, and nothing is written."""
    if method == "POST" and ANSWERS[answer][0] == 200 and b"html" not in ANSWERS[answer][1]:
        method = "GET"  # what it says of a comment that it has taken is not read
    pipeline.write_text(RISEN)
    fake_forge.canned_answers = {(method, "comments" if fake_forge.kind == "github" else "notes"): ANSWERS[answer]}
    result = comment(fake_forge, pipeline.parent, "--timeout", "60")
    assert (result.code, result.out) == (2, ""), (method, answer)
    assert result.err.count("\n") == 1 and result.err.startswith(f"dpcli: {method} http://127.0.0.1:"), (method, answer)
    assert result.err[:-1].isprintable(), (method, answer)
    assert fake_forge.bodies() == [], (method, answer)


@pytest.mark.long
def test_what_a_server_says_amiss_is_one_line_and_exit_2(fake_forge: FakeForge, pipeline: Path) -> None:
    """Each answer of one of the servers."""
    place = FORGES.index((fake_forge.kind, fake_forge.job))
    for number, answer in enumerate(ANSWERS):
        if number % len(FORGES) == place:
            told_in_one_line(fake_forge, pipeline, ("GET", "POST")[number % 2], answer)


@ONE_QUICK
def test_a_failure_of_the_gate_is_told_where_the_comment_fails_too(fake_forge: FakeForge, pipeline: Path) -> None:
    pipeline.write_text(OVER)
    fake_forge.canned_answers["GET", "comments" if fake_forge.kind == "github" else "notes"] = ANSWERS["broken"]
    result = comment(fake_forge, pipeline.parent)
    assert result.code == 2
    assert "gate/budget" in result.err and ": 500" in result.err


@pytest.mark.long
@ONE_QUICK
def test_an_author_who_cannot_be_told_is_an_error(fake_forge: FakeForge, pipeline: Path) -> None:
    """And no reason to write a second comment, or over somebody else's."""
    who = {"github": "graphql", "gitlab": "job" if fake_forge.job else "user"}[fake_forge.kind]
    method = "POST" if fake_forge.kind == "github" else "GET"
    pipeline.write_text(OVER)
    fake_forge.add(ANOTHER, MARK)
    for answer in [
        (403, b"{}", {}),
        (200, b"{}", {}),
        (200, b'{"data": null}', {}),
        (200, b'{"data": {"viewer": {"login": ""}}}', {}),
    ]:
        fake_forge.canned_answers[method, who] = answer
        assert comment(fake_forge, pipeline.parent).code == 2
        assert fake_forge.bodies() == [MARK]


def test_a_server_that_says_nothing_is_not_waited_for(pipeline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        api = f"http://127.0.0.1:{silent.getsockname()[1]}"
        flags = ("--api", api, "--repository", "shop/ads", "--number", "7", "--timeout", "0.2")
        result = dpcli("comment", "github", pipeline.name, "--base-ref", "main", *flags, folder=pipeline.parent)
    assert result.code == 2
    assert result.err == f"dpcli: GET {api}/repos/shop/ads/issues/7/comments: no answer within 0.2 s\n"


CLICKS = GATE.replace("[privacy]\n", '[privacy]\ndataset = "clicks"\n')


def noisy(noise: float, name: str, text: str = GATE) -> str:
    return text.replace("= 400.0\n", f"= {noise!r}\n").replace("ads-ranking", name)


def commit(folder: Path, files: dict[str, str | None]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).unlink() if text is None else (folder / name).write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "files")


def said(folder: Path, *flags: str) -> str:
    result = dpcli("comment", "github", ".", "--base-ref", "main", "--dry-run", *flags, folder=folder)
    assert result.code == 0, result.err
    return result.out if not result.err else result.out + result.err


def shown(text: str) -> list[str]:
    return re.findall(
        r"^\| `[^`]*` \| `(?:\./)?([^`]*)`", text.partition("###")[2].partition("\n### ")[0].partition("<details>")[0], re.M
    )


@pytest.mark.long
@pytest.mark.parametrize("number", range(2))
def test_what_rises_most_and_what_promises_less_is_not_pushed_out(
    repository: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """By many new files, nor by one another."""
    draw = random.Random(f"{SEED} {number}")
    names = [f"{draw.randrange(10**6):06}-{number}.toml" for number in range(24)]
    risen, weaker, new = names[:8], names[8:16], names[16:]
    commit(repository, {name: noisy(400.0, name) for name in risen + weaker})
    git(repository, "checkout", "-qb", "change")
    falls = {name: draw.uniform(380.0, 399.0) for name in risen}
    falls[risen[3]] = 340.0
    commit(
        repository,
        {
            **{name: noisy(noise, name) for name, noise in falls.items()},
            **{name: noisy(401.0, name).replace('"add-remove"', '"zero-out"') for name in weaker},
            **{name: noisy(40_000.0, name) for name in new},
            new[3]: noisy(390.0, new[3]),
        },
    )
    monkeypatch.setattr(comment_module, "comment_text", partial(comment_module.comment_text, limit=3_000))
    text = said(repository, "--allow-statement-change")
    rows = shown(text)
    assert re.search(r"^and \d+ more$", text, re.M)
    assert rows[0] == risen[3] and set(weaker) & set(rows[:3]), (SEED, rows)
    assert new[3] == next(name for name in rows if name in new), (SEED, rows)
    by_rise = [name for name in sorted(falls, key=lambda name: falls[name]) if name in rows]
    assert [name for name in rows if name in risen] == by_rise, SEED


def test_a_sum_that_warns_comes_before_the_files(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(repository, {f"{number:02}.toml": noisy(250.0, f"f{number}", CLICKS) for number in range(12)})
    monkeypatch.setattr(comment_module, "comment_text", partial(comment_module.comment_text, limit=3_000))
    assert shown(said(repository))[0] == "dataset clicks"


QUIET = "nothing rises: without --dry-run, no new comment would be written"


def test_a_sum_that_warns_is_told_where_it_may_not_have_done_so_before(repository: Path) -> None:
    commit(repository, {name: noisy(220.0, name, CLICKS) for name in ("a.toml", "b.toml")})
    git(repository, "checkout", "-qb", "change")
    assert QUIET in said(repository)  # as it was
    (repository / "a.toml").write_text(noisy(225.0, "a.toml", CLICKS))
    text = said(repository)  # less, and yet another sum
    assert "above the cap of each file" in text and QUIET not in text


@pytest.mark.sampled(1)
@pytest.mark.parametrize("noises", [(220.0, 225.0), (250.0, 260.0, 270.0)])
def test_the_row_of_a_sum_has_the_number_of_its_finding(repository: Path, noises: tuple[float, ...]) -> None:
    """In the comment, and in every other form that the gate's rows take."""
    names = [f"{number}.toml" for number in range(len(noises))]
    commit(repository, {name: noisy(noise, name, CLICKS) for name, noise in zip(names, noises, strict=True)})
    text = said(repository)
    (number,) = re.findall(
        r"files \([^`]*\): epsilon ([0-9.]+) at delta = 1e-08, above the cap of each", text.partition("details")[0]
    )
    assert f"| `warning` | `dataset clicks` | - | {number} | - | - | 1e-08 |" in text
    table, csv, found = (dpcli("gate", *names, "-f", format_, folder=repository).out for format_ in ("table", "csv", "json"))
    assert re.search(rf"dataset clicks +- +{re.escape(number)} +- +- +1e-08", table), table
    (row,) = [row.split(",") for row in csv.splitlines() if row.startswith("dataset clicks")]
    (one,) = json.loads(found)["together"]
    assert one["result"]["epsilon_upper"] == float(row[3]) <= float(number) < float(row[3]) * 1.001
    assert one["budget"] is None and one["verdict"] == "pass"  # no cap holds it


@pytest.mark.long
@pytest.mark.parametrize(("cap", "warns"), [(100.0, False), (2.5, True)])
def test_a_sum_near_its_cap_is_told_where_a_file_of_it_was_not_given(repository: Path, cap: float, warns: bool) -> None:
    policy = f'format = 1\n[[together]]\ndatasets = ["clicks"]\nepsilon = {cap}\ndelta = 1e-8\n'
    commit(repository, {"policy.toml": policy, **{name: noisy(350.0, name, CLICKS) for name in ("a.toml", "b.toml")}})
    git(repository, "checkout", "-qb", "change")
    flags = ("--base-ref", "main", "--dry-run", "--policy", "policy.toml")
    whole = dpcli("comment", "github", "a.toml", "b.toml", *flags, folder=repository)
    assert whole.code == 0 and QUIET in whole.err, whole.out + whole.err
    part = dpcli("comment", "github", "a.toml", *flags, folder=repository)
    assert part.code == 0, part.out + part.err
    assert (QUIET not in part.err) == warns
