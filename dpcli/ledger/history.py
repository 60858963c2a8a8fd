"""Histories: what was spent before there was a ledger, in csv or json lines, charged all or none.

One line is one run: when it was made (`date`) and its `key`; a pipeline `file`, or the guarantee that somebody stated for one unit
(`epsilon` with or without `delta`, or `rho`, and the `unit` and `adjacency` that it was stated for); by `who`, and a `note`; a `window`
where the dataset has blocks (BLOCKS;BLOCKS). delta beside a file or a rho is where the run is described. It is charged with the other
runs as what it is, a spend, and says of itself when it was made.

What was spent is spent: a ledger that holds less than the history would claim a cap that the data no longer have. So a history that does
not fit is refused as a whole, with the cap that would hold it; `amend` sets that, with an approver, and then the ledger takes nothing more.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import CannotCertify, Denied, InputError, NotRepresentable
from dpcli.base.rounding import down, up
from dpcli.file.toml.limits import escaped_path, read_head
from dpcli.file.toml.shown import escaped
from dpcli.file.toml.suggest import did_you_mean
from dpcli.ledger import amounts
from dpcli.ledger.amounts import cost_on_blocks
from dpcli.ledger.chain import is_stamp
from dpcli.ledger.filters.filter import label
from dpcli.ledger.grammar import WORDS, is_a, seen
from dpcli.ledger.ledger import Ledger, Receipt
from dpcli.ledger.requests import Charge, checked_key
from dpcli.ledger.state import LedgerState

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline

MOST_BYTES, MOST_RUNS = 16 * 1024 * 1024, 1_000  # of one history: all of it is one transaction, in which nobody else writes
SHOWN = 20  # mistakes that are told at once
COLUMNS = ("date", "key", "file", "epsilon", "delta", "rho", "unit", "adjacency", "who", "note", "window")
Line = tuple[int, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run of the past: `place` is that of its line, `made` the time of the run."""

    place: str
    key: str
    made: str
    maker: str
    note: str
    pipeline: Pipeline
    delta: float | None
    window: tuple[str, ...]


class Wrong(Exception):
    """A mistake in a column of a line."""

    def __init__(self, column: str, text: str) -> None:
        super().__init__(f"{column}: {text}")


def read_history(path: str, now: str) -> tuple[PastRun, ...]:
    """Return the runs in a file. Raise InputError with every mistake and its line, at most 20."""
    shown = escaped_path(path)
    data = read_head(path, MOST_BYTES, "a history in csv or json lines")
    if len(data) > MOST_BYTES:
        raise InputError(f"{shown}: expected at most {MOST_BYTES:,} bytes, found more: import it in parts")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{shown}: not UTF-8 (byte {error.start})") from None
    lines = list(_json_lines(text, shown) if path.lower().endswith((".jsonl", ".ndjson")) else _csv_lines(text, shown))
    if not 1 <= len(lines) <= MOST_RUNS:
        raise InputError(
            f"{shown}: expected 1 to {MOST_RUNS:,} runs, found {len(lines):,}{': import it in parts' if lines else ''}"
        )
    runs = _each(lines, shown, lambda line: _run(line, shown, os.path.dirname(path), now))
    _refuse_twice(runs)
    return runs


def _refuse_twice(runs: Sequence[PastRun]) -> None:
    """Raise InputError for two lines with one key, which would be charged as one run."""
    first: dict[str, str] = {}
    for run in runs:
        before = first.setdefault(run.key, run.place)
        if before != run.place:
            raise InputError(
                f"{run.place}: key: expected another key for each run, found that of line {before.rpartition(':')[2]}: "
                f"{run.key[:60]!r}"
            )


def charge_history(ledger: Ledger, runs: Sequence[PastRun]) -> tuple[Receipt, ...]:
    """Charge all of them or none; those that are charged already, under the same key and in the same words, are passed.

    Raise InputError where a line has no place in this ledger, LedgerError where a key is another run's, and Denied with the cap that would
    hold the history where the ledger's does not: then nothing was written.
    """
    place = runs[0].place.rpartition(":")[0]
    requests = _each([(number, run) for number, run in enumerate(runs)], place, lambda item: _charge(ledger, item[1]))
    try:
        return ledger.append_all([(request, request.key) for request in requests])
    except Denied:
        raise Denied(_denial(ledger.state(), requests)) from None


def _charge(ledger: Ledger, run: PastRun) -> Charge:
    from dpcli.file.pipeline.canonical import tables_of

    try:
        cost, at = ledger.cost(run.pipeline, run.delta)
        window = ledger.stated_window(run.pipeline, run.window)
    except (InputError, CannotCertify, NotRepresentable) as error:
        raise type(error)(str(error) if str(error).startswith(run.place) else f"{run.place}: {error}") from None
    tables = tables_of(run.pipeline)
    return Charge("spend", run.key, tables, at, cost, ledger.who, run.note, None, window, run.made, run.maker)


