"""A trained classifier of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from dpcli.base.errors import InputError
from dpcli.train.plan.settings_classification import Classification
from dpcli.train.run.description import Description
from dpcli.train.tasks.arrays import Arrays, arrays, inputs_of, table_in
from dpcli.train.tasks.classification import measure_of, model_of, require_scores, scores_of
from dpcli.train.tasks.encoding import encoded
from dpcli.train.tasks.learning import Metrics
from dpcli.train.trained.answers import ModelInput, Predictions, classified
from dpcli.train.trained.inputs import inputs_in
from dpcli.train.trained.model import TrainedModel
from dpcli.train.trained.places import place_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, repr=False)
class Classifier(TrainedModel):
    """shape: of one record's inputs. classes: how many labels there are."""

    train: Classification
    shape: tuple[int, ...]
    classes: int

    def probabilities(self, inputs: Any, place: str = "inputs") -> NDArray[np.float64]:
        """Of each label, (n, classes), in the declared order, from raw inputs.

        Args:
            inputs: (n, ...), of which the run's shift is taken off here; or, where the run declares columns, a table of raw values by
                column, such as {"age": [39, 50], "state": ["CA", "NY"]} or a data frame, which is encoded here as in training. An array
                is then what such a table becomes: the inputs that the run's description names, within [-1, 1].

        Raises:
            InputError: inputs of another shape, with a number that is not finite, or with a value that has no declared meaning.
        """
        if hasattr(inputs, "keys"):
            inputs = self._encoded(inputs, place)
        found = self._as_trained(inputs_of(inputs, self.train.shift, place), place)
        scores = scores_of(self.module, torch.from_numpy(found))
        probabilities: NDArray[np.float64] = torch.softmax(scores.double(), 1).numpy()
        return probabilities

    def _encoded(self, table: Any, place: str) -> NDArray[np.float32]:
        if self.train.columns is None:
            raise InputError(f"{place}: expected an array, as the run declares no columns, found a table")
        return encoded({name: list(table[name]) for name in self.train.columns if name in table}, self.train, place)

    def _as_trained(self, inputs: NDArray[Any], place: str) -> NDArray[Any]:
        if inputs.shape[1:] != self.shape:
            raise InputError(f"{place}: expected records of shape {self.shape}, as in training, found {inputs.shape[1:]}")
        if self.train.columns is not None and (np.abs(inputs) > 1).any():
            raise InputError(
                f"{place}: expected inputs within [-1, 1], as train.columns makes them, found others: give raw values by their columns"
            )
        return inputs

    def answers(self, asked: ModelInput) -> Predictions:
        source = asked.one_source()
        labels = None if self.train.labels is None else list(self.train.labels)
        return classified(
            self.probabilities(inputs_in(source, self.train, self.shape, self.description.rows), source).tolist(), labels
        )

    def measured(self, source: str, path: str) -> Metrics:
        if path:
            return measure_of(self.module, arrays(self.train, path, self.description.rows))()
        found = table_in(source, self.train, self.classes, self.description.rows)
        inputs = self._as_trained(found.inputs, source)
        return measure_of(self.module, Arrays(inputs, found.labels, inputs, found.labels, self.classes))()


def classifier(train: Classification, description: Description) -> Classifier:
    """The model that [train] names, for the inputs that the run describes. Raises InputError where it cannot be had."""
    shape, classes = description.shape("inputs"), description.number("classes")
    place = place_of(description, train.model)
    module = model_of(train, shape, classes, place)
    require_scores(module, shape, classes, place)
    return Classifier(module, train, description, shape, classes)
