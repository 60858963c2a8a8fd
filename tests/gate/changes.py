"""A pipeline that states every term, a change of it, and what the gate says of the change."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from dpcli.pipeline.families import MECHANISMS
from dpcli.registry import load
from tests.command import dpcli
from tests.gate.repositories import git
from tests.inline import toml

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
TYPES: dict[str, dict[str, Any]] = {kind: dict(load(target).example) for kind, target in MECHANISMS.registry.items()}


def put(document: Document, path: tuple[str, ...], value: Any) -> Document:
    head, *rest = path
    inner = document.get(head, {})
    return {**document, head: put(inner, tuple(rest), value) if rest else value}


def text_of(document: Document) -> str:
    return "".join(f"{key} = {toml(value)}\n" for key, value in document.items())


def judged(folder: Path, before: Document, after: Document | str) -> tuple[int, str]:
    """What the gate prints of a change, in its table."""
    (folder / "train.toml").write_text(text_of(before))
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "base", "--allow-empty")
    (folder / "train.toml").write_text(after if isinstance(after, str) else text_of(after))
    result = dpcli("gate", "train.toml", "--base-ref", "main", "-f", "jsonl", "--as-of", "2030-01-01", folder=folder)
    return result.code, result.out + result.err
