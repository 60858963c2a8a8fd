"""Tables of numbers from .npy, .csv and .parquet files, without trusting them to be any."""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Callable
from typing import Any

from dpcli.base.errors import InputError, Unavailable
from dpcli.file.toml.limits import escaped_path
from dpcli.numerics.arrays import np
from dpcli.predict.pate.settings import Pate, ending
from dpcli.predict.places import beside
from dpcli.predict.voting.votes import MOST, VoteCounts, counted, vote_counts

LARGEST = {".npy": 10**9, ".csv": 2 * 10**8, ".parquet": 10**9}  # bytes


def votes_of(pate: Pate, path: str) -> VoteCounts:
    """The votes in the file that [pate] of the file at `path` names. Raises InputError where there are none."""

    assert pate.votes is not None
    place = beside(pate.votes, path)
    found = table_of(place)
    judge = vote_counts if pate.vote_rows == "counts" else counted
    return judge(found, pate.teachers, pate.labels, escaped_path(place))


def table_of(place: str) -> Any:
    """The numbers in a file, as they stand. Raises InputError, whose message quotes none of them."""
    _require_regular(place)
    return READERS[ending(place)](place)


def _require_regular(place: str) -> None:
    shown = escaped_path(place)
    try:
        found = os.stat(place)
    except (OSError, ValueError) as problem:
        said = (getattr(problem, "strerror", None) or "a path that cannot exist").lower()
        raise InputError(f"{shown}: expected a file of votes, found {said}") from None
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"{shown}: expected a file of votes, found something else")
    most = LARGEST[ending(place)]
    if not 0 < found.st_size <= most:
        raise InputError(f"{shown}: expected a file of votes of at most {most:,} bytes, found {found.st_size:,}")


def _npy(place: str) -> Any:
    try:
        # Mapped: a header that claims more than the file holds is refused before memory is taken.
        found = np.lib.format.open_memmap(place, mode="r")
    except Exception:  # whatever numpy raises for a file that is none, or that holds objects
        raise InputError(
            f"{escaped_path(place)}: expected a .npy file of plain numbers, found one that cannot be read so"
        ) from None
    if found.size > MOST:
        raise InputError(f"{escaped_path(place)}: expected at most {MOST:,} numbers, found {found.size:,}")
    return np.array(found)


def _csv(place: str) -> Any:
    """With or without names in the first line; a line without a row would move all later ones to other queries."""
    try:
        with open(place, encoding="utf-8-sig") as file, warnings.catch_warnings():
            warnings.simplefilter("error")
            names = not any(map(_number, file.readline().split(",")))
            rows = sum(1 for _ in file) + (not names)
            file.seek(0)
            found = np.loadtxt(file, delimiter=",", skiprows=int(names), ndmin=2, comments=None)
        if len(found) != rows:
            raise ValueError
        return found
    except OSError as problem:
        raise InputError(f"{escaped_path(place)}: cannot be read: {problem.strerror}") from None
    except Exception:  # of numpy, whose message quotes a value; of another encoding; of a file without rows
        raise InputError(
            f"{escaped_path(place)}: expected rows of numbers with commas between them, found something else"
        ) from None


def _number(part: str) -> bool:
    """Whether it is one, or would be one if it were there: no name of a column is empty."""
    try:
        return not part.strip() or float(part) is not None
    except ValueError:
        return False


def _parquet(place: str) -> Any:
    """Columns of integers or floating point: what only can be turned into numbers (text, truth values) was no count."""
    try:
        import pyarrow.parquet
        import pyarrow.types
    except ImportError:
        raise Unavailable(
            f"{escaped_path(place)}: expected pyarrow, which reads .parquet files, found none: pip install pyarrow"
        ) from None
    try:
        file = pyarrow.parquet.ParquetFile(place)
        types, shape = list(file.schema_arrow.types), (file.metadata.num_rows, file.metadata.num_columns)
    except Exception:  # whatever pyarrow raises for a file that is none
        raise InputError(f"{escaped_path(place)}: expected a .parquet file, found one that cannot be read as such") from None
    if not all(pyarrow.types.is_integer(one) or pyarrow.types.is_floating(one) for one in types):
        raise InputError(f"{escaped_path(place)}: expected columns of numbers, found something else")
    if shape[0] * shape[1] > MOST:  # by its own word, before memory is taken
        raise InputError(f"{escaped_path(place)}: expected at most {MOST:,} numbers, found {shape[0] * shape[1]:,}")
    try:
        columns = [np.asarray(column.to_numpy(), dtype=float) for column in file.read().columns]
    except Exception:  # as above
        raise InputError(f"{escaped_path(place)}: expected a .parquet file, found one that cannot be read as such") from None
    return np.stack(columns, axis=1) if columns else np.empty(shape)


READERS: dict[str, Callable[[str], Any]] = {".npy": _npy, ".csv": _csv, ".parquet": _parquet}
