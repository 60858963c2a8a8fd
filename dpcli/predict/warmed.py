"""The warmed process that what is made of each shard is forked from. No private value comes into it: these go to its forks alone."""

from __future__ import annotations

import hashlib
import os
import random
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NoReturn, Protocol

from dpcli.base.errors import DpcliError, InputError, Unavailable
from dpcli.numerics.arrays import np
from dpcli.predict.places import on_private

# A fork has none of its parent's threads, and numeric libraries wait for theirs for ever: the parent has one.
ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Preparation:
    """What every shard needs. content: of what is public in it, the same wherever that is. work: done in a process of its own."""

    content: str
    work: Callable[[Any], Any]


class Craft(Protocol):
    """What is done with each shard; it is sent to the warmed process, and holds nothing private."""

    @property
    def place(self) -> str:
        """Where a message begins, where the user's code fails on a shard."""
        ...

    def prepared(self) -> Preparation:
        """Import, load and build what is public, once."""
        ...


@dataclass(frozen=True, slots=True)
class Task:
    """What one process is given. threads: of torch."""

    entropy: bytes
    threads: int
    work: Any


def begin_afresh(entropy: bytes) -> None:
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
    """Of the process that apart.py starts: prepare, say so, and fork whenever a line to a fork arrives."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # which is for whoever started it, at whose end all end
    line = Connection(descriptor)
    craft: Craft = line.recv()
    try:
        prepared = craft.prepared()
    except DpcliError as error:
        line.send((False, _as_sent(error)))
        return
    forks = _forks()
    line.send((True, (prepared.content, forks)))
    if not forks:
        _work(line, craft.place, prepared.work)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whose end is seen at their lines
    with socket.socket(fileno=os.dup(line.fileno())) as control:
        line.close()
        while True:
            _, received, _, _ = socket.recv_fds(control, 1, 1)
            if not received:
                return
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                control.close()
                _work(Connection(received[0]), craft.place, prepared.work)
            os.close(received[0])


def _forks() -> bool:
    """Whether a fork works: a graphics card in use does not come along, nor do threads, which numeric libraries then wait for."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return False
    tasks = "/proc/self/task"
    return (len(os.listdir(tasks)) if os.path.isdir(tasks) else threading.active_count()) == 1


def _work(line: Connection, place: str, work: Callable[[Any], Any]) -> NoReturn:
    """Do what arrives, say what came of it, and end."""
    try:
        threading.Thread(target=_leave_with, args=(line.fileno(),), daemon=True).start()
        task: Task = line.recv()
        begin_afresh(task.entropy)
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(task.threads)
        try:
            said = (True, on_private(place, work, task.work))
        except DpcliError as error:
            said = (False, _as_sent(error))
        line.send(said)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(0)


def _leave_with(descriptor: int) -> None:
    """End with whoever waits for this process."""
    gone = select.poll()
    gone.register(descriptor, 0)  # which says that the other end is closed, and no more
    gone.poll()
    os._exit(1)


def _as_sent(error: DpcliError) -> DpcliError:
    """Its words alone, without what it holds."""
    kind = Unavailable if isinstance(error, Unavailable) else InputError
    return kind(str(error))
