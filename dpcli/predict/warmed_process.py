"""The warmed process, from which the process of each shard is forked, and the keeper of each of these processes.

shard_processes.py, the *client*, starts `main` as a program of its own, and its docstring says why shards have separate processes. The
client sends the public part of the work once (`ShardWork`), and then a `Task` with a private shard to the process of that shard alone. A
process answers with a pair: True and a result, or False and an error. Each of these processes, including the warmed one, has a temporary
folder and a parent process, its *keeper*. When the process or the client has ended, the keeper ends the group of the process, with all that
was started in it, and removes the folder.

A *session* and a *group* are sets of processes in the sense of POSIX. What a process starts belongs to both of its sets, unless it leaves
them. `setsid` starts a new session with one group, which has the number of the process. Signals are sent to groups.
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

# A fork has only the thread that forked, and numeric libraries would wait for ever for their other threads. So the parent has one thread.
ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
TEMPORARY = ("TMPDIR", "JOBLIB_TEMP_FOLDER")  # Without the latter, joblib would write to /dev/shm.
# Number of checks between SIGTERM and SIGKILL, and seconds between two checks: one second in all. Trackers of shared memory ignore SIGTERM,
# and clean up in that time.
GRACE_CHECKS, CHECK_SECONDS = 100, 0.01


@dataclass(frozen=True, slots=True)
class Preparation:
    """The public part of the work, which is built once.

    Attributes:
        content: Digest or description of the public part, which must be equal in every process; "" if there is none.
        work: Function that does the work on one shard, in a separate process.
    """

    content: str
    work: Callable[[Any], Any]


class ShardWork(Protocol):
    """The work on each shard. It is sent to the warmed process, and must contain nothing private."""

    @property
    def place(self) -> str:
        """Return the beginning of the message if the user's code fails on a shard."""
        ...

    def prepare(self) -> Preparation:
        """Import, load and build everything that is public. It is called once."""
        ...


@dataclass(frozen=True, slots=True)
class Task:
    """The work of one process.

    Attributes:
        entropy: Seed of the random generators.
        threads: Number of threads of torch.
        shard: Private argument of the work.
        stays: Whether the process keeps the result, and answers questions about it.
    """

    entropy: bytes
    threads: int
    shard: Any
    stays: bool = False


def seed_generators(entropy: bytes) -> None:
    """Seed the random generators of the standard library, numpy and torch.

    This is called after the user's module was imported and the public model was built, as both may seed the generators themselves. A module
    that is imported later has the same initial state in every process.
    """

    def seed_of(library: str) -> bytes:
        return hashlib.sha256(library.encode() + entropy).digest()

    random.seed(seed_of("random"))
    np.random.seed(np.frombuffer(seed_of("numpy"), np.uint32))
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(int.from_bytes(seed_of("torch")[:8], "big"))


