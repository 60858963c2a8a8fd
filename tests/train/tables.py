"""Valid [train] tables of every task, and the JSON Schema of pipeline files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from dpcli.base.lazy import load
from dpcli.file.keys.annotations import members_of
from dpcli.file.pipeline.key_places import json_schema
from dpcli.train.plan.settings import Train
from dpcli.train.plugin import TASKS
from tests.inline import toml

Table = Mapping[str, Any]
SCHEMA = Draft202012Validator(json_schema())
HEAD = """format = 1
[privacy]
unit = "example"
adjacency = "add-remove"
dataset_size = 1_437
delta = 1e-5
[[mechanism]]
name = "sgd"
type = "gaussian"
noise_multiplier = 2.0
steps = 10
[[mechanism]]
name = "train"
type = "gaussian"
noise_multiplier = 2.0
[train]
"""
BASE = {"learning_rate": 1.0, "clipping": {"norm": 1.0}}
CLASSES: dict[str, type[Train]] = {task: load(target) for task, target in TASKS.items()}
PLAIN = {  # the required keys of each task
    task: {key: value for key, value in cls.examples[0].items() if members_of(cls)[key].required} for task, cls in CLASSES.items()
}


def table(task: str, extra: Table | None = None) -> str:
    """Return a valid [train] table of a task, with some keys added or replaced."""
    return lines({"task": task, **PLAIN[task], **BASE, **(extra or {})})


def lines(keys: Table) -> str:
    return "".join(f"{key} = {toml(value)}\n" for key, value in keys.items())
