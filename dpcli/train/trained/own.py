"""A trained model of the user's own, whose outputs mean what the user says."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

from torch import nn

from dpcli.base.errors import InputError
from dpcli.train.plan.settings_custom import Custom
from dpcli.train.plan.settings_loop import Loop
from dpcli.train.run.description import Description
from dpcli.train.run.outcome import MODEL
from dpcli.train.tasks.custom import measure_of
from dpcli.train.tasks.learning import Metrics
from dpcli.train.tasks.user_code import result
from dpcli.train.trained.answers import ModelInput, Predictions
from dpcli.train.trained.model import TrainedModel, refused
from dpcli.train.trained.places import place_of


@dataclass(frozen=True, slots=True, repr=False)
class OwnModel(TrainedModel):
    """Its module, and nothing that dpcli knows of its outputs."""

    train: Custom

    def answers(self, asked: ModelInput) -> Predictions:
        raise refused(self.train, "predict")

    def measured(self, source: str, path: str) -> Metrics:
        if self.train.metric is None:
            raise InputError(f"{self.description.folder}: train.metric: expected the function that measures, found none")
        place = place_of(self.description, self.train.metric)
        if not path and ":" not in source:
            raise InputError(
                f"{source}: expected module:function, which returns records for {self.train.metric}, found something else"
            )
        train = self.train if path else replace(self.train, public=source)
        return measure_of(train, path or place, self.module)()


def own_model(train: Custom, description: Description) -> OwnModel:
    """What the function returns that [train] names. Raises InputError where it is no module."""
    found = result(train.model, place_of(description, train.model))
    if not isinstance(found, nn.Module):
        raise InputError(f"{description.folder}: {train.model}: expected a torch module, found {type(found).__name__}")
    return OwnModel(found, train, description)


def of_a_loop(train: Loop, description: Description) -> NoReturn:
    """Raises InputError: the file does not say how the module was built."""
    raise InputError(
        f"{description.folder}: expected a run whose file names its model, found one of dpcli.private: build the module as you did then, "
        f"and put safetensors.torch.load_file({description.path(MODEL)!r}) into it"
    )
