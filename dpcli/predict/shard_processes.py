"""Processes of private shards, one for each: nothing of one shard can reach what is made of another.

One warmed process (warmed_process.py) imports the user's module and builds what is public, before any private value is read; no such value
ever comes into it. For each shard it forks a process, which is given that shard by content, begins with fresh randomness for torch, numpy
and `random`, and ends with its result. So whatever a user's code keeps, draws or seeds, one change of the data changes what is made of one
shard: what is made of the others is a function of their own shards, of fresh entropy, and of what is public.

Where forking is impossible (a graphics card in use, threads), each shard has a process that is started and warmed anew.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, Self

from dpcli.base.errors import DpcliError, InputError
from dpcli.base.extras import require_posix
from dpcli.predict.models.model_answers import require_same_content
from dpcli.predict.warmed_process import ONE_THREAD, Craft, Task

ENTROPY = 32  # bytes
START = "import sys; sys.path[:] = {path!r}; from dpcli.predict.warmed_process import main; main({descriptor})"


def fresh_entropy(number: int) -> bytes:
    """Return the seed of one shard's randomness, whatever its number: no two shards have the same."""
    return secrets.token_bytes(ENTROPY)


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Apart:
    """The processes of one craft.

    gone: the message where one of them is killed. jobs: shards at once. threads: of torch in each process.

    Raises InputError where what is public cannot be built, as the craft says it.
    """

    def __init__(self, craft: Craft, gone: str, jobs: int = 1, threads: int = 1) -> None:
        require_posix("what is learnt of private shards, each in a process of its own")
        self._craft, self.gone, self._jobs, self._threads = craft, gone, jobs, threads
        self._warmed = self._started()

    @property
    def content(self) -> str:
        """Return the public part, by content."""
        return self._warmed.content

    def each(self, works: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
        """Yield the number of each work, and its result, as they become ready. Raises InputError where one fails."""
        waiting, busy = iter(works), dict[Connection, tuple[int, _Warmed | None]]()
        try:
            while True:
                while len(busy) < self._jobs and (one := next(waiting, None)) is not None:
                    ours, own = self._begun(*one)
                    busy[ours] = (one[0], own)
                if not busy:
                    return
                for ready in wait(list(busy)):
                    assert isinstance(ready, Connection)
                    number, own = busy.pop(ready)
                    with ready:
                        result = self.received(ready)
                    if own is not None:
                        own.end()
                    yield number, result
        finally:
            for ours, (_, own) in busy.items():
                ours.close()  # at which the process ends
                if own is not None:
                    own.end()

    def staying(self, works: Iterable[Any]) -> list[Staying]:
        """Start a process for each work, which keeps its result. Raises InputError where one fails."""
        begun = [Staying(self, *self._begun(number, work, True)) for number, work in enumerate(works)]
        for one in begun:
            one.answer()
        return begun

    def _begun(self, number: int, work: Any, stays: bool = False) -> tuple[Connection, _Warmed | None]:
        """Return the end of a line to a process that has begun with this work; and the process that was started for it alone, if any."""
        task = Task(fresh_entropy(number), self._threads, work, stays)
        own = None if self._warmed.forks else self._started()
        try:
            if own is not None:
                require_same_content(self.content, own.content)
            ours = self._warmed.fork() if own is None else own.line
            ours.send(task)
        except (OSError, InputError) as error:
            if own is not None:
                own.end()
            raise InputError(self.gone if isinstance(error, OSError) else str(error)) from None
        return ours, own

    def received(self, line: Connection) -> Any:
        try:
            fine, result = line.recv()
        except (EOFError, OSError):
            raise InputError(self.gone) from None
        if not fine:
            assert isinstance(result, DpcliError)
            raise result
        return result

    def _started(self) -> _Warmed:
        ours, theirs = socket.socketpair()
        with theirs:
            command = START.format(path=sys.path, descriptor=theirs.fileno())
            process = subprocess.Popen(
                [sys.executable, "-c", command],
                stdin=subprocess.DEVNULL,
                stdout=2,  # standard output is for what the command says; what is printed of a shard goes nowhere
                pass_fds=(theirs.fileno(),),
                env=os.environ | dict.fromkeys(ONE_THREAD, "1"),
            )
        line = Connection(ours.detach())
        try:
            line.send(self._craft)
            content, forks = self.received(line)
        except BaseException:
            _ended(process, line)
            raise
        return _Warmed(process, line, content, forks)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._warmed.end()


@dataclass(frozen=True, slots=True)
class Staying:
    """A process that keeps its result, as long as this object lives. own: the process that was started for it alone, if any."""

    apart: Apart
    line: Connection
    own: _Warmed | None

    def ask(self, question: Callable[[Any], Any]) -> None:
        """Send the question that `answer` returns the answer to: a function of the result. Raises InputError where the process is gone."""
        try:
            self.line.send(question)
        except OSError:
            raise InputError(self.apart.gone) from None

    def answer(self) -> Any:
        """Return the answer. Raises InputError where the question raises, without its words, and where the process is gone."""
        return self.apart.received(self.line)


class _Warmed:
    """A process that is ready. line: to it. content: of what is public. forks: whether it forks; else it takes one work itself.

    end: ends it, as does the end of this object.
    """

    def __init__(self, process: subprocess.Popen[bytes], line: Connection, content: str, forks: bool) -> None:
        self.line, self.content, self.forks = line, content, forks
        self.end = weakref.finalize(self, _ended, process, line)

    def fork(self) -> Connection:
        """Return the end of a line to a new process."""
        ours, theirs = socket.socketpair()
        with theirs, socket.socket(fileno=os.dup(self.line.fileno())) as control:
            socket.send_fds(control, [b"."], [theirs.fileno()])
        return Connection(ours.detach())


def _ended(process: subprocess.Popen[bytes], line: Connection) -> None:
    """End a warmed process: its keeper ends what it has started. No work is lost: what was forked ends with its own line."""
    line.close()
    process.wait()
