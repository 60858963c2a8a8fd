"""The trained model of a classification task, and readers of the records that it classifies.

The readers differ from those of training (tasks/array_files.py): here the records have no labels or owners, or they are ignored. `place` is
the source of the records, with which messages begin; `shape` is the shape of one record's inputs. `rows` is the window, some blocks of a
ledger, to which the training records were restricted; the column that decides the block is not an input. `place_of` gives the path that a
training file would have in the folder where the code of the model lies now.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from dpcli.base.errors import InputError
from dpcli.ledger.blocks.rows import RowWindow
from dpcli.train.plan.settings_classification import DIGITS, Classification
from dpcli.train.run.description import Description
from dpcli.train.tasks.array_files import arrays, arrays_in, digits, inputs_of, labelled_records
from dpcli.train.tasks.classification import measure_of, model_of, require_scores, scores_of
from dpcli.train.tasks.encoding import encode_columns
from dpcli.train.tasks.files import column_table
from dpcli.train.tasks.learning import Metrics
from dpcli.train.tasks.user_code import private_result
from dpcli.train.trained.trained_model import ModelInput, Predictions, TrainedModel, label_predictions, place_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


def inputs_in(source: str, train: Classification, shape: tuple[int, ...], rows: RowWindow | None = None) -> Any:
    """Return the inputs of the records in a source, of shape (n, ...).

    The inputs are the array `inputs` of a .npz file, or the columns of a .csv or .parquet file that [train.columns] declares. If it
    declares none, all columns are inputs, except for the label, the unit and the column of the ledger's blocks. They must be in the order
    of the training data, because their names are not compared. If the training file names no label, and there is one column more than the
    model reads, the last one is taken for the label and left out.

    Args:
        source: "digits", the path of a file, or module:function.

    Raises:
        InputError: The records cannot be read.
    """
    ending = os.path.splitext(source)[1]
    if source == DIGITS:  # the bundled images
        return digits(source).inputs
    if ending in READERS:
        if not os.path.isfile(source):
            raise InputError(f"{source}: no such file")
        return READERS[ending](source, train, shape, None if rows is None else rows.column)
    if ":" in source:
        result = private_result(source, source)
        has_labels = isinstance(result, tuple | list) and len(result) in (2, 3) and hasattr(result[0], "shape")
        return result[0] if has_labels else result
    raise InputError(f"DATA: expected {DIGITS}, a {', '.join(READERS)} file, or module:function, found {source!r}")


def _read_npz(place: str, train: Classification, shape: tuple[int, ...], block_column: str | None) -> Any:
    """Return the array `inputs` of a .npz file."""
    try:
        arrays_read = arrays_in(place, ["inputs"])
    except Exception:  # a file of another kind may raise anything
        raise InputError(f"{place}: expected a .npz file of plain arrays, found one that cannot be read as such") from None
    if arrays_read is None:
        raise InputError(f"{place}: no array named inputs")
    return arrays_read[0]


def _read_columns(place: str, train: Classification, shape: tuple[int, ...], block_column: str | None) -> Any:
    """Return the input columns of a .csv or .parquet file, as `inputs_in` describes them."""
    names, rows = column_table(place)
    if train.columns is not None:
        table = {name: [row[number] for row in rows] for number, name in enumerate(names)}
        return encode_columns(table, train, place)
    columns = [number for number, name in enumerate(names) if name not in (train.label, train.units, block_column)]
    if train.label is None and len(columns) == shape[0] + 1:
        columns = columns[:-1]
    if (len(columns),) != shape:
        expected = f"{shape[0]} columns of numbers" if len(shape) == 1 else f"an .npz file, as the records have shape {shape}"
        raise InputError(f"{place}: expected {expected}, as in training, found {len(columns)} columns")
    try:
        values = [[row[number] for number in columns] for row in rows]
        return np.asarray(values, dtype=np.float64).reshape(-1, shape[0])
    except (ValueError, TypeError, OverflowError):
        raise InputError(f"{place}: expected numbers in every column, found a value that is not a number") from None


# Reader by ending of the file. Its parameters are the place, the settings, the shape of one record, and the column of the ledger's blocks.
READERS: dict[str, Callable[[str, Classification, tuple[int, ...], str | None], Any]] = {
    ".npz": _read_npz,
    ".csv": _read_columns,
    ".parquet": _read_columns,
}


@dataclass(frozen=True, slots=True, repr=False)
class Classifier(TrainedModel):
    """A trained classifier."""

    train: Classification
    shape: tuple[int, ...]
    classes: int

    def probabilities(self, inputs: Any, place: str = "inputs") -> NDArray[np.float64]:
        """Return the probabilities of the labels, of shape (n, classes), in the declared order.

        Args:
            inputs: Raw inputs, of shape (n, ...). The run's shift is subtracted from them. If the run declares columns, `inputs` may be a
                table of raw values by column, such as {"age": [39, 50], "state": ["CA", "NY"]} or a data frame. It is encoded as in
                training. An array must be encoded already: its columns are the inputs that the run's description lists, with values
                within [-1, 1].

        Raises:
            InputError: The inputs have another shape, a number that is not finite, or a value that the columns do not declare.
        """
        if hasattr(inputs, "keys"):
            inputs = self._encode_table(inputs, place)
        checked = inputs_of(inputs, self.train.shift, place)
        self._require_as_trained(checked, place)
        scores = scores_of(self.module, torch.from_numpy(checked))
        probabilities: NDArray[np.float64] = torch.softmax(scores.double(), 1).numpy()
        return probabilities

    def _encode_table(self, table: Any, place: str) -> NDArray[np.float32]:
        """Return the inputs of a table of raw values, encoded as in training."""
        if self.train.columns is None:
            raise InputError(f"{place}: expected an array, because the run declares no columns, found a table")
        columns = {name: list(table[name]) for name in self.train.columns if name in table}
        return encode_columns(columns, self.train, place)

    def _require_as_trained(self, inputs: NDArray[Any], place: str) -> None:
        """Raise InputError if the shape or the range of inputs differs from training."""
        if inputs.shape[1:] != self.shape:
            raise InputError(f"{place}: expected records of shape {self.shape}, as in training, found {inputs.shape[1:]}")
        if self.train.columns is not None and (np.abs(inputs) > 1).any():
            raise InputError(f"{place}: inputs beyond [-1, 1], which train.columns cannot produce: give raw values by column")

    def answers(self, question: ModelInput) -> Predictions:
        source = question.one_source()
        inputs = inputs_in(source, self.train, self.shape, self.description.rows)
        labels = None if self.train.labels is None else list(self.train.labels)
        return label_predictions(self.probabilities(inputs, source).tolist(), labels)

    def measured(self, source: str, path: str) -> Metrics:
        if path:  # the path of the training file, which declares the data public, perhaps as a held-out part of the private data
            return measure_of(self.module, arrays(self.train, path, self.description.rows).public)()
        records = labelled_records(source, self.train, self.classes, self.description.rows)
        self._require_as_trained(records.inputs, source)
        return measure_of(self.module, records)()


def classifier(train: Classification, description: Description) -> Classifier:
    """Return the classifier that [train] describes, with the input shape of the run. Raises InputError if it cannot be built."""
    shape, classes = description.shape("inputs"), description.count("classes")
    place = place_of(description, train.model)
    module = model_of(train, shape, classes, place)
    require_scores(module, shape, classes, place)
    return Classifier(module, train, description, shape, classes)
