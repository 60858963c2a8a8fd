"""Fixtures of the engines that answer queries (PostgreSQL, Spark and DuckDB). They are the real engines."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.ledger.postgres.cluster import Cluster


@pytest.fixture(scope="session")
def release_cluster(cluster: Cluster) -> Cluster:
    """Return the PostgreSQL server that all tests share."""
    return cluster


@pytest.fixture(scope="session")
def spark_session() -> Iterator[Any]:
    """Start one Spark session for all tests. dpcli uses a session that already runs."""
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'dpcli[spark]'")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java, and none is installed: apt-get install default-jre-headless")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[4]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")  # starts faster
    session = builder.config("spark.sql.shuffle.partitions", "4").config("spark.driver.host", "127.0.0.1").getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Open DuckDB with a table that tests replace."""
    from dpcli.release.data_source import Column, Source
    from dpcli.release.engines.duckdb_engine import DuckDB
    from dpcli.release.engines.source_engine import open_source

    folder = tmp_path_factory.mktemp("neighbours")
    (folder / "rows.csv").write_text("who\n")
    with open_source(Source(columns={"who": Column(type="text")}, path="rows.csv"), str(folder / "file.toml")) as found:
        assert isinstance(found, DuckDB)
        yield found
