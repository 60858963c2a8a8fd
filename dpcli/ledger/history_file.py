"""The reader of a history, that is, a CSV or JSON lines file with runs that were made before the ledger was opened.

`dpcli budget import` reads such a file, and history.py charges its runs. Each line is a run. A stated epsilon, delta or rho is rounded up
to a double. A run has the following columns:

* `date`: the day or time at which the run was made;
* `key`: the name of the run;
* `file`: the path of a pipeline file. Without a file, the line states a guarantee for one unit: `epsilon` with or without `delta`, or
  `rho`, together with its `unit` and `adjacency`;
* `delta` of a line with a file or a rho: the delta at which the run is described;
* `who` and `note`: the person who made the run, and a remark. Both are optional;
* `window`: the blocks that the run read (BLOCKS;BLOCKS), if the dataset has blocks.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from dpcli.base.errors import CannotCertify, InputError, NotRepresentable
from dpcli.file.toml.limits import escaped_path, read_head
from dpcli.file.toml.shown import escaped
from dpcli.file.toml.suggest import did_you_mean
from dpcli.ledger.grammar import LONGEST_NAME, WORDS, is_a, visible_text
from dpcli.ledger.requests import checked_key

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline

# Limits of one history. They affect speed alone: it is charged in one transaction, during which nobody else can write.
MOST_BYTES, MOST_RUNS = 16 * 1024 * 1024, 1_000
MOST_MISTAKES = 20  # largest number of mistakes in one message
COLUMNS = ("date", "key", "file", "epsilon", "delta", "rho", "unit", "adjacency", "who", "note", "window")


class HistoryLine(NamedTuple):
    """A line of a history: its number in the file, and its cells by column."""

    number: int
    cells: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run of a history.

    Attributes:
        place: The file and line of the run, for messages.
        made, maker: When and by whom the run was made. `maker` is "" if the line does not state it.
        note: A remark; "" if there is none.
        pipeline: The pipeline in the file that the line names, or one mechanism with the guarantee that the line states.
        delta: The delta at which the run is described; None if the line does not state it.
        window: The blocks that the run read, as names or ranges; empty if the line states none.
    """

    place: str
    key: str
    made: str
    maker: str
    note: str
    pipeline: Pipeline
    delta: float | None
    window: tuple[str, ...]


class WrongCell(Exception):
    """Raised if a cell of a line is invalid."""

    def __init__(self, column: str, text: str) -> None:
        super().__init__(f"{column}: {text}")


def read_history(path: str, now: str) -> tuple[PastRun, ...]:
    """Return the runs in a file. Raises InputError with all mistakes and their lines, but at most `MOST_MISTAKES`.

    A run that was made later than `now`, the current time, is a mistake.
    """
    shown = escaped_path(path)
    data = read_head(path, MOST_BYTES, "a history in csv or json lines")  # at most one byte more than MOST_BYTES
    if len(data) > MOST_BYTES:
        raise InputError(f"{shown}: expected at most {MOST_BYTES:,} bytes, found more: import it in parts")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{shown}: not UTF-8 (byte {error.start})") from None
    read_lines = _json_lines if path.lower().endswith((".jsonl", ".ndjson")) else _csv_lines
    lines = list(read_lines(text, shown))
    if not 1 <= len(lines) <= MOST_RUNS:
        hint = ": import it in parts" if lines else ""
        raise InputError(f"{shown}: expected 1 to {MOST_RUNS:,} runs, found {len(lines):,}{hint}")
    return each_or_all_mistakes(lines, shown, lambda line: _run(line, shown, os.path.dirname(path), now))


def refuse_repeated_keys(runs: Sequence[PastRun]) -> None:
    """Check that the keys of the runs differ, because two runs with one key would be charged once. Raises InputError if not."""
    place_of_key: dict[str, str] = {}
    for run in runs:
        place = place_of_key.setdefault(run.key, run.place)
        if place != run.place:
            _, _, line = place.rpartition(":")
            raise InputError(
                f"{run.place}: key: expected a different key for each run, found the key of line {line}: {run.key[:60]!r}"
            )


