"""Recognition of files that are not pipelines: policies, schedules, and files of other programs. Messages name the command that reads each.

`dpcli account` of a policy or of an Opacus checkpoint should not end in a syntax error: read.py asks here what a file is before it reports
that the file is not a pipeline. A *policy* has the caps of `dpcli gate`, and a *schedule* the planned runs of `dpcli budget plan`; both are
TOML too. A file that may be a damaged pipeline must not be taken for something else: the search of a folder would then overlook it. All
patterns here affect messages and this search, and no number.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from dpcli.base.lazy import load
from dpcli.base.registry import FILES
from dpcli.file.pipeline.canonical import PIPELINE_TABLES, TOP, is_pipeline
from dpcli.file.toml.suggest import closest

POLICY = "a policy, which dpcli gate reads as --policy"
SCHEDULE = "a schedule of runs, which dpcli budget plan reads"

LFS_POINTER = b"version https://git-lfs"
IMPORT_OPACUS = "import opacus {}"
SAMPLING_FLAG = " --sampling poisson (or shuffle, as batches were drawn)"

FLAGS = re.compile(rb"--?(?:N|noise_multiplier|epochs|batch_size)(?:=|\s)")  # flags of compute_dp_sgd_privacy of TensorFlow Privacy
CSV_HEADER = re.compile(rb"[\w .\-]+(,[\w .\-]+)+")  # the first line of a csv file with at least two columns
READ_BYTES = 4096  # number of bytes at the start of a text that are examined; arbitrary, but enough for a few lines


def _policy_keys() -> Mapping[str, Any]:
    """Return the top-level keys of a policy; an empty table if the gate is not installed."""
    if "policy" not in FILES:
        return {}
    target, _reader = FILES["policy"]
    keys: Mapping[str, Any] = load(target)
    return keys


def _keys(tables: Mapping[str, Any]) -> list[str]:
    """Return the top-level keys of a file other than `format`, which files of every kind have."""
    return [key for key in tables if key != "format"]


def is_policy(tables: Mapping[str, Any]) -> bool:
    """Return whether a file is a policy of the gate: it has a key similar to one of policies, and no top-level key of pipelines."""
    keys = _keys(tables)
    return TOP.keys().isdisjoint(keys) and any(closest(key, _policy_keys()) for key in keys)


def is_schedule(tables: Mapping[str, Any]) -> bool:
    """Return whether a file is a schedule of planned runs: it has the key `run`, and no top-level key of pipelines."""
    return "run" in tables and TOP.keys().isdisjoint(_keys(tables))


def other_file(tables: Mapping[str, Any]) -> str | None:
    """Return the kind of a file that is a policy or a schedule, with the command that reads it; None for any other file.

    A file with a key that is similar to one of pipelines may be a mistyped pipeline, so that the result is None. A file without `format`
    may be of another program. It counts only if all of its keys are keys of a policy, or of a schedule.
    """
    policy_keys, keys = _policy_keys(), _keys(tables)
    if any(key not in policy_keys and key != "run" and closest(key, TOP) for key in keys):
        return None  # a pipeline with mistyped keys
    has_only_runs = keys == ["run"] and type(tables["run"]) is list
    if is_schedule(tables) and ("format" in tables or has_only_runs):
        return SCHEDULE
    if is_policy(tables) and ("format" in tables or policy_keys.keys() >= {*keys}):
        return POLICY
    return None


def misspelt_pipeline(tables: Mapping[str, Any]) -> bool:
    """Return whether a file has the key `format` and can only be a pipeline in which all names of tables are mistyped."""
    has_similar_table = type(tables.get("format")) is int and any(closest(key, PIPELINE_TABLES) for key in tables)
    return has_similar_table and not is_pipeline(tables) and other_file(tables) is None


def instead_of_policy(tables: Mapping[str, Any]) -> str | None:
    """Return the kind of a file that was given as a policy and is a pipeline or a schedule; None for any other file.

    A file with a key of a policy is taken for a policy with mistakes, which its own reader reports.
    """
    if any(key in _policy_keys() for key in _keys(tables)):
        return None
    if is_pipeline(tables):
        return "a pipeline"
    return SCHEDULE if is_schedule(tables) else None


class FileKind(NamedTuple):
    """A kind of file that is not TOML, mostly of another program.

    Attributes:
        name: The kind as it stands in a message.
        command: The command that reads such files: its words after dpcli, with {} for the path; "" if none does.
    """

    name: str
    command: str = ""


EVENT = FileKind(
    "a DpEvent of dp-accounting", "import dp-accounting {} --adjacency add-remove (or the adjacency of its accountant)"
)
# Kinds of files by their first bytes.
STARTS: dict[bytes, FileKind] = {
    b"SQLite format 3\x00": FileKind("an SQLite database, such as a ledger", "budget show {}"),
    b"\x89HDF": FileKind("HDF5"),
    b"\x93NUMPY": FileKind("an array of numpy"),
    b"%PDF": FileKind("a PDF"),
    LFS_POINTER: FileKind("a Git LFS pointer: check out the file itself (git lfs pull; lfs: true in CI)"),
}
# Kinds of JSON files by keys that identify them.
KEYS: dict[frozenset[str], FileKind] = {
    frozenset({"history", "mechanism"}): FileKind("the state of an Opacus accountant", IMPORT_OPACUS),
    frozenset({"train_steps", "noise_multiplier"}): FileKind(
        "a DPKerasConfig of jax-privacy", "import jax-privacy {}" + SAMPLING_FLAG
    ),
    frozenset({"__function__", "__kwargs__"}): FileKind("an accountant of OpenDP", "import opendp {}"),
    frozenset({"privacy_budget", "protected_changes"}): FileKind("a Session of Tumult Analytics", "import tumult {}"),
}


def looks_like(data: bytes, path: str) -> str | None:
    """Return the kind of file that the bytes look like, with the command that reads it; None if the kind is unknown."""
    kind = _binary(data) or _json(data) or _text(data[:READ_BYTES])
    if kind is None:
        return None
    return f"{kind.name}: dpcli {kind.command.format(shlex.quote(path))} reads it" if kind.command else kind.name


def _binary(data: bytes) -> FileKind | None:
    """Return the kind of a file by its first bytes; None if they are unknown."""
    if data.startswith(b"PK\x03\x04"):  # a zip; torch.save writes one with a member data.pkl
        return FileKind("a file of torch.save", IMPORT_OPACUS) if b"data.pkl" in data else FileKind("a zip")
    if data[:1] == b"\x80" and data[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):  # the protocol versions 2 to 5
        return FileKind("a pickle, as older versions of torch.save wrote it", IMPORT_OPACUS)
    return next((kind for start, kind in STARTS.items() if data.startswith(start)), None)


def _json(data: bytes) -> FileKind | None:
    """Return the kind of a JSON file; None for a file that is not JSON."""
    if data.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list):
        return EVENT if value[:1] == ["dp_accounting.dp_event"] else FileKind("JSON")
    return _json_object(value)


def _json_object(table: Mapping[str, Any]) -> FileKind:
    """Return the kind of a file with a JSON object, by its keys and by the name of its class or schema."""
    name = table.get("type", table.get("class_name"))
    if (type(name) is str and name.endswith("DpEvent")) or table.get("schema") == "dpcli/dp-event/v1":
        return EVENT
    for keys, kind in KEYS.items():
        if keys <= table.keys():
            return kind
    if str(table.get("schema")).startswith("dpcli/"):
        return FileKind("JSON that dpcli printed about a pipeline file; name the pipeline file itself")
    return FileKind("JSON; dpcli import reads the records of other libraries")


def _text(head: bytes) -> FileKind | None:
    """Return the kind of a text file that begins with `head`: flags or a csv; None for other files.

    Up to three lines are examined. A csv has equally many commas in all of them, and none of the "=" that lines of a TOML file have.
    """
    first, *others = [line for line in head.splitlines() if line.strip()][:3] or [b""]
    if first.lstrip().startswith(b"-") and FLAGS.search(head):
        return FileKind("flags of compute_dp_sgd_privacy", "import tf-privacy {}" + SAMPLING_FLAG)
    if not others or not CSV_HEADER.fullmatch(first.strip()):
        return None
    if any(line.count(b",") != first.count(b",") or b"=" in line for line in others):
        return None
    if b"noise_multiplier" in first:
        return FileKind("a csv", "import schedule {} --sampling poisson --adjacency add-remove")
    return FileKind("a csv")
