"""A run on several processes, as torchrun starts them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path


def together(folder: Path, *arguments: str, world: int = 2) -> list[subprocess.CompletedProcess[str]]:
    """What torchrun starts: the same command once for each rank."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    processes = []
    for rank in range(world):
        own = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(world),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
        }
        command = [sys.executable, "-m", "dpcli", "train", *arguments, "-f", "json"]
        processes.append(
            subprocess.Popen(
                command,
                cwd=folder,
                env=os.environ | own | {"OMP_NUM_THREADS": "1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    found = []
    for process in processes:
        out, err = process.communicate(timeout=600)
        found.append(subprocess.CompletedProcess(process.args, process.returncode, out, err))
    return found
