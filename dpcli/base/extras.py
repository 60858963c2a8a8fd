"""Packages that only some commands need, and the extra of dpcli that installs each."""

from __future__ import annotations

import importlib.util

from dpcli.base.errors import Unavailable

EXTRAS = {
    "torch": "train",
    "safetensors": "train",
    "sklearn": "train",
    "transformers": "lm",
    "peft": "lm",
    "opacus": "opacus",
    "matplotlib": "plot",
    "psycopg": "postgres",
    "opendp": "release",
    "duckdb": "release",
    "sqlglot": "release",
    "pyspark": "spark",
}


def require(*packages: str) -> None:
    """Raise Unavailable where one of these is not installed: before anything is charged or written."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise Unavailable(_missing(package))


def unavailable(error: BaseException) -> Unavailable | None:
    """What a failed import says to a user, where an extra would mend it; None where it would not."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    return Unavailable(_missing(package)) if package in EXTRAS else None


def _missing(package: str) -> str:
    return f"expected {package}, found none: pip install 'dpcli[{EXTRAS[package]}]'"
