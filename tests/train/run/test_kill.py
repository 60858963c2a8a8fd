"""kill -9 in the middle of a run, again and again: the run ends with all its steps, and draws no noise twice and none uncharged."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dpcli.ledger.stores.places import init, open_ledger
from dpcli.ledger.terms import LedgerTerms
from tests.train.samples import FILE
from tests.waiting import until

STEPS, EVERY = 400, 50
# dpcli train, with a diary of every noise that was drawn: written before it is used, so that no kill can hide one. Each line that is read
# is a process that parts from here, after what all of them import.
DIARY = """
import hashlib, os, sys
import dpcli.train.engine.per_example, dpcli.train.run.ranks, dpcli.train.run.training_run, dpcli.train.step.prepare
from dpcli.cli.main import run
from dpcli.train.noise import Independent
real = Independent.parts
def parts(self, count):
    for part in real(self, count):
        with open("diary", "a") as file:
            file.write(hashlib.sha256(part.tobytes()).hexdigest() + "\\n")
        yield part
Independent.parts = parts
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        os.dup2(os.open("printed", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        sys.argv = ["dpcli", *line.split()]
        try:
            run()
        except SystemExit as left:
            sys.stdout.flush()
            os._exit(left.code or 0)
        sys.stdout.flush()
        os._exit(0)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@dataclass(frozen=True)
class Life:
    """The noise of a run that was killed, as digests, and the document that its last command printed."""

    drawn: list[str]
    result: dict[str, Any]


def lived(folder: Path, kills: int, seed: int) -> Life:
    """A run with a ledger, killed so many times at random moments and resumed each time."""
    text = FILE.replace("steps = 30", f"steps = {STEPS}").replace("checkpoint_every = 10", f"checkpoint_every = {EVERY}")
    (folder / "tiny.toml").write_text(text)
    terms = LedgerTerms("example", "add-remove", 500.0, 1e-5, filter="rdp", parameters={"order": 4.0})
    init(str(folder / "l.db"), "digits", terms).store.close()
    command = "train tiny.toml --ledger l.db -f json"
    chance, state, diary = random.Random(seed), folder / "runs" / "tiny" / "state.pt", folder / "diary"
    with subprocess.Popen(
        [sys.executable, "-c", DIARY], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        for kill in range(kills + 1):
            before, resume = _length(diary), state.exists()
            process.stdin.write(command + " --resume" * resume + "\n")
            child = int(process.stdout.readline())
            if kill < kills:
                # Some before the first noise, most in the middle of the steps; never so late that the run would end.
                wanted = before + chance.randint(0, 40)
                assert until(lambda: _length(diary) >= wanted, every=0.02)  # noqa: B023
                os.kill(child, signal.SIGKILL)
            assert int(process.stdout.readline()) == (-signal.SIGKILL if kill < kills else 0)
        process.stdin.close()
    return Life(diary.read_text().split(), json.loads((folder / "printed").read_text()))


def _length(diary: Path) -> int:
    return diary.read_bytes().count(b"\n") if diary.exists() else 0


def require_kept(life: Life, folder: Path) -> None:
    """Every promise about a run that was killed."""
    found = life.result
    assert (found["steps"], found["private"]) == (STEPS, True)
    assert len(set(life.drawn)) == len(life.drawn)  # no noise twice
    assert STEPS <= len(life.drawn) <= STEPS + found["repeated"]  # and none that was not charged
    whole, *again = open_ledger(str(folder / "l.db")).state().runs.values()
    assert (whole.key, whole.status) == (found["run"], "committed")
    # A kill between a charge and the state that knows of it is charged once more.
    assert sum(run.pipeline["mechanism"][0].get("steps", 1) for run in again) >= found["repeated"]
    assert not (folder / "runs" / "tiny" / "state.pt").exists()


@pytest.mark.nightly
def test_a_run_that_is_killed_again_and_again(tmp_path: Path) -> None:
    require_kept(lived(tmp_path, 3, seed=5), tmp_path)
