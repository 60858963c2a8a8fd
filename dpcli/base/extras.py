"""Checks for optional requirements: packages that an extra of dpcli installs, and file locks."""

from __future__ import annotations

import importlib.util

from dpcli.base.errors import Unavailable

EXTRAS = {  # name of an importable package -> extra of dpcli that installs it
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
    """Raise Unavailable if a package is not installed; call it before anything is charged or written."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise Unavailable(_missing(package))


def unavailable(error: BaseException) -> Unavailable | None:
    """Return the error to show if an extra of dpcli installs the package whose import failed; else None."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    return Unavailable(_missing(package)) if package in EXTRAS else None


def _missing(package: str) -> str:
    return f"{package} is not installed: pip install 'dpcli[{EXTRAS[package]}]'"


def require_posix(command: str) -> None:
    """Raise Unavailable if this system cannot lock files. Call it before anything is charged or written.

    Args:
        command: Subject of the message, such as the command that needs locks.
    """
    try:
        import fcntl  # noqa: F401
    except ImportError:
        raise Unavailable(f"{command} needs a POSIX system, such as Linux: this one cannot lock files (no fcntl)") from None
