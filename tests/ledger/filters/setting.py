"""A small ledger for tests with one dataset, and runs that state their cost, so that no accountant has to compute it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing

from dpcli.file.pipeline.canonical import tables_of
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import parse
from dpcli.ledger.entry_log import Receipt
from dpcli.ledger.filters.filter import Cost
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.requests import Charge
from dpcli.ledger.terms import LedgerTerms

DATASET = "visits"
FILE = """format = 1
[privacy]
unit = "example"
adjacency = "add-remove"
releases = "outputs"
[[mechanism]]
name = "counts"
type = "pure-dp"
epsilon = {epsilon}
"""


def run_file(epsilon: float = 0.01) -> str:
    return FILE.format(epsilon=epsilon)


def run(epsilon: float = 0.01) -> Pipeline:
    return parse(run_file(epsilon).encode(), "run.toml")


def terms(epsilon: float = 1.0) -> LedgerTerms:
    """Return terms with the cap `epsilon`, under which epsilons add up."""
    return LedgerTerms(unit="example", adjacency="add-remove", epsilon=epsilon, delta=0.0, filter="approx-dp", schema="0" * 64)


TABLES = tables_of(run())


def past_guards(path: str, *statements: str | tuple[str, tuple[object, ...]]) -> None:
    """Run statements on the file of a ledger without its triggers, and restore the triggers, as anybody can with the sqlite3 shell."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        guards = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in guards:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(*([statement] if isinstance(statement, str) else statement))
        for _, sql in guards:
            connection.execute(sql)


def charge(
    ledger: Ledger,
    key: str,
    epsilon: str = "0.01",
    kind: str = "spend",
    why: str = "",
    expires: str | None = None,
    window: Sequence[str] = (),
) -> Receipt:
    """Charge `epsilon`, a decimal number, without an accountant."""
    cost = Cost({"epsilon": epsilon, "delta": "0"}, "stated")
    return ledger._append(Charge(kind, key, TABLES, 0.0, cost, ledger.who, why, expires, tuple(window)), key)
