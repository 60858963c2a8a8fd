"""Files of votes: those that users provide, whose numbers are checked, and those that fitted teachers write to a session's folder.

*Teachers*, models of disjoint shards of private records, vote on the labels of public *queries* (teachers.py). A row of votes belongs to
one query and becomes a count for each label. Votes are as private as the records, so messages quote none (only a first line 0,1,2,... of a
csv, which may be names). A csv with such a line, or with a blank one, is refused, since later answers might be about other queries.
votes.json says from which teachers and queries votes.npy was made.
"""

from __future__ import annotations

import io
import json
import os
import stat
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import InputError, Unavailable
from dpcli.file.toml.limits import escaped_path
from dpcli.numerics.arrays import Array, np
from dpcli.predict.pate.pate_plan import Pate, ending
from dpcli.predict.pate.records import queries_digest, query_inputs
from dpcli.predict.pate.transcript import TRANSCRIPT
from dpcli.predict.vote_counts import MOST_VALUES, VoteCounts, counts_of_labels, vote_counts
from dpcli.sessions.charged import existing_session
from dpcli.sessions.folder import replace_file
from dpcli.train.tasks.user_code import relative_to_file

if TYPE_CHECKING:
    from dpcli.predict.pate.pate_plan import VotingPlan

LARGEST_FILES = {".npy": 10**9, ".csv": 2 * 10**8, ".parquet": 10**9}  # largest sizes in bytes, which limit memory and time alone

VOTES, ORIGIN = "votes.npy", "votes.json"  # files in a session's folder: the votes; the digests of their teachers and queries


def votes_of(pate: Pate, path: str) -> VoteCounts:
    """Return the votes in the file that the [pate] table of the file at `path` names. Raises InputError if they are not votes."""
    assert pate.votes is not None
    file_path = relative_to_file(pate.votes, path)
    count_votes = vote_counts if pate.vote_rows == "counts" else counts_of_labels
    return count_votes(read_table(file_path), pate.teachers, pate.labels, escaped_path(file_path))


def read_table(file_path: str) -> Any:
    """Return the numbers in a file as a two-dimensional array.

    Raises:
        InputError: The file has other content. The message quotes none of it.
        Unavailable: The file is a .parquet file, and pyarrow is not installed.
    """
    shown, most = escaped_path(file_path), LARGEST_FILES[ending(file_path)]
    try:
        info = os.stat(file_path)
    except (OSError, ValueError) as problem:
        reason = (getattr(problem, "strerror", None) or "an invalid path").lower()
        raise InputError(f"{shown}: expected a file of votes, found {reason}") from None
    if not stat.S_ISREG(info.st_mode):
        raise InputError(f"{shown}: expected a file of votes, found a folder or device")
    if not 0 < info.st_size <= most:
        raise InputError(f"{shown}: expected a file of votes of at most {most:,} bytes, found {info.st_size:,}")
    return READERS[ending(file_path)](file_path, shown)


def _require_size(numbers: int, shown: str) -> None:
    """Raise InputError for more than MOST_VALUES numbers."""
    if numbers > MOST_VALUES:
        raise InputError(f"{shown}: expected at most {MOST_VALUES:,} numbers, found {numbers:,}")


def _read_npy(file_path: str, shown: str) -> Any:
    try:
        # A memory map refuses a header that claims more data than the file has, before memory is allocated.
        table = np.lib.format.open_memmap(file_path, mode="r")
    except Exception:  # numpy raises many kinds of errors for other files, or arrays of objects
        raise InputError(f"{shown}: expected a .npy file of plain numbers, found a file that numpy cannot read") from None
    _require_size(table.size, shown)
    return np.array(table)


def _read_csv(file_path: str, shown: str) -> Any:
    """Read rows, with or without names in the first line. A line without a row is an error: it would shift all later rows.

    A first line 0,1,2,... is an error as well: other programs write it for columns without names.
    """
    try:
        with open(file_path, encoding="utf-8-sig") as file, warnings.catch_warnings():
            warnings.simplefilter("error")
            first_line = [part.strip() for part in file.readline().split(",")]
            if first_line == list(map(str, range(len(first_line)))):
                raise InputError(
                    f"{shown}: expected votes or the names of columns in line 1, found the numbers from 0 to {len(first_line) - 1}, "
                    "which may be either: remove the line if they are names, and add a line of names before it if they are votes"
                )
            has_names = not any(map(_is_number, first_line))
            rows = sum(1 for _ in file) + (0 if has_names else 1)  # the lines after the first one, and the first one if it is a row
            file.seek(0)
            table = np.loadtxt(file, delimiter=",", skiprows=int(has_names), ndmin=2, comments=None)
        if len(table) != rows:  # numpy skips blank lines
            raise ValueError
        return table
    except InputError:
        raise
    except OSError as problem:
        raise InputError(f"{shown}: cannot be read: {problem.strerror}") from None
    except Exception:  # an error of numpy, whose message quotes a value, or of the encoding, or a file without rows
        raise InputError(f"{shown}: expected rows of numbers separated by commas, all of one length") from None


