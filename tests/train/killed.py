"""A run that is killed at random moments and resumed, and what is promised about it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpcli.ledger.stores.places import init, open_ledger
from dpcli.ledger.terms import LedgerTerms
from tests.train.samples import FILE

STEPS, EVERY = 400, 50
# dpcli train, with a diary of every noise that was drawn: written before it is used, so that no kill can hide one.
DIARY = """
import hashlib, os, sys
from dpcli.train.noise.step import Independent
real = Independent.next
def next(self, shapes):
    noise = real(self, shapes)
    digest = hashlib.sha256(b"".join(value.numpy().tobytes() for value in noise.values())).hexdigest()
    with open("diary", "a") as file:
        file.write(digest + "\\n")
    return noise
Independent.next = next
from dpcli.cli.main import run
sys.exit(run())
"""


@dataclass(frozen=True)
class Life:
    """What a run that was killed came to. resumed: how often. drawn: digests of all noise. result: what the command printed."""

    resumed: int
    drawn: list[str]
    result: dict[str, Any]


def lived(folder: Path, kills: int, seed: int) -> Life:
    """A run with a ledger, killed so many times at random moments and resumed each time."""
    text = FILE.replace("steps = 30", f"steps = {STEPS}").replace("checkpoint_every = 10", f"checkpoint_every = {EVERY}")
    (folder / "tiny.toml").write_text(text)
    terms = LedgerTerms("example", "add-remove", 500.0, 1e-5, filter="rdp", parameters={"order": 4.0})
    init(str(folder / "l.db"), "digits", terms).store.close()
    command = [sys.executable, "-c", DIARY, "train", "tiny.toml", "--ledger", "l.db", "-f", "json"]
    chance, resumes, state, diary = random.Random(seed), 0, folder / "runs" / "tiny" / "state.pt", folder / "diary"
    for _ in range(kills):
        before, resume = _length(diary), state.exists()
        process = subprocess.Popen([*command, *(["--resume"] if resume else [])], cwd=folder, stdout=subprocess.DEVNULL)
        # Some before the first noise, most in the middle of the steps; never so late that the run would end.
        wanted, deadline = before + chance.randint(0, 40), time.monotonic() + 60.0
        while _length(diary) < wanted and time.monotonic() < deadline:
            time.sleep(0.001)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        resumes += resume
    resume = ["--resume"] if state.exists() else []
    last = subprocess.run([*command, *resume], cwd=folder, capture_output=True, text=True, check=True)
    return Life(resumes, diary.read_text().split(), json.loads(last.stdout))


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
