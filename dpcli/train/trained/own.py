"""The trained model of a custom task, which is the user's own torch module.

dpcli can only measure it, by the user's own metric. The module of a run of `dpcli.private` (task = "loop") is refused, because no file says
how to build it. `place_of` gives the path that a training file would have in the folder where the user's code lies now.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

from torch import nn

from dpcli.base.errors import InputError
from dpcli.train.plan.settings_custom import Custom, Loop
from dpcli.train.run.description import Description
from dpcli.train.run.outcome import MODEL
from dpcli.train.tasks.custom import measure_of
from dpcli.train.tasks.learning import Metrics
from dpcli.train.tasks.user_code import public_result
from dpcli.train.trained.trained_model import ModelInput, Predictions, TrainedModel, place_of


@dataclass(frozen=True, slots=True, repr=False)
class OwnModel(TrainedModel):
    """A trained module of the user's own. dpcli does not know the meaning of its outputs, so `answers` always raises InputError."""

    train: Custom

    def answers(self, question: ModelInput) -> Predictions:
        raise InputError(
            f'predict: expected the task classification or a language task, found "{self.train.task}": use dpcli.load_model in Python'
        )

    def measured(self, source: str, path: str) -> Metrics:
        if self.train.metric is None:
            raise InputError(f"{self.description.folder}: train.metric: the file names no function that computes metrics")
        place = place_of(self.description, self.train.metric)
        if path:  # the file names the data
            return measure_of(self.train, path, self.module)()
        if ":" not in source:
            raise InputError(f"{source}: expected module:function, which returns records for {self.train.metric}")
        return measure_of(replace(self.train, public=source), place, self.module)()


def own_model(train: Custom, description: Description) -> OwnModel:
    """Return an OwnModel of the module that the function in [train] builds. Raises InputError if the result is not a module."""
    module = public_result(train.model, place_of(description, train.model))
    if not isinstance(module, nn.Module):
        raise InputError(f"{description.folder}: {train.model}: expected a torch module, found {type(module).__name__}")
    return OwnModel(module, train, description)


def refuse_loop(train: Loop, description: Description) -> NoReturn:
    """Raise InputError, because the file of a run of dpcli.private does not say how its module was built."""
    raise InputError(
        f"{description.folder}: expected a run whose file names its model, found one of dpcli.private: build the module as for training, "
        f"then call safetensors.torch.load_model(module, {description.path(MODEL)!r}, strict=False)"
    )
