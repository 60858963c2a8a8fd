"""The interface of trained models, with their inputs and their answers. This module does not import torch.

loading.py loads it from the folder of a run. A `TrainedModel` answers about records or prompts (`answers`, for `dpcli predict`) and
measures itself on labelled data (`measured`, for `dpcli evaluate`). The *description* of a run (model.json, run/description.py) holds its
guarantee and facts about its model. Each task has its own: classifier.py, language.py and own.py. A metric on private data would be another
release, and nothing here charges or refuses it.
"""

from __future__ import annotations

import io
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.base.displayed import Displayed
from dpcli.base.errors import InputError, Unavailable
from dpcli.train.plan.settings import Train
from dpcli.train.run.description import Description
from dpcli.train.run.outcome import PIPELINE, epsilon_at_delta

if TYPE_CHECKING:
    from torch import nn

    from dpcli.train.tasks.learning import Metrics


Answer = str | float | int


@dataclass(frozen=True, slots=True)
class ModelInput:
    """Inputs for which a trained model gives answers.

    Attributes:
        source: "digits", a file or module:function; None if there are only prompts.
        prompts: Texts that a language model continues or classifies.
        tokens: Largest number of tokens of generated text.
        temperature: Temperature of generated text.
        seed: Seed of generated text; None for random text.
    """

    source: str | None
    prompts: tuple[str, ...] = ()
    tokens: int = 64
    temperature: float = 1.0
    seed: int | None = None

    def one_source(self) -> str:
        """Return the source of records for a model that reads no text. Raises InputError if there are prompts."""
        if self.source is None or self.prompts:
            raise InputError("--prompt: expected DATA, because the model reads numbers and no text, found a prompt")
        return self.source


@dataclass(frozen=True, slots=True)
class Predictions:
    """The answers of a model. There is a row for each record or prompt, in their order."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Answer, ...], ...]


def label_predictions(probabilities: list[list[float]], labels: list[str] | None) -> Predictions:
    """Return the most probable label of each record, and the probability of every label.

    Args:
        probabilities: Probability of each label, for each record.
        labels: Names of the labels; None if labels are numbers.
    """
    width = len(probabilities[0]) if probabilities else 0
    columns = ("row", "label", "probability", *(f"p_{number}" for number in range(width)))
    rows = []
    for place, row in enumerate(probabilities, 1):
        best = max(range(width), key=row.__getitem__)
        rows.append((place, best if labels is None else labels[best], row[best], *row))
    return Predictions(columns, tuple(rows))


@dataclass(frozen=True, slots=True, repr=False)
class TrainedModel(Displayed, ABC):
    """The trained model of a private run; `dpcli.load_model` returns it.

    Computations from the module alone are post-processing and cost nothing more. The guarantee does not cover computations from private
    records, such as a metric.

    Attributes:
        module: Torch module with the run's weights, in evaluation mode on the CPU.
        train: [train] table of the run.
        description: Description of the run. `description.guarantee` has epsilon, delta, unit and adjacency. Its epsilon is an upper bound,
            or None if the run was NOT PRIVATE.
    """

    module: nn.Module
    train: Train
    description: Description

    def _line(self) -> str:  # the text that `repr` shows (base/displayed.py)
        guarantee = self.description.guarantee
        epsilon = guarantee.get("epsilon")
        words = "NOT PRIVATE" if epsilon is None else epsilon_at_delta(float(epsilon), guarantee["delta"])
        return f"{words}, task: {self.train.task}, run: {self.description.folder!r}"

    @abstractmethod
    def answers(self, question: ModelInput) -> Predictions:
        """Return the model's answer to each record or prompt. Raises InputError if it cannot answer."""

    @abstractmethod
    def measured(self, source: str, path: str) -> Metrics:
        """Return the metrics of the task on labelled data. Raises InputError if the data cannot be read.

        Args:
            source: "digits", a file or module:function.
            path: Path of the training file if its [train] table names the source, so that the source is relative to it; "" if the user
                names the source on the command line.
        """


def parquet_of(answers: Predictions) -> bytes:
    """Return all rows and columns as the bytes of a parquet file. Raises Unavailable if pyarrow is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise Unavailable("--parquet: needs pyarrow: pip install pyarrow") from None
    columns = {name: [row[number] for row in answers.rows] for number, name in enumerate(answers.columns)}
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), buffer)
    return buffer.getvalue()


def place_of(description: Description, source: str) -> str:
    """Return the path that a training file would have in the first folder with the source, so that a relative source is found there.

    The folders are the run's folder, the folder of the training file, and the current folder. If none contains the source, the path is in
    the run's folder. Readers of [train] take the path in place of the training file's own, which may no longer exist.
    """
    folders = (description.folder, description.path(description.origin), os.getcwd())
    folder = next((folder for folder in folders if _holds(folder, source)), description.folder)
    return os.path.join(folder, PIPELINE)


def _holds(folder: str, source: str) -> bool:
    """Return whether a folder contains a file, or the module of a function."""
    module, colon, _ = source.partition(":")
    if not colon:
        return os.path.exists(os.path.join(folder, source))
    package = os.path.join(folder, module.split(".")[0])
    return os.path.isfile(f"{package}.py") or os.path.isdir(package)
