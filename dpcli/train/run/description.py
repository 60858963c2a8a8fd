"""The description of a run: model.json in its folder, with facts about the model, the guarantee, and the digests of the files.

run/results.py writes it at the end of a run. `dpcli predict`, `dpcli attest` and `dpcli.load_model` begin with `description_in`, which
reads it without torch. A folder may come from elsewhere, so the reader checks the form of the description; that no file was changed is
checked separately (`Description.require_unchanged`). `guarantee` computes the guarantee that a new description states.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
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
# Types of the values of a description, by key.
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
RUN_FILES = (MODEL, STATEMENT, PIPELINE)  # files that every description names
ADAPTER_FILE = re.compile(rf"{ADAPTER}/adapter_\w+\.(json|safetensors)", re.ASCII)  # names of the files that PEFT writes
# Every count in the facts about a model is below this limit; a larger one is refused as malformed. Arbitrary.
LARGEST_COUNT = 2**31


@dataclass(frozen=True, slots=True)
class Description:
    """The description of a run in `folder`.

    Attributes:
        version: Version of dpcli that wrote the description.
        run: Key of the run in the ledger.
        model: Facts about the model. Together with [train], they suffice to build it again.
        files: SHA-256 of each file, by name.
        guarantee: Guarantee as the function `guarantee` returns it. Its `epsilon` is None if the run was not private.
        repeated: Portions of steps that are counted twice.
        ledger: Head of the ledger when the run ended, and the run's status; None without a ledger.
        metrics: Metrics on data that the file declares public; empty if there are none.
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
        """Return the window of rows that were read from the private table; None if all rows were read."""
        return rows_from_content(self.guarantee.get("rows"), self.guarantee.get("window", ()))

    def path(self, name: str) -> str:
        """Return the path of a file of the run."""
        return os.path.join(self.folder, name)

    def changed(self) -> list[str]:
        """Return the files that were changed or removed after the run."""
        return [name for name, digest in self.files.items() if not self._has_digest(name, digest)]

    def _has_digest(self, name: str, digest: str) -> bool:
        """Return whether a file of the run exists and has this SHA-256."""
        path = self.path(name)
        return os.path.isfile(path) and digest_of(path) == digest

    def count(self, name: str) -> int:
        """Return a count from the facts about the model. Raises InputError if the fact is not a count."""
        return self._checked_count(name, self.model.get(name))

    def shape(self, name: str) -> tuple[int, ...]:
        """Return a shape from the facts about the model. Raises InputError if the fact is not a shape."""
        lengths = self.model.get(name)
        if type(lengths) is not list:
            raise self._malformed_fact_error(name)
        return tuple(self._checked_count(name, length) for length in lengths)

    def _checked_count(self, name: str, count: object) -> int:
        """Return a count unchanged. Raises InputError, which names the fact, if it is not a count."""
        if type(count) is not int or not 0 < count < LARGEST_COUNT:
            raise self._malformed_fact_error(name)
        return count

    def _malformed_fact_error(self, name: str) -> InputError:
        """Return the error for a fact that has the wrong form."""
        return InputError(f"{self.path(DESCRIPTION)}: model.{name}: not as dpcli train wrote it: {repr(self.model.get(name))[:60]}")

    def require_unchanged(self, *names: str) -> None:
        """Raise InputError if one of the named files was changed or removed after the run."""
        changed = [name for name in self.changed() if name in names]
        if changed:
            raise InputError(f"{self.path(changed[0])}: changed or removed after training (SHA-256 differs)")


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of a JSON object as a dict. This is the object_pairs_hook of `json.loads`.

    Raises ValueError if a name occurs twice, because readers of JSON differ in the value that they use.
    """
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a name occurs twice")
    return table


def digest_of(path: str) -> str:
    """Return the SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def description_in(folder: str) -> Description:
    """Return the description of the run in a folder.

    Raises InputError if the folder does not exist, holds no run that has ended, or has a missing or malformed description.
    """
    path = os.path.join(folder, DESCRIPTION)
    if not os.path.isdir(folder):
        raise InputError(f"{folder}: no such folder; give the folder of a run, such as runs/NAME")
    if not os.path.lexists(path):
        raise _no_description_error(folder)
    try:
        content = read_json(path, "the description of a run")
        _require_well_formed(content)
        repeated = tuple((int(start), int(stop)) for start, stop in content["repeated"])
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        raise InputError(f"{path}: not a description that this version of dpcli train writes") from None
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