def _denial(state: LedgerState, requests: Sequence[Charge]) -> str:
    """Return by how much it does not fit, and which cap would hold it."""
    new = [request for request in requests if request.key not in state.runs]
    closed = next((block for request in new if (block := state.closed(request.window)) is not None), None)
    if closed is not None:
        return f"denied, and nothing was written: block {closed} was retired, and takes no run; charge such a history before it is retired"
    after, people = copy(state), dict(state.people or {})
    for request in new:
        total = cost_on_blocks(amounts.read(request.cost.amounts), request.window)
        after.spent = amounts.add(after.spent, total)
        people[request.who] = amounts.add(people.get(request.who, {}), total)
    after.people = people
    full = after.fullest()
    over = amounts.exceeded(full.spent, full.caps)
    quota = next((quota for request in new if (quota := after.over_quota(request.who, request.window, {})) is not None), None)
    if over is None and quota is not None:
        return (
            f"denied, and nothing was written: whoever imports a history is charged for it, and {quota.words}, {quota.share} of the cap, "
            f"does not hold this one (entry {quota.seq})\n  who may amend the cap may change the quota, or import the history"
        )
    name = over or next(iter(full.caps))
    excess = f"with the history {up(full.spent[name])} of {label(name)} is spent, and the cap is {down(full.caps[name])}"
    return f"denied, and nothing was written: {excess}\n  {_advice(after)}"


def _advice(after: LedgerState) -> str:
    if after.open_terms().mode == "declared":
        return "a set of declared runs is fixed for good: open a ledger in adaptive mode for what was spent before"
    epsilon = _holding(after)
    if epsilon is None:
        return "no epsilon holds it, as delta is what does not fit, and is fixed for good: open the ledger with a larger delta"
    second = "and another person's dpcli budget approve" if after.open_terms().two_person else "and --approver"
    return (
        f"what was spent is spent: a cap of epsilon {epsilon!r} holds it, and takes next to nothing more. Where that was "
        f"allowed, dpcli budget amend --epsilon sets it, with --reason {second}; then import the history again"
    )


def _holding(after: LedgerState) -> float | None:
    """Return the smallest cap on epsilon, to four digits, that holds what is spent; None where none up to 10^6 does."""

    def holds(epsilon: float) -> bool:
        trial = copy(after)
        try:
            trial.caps = dict(amounts.read(after.open_terms().caps(epsilon)))
        except (InputError, ArithmeticError):
            return False
        return trial.fullest().fits({})

    low, high = after.epsilon, next((after.epsilon * 2.0**i for i in range(1, 41) if holds(after.epsilon * 2.0**i)), math.inf)
    if not high <= 1e6:
        return None
    while high > low * 1.000001:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    step = 10.0 ** (math.floor(math.log10(high)) - 3)
    return next(rounded for i in range(1, 9) if holds(rounded := float(f"{(math.ceil(high / step) + i - 1) * step:.4g}")))


def _each(items: Sequence[Any], place: str, made: Callable[[Any], Any]) -> tuple[Any, ...]:
    """Return what each becomes. Raise one InputError with all that is wrong; another error as it is, where it is the first."""
    results, wrong = [], []
    for item in items:
        try:
            results.append(made(item))
        except InputError as error:
            wrong.append(str(error))
        except (CannotCertify, NotRepresentable):
            if not wrong:
                raise
            break
        if len(wrong) > SHOWN:
            wrong[SHOWN:] = [f"{place}: and more"]
            break
    if wrong:
        raise InputError("\n".join(wrong))
    return tuple(results)


def _csv_lines(text: str, shown: str) -> Iterator[Line]:
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
                hint = "quote what holds a comma" if len(cells) > len(names) else "leave a cell without a value empty"
                raise InputError(f"{shown}:{reader.line_num}: the row has {len(cells)} cells, the header {len(names)}: {hint}")
            yield reader.line_num, {name: cell for name, cell in zip(names, cells, strict=False) if cell}
    except csv.Error as error:
        raise InputError(f"{shown}:{reader.line_num}: not csv ({error})") from None


def _header(cells: list[str], place: str) -> list[str]:
    _refuse_unknown(cells, place)
    twice = next((cell for cell in cells if cells.count(cell) > 1), None)
    missing = next((name for name in ("date", "key") if name not in cells), None)
    if twice is not None:
        raise InputError(f"{place}: expected each column once, found {twice} twice")
    if missing is not None:
        raise InputError(f"{place}: expected a line of names with {missing} among them, found {', '.join(cells)[:60]}")
    return cells


