"""Engines that read the private table: DuckDB, PostgreSQL and Spark. Each filters, bounds and sums the rows, and returns only sums."""
