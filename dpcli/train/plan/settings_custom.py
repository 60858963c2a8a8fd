"""The keys of [train] with task = "custom", and with task = "loop": a loop of the caller's own, which dpcli.private makes private."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar

from dpcli.base.fields import Constraint, Key, Reader
from dpcli.train.plan.settings import TASK, Train
from dpcli.train.plan.settings_classification import Images
from dpcli.train.plan.sources import FUNCTION

METRIC = Reader("metric", lambda train: train.metric is not None)
PUBLIC = Reader("public", lambda train: train.public is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Custom(Images):
    """Records, a model and a loss that are functions of your own."""

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
    data: Annotated[str, Key("() -> the private records", FUNCTION)]
    model: Annotated[str, Key("() -> a torch module, which is trained", FUNCTION, varies=True)]
    loss: Annotated[str, Key("(model, batch) -> one loss per record", FUNCTION, varies=True)]
    metric: Annotated[str | None, Key("(model, public batch) -> metrics by name", FUNCTION, reader=PUBLIC)] = None
    canary: Annotated[
        str | None, Key("(count, generator) -> records that nobody owns, for [audit] canaries", FUNCTION, varies=True)
    ] = None
    public: Annotated[str | None, Key("() -> records declared public, which metric is given", FUNCTION, reader=METRIC)] = None


CALLERS = "the caller's"
GIVEN = Constraint('"the caller\'s"', lambda x: x == CALLERS, (("const", CALLERS),))
# Keys about the use of the noisy gradient, which is up to the caller's optimizer.
OPTIMIZER_KEYS = ("learning_rate", "schedule", "optimizer", "momentum", "weight_decay", "moment_floor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop(Train):
    """A model, an optimizer, a loss and records that a Python program hands to dpcli.private."""

    build: ClassVar[str] = "dpcli.train.tasks.custom:refuse"
    use: ClassVar[str] = "dpcli.train.trained.own:of_a_loop"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"data": CALLERS, "model": CALLERS, "public": CALLERS},)

    task: Annotated[str, TASK] = "loop"
    data: Annotated[str, Key("what dpcli.private is given", GIVEN)] = CALLERS
    model: Annotated[str, Key("what dpcli.private is given", GIVEN, varies=True)] = CALLERS
    learning_rate: Annotated[float, Key("of the caller's optimizer: not stated in the file", varies=True)] = 1.0
    public: Annotated[str | None, Key("data that the caller declares public: nothing of them is measured", GIVEN)] = None

    def optimizer_keys(self) -> Iterator[str]:
        """Yield the keys of the file that are up to the caller's optimizer."""
        defaults = {field.name: field.default for field in fields(self)}
        return (name for name in OPTIMIZER_KEYS if getattr(self, name) != defaults[name])
