"""Checks of what dpcli does not always have: packages that only an extra installs (pip install 'dpcli[train]'), and locks on files.

Call `require` or `require_posix` first, so that a command fails before anything is charged or written.
"""

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
    """Raise Unavailable, with the command that installs it, if a package among EXTRAS is not installed."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise Unavailable(_missing(package))


def unavailable(error: BaseException) -> Unavailable | None:
    """Return an error that says what to install, to be raised in place of `error`.

    Return None if `error` is not about a package of EXTRAS. The caller then reports `error` itself.
    """
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    package = error.name.partition(".")[0]
    return Unavailable(_missing(package)) if package in EXTRAS else None


def _missing(package: str) -> str:
    return f"{package} is not installed: pip install 'dpcli[{EXTRAS[package]}]'"


def require_posix(command: str) -> None:
    """Raise Unavailable if this system cannot lock files. `command` names, for the message, what needs the lock: "lint --fix"."""
    try:
        import fcntl  # noqa: F401
    except ImportError:
        raise Unavailable(f"{command} needs a POSIX system, such as Linux: this system cannot lock files (fcntl)") from None
