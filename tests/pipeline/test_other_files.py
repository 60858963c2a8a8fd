"""A policy, a schedule and a pipeline, each given where another is read: said what it is, by every command, and never a pass."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from dpcli.pipeline.other_files import other_file
from dpcli.registry import POLICY_KEYS, load
from dpcli.toml.syntax import tables_of
from tests.command import ROOT, dpcli
from tests.exam.subjects import SEED

POLICY = 'format = 1\nepsilon = 3.0\n\n[[rule]]\nfiles = "ads/*.toml"\nepsilon = 1.0\n'
SCHEDULE = 'format = 1\n[[run]]\nfile = "a.toml"\nevery = "day"\nfrom = "2026-01-01"\nto = "2026-02-01"\nwindow = "last 28 days"\n'
FILES = {"a policy, which dpcli gate reads as --policy": POLICY, "a schedule of runs, which dpcli budget plan reads": SCHEDULE}
READING = {
    "account": (),
    "explain": (),
    "report": (),
    "calibrate-sigma": ("--target-epsilon", "1"),
    "gate": (),
    "diff": (str(ROOT / "examples" / "mnist.toml"),),
}


@pytest.mark.parametrize("command", READING)
@pytest.mark.parametrize("words", FILES)
def test_a_file_of_another_kind_is_told_what_it_is(words: str, command: str, tmp_path: Path) -> None:
    path = tmp_path / "given.toml"
    path.write_text(FILES[words])
    done = dpcli(command, str(path), *READING[command])
    assert done.code == 2 and f"expected a pipeline file, found {words}" in done.out + done.err
    assert "privacy: expected" not in done.out + done.err


@pytest.mark.parametrize(
    ("text", "found"), [((ROOT / "examples" / "mnist.toml").read_text(), "a pipeline"), (SCHEDULE, list(FILES)[1])]
)
def test_what_is_no_policy_is_none(text: str, found: str, tmp_path: Path) -> None:
    (tmp_path / "given.toml").write_text(text)
    done = dpcli("gate", str(ROOT / "examples" / "mnist.toml"), "--policy", str(tmp_path / "given.toml"))
    assert done.code == 2 and f"expected a policy file, found {found}" in done.err
    assert len(done.err.splitlines()) == 1


def test_every_example_is_still_read_as_a_pipeline() -> None:
    for path in (ROOT / "examples").rglob("*.toml"):
        assert other_file(tables_of(path.read_text())) is None, path


def test_no_broken_pipeline_is_called_something_else() -> None:
    """Whatever keys a pipeline has besides, and whichever of its own are spelt wrong: one that is right is enough."""
    draw = random.Random(SEED)
    policies = list(load(POLICY_KEYS))
    for own in ("privacy", "mechanism", "query", "train", "budget", "source"):
        for _ in range(20):
            others = draw.sample(policies, draw.randint(0, 3))
            assert other_file({"format": 1, own: {}, **dict.fromkeys(others, 1), "run": []}) is None, (own, others)
