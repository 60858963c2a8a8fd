"""Speed and memory of releases beside DuckDB's own GROUP BY of the same columns of the same table.

    python -m tests.benchmarks.release_speed [--rows 1000000] [--units 100000] [--repetitions 3] [--write]

Each question about each kind of table has a process of its own. There the whole release (plan, bounds on what a person adds, sums, noise,
stored answers) and DuckDB's statements take turns, DuckDB with the settings that dpcli gives it. CPU seconds are those of all threads, the
median of the repetitions. The peak is by how much the first release raised the resident memory. Nothing that is imported is in either.
--write replaces the section of .github/docs/release-comparison.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.isolation import ROOT, reset_peak, status
from tests.inline import text_of

PAGE, HEADING = ROOT / ".github" / "docs" / "release-comparison.md", "## Speed"
STATES = [f"S{number:02}" for number in range(53)]
COLUMNS: Mapping[str, Mapping[str, Any]] = {
    "person": {"type": "text"},
    "state": {"type": "text", "domain": STATES},
    "age": {"type": "integer", "min": 0, "max": 115},
    "paid": {"type": "decimal", "min": 0, "max": 500, "step": 0.01},
    "reason": {"type": "text"},
    "place": {"type": "text"},
}
# A person has rows in few states; two columns are asked about by no query.
ROWS = """
SELECT 'person ' || person AS person, 'S' || lpad((hash(person) % 50 + hash('state' || number) % 4)::INTEGER::VARCHAR, 2, '0') AS state,
       (hash('age' || number) % 116)::INTEGER AS age, (hash('paid' || number) % 60000) / 100.0::DOUBLE AS paid,
       'reason ' || hash('reason' || number) % 1000 AS reason, 'place ' || hash('place' || number) % 100000 AS place
