"""The fingerprint of a dataset's files: the same contents under another name, in another order or folder, have the same one."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Sequence

from dpcli.base.errors import InputError

PIECE = 1 << 20  # bytes that are held at once


def fingerprint_of(paths: Sequence[str]) -> str:
    """SHA-256 of one file's contents; of several, that of their distinct SHA-256 in order, a line each.

    A file that is named twice, or whose contents another one has too, adds nothing: else the same data could be given a second budget.

    Raises InputError for what is no file with contents, or cannot be read.
    """
    found = sorted({_digest(path) for path in paths})
    return found[0] if len(found) == 1 else hashlib.sha256("".join(f"{each}\n" for each in found).encode()).hexdigest()


def _digest(path: str) -> str:
    total, size = hashlib.sha256(), 0
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe has no end, and gives its contents once
            raise InputError(f"--data {path}: expected a file, found something else: name each file of a folder")
        with open(path, "rb") as file:
            before = _written(file.fileno())
            while piece := file.read(PIECE):
                size += len(piece)
                total.update(piece)
            after = _written(file.fileno())
    except OSError as error:
        raise InputError(f"--data {path}: cannot be read: {error.strerror}") from None
    if not size:
        raise InputError(f"--data {path}: expected the data of the dataset, found an empty file")
    if before != after:  # half of one and half of another is the fingerprint of neither
        raise InputError(f"--data {path}: expected a file that nobody writes to, found one that was changed while it was read")
    return total.hexdigest()


def _written(file: int) -> tuple[int, int]:
    """The size of an open file, and when it was last written."""
    found = os.fstat(file)
    return found.st_size, found.st_mtime_ns
