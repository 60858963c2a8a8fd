"""Tests of policies, schedules and pipelines given where another is expected: each command names the kind, and none passes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from dpcli.base import registry
from dpcli.base.lazy import load
from dpcli.exam.subjects import SEED
from dpcli.file.pipeline.other_files import instead_of_policy, other_file
from dpcli.file.toml.syntax import tables_of
from tests.command import ROOT, dpcli

POLICY = 'format = 1\nepsilon = 3.0\n\n[[rule]]\nfiles = "ads/*.toml"\nepsilon = 1.0\n'
SCHEDULE = 'format = 1\n[[run]]\nfile = "a.toml"\nevery = "day"\nfrom = "2026-01-01"\nto = "2026-02-01"\nwindow = "last 28 days"\n'
WAIVERS = 'format = 1\n[[waiver]]\nrule = "budget"\nreason = "launch"\napprover = "ada"\nexpires = 2030-06-30\n'
KINDS = ("a policy, which dpcli gate reads as --policy", "a schedule of runs, which dpcli budget plan reads")
FILES = {"policy": (POLICY, KINDS[0]), "waivers": (WAIVERS, KINDS[0]), "schedule": (SCHEDULE, KINDS[1])}
FILES |= {f"{name} without a format": (text.replace("format = 1\n", ""), kind) for name, (text, kind) in FILES.items()}
READING = {
    "account": (),
    "explain": (),
    "report": (),
    "calibrate-sigma": ("--target-epsilon", "1"),
    "gate": (),
    "diff": (str(ROOT / "examples" / "mnist.toml"),),
}


@pytest.mark.parametrize("command", READING)
def test_a_file_of_another_kind_is_told_what_it_is(command: str, tmp_path: Path) -> None:
    path = tmp_path / "given.toml"
    for kind, (text, words) in FILES.items():
        path.write_text(text)
        done = dpcli(command, str(path), *READING[command])
        assert done.code == 2 and f"expected a pipeline file, found {words}" in done.out + done.err, kind
        assert "privacy: expected" not in done.out + done.err, kind


@pytest.mark.parametrize(("text", "found"), [((ROOT / "examples" / "mnist.toml").read_text(), "a pipeline"), (SCHEDULE, KINDS[1])])
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
    policies = list(load(registry.FILES["policy"][0]))
    for own in ("privacy", "mechanism", "query", "train", "budget", "source"):
        for _ in range(20):
            others = draw.sample(policies, draw.randint(0, 3))
            assert other_file({"format": 1, own: {}, **dict.fromkeys(others, 1), "run": []}) is None, (own, others)


def test_a_glob_that_takes_in_the_policy_says_so_once_for_each(tmp_path: Path) -> None:
    for name, (text, _) in FILES.items():
        (tmp_path / f"{name}.toml").write_text(text)
    names = sorted(f"{name}.toml" for name in FILES)
    done = dpcli("gate", *names, "--policy", "policy.toml", "-f", "text", folder=tmp_path)
    told = [line for line in done.out.splitlines() if ": error " in line]
    assert done.code == 2 and len(told) == len(names), done.out
    for line, name in zip(told, names, strict=True):
        assert line.startswith(f"{name}:1:1: error gate/file: ") and line.endswith(FILES[name.removesuffix(".toml")][1])


def test_no_pipeline_whose_own_keys_are_all_spelt_wrong_is_called_something_else() -> None:
    draw = random.Random(SEED + 1)
    policies = list(load(registry.FILES["policy"][0]))
    for own in ("privacy", "mechanism", "disclosure", "federated", "generate"):
        for _ in range(20):
            at = draw.randrange(1, len(own) - 1)
            wrong = own[:at] + draw.choice(["", own[at] * 2]) + own[at + 1 :]
            others = dict.fromkeys(draw.sample(policies, draw.randint(0, 3)), 1)
            for format_ in ({"format": 1}, {}):
                assert other_file({**format_, wrong: {}, **others, "run": []}) is None, (wrong, others)


def test_no_broken_policy_is_called_something_else() -> None:
    """One key of a policy is enough, whatever stands there besides: its own faults are then told."""
    draw = random.Random(SEED + 2)
    policies = [key for key in load(registry.FILES["policy"][0]) if key != "format"]
    others = ["privacy", "mechanism", "gate", "budget", "run", "polcy"]
    for _ in range(100):
        own = draw.sample(policies, draw.randint(1, 3)) + draw.sample(others, draw.randint(0, 3))
        assert instead_of_policy({"format": 1, **{key: {} for key in own}}) is None, own


def test_the_files_of_other_programs_are_called_nothing() -> None:
    for text in ("[tool.ruff]\nline-length = 9\n", "[project]\nname = 'x'\n", "epsilon = 1\nlearning_rate = 2\n", "run = 'make'\n"):
        assert other_file(tables_of(text)) is None, text


@pytest.mark.parametrize("command", ["gate", "lint"])
def test_a_folder_passes_over_no_pipeline_whose_tables_are_all_spelt_wrong(command: str, tmp_path: Path) -> None:
    """Alone it would be refused: beside others it must not be the one that nobody looks at. Other files stay what they are."""
    rng, text = random.Random(SEED), (ROOT / "examples" / "gate.toml").read_text()
    (tmp_path / "good.toml").write_text(text)
    for name, other in {"policy": POLICY, "schedule": SCHEDULE, "foreign": 'format = "1"\n[privcy]\nx = 1\n'}.items():
        (tmp_path / f"{name}.toml").write_text(other)
    assert dpcli("gate", ".", folder=tmp_path).code == 0
    for place in range(10):
        bad = text
        for table in ("privacy", "mechanism"):
            cut = rng.randrange(1, len(table))
            bad = bad.replace(f"[{table}]", f"[{table[:cut]}{table[cut + 1 :]}]")
        (tmp_path / "bad.toml").write_text(bad)
        done = dpcli(command, ".", folder=tmp_path)
        assert done.code == 2 and "bad.toml" in done.err + done.out, (place, bad, done.out)
