"""Files of dpcli that are no pipelines: by which keys each is told, so that whoever is given one by mistake can say what it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpcli.base.lazy import load
from dpcli.base.registry import FILES
from dpcli.file.pipeline.document import OF_PIPELINES, TOP, is_pipeline
from dpcli.file.toml.suggest import closest

POLICY = "a policy, which dpcli gate reads as --policy"
SCHEDULE = "a schedule of runs, which dpcli budget plan reads"


def _policies() -> Mapping[str, Any]:
    """The keys of a policy; none where there is no gate."""
    return load(FILES["policy"][0]) if "policy" in FILES else {}


def is_policy(tables: Mapping[str, Any]) -> bool:
    """Whether a file is a policy of the gate: it has a key that only policies have, or nearly one, and none that only pipelines have."""
    own = [key for key in tables if key != "format"]
    return bool(own) and TOP.keys().isdisjoint(own) and any(closest(key, _policies()) for key in own)


def is_schedule(tables: Mapping[str, Any]) -> bool:
    """Whether a file is a schedule of planned runs: it has their tables, and no key that only pipelines have."""
    return "run" in tables and TOP.keys().isdisjoint(key for key in tables if key != "format")


def other_file(tables: Mapping[str, Any]) -> str | None:
    """What a file is that is no pipeline, and which command reads it; None where it may be a pipeline, however it is spelt.

    Without a format, which other programs' files do not state either, all keys have to be a policy's, or those of a schedule.
    """
    policies = _policies()
    own = [key for key in tables if key != "format"]
    if any(key not in policies and key != "run" and closest(key, TOP) for key in own):
        return None  # a pipeline whose keys are spelt wrong
    if is_schedule(tables) and ("format" in tables or (own == ["run"] and type(tables["run"]) is list)):
        return SCHEDULE
    return POLICY if is_policy(tables) and ("format" in tables or policies.keys() >= {*own}) else None


def misspelt_pipeline(tables: Mapping[str, Any]) -> bool:
    """Whether a file that states a format has a pipeline's tables with each of their names spelt wrong, and is nothing else."""
    near = type(tables.get("format")) is int and any(closest(key, OF_PIPELINES) for key in tables)
    return near and not is_pipeline(tables) and other_file(tables) is None


def instead_of_policy(tables: Mapping[str, Any]) -> str | None:
    """What a file is that was given as a policy and has no key of one; None where it may be a policy, whatever its faults."""
    if any(key in _policies() for key in tables if key != "format"):
        return None
    return "a pipeline" if is_pipeline(tables) else SCHEDULE if is_schedule(tables) else None
