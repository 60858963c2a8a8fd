"""Speed of releases from PostgreSQL and Spark, and of OpenDP, by the clock.

    python -m tests.benchmarks.release_engines [--rows 1000000] [--units 100000] [--repetitions 3] [--write]

A server works in a process of its own, so that these are seconds of the clock, the median of the repetitions: measure on a quiet machine.
A release and the engine's own GROUP BY of the same columns by person and key take turns. OpenDP reads the same parquet file through its
Polars context, with the same bounds, on as many threads as there are cores; it needs the polars that release_errors names. Its mean does
not bound a person's rows by itself, and is asked after a truncation. --write replaces the section of .github/docs/release-comparison.md.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.benchmarks.ledger import halt
from tests.benchmarks.release_speed import COLUMNS, PAGE, QUESTIONS, STATES, make, with_section
from tests.inline import text_of
from tests.ledger.postgres import cluster as servers

HEADING = "## Speed of other engines"
POSTGRES = {"text": "text", "integer": "bigint", "decimal": "float8"}
Grouped = Callable[[str], None]  # runs a statement, and reads its rows


def seconds_of(way: Callable[[], object]) -> float:
    """Return how long it takes by the clock."""
    start = time.perf_counter()
    way()
    return time.perf_counter() - start


@contextmanager
def postgres(folder: Path) -> Iterator[tuple[Mapping[str, Any], str, Grouped]]:
    """Yield [source] for a table of a new server, its name in SQL, and what runs a statement there."""
    with servers.running() as cluster:
        try:
            name = cluster.database()
            with cluster.connect(name) as connection:
                columns = ", ".join(f"{column} {POSTGRES[keys['type']]}" for column, keys in COLUMNS.items())
                connection.execute(f"CREATE TABLE visits ({columns})")
                with connection.cursor().copy("COPY visits FROM STDIN (FORMAT csv, HEADER)") as copy:
                    copy.write((folder / "rows.csv").read_bytes())
                connection.execute("ANALYZE visits")
            with cluster.connect(name) as connection:
                yield {"url": cluster.url(name), "table": "visits"}, "visits", lambda sql: connection.execute(sql).fetchall()
        finally:
            halt(cluster)


@contextmanager
def spark(folder: Path) -> Iterator[tuple[Mapping[str, Any], str, Grouped]]:
    """Yield the same for a parquet file that Spark reads."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    session = builder.config("spark.sql.shuffle.partitions", "4").getOrCreate()
    try:
        yield (
            {"path": "rows.parquet", "engine": "spark"},
            f"parquet.`{folder}/rows.parquet`",
            lambda sql: session.sql(sql).collect(),
        )
    finally:
        session.stop()


def release_seconds(folder: Path, source: Mapping[str, Any], query: Mapping[str, Any]) -> float:
    """Return how long a whole release takes: plan, bounds on what a person adds, sums, noise, stored answers."""
    from dpcli.release.release_plan import plan_of
    from dpcli.release.release_run import release

    with tempfile.TemporaryDirectory() as out:
        tables = {
            "format": 1,
            "privacy": {"unit": "person", "adjacency": "add-remove", "delta": 0},
            "budget": {"epsilon": 1.0},
            "source": {"unit": "person", "columns": COLUMNS, "output": f"{out}/answers", **source},
            "query": [{"name": "q", "epsilon": 1.0, **query}],
        }
        (folder / "file.toml").write_bytes(text_of(tables))
        return seconds_of(lambda: release(plan_of(str(folder / "file.toml"))))


def opendp_seconds(folder: Path, question: str) -> float:
    """Return how long OpenDP's answer takes."""
    import opendp.prelude as dp
    import polars as pl

    query, key, _ = QUESTIONS[question]
    rows = pl.scan_parquet(folder / "rows.parquet")
    margins = [dp.polars.Margin(by=[key] if key else [], max_length=10_000_000, max_groups=len(STATES))]
    context = dp.Context.compositor(
        data=rows,
        privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("person")),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
        margins=margins,
    )
    ask = context.query().truncate_per_group(query["max_rows"], by=[key] if key else [])
    if key:
        ask = ask.truncate_num_groups(query["max_groups"], by=[key], keep="first")  # OpenDP 0.16 fails with its default, "sample"
    column = pl.col(query["column"]).fill_null(0) if "column" in query else None
    bounds = (0.0, 500.0) if query.get("column") == "paid" else (0, 115)
    one = dp.len() if column is None else column.dp.sum(bounds) if query["measure"] == "sum" else column.dp.mean(bounds)
    asked = ask.group_by(key).agg(one).with_keys(pl.LazyFrame({key: STATES})) if key else ask.select(one)
    return seconds_of(lambda: asked.release().collect())


def section(rows: int, units: int, repetitions: int) -> str:
    """Return the section of the page."""
    lines = [
        HEADING,
        "",
        f"A release of {rows:,} rows of {units:,} people beside the engine's own GROUP BY of the same columns by person and key, and",
        "OpenDP's answer from the same parquet file with the same bounds, by `python -m tests.benchmarks.release_engines`: seconds of the",
        f"clock, median of {repetitions}.",
        "",
        "| question | engine | dpcli | GROUP BY person, key | ratio |",
        "| --- | --- | --- | --- | --- |",
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        make(folder, rows, units)
        for engine, place in (("PostgreSQL", postgres), ("Spark", spark)):
            with place(folder) as (source, table, run):
                for question, (query, key, aggregate) in QUESTIONS.items():
                    keys = ", ".join(filter(None, ("person", key)))
                    sql = f"SELECT count(*), max(a) FROM (SELECT {keys}, {aggregate} AS a FROM {table} GROUP BY {keys}) AS g"
                    run(sql)  # what is read once is in memory
                    own, other = [], []
                    for _ in range(repetitions):
                        own.append(release_seconds(folder, source, query))
                        other.append(seconds_of(lambda sql=sql: run(sql)))
                    mine, theirs = statistics.median(own), statistics.median(other)
                    lines.append(f"| {question} | {engine} | {mine:.2f} s | {theirs:.2f} s | {mine / theirs:.1f} |")
        for question, (query, _, _) in QUESTIONS.items():
            mine = statistics.median(release_seconds(folder, {"path": "rows.parquet"}, query) for _ in range(repetitions))
            try:
                theirs = statistics.median(opendp_seconds(folder, question) for _ in range(repetitions))
            except Exception as error:  # what a library raises is its answer
                sys.stderr.write(f"{question}: {error}\n")
                lines.append(f"| {question} | DuckDB | {mine:.2f} s | OpenDP: not answered | |")
                continue
            lines.append(f"| {question} | DuckDB | {mine:.2f} s | OpenDP: {theirs:.2f} s | {mine / theirs:.1f} |")
    return "\n".join(lines) + "\n"


def main(words: Sequence[str]) -> None:
    """Print the section, or put it into the page."""
    import opendp.prelude as dp

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--units", type=int, default=100_000)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="put the section into the page")
    options = parser.parse_args(words)
    warnings.simplefilter("ignore")
    dp.enable_features("contrib")
    text = section(options.rows, options.units, options.repetitions)
    sys.stdout.write(text)
    if options.write:
        PAGE.write_text(with_section(PAGE.read_text("utf-8"), HEADING, text), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
