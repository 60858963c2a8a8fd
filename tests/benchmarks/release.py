"""Counts and sums by key of 10 million rows of 1 million units, at most 10 rows of each in a key: time and memory of dpcli's DuckDB beside
the same query without bounds, and OpenDP's own table layer where `opendp[polars]` is installed. And what one count over a small csv costs,
over `python -c "import click, numpy, duckdb"`.

    python -m tests.benchmarks.release [ROWS]
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile

from tests.command import ROOT

ROWS = 10_000_000
KEYS = ("CA", "NY", "TX", "WA")
SALARY = 200_000
PREPARE = """
import duckdb
folder, rows = {folder!r}, {rows}
table = f\"\"\"SELECT (hash(i * 7 + 1) % {units})::BIGINT AS user_id, ['CA', 'NY', 'TX', 'WA'][1 + (hash(i * 3) % 4)::INT] AS state,
round((hash(i * 11) % 20000000) / 100.0, 2)::DOUBLE AS salary FROM range({rows}) t(i)\"\"\"
duckdb.sql(f"COPY ({{table}}) TO '{{folder}}/rows.parquet' (FORMAT parquet)")
duckdb.sql(f"COPY (FROM '{{folder}}/rows.parquet') TO '{{folder}}/rows.csv' (HEADER)")
duckdb.sql(f"COPY (FROM '{{folder}}/rows.parquet' LIMIT 100) TO '{{folder}}/small.csv' (HEADER)")
"""
BOUNDED = """
from dpcli.release.aggregate import Aggregation, GroupKey, Steps
from dpcli.release.data_source import Column
from dpcli.release.engines.source_engine import opened
from dpcli.release.data_source import Source
columns = {{"user_id": Column(type="integer"), "state": Column(type="text"), "salary": Column(type="decimal")}}
keys, values = (GroupKey("state", ("CA", "NY", "TX", "WA")),), (Steps("salary", 0, 20_000_000, 0.01),)
question = Aggregation("user_id", None, keys, values, {groups}, 10)
with opened(Source(columns=columns, path={path!r}, unit="user_id"), {folder!r} + "/file.toml") as engine:
    engine.totals(question, b"k" * 32)
"""
SMALL = """format = 1
name = "small"
[privacy]
unit = "user_id"
adjacency = "add-remove"
max_contributions = 10
delta = 1e-6
[source]
path = "small.csv"
unit = "user_id"
[source.columns]
user_id = { type = "integer" }
[[query]]
name = "people"
measure = "count"
of = "units"
epsilon = 1.0
"""
COMMAND = """
import os, shutil, sys
from dpcli.cli.start import run
os.chdir({folder!r})
shutil.rmtree("runs", ignore_errors=True)  # or the answers are those of last time
sys.argv = ["dpcli", "-q", "release", "small.toml"]
try:
    run()
except SystemExit as end:
    assert not end.code, end.code
"""
UNBOUNDED = """
import duckdb
with duckdb.connect(config={{"memory_limit": "256MB", "threads": 4, "preserve_insertion_order": False}}) as connection:
    steps = "floor(least(greatest(salary, 0), 200000) / 0.01 + 0.5)::BIGINT"
    connection.execute(f"SELECT state, count(*), sum({{steps}}) FROM '{folder}/{path}' GROUP BY 1").fetchall()
"""
OPENDP = """
import opendp.prelude as dp, polars as pl
dp.enable_features("contrib")
context = dp.Context.compositor(
    data=pl.scan_parquet({folder!r} + "/rows.parquet"), privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("user_id")),
    privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-7), split_evenly_over=1,
    margins=[dp.polars.Margin(by=["state"], invariant="keys", max_length={rows}, max_groups=4)])
query = context.query().truncate_per_group(10).group_by("state")
query.agg(dp.len(), pl.col("salary").fill_nan(0.0).fill_null(0.0).dp.sum((0.0, 200000.0))).release().collect()
"""


def measured(code: str) -> tuple[float, float, float]:
    """CPU seconds, wall seconds and peak MB of a process of its own."""
    import time

    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    whole = f"{code}\nimport resource\nprint(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    done = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.perf_counter() - start, float(done.stdout.split()[-1])


def show(name: str, code: str, out: object) -> tuple[float, float, float] | None:
    try:
        found = measured(code)
    except RuntimeError as error:
        print(f"{name:<58} not measured: {str(error)[:60]}", file=out)  # type: ignore[call-overload]
        return None
    print(f"{name:<58} {found[0]:7.2f} s CPU {found[1]:7.2f} s {found[2]:7.0f} MB", file=out)  # type: ignore[call-overload]
    return found


def main(rows: int = ROWS, out: object = sys.stdout) -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-c", PREPARE.format(folder=folder, rows=rows, units=max(1, rows // 10))], check=True, cwd=ROOT
        )
        for path in ("rows.parquet", "rows.csv"):
            show(f"{path}: no bounds, the engine alone", UNBOUNDED.format(folder=folder, path=path), out)
            for groups in (4, 1):
                code = BOUNDED.format(folder=folder, path=path, groups=groups)
                show(f"{path}: at most {groups} keys of a unit, 10 rows in each", code, out)
        show("rows.parquet: OpenDP's table layer, 10 rows of a unit", OPENDP.format(folder=folder, rows=rows), out)
        started = [measured("import click, numpy, duckdb")[0] for _ in range(3)]
        with open(f"{folder}/small.toml", "w") as file:
            file.write(SMALL)
        small = [measured(COMMAND.format(folder=folder))[0] for _ in range(3)]
        ratio = min(small) / min(started)
        name = "dpcli release, one count over a small csv:"
        print(f"{name:<58} {min(small):7.2f} s CPU, {ratio:.1f} x the imports alone", file=out)  # type: ignore[call-overload]


if __name__ == "__main__":
    os.chdir(ROOT)
    main(*(int(each) for each in sys.argv[1:2]))
