"""What a file that is no TOML looks like, and which command reads such a file."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

LFS_POINTER = b"version https://git-lfs"
STARTS: tuple[tuple[bytes, str, str], ...] = (
    (b"SQLite format 3\x00", "a database of SQLite, as a ledger is", "budget show {}"),
    (b"\x89HDF", "HDF5", ""),
    (b"\x93NUMPY", "an array of numpy", ""),
    (b"%PDF", "a PDF", ""),
    (LFS_POINTER, "a Git LFS pointer: check out the file itself (git lfs pull; lfs: true in CI)", ""),
)
OPACUS = "import opacus {}"
SAMPLING = " --sampling poisson (or shuffle, as batches were drawn)"
# Keys of JSON that say whose it is: what to call it, and what reads it.
KEYS: tuple[tuple[frozenset[str], str, str], ...] = (
    (frozenset({"history", "mechanism"}), "the state of an Opacus accountant", OPACUS),
    (frozenset({"train_steps", "noise_multiplier"}), "a DPKerasConfig of jax-privacy", "import jax-privacy {}" + SAMPLING),
    (frozenset({"__function__", "__kwargs__"}), "an accountant of OpenDP", "import opendp {}"),
    (frozenset({"privacy_budget", "protected_changes"}), "a Session of Tumult Analytics", "import tumult {}"),
)
EVENT = ("a DpEvent of dp-accounting", "import dp-accounting {} --adjacency add-remove (or what its accountant was told)")
FLAGS = re.compile(rb"--?(?:N|noise_multiplier|epochs|batch_size)(?:=|\s)")
HEAD = re.compile(rb"[\w .\-]+(,[\w .\-]+)+")  # names of columns
MOST = 4096  # bytes at the start of a text that are looked at


def looks_like(data: bytes, path: str) -> str | None:
    """What the bytes look like, with the command that reads that; None where nothing is known. path: what the command names."""
    found = _binary(data) or _json(data) or _text(data[:MOST])
    if found is None:
        return None
    what, command = found
    return f"{what}: dpcli {command.format(shlex.quote(path))} reads it" if command else what


def _binary(data: bytes) -> tuple[str, str] | None:
    if data.startswith(b"PK\x03\x04"):
        return ("a file of torch.save", OPACUS) if b"data.pkl" in data else ("a zip", "")
    if data[:1] == b"\x80" and data[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return "a pickle, as torch.save wrote it once", OPACUS
    return next(((what, command) for start, what, command in STARTS if data.startswith(start)), None)


def _json(data: bytes) -> tuple[str, str] | None:
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
    name = value.get("type", value.get("class_name"))
    if (type(name) is str and name.endswith("DpEvent")) or value.get("schema") == "dpcli/dp-event/v1":
        return EVENT
    for keys, what, command in KEYS:
        if keys <= value.keys():
            return what, command
    if str(value.get("schema")).startswith("dpcli/"):
        return "JSON that a command of dpcli printed of a pipeline file, which is what to give", ""
    return "JSON, of which dpcli import reads what other libraries keep", ""


def _text(head: bytes) -> tuple[str, str] | None:
    first, *lines = [line for line in head.splitlines() if line.strip()][:4] or [b""]
    if first.lstrip().startswith(b"-") and FLAGS.search(head):
        return "flags of compute_dp_sgd_privacy", "import tf-privacy {}" + SAMPLING
    if HEAD.fullmatch(first.strip()) and lines and all(line.count(b",") == first.count(b",") for line in lines[:2]):
        schedule = b"noise_multiplier" in first
        return "a csv", "import schedule {} --sampling poisson --adjacency add-remove" if schedule else ""
    return None
