"""The definitions of a ledger in a file: the entries, and since version 2 what stands beside them so that nobody has to read them all.

`head` is kept by a trigger, so that an earlier version of dpcli, which knows nothing of it, keeps it too: a last entry that damage hides is
missed. `entry_by_key` finds what is said of a run. `checkpoint` holds what dpcli.ledger.checkpoint wrote.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

ENTRIES = (
    """CREATE TABLE entry (
  dataset TEXT NOT NULL, seq INTEGER NOT NULL CHECK (seq >= 1), body TEXT NOT NULL, hash TEXT NOT NULL,
  PRIMARY KEY (dataset, seq)
) WITHOUT ROWID""",
    "CREATE TRIGGER entry_never_changes BEFORE UPDATE ON entry BEGIN SELECT RAISE(ABORT, 'entries never change'); END",
    "CREATE TRIGGER entry_never_goes BEFORE DELETE ON entry BEGIN SELECT RAISE(ABORT, 'entries are never removed'); END",
)
# A key as it is spelled in an entry (`dpcli.ledger.chain.canonical`): names are sorted, quotation marks in strings are escaped, and what
# comes before has no names of its own but those of amounts. SQLite's functions for JSON are none that a definition may use safely.
KEY = """CASE WHEN instr(body, ',"key":"') THEN
  substr(body, instr(body, ',"key":"') + 8, instr(body, '","kind":"') - instr(body, ',"key":"') - 8) END"""
BESIDE = {
    "head": "CREATE TABLE head (dataset TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID",
    "checkpoint": "CREATE TABLE checkpoint (dataset TEXT PRIMARY KEY, body TEXT NOT NULL, digest TEXT NOT NULL)",
    "entry_by_key": f"CREATE INDEX entry_by_key ON entry (dataset, {KEY})",
    "entry_is_the_last": "CREATE TRIGGER entry_is_the_last AFTER INSERT ON entry BEGIN "
    "INSERT INTO head VALUES (NEW.dataset, NEW.seq) ON CONFLICT (dataset) DO UPDATE SET seq = max(seq, NEW.seq); END",
}
SCHEMA = (*ENTRIES, *BESIDE.values())
# For entries that were there before.
FILL = "INSERT INTO head SELECT dataset, max(seq) FROM entry GROUP BY dataset"
LATEST = 2


def spelled(key: str) -> str:
    """As `KEY` finds it."""
    return json.dumps(key)[1:-1]


def version_of(connection: Any) -> int:
    """Of the definitions in a file: 2 where all of them are there, else 1, which is read as a whole."""
    marks = ", ".join("?" * len(BESIDE))
    (found,) = connection.execute(f"SELECT count(*) FROM sqlite_master WHERE name IN ({marks})", tuple(BESIDE)).fetchone()
    return LATEST if found == len(BESIDE) else 1


def schema_of(connection: Any) -> str:
    """The definitions in a file, as text."""
    rows = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name").fetchall()
    return "\n".join(str(sql) for (sql,) in rows)


def intact(connection: Any) -> bool:
    """Whether the definitions in a file are those of this version, and no others."""
    with closing(sqlite3.connect(":memory:")) as fresh:
        for statement in SCHEMA:
            fresh.execute(statement)
        return schema_of(connection) == schema_of(fresh)


def renew(connection: Any) -> None:
    """The definitions of version 2 made in a file of version 1, inside the caller's transaction."""
    for name, statement in BESIDE.items():
        kind = statement.split()[1]
        connection.execute(f"DROP {kind} IF EXISTS {name}")
        connection.execute(statement)
    connection.execute(FILL)
