"""What a comment shows where there is no room for all, and which warnings of sums it is written for."""

from __future__ import annotations

import json
import random
import re
from functools import partial
from pathlib import Path

import pytest

from dpcli.comments import comment_text as comment_module
from dpcli.exam.subjects import SEED
from tests.command import dpcli
from tests.gate.repositories import git
from tests.gate.samples import GATE

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
    assert "above the cap of each of them" in text and QUIET not in text


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
