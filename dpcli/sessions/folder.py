"""Atomic and durable writes of files, and folders that one process at a time may use."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator

from dpcli.base.errors import InputError
from dpcli.base.extras import require_posix

_FORKS = 0


def this_process() -> tuple[int, int]:
    """Return a key that differs between this process, its ancestors and its forks.

    The process id alone does not suffice: in a PID namespace of its own a fork can have its parent's id, and the system may give the id
    of an ancestor that ended to a later process. The number of forks since the first process tells these apart. The process id covers
    forks that were made outside of Python.
    """
    return os.getpid(), _FORKS


def _count_fork() -> None:
    global _FORKS
    _FORKS += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


LOCK = ".lock"
LOCK_ATTEMPTS = 100  # number of attempts to lock a folder that other processes repeatedly create and remove


def replace_file(
    path: str, content: bytes, mode: int = 0o666, fresh: bool = False, last: Callable[[], None] = lambda: None
) -> None:
    """Replace a file durably and in one step: readers see the old content or the new, never a part.

    The content is written to a draft, `path`.new, which then takes the name of the file. If anything fails, the draft is removed and the
    file is unchanged.

    Args:
        path: Path of the file, which need not exist.
        content: New content of the file.
        mode: Permissions of the file. They are exact if `fresh`, and otherwise reduced by the umask.
        fresh: Refuse to overwrite a draft that another process left or is writing.
        last: Final check of the old file, called just before it is replaced. An exception from it leaves the old file.

    Raises:
        OSError: The file cannot be written. With `fresh`, FileExistsError: there is a draft already.
        Unavailable: The operating system cannot replace a file durably.
    """
    require_posix(f"{path}: a file that must be durable")
    draft = f"{path}.new"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | (os.O_EXCL if fresh else os.O_TRUNC), mode)
    try:
        with open(descriptor, "wb") as file:
            if fresh:
                os.fchmod(file.fileno(), mode)  # the umask may have removed permissions
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        last()
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):  # the first error is the one to report
            os.unlink(draft)
        raise
    folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextlib.contextmanager
def exclusive(folder: str, mode: int = 0o777) -> Iterator[None]:
    """Lock a folder for this process while the context lasts. The folder is made if it is missing.

    A folder that was made here and is empty at the end is removed.

    Args:
        folder: Path of the folder.
        mode: Permissions of a folder that is made.

    Raises:
        InputError: Another process has locked the folder, or it cannot be written.
    """
    made, process = _missing_folders(folder), this_process()
    lock = _lock(folder, mode)
    try:
        yield
    finally:
        try:
            if made and process == this_process():  # a fork inherits the lock, but must not release it
                _remove_if_empty(folder, made)
        finally:
            os.close(lock)  # releases the lock, as the end of the process would


def _missing_folders(folder: str) -> list[str]:
    """Return the missing folders of a path, the innermost first."""
    folders, place = [], os.path.abspath(folder)
    while not os.path.lexists(place):
        folders.append(place)
        place = os.path.dirname(place)
    return folders


def _lock(folder: str, mode: int) -> int:
    """Lock the folder and return the descriptor of its lock file.

    Another process may remove the folder, with its lock file, between the opening and the locking. Both are then made again.
    """
    require_posix(f"{folder}: the folder of a run")
    import fcntl

    path = os.path.join(folder, LOCK)
    for remaining in reversed(range(LOCK_ATTEMPTS)):
        try:
            os.makedirs(folder, mode, exist_ok=True)
            lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and remaining:
                continue
            raise InputError(f"{folder}: cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_current = _is_same_file(lock, path)
        except BlockingIOError:
            os.close(lock)
            raise InputError(
                f"{folder}: expected a folder that no other process works in, found one that another process has locked"
            ) from None
        except BaseException:
            os.close(lock)
            raise
        if is_current:
            return lock
        os.close(lock)
    raise InputError(f"{folder}: expected a folder that stays, found one that other processes removed {LOCK_ATTEMPTS} times")


def _is_same_file(lock: int, path: str) -> bool:
    """Check whether the open file still has this path. A lock on a removed file excludes no other process."""
    try:
        return os.path.samestat(os.fstat(lock), os.stat(path))
    except FileNotFoundError:
        return False


def _remove_if_empty(folder: str, made: Iterable[str]) -> None:
    """Remove the folders that were made, if the innermost contains only the lock file, which this process still holds."""
    with contextlib.suppress(OSError):
        if os.listdir(folder) == [LOCK]:
            os.unlink(os.path.join(folder, LOCK))
            for place in made:
                os.rmdir(place)
