"""kill -9 in the middle of a run, again and again: it ends with the right number of steps, and every one that may have run is charged."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra train is not installed")

from dpcli.ledger.places import init, open_ledger
from dpcli.ledger.terms import Terms
from tests.train.test_run import FILE

KILLS = 3


def test_a_run_that_is_killed_again_and_again(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(
        FILE.replace("steps = 30", "steps = 400").replace("checkpoint_every = 10", "checkpoint_every = 50")
    )
    books = init(
        str(tmp_path / "l.db"), "digits", Terms("example", "add-remove", 50.0, 1e-5, filter="rdp", parameters={"order": 4.0})
    )
    books.store.close()
    command = [sys.executable, "-m", "dpcli", "train", "tiny.toml", "--ledger", "l.db", "-f", "json"]
    chance, resumes = random.Random(5), 0
    for _ in range(KILLS):
        started = (tmp_path / "runs" / "tiny" / "state.pt").exists()
        process = subprocess.Popen([*command, *(["--resume"] if started else [])], cwd=tmp_path, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 30.0
        while not (tmp_path / "runs" / "tiny" / "state.pt").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(chance.uniform(0.0, 0.6))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        resumes += started
    last = subprocess.run([*command, "--resume"], cwd=tmp_path, capture_output=True, text=True, check=True)
    found = json.loads(last.stdout)
    assert (found["steps"], found["private"]) == (400, True)
    state = open_ledger(str(tmp_path / "l.db")).state()
    whole, *again = state.runs.values()
    assert whole.key == found["run"]
    assert whole.status == "committed"
    assert len(again) >= 1  # every resumption that got as far as the ledger charged what it may have repeated
    assert all(run.pipeline["mechanism"][0]["steps"] == 50 for run in again)
    assert found["repeated"] >= 50 * len(again)
    assert not (tmp_path / "runs" / "tiny" / "state.pt").exists()
