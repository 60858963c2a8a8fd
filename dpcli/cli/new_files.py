"""The writing of files that must not exist before, such as a pipeline file that a command makes.

A path that exists is refused, whatever it is; reports, which may be replaced, are written by document_files.py. After a new pipeline file,
the next command to run is printed to standard error, unless -q is given.
"""

from __future__ import annotations

import math
import os
import shlex
from contextlib import suppress
from typing import IO

import click

from dpcli.base.errors import InputError
from dpcli.cli.outputs import require_unprotected, table_named
from dpcli.cli.printing import show, standard_error
from dpcli.file.toml.shown import first_names

LARGEST_HINTED_DELTA = 1e-6  # largest delta that a hint suggests; for datasets of 10^5 records or more it is smaller


def path_or_stdout(_context: click.Context, _option: click.Parameter, path: str | None) -> str | None:
    """Return the path of a new file; None for "-", which stands for standard output."""
    return None if path == "-" else path


new_file_option = click.option(
    "-o",
    "--output",
    metavar="PATH",
    callback=path_or_stdout,
    help="Write to PATH, which must not exist; without it, or for -, write to standard output.",
)


def write_new(path: str | None, text: str, data: bytes | None = None, then: str = "") -> None:
    """Write a text to a new file and print a line about it; without a path, print the text.

    Args:
        path: Path of the file; None for standard output.
        data: Content of the file if it differs from `text`.
        then: End of the line that is printed.

    Raises InputError if the file exists, cannot be written or is protected, or SQLite might create a file of this name next to a ledger.
    """
    if path is None:
        show(text)
        return
    require_unprotected(path)
    try:
        with open(path, "xb") as file:
            _write_all(path, file, text.encode() if data is None else data)
    except FileExistsError:
        what = "a directory" if os.path.isdir(path) else "a file"
        raise InputError(f"{path}: expected a path that does not exist yet, found {what}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
    settings = getattr(click.get_current_context(silent=True), "obj", None)
    if settings is None or not settings.quiet:
        with standard_error():
            click.echo(f"wrote {path}{then}", err=True)


def _write_all(path: str, file: IO[bytes], data: bytes) -> None:
    """Write the data. If this fails, remove the file and raise the error."""
    try:
        file.write(data)
        file.flush()
    except BaseException:
        with suppress(OSError):
            os.unlink(path)
        raise


def write_new_pipeline(path: str | None, text: str, earlier: str | None = None) -> None:
    """Print a pipeline file, or write it to a new file and print the next command to run.

    Args:
        earlier: The text of which `text` is an edited copy, if any. The changed lines with comments are then named, since the comments may
            speak of the earlier values. They are not named if lines have moved.
    """
    before, after = (earlier or "").split("\n"), text.split("\n")
    pairs = enumerate(zip(before, after, strict=True), start=1) if len(before) == len(after) else ()
    lines = [str(number) for number, (old, new) in pairs if old != new and "#" in new]
    then = f"; comments were kept, check those of changed lines: {first_names(lines)}" if lines else ""
    if path is not None:
        then += f"; next: dpcli account {shlex.quote(path)}{_delta_flag(text)}"
    write_new(path, text, then=then)


def _delta_flag(text: str) -> str:
    """Return the flag --delta for `dpcli account`, with a leading space, if the file states no delta; else "".

    The value is the largest power of ten below a tenth of 1 / dataset_size, but at most `LARGEST_HINTED_DELTA`, which is also the value
    without a dataset size. `text` must be TOML.
    """
    import tomli

    tables = tomli.loads(text)
    privacy, budget = table_named(tables, "privacy"), table_named(tables, "budget")
    if "delta" in privacy or "delta" in budget:
        return ""
    size = privacy.get("dataset_size")
    if type(size) is not int or size <= 0:
        return f" --delta {LARGEST_HINTED_DELTA:g}"
    exponent = math.floor(math.log10(size))  # size < 10^(exponent + 1), so that 10^-(exponent + 2) is below a tenth of 1 / size
    return f" --delta {min(LARGEST_HINTED_DELTA, 10.0 ** -(exponent + 2)):g}"
