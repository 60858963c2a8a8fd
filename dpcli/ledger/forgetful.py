"""Runs of a replay from the first entry: the contents are let go, and those that have ended are kept on the disk.

What a replay needs to know of a run that has ended is that its key is used. In a dictionary the keys alone would grow with the history.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import replace

from dpcli.base.errors import LedgerError
from dpcli.ledger.state import Run, payer

ENDED = ("committed", "void")


class ForgetfulRuns(Mapping[str, Run]):
    """Without what was said of them, but for their windows and who is charged; of those that have ended also without their costs."""

    def __init__(self) -> None:
        self._under_way: dict[str, Run] = {}
        self._ended = sqlite3.connect("", isolation_level=None)  # a file without a name, which is gone with the connection
        self._ended.execute("CREATE TABLE run (key BLOB PRIMARY KEY, seq INTEGER, status TEXT, counts TEXT) WITHOUT ROWID")
        self._ended.execute("PRAGMA journal_mode = OFF")

    def close(self) -> None:
        """Give the disk back."""
        self._ended.close()

    def _asked(self, statement: str, values: tuple[bytes | int | str, ...] = ()) -> sqlite3.Cursor:
        try:
            return self._ended.execute(statement, values)
        except sqlite3.Error as error:
            raise LedgerError(
                f"while all entries are read, the keys of runs that have ended are in a temporary file, which cannot be used: {error}; "
                "nothing was written to the ledger: free the disk of temporary files, or name another one in SQLITE_TMPDIR"
            ) from None

    def __setitem__(self, key: str, run: Run) -> None:
        if run.status not in ENDED:
            window = {"window": list(run.window)} if run.window else {}
            self._under_way[key] = replace(run, content={"who": payer(run.content), **window})
            return
        self._under_way.pop(key, None)
        counts = json.dumps(dict(run.counts))
        self._asked("INSERT OR REPLACE INTO run VALUES (?, ?, ?, ?)", (_bytes(key), run.seq, run.status, counts))

    def __getitem__(self, key: str) -> Run:
        if key in self._under_way:
            return self._under_way[key]
        found = self._asked("SELECT seq, status, counts FROM run WHERE key = ?", (_bytes(key),)).fetchone()
        if found is None:
            raise KeyError(key)
        return Run(key, found[0], found[1], {}, {}, json.loads(found[2]))

    def __iter__(self) -> Iterator[str]:
        yield from (key.decode("utf-8", "surrogatepass") for (key,) in self._asked("SELECT key FROM run ORDER BY seq"))
        yield from self._under_way

    def __len__(self) -> int:
        count: int = self._asked("SELECT count(*) FROM run").fetchone()[0]
        return count + len(self._under_way)


def _bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")  # somebody's entry may hold half a character