FROM (SELECT range AS number, hash('person' || range) % {units} AS person FROM range({rows}))
"""
# A question: the keys of its query, then the key and the aggregate of DuckDB's own statement.
QUESTIONS: Mapping[str, tuple[Mapping[str, Any], str, str]] = {
    "count by state, max_rows = 3": ({"measure": "count", "by": ["state"], "max_groups": 53, "max_rows": 3}, "state", "count(*)"),
    "sum by state, max_groups = 2": (
        {"measure": "sum", "column": "paid", "by": ["state"], "max_groups": 2, "max_rows": 10},
        "state",
        "sum(paid)",
    ),
    "mean, max_rows = 5": ({"measure": "mean", "column": "age", "max_rows": 5}, "", "avg(age)"),
}
KINDS = ("parquet", "csv", "Arrow")


def make(folder: Path, rows: int, units: int) -> None:
    """Write the table as parquet and csv, and a table of ten rows."""
    import duckdb

    connection = duckdb.connect()
    for kind in ("parquet", "csv"):
        for name, count in (("rows", rows), ("few", 10)):
            connection.execute(f"COPY ({ROWS.format(rows=count, units=units)}) TO '{folder / f'{name}.{kind}'}' (FORMAT {kind})")


def pipeline(folder: Path, query: Mapping[str, Any], table: str, out: str) -> str:
    """Return the path of a file with one query about a table, whose answers are stored in the folder `out`."""
    path = folder / "file.toml"
    source = {"unit": "person", "columns": COLUMNS, "output": out, "path": table}
    tables = {
        "format": 1,
        "privacy": {"unit": "person", "adjacency": "add-remove", "delta": 0},
        "budget": {"epsilon": 1.0},
        "source": source,
        "query": [{"name": "q", "epsilon": 1.0, **query}],
    }
    path.write_bytes(text_of(tables))
    return str(path)


def child(folder: Path, question: str, kind: str, repetitions: int) -> dict[str, float]:
    """Return the medians of CPU seconds of a release of ten rows, the release and both statements, and the peak of a release in MB."""
    import dpcli
    from dpcli.release.engines.duckdb_engine import connected
    from dpcli.release.engines.spill_folder import spill_folder
    from dpcli.release.release_plan import plan_of
    from dpcli.release.release_run import release

    query, key, aggregate = QUESTIONS[question]
    table, item = None, f"read_csv('{folder}/rows.csv')" if kind == "csv" else f"read_parquet('{folder}/rows.parquet')"
    if kind == "Arrow":
        import pyarrow.parquet

        table, item = pyarrow.parquet.read_table(folder / "rows.parquet"), "given"
    spill = spill_folder()
    connection = connected(spill)
    if table is not None:
        connection.register("given", table)

    def released(name: str) -> None:
        with tempfile.TemporaryDirectory() as out:
            path = pipeline(folder, query, f"{name}.{kind}", f"{out}/answers")
            outcome: Any = (
                release(plan_of(path)) if table is None else dpcli.release(table.slice(0, 10) if name == "few" else table, path)
            )
            if not outcome.fresh:
                raise RuntimeError("a stored answer costs nothing")

    def grouped(*columns: str) -> None:
        keys = ", ".join(filter(None, columns))
        by = f"GROUP BY {keys}" if keys else ""
        inner = f"SELECT {keys + ', ' if keys else ''}{aggregate} AS a FROM {item} {by}"
        connection.execute(f"SELECT count(*), max(a) FROM ({inner})").fetchall()  # few rows come to Python

    released("few")  # imports all that a release needs
    ways: Mapping[str, Callable[[], None]] = {
        "few": lambda: released("few"),
        "release": lambda: released("rows"),
        "by_key": lambda: grouped(key),
        "by_person": lambda: grouped("person", key),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    peak = 0.0
    for number in range(repetitions):
        for name, way in ways.items():
            before, start = reset_peak(), time.process_time()
            way()
            seconds[name].append(time.process_time() - start)
            if number == 0 and name == "release":
                peak = (status("VmHWM") - before) / 1024.0
    connection.close()
    spill.remove()
    return {**{name: statistics.median(each) for name, each in seconds.items()}, "peak": peak}


def measured(folder: Path, question: str, kind: str, repetitions: int) -> dict[str, float]:
    """Return what `child` returns, in a process of its own."""
    words = (sys.executable, "-m", "tests.benchmarks.release_speed", "--child", str(folder), question, kind)
    done = subprocess.run((*words, "--repetitions", str(repetitions)), cwd=ROOT, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def section(rows: int, units: int, repetitions: int) -> str:
    """Return the section of the page."""
    with tempfile.TemporaryDirectory() as name:
        make(Path(name), rows, units)
        results = {(kind, question): measured(Path(name), question, kind, repetitions) for kind in KINDS for question in QUESTIONS}
    fixed = " to ".join(f"{end(each['few'] for each in results.values()):.2f}" for end in (min, max)) + " s"
    lines = [
        HEADING,
        "",
        f"A release of {rows:,} rows of {units:,} people beside what DuckDB alone needs for the same columns of the same table, by",
        f"`python -m tests.benchmarks.release_speed` on {os.cpu_count()} cores ({platform.machine()}): CPU seconds of all threads, median",
        f"of {repetitions}. A release of ten rows takes {fixed}. A release has to know what each person adds to each key, as the second",
        "GROUP BY does. The peak is the memory that the release takes beyond the program and the table.",
        "",
        "| question | table | dpcli | GROUP BY key | ratio | GROUP BY person, key | ratio | peak of dpcli |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (kind, question), each in results.items():
        own, by_key, by_person = each["release"], each["by_key"], each["by_person"]
        ratios = f"{by_key:.2f} s | {own / by_key:.1f} | {by_person:.2f} s | {own / by_person:.1f}"
        lines.append(f"| {question} | {kind} | {own:.2f} s | {ratios} | {each['peak']:.0f} MB |")
    return "\n".join(lines) + "\n"


def with_section(page: str, heading: str, text: str) -> str:
    """Return a page in which a section with this heading is replaced; added at the end if there is none."""
    pattern = rf"(?ms)^{re.escape(heading)}\n.*?(?=^## |\Z)"
    if re.search(pattern, page):
        return re.sub(pattern, lambda match: f"{text}\n", page).rstrip("\n") + "\n"
    return f"{page.rstrip()}\n\n{text}"


def main(words: Sequence[str]) -> None:
    """Print the section, or put it into the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--units", type=int, default=100_000)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="put the section into the page")
    parser.add_argument("--child", nargs=3, metavar=("FOLDER", "QUESTION", "KIND"), help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.child:
        folder, question, kind = options.child
        sys.stdout.write(json.dumps(child(Path(folder), question, kind, options.repetitions)))
        return
    text = section(options.rows, options.units, options.repetitions)
    sys.stdout.write(text)
    if options.write:
        PAGE.write_text(with_section(PAGE.read_text("utf-8"), HEADING, text), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
