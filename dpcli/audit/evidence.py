"""The evidence of an attack, as a file holds it: scores of canaries or runs, guesses about canaries, or counts of one test.

audit_run.py reads it with `read_evidence`. A *canary* is a record or gradient that a fair coin put into a run or left out; the attack gives
it a score, or guesses the coin. A finished run leaves `audit.json` in its folder. The audit reads no other file of the run:

    {"schema": "dpcli/canaries/v1", "neighbours": "add-remove",
     "canaries": [{"member": true, "score": 3.1}, {"member": false, "score": -0.4}, ...]}

with "gradients": [{"steps": 20, "rate": 0.1, "noise": 1.0}, ...], "checks" and "confidence" if the canaries were gradients. `rate` is the
probability that a step samples a canary, and `noise` a noise multiplier. A check is a property of the program that dpcli tested on the way.

`member` states whether the coin put the canary into the run. A higher `score` means that the canary is more likely a member; instead of
scores, rows may have a `guess`, which is empty where the attack makes none. A file without the schema contains only the list of canaries
(json or csv), or counts. Counts have the keys {"canaries", "guesses", "correct"} or {"members", "others", "true_positives",
"false_positives"}. Messages begin with `path`, the path of the file.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpcli.audit.audit_result import ReplayCheck
from dpcli.audit.bounds import Counts, require_consistent_guesses
from dpcli.audit.gradient_scores import ObservedRun, SampledSteps
from dpcli.audit.scores import Guessed, Scores
from dpcli.base.errors import InputError
from dpcli.file.toml.limits import escaped_path
from dpcli.file.toml.shown import first_names
from dpcli.numerics.arrays import np

RUN_FILE = "audit.json"
SCHEMA = "dpcli/canaries/v1"
MAX_BYTES = 256 * 1024 * 1024  # largest file of scores, which is held in memory
MOST_STEPS = 10**7  # largest number of steps of gradient canaries, because each step is simulated
LARGEST_COUNT = 10**9  # largest count; no attack makes more guesses or runs
SHOWN_CHARACTERS = 60  # most characters of a wrong value that a message quotes
BOOLEANS = {"1": True, "0": False, "true": True, "false": False, "in": True, "out": False}


@dataclass(frozen=True, slots=True)
class Evidence:
    """The outcome of an attack: scores, guesses about canaries, or the counts of one test. Two of the three are None.

    Attributes:
        path: Path of the file, for messages.
        neighbours: How the two datasets differ, if the file states it.
        observed: Steps and checks of a run whose canaries were gradients; None for other canaries.
    """

    path: str
    scores: Scores | None = None
    guessed: Guessed | None = None
    counts: Counts | None = None
    neighbours: str | None = None
    observed: ObservedRun | None = None


def read_evidence(path: str) -> Evidence:
    """Return the scores, guesses or counts in a file, or in the file RUN_FILE of a folder.

    Raises InputError if the file cannot be read or contains something else. For a malformed row, the message gives its number.
    """
    name = os.path.join(path, RUN_FILE) if os.path.isdir(path) else path
    shown, text = escaped_path(name), _read_text(name)
    if name.lower().endswith(".csv"):
        return _evidence_in_rows(shown, _csv_rows(shown, text))
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"{shown}: this is not json, and its name does not end in .csv") from None
    return _evidence_in_json(shown, document)


def _read_text(name: str) -> str:
    """Return the text of a regular file. Raises InputError if the file cannot be read or is too large."""
    try:
        if not stat.S_ISREG(os.stat(name).st_mode):
            raise InputError(f"{escaped_path(name)}: this is not a regular file")
        with open(name, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{escaped_path(name)}: {(error.strerror or 'an unreadable file').lower()}") from None
    if len(data) > MAX_BYTES:
        raise InputError(f"{escaped_path(name)}: expected at most {MAX_BYTES:,} bytes of scores")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{escaped_path(name)}: this is not UTF-8 text") from None


def _csv_rows(path: str, text: str) -> list[dict[str, str]]:
    """Return the rows of a csv by their columns. Raises InputError for invalid csv, a repeated column, and a row longer than the header."""
    reader = csv.DictReader(io.StringIO(text, newline=None))
    try:
        rows = list(reader)
    except csv.Error as error:
        raise InputError(f"{path}: after line {reader.line_num}: not valid csv: {error}") from None
    columns = [name.strip().lower() for name in reader.fieldnames or ()]
    repeated = [name for name in dict.fromkeys(columns) if columns.count(name) > 1]
    if repeated:
        raise InputError(f"{path}: expected each column once, found {first_names(repeated)} more than once")
    for number, row in enumerate(rows, 1):
        if reader.restkey in row:
            width = len(columns) + len(row[reader.restkey])
            raise InputError(f"{path}: row {number} has {width} columns; the header has {len(columns)}")
    return rows


def _evidence_in_json(path: str, document: Any) -> Evidence:
    """Return the evidence in a JSON document, which is a list of rows, a table with canaries, or a table of counts."""
    if type(document) is list:
        return _evidence_in_rows(path, document)
    if type(document) is not dict:
        raise InputError(f"{path}: expected a table or a list, found {type(document).__name__}")
    if document.get("schema", SCHEMA) != SCHEMA:
        raise InputError(f"{path}: expected schema {SCHEMA!r}, found {document['schema']!r}")
    if type(document.get("canaries")) is list:
        evidence = _evidence_in_rows(path, document["canaries"])
        return replace(evidence, neighbours=document.get("neighbours"), observed=_observed_run(path, document))
    for keys, counted_evidence in EVIDENCE_OF_COUNTS.items():
        if set(keys) <= set(document):
            return counted_evidence(path, [_count(path, key, document[key]) for key in keys])
    expected = " or ".join("{" + ", ".join(keys) + "}" for keys in EVIDENCE_OF_COUNTS)
    raise InputError(f"{path}: expected canaries, or counts {expected}, found {first_names(sorted(document), 'nothing')}")


def _observed_run(path: str, document: Mapping[str, Any]) -> ObservedRun | None:
    """Return the steps and the checks of a run with gradient canaries; None if the file has no key for them.

    `confidence` is the setting of the run's [audit] table; if absent, it is the default of that setting, 0.95. Raises InputError for
    impossible steps or checks.
    """
    if "gradients" not in document:
        return None
    parts, confidence = document["gradients"], document.get("confidence", 0.95)
    try:
        steps = tuple(SampledSteps(int(part["steps"]), float(part["rate"]), float(part["noise"])) for part in parts)
        checks = tuple(ReplayCheck(**check) for check in document.get("checks", ()))
        is_valid = all(map(_are_possible_steps, steps)) and all(map(_is_check, checks)) and 0.5 < float(confidence) < 1.0
    except (TypeError, KeyError, ValueError, OverflowError):
        is_valid = False
    if not is_valid:
        raise InputError(
            f"{path}: gradients: expected steps, rate and noise of each part of the run, and its checks, found "
            f"{str(parts)[:SHOWN_CHARACTERS]}"
        )
    return ObservedRun(steps, checks, float(confidence))


def _is_check(check: ReplayCheck) -> bool:
    """Return whether the values of a check have their types, and its texts can be printed as they are."""
    texts = (check.name, check.message, check.power)
    return all(type(text) is str and text.isprintable() for text in texts) and type(check.passed) is type(check.statistical) is bool


def _are_possible_steps(part: SampledSteps) -> bool:
    """Return whether the number of steps, the sampling rate and the noise are in their ranges."""
    return 0 < part.steps <= MOST_STEPS and 0.0 < part.rate <= 1.0 and 0.0 < part.noise < math.inf


def _guessed_counts(path: str, counts: list[int]) -> Evidence:
    """Return the evidence of stated numbers of canaries, guesses and right guesses."""
    canaries, guesses, correct = counts
    require_consistent_guesses(canaries, guesses, correct)
    return Evidence(path, guessed=Guessed(canaries, guesses, correct))


# Functions that return the evidence of stated counts, by the keys of the counts.
EVIDENCE_OF_COUNTS: Mapping[tuple[str, ...], Callable[[str, list[int]], Evidence]] = {
    ("canaries", "guesses", "correct"): _guessed_counts,
    ("members", "others", "true_positives", "false_positives"): lambda path, counts: Evidence(path, counts=Counts(*counts)),
}


def _count(path: str, key: str, value: Any) -> int:
    """Return a count. Raises InputError if it is not a whole number from 0 to LARGEST_COUNT. JSON's true does not count as 1."""
    if type(value) is not int or not 0 <= value <= LARGEST_COUNT:
        raise InputError(f"{path}: {key}: expected a whole number from 0 to 10^9, found {value!r}")
    return int(value)


