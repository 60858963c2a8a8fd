"""Texts of pipeline files with [federated], for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpcli.file.toml.write import value_text

PRIVACY: dict[str, Any] = {
    "unit": "client",
    "adjacency": "zero-out",
    "max_contributions": 1,
    "dataset_size": 100,
    "delta": 1e-6,
    "releases": "all-checkpoints",
}
ENTRY: dict[str, Any] = {"name": "rounds", "type": "gaussian", "noise_multiplier": 2.0, "steps": 30}
TABLE: dict[str, Any] = {"sampling": "none", "noise": "server"}


def file(
    table: Mapping[str, Any] | None = None,
    entry: Mapping[str, Any] | None = None,
    privacy: Mapping[str, Any] | None = None,
    more: str = "",
) -> str:
    """Return the text of a file with the given keys and usual values for all others. A key that is None is left out.

    If `table` is None, the file has no [federated].
    """
    parts = [
        'format = 1\nname = "fed"',
        _written("[privacy]", {**PRIVACY, **(privacy or {})}),
        _written("[[mechanism]]", {**ENTRY, **(entry or {})}),
    ]
    if table is not None:
        parts.append(_written("[federated]", {**TABLE, **table}))
    return "\n".join([*parts, more])


def _written(head: str, values: Mapping[str, Any]) -> str:
    return "\n".join([head, *(f"{key} = {value_text(value)}" for key, value in values.items() if value is not None)])
