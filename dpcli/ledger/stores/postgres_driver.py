"""psycopg with the parts that are used: imported by `postgres_errors.driver` alone, when the first URL is opened."""

from __future__ import annotations

import psycopg
import psycopg.conninfo

__all__ = ["psycopg"]
