"""Answers to queries with their confidence intervals, and the file that stores them. The file is never overwritten.

The measures make a `QueryAnswer` of noisy numbers, release_run.py stores the answers of a *run* (one charged release), and a later call of
the same release returns them. answers.json is the release: it is stored before anything is shown. Overwriting it would give one charge two
answers, so `store` refuses. It contains released values, public words, and the path of the data; a checksum reveals a change of the file.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dpcli.base.errors import InputError, LedgerError
from dpcli.release.aggregate import KeyValue
from dpcli.sessions.folder import replace_file
from dpcli.sessions.priced import fingerprint

Value = float | int | str | bool | None
# Names of files in the folder of a release.
ANSWERS = "answers.json"
STATEMENT = "statement.md"
CROISSANT = "croissant.json"


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """A row of an answer.

    key: values of the key columns.
    value: the noisy or chosen value; None if nothing is released.
    lower, upper: ends of the confidence interval. They are None if there is no interval, and infinite if the interval is unbounded.
    """

    key: tuple[KeyValue, ...]
    value: Value
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """The noisy answer to one query.

    covers: sentence that says which errors the intervals cover.
    postprocessed: descriptions of the postprocessing of the noisy numbers.
    """

    query: str
    measure: str
    by: tuple[str, ...]
    rows: tuple[AnswerRow, ...]
    confidence: float
    covers: str
    postprocessed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredAnswers:
    """The stored answers of one run.

    fingerprint: fingerprint of the plan (see `ReleasePlan.fingerprint`).
    data: path of the data; "" for a database or a table in memory.
    """

    run: str
    fingerprint: str
    answers: tuple[QueryAnswer, ...]
    data: str = ""


def store(folder: str, stored: StoredAnswers) -> None:
    """Write the answers durably into a folder.

    Raises LedgerError if the folder has answers already, or the file cannot be written. The release stays charged.
    """
    path = os.path.join(folder, ANSWERS)
    if os.path.lexists(path):
        raise LedgerError(f"{path}: the folder has answers already, which dpcli does not replace")
    answers = [as_json(answer) for answer in stored.answers]
    body = {"run": stored.run, "fingerprint": stored.fingerprint, "data": stored.data, "answers": answers}
    text = json.dumps({**body, "sha256": fingerprint(body)}, indent=1, allow_nan=False)  # JSON itself has neither NaN nor infinity
    try:
        replace_file(path, text.encode())
    except OSError as error:
        raise LedgerError(
            f"{path}: cannot be written ({error.strerror}): the release stays charged; its answers are lost and were not shown to anybody"
        ) from None


def stored_answers(folder: str) -> StoredAnswers | None:
    """Return the answers stored in a folder; None if there are none. Raises InputError if the file was changed or cannot be read."""
    path = os.path.join(folder, ANSWERS)
    if not os.path.lexists(path):
        return None
    try:
        with open(path, "rb") as file:
            body = json.load(file)
        digest = body.pop("sha256")
        answers = tuple(of_json(answer) for answer in body["answers"])
        stored = StoredAnswers(body["run"], body["fingerprint"], answers, body.get("data", ""))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        # The file cannot be read, is not JSON, or is JSON of another form.
        digest, stored, body = None, None, {}
    if stored is None or digest != fingerprint(body):
        raise InputError(
            f"{path}: the stored answers were changed, or were not written by dpcli: dpcli draws no new answers in their place"
        )
    return stored


def as_json(answer: QueryAnswer) -> dict[str, Any]:
    """Return the answer as JSON values. Infinities are written as text."""
    content = asdict(answer)
    content["rows"] = [{name: _jsonable(value) for name, value in row.items()} for row in content["rows"]]
    return content


def of_json(content: Mapping[str, Any]) -> QueryAnswer:
    """Return the answer that `as_json` wrote.

    Raises TypeError, KeyError or ValueError if a part is missing or has another structure. The types of single values are not checked.
    """
    tuples = {name: tuple(content[name]) for name in ("by", "postprocessed")}
    return QueryAnswer(**{**content, **tuples, "rows": tuple(map(_row_of_json, content["rows"]))})


def _row_of_json(row: Mapping[str, Any]) -> AnswerRow:
    return AnswerRow(tuple(row["key"]), row["value"], _end_of_json(row["lower"]), _end_of_json(row["upper"]))


def _jsonable(value: Any) -> Any:
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def _end_of_json(value: Any) -> float | None:
    """Return the end of an interval, which `_jsonable` may have written as the text "inf" or "-inf"."""
    return None if value is None else float(value)
