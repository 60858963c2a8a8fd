"""The warmed process, from which the process of each shard is forked. No private value comes into it: these go to its forks alone.

Each process has a session and a temporary folder of its own, and a keeper, which ends whatever was started in that session and removes the
folder: when the process has ended, however, and when whoever waits for it is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import random
import select
import shutil
import signal
import socket
import stat
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NoReturn, Protocol

from dpcli.base.errors import DpcliError, InputError, Unavailable
from dpcli.numerics.arrays import np
from dpcli.predict.models.model_answers import on_private

# A fork has none of its parent's threads, and numeric libraries wait for theirs for ever: the parent has one.
ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
TEMPORARY = ("TMPDIR", "JOBLIB_TEMP_FOLDER")  # the latter is in /dev/shm else
GRACE_LOOKS, LOOK_SECONDS = 100, 0.01  # trackers of shared memory, which ignore SIGTERM, remove in that time what others have left


@dataclass(frozen=True, slots=True)
class Preparation:
    """The public part of the work, built once.

    Attributes:
        content: The same wherever it is built.
        work: Work on one shard, in a process of its own.
    """

    content: str
    work: Callable[[Any], Any]


class ShardWork(Protocol):
    """The work on each shard; it is sent to the warmed process, and holds nothing private."""

    @property
    def place(self) -> str:
        """Return the beginning of a message, where the user's code fails on a shard."""
        ...

    def prepared(self) -> Preparation:
        """Import, load and build what is public, once."""
        ...


@dataclass(frozen=True, slots=True)
class Task:
    """The work of one process.

    Attributes:
        threads: Threads of torch.
        stays: The result stays in the process, and answers questions.
    """

    entropy: bytes
    threads: int
    work: Any
    stays: bool = False


def seed_generators(entropy: bytes) -> None:
    """Seed every generator that processes share: after the user's module was imported and the public model built, where these seed.

    What is imported later begins as in every process.
    """

    def drawn(name: str) -> bytes:
        return hashlib.sha256(name.encode() + entropy).digest()

    random.seed(drawn("random"))
    np.random.seed(np.frombuffer(drawn("numpy"), np.uint32))
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(int.from_bytes(drawn("torch")[:8], "big"))


def main(descriptor: int) -> None:
    """Run the process that shard_processes.py starts: keep one that prepares, says so, and forks whenever a line to a fork arrives."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # which is for whoever started it, at whose end all end
    place = tempfile.gettempdir()
    _keep(descriptor, place, lambda: _prepare(Connection(descriptor), place))


def _prepare(line: Connection, temporary: str) -> None:
    shard_work: ShardWork = line.recv()
    with contextlib.suppress(ImportError):
        import tqdm  # type: ignore[import-untyped]

        tqdm.tqdm.monitor_interval = 0  # its bars start no thread, as no process with threads is forked from
    try:
        prepared = shard_work.prepared()
    except DpcliError as error:
        line.send((False, _sendable_error(error)))
        return
    sys.stdout.flush()
    sys.stderr.flush()
    forks = _can_fork()
    line.send((True, (prepared.content, forks)))
    if not forks:
        _work(line, shard_work.place, prepared.work)
        return
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whose end is seen at their lines
    with socket.socket(fileno=os.dup(line.fileno())) as control:
        line.close()
        while True:
            _, received, _, _ = socket.recv_fds(control, 1, 1)
            if not received:
                return
            theirs = received[0]
            if os.fork() == 0:
                control.close()
                _keep(theirs, temporary, lambda: _work(Connection(theirs), shard_work.place, prepared.work))  # noqa: B023
            os.close(theirs)


def _keep(line: int, temporary: str, work: Callable[[], None]) -> NoReturn:
    """Do the work in a process with a session and a folder of its own, and leave nothing of either when it ends, or when the line does."""
    os.setsid()  # no signal of the terminal, nor for those who have forked it
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    folder = tempfile.mkdtemp(prefix="dpcli-", dir=temporary)
    worker = os.fork()
    if worker == 0:
        _run_worker(folder, work)

    def look(*_: object) -> None:
        if os.waitpid(worker, os.WNOHANG)[0] == worker:
            _end_group(worker, folder)

    signal.signal(signal.SIGCHLD, look)
    look()  # if it has ended by now
    gone = select.poll()
    gone.register(line, 0)  # which says that the other end is closed, and no more
    gone.poll()
    _end_group(worker, folder)


def _run_worker(folder: str, work: Callable[[], None]) -> NoReturn:
    try:
        os.setsid()
        tempfile.tempdir = folder
        os.environ.update(dict.fromkeys(TEMPORARY, folder))
        work()
    except BaseException:
        traceback.print_exc()  # of a warmed process, which has nothing private: a fork says nothing
    finally:
        os._exit(0)


def _end_group(group: int, folder: str) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with contextlib.suppress(ProcessLookupError, PermissionError):  # the latter on macOS, if all have ended
        os.killpg(group, signal.SIGTERM)
        for _ in range(GRACE_LOOKS):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(group, os.WNOHANG)
            os.killpg(group, 0)
            time.sleep(LOOK_SECONDS)
        os.killpg(group, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def _can_fork() -> bool:
    """Return whether a fork works: a graphics card in use does not come along, nor do threads, which numeric libraries then wait for."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return False
    tasks = "/proc/self/task"
    return (len(os.listdir(tasks)) if os.path.isdir(tasks) else threading.active_count()) == 1


def _work(line: Connection, place: str, work: Callable[[Any], Any]) -> None:
    """Do what arrives and send the result; or keep it, and answer questions about it as long as the line is open."""
    _discard_output()
    _reopen_files()
    task: Task = line.recv()
    seed_generators(task.entropy)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(task.threads)
    fine, made = _result_of(place, work, task.work)
    line.send((fine, None if fine and task.stays else made))
    while fine and task.stays:
        try:
            question = line.recv()
        except EOFError:
            return
        line.send(_result_of(place, question, made))


def _result_of(place: str, work: Callable[[Any], Any], given: Any) -> tuple[bool, Any]:
    try:
        return True, on_private(place, work, given)
    except DpcliError as error:
        return False, _sendable_error(error)


def _discard_output() -> None:
    """Discard what is printed, as it may be a private value."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _reopen_files() -> None:
    """Give each regular file that is open a place of its own to read at: forks would move each other's. Linux alone has a way to.

    What can be written only is written at its end, as it was where all forks wrote at one place.
    """
    kept = os.O_ACCMODE | os.O_APPEND | os.O_NONBLOCK | os.O_SYNC
    with contextlib.suppress(FileNotFoundError):
        for descriptor in map(int, os.listdir("/proc/self/fd")):
            with contextlib.suppress(OSError):  # the folder that is listed; a file that may not be opened again
                flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
                if flags & getattr(os, "O_PATH", 0) or not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    continue
                flags = flags & kept | (os.O_APPEND if flags & os.O_ACCMODE == os.O_WRONLY else 0)
                again = os.open(f"/proc/self/fd/{descriptor}", flags)
                os.lseek(again, os.lseek(descriptor, 0, os.SEEK_CUR), os.SEEK_SET)
                os.dup2(again, descriptor, os.get_inheritable(descriptor))
                os.close(again)


def _sendable_error(error: DpcliError) -> DpcliError:
    """Return an error with the words alone."""
    kind = Unavailable if isinstance(error, Unavailable) else InputError
    return kind(str(error))
