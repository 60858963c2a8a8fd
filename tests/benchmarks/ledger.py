"""Sixteen processes that spend from one ledger while they are killed, and how many charges per second there are without that.

    python -m tests.benchmarks.ledger [sqlite] [postgres]
    python -m tests.benchmarks.ledger endure KILLS ENDS [sqlite] [postgres]

`endure` spends small ledgers to their cap while processes are killed, and sessions of the server are ended, until there were that many.

Every charge is one durable transaction; its cost is stated and not computed, so that the ledger's own work is what is measured. Each
worker notes the key before it asks and the acknowledgement after, both synced: two syncs per charge beside the ledger's own. In
PostgreSQL the server is stopped in the middle as well (immediate: no checkpoint, connections cut) and started again. A lost or doubled
charge, or a cap that was passed or not reached, ends the measurement with an error.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

from dpcli.ledger.stores.places import init
from tests.ledger.filters.setting import DATASET, terms
from tests.ledger.postgres import cluster as servers
from tests.ledger.postgres.cluster import Cluster
from tests.ledger.spenders import COST, Struggle, judged, lines, started, struggle

WORKERS, SECONDS, PAUSE = 16, 10.0, 0.02
CAP, ENDURED = 1.5, 0.05
END_ONE = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
    "AND backend_type = 'client backend' ORDER BY random() LIMIT 1"
)
UNDISTURBED = ((1, 0.5), (16, 0.5))  # workers, cap


@contextmanager
def sqlite() -> Iterator[tuple[Callable[[], str], Callable[[], None] | None]]:
    """(a new place for a ledger, what happens midway)."""
    with tempfile.TemporaryDirectory() as folder:
        yield lambda: os.path.join(folder, f"{len(os.listdir(folder))}.db"), None


@contextmanager
def postgres() -> Iterator[tuple[Callable[[], str], Callable[[], None] | None]]:
    """The same, with a server of its own."""
    with servers.running() as cluster:
        try:
            yield lambda: cluster.url(cluster.database()), lambda: crash(cluster)
        finally:
            halt(cluster)


def crash(cluster: Cluster) -> None:
    """Stop the server without a checkpoint, as a power failure does, and start it again."""
    control(cluster, "stop", "-m", "immediate")
    control(cluster, "start", "-w", "-l", f"{cluster.folder}/log")


def control(cluster: Cluster, *command: str) -> None:
    """pg_ctl as the account that the server runs as."""
    program = str((servers.programs() or Path()) / "pg_ctl")
    account = servers._account() if os.getuid() == 0 else None
    options = servers._as(account, cluster.folder)
    done = subprocess.run([program, "-D", f"{cluster.folder}/data", *command], stdout=subprocess.DEVNULL, check=False, **options)
    assert done.returncode == 0, command


def halt(cluster: Cluster) -> None:
    """Stop a server that `crash` has started: the cluster ends only its own."""
    control(cluster, "stop", "-m", "fast")


BACKENDS = {"sqlite": sqlite, "postgres": postgres}


def measure(url: str, cap: float, workers: int, seconds: float, midway: Callable[[], None] | None) -> tuple[int, Struggle]:
    """(charges, what happened) of a new ledger that is spent to its cap."""
    init(url, DATASET, terms(cap)).store.close()
    with tempfile.TemporaryDirectory() as diaries:
        found = struggle(url, Path(diaries), workers, seconds, PAUSE, midway)
    return judged(url, found, Decimal(repr(cap))), found


def end_sessions(url: str, notes: Path) -> None:
    """End a session of the database now and then, for ever, and note each."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        while True:
            time.sleep(random.expovariate(0.1 / PAUSE))
            if connection.execute(END_ONE).fetchone() == (True,):
                with notes.open("a") as file:
                    file.write("ended\n")


def endure(name: str, kills: int, ends: int) -> None:
    """Spend ledgers to their cap until `kills` processes were killed and `ends` sessions ended. A lost or doubled charge raises."""
    killed, ended, rounds, spends = 0, 0, 0, 0
    with BACKENDS[name]() as (place, _):
        while killed < kills or (name == "postgres" and ended < ends):
            url = place()
            init(url, DATASET, terms(ENDURED)).store.close()
            with tempfile.TemporaryDirectory() as folder:
                notes = Path(folder, "ended")
                ender = started(lambda url=url, notes=notes: end_sessions(url, notes)) if name == "postgres" else None  # type: ignore[misc]
                try:
                    found = struggle(url, Path(folder), 6, 0.0, PAUSE, least=20)
                finally:
                    if ender is not None:
                        os.kill(ender, signal.SIGKILL)
                        os.waitpid(ender, 0)
                ended += len(lines(notes))
            spends += judged(url, found, Decimal(repr(ENDURED)))
            killed, rounds = killed + found.kills, rounds + 1
            words = f"{rounds} caps reached exactly by {spends} charges, none lost or doubled"
            print(f"{name}: {killed} kills, {ended} sessions ended, {words}", flush=True)  # noqa: T201


def main(names: list[str]) -> None:
    if names[:1] == ["endure"]:
        for name in names[3:] or BACKENDS:
            endure(name, int(names[1]), int(names[2]))
        return
    print(f"each charge costs {COST}; fsync of {tempfile.gettempdir()} included")  # noqa: T201
    for name in names:
        with BACKENDS[name]() as (place, midway):
            for workers, cap in UNDISTURBED:
                spends, found = measure(place(), cap, workers, 0.0, None)
                print(f"{name}: {workers} processes undisturbed: {spends} spends, {spends / found.seconds:.0f} per second")  # noqa: T201
            spends, found = measure(place(), CAP, WORKERS, SECONDS, midway)
            print(  # noqa: T201
                f"{name}: {WORKERS} processes, {found.kills} kills in {SECONDS:g} s: {spends} spends (cap {CAP!r} reached exactly), "
                f"{len(found.acknowledged)} acknowledged and none lost, {found.repeated} of them asked again, {found.denied} denied, "
                f"{spends / found.seconds:.0f} per second over {found.seconds:.1f} s, {len(set(found.errors))} kinds of error",
                *sorted(set(found.errors)),
                sep="\n  ",
            )


if __name__ == "__main__":
    main(sys.argv[1:] or list(BACKENDS))