def main(descriptor: int) -> None:
    """Run the process that shard_processes.py starts. It becomes the keeper of a warmed process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Only the client handles an interrupt. All processes end when the client ends.
    temporary = tempfile.gettempdir()
    _become_keeper(descriptor, temporary, lambda: _prepare(Connection(descriptor), temporary))


def _prepare(connection: Connection, temporary: str) -> None:
    """Build the public part, report its content, and fork for every connection that arrives. Without forks, do the work on one shard."""
    shard_work: ShardWork = connection.recv()
    with contextlib.suppress(ImportError):
        import tqdm  # type: ignore[import-untyped]

        # The progress bars of tqdm must not start a thread, because a process with threads cannot be forked.
        tqdm.tqdm.monitor_interval = 0
    try:
        prepared = shard_work.prepare()
    except DpcliError as error:
        connection.send((False, _sendable_error(error)))
        return
    sys.stdout.flush()
    sys.stderr.flush()
    forks = _can_fork()
    connection.send((True, (prepared.content, forks)))
    if not forks:
        _serve_shard(connection, shard_work.place, prepared.work)
        return
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # The client notices the end of a fork by its connection.
    with socket.socket(fileno=os.dup(connection.fileno())) as control:
        connection.close()
        while True:
            # The client sends a byte with one descriptor: its connection to the process of the next shard.
            _, descriptors, _, _ = socket.recv_fds(control, 1, 1)
            if not descriptors:  # the client has closed its end
                return
            shard_fd = descriptors[0]
            if os.fork() == 0:
                control.close()
                _become_keeper(shard_fd, temporary, lambda: _serve_shard(Connection(shard_fd), shard_work.place, prepared.work))  # noqa: B023
            os.close(shard_fd)


def _become_keeper(descriptor: int, temporary: str, work: Callable[[], None]) -> NoReturn:
    """Do the work in a process with its own session and folder. Both are removed when the process ends or the connection is closed.

    The calling process becomes the keeper, in a session of its own. `descriptor` belongs to the connection to the client.
    """
    os.setsid()  # Signals of the terminal and of the parent's group do not reach this process.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    folder = tempfile.mkdtemp(prefix="dpcli-", dir=temporary)
    worker = os.fork()
    if worker == 0:
        _run_worker(folder, work)

    def end_if_done(*_: object) -> None:
        if os.waitpid(worker, os.WNOHANG)[0] == worker:
            _end_group(worker, folder)

    signal.signal(signal.SIGCHLD, end_if_done)
    end_if_done()  # The worker may have ended before the handler was set.
    closed = select.poll()
    closed.register(descriptor, 0)  # poll() returns only when the other end is closed.
    closed.poll()
    _end_group(worker, folder)


def _run_worker(folder: str, work: Callable[[], None]) -> NoReturn:
    """Do the work in its own session, with temporary files in the folder, and exit."""
    try:
        os.setsid()
        tempfile.tempdir = folder
        os.environ.update(dict.fromkeys(TEMPORARY, folder))
        work()
    except BaseException:
        traceback.print_exc()  # Only a warmed process prints this, and it has nothing private. The output of a fork is discarded.
    finally:
        os._exit(0)


def _end_group(group: int, folder: str) -> NoReturn:
    """End all processes of a group, with SIGTERM first, remove the folder, and exit."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS raises PermissionError if all processes have ended.
        os.killpg(group, signal.SIGTERM)
        for _ in range(GRACE_CHECKS):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(group, os.WNOHANG)
            os.killpg(group, 0)  # sends no signal; it raises ProcessLookupError, which ends the wait, once the group is empty
            time.sleep(CHECK_SECONDS)
        os.killpg(group, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def _can_fork() -> bool:
    """Return whether this process can be forked.

    A process that uses a graphics card or has several threads cannot: a fork has neither, and numeric libraries would wait for the threads.
    """
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return False
    tasks = "/proc/self/task"
    threads = len(os.listdir(tasks)) if os.path.isdir(tasks) else threading.active_count()
    return threads == 1


def _serve_shard(connection: Connection, place: str, work: Callable[[Any], Any]) -> None:
    """Receive a task and send its result. If `task.stays`, keep the result and answer questions about it until the connection is closed."""
    _discard_output()
    _reopen_files()
    task: Task = connection.recv()
    seed_generators(task.entropy)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(task.threads)
    succeeded, result = _result_of(place, work, task.shard)
    # A process that stays sends no result, such as a fitted model, but only that it has one.
    connection.send((succeeded, None if succeeded and task.stays else result))
    while succeeded and task.stays:
        try:
            question = connection.recv()
        except EOFError:
            return
        connection.send(_result_of(place, question, result))


def _result_of(place: str, work: Callable[[Any], Any], argument: Any) -> tuple[bool, Any]:
    """Return True and the result of the work, or False and the error that it raised, without the message of the user's code."""
    try:
        return True, on_private(place, work, argument)
    except DpcliError as error:
        return False, _sendable_error(error)


def _discard_output() -> None:
    """Discard the standard output and error of this process, which may contain private values."""
    null_device = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(null_device, descriptor)
    os.close(null_device)


def _reopen_files() -> None:
    """Open each open regular file again, so that this process has its own file positions. This works on Linux only.

    Forks share the positions of open files, and would move them for each other. A file that is open for writing only is opened for
    appending, because all forks wrote at one shared position before.
    """
    kept_flags = os.O_ACCMODE | os.O_APPEND | os.O_NONBLOCK | os.O_SYNC
    with contextlib.suppress(FileNotFoundError):
        for descriptor in map(int, os.listdir("/proc/self/fd")):
            with contextlib.suppress(OSError):  # The listing's own descriptor is closed by now, and some files cannot be reopened.
                flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
                if flags & getattr(os, "O_PATH", 0) or not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    continue
                is_write_only = flags & os.O_ACCMODE == os.O_WRONLY
                flags &= kept_flags
                if is_write_only:
                    flags |= os.O_APPEND
                reopened = os.open(f"/proc/self/fd/{descriptor}", flags)
                os.lseek(reopened, os.lseek(descriptor, 0, os.SEEK_CUR), os.SEEK_SET)
                os.dup2(reopened, descriptor, os.get_inheritable(descriptor))
                os.close(reopened)


def _sendable_error(error: DpcliError) -> DpcliError:
    """Return an error with the message alone, so that it can be pickled and contains nothing else."""
    error_class = Unavailable if isinstance(error, Unavailable) else InputError
    return error_class(str(error))