def read_json(path: str, kind: str) -> Any:
    """Return the JSON value in a file that may come from elsewhere. An object in it has no name twice.

    Args:
        kind: Expected kind of file, for messages.

    Raises:
        ValueError: The file is too long, or is not such JSON. RecursionError: it is nested too deeply.
        InputError: The file cannot be read.
    """
    data = read_bytes(path, kind)
    if len(data) > MAX_BYTES:
        raise ValueError(path)
    return json.loads(data, object_pairs_hook=unique_names)


def _require_well_formed(content: Mapping[str, Any]) -> None:
    """Raise KeyError, TypeError or ValueError if a description lacks a name, or has a value of the wrong form.

    `description_in` reports all of these by one message.
    """
    if content["schema"] != SCHEMA or any(type(content[name]) is not kind for name, kind in TYPES.items()):
        raise ValueError("not a description")
    if type(content["ledger"]) not in (dict, type(None)):
        raise ValueError("ledger")
    files = content["files"]
    if not files.keys() >= set(RUN_FILES) or not all(map(is_run_file, files)):
        raise ValueError("files")
    if any(type(digest) is not str for digest in files.values()):
        raise ValueError("files")
    _require_guarantee(content["guarantee"])


def _require_guarantee(values: Mapping[str, Any]) -> None:
    """Raise KeyError, TypeError or ValueError unless the values form a guarantee.

    Its epsilon must be finite if the run was private, and None otherwise.
    """
    private, epsilon, delta = values["private"], values["epsilon"], values["delta"]
    if type(private) is not bool or any(type(values[name]) is not str for name in ("unit", "adjacency", "accountant")):
        raise ValueError("guarantee")
    valid_epsilon = type(epsilon) is float and 0.0 <= epsilon < math.inf if private else epsilon is None
    if not valid_epsilon or type(delta) is not float or not 0.0 <= delta < 1.0:
        raise ValueError("guarantee")
    rows_from_content(values.get("rows"), values.get("window", ()))


def is_run_file(name: str) -> bool:
    """Return whether a run writes files with this name. Another name could lead out of the folder, or name a file that is executed."""
    return name in RUN_FILES or ADAPTER_FILE.fullmatch(name) is not None


def _no_description_error(folder: str) -> InputError:
    """Return the error for a folder without a description.

    An earlier version of dpcli may have trained the run, the run may not have ended, or the folder has no run.
    """
    if os.path.isfile(os.path.join(folder, MODEL)):
        return InputError(
            f"{folder}: no {DESCRIPTION}: an earlier version of dpcli trained the model. Your own code can load it from {MODEL}; "
            "training it again with this version costs epsilon again"
        )
    return InputError(
        f"{folder}: expected a run that has ended, found no {MODEL} and no {DESCRIPTION}: dpcli train FILE writes both, "
        "or finish() of dpcli.private"
    )


def guarantee(plan: TrainingPlan, repeated: Collection[Portion], private: bool) -> dict[str, Any]:
    """Return the guarantee of a run that has ended, as JSON values. Its epsilon is an unrounded upper bound; None if it was not private.

    Args:
        repeated: Portions of steps that may have been taken twice. They are counted twice.
    """
    privacy, account = plan.pipeline.privacy, plan.account_with(repeated)
    assert account.winner is not None  # the accountant with the least epsilon; a plan is only made of a file that has one
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
        **window_data(privacy),  # the blocks of the window, if there is one
        **plan.row_data,  # the rows of these blocks, if dpcli selected them
    }
