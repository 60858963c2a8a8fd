"""Stores that kill their process at a named point, and child processes that are killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dpcli.ledger.chain import StoredRow
from dpcli.ledger.stores.store import Store, StoredCheckpoint, Tail
from tests.ledger.spenders import started


class Deadly:
    """A store whose process dies, or stops, at a point: locked, written (before the commit), or committed (before anybody is told)."""

    def __init__(self, inner: Store, point: str, by: signal.Signals = signal.SIGKILL) -> None:
        self.inner, self.point, self.by = inner, point, by

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def die(self, point: str) -> None:
        if point == self.point:
            self.point = ""
            os.kill(os.getpid(), self.by)

    @contextmanager
    def writing(self, dataset: str) -> Iterator[Tail]:
        with self.inner.writing(dataset) as tail:
            self.die("locked")
            yield DeadlyTail(tail, self)
            self.die("about to commit")
        self.die("committed")


class DeadlyTail:
    def __init__(self, inner: Tail, store: Deadly) -> None:
        self.inner, self.store = inner, store

    @property
    def new(self) -> Sequence[StoredRow]:
        return self.inner.new

    def after(self, seq: int) -> Sequence[StoredRow]:
        return self.inner.after(seq)

    def append(self, row: StoredRow) -> None:
        self.inner.append(row)
        self.store.die("written")

    def put_checkpoint(self, checkpoint: StoredCheckpoint) -> None:
        self.inner.put_checkpoint(checkpoint)
        self.store.die("noted")


def killed(task: Callable[[], object]) -> bool:
    """Return whether a child process that calls `act` was killed. Any end except this and a clean one fails the test."""
    _, status = os.waitpid(started(lambda: task() and None), 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, -signal.SIGKILL)
    return code != 0
