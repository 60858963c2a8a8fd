"""Files of a folder: there whole or not at all, in a folder that one process works in at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator

from dpcli.errors import InputError

LOCK = ".lock"


def replaced(path: str, content: bytes, mode: int = 0o666, fresh: bool = False, last: Callable[[], None] = lambda: None) -> None:
    """A file with this content, durable, in one piece; where `fresh`, no file stands in for it that is there already.

    last: a look at the old file, just before it goes, which may raise. Raises OSError, FileExistsError among others, where it cannot be
    written; the file is then as it was.
    """
    draft = f"{path}.new"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | (os.O_EXCL if fresh else os.O_TRUNC), mode), "wb") as file:
        if fresh:
            os.fchmod(file.fileno(), mode)  # which the umask may have made less
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    try:
        last()
    except Exception:
        os.unlink(draft)
        raise
    os.replace(draft, path)
    folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextlib.contextmanager
def exclusive(folder: str) -> Iterator[None]:
    """The folder, made where it is not there, for this process alone.

    Raises InputError where another one has it, or it cannot be written.
    """
    try:
        os.makedirs(folder, exist_ok=True)
        lock = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{folder}: expected a folder that no other process works in, found one at work") from None
        yield
    finally:
        os.close(lock)  # which gives it back; so does the end of the process, however it comes
