"""What was trained, loaded again: a torch module with what it takes to ask it something."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.base.displayed import Displayed
from dpcli.base.errors import InputError
from dpcli.base.rounding import up
from dpcli.train.plan.settings import Train
from dpcli.train.run.description import Description
from dpcli.train.trained.answers import ModelInput, Predictions

if TYPE_CHECKING:
    from torch import nn

    from dpcli.train.tasks.learning import Metrics


@dataclass(frozen=True, slots=True, repr=False)
class TrainedModel(Displayed, ABC):
    """The model of a private run, as `dpcli.load_model` finds it.

    module: in evaluation mode, on the CPU, with the run's weights. train: the run's [train] table. description: what the run says of
    itself; `description.guarantee` has epsilon (an upper bound, None where the run was NOT PRIVATE), delta, unit and adjacency. What is
    computed from the module alone is post-processing and costs nothing more; what is computed from private records, such as a metric, is
    not covered.
    """

    module: nn.Module
    train: Train
    description: Description

    def _line(self) -> str:
        guarantee = self.description.guarantee
        epsilon = guarantee.get("epsilon")
        held = "NOT PRIVATE" if epsilon is None else f"epsilon <= {up(float(epsilon))} at delta = {guarantee.get('delta')!r}"
        return f"{held}, task: {self.train.task}, run: {self.description.folder!r}"

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
