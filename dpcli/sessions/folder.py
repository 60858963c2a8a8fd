"""Atomic and durable writes of files, and folders that only one process at a time may use.

The folder of a run holds what the guarantee rests on: which charge pays for the run, and how much of it is used up. `replace_file` replaces
a file as a whole, and returns when the new content is on the disk, so that after a crash the file is the old or the new one. The lock of
`exclusive` keeps two processes from drawing noise for one charge in one folder. A fork inherits it; `this_process` tells forks apart.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator

from dpcli.base.errors import InputError
from dpcli.base.extras import require_posix

LOCK = ".lock"  # name of the lock file in a folder
# The number of attempts to lock a folder that other processes repeatedly create and remove. It is arbitrary: after them nothing was done.
LOCK_ATTEMPTS = 100

_FORKS = 0  # number of forks between the first process and this one


def replace_file(
    path: str, content: bytes, mode: int = 0o666, fresh: bool = False, last: Callable[[], None] = lambda: None
) -> None:
    """Replace a file durably and atomically. A reader sees the old content or the new content, and never a part.

    The content is written to a draft, `path`.new, which is then renamed to the file. After an error, the draft is removed and the file is
    unchanged.

    Args:
        path: Path of the file, which need not exist.
        mode: Permissions of the file. They are exact if `fresh` is set, and otherwise reduced by the umask.
        fresh: Whether to refuse to overwrite a draft that another process left or is writing.
        last: Final check, which is called just before the replacement: for example that the old file is unchanged. If it raises an error,
            the old file remains.

    Raises:
        OSError: The file cannot be written. With `fresh`, FileExistsError is raised if there is already a draft.
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
    """Lock a folder for this process within the block. A missing folder is created, and removed at the end if it is empty.

    Args:
        mode: Permissions of a folder that is created.

    Raises:
        InputError: Another process has locked the folder, or it cannot be written.
    """
    created, process = missing_folders(folder), this_process()
    lock = _lock(folder, mode)
    try:
        yield
    finally:
        try:
            if created and process == this_process():  # a fork inherits the lock, but must not remove the folder
                _remove_if_empty(folder, created)
        finally:
            os.close(lock)  # this releases the lock, as the end of the process would


def missing_folders(folder: str) -> list[str]:
    """Return the missing folders of a path, from the innermost to the outermost: if only /a exists, /a/b/c gives ["/a/b/c", "/a/b"]."""
    folders, place = [], os.path.abspath(folder)
    while not os.path.lexists(place):
        folders.append(place)
        place = os.path.dirname(place)
    return folders


def _lock(folder: str, mode: int) -> int:
    """Lock the folder and return the descriptor of its lock file.

    Another process may remove the folder with its lock file after this process has opened the lock file. Both are then created again.
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
                f"{folder}: expected a folder that no other run uses, found one in use: finish or close that run"
            ) from None
        except BaseException:
            os.close(lock)
            raise
        if is_current:
            return lock
        os.close(lock)
    raise InputError(f"{folder}: cannot be locked, because other processes repeatedly remove it")


def _is_same_file(lock: int, path: str) -> bool:
    """Return whether the open lock file still has this path. A lock on a removed file excludes no other process."""
    try:
        return os.path.samestat(os.fstat(lock), os.stat(path))
    except FileNotFoundError:
        return False


def _remove_if_empty(folder: str, created: Iterable[str]) -> None:
    """Remove the folders that were created, if the innermost one contains only the lock file. This process still holds the lock."""
    with contextlib.suppress(OSError):
        if os.listdir(folder) == [LOCK]:
            os.unlink(os.path.join(folder, LOCK))
            for place in created:
                os.rmdir(place)


def this_process() -> tuple[int, int]:
    """Return a key that differs between this process, its ancestors and its forks.

    The process id alone does not suffice. In its own PID namespace, a fork can have the id of its parent, and the system may reuse the id
    of an ancestor that has ended. The number of forks since the first process distinguishes these cases. The process id covers forks that
    were made outside of Python.
    """
    return os.getpid(), _FORKS


def _count_fork() -> None:
    global _FORKS
    _FORKS += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)
