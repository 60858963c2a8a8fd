"""The answers of a release, kept in its folder: there whole or not at all, and never replaced."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

from dpcli.base.errors import InputError, LedgerError
from dpcli.release.answer import QueryAnswer, as_json, of_json
from dpcli.sessions.folder import replaced

ANSWERS = "answers.json"
STATEMENT = "statement.md"


@dataclass(frozen=True, slots=True)
class Stored:
    """The answers of one run. fingerprint: of what was asked. data: where the data were, where that is a path."""

    run: str
    fingerprint: str
    answers: tuple[QueryAnswer, ...]
    data: str = ""


def store(folder: str, stored: Stored) -> None:
    """Keep the answers, durably. Raises LedgerError where there are some, or the disk takes none: the charge stays."""
    path = os.path.join(folder, ANSWERS)
    if os.path.lexists(path):
        raise LedgerError(f"{path}: expected no answers yet, found some: they are not replaced")
    answers = [as_json(answer) for answer in stored.answers]
    body = {"run": stored.run, "fingerprint": stored.fingerprint, "data": stored.data, "answers": answers}
    try:
        replaced(path, json.dumps({**body, "sha256": _digest(body)}, indent=1, allow_nan=False).encode())
    except OSError as error:
        raise LedgerError(
            f"{path}: cannot be written ({error.strerror}): the release stays charged, its answers are lost and were shown to nobody"
        ) from None


def stored_in(folder: str) -> Stored | None:
    """The answers that are there, None where there are none. Raises InputError where they were changed."""
    path = os.path.join(folder, ANSWERS)
    if not os.path.lexists(path):
        return None
    try:
        with open(path, "rb") as file:
            body = json.load(file)
        digest = body.pop("sha256")
        answers = tuple(of_json(answer) for answer in body["answers"])
        found = Stored(body["run"], body["fingerprint"], answers, body.get("data", ""))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        digest, found, body = None, None, {}
    if found is None or digest != _digest(body):
        raise InputError(
            f"{path}: expected answers as dpcli wrote them, found something else: nothing is released again in their place"
        )
    return found


def _digest(body: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
