"""What a format states about itself: whether CI systems read a verdict from it (JUDGES), and which endings of a path mean it (ENDINGS)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpcli.registry import FORMATS, load


def judges(name: str) -> bool:
    """Whether an empty report in this format would be read as a pass."""
    return bool(_stated(name, "JUDGES"))


def meant_by(path: str, names: Sequence[str]) -> str | None:
    """The one of some formats that a path's ending means; None where it means none of them."""
    endings = {ending: name for name in names for ending in _stated(name, "ENDINGS")}
    return next((name for ending, name in endings.items() if path.lower().endswith(ending)), None)


def _stated(name: str, what: str) -> Any:
    return load(f"{FORMATS[name].partition(':')[0]}:{what}")