def each_or_all_mistakes(items: Sequence[Any], place: str, function: Callable[[Any], Any]) -> tuple[Any, ...]:
    """Return the result of `function` for each item.

    Raises:
        InputError: `function` raised InputError for some items. The message contains these mistakes, but at most `MOST_MISTAKES`.
        CannotCertify, NotRepresentable: `function` raised this error for an item before any InputError.
    """
    results, mistakes = [], []
    for item in items:
        try:
            results.append(function(item))
        except InputError as error:
            mistakes.append(str(error))
        except (CannotCertify, NotRepresentable):
            if not mistakes:
                raise
            break  # the mistakes are reported first, as they come before in the file
        if len(mistakes) > MOST_MISTAKES:
            mistakes[MOST_MISTAKES:] = [f"{place}: and more"]
            break
    if mistakes:
        raise InputError("\n".join(mistakes))
    return tuple(results)


def _csv_lines(text: str, shown: str) -> Iterator[HistoryLine]:
    """Yield the lines of a CSV file. Empty cells are left out. Raises InputError if a row does not fit the header."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    names: list[str] = []
    try:
        for cells in reader:
            cells = [cell.strip() for cell in cells]
            if not any(cells):
                continue
            if not names:
                names = _header(cells, f"{shown}:{reader.line_num}")
                continue
            if len(cells) != len(names):
                hint = "quote a cell that contains a comma" if len(cells) > len(names) else "leave a cell without a value empty"
                raise InputError(f"{shown}:{reader.line_num}: the row has {len(cells)} cells, the header {len(names)}: {hint}")
            yield HistoryLine(reader.line_num, {name: cell for name, cell in zip(names, cells, strict=False) if cell})
    except csv.Error as error:
        raise InputError(f"{shown}:{reader.line_num}: not csv ({error})") from None


def _header(cells: list[str], place: str) -> list[str]:
    """Return the names of the columns. Raises InputError if one is unknown or repeated, or a required one is missing."""
    _refuse_unknown(cells, place)
    twice = next((cell for cell in cells if cells.count(cell) > 1), None)
    missing = next((name for name in ("date", "key") if name not in cells), None)
    if twice is not None:
        raise InputError(f"{place}: expected each column once, found {twice} twice")
    if missing is not None:
        raise InputError(f"{place}: expected a header with the column {missing}, found {', '.join(cells)[:60]}")
    return cells


def _refuse_unknown(names: Sequence[str], place: str) -> None:
    """Check that the names are columns of a history. Raises InputError if not."""
    for name in names:
        if name not in COLUMNS:
            hint = did_you_mean(name, COLUMNS)
            raise InputError(
                f"{place}: expected the columns {', '.join(COLUMNS)}, found {escaped(name[:40])!r}{hint and f' ({hint})'}"
            )


def _json_lines(text: str, shown: str) -> Iterator[HistoryLine]:
    """Yield the lines of a JSON lines file. Empty values are left out. Raises InputError if a line is not a table of texts and numbers."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        place = f"{shown}:{number}"
        try:
            row = json.loads(line, parse_float=str, parse_int=str, object_pairs_hook=_without_repeated_names)
        except RepeatedName as twice:
            raise InputError(f"{place}: expected each name once, found {escaped(str(twice)[:40])!r} twice") from None
        except (ValueError, RecursionError):
            row = None
        if type(row) is not dict:
            raise InputError(f"{place}: not a JSON object: {escaped(line[:40])!r}")
        _refuse_unknown(list(row), place)
        # Numbers were read as texts, so that none is rounded. Other values than texts are lists, tables, booleans and NaN.
        wrong = next((name for name, value in row.items() if value is not None and type(value) is not str), None)
        if wrong is not None:
            raise InputError(f"{place}: {wrong}: expected text or a number, found {escaped(str(row[wrong])[:40])}")
        yield HistoryLine(number, {name: value.strip() for name, value in row.items() if value and value.strip()})


class RepeatedName(ValueError):
    """Raised if a name occurs twice in a JSON object."""


