"""Ledgers that earlier versions of dpcli wrote: their files and contents, and databases that are restored from a dump."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from dpcli.ledger.blocks.family import BlockFamily
from dpcli.ledger.opening import open_from_flags
from dpcli.ledger.stores.places import init
from dpcli.ledger.stores.postgres_install import ROLES
from dpcli.ledger.terms import LedgerTerms
from tests.ledger.conftest import OWNER, Database
from tests.ledger.pipelines import HEAD, gaussian, pure
from tests.ledger.postgres.cluster import programs

FAR = "2999-01-01T00:00:00Z"
USERS = LedgerTerms(unit="user", adjacency="add-remove", epsilon=1.0, delta=1e-6, filter="approx-dp", dataset_size=50_000)
DECLARED = {"mode": "declared", "filter": "", "order": None, "slack": None, "dataset_size": None, "fingerprint": None, "team": None}


def fill(url: str) -> None:
    """Write the ledgers of the vectors: every kind of entry, with and without blocks, in adaptive and declared mode."""
    with init(url, "visits", replace(USERS, fingerprint="f" * 64)) as ledger:
        ledger.spend(pure(0.1), "first", 0.0, "a first look")
        ledger.reserve(pure(0.2), "long", 0.0, "the night", FAR)
        ledger.start("long")
        ledger.commit("long")
        ledger.reserve(pure(0.3), "cancelled", 0.0, expires=FAR)
        ledger.void("cancelled", "the job never started")
        ledger.amend(1.5, "a second question", "the board", acknowledged=True)
        ledger.reserve(pure(0.25), "under way", 0.0, expires=FAR)
        ledger.start("under way")
        ledger.reserve(pure(0.125), "waiting", 0.0, expires=FAR)
    adaptive = replace(USERS, dataset_size=None)
    with init(url, "clicks", replace(adaptive, filter="rdp", parameters={"order": 8.0}, epsilon=4.0)) as ledger:
        ledger.spend(gaussian(4.0, 10, 0.01), "sampled", why="Läufe 日本")
        ledger.spend(gaussian(30.0), "plain")
    days = BlockFamily("day", "event_date", 1).content()
    with init(url, "days", replace(adaptive, filter="zcdp", epsilon=3.0, blocks=days)) as ledger:
        ledger.spend(gaussian(5.0), "one", window=("2026-01-01..2026-01-14",))
        ledger.reserve(gaussian(5.0), "two", expires=FAR, window=("2026-01-08..2026-01-10",))
        ledger.retire(("2026-01-01..2026-01-03",), "deleted")
        ledger.spend(gaussian(4.0), "three", window=("2026-01-04",))
        ledger.amend(3.5, "more", "the board", acknowledged=True)
        ledger.spend(gaussian(9.0), "four", window=("2026-02-28..2026-03-02",))
    with TemporaryDirectory() as folder:
        run = Path(folder, "run.toml")
        run.write_text(f'{HEAD}[[mechanism]]\nname = "query"\ntype = "pure-dp"\nepsilon = 0.5\n')
        given = {**DECLARED, "unit": "user", "adjacency": "add-remove", "epsilon": 2.0, "delta": 1e-6, "declare": [f"{run}:2"]}
        with open_from_flags(url, "planned", given) as ledger:
            ledger.spend(pure(0.5), "once")


def restore(database: Database, dump: bytes) -> None:
    """Replace the schema of a database by a dump, as a superuser, after creating the roles that it needs."""
    folder = programs()
    assert folder is not None
    assert b"dpcli" in dump
    with database.cluster.connect() as connection:
        for role in ROLES:
            if connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (role,)).fetchone() is None:
                connection.execute(f"CREATE ROLE {role}")
        for member, role in ((ROLES[1], ROLES[0]), (ROLES[2], ROLES[1]), (OWNER, ROLES[2])):
            connection.execute(f"GRANT {role} TO {member}")
    database.cluster.run("DROP SCHEMA IF EXISTS dpcli CASCADE", database=database.name)
    command = [folder / "psql", "-qX", "-v", "ON_ERROR_STOP=1", "-d", database.cluster.url(database.name)]
    subprocess.run(command, input=dump, check=True, capture_output=True)
