"""The identity of a file of counts: a copy of it, which would be a second budget, is told from the file itself by what a copy changes.

A copy is another file (inode) or on another machine. What cannot be seen: a virtual machine or disk that is copied or restored entirely,
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
    """The identity of a file. machine: a hash of its id, which is not to be told. path: absolute, without links."""

    machine: str
    inode: int
    path: str

    def refuse_copy(self, known: Whereabouts) -> None:
        """Raise LedgerError unless this is where the file was known to be, or the same file under a new name."""
        if self.machine != known.machine:
            difference = "on another machine"
        elif self.inode != known.inode:
            difference = "another file"
        elif self.path != known.path and os.path.lexists(known.path):
            difference = "a file under another name, and something is at the first one"
        else:
            return
        raise LedgerError(
            f"{self.path}: a copy of {known.path} ({difference}): two copies would grant every answer twice. Go on with the first, or, "
            "where that is gone and this is its latest state, say --moved"
        )


def whereabouts(path: str) -> Whereabouts:
    """Return the identity of a file. Raise OSError where there is none."""
    return Whereabouts(machine(), os.stat(path).st_ino, os.path.realpath(path))


def machine() -> str:
    """Return a fingerprint of this machine: of its id, or of its name where it has none."""
    try:
        name = Path(MACHINE_ID).read_text(errors="replace").strip()
    except OSError:
        name = ""
    return hashlib.blake2b((name or os.uname().nodename).encode(), key=b"dpcli machine 1", digest_size=16).hexdigest()
