"""Files that a command makes: written where nothing is yet, or printed."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any

import click

from dpcli.base.errors import InputError
from dpcli.cli.printing import heard, show

DELTA = 1e-6  # where no number of records asks for a smaller one


def named(_context: click.Context, _option: click.Parameter, path: str | None) -> str | None:
    """The path of a new file; none for "-", which is standard output."""
    return None if path == "-" else path


new_file_option = click.option(
    "-o",
    "--output",
    metavar="PATH",
    callback=named,
    help="Write to PATH, which must not exist; standard output where absent, or for -.",
)


def leave(path: str | None, text: str, data: bytes | None = None, then: str = "") -> None:
    """Print a text where there is no path; else write it, or other `data`, to a file that does not exist yet. then: what to do with it.

    Raises InputError where there is a file, it cannot be written, or SQLite would keep one there beside a ledger.
    """
    from dpcli.cli.kept import require_free

    if path is None:
        show(text)
        return
    require_free(path)
    try:
        with open(path, "xb") as file:
            _fill(path, file, text.encode() if data is None else data)
    except FileExistsError:
        what = "a directory" if os.path.isdir(path) else "a file"
        raise InputError(f"{path}: expected a path that does not exist yet, found {what}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
    settings = getattr(click.get_current_context(silent=True), "obj", None)
    if settings is None or not settings.quiet:
        with heard():
            click.echo(f"wrote {path}{then}", err=True)


def _fill(path: str, file: IO[bytes], data: bytes) -> None:
    """Write all of it, or leave no file."""
    try:
        file.write(data)
        file.flush()
    except BaseException:
        with suppress(OSError):
            os.unlink(path)
        raise


def leave_pipeline(path: str | None, text: str) -> None:
    """`leave`, of a pipeline file."""
    leave(path, text, then=f"; next: dpcli account {shlex.quote(path)}{_asked(text)}" if path is not None else "")


def _asked(text: str) -> str:
    """The flag without which `dpcli account` of such a file has nothing to report at."""
    import tomli

    tables = tomli.loads(text)
    privacy, budget = (_table(tables, name) for name in ("privacy", "budget"))
    if "delta" in privacy or "delta" in budget:
        return ""
    size = privacy.get("dataset_size")
    small = 10.0 ** -(math.floor(math.log10(size)) + 2) if type(size) is int and size > 0 else DELTA
    return f" --delta {min(DELTA, small):g}"


def _table(tables: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = tables.get(name)
    return value if isinstance(value, dict) else {}
