"""Tests of a system without POSIX (Windows): accounting works, and a command that needs a lock says so in one sentence."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cases import by_tier
from tests.command import ROOT, Result
from tests.gate.repositories import committed

# Runs the commands given, in a process without what Windows lacks; says the exit code, output and complaints of each.
PROGRAM = """
import contextlib, io, json, os, sys
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
for name in ("fork", "forkpty", "geteuid", "getegid", "getgroups", "setsid", "chown", "killpg", "O_NONBLOCK"):
    delattr(os, name)
from dpcli.cli.main import main
said = []
for words in json.load(sys.stdin):
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    said.append((code, out.buffer.getvalue().decode(), err.getvalue()))
sys.stdout.buffer.write(json.dumps(said).encode())
"""
CORE = (
    "account examples/dp-sgd.toml",
    "account examples/dp-sgd.toml -f total",
    "calibrate-sigma --target-epsilon 3 --delta 1e-6 --sampling-rate 1 --steps 1",
    "diff examples/gate.toml examples/gate.toml",
    "lint examples/gate.toml",
    "gate examples/gate.toml examples/analytics.toml",
    "gate --base-ref HEAD",
    "comment github --base-ref HEAD --dry-run",
    "explain examples/survey-count.toml",
    "explain gate",
    "plot trade-off examples/survey-count.toml -o {folder}/x.svg",
    "report examples/survey-count.toml -f markdown",
    "init -o {folder}/mine.toml",
    "init ci-github",
    "schema",
    "completion bash",
    "doctor",
    "version -f json",
    "--help",
)
LOCKED = (
    "budget init {folder}/a.db --dataset mnist --unit example --adjacency add-remove --epsilon 4 --delta 1e-5 --filter rdp",
    "budget show {folder}/b.db",
    "budget spend {folder}/b.db examples/mnist.toml --key first",
    "lint --fix {folder}/fix.toml",
)
RUNS = ("train examples/digits.toml", "sweep examples/digits-sweep.toml", "pate label examples/pate-digits.toml")


def elsewhere(folder: Path, lines: Sequence[str]) -> list[tuple[str, Result]]:
    """What commands say in such a system, in a repository that holds the examples."""
    work = folder / "work"
    shutil.copytree(ROOT / "examples", work / "examples", ignore=shutil.ignore_patterns("runs"))
    committed(work)
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([line.format(folder=folder).split() for line in lines]).encode(),
        cwd=work,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
        timeout=300,
    )
    return [(line, Result(*result)) for line, result in zip(lines, json.loads(run.stdout), strict=True)]


def assert_one_sentence(line: str, result: Result) -> None:
    said = [text for text in result.err.splitlines() if "POSIX" in text]
    assert result.code == 2 and len(said) == 1 and " needs a POSIX system, such as Linux: " in said[0], (line, result)
    assert "internal error" not in result.err, line


@pytest.mark.parametrize("core", by_tier(None, CORE, None))
def test_the_core_works_and_a_ledger_in_a_file_says_what_it_needs(core: Sequence[str], tmp_path: Path) -> None:
    (tmp_path / "b.db").touch()
    (tmp_path / "fix.toml").write_text((ROOT / "tests" / "lint" / "corpus" / "misspelt.toml").read_text())
    found = dict(elsewhere(tmp_path, (*core, *LOCKED)))
    for line in core:
        assert found[line].code == 0, (line, found[line])
    for line in LOCKED:
        assert_one_sentence(line, found[line])
    assert not (tmp_path / "a.db").exists()
    assert found[CORE[1]].out.startswith("2.600")


@pytest.mark.long
@pytest.mark.needs("torch")
def test_what_trains_says_what_it_needs(tmp_path: Path) -> None:
    *runs, (line, dry) = elsewhere(tmp_path, (*RUNS, "train --dry-run examples/digits.toml"))
    for run in runs:
        assert_one_sentence(*run)
    assert dry.code == 0 and "measuring a run needs a POSIX system" in " ".join((dry.out + dry.err).split()), (line, dry)
