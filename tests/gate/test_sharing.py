"""What a gate of many files asks once: git for the repository and the commit, and nobody for a number that has not changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpcli.analysis import account as accounting
from dpcli.gate import bases, judge
from dpcli.git import command
from tests.command import dpcli
from tests.gate.repositories import git
from tests.gate.samples import GATE

FILES = 4


@pytest.fixture
def many(repository: Path) -> Path:
    for k in range(FILES):
        (repository / f"p{k}.toml").write_text(GATE)
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "more")
    return repository


def test_git_is_asked_as_often_for_many_files_as_for_one(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def counted(folder: str, *arguments: str, **given: bytes) -> object:
        asked.append(arguments)
        return plain(folder, *arguments, **given)

    plain = command.run_git
    monkeypatch.setattr(command, "run_git", counted)
    paths = [f"p{k}.toml" for k in range(FILES)]
    assert dpcli("gate", "--base-ref", "HEAD", *paths, folder=many).code == 0
    assert sum(arguments[0] == "rev-parse" and "--verify" in arguments for arguments in asked) == 1
    assert sum("--show-toplevel" in arguments for arguments in asked) <= 2
    before = len(asked)
    assert dpcli("gate", "--base-ref", "HEAD", *paths, folder=many).code == 0
    assert len(asked) == 2 * before  # another call asks again: the repository may have moved on
    assert dpcli("gate", "--base-ref", "HEAD", paths[0], folder=many).code == 0
    assert len(asked) == 3 * before  # as often for one file as for many


def test_an_unchanged_file_is_accounted_for_once(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def counted(pipeline: object, **given: object) -> object:
        asked.append(pipeline)
        return plain(pipeline, **given)  # type: ignore[arg-type]

    plain = accounting.headline
    monkeypatch.setattr(judge, "headline", counted)
    monkeypatch.setattr(bases, "headline", counted)
    (many / "p0.toml").write_text(GATE.replace("[privacy]", "# a comment\n[privacy]"))
    paths = [f"p{k}.toml" for k in range(FILES)]
    whole = dpcli("gate", "--base-ref", "HEAD", *paths, "-f", "json", folder=many)
    assert whole.code == 0 and len(asked) == FILES
    (many / "p1.toml").write_text(GATE.replace("steps = 5_000", "steps = 5_001"))
    asked.clear()
    dpcli("gate", "--base-ref", "HEAD", *paths, "-f", "json", folder=many)
    assert len(asked) == FILES + 1