def _refuse_unknown(names: Sequence[str], place: str) -> None:
    for name in names:
        if name not in COLUMNS:
            hint = did_you_mean(name, COLUMNS)
            raise InputError(
                f"{place}: expected the columns {', '.join(COLUMNS)}, found {escaped(name[:40])!r}{hint and f' ({hint})'}"
            )


def _json_lines(text: str, shown: str) -> Iterator[Line]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        place = f"{shown}:{number}"
        try:
            row = json.loads(line, parse_float=str, parse_int=str, object_pairs_hook=_once)
        except Twice as twice:
            raise InputError(f"{place}: expected each name once, found {escaped(str(twice)[:40])!r} twice") from None
        except (ValueError, RecursionError):
            row = None
        if type(row) is not dict:
            raise InputError(f"{place}: not a JSON object: {escaped(line[:40])!r}")
        _refuse_unknown(list(row), place)
        other = next((name for name, value in row.items() if value is not None and type(value) is not str), None)
        if other is not None:
            raise InputError(f"{place}: {other}: expected text or a number, found {escaped(str(row[other])[:40])}")
        yield number, {name: value.strip() for name, value in row.items() if value and value.strip()}


class Twice(ValueError):
    """A name that a JSON object has twice."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object. Raise Twice for two values under one name, of which the first would be lost."""
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Twice(twice)
    return dict(pairs)


def _run(line: Line, shown: str, folder: str, now: str) -> PastRun:
    number, cells = line
    place = f"{shown}:{number}"
    try:
        return _past(cells, place, folder, now)
    except Wrong as wrong:
        raise InputError(f"{place}: {wrong}") from None


def _past(cells: Mapping[str, str], place: str, folder: str, now: str) -> PastRun:
    key, maker = cells.get("key", ""), cells.get("who", "")
    try:
        checked_key(key)
    except InputError:
        raise Wrong("key", f"expected a name of at most 200 printable characters for this run, found {key[:60]!r}") from None
    if maker and not is_a("name", maker):
        raise Wrong("who", f"expected {WORDS['name']}, found {maker[:60]!a}")
    window = tuple(part.strip() for part in cells.get("window", "").split(";") if part.strip())
    made, delta = _made(cells.get("date", ""), now), _number(cells, "delta")
    pipeline = _loaded(cells, folder) if "file" in cells else _stated(cells, place, delta)
    return PastRun(place, key, made, maker, seen(cells.get("note", "")), pipeline, delta, window)


def _made(text: str, now: str) -> str:
    stamp = f"{text}T00:00:00Z" if len(text) == len("2024-01-31") else text
    if not is_stamp(stamp) or not is_a("stamp", stamp):
        raise Wrong("date", f"expected a day as 2024-01-31, or a time as 2024-01-31T12:00:00Z, found {text[:40]!r}")
    if stamp > now:
        raise Wrong("date", f"expected a day that is over, found {text}")
    return stamp


def _loaded(cells: Mapping[str, str], folder: str) -> Pipeline:
    from dpcli.file.pipeline.read import load

    other = next((name for name in ("epsilon", "rho", "unit", "adjacency") if name in cells), None)
    if other is not None:
        raise Wrong(other, "leave it empty where there is a file, which says it itself")
    try:
        return load(os.path.join(folder, cells["file"]))
    except InputError as error:
        raise Wrong("file", str(error)) from None


def _stated(cells: Mapping[str, str], place: str, delta: float | None) -> Pipeline:
    """Return a run of which a guarantee for one unit is all that is known."""
    from dataclasses import replace

    from dpcli.file.pipeline.canonical import pipeline_from

    epsilon, rho = _number(cells, "epsilon"), _number(cells, "rho")
    if (epsilon is None) == (rho is None):
        raise Wrong(
            "file",
            "expected a file, or an epsilon (with or without a delta), or a rho, found " + ("none" if rho is None else "two"),
        )
    for name in ("unit", "adjacency"):
        if name not in cells:
            raise Wrong(name, "state the one that the guarantee was stated for: under another one it is another number")
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
        raise Wrong("guarantee", str(error).partition(", found ")[2] or str(error)) from None
    return replace(pipeline, path=place)


def _number(cells: Mapping[str, str], name: str) -> float | None:
    text = cells.get(name)
    if text is None:
        return None
    try:
        value = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if 0.0 < value < math.inf and Decimal(text) > Decimal(repr(value)):
        value = math.nextafter(value, math.inf)  # never less than what was written; a double is charged as it is spelled
    vanished = value == 0.0 and any(digit in "123456789" for digit in text.lower().partition("e")[0])
    if not 0.0 <= value < math.inf or vanished:
        raise Wrong(name, f"expected a number >= 0 that a double holds, found {text[:40]!r}")
    return abs(value)  # -0.0 is 0, and no ledger takes it as it is
