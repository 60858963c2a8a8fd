"""The keys of [train] whose model and data are the user's own code.

With task = "custom", the table names functions, which `dpcli train` calls (tasks/custom.py). With task = "loop", the user's program passes
the objects themselves to `dpcli.private` (loop/private.py), so the keys `data` and `model` have a fixed value that says so (`CALLERS`).

The fields of a class are keys. A `Key` annotates a field with its meaning and a `Constraint` on its value (base/fields.py). `varies` marks
a key in which the runs of a sweep may differ, and `needs` is a `NeededSetting`, without which the key has no effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar

from dpcli.base.fields import Constraint, Key, NeededSetting
from dpcli.train.plan.settings import TASK, Train
from dpcli.train.plan.settings_classification import Images
from dpcli.train.plan.sources import FUNCTION

METRIC = NeededSetting("metric", lambda train: train.metric is not None)
PUBLIC = NeededSetting("public", lambda train: train.public is not None)

CALLERS = "the caller's"
GIVEN = Constraint('"the caller\'s"', lambda x: x == CALLERS, (("const", CALLERS),))
# Keys of the optimizer. With dpcli.private, the caller's program creates the optimizer.
OPTIMIZER_KEYS = ("learning_rate", "schedule", "optimizer", "momentum", "weight_decay", "moment_floor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Custom(Images):
    """Training whose records, model and loss are functions of your own."""

    # `Train` in settings.py explains the class variables.
    build: ClassVar[str] = "dpcli.train.tasks.custom:build"
    use: ClassVar[str] = "dpcli.train.trained.own:own_model"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {
            "data": "own:records",
            "model": "own:model",
            "loss": "own:loss",
            "metric": "own:metric",
            "public": "own:public",
            "canary": "own:canary",
            "augmentations": 4,
            "augment": {"flip": True},
        },
    )

    task: Annotated[str, TASK] = "custom"
    data: Annotated[str, Key("function () -> the private records", FUNCTION)]
    model: Annotated[str, Key("function () -> the torch module to train", FUNCTION, varies=True)]
    loss: Annotated[str, Key("function (model, batch) -> one loss per record", FUNCTION, varies=True)]
    metric: Annotated[str | None, Key("function (model, public batch) -> metrics by name", FUNCTION, needs=PUBLIC)] = None
    canary: Annotated[
        str | None, Key("function (count, generator) -> synthetic records, for the canaries of [audit]", FUNCTION, varies=True)
    ] = None
    public: Annotated[
        str | None, Key("function () -> records declared public, which are passed to metric", FUNCTION, needs=METRIC)
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop(Train):
    """Training in a Python program, which passes a model, an optimizer, a loss and records to dpcli.private."""

    build: ClassVar[str] = "dpcli.train.tasks.custom:refuse"
    use: ClassVar[str] = "dpcli.train.trained.own:refuse_loop"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"data": CALLERS, "model": CALLERS, "public": CALLERS},)

    task: Annotated[str, TASK] = "loop"
    data: Annotated[str, Key("records that the program passes to dpcli.private", GIVEN)] = CALLERS
    model: Annotated[str, Key("model that the program passes to dpcli.private", GIVEN, varies=True)] = CALLERS
    learning_rate: Annotated[float, Key("learning rate; the caller's optimizer sets it, not the file", varies=True)] = 1.0
    public: Annotated[str | None, Key("data that the caller declares public; no metrics are measured on them", GIVEN)] = None

    def optimizer_keys(self) -> Iterator[str]:
        """Yield the keys in the file that belong to the optimizer, which the caller's program creates."""
        defaults = {field.name: field.default for field in fields(self)}
        return (name for name in OPTIMIZER_KEYS if getattr(self, name) != defaults[name])
