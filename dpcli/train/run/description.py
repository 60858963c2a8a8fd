"""The description in a run's folder, read back. Nothing here needs torch."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpcli.base.errors import InputError
from dpcli.file.toml.limits import MAX_BYTES, read_bytes
from dpcli.ledger.blocks.rows import RowWindow, kept_rows
from dpcli.train.run.outcome import ADAPTER, DESCRIPTION, MODEL, PIPELINE, STATEMENT

SCHEMA = "dpcli/run/v1"
TYPES = {
    "dpcli": str,
    "run": str,
    "model": dict,
    "files": dict,
    "guarantee": dict,
    "repeated": list,
    "origin": str,
    "metrics": dict,
}
LEFT = (MODEL, STATEMENT, PIPELINE)
OF_ADAPTER = re.compile(rf"{ADAPTER}/adapter_\w+\.(json|safetensors)", re.ASCII)  # as PEFT writes them
MOST = 2**31  # of anything that is counted in a model


@dataclass(frozen=True, slots=True)
class Description:
    """What a run in `folder` says of itself.

    model: what it takes to build the model again beside [train]. files: SHA-256 by name. guarantee: in words and numbers; `epsilon` None
    where the run was not private. repeated: portions of steps that are counted twice. ledger: where it was, None where there was none.
    origin: of the training file, from the folder.
    """

    folder: str
    version: str
    run: str
    model: Mapping[str, Any]
    files: Mapping[str, str]
    guarantee: Mapping[str, Any]
    repeated: tuple[tuple[int, int], ...]
    ledger: Mapping[str, Any] | None
    metrics: Mapping[str, float]
    origin: str

    @property
    def rows(self) -> RowWindow | None:
        """Of the private table, those that were read: all where None."""
        return kept_rows(self.guarantee.get("rows"), self.guarantee.get("window", ()))

    def path(self, name: str) -> str:
        """A file of the run."""
        return os.path.join(self.folder, name)

    def changed(self) -> list[str]:
        """The files that are no longer as the run left them, or gone."""
        return [
            name
            for name, digest in self.files.items()
            if not (os.path.isfile(self.path(name)) and digest_of(self.path(name)) == digest)
        ]

    def number(self, name: str) -> int:
        """A count of the model's. Raises InputError where it is none."""
        return self._counted(name, self.model.get(name))

    def shape(self, name: str) -> tuple[int, ...]:
        """Of the model's arrays. Raises InputError where it is none."""
        found = self.model.get(name)
        if type(found) is not list:
            raise self._unlike(name)
        return tuple(self._counted(name, one) for one in found)

    def _counted(self, name: str, found: object) -> int:
        if type(found) is not int or not 0 < found < MOST:
            raise self._unlike(name)
        return found

    def _unlike(self, name: str) -> InputError:
        return InputError(
            f"{self.path(DESCRIPTION)}: model.{name}: expected what dpcli train writes of a run, found something else"
        )

    def require_unchanged(self, *names: str) -> None:
        """Raises InputError where one of these files is no longer as the run left it."""
        found = [name for name in self.changed() if name in names]
        if found:
            raise InputError(f"{self.path(found[0])}: expected the file that the run left, found another, or none")


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON in which no name comes twice: readers differ in which of the two they take. Raises ValueError."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name comes twice")
    return found


def digest_of(path: str) -> str:
    """SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def description_in(folder: str) -> Description:
    """The description of the run in a folder.

    Raises:
        InputError: there is no such folder, it holds no run that has ended or one without a description, or something else is in its place.
    """
    path = os.path.join(folder, DESCRIPTION)
    if not os.path.isdir(folder):
        raise InputError(f"{folder}: expected the folder of a run, such as runs/NAME, found none")
    if not os.path.lexists(path):
        raise _undescribed(folder)
    try:
        found = json.loads(_text(path), object_pairs_hook=distinct)
        sound = found["schema"] == SCHEMA and all(type(found[name]) is kind for name, kind in TYPES.items())
        sound = sound and type(found["ledger"]) in (dict, type(None)) and found["files"].keys() >= set(LEFT)
        sound = sound and all(type(one) is str for one in found["files"].values()) and all(map(is_left, found["files"]))
        sound = sound and _guarantees(found["guarantee"])
        repeated = tuple((int(start), int(stop)) for start, stop in found["repeated"])
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        sound, repeated = False, ()
    if not sound:
        raise InputError(f"{path}: expected what dpcli train writes of a run, found something else, or a later dpcli's")
    return Description(
        folder,
        found["dpcli"],
        found["run"],
        found["model"],
        found["files"],
        found["guarantee"],
        repeated,
        found["ledger"],
        found["metrics"],
        found["origin"],
    )


def _text(path: str) -> bytes:
    data = read_bytes(path, "what dpcli train writes of a run")
    if len(data) > MAX_BYTES:
        raise ValueError(path)
    return data


def _guarantees(stated: Mapping[str, Any]) -> bool:
    """Whether it is a guarantee: with a finite epsilon where the run was private, and none where it was not."""
    epsilon, delta = stated["epsilon"], stated["delta"]
    bounded = type(epsilon) is float and 0.0 <= epsilon < math.inf if stated["private"] is True else epsilon is None
    words = all(type(stated[name]) is str for name in ("unit", "adjacency", "accountant"))
    kept_rows(stated.get("rows"), stated.get("window", ()))
    return bounded and type(stated["private"]) is bool and words and type(delta) is float and 0.0 <= delta < 1.0


def is_left(name: str) -> bool:
    """Whether a run leaves a file of this name and describes it: others may lead out of the folder, or be code to those who load it."""
    return name in LEFT or OF_ADAPTER.fullmatch(name) is not None


def _undescribed(folder: str) -> InputError:
    """A run of an earlier version, one that has not ended, or no run."""
    if os.path.isfile(os.path.join(folder, MODEL)):
        return InputError(
            f"{folder}: expected {DESCRIPTION}, which describes the run, found none: an earlier dpcli trained it. Its model is in {MODEL}, "
            "for code of your own; training it again with this version costs epsilon again"
        )
    return InputError(
        f"{folder}: expected a run that has ended, found no {MODEL} and no {DESCRIPTION}: dpcli train FILE leaves both"
    )
