"""Votes in files: the user's, of numbers that are not trusted to be votes, and those that fitted teachers leave in a session's folder."""

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
from dpcli.predict.vote_counts import MOST, VoteCounts, counts_of_labels, vote_counts
from dpcli.sessions.charged import session_there
from dpcli.sessions.folder import replace_file
from dpcli.train.tasks.user_code import relative_to_file

if TYPE_CHECKING:
    from dpcli.predict.pate.pate_plan import VotingPlan

LARGEST_FILES = {".npy": 10**9, ".csv": 2 * 10**8, ".parquet": 10**9}  # bytes


def votes_of(pate: Pate, path: str) -> VoteCounts:
    """Return the votes in the file that [pate] of the file at `path` names. Raises InputError if there are none."""
    assert pate.votes is not None
    place = relative_to_file(pate.votes, path)
    judge = vote_counts if pate.vote_rows == "counts" else counts_of_labels
    return judge(table_of(place), pate.teachers, pate.labels, escaped_path(place))


def table_of(place: str) -> Any:
    """Return the numbers in a file. Raises InputError, whose message quotes none of them."""
    shown, most = escaped_path(place), LARGEST_FILES[ending(place)]
    try:
        info = os.stat(place)
    except (OSError, ValueError) as problem:
        reason = (getattr(problem, "strerror", None) or "a path that cannot exist").lower()
        raise InputError(f"{shown}: expected a file of votes, found {reason}") from None
    if not stat.S_ISREG(info.st_mode):
        raise InputError(f"{shown}: expected a file of votes, found what is no regular file")
    if not 0 < info.st_size <= most:
        raise InputError(f"{shown}: expected a file of votes of at most {most:,} bytes, found {info.st_size:,}")
    return READERS[ending(place)](place, shown)


def _require_few(numbers: int, shown: str) -> None:
    if numbers > MOST:
        raise InputError(f"{shown}: expected at most {MOST:,} numbers, found {numbers:,}")


def _npy(place: str, shown: str) -> Any:
    try:
        # Mapped: a header that claims more than the file holds is refused before memory is taken.
        table = np.lib.format.open_memmap(place, mode="r")
    except Exception:  # whatever numpy raises for a file that is none, or that holds objects
        raise InputError(f"{shown}: expected a .npy file of plain numbers, found one that cannot be read so") from None
    _require_few(table.size, shown)
    return np.array(table)


def _csv(place: str, shown: str) -> Any:
    """Read rows, with or without names in the first line; a line without a row would move all later ones to other queries."""
    try:
        with open(place, encoding="utf-8-sig") as file, warnings.catch_warnings():
            warnings.simplefilter("error")
            names = not any(map(_is_number, file.readline().split(",")))
            rows = sum(1 for _ in file) + (not names)
            file.seek(0)
            table = np.loadtxt(file, delimiter=",", skiprows=int(names), ndmin=2, comments=None)
        if len(table) != rows:
            raise ValueError
        return table
    except OSError as problem:
        raise InputError(f"{shown}: cannot be read: {problem.strerror}") from None
    except Exception:  # of numpy, whose message quotes a value; of another encoding; of a file without rows
        raise InputError(f"{shown}: expected rows of numbers with commas between them, all of one length") from None


def _is_number(part: str) -> bool:
    """Return whether a text is a number, or empty: no name of a column is."""
    try:
        return not part.strip() or float(part) is not None
    except ValueError:
        return False


def _parquet(place: str, shown: str) -> Any:
    """Read columns of integers or floating point: what only can be turned into numbers (text, truth values) was no count."""
    try:
        import pyarrow.parquet
        import pyarrow.types
    except ImportError:
        raise Unavailable(f"{shown}: pyarrow reads .parquet files and is not installed: pip install pyarrow") from None
    try:
        file = pyarrow.parquet.ParquetFile(place)
        types, shape = list(file.schema_arrow.types), (file.metadata.num_rows, file.metadata.num_columns)
        if not all(pyarrow.types.is_integer(one) or pyarrow.types.is_floating(one) for one in types):
            raise InputError(f"{shown}: expected columns of numbers, found {', '.join(sorted({str(one) for one in types}))}")
        _require_few(shape[0] * shape[1], shown)  # by its own word, before memory is taken
        columns = [np.asarray(column.to_numpy(), dtype=float) for column in file.read().columns]
    except InputError:
        raise
    except Exception:  # whatever pyarrow raises for a file that is none
        raise InputError(f"{shown}: expected a .parquet file, found one that cannot be read as such") from None
    return np.stack(columns, axis=1) if columns else np.empty(shape)


READERS: dict[str, Callable[[str, str], Any]] = {".npy": _npy, ".csv": _csv, ".parquet": _parquet}
VOTES, MADE = "votes.npy", "votes.json"


def read_votes(plan: VotingPlan) -> VoteCounts | None:
    """Return the votes of the file that [pate] names, or those that teachers have left; None where these are still to be fitted.

    Raises:
        InputError: If they are no votes, or those of other teachers.
    """
    if plan.pate.votes is not None:
        return votes_of(plan.pate, plan.path)
    place = os.path.join(plan.folder, VOTES)
    try:
        with open(os.path.join(plan.folder, MADE), encoding="utf-8") as file:
            made = json.load(file)
        teaching, queries = made["teaching"], made["queries"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{plan.folder}: expected votes that dpcli pate fit has left; {MADE} is damaged") from None
    if teaching != plan.teaching():
        raise InputError(f"{plan.folder}: its votes are those of other teachers than this file's: fit these anew")
    if queries != queries_digest(query_inputs(plan.pate, plan.path)):
        raise InputError(
            f"{plan.path}: pate.queries: expected the inputs that the teachers were asked about, in their order, found changed content: "
            "put them back, or fit these anew"
        )
    return vote_counts(table_of(place), plan.pate.teachers, plan.pate.labels, place)


def refuse_other_votes(plan: VotingPlan, votes: VoteCounts | None) -> None:
    """Raise InputError if the folder holds a session that was not begun with these votes; None: with some that are to be fitted.

    Its labels could be priced no more, nor could it go on, once its votes had been written over.
    """
    session = session_there(plan.folder)
    if session is None and not os.path.exists(os.path.join(plan.folder, TRANSCRIPT)):
        return
    if session is None or votes is None or session.inputs.get("votes") != votes.digest():
        raise InputError(
            f"{plan.folder}: expected a folder for the votes of these teachers, found one that holds a session on other votes, whose "
            "labels stay charged: name another pate.output"
        )


def write_votes(plan: VotingPlan, votes: VoteCounts, queries: Array) -> None:
    """Write the votes, and whose they are, which comes last: votes without it are none."""
    content = io.BytesIO()
    np.save(content, votes.counts)
    made = {"teaching": plan.teaching(), "queries": queries_digest(queries)}
    replace_file(os.path.join(plan.folder, VOTES), content.getvalue(), 0o600)
    replace_file(os.path.join(plan.folder, MADE), json.dumps(made).encode())
