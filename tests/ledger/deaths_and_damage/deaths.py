"""Stores of a ledger that kill their own process at a named point of a write, for tests of crashes."""

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
    """A store that sends a signal to its own process at a point of a write.

    The points are: "locked", "written" (after an entry), "noted" (after a checkpoint), "about to commit", and "committed" (before the
    caller gets an answer).
    """

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
    """The rows at the end of a `Deadly` store, within a write."""

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
    """Return whether a child process that calls `task` was killed. The test fails if the process ended with an error."""
    _, status = os.waitpid(started(lambda: task() and None), 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, -signal.SIGKILL)
    return code != 0
