"""Processes for private shards, one for each shard, so that one shard cannot affect the result of another.

The result of a shard is a function of that shard, of fresh entropy and of public values, whatever the user's code stores, draws or seeds.
So one change of the data changes one result. (A *shard* is the part of the private data from which one model or teacher is made,
shards.py.) To this end, one *warmed process* (warmed_process.py) imports the user's module and builds everything that is public. No private
value is ever sent to it. For each shard it forks a process, which receives that shard, begins with fresh randomness for torch, numpy and
`random`, and ends when it has sent its result. A *resident* process stays, and answers questions about its result. If forking is impossible
(because of threads, or a graphics card in use), each shard has its own warmed process.

pate, prompt and pmixed each have a class of `ShardWork`, which says what to do with a shard. Its `prepare` returns a `Preparation`: the
function to call on a shard, and the *content* of the public model that the function uses, such as a digest.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, NamedTuple, Self

from dpcli.base.errors import DpcliError, InputError
from dpcli.base.extras import require_posix
from dpcli.predict.models.model_answers import require_same_content
from dpcli.predict.warmed_process import ONE_THREAD, ShardWork, Task

SEED_BYTES = 32  # size of the seed of one shard, so that practically no two shards share a seed
# Program of a warmed process. It imports modules from the same folders as this process.
START = "import sys; sys.path[:] = {path!r}; from dpcli.predict.warmed_process import main; main({descriptor})"

# Default limit on the number of processes, because each needs memory in addition to the public model. It affects speed and memory alone.
MOST_AT_ONCE = 4


def fresh_entropy() -> bytes:
    """Return a new random seed for one shard."""
    return secrets.token_bytes(SEED_BYTES)


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class StartedWork(NamedTuple):
    """A process that has begun to work on a shard.

    Attributes:
        connection: Connection to the process, which ends when the connection is closed.
        own_warmed: Warmed process that was started for this shard alone; None if the process is a fork.
    """

    connection: Connection
    own_warmed: _WarmedProcess | None

    def close(self) -> None:
        """End the process, even if its work is not done."""
        self.connection.close()
        if self.own_warmed is not None:
            self.own_warmed.end()


class ShardProcesses:
    """The processes that do the same work on private shards, one for each shard. Used in a `with` statement, which ends them.

    Args:
        work: The public part of the work, which the warmed process prepares.
        killed_message: Message of the error if a process is killed.
        jobs: Number of processes at a time, each with one thread. If None, it is the smallest of the numbers of cores and shards and
            MOST_AT_ONCE, and the processes share the cores as threads. If forking is impossible, it is then 1, because each process has to
            load the public model again.

    Raises:
        InputError: If the public part cannot be built. The message comes from `work`.
        Unavailable: If this is not a POSIX system.
    """

    def __init__(self, work: ShardWork, killed_message: str, jobs: int | None = None) -> None:
        require_posix("fitting private shards in separate processes")
        self._work, self.killed_message, self._jobs = work, killed_message, jobs
        self._warmed = self._start_warmed()

    @property
    def content(self) -> str:
        """Return the content of the public part, as `Preparation` has it."""
        return self._warmed.content

    def results(self, shards: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
        """Yield the number of each shard with its result, in the order in which the processes end.

        Args:
            shards: Number of each shard, and the private argument of the work on it.

        Raises InputError if a process fails.
        """
        waiting = deque(shards)
        busy: dict[Connection, tuple[int, StartedWork]] = {}
        jobs, threads = self._jobs_and_threads(len(waiting))
        try:
            while waiting or busy:
                while waiting and len(busy) < jobs:
                    number, shard = waiting.popleft()
                    started = self._start_work(shard, threads)
                    busy[started.connection] = number, started
                for ready in wait(list(busy)):  # processes that have sent a result, or have ended
                    assert isinstance(ready, Connection)
                    number, started = busy.pop(ready)
                    try:
                        result = self.receive(ready)
                    finally:
                        started.close()
                    yield number, result
        finally:
            for _, started in busy.values():
                started.close()

    def _jobs_and_threads(self, shards: int) -> tuple[int, int]:
        """Return the number of processes at a time, and the number of threads of each."""
        if self._jobs:
            return self._jobs, 1
        jobs = min(cores(), shards, MOST_AT_ONCE) if self._warmed.forks else 1
        return jobs, max(cores() // max(jobs, 1), 1)

    def residents(self, shards: Iterable[Any]) -> list[ResidentProcess]:
        """Return a process for each shard, which keeps its result and answers questions about it. Raises InputError if a process fails."""
        started = [self._start_work(shard, threads=1, stays=True) for shard in shards]
        residents = [ResidentProcess(self, work) for work in started]
        for resident in residents:
            resident.answer()
        return residents

    def _start_work(self, shard: Any, threads: int, stays: bool = False) -> StartedWork:
        """Start the work on a shard in a new process. Raises InputError if the process cannot be started.

        Args:
            threads: Number of threads of the process.
            stays: Whether the process keeps its result and answers questions.
        """
        task = Task(fresh_entropy(), threads, shard, stays)
        own_warmed = None if self._warmed.forks else self._start_warmed()
        try:
            if own_warmed is None:
                connection = self._warmed.fork()
            else:
                require_same_content(self.content, own_warmed.content)
                connection = own_warmed.connection
            connection.send(task)
        except (OSError, InputError) as error:
            if own_warmed is not None:
                own_warmed.end()
            raise InputError(self.killed_message if isinstance(error, OSError) else str(error)) from None
        return StartedWork(connection, own_warmed)

    def receive(self, connection: Connection) -> Any:
        """Return the next result of a process. Raises the error that it sent, or InputError if it has ended."""
        try:
            succeeded, result = connection.recv()
        except (EOFError, OSError):
            raise InputError(self.killed_message) from None
        if not succeeded:
            assert isinstance(result, DpcliError)
            raise result
        return result

    def _start_warmed(self) -> _WarmedProcess:
        """Start a warmed process, and wait until it has built the public part. Raises the error that it sends, or InputError if it ends."""
        ours, theirs = socket.socketpair()
        with theirs:
            command = START.format(path=sys.path, descriptor=theirs.fileno())
            process = subprocess.Popen(
                [sys.executable, "-c", command],
                stdin=subprocess.DEVNULL,
                stdout=2,  # standard error, because standard output is reserved for the answer of the command
                pass_fds=(theirs.fileno(),),
                env=os.environ | dict.fromkeys(ONE_THREAD, "1"),  # numeric libraries use one thread, so that it can fork
            )
        connection = Connection(ours.detach())
        try:
            connection.send(self._work)
            content, forks = self.receive(connection)
        except BaseException:
            _end_process(process, connection)
            raise
        return _WarmedProcess(process, connection, content, forks)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._warmed.end()


@dataclass(frozen=True, slots=True)
class ResidentProcess:
    """A process that keeps its result, such as a fitted model, and answers questions about it, as long as this object exists."""

    processes: ShardProcesses
    started: StartedWork

    def ask(self, question: Callable[[Any], Any]) -> None:
        """Send a question, which is a function of the result. `answer` returns its value. Raises InputError if the process has ended."""
        try:
            self.started.connection.send(question)
        except OSError:
            raise InputError(self.processes.killed_message) from None

    def answer(self) -> Any:
        """Return the answer to the last question.

        Raises InputError if the question raised, without its message, or if the process has ended.
        """
        return self.processes.receive(self.started.connection)


class _WarmedProcess:
    """A process that has built the public part.

    Attributes:
        content: Content of the public part.
        forks: Whether it can fork. If not, it does the work on one shard itself.
        end: Function that ends the process. It is also called when this object is deleted.
    """

    def __init__(self, process: subprocess.Popen[bytes], connection: Connection, content: str, forks: bool) -> None:
        self.connection, self.content, self.forks = connection, content, forks
        self.end = weakref.finalize(self, _end_process, process, connection)

    def fork(self) -> Connection:
        """Fork a new process, and return the connection to it."""
        ours, theirs = socket.socketpair()
        with theirs, socket.socket(fileno=os.dup(self.connection.fileno())) as control:
            socket.send_fds(control, [b"."], [theirs.fileno()])  # a descriptor needs a byte to go with
        return Connection(ours.detach())


def _end_process(process: subprocess.Popen[bytes], connection: Connection) -> None:
    """End a warmed process. Its keeper process ends its children. Its forks continue: each ends with its own connection."""
    connection.close()
    process.wait()
