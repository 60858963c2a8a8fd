"""Tests that a pipeline that a change touches is judged, or reported as not given to the gate."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.command import Result, dpcli
from tests.gate.repositories import copied, gate, git
from tests.gate.samples import GATE

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


def new_in_capitals(repository: Path) -> None:
    (repository / "NEW.TOML").write_text(RISEN)
    git(repository, "add", ".")


CHANGES = {"train.toml": (changed, committed), "sub/new.toml": (new_and_added, new), "NEW.TOML": (new_in_capitals, new_in_capitals)}
EACH = [
    *((name, changes[place % 2]) for place, (name, changes) in enumerate(CHANGES.items())),
    *(pytest.param(name, changes[1 - place % 2], marks=pytest.mark.long) for place, (name, changes) in enumerate(CHANGES.items())),
]


def against(repository: Path, *files: str) -> Result:
    return gate(repository, "--base-ref", "base", *files)


@pytest.fixture(scope="module")
def branched(first_commit: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A second pipeline, and a branch that is called base."""
    root = copied(first_commit, tmp_path_factory.mktemp("branched"))
    (root / "other.toml").write_text(GATE)
    git(root, "add", ".")
    git(root, "commit", "-qm", "other")
    git(root, "branch", "base")
    return root


@pytest.fixture
def base(branched: Path, tmp_path: Path) -> Path:
    return copied(branched, tmp_path)


@pytest.mark.sampled(0, 2)
@pytest.mark.long
@pytest.mark.parametrize(("name", "change"), EACH)
def test_a_change_that_nobody_gave_is_no_pass(base: Path, name: str, change) -> None:  # type: ignore[no-untyped-def]
    assert against(base).code == 0
    change(base)
    none = against(base)  # every one that git knows is judged; of others it is told
    known = name in git(base, "ls-files")
    assert (f"\n{name}: " in none.out) == known
    assert (f"{name}: a pipeline that differs from base and was not given to the gate" in none.out) == (not known)
    another = against(base, "other.toml")
    # what is only told of is no file that passes
    assert another.code == 0 and "gate: pass (1 pass); 1 warning" in another.out
    table = dpcli("gate", "other.toml", "--base-ref", "base", folder=base).out
    assert next(line.split()[:2] for line in table.splitlines() if name in line) == ["warning", name]
    assert f"{name}: a pipeline that differs from base" in another.out
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
    (base / "no-pipeline-and-no-toml.toml").write_text("a = = 1\n")
    (base / "new-0.toml").write_text(RISEN.replace("steps = 20_000", "steps = = 1"))  # invalid TOML with the tables of a pipeline
    assert "new-7.toml and 1 more: 9 pipelines that differ from base and were not given to the gate" in against(base).out


def test_a_file_whose_mode_alone_changes_is_as_it_was(base: Path) -> None:
    """A change of what the file says is none of its mode alone."""
    (base / "train.toml").chmod(0o755)
    assert "not given" not in against(base, "other.toml").out
    git(base, "commit", "-qam", "mode")
    assert "not given" not in against(base, "other.toml").out
    changed(base)
    assert "not given" in against(base, "other.toml").out


@pytest.mark.sampled(1, 2)
@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("p", True),
        ("p.tml", False),
        *(pytest.param(name, name == "p.pipeline", marks=pytest.mark.long) for name in ("p.pipeline", "p.toml.txt")),
        *(pytest.param(name, name == "p.tml", marks=pytest.mark.long) for name in ("p", "p.tml")),
    ],
)
def test_a_pipeline_by_any_other_name_is_told(base: Path, name: str, escaped: bool) -> None:
    """Every command reads it, whatever its ending, so that a change may hide one. What git does not know is nobody's change."""
    file = base / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(RISEN.replace("[privacy]", '["priv\\u0061cy"]') if escaped else RISEN)
    assert "not given" not in against(base, "other.toml").out
    git(base, "add", ".")
    told = f"{name}: a pipeline that differs from base and was not given to the gate"
    another = against(base, "other.toml")
    assert another.code == 0 and told in another.out
    assert f"\n{name}: pass: " in against(base).out
    assert "not given" not in against(base, "other.toml", name).out
    git(base, "commit", "-qm", "other")
    git(base, "branch", "-f", "base")
    assert against(base).code == 0
    file.write_text(GATE)
    assert told in against(base, "other.toml").out


def test_what_speaks_of_pipelines_is_none(base: Path) -> None:
    """Prose, other formats and other programs' tables, with the words of a pipeline in them."""
    (base / "README.md").write_text(f"# privacy\n\n```toml\n{GATE}```\n")
    (base / "it.json").write_text('{"privacy": {"delta": 1e-6}, "mechanism": []}\n')
    (base / "bytes").write_bytes(b"[privacy]\n\xff\xfe\x00")
    (base / "tool.cfg").write_text('[project]\nname = "privacy"\n')
    git(base, "add", ".")
    assert against(base).out == "gate: pass\n"