def _without_repeated_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object. Raises RepeatedName if a name occurs twice, because the first value would be lost."""
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise RepeatedName(twice)
    return dict(pairs)


def _run(line: HistoryLine, shown: str, folder: str, now: str) -> PastRun:
    """Return the run of a line. Raises InputError, with the place of the line, if a cell is invalid."""
    place = f"{shown}:{line.number}"
    try:
        return _past_run(line.cells, place, folder, now)
    except WrongCell as wrong:
        raise InputError(f"{place}: {wrong}") from None


def _past_run(cells: Mapping[str, str], place: str, folder: str, now: str) -> PastRun:
    """Return the run of a line. Raises WrongCell if a cell is invalid."""
    key, maker = cells.get("key", ""), cells.get("who", "")
    try:
        checked_key(key)
    except InputError:
        expected = f"expected a name of at most {LONGEST_NAME} printable characters for this run"
        raise WrongCell("key", f"{expected}, found {key[:60]!r}") from None
    if maker and not is_a("name", maker):
        raise WrongCell("who", f"expected {WORDS['name']}, found {maker[:60]!a}")
    window = tuple(part.strip() for part in cells.get("window", "").split(";") if part.strip())
    made, delta = _time_made(cells.get("date", ""), now), _number(cells, "delta")
    pipeline = _pipeline_in_file(cells, folder) if "file" in cells else _stated_guarantee(cells, place, delta)
    return PastRun(place, key, made, maker, visible_text(cells.get("note", "")), pipeline, delta, window)


def _time_made(text: str, now: str) -> str:
    """Return the time of a run as entries state it. A day means its first second. Raises WrongCell if it is in the future."""
    stamp = f"{text}T00:00:00Z" if len(text) == len("2024-01-31") else text
    if not is_a("stamp", stamp):
        raise WrongCell("date", f"expected a day as 2024-01-31, or a time as 2024-01-31T12:00:00Z, found {text[:40]!r}")
    if stamp > now:
        raise WrongCell("date", f"expected a time in the past, found {text}")
    return stamp


def _pipeline_in_file(cells: Mapping[str, str], folder: str) -> Pipeline:
    """Return the pipeline in the file that a line names. Raises WrongCell if the file is invalid, or the line states a guarantee too."""
    from dpcli.file.pipeline.read import load

    superfluous = next((name for name in ("epsilon", "rho", "unit", "adjacency") if name in cells), None)
    if superfluous is not None:
        raise WrongCell(superfluous, "leave it empty if the line names a file, which states it itself")
    try:
        return load(os.path.join(folder, cells["file"]))
    except InputError as error:
        raise WrongCell("file", str(error)) from None


def _stated_guarantee(cells: Mapping[str, str], place: str, delta: float | None) -> Pipeline:
    """Return a pipeline that states only a guarantee for one unit, for a run whose mechanisms are unknown.

    Raises WrongCell if the line does not state exactly one of epsilon and rho, or not its unit or adjacency, or if a value is invalid.
    """
    from dpcli.file.pipeline.canonical import pipeline_from

    epsilon, rho = _number(cells, "epsilon"), _number(cells, "rho")
    if (epsilon is None) == (rho is None):
        raise WrongCell(
            "file",
            "expected a file, or an epsilon (with or without a delta), or a rho, found " + ("none" if rho is None else "two"),
        )
    for name in ("unit", "adjacency"):
        if name not in cells:
            raise WrongCell(name, f"state the {name} of the guarantee, as its numbers hold only for this {name}")
    if rho is not None:
        stated: dict[str, Any] = {"type": "zcdp", "rho": rho}
    elif delta:
        stated = {"type": "approx-dp", "epsilon": epsilon, "delta": delta}
    else:
        stated = {"type": "pure-dp", "epsilon": epsilon}
    privacy = {"unit": cells["unit"], "adjacency": cells["adjacency"]}
    try:
        pipeline = pipeline_from({"privacy": privacy, "mechanism": [{"name": "stated", "stated_for": "unit", **stated}]})
    except InputError as error:
        # The message is about the keys of a made-up file. Only what was found helps the reader of the line.
        raise WrongCell("guarantee", str(error).partition(", found ")[2] or str(error)) from None
    return replace(pipeline, path=place)


def _number(cells: Mapping[str, str], name: str) -> float | None:
    """Return the number in a cell, rounded up to a double; None for an empty cell. Raises WrongCell if it is negative or not finite."""
    text = cells.get(name)
    if text is None:
        return None
    try:
        value = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if 0.0 < value < math.inf and Decimal(text) > Decimal(repr(value)):
        value = math.nextafter(value, math.inf)  # rounded up, so that the charge is not below the stated number
    mantissa, _, _ = text.lower().partition("e")
    underflowed = value == 0.0 and any(digit in "123456789" for digit in mantissa)
    if not 0.0 <= value < math.inf or underflowed:
        raise WrongCell(name, f"expected a number >= 0 in the range of a double, found {text[:40]!r}")
    return abs(value)  # -0.0 becomes 0.0, because a ledger accepts no negative zero
