"""A pipeline that a change touches is judged, or its absence is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.command import Result
from tests.gate.conftest import git
from tests.gate.samples import GATE
from tests.gate.test_names import gate

RISEN = GATE.replace("steps = 5_000", "steps = 20_000")


def changed(repository: Path) -> None:
    (repository / "train.toml").write_text(RISEN)


def committed(repository: Path) -> None:
    changed(repository)
    git(repository, "commit", "-qam", "rise")


def new(repository: Path) -> None:
    (repository / "sub").mkdir()
    (repository / "sub" / "new.toml").write_text(RISEN)


def new_and_added(repository: Path) -> None:
    new(repository)
    git(repository, "add", ".")


CHANGES = {"train.toml": (changed, committed), "sub/new.toml": (new, new_and_added)}
EACH = [(name, change) for name, changes in CHANGES.items() for change in changes]


def against(repository: Path, *files: str) -> Result:
    return gate(repository, "--base-ref", "base", *files)


@pytest.fixture
def base(repository: Path) -> Path:
    git(repository, "branch", "base")
    (repository / "other.toml").write_text(GATE)
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "other")
    git(repository, "branch", "-f", "base")
    return repository


@pytest.mark.parametrize(("name", "change"), EACH)
def test_a_change_that_nobody_gave_is_no_pass(base: Path, name: str, change) -> None:  # type: ignore[no-untyped-def]
    assert against(base).code == 0
    change(base)
    none = against(base)
    assert none.code == 2 and f"{name}: a pipeline that differs from base and was not given to the gate" in none.err
    another = against(base, "other.toml")
    assert another.code == 0 and "1 warning" in another.out and f"{name}: a pipeline that differs from base" in another.out
    assert "not given" not in against(base, "other.toml", name).out
    assert "not given" not in against(base, ".").out


def test_what_the_base_alone_has_changed_is_not_this_change(base: Path) -> None:
    git(base, "checkout", "-q", "base")
    committed(base)
    git(base, "checkout", "-q", "main")
    assert against(base).code == 0 and against(base, "other.toml").code == 0


def test_many_are_counted(base: Path) -> None:
    for index in range(9):
        (base / f"new-{index}.toml").write_text(RISEN)
    os.makedirs(base / "ignored")
    (base / ".gitignore").write_text("ignored/\n")
    (base / "ignored" / "it.toml").write_text(RISEN)
    (base / "no-pipeline.toml").write_text("a = 1\n")
    assert "new-4.toml and 4 more: 9 pipelines that differ from base and were not given to the gate" in against(base).err
