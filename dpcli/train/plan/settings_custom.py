"""What [train] may state of task = "custom"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from dpcli.base.fields import Key, Reader
from dpcli.train.plan.settings import TASK
from dpcli.train.plan.settings_images import Images
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