def _evidence_in_rows(path: str, rows: Sequence[Any]) -> Evidence:
    """Return the evidence in rows with member and score, or with member and guess."""
    if not rows or not all(type(row) is dict for row in rows):
        types = first_names(sorted({type(row).__name__ for row in rows}), "no rows")
        raise InputError(f"{path}: expected rows with member and score, or member and guess, found {types}")
    tables = [{str(name).strip().lower(): value for name, value in row.items()} for row in rows]
    names = {name for table in tables for name in table}
    if "member" not in names or len(names & {"score", "guess"}) != 1:
        raise InputError(f"{path}: expected columns member and score, or member and guess, found {first_names(sorted(names))}")
    members = [_boolean(path, row, "member", table.get("member")) for row, table in enumerate(tables, 1)]
    if "score" in names:
        values = [_number(path, row, table.get("score")) for row, table in enumerate(tables, 1)]
        return Evidence(path, Scores(np.array(members, dtype=bool), np.array(values, dtype=float)))
    guesses, right = 0, 0
    for row, (table, member) in enumerate(zip(tables, members, strict=True), 1):
        if table.get("guess") not in (None, ""):
            guesses += 1
            right += _boolean(path, row, "guess", table["guess"]) == member
    return Evidence(path, guessed=Guessed(len(rows), guesses, right))


def _boolean(path: str, row: int, name: str, value: Any) -> bool:
    """Return the boolean that a value of a row states by one of BOOLEANS. Raises InputError for other values."""
    boolean = BOOLEANS.get(str(value).strip().lower())
    if boolean is None:
        raise InputError(f"{path}: row {row}: {name}: expected 0 or 1, found {value!r}")
    return boolean


def _number(path: str, row: int, value: Any) -> float:
    """Return the score of a row, which may be NaN or infinite. Raises InputError if it is not a number, or too large a whole number."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{path}: row {row}: score: expected a number, found {str(value)[:SHOWN_CHARACTERS]!r}") from None
