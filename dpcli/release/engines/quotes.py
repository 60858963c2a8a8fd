"""Whether every quote of a csv ends: what an engine that reads in order does not say."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from dpcli.base.errors import InputError
from dpcli.release.engines.files import Files


def require_quotes_that_end(files: Files, delimiter: str, longest: int) -> None:
    """Raise InputError where a file ends within quotes, a cell goes on behind them, or has more than `longest` bytes. No cell is shown."""
    failure = None
    with _cells_of(longest):
        for path in files.paths:
            try:
                with _opened(path) as file:
                    deque(csv.reader(file, delimiter=delimiter, strict=True), maxlen=0)
            except (csv.Error, OSError, EOFError, zlib.error):
                failure = InputError(
                    f"{files.place}: expected quotes around whole cells, found others, or a file that cannot be read"
                )
    if failure is not None:
        raise failure


def _opened(path: str) -> io.TextIOWrapper:
    """As text of any bytes: each is a character."""
    file = gzip.open(path, "rb") if path.lower().endswith(".gz") else open(path, "rb")  # noqa: SIM115 the wrapper closes it
    return io.TextIOWrapper(file, encoding="latin-1", newline="")


@contextmanager
def _cells_of(longest: int) -> Iterator[None]:
    """The length of a cell is a setting of the whole process."""
    before = csv.field_size_limit(longest)
    try:
        yield
    finally:
        csv.field_size_limit(before)
