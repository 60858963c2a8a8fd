"""A training run on several processes, which are started as torchrun starts them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

# The processes part after what they all import, which takes longer than all else.
RANKS = """
import os, sys
import dpcli.train.engine.per_example, dpcli.train.run.ranks, dpcli.train.run.training_run, dpcli.train.step.prepare
from dpcli.cli.main import run
world, place, *arguments = sys.argv[1:]
children = []
for rank in range(int(world)):
    child = os.fork()
    if child == 0:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
        for name, stream in (("out", 1), ("err", 2)):
            os.dup2(os.open(f"{place}/{name}-{rank}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), stream)
        sys.argv = ["dpcli", *arguments]
        run()
        os._exit(0)
    children.append(child)
print(*(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""


def together(folder: Path, *arguments: str, world: int = 2) -> list[subprocess.CompletedProcess[str]]:
    """Run the same command once for each rank, as torchrun does."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command, shared = (
        ["train", *arguments, "-f", "json"],
        {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port},
    )
    with tempfile.TemporaryDirectory() as place:
        done = subprocess.run(
            [sys.executable, "-c", RANKS, str(world), place, *command],
            cwd=folder,
            env=os.environ | shared | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=600,
            check=True,
        )
        said = [tuple(Path(place, f"{name}-{rank}").read_text() for name in ("out", "err")) for rank in range(world)]
    return [subprocess.CompletedProcess(command, int(code), *words) for code, words in zip(done.stdout.split(), said, strict=True)]
