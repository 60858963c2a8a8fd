"""What a learner prints goes nowhere, and what it starts and keeps ends with its process, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.predict.leaving import ROW, left
from tests.predict.one_change import OWN_LEARNERS

PATIENCE = 60.0  # seconds, for what ends after a command has


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_code", raising=False)
    return tmp_path


def left_at_last(place: Path) -> list[str]:
    until = time.monotonic() + PATIENCE
    while (still := left(place)) and time.monotonic() < until:
        time.sleep(0.05)
    return still


@pytest.mark.long
@pytest.mark.needs("torch")
@pytest.mark.parametrize("learner", OWN_LEARNERS)
def test_nothing_is_left_of_a_learner_and_nothing_is_shown(
    learner: str, place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LEAVES", str(os.getpid()))
    OWN_LEARNERS[learner](place, "none", False)
    shown = capfd.readouterr()
    assert ROW not in shown.out + shown.err
    assert len((place / "left").read_text().splitlines()) >= 6
    assert left_at_last(place) == []


ENDS = {
    "answers": "return Said()",
    "is killed": "os.kill(os.getpid(), 9)",
    "waits": "time.sleep(1000)",
    "spins": "while True: pass",
}
LEARNS = """
import os, time
import numpy as np
from tests.predict.leaving import leave
class Said:
    def predict(self, inputs):
        return np.zeros(len(inputs))
def learn(inputs, labels):
    leave()
    END
"""
RUNS = """
from dpcli.numerics.arrays import np
from dpcli.predict.shard_processes import Apart
from dpcli.predict.pate.records import Records
from dpcli.predict.pate.teachers import Lesson
with Apart(Lesson(np.zeros((2, 2)), "leaves:learn", 3, 8, "a.toml"), "gone") as apart:
    list(apart.each([(0, Records(np.zeros((4, 2)), np.array([0, 1, 0, 1])))]))
"""


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_whatever_a_learner_has_started_ends_with_it_and_with_dpcli(end: str, stop: signal.Signals, place: Path) -> None:
    (place / "leaves.py").write_text(LEARNS.replace("END", ENDS[end]))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", RUNS], env=environment, stderr=subprocess.PIPE) as process:
        while end in ("waits", "spins") and not (place / "left").exists():
            time.sleep(0.05)
            assert process.poll() is None, process.stderr and process.stderr.read()
        if end in ("waits", "spins"):
            process.send_signal(stop)
        process.wait()
    assert left_at_last(place) == []
