"""Where a file of counts is: a copy of it, which would be a second budget, is told from the file itself by what a copy changes.

A copy is another file (inode) or on another machine. What cannot be seen: a virtual machine or disk that is copied or restored as a whole,
containers that share a machine id, and a file whose content is put back to an earlier one. A ledger or a database elsewhere remains.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from dpcli.base.errors import LedgerError

MACHINE_ID = "/etc/machine-id"


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """machine: a hash of its id, which is not to be told. inode: of the file. path: absolute, without links."""

    machine: str
    inode: int
    path: str

    def refuse_copy(self, known: Whereabouts) -> None:
        """Raise LedgerError unless this is where the file was known to be, or the same file under a new name."""
        if self.machine != known.machine:
            found = "on another machine"
        elif self.inode != known.inode:
            found = "another file"
        elif self.path != known.path and os.path.lexists(known.path):
            found = "a file under another name, and something is at the first one"
        else:
            return
        raise LedgerError(
            f"{self.path}: a copy of {known.path} ({found}): two copies would grant every answer twice. Go on with the first, or, "
            "where that is gone and this is its latest state, say --moved"
        )


def whereabouts(path: str) -> Whereabouts:
    """Of a file that is there. Raises OSError where it is not."""
    return Whereabouts(machine(), os.stat(path).st_ino, os.path.realpath(path))


def home(folder: str) -> str:
    """By which a folder is told from its copies."""
    here = whereabouts(folder)
    return f"{here.machine} {here.inode}"


def machine() -> str:
    """A fingerprint of this machine: of its id, or of its name where it has none."""
    try:
        found = Path(MACHINE_ID).read_text(errors="replace").strip()
    except OSError:
        found = ""
    return hashlib.blake2b((found or os.uname().nodename).encode(), key=b"dpcli machine 1", digest_size=16).hexdigest()
