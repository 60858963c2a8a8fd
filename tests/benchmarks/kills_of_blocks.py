"""Sixteen processes that spend on windows of blocks, which overlap and move on, while one of them is killed again and again.

    python -m tests.benchmarks.kills_of_blocks [sqlite] [postgres] [KILLS]

Every process wants more on each block than its cap: about half of what is asked is denied, and the caps are reached all along. Each notes
a key before it asks and the answer after, both synced; whoever is killed starts again with the key that nobody answered. At the end all
are killed, and every entry is read: no block is above its cap, each run is on all of its window, what was acknowledged is there, and what
was denied is not. Anything else ends the measurement with an error.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from dpcli.base.errors import Denied, LedgerError
from dpcli.ledger.chain import canonical
from dpcli.ledger.checkpoint import checkpoint_content
from dpcli.ledger.stores.places import init, open_ledger
from tests.benchmarks.ledger import BACKENDS
from tests.ledger.folding import folded
from tests.ledger.setting import DATASET, charge, terms
from tests.ledger.spenders import COST, Diary, lines, started

WORKERS, KILLS, PAUSE = 16, 1_000, 0.03
BLOCKS, STAY, CAP = 100_000, 4, Decimal("0.06")  # a process asks for STAY runs from one block on: 16 * 4 * 2.5 runs read a block
DENIED = "denied"


def window_of(key: str) -> Sequence[str]:
    """One to four blocks, of which the first moves on with the number of the key."""
    worker, number = key.split("-")
    first = int(number) // STAY + 1
    return sorted(str(first + i) for i in range(1 + (int(worker[1:]) + int(number)) % 4))


def work(url: str, folder: Path, name: str) -> None:
    """Ask for one run after the other, for ever."""
    diary, ledger = Diary(folder / f"{name}.asked", folder / f"{name}.acknowledged"), None
    while True:
        key = diary.next_key()
        try:
            ledger = ledger or open_ledger(url, DATASET)
            receipt = charge(ledger, key, str(COST), window=window_of(key))
            diary.note(diary.acknowledged, f"{key} {'repeated' if receipt.repeated else 'new'}")
        except Denied:
            diary.note(diary.acknowledged, f"{key} {DENIED}")
        except LedgerError as error:  # a file that is locked for long
            diary.note(folder / f"{name}.errors", str(error))
            ledger = None


def killed(url: str, folder: Path, kills: int) -> float:
    """The seconds that so many kills took."""
    chance, begin = random.Random(7), time.monotonic()
    running = {started(lambda name=f"w{i}": work(url, folder, name)): f"w{i}" for i in range(WORKERS)}  # type: ignore[misc]
    try:
        for _ in range(kills):
            time.sleep(chance.expovariate(1.0 / PAUSE))
            pid = chance.choice(list(running))
            os.kill(pid, signal.SIGKILL)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
            name = running.pop(pid)
            running[started(lambda name=name: work(url, folder, name))] = name  # type: ignore[misc]
    finally:
        for pid in running:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return time.monotonic() - begin


def judged(url: str, folder: Path) -> str:
    """What is there, after checking that it is what must be."""
    answers = [line.split() for path in folder.glob("*.acknowledged") for line in lines(path)]
    granted, denied = {key for key, word in answers if word != DENIED}, {key for key, word in answers if word == DENIED}
    with open_ledger(url, DATASET) as ledger:
        spent, keys, state = Counter[str](), list[str](), ledger.state()
        for entry in ledger.entries():
            if entry.kind == "spend":
                assert entry.content["window"] == window_of(entry.key)
                keys.append(entry.key)
                for block in window_of(entry.key):
                    spent[block] += 1
        over = [block for block, runs in spent.items() if runs * COST > CAP]
        full = sum(runs * COST == CAP for runs in spent.values())
        assert over == [] and len(keys) == len(set(keys))
        lost, charged = granted - set(keys), denied & set(keys)
        assert not lost and not charged
        assert all(state.over((block,)).spent["epsilon"] == runs * COST for block, runs in spent.items())
        assert canonical(checkpoint_content(folded(ledger))) == canonical(checkpoint_content(state)) and ledger.store.check() == ()
    return (
        f"{len(keys)} runs on {len(spent)} blocks, 0 above the cap, {full} exactly at it; {len(granted)} acknowledged, 0 lost; "
        f"{len(denied)} denied, 0 charged; {sum(word == 'repeated' for _, word in answers)} asked again; "
        f"{sum(len(lines(path)) for path in folder.glob('*.errors'))} errors"
    )


def main(names: list[str], kills: int) -> None:
    for name in names:
        with BACKENDS[name]() as (place, _), tempfile.TemporaryDirectory() as diaries:
            url, cut = place(), {"by": "hash", "column": "user", "max_blocks": 1, "count": BLOCKS}
            init(url, DATASET, replace(terms(float(CAP)), blocks=cut)).close()
            seconds = killed(url, Path(diaries), kills)
            print(f"{name}: {WORKERS} processes, {kills} kills in {seconds:.0f} s: {judged(url, Path(diaries))}", flush=True)  # noqa: T201


if __name__ == "__main__":
    given = sys.argv[1:]
    main(
        [word for word in given if not word.isdigit()] or list(BACKENDS),
        next((int(word) for word in given if word.isdigit()), KILLS),
    )