def _is_number(part: str) -> bool:
    """Return whether a text is a number or empty: "1e3" and " " are; the name of a column is neither."""
    try:
        float(part.strip() or "0")
    except ValueError:
        return False
    return True


def _read_parquet(file_path: str, shown: str) -> Any:
    """Read columns of integers or floating-point numbers. Text and booleans are refused, although they could be converted."""
    try:
        import pyarrow.parquet
        import pyarrow.types
    except ImportError:
        raise Unavailable(f"{shown}: pyarrow reads .parquet files and is not installed: pip install pyarrow") from None
    try:
        file = pyarrow.parquet.ParquetFile(file_path)
        types, shape = list(file.schema_arrow.types), (file.metadata.num_rows, file.metadata.num_columns)
        if not all(pyarrow.types.is_integer(column) or pyarrow.types.is_floating(column) for column in types):
            raise InputError(f"{shown}: expected columns of numbers, found {', '.join(sorted(set(map(str, types))))}")
        _require_size(shape[0] * shape[1], shown)  # The size that the file declares is checked before memory is allocated.
        columns = [np.asarray(column.to_numpy(), dtype=float) for column in file.read().columns]
    except InputError:
        raise
    except Exception:  # pyarrow raises many kinds of errors for other files.
        raise InputError(f"{shown}: expected a .parquet file, found a file that pyarrow cannot read") from None
    return np.stack(columns, axis=1) if columns else np.empty(shape)


READERS: dict[str, Callable[[str, str], Any]] = {".npy": _read_npy, ".csv": _read_csv, ".parquet": _read_parquet}


def read_votes(plan: VotingPlan) -> VoteCounts | None:
    """Return the votes in the file that [pate] names, or those of the fitted teachers; None if the teachers are not fitted yet.

    Without votes, `dpcli pate label` begins no session and `account` prints the guarantee alone. Raises InputError if the file has no valid
    votes, or they are from other teachers.
    """
    if plan.pate.votes is not None:
        return votes_of(plan.pate, plan.path)
    file_path = os.path.join(plan.folder, VOTES)
    try:
        with open(os.path.join(plan.folder, ORIGIN), encoding="utf-8") as file:
            origin = json.load(file)
        teaching, queries = origin["teaching"], origin["queries"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{plan.folder}: expected votes that dpcli pate fit wrote; {ORIGIN} is damaged") from None
    if teaching != plan.votes_fingerprint():
        raise InputError(f"{plan.folder}: its votes are from other teachers than those of this file: run dpcli pate fit again")
    if queries != queries_digest(query_inputs(plan.pate, plan.path)):
        raise InputError(
            f"{plan.path}: pate.queries: expected the inputs that the teachers labelled, in their order, found changed inputs: restore "
            "them, or run dpcli pate fit again"
        )
    return vote_counts(read_table(file_path), plan.pate.teachers, plan.pate.labels, escaped_path(file_path))


def refuse_other_votes(plan: VotingPlan, votes: VoteCounts | None) -> None:
    """Raise InputError if the folder holds a session that did not begin with these votes.

    If its votes were overwritten, the session could not continue, and its cost given the votes could not be computed.

    Args:
        votes: Votes of the teachers; None if they are still to be fitted.
    """
    session = existing_session(plan.folder)
    if session is None and not os.path.exists(os.path.join(plan.folder, TRANSCRIPT)):
        return
    if session is None or votes is None or session.inputs.get("votes") != votes.digest():
        raise InputError(
            f"{plan.folder}: expected a folder for the votes of these teachers, found a session on other votes, whose labels stay "
            "charged: set another pate.output"
        )


def write_votes(plan: VotingPlan, votes: VoteCounts, queries: Array) -> None:
    """Write the votes, and then their origin. Votes without an origin are ignored."""
    content = io.BytesIO()
    np.save(content, votes.counts)
    origin = {"teaching": plan.votes_fingerprint(), "queries": queries_digest(queries)}
    replace_file(os.path.join(plan.folder, VOTES), content.getvalue(), 0o600)
    replace_file(os.path.join(plan.folder, ORIGIN), json.dumps(origin).encode())
