"""Recognition of files that are no pipeline: policies, schedules, and files of other programs. Messages name the command for each."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from dpcli.base.lazy import load
from dpcli.base.registry import FILES
from dpcli.file.pipeline.canonical import OF_PIPELINES, TOP, is_pipeline
from dpcli.file.toml.suggest import closest

POLICY = "a policy, which dpcli gate reads as --policy"
SCHEDULE = "a schedule of runs, which dpcli budget plan reads"


def _policies() -> Mapping[str, Any]:
    """Return the keys of a policy; an empty table if the gate is not installed."""
    return load(FILES["policy"][0]) if "policy" in FILES else {}


def is_policy(tables: Mapping[str, Any]) -> bool:
    """Return whether a file is a policy of the gate: it has a key similar to one of policies, and no top-level key of pipelines."""
    own = [key for key in tables if key != "format"]
    return bool(own) and TOP.keys().isdisjoint(own) and any(closest(key, _policies()) for key in own)


def is_schedule(tables: Mapping[str, Any]) -> bool:
    """Return whether a file is a schedule of planned runs: it has the key `run`, and no top-level key of pipelines."""
    return "run" in tables and TOP.keys().isdisjoint(key for key in tables if key != "format")


def other_file(tables: Mapping[str, Any]) -> str | None:
    """Return the kind of a file that is a policy or a schedule, with the command that reads it; None for any other file.

    A file with a key that is similar to one of pipelines may be a mistyped pipeline, so that the result is None. A file without `format`
    may be of another program. It counts only if all of its keys are those of a policy or of a schedule.
    """
    policies = _policies()
    own = [key for key in tables if key != "format"]
    if any(key not in policies and key != "run" and closest(key, TOP) for key in own):
        return None  # a pipeline with mistyped keys
    if is_schedule(tables) and ("format" in tables or (own == ["run"] and type(tables["run"]) is list)):
        return SCHEDULE
    return POLICY if is_policy(tables) and ("format" in tables or policies.keys() >= {*own}) else None


def misspelt_pipeline(tables: Mapping[str, Any]) -> bool:
    """Return whether a file has the key `format` and can only be a pipeline in which all names of tables are mistyped."""
    near = type(tables.get("format")) is int and any(closest(key, OF_PIPELINES) for key in tables)
    return near and not is_pipeline(tables) and other_file(tables) is None


def instead_of_policy(tables: Mapping[str, Any]) -> str | None:
    """Return the kind of a file that was given as a policy and is a pipeline or a schedule; None for any other file."""
    if any(key in _policies() for key in tables if key != "format"):
        return None
    return "a pipeline" if is_pipeline(tables) else SCHEDULE if is_schedule(tables) else None


LFS_POINTER = b"version https://git-lfs"
# First bytes of files of other programs, each with the kind of file and the command that reads it, or "".
STARTS: tuple[tuple[bytes, str, str], ...] = (
    (b"SQLite format 3\x00", "an SQLite database, such as a ledger", "budget show {}"),
    (b"\x89HDF", "HDF5", ""),
    (b"\x93NUMPY", "an array of numpy", ""),
    (b"%PDF", "a PDF", ""),
    (LFS_POINTER, "a Git LFS pointer: check out the file itself (git lfs pull; lfs: true in CI)", ""),
)
OPACUS = "import opacus {}"
SAMPLING = " --sampling poisson (or shuffle, as batches were drawn)"
# Keys that identify JSON of other programs, each with the kind of file and the command that reads it.
KEYS: tuple[tuple[frozenset[str], str, str], ...] = (
    (frozenset({"history", "mechanism"}), "the state of an Opacus accountant", OPACUS),
    (frozenset({"train_steps", "noise_multiplier"}), "a DPKerasConfig of jax-privacy", "import jax-privacy {}" + SAMPLING),
    (frozenset({"__function__", "__kwargs__"}), "an accountant of OpenDP", "import opendp {}"),
    (frozenset({"privacy_budget", "protected_changes"}), "a Session of Tumult Analytics", "import tumult {}"),
)
EVENT = ("a DpEvent of dp-accounting", "import dp-accounting {} --adjacency add-remove (or the adjacency of its accountant)")
FLAGS = re.compile(rb"--?(?:N|noise_multiplier|epochs|batch_size)(?:=|\s)")  # flags of compute_dp_sgd_privacy
HEAD = re.compile(rb"[\w .\-]+(,[\w .\-]+)+")  # header of a csv file
READ_BYTES = 4096  # number of bytes at the start of a text that are examined


def looks_like(data: bytes, path: str) -> str | None:
    """Return the kind of file that the bytes look like, with the command that reads it; None if the kind is unknown.

    Args:
        data: The bytes of the file.
        path: Path of the file, to be quoted in the command.
    """
    result = _binary(data) or _json(data) or _text(data[:READ_BYTES])
    if result is None:
        return None
    what, command = result
    return f"{what}: dpcli {command.format(shlex.quote(path))} reads it" if command else what


def _binary(data: bytes) -> tuple[str, str] | None:
    """Return the kind of a binary file, and the command that reads it."""
    if data.startswith(b"PK\x03\x04"):
        return ("a file of torch.save", OPACUS) if b"data.pkl" in data else ("a zip", "")
    if data[:1] == b"\x80" and data[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return "a pickle, as older versions of torch.save wrote it", OPACUS
    return next(((what, command) for start, what, command in STARTS if data.startswith(start)), None)


def _json(data: bytes) -> tuple[str, str] | None:
    """Return the kind of a JSON file, and the command that reads it."""
    if data.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list):
        return EVENT if value[:1] == ["dp_accounting.dp_event"] else ("JSON", "")
    return _table(value)


def _table(value: Mapping[str, Any]) -> tuple[str, str]:
    """Return the kind of a JSON table, and the command that reads it."""
    name = value.get("type", value.get("class_name"))
    if (type(name) is str and name.endswith("DpEvent")) or value.get("schema") == "dpcli/dp-event/v1":
        return EVENT
    for keys, what, command in KEYS:
        if keys <= value.keys():
            return what, command
    if str(value.get("schema")).startswith("dpcli/"):
        return "JSON that dpcli printed about a pipeline file; name the pipeline file itself", ""
    return "JSON; dpcli import reads the records of other libraries", ""


def _text(head: bytes) -> tuple[str, str] | None:
    """Return the kind of a text file that begins with `head`, and the command that reads it: flags or a csv."""
    first, *lines = [line for line in head.splitlines() if line.strip()][:4] or [b""]
    if first.lstrip().startswith(b"-") and FLAGS.search(head):
        return "flags of compute_dp_sgd_privacy", "import tf-privacy {}" + SAMPLING
    if (
        HEAD.fullmatch(first.strip())
        and lines
        and all(line.count(b",") == first.count(b",") and b"=" not in line for line in lines[:2])
    ):
        schedule = b"noise_multiplier" in first
        return "a csv", "import schedule {} --sampling poisson --adjacency add-remove" if schedule else ""
    return None
