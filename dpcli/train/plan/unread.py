"""Keys of [train] that the task or another key makes idle: whoever states one believes that it does something."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from dpcli.toml.shown import shown

LANGUAGE = frozenset({"tokenizer", "context", "text", "soft_prompt", "held_out"})

# Of each task, the keys that it reads and that some other does not; all other keys are read beside every task.
READS: dict[str, frozenset[str]] = {
    "classification": frozenset({"classes", "shift", "label", "hidden", "held_out"}),
    "causal-lm": LANGUAGE | {"record", "token_loss", "lora"},
    "soft-prompt": LANGUAGE | {"label", "labels", "verbalizers", "template"},
    "custom": frozenset({"loss", "metric", "canary"}),
}
SPECIFIC = frozenset().union(*READS.values())
TABULAR = frozenset({".csv", ".jsonl", ".parquet"})  # files with columns, whose names are keys


class Style(Protocol):
    """How gradients are clipped."""

    @property
    def style(self) -> str: ...


class UnreadTable(Protocol):
    """What decides of [train] which of its keys are read."""

    @property
    def task(self) -> str: ...

    @property
    def data(self) -> str: ...

    @property
    def public(self) -> str | None: ...

    @property
    def model(self) -> str: ...

    @property
    def optimizer(self) -> str: ...

    @property
    def record(self) -> str: ...

    @property
    def clipping(self) -> Style: ...


@dataclass(frozen=True, slots=True)
class Idle:
    """A key, what alone reads it, and whether the file has that."""

    path: tuple[str, ...]
    reader: str
    reads: Callable[[UnreadTable], bool]


def unread(train: UnreadTable) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Each key that is not at its default and that nothing reads, as (path, expected, found).

    Edge cases: a stated value that is the default passes, as it says what holds anyway.
    """
    foreign = sorted(SPECIFIC - READS[train.task])
    for name in foreign:
        if _stated(train, (name,)):
            yield (name,), f'no such key with task = "{train.task}", which does not read it', _shown(getattr(train, name))
    for idle in IDLE:
        if idle.path[0] not in foreign and _stated(train, idle.path) and not idle.reads(train):
            value: Any = train
            for name in idle.path:
                value = getattr(value, name)
            yield idle.path, f"no such key without {idle.reader}, which alone reads it", _shown(value)


def _stated(table: Any, path: tuple[str, ...]) -> bool:
    """Whether the key has another value than where it is absent."""
    name, *rest = path
    if rest:
        return _stated(getattr(table, name), tuple(rest))
    (field,) = (field for field in dataclasses.fields(table) if field.name == name)
    return bool(getattr(table, name) != field.default)


def _shown(value: Any) -> str:
    return "a table" if dataclasses.is_dataclass(value) else shown(list(value) if type(value) is tuple else value)


def _of_style(style: str) -> tuple[str, Callable[[UnreadTable], bool]]:
    return f'style = "{style}"', lambda train: train.clipping.style == style


def _columns(train: UnreadTable) -> bool:
    """Whether some of the data are in a file with columns."""
    return any(os.path.splitext(source)[1] in TABULAR for source in (train.data, train.public or ""))


def _cut(train: UnreadTable) -> bool:
    """Whether the private records are made as `record` says: a file with columns and a function have records of their own."""
    return train.record == "window" or os.path.splitext(train.data)[1] == ".txt"


IDLE = (
    Idle(("hidden",), 'model = "mlp"', lambda train: train.model == "mlp"),
    Idle(("momentum",), 'optimizer = "sgd"', lambda train: train.optimizer == "sgd"),
    Idle(("held_out",), 'public = "held-out"', lambda train: train.public == "held-out"),
    Idle(("metric",), "public", lambda train: train.public is not None),
    Idle(("label",), "data in a file with columns", _columns),
    Idle(("text",), "data in a file with columns", _columns),
    Idle(("record",), "data in a .txt file", _cut),
    Idle(("clipping", "gamma"), *_of_style("automatic")),
    Idle(("clipping", "quantile"), *_of_style("adaptive")),
    Idle(("clipping", "quantile_noise"), *_of_style("adaptive")),
    Idle(("clipping", "quantile_rate"), *_of_style("adaptive")),
)
