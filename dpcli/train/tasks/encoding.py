"""The encoding of table columns as numbers, which the training file declares in [train.columns] (`Feature` in the settings).

With `min = 0, max = 100` the number 75 becomes the input 0.5. With `domain = ["CA", "NY"]` the text "NY" becomes the inputs 0, 1, 0, of
which the last is for other texts. The encoding of a record does not depend on other records, not even by the type that they give to a
column of a file (`cell_text`). No message shows a value.

For messages, `place` is the path of the file with the values, and `only` is the window of its rows that was read, None for all rows.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcli.base.errors import InputError
from dpcli.file.toml.suggest import instead_of
from dpcli.train.plan.settings_classification import Classification, Feature, plain
from dpcli.train.tasks.files import row_place

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcli.ledger.blocks.rows import RowWindow

    Encoded = NDArray[np.float32]

Values = Sequence[Any]
MISSING = frozenset({"", "nan", "NaN", "NAN", "<NA>", "NaT"})  # texts of missing values; data frames write "<NA>" and "NaT"
# Types that numpy converts as float() does.
CONVERTIBLE_TYPES = frozenset({str, int, float, type(None), np.float64, np.float32, np.int64})


def known_columns(train: Classification) -> tuple[str, ...]:
    """Return the names of the columns that the training file declares."""
    return tuple(filter(None, (train.label, train.units, *(train.columns or ()))))


def input_names(train: Classification) -> list[str]:
    """Return the names of the model's inputs in their order, if [train.columns] declares the columns."""
    return [name for column, feature in train.features for name in feature.inputs(column)]


def encode_columns(table: Mapping[str, Values], train: Classification, place: str, only: RowWindow | None = None) -> Encoded:
    """Return the inputs of every row, of shape (n, inputs), in [-1, 1].

    Args:
        table: Values of each column, by name.

    Raises:
        InputError: A declared column is absent, or the declaration does not cover a value. The message gives the line and not the value.
    """
    absent = [name for name, _ in train.features if name not in table]
    if absent:
        # Without a line of names, the first line is a record. `instead_of` therefore hides fields that may be values.
        columns = instead_of(absent[0], list(table), known_columns(train))
        raise InputError(f"{place}: expected a column {absent[0]!r}, which train.columns declares, found {columns}")
    counts = {len(table[name]) for name, _ in train.features}
    if len(counts) > 1:
        raise InputError(f"{place}: expected columns of the same length, found different lengths")
    missing = MISSING | {plain(word) for word in train.missing_words or ()}
    inputs = np.zeros((counts.pop(), len(input_names(train))), dtype=np.float32)
    start = 0
    for name, feature in train.features:
        width = len(list(feature.inputs(name)))
        cells = _Cells(table[name], f"column {name!r}", place, missing, only)
        encode = _encode_numbers if feature.domain is None else _encode_categories
        encode(cells, feature, inputs[:, start : start + width])
        start += width
    return inputs


def label_codes(values: Values, labels: Sequence[str], column: str, place: str, only: RowWindow | None = None) -> NDArray[np.int64]:
    """Return the index of each label among the declared labels, of shape (n,). Raises InputError for another or a missing label.

    Args:
        values: Labels of the rows.
        labels: Declared labels.
        column: Name of the column, for messages.
    """
    codes = {plain(label): code for code, label in enumerate(labels)}
    cells = _Cells(values, column, place, MISSING, only)
    codes_of_rows = [codes.get(text, -1) for text in cells.texts()]
    if -1 in codes_of_rows:
        row = codes_of_rows.index(-1)
        raise cells.refusal(row, "one of the declared labels", "another label, or none: declare it in train.labels")
    return np.asarray(codes_of_rows, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class _Cells:
    """The values of one column.

    Attributes:
        column: Name of the column, for messages.
        missing: Texts of missing values.
    """

    values: Values
    column: str
    place: str
    missing: Collection[str]
    only: RowWindow | None

    def texts(self) -> list[str]:
        """Return the values as texts."""
        return [cell_text(value) for value in self.values]

    def refusal(self, row: int, expected: str, problem: str) -> InputError:
        """Return the error for a row. Its message does not quote the value."""
        return InputError(f"{row_place(self.place, row, self.only)}: {self.column}: expected {expected}, found {problem}")


def _encode_numbers(cells: _Cells, feature: Feature, inputs: Encoded) -> None:
    """Encode a column of numbers into `inputs`. Missing values are replaced before the numbers are clamped, because a clamp keeps NaN."""
    assert feature.min is not None and feature.max is not None
    numbers = _numbers(cells)
    absent = np.isnan(numbers)
    if absent.any():
        if feature.fill is None:
            row = int(absent.argmax())
            raise cells.refusal(row, "a number", "a missing value: declare missing or indicator in train.columns")
        numbers[absent] = feature.fill
    scaled = (np.clip(numbers, feature.min, feature.max) - feature.middle) / feature.half_width
    inputs[:, 0] = np.clip(scaled, -1.0, 1.0)  # by rounding, the quotient may exceed 1
    if feature.indicator:
        inputs[:, 1] = absent


def _numbers(cells: _Cells) -> NDArray[np.float64]:
    """Return the numbers of a column, with NaN for missing values."""
    # `_converted_at_once` knows no texts of missing values that the file adds.
    converted = _converted_at_once(cells.values) if cells.missing == MISSING else None
    if converted is not None:
        return converted
    numbers = np.full(len(cells.values), math.nan)
    for row, (text, value) in enumerate(zip(cells.texts(), cells.values, strict=True)):
        if text in cells.missing:
            continue
        try:
            numbers[row] = _as_float(value, text)
        except (ValueError, TypeError):
            problem = "a text: list texts of missing values in train.missing_words, or declare a domain"
            raise cells.refusal(row, "a number", problem) from None
    return numbers


def _as_float(value: Any, text: str) -> float:
    """Return a value as a float. An integer that is too large for a float becomes infinity, which lies outside of every range."""
    try:
        return float(value)
    except OverflowError:
        return float(text)


def _converted_at_once(values: Values) -> NDArray[np.float64] | None:
    """Return the numbers of a column, converted in one operation. Return None if a value is neither a number nor NaN."""
    if not {*map(type, values)} <= CONVERTIBLE_TYPES:
        return None
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        return None
    return numbers.copy() if numbers.ndim == 1 else None  # a copy, because missing values are replaced in place


def _encode_categories(cells: _Cells, feature: Feature, inputs: Encoded) -> None:
    """Encode a column of categories into `inputs`. Each declared value has an input."""
    assert feature.domain is not None
    codes = {plain(value): code for code, value in enumerate(feature.domain)}
    code_of_others = len(codes) if feature.other == "code" else None
    for row, text in enumerate(cells.texts()):
        if text not in codes and feature.indicator and text in cells.missing:  # a domain may declare a word such as "nan"
            inputs[row, -1] = 1.0  # the indicator is the last input of a column
            continue
        code = codes.get(text, code_of_others)
        if code is None:
            raise cells.refusal(row, "one of the declared values", 'another value: add it to domain, or declare other = "code"')
        inputs[row, code] = 1.0


def cell_text(value: Any) -> str:
    """Return the text that a value has in a .csv file. The value may come from any kind of file. None becomes ""."""
    plain_value = value.item() if isinstance(value, np.generic) else value
    if plain_value is None:
        return ""
    if type(plain_value) is float and plain_value.is_integer():
        return str(int(plain_value))
    if type(plain_value) is bytes:
        return plain(plain_value.decode(errors="replace"))
    return plain(str(plain_value))
