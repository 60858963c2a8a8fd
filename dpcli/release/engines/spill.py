"""The folder of rows that do not fit in memory: gone with the process that made it, or at the next start after one that was killed."""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass

NAME = "dpcli-spill-"


@dataclass(frozen=True, slots=True)
class Spill:
    """A folder that nobody else can read. lock: an open descriptor of it, let go by the system when the process ends, however it does."""

    path: str
    lock: int

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):
            os.close(self.lock)


def spill() -> Spill:
    """A new folder; those that dead processes of this user left are removed."""
    for left in glob.glob(os.path.join(glob.escape(tempfile.gettempdir()), f"{NAME}*")):
        found = _held(left)
        if found is not None:
            found.remove()
    while True:
        made = _held(tempfile.mkdtemp(prefix=NAME))
        if made is not None:
            return made


def _held(path: str) -> Spill | None:
    """It is held by this process alone; None where another one has it, where it is another user's, or it was removed meanwhile."""
    import fcntl

    with suppress(OSError):
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            own = os.fstat(lock)
            if own.st_uid == os.geteuid() and os.path.samestat(own, os.stat(path)):
                return Spill(path, lock)
        except OSError:
            pass
        os.close(lock)
    return None
