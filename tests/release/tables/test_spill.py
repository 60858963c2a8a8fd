"""Raw rows on the disk (engines/spill_folder.py): gone after the process, or, if it was killed, after the next start."""

from __future__ import annotations

import glob
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dpcli.release.engines.spill_folder import SPILL_PREFIX, spill_folder

HELD = """
import time
from dpcli.release.engines.spill_folder import spill_folder
made = spill_folder()
print(made.path, flush=True)
time.sleep(600)
"""
ASKED = """
from dpcli.release.engines.source_engine import open_source
from dpcli.release.aggregate import Aggregation
from dpcli.release.data_source import Column
from dpcli.release.data_source import Source

columns = {"who": Column(type="text"), "age": Column(type="integer")}
with open_source(Source(columns=columns, path="rows.parquet", unit="who"), "file.toml") as engine:
    print("open", flush=True)
    while True:
        engine.totals(Aggregation("who", None, (), (), 1, 1), b"k" * 32)
"""


def started(program: str, folder: Path) -> subprocess.Popen[str]:
    """A process with its temporary folders in this one."""
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=folder, env={**os.environ, "TMPDIR": str(folder)}, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline()
    return process


def left(folder: Path) -> list[str]:
    return glob.glob(str(folder / f"{SPILL_PREFIX}*"))


@pytest.mark.needs("duckdb", "sqlglot")
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_a_signal_in_a_query_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    import duckdb

    duckdb.sql(
        f"COPY (SELECT 'u' || range AS who, range % 90 AS age FROM range(300000)) TO '{tmp_path}/rows.parquet' (FORMAT parquet)"
    )
    with started(ASKED, tmp_path) as process:
        (place,) = left(tmp_path)
        (Path(place) / "rows").write_text("raw")
        time.sleep(0.3)  # into a query
        process.send_signal(number)
        try:
            process.wait(60)
        finally:
            process.kill()
    assert left(tmp_path) == []


def test_a_start_removes_what_the_dead_left_and_nothing_of_the_living(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / f"{SPILL_PREFIX}a-file").write_text("is none of them")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"{SPILL_PREFIX}link").symlink_to(tmp_path / "elsewhere")
    with started(HELD, tmp_path) as dead, started(HELD, tmp_path) as alive:
        rows = [Path(place) / "rows" for place in left(tmp_path) if os.path.isdir(place) and not os.path.islink(place)]
        assert len(rows) == 2
        for file in rows:
            file.write_text("raw")
        dead.kill()
        dead.wait(60)
        own = spill_folder()
        try:
            assert [file.exists() for file in rows].count(True) == 1
            assert (tmp_path / "elsewhere").is_dir() and (tmp_path / f"{SPILL_PREFIX}a-file").exists()
        finally:
            own.remove()
            alive.kill()
    assert not os.path.exists(own.path)
