"""Reading what an attack found: scores or guesses by canary, or counts alone; from a csv or json file, or a finished run.

A finished run leaves `audit.json` in its folder. That file is the whole seam between training and auditing:

    {"schema": "dpcli/canaries/v1", "neighbours": "add-remove",
     "canaries": [{"member": true, "score": 3.1}, {"member": false, "score": -0.4}, ...]}

beside it "gradients": [{"steps": 20, "rate": 0.1, "noise": 1.0}, ...] where the canaries were gradients.

`member`: whether the canary's own fair coin put it into the run. `score`: higher means likelier a member. A file without the schema may be
the list alone, or counts: {"canaries", "guesses", "correct"} or {"members", "others", "true_positives", "false_positives"}.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpcli.audit.gradient_scores import SampledSteps
from dpcli.audit.one_run import checked_guesses
from dpcli.audit.scores import Guessed, Scores
from dpcli.audit.two_run import Counts
from dpcli.base.errors import InputError
from dpcli.file.toml.limits import escaped_path
from dpcli.file.toml.shown import first_names
from dpcli.numerics.arrays import np

RUN_FILE = "audit.json"
SCHEMA = "dpcli/canaries/v1"
MAX_BYTES = 256 * 1024 * 1024
FLAGS = {"1": True, "0": False, "true": True, "false": False, "in": True, "out": False}


@dataclass(frozen=True, slots=True)
class Found:
    """What an attack left: scores, guesses about canaries, or the counts of one test; `neighbours` where the file says what it varied.

    gradients: None where the canaries were no gradients; else the steps that sampled them, none where they are not drawn step by step.
    """

    path: str
    scores: Scores | None = None
    guessed: Guessed | None = None
    counts: Counts | None = None
    neighbours: str | None = None
    gradients: tuple[SampledSteps, ...] | None = None


def read_found(path: str) -> Found:
    """The scores, guesses or counts in a file, or in RUN_FILE of a folder. Raises InputError, with the row, for anything else."""
    name = os.path.join(path, RUN_FILE) if os.path.isdir(path) else path
    shown, text = escaped_path(name), _text(name)
    if name.lower().endswith(".csv"):
        return _of_rows(shown, list(csv.DictReader(io.StringIO(text))))
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"{shown}: expected json (or a name that ends in .csv), found something else") from None
    return _of_json(shown, document)


def _text(name: str) -> str:
    try:
        if not stat.S_ISREG(os.stat(name).st_mode):
            raise InputError(f"{escaped_path(name)}: expected a file of scores, found something else")
        with open(name, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        found = (error.strerror or "an unreadable file").lower()
        raise InputError(f"{escaped_path(name)}: expected a file of scores, found {found}") from None
    if len(data) > MAX_BYTES:
        raise InputError(f"{escaped_path(name)}: expected at most {MAX_BYTES:,} bytes of scores, found more")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{escaped_path(name)}: expected UTF-8 text, found other bytes") from None


def _of_json(path: str, document: Any) -> Found:
    if type(document) is list:
        return _of_rows(path, document)
    if type(document) is not dict:
        raise InputError(f"{path}: expected a table or a list, found {type(document).__name__}")
    if document.get("schema", SCHEMA) != SCHEMA:
        raise InputError(f"{path}: expected schema {SCHEMA!r}, found {document['schema']!r}")
    if type(document.get("canaries")) is list:
        found = _of_rows(path, document["canaries"])
        return Found(path, found.scores, found.guessed, None, document.get("neighbours"), _gradients(path, document))
    for keys, make in COUNTED.items():
        if set(keys) <= set(document):
            return make(path, [_whole(path, key, document[key]) for key in keys])
    wanted = " or ".join("{" + ", ".join(keys) + "}" for keys in COUNTED)
    raise InputError(f"{path}: expected canaries, or counts {wanted}, found {first_names(sorted(document), 'nothing')}")


def _gradients(path: str, document: Mapping[str, Any]) -> tuple[SampledSteps, ...] | None:
    if "gradients" not in document:
        return None
    try:
        found = tuple(SampledSteps(int(one["steps"]), float(one["rate"]), float(one["noise"])) for one in document["gradients"])
    except (TypeError, KeyError, ValueError, OverflowError):
        found = (SampledSteps(0, 0.0, 0.0),)
    if not all(0 < one.steps <= 10**7 and 0.0 < one.rate <= 1.0 and 0.0 < one.noise < math.inf for one in found):
        raise InputError(f"{path}: gradients: expected steps, rate and noise of each part of the run, found something else")
    return found


def _guessed(path: str, counts: list[int]) -> Found:
    canaries, guesses, correct = counts
    checked_guesses(canaries, guesses, correct)
    return Found(path, guessed=Guessed(canaries, guesses, correct))


def _tested(path: str, counts: list[int]) -> Found:
    return Found(path, counts=Counts(*counts))


COUNTED: Mapping[tuple[str, ...], Callable[[str, list[int]], Found]] = {
    ("canaries", "guesses", "correct"): _guessed,
    ("members", "others", "true_positives", "false_positives"): _tested,
}


def _whole(path: str, key: str, value: Any) -> int:
    if type(value) is not int or not 0 <= value <= 10**9:
        raise InputError(f"{path}: {key}: expected a whole number from 0 to 10^9, found {value!r}")
    return int(value)


def _of_rows(path: str, rows: Sequence[Any]) -> Found:
    """Rows with member and score, or with member and guess (nothing where there is none)."""
    if not rows or not all(type(row) is dict for row in rows):
        raise InputError(
            f"{path}: expected rows with member and score, or member and guess, found {'none' if not rows else 'others'}"
        )
    names = {str(name).strip().lower() for row in rows for name in row}
    if "member" not in names or len(names & {"score", "guess"}) != 1:
        raise InputError(f"{path}: expected columns member and score, or member and guess, found {first_names(sorted(names))}")
    plain = [{str(name).strip().lower(): value for name, value in row.items()} for row in rows]
    members = [_flag(path, i, "member", row.get("member")) for i, row in enumerate(plain, 1)]
    if "score" in names:
        values = [_number(path, i, row.get("score")) for i, row in enumerate(plain, 1)]
        return Found(path, Scores(np.array(members, dtype=bool), np.array(values, dtype=float)))
    guesses = [None if row.get("guess") in (None, "") else _flag(path, i, "guess", row["guess"]) for i, row in enumerate(plain, 1)]
    right = sum(one is not None and one == member for one, member in zip(guesses, members, strict=True))
    return Found(path, guessed=Guessed(len(rows), len(guesses) - guesses.count(None), right))


def _flag(path: str, row: int, name: str, value: Any) -> bool:
    known = FLAGS.get(str(value).strip().lower())
    if known is None:
        raise InputError(f"{path}: row {row}: {name}: expected 0 or 1, found {value!r}")
    return known


def _number(path: str, row: int, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(f"{path}: row {row}: score: expected a number, found {value!r}") from None
