"""Files of dpcli that are no pipelines: by which keys each is told, so that whoever is given one by mistake can say what it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpcli.pipeline.document import TOP
from dpcli.registry import POLICY_KEYS, load
from dpcli.toml.suggest import closest


def is_policy(tables: Mapping[str, Any]) -> bool:
    """Whether a file is a policy of the gate: it has a key that only policies have, or nearly one, and none that only pipelines have."""
    own = [key for key in tables if key != "format"]
    return bool(own) and TOP.keys().isdisjoint(own) and any(closest(key, load(POLICY_KEYS)) for key in own)


def is_schedule(tables: Mapping[str, Any]) -> bool:
    """Whether a file is a schedule of planned runs: it has their tables, and no key that only pipelines have."""
    return "run" in tables and TOP.keys().isdisjoint(key for key in tables if key != "format")


def other_file(tables: Mapping[str, Any]) -> str | None:
    """What a file is that states a format and is no pipeline, and which command reads it; None where it may be a pipeline."""
    if "format" not in tables:
        return None
    if is_schedule(tables):
        return "a schedule of runs, which dpcli budget plan reads"
    return "a policy, which dpcli gate reads as --policy" if is_policy(tables) else None
