"""Optional requirements: packages that an extra of dpcli installs, and locks on files."""

from __future__ import annotations

import importlib.util

from dpcli.base.errors import Unavailable

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
    """Raise Unavailable if a package is not installed; call it before anything is charged or written."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise Unavailable(_missing(package))


def unavailable(error: BaseException) -> Unavailable | None:
    """Return the error to show for a failed import that an extra of dpcli would mend, else None."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    return Unavailable(_missing(package)) if package in EXTRAS else None


def _missing(package: str) -> str:
    return f"{package} is not installed: pip install 'dpcli[{EXTRAS[package]}]'"


def require_posix(command: str) -> None:
    """Raise Unavailable if files cannot be locked, as ledgers and runs need; call it before anything is charged or written."""
    try:
        import fcntl  # noqa: F401
    except ImportError:
        raise Unavailable(f"{command} needs a POSIX system, such as Linux: nothing locks files here (fcntl)") from None
