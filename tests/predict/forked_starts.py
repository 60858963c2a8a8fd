"""A faster way to start *warmed processes*, the processes of dpcli in which code of one private shard runs, for tests.

dpcli starts a new Python for each of them, which takes longer than most tests of sessions. Here they are forked from one process that has
already imported what they import. A forked process has the same arguments, environment, working directory, standard streams and connections
as a started one, and fresh random seeds.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

# What warmed processes import. Libraries of extras are left out, as only a user's code imports them.
from dpcli.predict.models import ngram  # noqa: F401
from dpcli.predict.pate import learners, teachers  # noqa: F401
from dpcli.predict.pmixed import shard_models  # noqa: F401
from dpcli.predict.prompt import prompt_teachers  # noqa: F401
from dpcli.predict.warmed_process import ONE_THREAD, main
from tests.command import ROOT


class ForkedProcess:
    """A forked process with the part of `subprocess.Popen` that dpcli uses."""

    def __init__(self, line: Connection) -> None:
        self._line = line

    def wait(self) -> None:
        """Wait until the process has ended."""
        with contextlib.suppress(EOFError):
            self._line.recv()
        self._line.close()


@contextmanager
def forking() -> Iterator[SimpleNamespace]:
    """Yield a replacement of the module `subprocess` that forks processes, for use within this context."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        code = f"from tests.predict.forked_starts import serve; serve({theirs.fileno()})"
        environment = os.environ | dict.fromkeys(ONE_THREAD, "1")
        parent = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, pass_fds=(theirs.fileno(),), env=environment)
        theirs.close()

        def started(command: list[str], *, pass_fds: tuple[int], env: dict[str, str], stdin: int, stdout: int) -> ForkedProcess:
            assert (command[0], stdin, stdout) == (sys.executable, subprocess.DEVNULL, 2)
            line, other = socket.socketpair()
            with other:
                socket.send_fds(ours, [b"."], [*pass_fds, stdout, other.fileno()])
            connection = Connection(line.detach())
            connection.send((os.getcwd(), env, sys.path))
            return ForkedProcess(connection)

        yield SimpleNamespace(Popen=started, DEVNULL=subprocess.DEVNULL)
        ours.close()
        parent.wait()


def serve(descriptor: int) -> None:
    """Fork a process for each message with three descriptors: the connection of the process, its output, and a line to the test."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(fileno=descriptor) as control:
        while True:
            _, received, _, _ = socket.recv_fds(control, 1, 3)
            if not received:
                return
            if os.fork() == 0:
                control.close()
                _watch(*received)
            for one in received:
                os.close(one)


def _watch(line: int, output: int, answers: int) -> NoReturn:
    """Fork the process, and report its end to the test."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    answer = Connection(answers)
    try:
        request = answer.recv()
        process = os.fork()
        if process == 0:
            answer.close()
            _become(line, output, *request)
        os.close(line)
        os.waitpid(process, 0)
        answer.send(None)
    finally:
        os._exit(0)


def _become(line: int, output: int, folder: str, environment: dict[str, str], path: list[str]) -> Any:
    """Give this process the state of a Python that was just started, and run it as a warmed process."""
    nowhere = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nowhere, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(nowhere)
    os.close(output)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:] = path
    random.seed()
    np.random.seed()
    main(line)
