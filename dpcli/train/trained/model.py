"""What was trained, loaded again: a torch module with what it takes to ask it something."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import nn

from dpcli.errors import InputError
from dpcli.train.plan.settings import Train
from dpcli.train.run.description import Description
from dpcli.train.tasks.learning import Metrics
from dpcli.train.trained.answers import ModelInput, Predictions


@dataclass(frozen=True, slots=True)
class TrainedModel(ABC):
    """The model of a private run, as `dpcli.load_model` finds it.

    module: in evaluation mode, on the CPU, with the run's weights. train: the run's [train] table. description: what the run says of
    itself; `description.guarantee` has epsilon (an upper bound, None where the run was NOT PRIVATE), delta, unit and adjacency. What is
    computed from the module alone is post-processing and costs nothing more; what is computed from private records, such as a metric, is
    not covered.
    """

    module: nn.Module
    train: Train
    description: Description

    @abstractmethod
    def answers(self, asked: ModelInput) -> Predictions:
        """What the model says of each record or prompt. Raises InputError where it cannot be asked that."""

    @abstractmethod
    def measured(self, source: str, path: str) -> Metrics:
        """The task's metric on labelled data. Raises InputError where they cannot be read.

        path: of the file in whose [train] they are named; "" where a user names them.
        """


def refused(train: Train, what: str) -> InputError:
    """What a task does not do."""
    return InputError(f'{what}: expected a run of another task, found task = "{train.task}": use dpcli.load_model in Python')
