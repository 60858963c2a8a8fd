"""Files of a folder: there whole or not at all, in a folder that one process works in at a time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator

from dpcli.base.errors import InputError
from dpcli.base.extras import require_posix

_FORKS = 0


def this_process() -> tuple[int, int]:
    """Return what no process has that this one was forked from, or that is forked from it.

    Its number alone is no answer: in a namespace of its own a fork may have its parent's, and later one may have that of an ancestor that
    ended. So the forks since the first process are counted, and the number is for those that Python did not hear of.
    """
    return os.getpid(), _FORKS


def _count_fork() -> None:
    global _FORKS
    _FORKS += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


LOCK = ".lock"
TRIES = 100  # to hold a folder that others make and remove


def replaced(path: str, content: bytes, mode: int = 0o666, fresh: bool = False, last: Callable[[], None] = lambda: None) -> None:
    """Write a file with this content, durably, in one piece; where `fresh`, refuse a draft that exists.

    last: a look at the old file, just before it goes, which may raise. Raise OSError, FileExistsError among others, where it cannot be
    written, and Unavailable where the system has no way to; the file is then as it was.
    """
    require_posix(f"{path}: a file that must be durable")
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
def exclusive(folder: str, mode: int = 0o777) -> Iterator[None]:
    """Hold a folder, made where it is missing, for this process alone. An empty one is removed at the end.

    mode: of a folder that is made. Raise InputError where another process has it, or it cannot be written.
    """
    made, process = _missing_folders(folder), this_process()
    lock = _lock(folder, mode)
    try:
        yield
    finally:
        try:
            if made and process == this_process():  # a fork has its parent's lock, and is not the one that leaves
                _remove_if_empty(folder, made)
        finally:
            os.close(lock)  # which gives it back; so does the end of the process, however it comes


def _missing_folders(folder: str) -> list[str]:
    """Return the folder and those around it that are missing, the innermost first."""
    folders, place = [], os.path.abspath(folder)
    while not os.path.lexists(place):
        folders.append(place)
        place = os.path.dirname(place)
    return folders


def _lock(folder: str, mode: int) -> int:
    """Return the lock of the folder, open. Where it was removed with its folder as this one came, it is made again."""
    require_posix(f"{folder}: the folder of a run")
    import fcntl

    path = os.path.join(folder, LOCK)
    for left in reversed(range(TRIES)):
        try:
            os.makedirs(folder, mode, exist_ok=True)
            lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and left:
                continue
            raise InputError(f"{folder}: cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            same = _is_same_file(lock, path)
        except BlockingIOError:
            os.close(lock)
            raise InputError(f"{folder}: expected a folder that no other process works in, found one at work") from None
        except BaseException:
            os.close(lock)
            raise
        if same:
            return lock
        os.close(lock)
    raise InputError(f"{folder}: expected a folder that stays, found one that others remove as often as it is made")


def _is_same_file(lock: int, path: str) -> bool:
    """Check whether the open file is the one of that name: a lock on another holds nobody off."""
    try:
        return os.path.samestat(os.fstat(lock), os.stat(path))
    except FileNotFoundError:
        return False


def _remove_if_empty(folder: str, made: Iterable[str]) -> None:
    """Remove the folder, with those around it that were made for it, where it holds the lock alone, which is held until then."""
    with contextlib.suppress(OSError):
        if os.listdir(folder) == [LOCK]:
            os.unlink(os.path.join(folder, LOCK))
            for place in made:
                os.rmdir(place)
