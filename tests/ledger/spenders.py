"""Processes that spend from one ledger until it denies a run, while the test kills some of them (`struggle`).

Each worker notes on disk which keys it has sent and which were acknowledged. `judged` then checks that the ledger has lost no acknowledged
charge, has charged no key twice, and has spent exactly its cap.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from dpcli.base.errors import Denied, LedgerError
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.stores.places import open_ledger
from tests.ledger.filters.setting import DATASET, charge

COST = Decimal("0.001")


@dataclass(frozen=True, slots=True)
class Diary:
    """The notes of one worker on disk: the keys that it has sent, and those that were acknowledged. Each note is synced at once."""

    sent: Path
    acknowledged: Path

    def note(self, path: Path, text: str) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, f"{text}\n".encode())
        os.fsync(descriptor)
        os.close(descriptor)

    def next_key(self) -> str:
        """Return the last key if it got no answer, and else a new one."""
        sent, answered = lines(self.sent), {line.split()[0] for line in lines(self.acknowledged)}
        if sent and sent[-1] not in answered:
            return sent[-1]
        key = f"{self.sent.stem}-{len(sent)}"
        self.note(self.sent, key)
        return key


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


Windows = Callable[[str], Sequence[str]]  # the blocks that the run of a key reads


def nowhere(key: str) -> Sequence[str]:
    return ()


def work(url: str, folder: Path, name: str, windows: Windows = nowhere) -> None:
    """Spend under new keys until a request is denied. A request without an answer is repeated with the same key."""
    diary, ledger = Diary(folder / f"{name}.sent", folder / f"{name}.acknowledged"), None
    while True:
        try:
            ledger = ledger or open_ledger(url, DATASET)
            key = diary.next_key()
            receipt = charge(ledger, key, str(COST), window=windows(key))
            diary.note(diary.acknowledged, f"{key} {'repeated' if receipt.repeated else 'new'}")
        except Denied:
            diary.note(folder / f"{name}.denied", key)
            return
        except LedgerError as error:  # the server may be restarting
            diary.note(folder / f"{name}.errors", str(error))
            ledger = None
            time.sleep(0.02)


def started(task: Callable[[], None]) -> int:
    """Start a child process that calls `task`, and return its id. Its exit status is 0, or 1 after an exception."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        task()
        status = 0
    finally:
        os._exit(status)


@dataclass(slots=True)
class Struggle:
    """The result of `struggle`: how long it took, how many workers were killed or failed, and what the workers noted."""

    seconds: float = 0.0
    kills: int = 0
    failed: int = 0
    state: Ledger | None = None
    acknowledged: list[str] = field(default_factory=list)
    repeated: int = 0
    denied: int = 0
    errors: list[str] = field(default_factory=list)


def struggle(
    url: str,
    folder: Path,
    workers: int,
    seconds: float,
    pause: float,
    midway: Callable[[], None] | None = None,
    windows: Windows = nowhere,
    least: int = 2,
) -> Struggle:
    """Let workers spend until all are denied, and return what happened.

    For `seconds`, and until `least` workers were killed, one of them is killed every `pause` seconds on average and started again.

    Args:
        midway: Function that is called once, after an eighth of `seconds`.
        windows: Function that returns the blocks of the run with a key.
    """
    result, chance, begin = Struggle(), random.Random(7), time.monotonic()
    running = {started(lambda name=f"w{i}": work(url, folder, name, windows)): f"w{i}" for i in range(workers)}  # type: ignore[misc]
    done: set[str] = set()
    while len(done) < workers:
        now = time.monotonic() - begin
        killing = now < seconds or result.kills < least
        time.sleep(chance.expovariate(1.0 / pause) if killing else 0.01)
        if midway is not None and now > seconds / 8:
            midway()
            midway = None
        if running and killing:
            os.kill(chance.choice(list(running)), signal.SIGKILL)
        for pid in list(running):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                continue
            name = running.pop(pid)
            if os.waitstatus_to_exitcode(status) == -signal.SIGKILL:
                result.kills += 1
                running[started(lambda name=name: work(url, folder, name, windows))] = name  # type: ignore[misc]
            else:
                result.failed += status != 0
                done.add(name)
    result.seconds = time.monotonic() - begin
    assert midway is None, "the budget was spent before `midway` was called"
    answers = [line.split() for path in folder.glob("*.acknowledged") for line in lines(path)]
    result.acknowledged, result.repeated = [key for key, _ in answers], sum(word == "repeated" for _, word in answers)
    result.denied = sum(len(lines(path)) for path in folder.glob("*.denied"))
    result.errors = [line for path in folder.glob("*.errors") for line in lines(path)]
    return result


def judged(url: str, result: Struggle, cap: Decimal) -> int:
    """Check that the ledger has all acknowledged charges, and return the number of its charges."""
    ledger = open_ledger(url, DATASET)
    state, entries = ledger.state(), ledger.entries()
    assert ledger.store.check() == ()
    assert result.failed == 0
    assert state.caps["epsilon"] == cap
    assert state.spent["epsilon"] == cap  # never above, and nothing is left that somebody was denied
    assert len(state.runs) == len(entries) - 1 == cap / COST  # each key once
    assert len(result.acknowledged) == len(set(result.acknowledged))
    assert set(result.acknowledged) <= set(state.runs), "an acknowledged spend was lost"
    ledger.store.close()
    return len(state.runs)
