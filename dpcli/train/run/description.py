"""The description of a run: how it is read from the run's folder, its guarantee, and the stamp in the file of the model.

This module does not import torch.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from dpcli.base.errors import InputError
from dpcli.file.pipeline.datasets import window_data
from dpcli.file.toml.limits import MAX_BYTES, read_bytes
from dpcli.ledger.blocks.rows import RowWindow, rows_from_content
from dpcli.train.plan.plan import Portion, TrainingPlan
from dpcli.train.run.outcome import ADAPTER, DESCRIPTION, MODEL, PIPELINE, STATEMENT

SCHEMA = "dpcli/run/v1"
# Types of the values of a description.
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
RUN_FILES = (MODEL, STATEMENT, PIPELINE)
ADAPTER_FILE = re.compile(rf"{ADAPTER}/adapter_\w+\.(json|safetensors)", re.ASCII)  # names of the files that PEFT writes
LARGEST_COUNT = 2**31  # upper limit of every count in the facts about a model
LARGEST_HEADER = 100_000_000  # largest header of a safetensors file, in bytes, as in the safetensors library


@dataclass(frozen=True, slots=True)
class Description:
    """The description of a run in `folder`.

    Attributes:
        version: Version of dpcli that wrote the description.
        run: Key of the run in the ledger.
        model: Facts about the model, which suffice together with [train] to build it again.
        files: SHA-256 of each file, by name.
        guarantee: Guarantee in words and numbers. Its `epsilon` is None if the run was not private.
        repeated: Portions of steps that are counted twice.
        ledger: Head of the ledger when the run was charged; None without a ledger.
        origin: Folder of the training file, relative to `folder`.
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
        """Return the window of rows of the private table that were read; None for all rows."""
        return rows_from_content(self.guarantee.get("rows"), self.guarantee.get("window", ()))

    def path(self, name: str) -> str:
        """Return the path of a file of the run."""
        return os.path.join(self.folder, name)

    def changed(self) -> list[str]:
        """Return the files that were changed or removed after the run."""
        return [
            name
            for name, digest in self.files.items()
            if not (os.path.isfile(self.path(name)) and digest_of(self.path(name)) == digest)
        ]

    def count(self, name: str) -> int:
        """Return a count from the facts about the model. Raises InputError if the fact is no count."""
        return self._checked_count(name, self.model.get(name))

    def shape(self, name: str) -> tuple[int, ...]:
        """Return a shape from the facts about the model. Raises InputError if the fact is no shape."""
        lengths = self.model.get(name)
        if type(lengths) is not list:
            raise self._malformed(name)
        return tuple(self._checked_count(name, length) for length in lengths)

    def _checked_count(self, name: str, count: object) -> int:
        if type(count) is not int or not 0 < count < LARGEST_COUNT:
            raise self._malformed(name)
        return count

    def _malformed(self, name: str) -> InputError:
        return InputError(f"{self.path(DESCRIPTION)}: model.{name}: not as dpcli train wrote it: {repr(self.model.get(name))[:60]}")

    def require_unchanged(self, *names: str) -> None:
        """Raise InputError if one of the named files was changed or removed after the run."""
        changed = [name for name in self.changed() if name in names]
        if changed:
            raise InputError(f"{self.path(changed[0])}: changed or removed after training (SHA-256 differs)")


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object as a dict. Raises ValueError if a name occurs twice, because readers differ in which value they use."""
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a name comes twice")
    return table


def digest_of(path: str) -> str:
    """Return the SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def description_in(folder: str) -> Description:
    """Return the description of the run in a folder.

    Raises:
        InputError: The folder does not exist, holds no run that has ended, or has a missing or malformed description.
    """
    path = os.path.join(folder, DESCRIPTION)
    if not os.path.isdir(folder):
        raise InputError(f"{folder}: no such folder; name that of a run, such as runs/NAME")
    if not os.path.lexists(path):
        raise _undescribed(folder)
    try:
        content = json.loads(_text(path), object_pairs_hook=unique_names)
        sound = _well_formed(content)
        repeated = tuple((int(start), int(stop)) for start, stop in content["repeated"])
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        sound, repeated = False, ()
    if not sound:
        raise InputError(f"{path}: not as this version of dpcli train writes it")
    return Description(
        folder=folder,
        version=content["dpcli"],
        run=content["run"],
        model=content["model"],
        files=content["files"],
        guarantee=content["guarantee"],
        repeated=repeated,
        ledger=content["ledger"],
        metrics=content["metrics"],
        origin=content["origin"],
    )


