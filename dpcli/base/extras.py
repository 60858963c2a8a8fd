"""Checks of optional requirements: packages that an extra of dpcli installs, and locks on files."""

from __future__ import annotations

import importlib.util

from dpcli.base.errors import Unavailable

# Extra of dpcli that installs a package, by the name of its module.
EXTRAS = {
    "flint": "proof",
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
    """Raise Unavailable if a package among EXTRAS is not installed. Call this before anything is charged or written."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise Unavailable(_missing(package))


def unavailable(error: BaseException) -> Unavailable | None:
    """Return an error that says what to install, if an extra of dpcli has the package that could not be imported; None otherwise."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    package = error.name.partition(".")[0]
    return Unavailable(_missing(package)) if package in EXTRAS else None


def _missing(package: str) -> str:
    """Return the message about a package that is not installed."""
    return f"{package} is not installed: pip install 'dpcli[{EXTRAS[package]}]'"


def require_posix(command: str) -> None:
    """Raise Unavailable if files cannot be locked. Ledgers and runs need locks. Call this before anything is charged or written."""
    try:
        import fcntl  # noqa: F401
    except ImportError:
        raise Unavailable(f"{command} needs a POSIX system, such as Linux: this system cannot lock files (fcntl)") from None
