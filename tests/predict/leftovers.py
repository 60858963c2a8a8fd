"""Leftovers of a user's learner: `leave` makes them, and `left` returns those that dpcli has not removed.

They are processes, a folder with a private row, a temporary folder, shared memory, and a row on each standard stream. A learner that leaves
them is still correct, so dpcli must remove them after it has run.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

ROW = "a private row"
kept: list[object] = []


def leave() -> None:
    """Make the leftovers, and note them in the file `left`. This happens once in each process, but not in dpcli's own."""
    if kept or os.environ.get("LEAVES") == str(os.getpid()):
        return
    print(ROW)  # noqa: T201
    print(ROW, file=sys.stderr)  # noqa: T201
    os.system(f"echo {ROW}; echo {ROW} >&2")
    memory, folder, own = SharedMemory(create=True, size=8), tempfile.TemporaryDirectory(), tempfile.mkdtemp()
    Path(own, "row").write_text(ROW)
    started = subprocess.Popen(["sleep", "1000"])
    forked = multiprocessing.get_context("fork").Process(target=time.sleep, args=(1000,))
    forked.start()
    kept.extend((memory, folder, started, forked))
    with open("left", "a") as file:
        file.write(f"{os.getpid()} {started.pid} {forked.pid};{own} {folder.name} /dev/shm/{memory.name}\n")


def left(folder: Path) -> list[str]:
    """Return the noted processes that still run, and the noted files that still exist."""
    lines = [line.split(";") for line in (folder / "left").read_text().splitlines()]
    running = [pid for line in lines for pid in line[0].split() if _runs(int(pid))]
    return running + [path for line in lines for path in line[1].split() if os.path.exists(path)]


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat")  # one that has ended, and that nobody has asked about, runs no more
        return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:  # also of a file that was opened while the process ran, and is read after its end
        return False