def _text(path: str) -> bytes:
    """Return the content of a description. Raises ValueError if it is too long."""
    data = read_bytes(path, "the description of a run")
    if len(data) > MAX_BYTES:
        raise ValueError(path)
    return data


def _well_formed(content: Mapping[str, Any]) -> bool:
    """Check the form of a description. Raises KeyError, TypeError or ValueError for some malformed ones."""
    if content["schema"] != SCHEMA or any(type(content[name]) is not kind for name, kind in TYPES.items()):
        return False
    files = content["files"]
    if (
        not files.keys() >= set(RUN_FILES)
        or not all(map(is_run_file, files))
        or any(type(file) is not str for file in files.values())
    ):
        return False
    return type(content["ledger"]) in (dict, type(None)) and _is_guarantee(content["guarantee"])


def _is_guarantee(stated: Mapping[str, Any]) -> bool:
    """Check whether the values are a guarantee, with a finite epsilon if the run was private and none otherwise."""
    private, epsilon, delta = stated["private"], stated["epsilon"], stated["delta"]
    if type(private) is not bool or any(type(stated[name]) is not str for name in ("unit", "adjacency", "accountant")):
        return False
    if private and not (type(epsilon) is float and 0.0 <= epsilon < math.inf):
        return False
    rows_from_content(stated.get("rows"), stated.get("window", ()))  # raises an error for malformed values
    return (private or epsilon is None) and type(delta) is float and 0.0 <= delta < 1.0


def is_run_file(name: str) -> bool:
    """Check whether a run writes files with this name. Other names could point out of the folder, or be executed by a reader."""
    return name in RUN_FILES or ADAPTER_FILE.fullmatch(name) is not None


def _undescribed(folder: str) -> InputError:
    """Return the error for a folder without a description. Its run is of an earlier version or has not ended, or there is no run."""
    if os.path.isfile(os.path.join(folder, MODEL)):
        return InputError(
            f"{folder}: no {DESCRIPTION}, which describes the run: an earlier dpcli trained it. Its model is in {MODEL}, "
            "for code of your own; training it again with this version costs epsilon again"
        )
    return InputError(
        f"{folder}: expected a run that has ended, found no {MODEL} and no {DESCRIPTION}: dpcli train FILE leaves both"
    )


def guarantee(plan: TrainingPlan, repeated: Collection[Portion], private: bool) -> dict[str, Any]:
    """Return the guarantee of a run that has ended. Its epsilon is an unrounded upper bound, or None if the run was not private.

    Args:
        repeated: Portions of steps that may have been taken twice, and are counted twice.
    """
    privacy, account = plan.pipeline.privacy, plan.account_with(repeated)
    assert account.winner is not None  # every file of a plan has an accountant
    return {
        "private": private,
        "epsilon": account.upper if private else None,
        "delta": float(account.delta),
        "unit": privacy.unit or "record",
        "adjacency": privacy.adjacency.value,
        "max_contributions": privacy.max_contributions,
        "records_per_unit": plan.train.records_per_unit,
        "dataset_size": privacy.dataset_size,
        "releases": privacy.releases,
        "accountant": account.winner.accountant.name,
        "tuning": plan.train.covers.tuning,
        **window_data(privacy),
        **plan.row_data,
    }


def stamp(path: str) -> Mapping[str, str]:
    """Return the metadata of a safetensors file. Raises InputError if they cannot be read.

    The file begins with the length of its header in eight bytes, followed by the header as JSON.
    """
    try:
        with open(path, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            metadata = json.loads(file.read(min(length, LARGEST_HEADER)), object_pairs_hook=unique_names)["__metadata__"]
        sound = isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values())
    except (OSError, ValueError, KeyError, TypeError, struct.error, RecursionError):
        sound = False
    if not sound:
        raise InputError(f"{path}: expected a model that dpcli train left, found a file without its stamp")
    return dict(metadata)


def require_stamp(description: Description) -> None:
    """Raise InputError if the file of the model and the description contradict each other about privacy."""
    path, stated = description.path(MODEL), description.guarantee
    stated_in_file = stamp(path)
    private = stated_in_file.get("private") == "yes"
    if private is not stated.get("private") or (private and stated_in_file.get("epsilon") != repr(stated.get("epsilon"))):
        raise InputError(
            f"{path}: epsilon {stated_in_file.get('epsilon')}, private: {stated_in_file.get('private')}; its description says otherwise"
        )
