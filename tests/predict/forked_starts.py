"""Warmed processes that are forked from one that has imported what each of them imports, where dpcli starts a Python for each of them.

A start takes longer than what most tests of sessions ask. Whatever a command does with the process, it does with this one: the process has
the same arguments, environment, working directory, standard streams and lines, and seeds of its own.
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

# What they import: no library of an extra, which a user's code alone asks for.
from dpcli.predict.models import ngram  # noqa: F401
from dpcli.predict.pate import learners, teachers  # noqa: F401
from dpcli.predict.pmixed import shard_models  # noqa: F401
from dpcli.predict.prompt import prompt_teachers  # noqa: F401
from dpcli.predict.warmed_process import ONE_THREAD, main
from tests.command import ROOT


class ForkedProcess:
    """What is asked of a `subprocess.Popen`: to wait for the end."""

    def __init__(self, line: Connection) -> None:
        self._line = line

    def wait(self) -> None:
        """Wait until the process has ended."""
        with contextlib.suppress(EOFError):
            self._line.recv()
        self._line.close()


@contextmanager
def forking() -> Iterator[SimpleNamespace]:
    """Yield what stands in for the module `subprocess`, until the end of the block."""
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
    """Fork a process for each three descriptors that arrive."""
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
    """Fork the process, and say when it has ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    answer = Connection(answers)
    try:
        asked = answer.recv()
        process = os.fork()
        if process == 0:
            answer.close()
            _become(line, output, *asked)
        os.close(line)
        os.waitpid(process, 0)
        answer.send(None)
    finally:
        os._exit(0)


def _become(line: int, output: int, folder: str, environment: dict[str, str], path: list[str]) -> Any:
    """Do as a Python that was just started."""
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
