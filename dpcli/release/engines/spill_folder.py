"""A folder for the rows that DuckDB writes to disk when they do not fit in memory. These rows are raw and private.

The folder is removed at the end or, if the process was killed, when the next release of this user opens DuckDB. A lock marks the folders of
living processes: the system releases it when the process ends, however it ends.
"""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass

SPILL_PREFIX = "dpcli-spill-"


@dataclass(frozen=True, slots=True)
class SpillFolder:
    """A folder that no other user can read.

    lock: locked file descriptor of the folder. The system releases the lock when the process ends.
    """

    path: str
    lock: int

    def remove(self) -> None:
        """Delete the folder, as far as possible, and release the lock."""
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):
            os.close(self.lock)


def spill_folder() -> SpillFolder:
    """Return a new spill folder, after removing the spill folders of dead processes of this user."""
    for path in glob.glob(os.path.join(glob.escape(tempfile.gettempdir()), f"{SPILL_PREFIX}*")):
        abandoned = _locked(path)
        if abandoned is not None:
            abandoned.remove()
    while True:  # another process may remove a new folder before it is locked
        folder = _locked(tempfile.mkdtemp(prefix=SPILL_PREFIX))
        if folder is not None:
            return folder


def _locked(path: str) -> SpillFolder | None:
    """Lock a folder for this process and return it.

    The result is None if another process has locked the folder, if the folder belongs to another user, or if it was removed.
    """
    import fcntl

    with suppress(OSError):
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            locked = os.fstat(lock)
            # Before it was locked, the folder may have been removed, and another one made under its path.
            if locked.st_uid == os.geteuid() and os.path.samestat(locked, os.stat(path)):
                return SpillFolder(path, lock)
        except OSError:
            pass
        os.close(lock)
    return None
