"""A pipeline (`BASE`) that states every term of the gate, changes of it, and the gate's verdict on a change (`judged`).

A term is a value of [privacy], [budget] or [gate], such as a cap.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from dpcli.base.lazy import load
from dpcli.file.pipeline.section import MECHANISM_TYPES
from tests.command import dpcli
from tests.gate.repositories import git
from tests.inline import text_of as written

Document = dict[str, Any]
BASE: Document = {
    "format": 1,
    "privacy": {
        "unit": "user",
        "dataset": "clicks",
        "window": ["eu"],
        "adjacency": "add-remove",
        "max_contributions": 1,
        "dataset_size": 10**6,
        "delta": 1e-8,
        "releases": "final-model",
        "adaptive": False,
    },
    "budget": {"epsilon": 30.0, "delta": 1e-8, "warn_at": 0.8, "rho": 1.0},
    "gate": {
        "max_increase": 0.5,
        "horizon": {"epsilon": 900.0, "runs": 3},
        "waiver": [{"rule": "DP105", "reason": "r", "approver": "ada", "expires": datetime.date(2031, 1, 2)}],
    },
    "mechanism": [{"name": "train", "type": "gaussian", "noise_multiplier": 40.0, "steps": 9}],
}
TYPES: dict[str, dict[str, Any]] = {kind: dict(load(target).example) for kind, target in MECHANISM_TYPES.registry.items()}


def put(document: Document, path: tuple[str, ...], value: Any) -> Document:
    """Return the document with this value at the path."""
    head, *rest = path
    inner = document.get(head, {})
    return {**document, head: put(inner, tuple(rest), value) if rest else value}


def with_mechanism(kind: str, keys: dict[str, Any]) -> Document:
    """Return `BASE` with a mechanism of this type instead of its own, and with the part that the mechanism names."""
    part = [{"name": "part", "type": "gaussian", "noise_multiplier": 50.0}] if "mechanism" in "".join(keys) else []
    adjacency = "replace-one" if kind in ("randomized-response", "shuffled-reports") else "add-remove"
    return {**put(BASE, ("privacy", "adjacency"), adjacency), "mechanism": [*part, {"name": "train", "type": kind, **keys}]}


def text_of(document: Document) -> str:
    return written(document).decode()


_committed: dict[Path, str] = {}  # the file on the main branch of each repository, so that an equal file is not committed again


def judged(folder: Path, before: Document, after: Document | str, format_: str = "jsonl") -> tuple[int, str]:
    """Return the exit code and the output of the gate on a change of the only file of a repository, from `before` to `after`."""
    file, text = folder / "train.toml", text_of(before)
    if _committed.get(folder) != text:
        file.write_text(text)
        git(folder, "add", ".")
        git(folder, "commit", "-qm", "base")
        _committed[folder] = text
    file.write_text(after if isinstance(after, str) else text_of(after))
    result = dpcli("gate", "train.toml", "--base-ref", "main", "-f", format_, "--as-of", "2030-01-01", folder=folder)
    return result.code, result.out + result.err
