"""What a request to a ledger costs after 10^2 to 10^5 entries: CPU seconds and peak memory of the whole process, once each.

    python -m tests.benchmarks.ledger_history [sqlite] [postgres] [blocks] [SIZE ...]

Entries are put in past the guards, as charges of one cheap run; then one is charged as usual, so that totals are noted. `gate` is asked
about 200 files, `quote` is the gate about one. With `blocks` the dataset has 1,000 blocks, all of them charged, and every run reads 28.
Python and the imports take 0.1 s of a `show` and 0.2 s of a `spend`.

On two shared cores, at 10^2 and 10^5 entries, and at 10^5 before totals were noted (n: not measured):

    sqlite    spend .21 s 39 MB     .22 s 39 MB     5.2 s 514 MB        postgres    .42 s 54 MB  .43 s 54 MB  6.0 s 527 MB
              show  .14 s 25 MB     .12 s 25 MB     6.4 s 559 MB                    .34 s 39 MB  .41 s 39 MB  7.3 s 575 MB
              gate  7.5 s 50 MB     7.6 s 50 MB      17 s 514 MB                     10 s 66 MB   12 s 65 MB   17 s 528 MB
              log    .2 s 27 MB      75 s 32 MB    > 300 s     n                     .5 s 42 MB   81 s 47 MB       n
              verify .3 s 39 MB      26 s 42 MB       n                              .5 s 56 MB   31 s 56 MB       n

With 1,000 blocks and as many entries, CPU seconds of spend, show, quote, gate, export, log and verify: .22 .13 .29 7.4 .34 .88 .90 in a
file, .33 .26 .43 7.9 .44 .98 1.1 in PostgreSQL, where the server's own for one spend of 28 blocks are .02 s with 100 blocks and with 3,600.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from dpcli.file.pipeline.canonical import tables_of
from dpcli.ledger.chain import Head, StoredRow, seal
from dpcli.ledger.stores.places import init, open_ledger
from tests.ledger import cluster as servers
from tests.ledger.cluster import Cluster
from tests.ledger.setting import DATASET, run, run_file, terms
from tests.ledger.spenders import started

SIZES = (100, 1_000, 10_000, 100_000)
EPSILON, FILES = 1e-6, 200
BLOCKS, WIDTH, PATIENCE = 1_000, 28, 600.0  # PATIENCE: seconds of one command
GATE = ("--max-epsilon", "1", "--delta", "1e-9", "--ledger", "{url}")
COMMANDS = {
    "spend": ("budget", "spend", "{url}", "{folder}/0.toml", "--key", "new"),
    "show": ("budget", "show", "{url}"),
    "quote": ("gate", "{folder}/0.toml", *GATE),
    "gate": ("gate", *(f"{{folder}}/{i}.toml" for i in range(FILES)), *GATE),
    "export": ("budget", "export", "{url}", "-f", "jsonl"),
    "log": ("budget", "log", "{url}"),
    "verify": ("budget", "verify", "{url}"),
}


def window_of(number: int) -> list[str]:
    """The blocks that a run reads: after a while each was read."""
    begin = number * WIDTH % BLOCKS
    return sorted(str((begin + i) % BLOCKS) for i in range(WIDTH))


def file_of(blocks: bool) -> str:
    """A cheap run."""
    text = run_file(EPSILON)
    return text.replace("releases =", f"window = {json.dumps(window_of(0))}\nreleases =") if blocks else text


def rows(head: Head, count: int, who: str, blocks: bool) -> Iterator[StoredRow]:
    """Charges that follow `head`."""
    tables = tables_of(run(EPSILON))
    for i in range(count):
        content = {
            "kind": "spend",
            "key": f"run {i}",
            "pipeline": tables,
            "delta": "0.0",
            "cost": {"epsilon": "0.000001", "delta": "0"},
            **({"window": window_of(i)} if blocks else {}),
        }
        row = seal({**content, "who": who, "when": "2026-01-01T00:00:00Z", "dpcli": "0.1.0", "detail": ""}, DATASET, head).row
        yield row
        head = Head(row.seq, row.hash)


def filled(url: str, size: int, cluster: Cluster | None, blocks: bool) -> None:
    """A ledger of so many entries, of which the last was charged as usual."""
    cut = {"by": "hash", "column": "user", "max_blocks": 1, "count": BLOCKS} if blocks else None
    with init(url, DATASET, replace(terms(), blocks=cut)) as ledger:
        head, who = ledger.state().head, ledger.who
    if cluster is None:
        with closing(sqlite3.connect(url)) as file, file:
            file.executemany(
                f"INSERT INTO entry VALUES ('{DATASET}', ?, ?, ?)",
                ((r.seq, r.body, r.hash) for r in rows(head, size - 2, who, blocks)),
            )
    else:
        with cluster.connect(url.rpartition("/")[2].partition("?")[0]) as connection, connection.transaction():
            connection.execute("ALTER TABLE dpcli.dataset DISABLE TRIGGER forward")
            with connection.cursor().copy("COPY dpcli.entry (dataset, seq, body, hash) FROM STDIN") as copy:
                for row in rows(head, size - 2, who, blocks):
                    copy.write_row((DATASET, row.seq, row.body, row.hash))
                    head = Head(row.seq, row.hash)
            connection.execute("UPDATE dpcli.dataset SET seq = %s, head = %s", (head.seq, head.hash))
            connection.execute("ALTER TABLE dpcli.dataset ENABLE ALWAYS TRIGGER forward")
        cluster.run("ANALYZE dpcli.entry", database=url.rpartition("/")[2].partition("?")[0])
    with open_ledger(url) as ledger:
        ledger.spend(run(EPSILON), "the last", window=window_of(0) if blocks else ())


def apart(task: Callable[[], None]) -> None:
    """In a child: a process counts as its own the memory of the one that started it."""
    assert os.waitpid(started(task), 0)[1] == 0


def measured(command: tuple[str, ...], **places: str) -> str:
    """CPU seconds and peak memory of a command, and how it ended where that is not 0."""
    words = [word.format(**places) for word in command]
    began = time.monotonic()
    with subprocess.Popen([sys.executable, "-m", "dpcli", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        timer = threading.Timer(PATIENCE, process.kill)
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        code = process.returncode = os.waitstatus_to_exitcode(status)
    how = "" if code == 0 else f" (exit {code})" if code > 0 else " (and more: it was stopped)"
    spent, wall = usage.ru_utime + usage.ru_stime, time.monotonic() - began
    return f"{spent:7.2f} s of CPU {wall:7.2f} s {usage.ru_maxrss / 1024:5.0f} MB{how}"


@contextmanager
def backend(name: str) -> Iterator[Cluster | None]:
    """A server of its own, or none."""
    if name == "sqlite":
        yield None
    else:
        with servers.running() as cluster:
            yield cluster


def main(names: list[str], sizes: list[int], blocks: bool) -> None:
    for name in names:
        for size in sizes:
            with tempfile.TemporaryDirectory() as folder, backend(name) as cluster:
                for i in range(FILES):
                    Path(folder, f"{i}.toml").write_text(file_of(blocks))
                url = os.path.join(folder, "ledger.db") if cluster is None else cluster.url(cluster.database())
                apart(lambda: filled(url, size, cluster, blocks))  # noqa: B023 (done at once)
                for what, command in COMMANDS.items():
                    print(f"{name} {size:>7,} {what:7} {measured(command, url=url, folder=folder)}", flush=True)  # noqa: T201


if __name__ == "__main__":
    given = sys.argv[1:]
    main(
        [word for word in given if word in ("sqlite", "postgres")] or ["sqlite", "postgres"],
        [int(word) for word in given if word.isdigit()] or [*SIZES],
        "blocks" in given,
    )
