"""What a trained model is worth, by the task's own metric."""

from __future__ import annotations

from dataclasses import dataclass

from dpcli.base.errors import InputError
from dpcli.train.plan.sources import HELD_OUT
from dpcli.train.run.description import Description
from dpcli.train.tasks.learning import Metrics
from dpcli.train.trained.loading import load_model
from dpcli.train.trained.places import place_of


@dataclass(frozen=True, slots=True)
class ModelEvaluation:
    """declared: whether the data are those that the training file declares public, and not some that a user names."""

    description: Description
    metrics: Metrics
    source: str
    declared: bool


def evaluate(run: str, source: str | None) -> ModelEvaluation:
    """The task's metric of a run's model, the headline first.

    Args:
        source: labelled data: digits, a file, or module:function; None for those that the training file declares public.

    Raises InputError where there are none, or they cannot be read.
    """
    model = load_model(run)
    if source is not None:
        return ModelEvaluation(model.description, model.measured(source, ""), source, False)
    public = model.train.public
    if public is None:
        raise InputError(f"{run}: train.public: expected data declared public, found none: name some, dpcli evaluate RUN DATA")
    place = place_of(model.description, model.train.data if public == HELD_OUT else public)
    return ModelEvaluation(model.description, model.measured(public, place), public, True)
