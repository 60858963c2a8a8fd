"""The records of a classification task as arrays: from scikit-learn's digits, a .npz, .csv or .parquet file, or the user's own function.

`arrays` returns the private and the public records of a [train] table. It reads each source (`_read_source`) and checks its records
(`_checked_records`). Messages of errors quote no value, because the records are private. `path` is the path of the training file, from
whose folder relative names start. `place` is the beginning of messages; in functions that read a data file, it is the path of that file. A
window of rows restricts the records to blocks of a ledger (ledger/blocks/rows.py).
"""

from __future__ import annotations

import gzip
import os
import struct
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from dpcli.base.errors import InputError, Unavailable
from dpcli.file.toml.suggest import instead_of
from dpcli.ledger.blocks.rows import RowWindow
from dpcli.train.plan.settings_classification import DIGIT_COUNT, Classification
from dpcli.train.tasks.encoding import encode_columns, known_columns, label_codes
from dpcli.train.tasks.files import column_table, held_out, in_blocks
from dpcli.train.tasks.user_code import private_result, relative_to_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

# Header that precedes a member in a zip file: 26 bytes that are not read here, the length of the member's name, and the length of its extra
# field. Name, extra field and content follow.
MEMBER_HEADER = struct.Struct("<26xHH")
CHECKED_TOGETHER = 1024  # number of records that are tested for finite numbers at once; this limits memory. Arbitrary.


def arrays_in(place: str, names: Sequence[str]) -> list[Any] | None:
    """Return the arrays with the given names in a .npz file; None if one of them is missing.

    Arrays that are not compressed are mapped from the disk. Arrays of objects are refused. numpy, zipfile and zlib raise their own errors.
    """
    with zipfile.ZipFile(place) as archive:
        members = {info.filename: info for info in archive.infolist()}
        if not {f"{name}.npy" for name in names} <= members.keys():
            return None
        return [_array(place, archive, members[f"{name}.npy"]) for name in names]


def _array(place: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Any:
    """Return the array in a member of a .npz file."""
    with archive.open(member) as file:  # raises for an encrypted member, or one whose own header has another name
        if member.compress_type != zipfile.ZIP_STORED:
            return np.lib.format.read_array(file, allow_pickle=False)
        version = np.lib.format.read_magic(file)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, is_column_major, dtype = header(file)
        start = file.tell()
    # dtype=object: a product of Python integers, which cannot overflow, whatever shape the header states.
    if dtype.hasobject or member.file_size != start + dtype.itemsize * int(np.prod(shape, dtype=object)):
        raise ValueError("expected plain numbers of the stated shape")
    if not member.file_size > start:  # no bytes can be mapped from the disk
        return np.zeros(shape, dtype)
    offset = _content_offset(place, member) + start
    order: Literal["C", "F"] = "F" if is_column_major else "C"
    copy_on_write: Literal["c"] = "c"  # changes of the array stay in memory
    array = np.memmap(place, dtype, copy_on_write, offset, shape, order).view(np.ndarray)
    return np.require(array, requirements="A")  # copies an array that is not aligned


def _content_offset(place: str, member: zipfile.ZipInfo) -> int:
    """Return the offset, in bytes, at which the content of a member begins in the .npz file."""
    with open(place, "rb") as file:
        file.seek(member.header_offset)
        name_length, extra_length = MEMBER_HEADER.unpack(file.read(MEMBER_HEADER.size))
    return member.header_offset + MEMBER_HEADER.size + int(name_length) + int(extra_length)


@dataclass(frozen=True, slots=True)
class RecordSource:
    """A source of records.

    Attributes:
        name: "digits", the path of a file, or module:function.
        path: Path of the training file, to whose folder a relative name refers.
        place: Beginning of messages about the source, such as "run.toml: train.data".
        is_private: Whether the records are private. Public records are read completely and have no owners.
    """

    name: str
    path: str
    place: str
    is_private: bool


class RawRecords(NamedTuple):
    """Inputs, labels and units from a file or a function, before they are checked.

    Attributes:
        inputs: Inputs of the records, as an array or a list.
        labels: Labels of the records, as an array or a list.
        units: Owners of the records; None if the file does not declare units.
        names: Names of the input columns in their order, if the inputs are all columns without another use; empty otherwise.
        blocks: Block of each record, if a unit is bounded in each block separately; None otherwise.
    """

    inputs: Any
    labels: Any
    units: Any = None
    names: tuple[str, ...] = ()
    blocks: list[str] | None = None


def _read_npz(place: str, train: Classification, window: RowWindow | None, block_column: str | None) -> RawRecords:
    """Return the records of a .npz file. It has no columns, so `window` and `block_column` have no effect."""
    names = ("inputs", "labels", *([train.units] if train.units else []))
    try:
        columns = arrays_in(place, names)
    except Exception:  # numpy, zipfile and zlib may raise any error for another kind of file
        raise InputError(
            f"{place}: expected a .npz file of plain arrays, without objects, found one that cannot be read as such"
        ) from None
    if columns is None:
        raise InputError(f"{place}: expected arrays named {' and '.join(names)}; at least one is missing")
    return RawRecords(*columns)


def _read_columns(place: str, train: Classification, window: RowWindow | None, block_column: str | None) -> RawRecords:
    """Return the records of a .csv or .parquet file.

    The label is in the declared column, or in the last column if none is declared. The unit is in its declared column. The inputs are in
    the declared columns, or in all other columns if none are declared.

    Args:
        block_column: Column that determines the block of a record in the ledger. It is an input only if it is declared as one.
    """
    names, rows = column_table(place, window)
    columns = {name: [row[number] for row in rows] for number, name in enumerate(names)}
    possible_labels = [name for name in names if name not in (train.units, block_column)]
    label = train.label or (possible_labels[-1] if possible_labels else "label")
    for name in (label, train.units):
        if name and name not in columns:
            # Without a line of names, the first line is a record. `instead_of` therefore hides fields that may be values.
            columns_of_file = instead_of(name, names, known_columns(train))
            raise InputError(f"{place}: expected a column {name!r}, found {columns_of_file}")
    # Messages number the columns that the training file does not name. In a file without a line of names, the first line is a record.
    shown = {name: f"column {number}" for number, name in enumerate(names, 1)}
    if train.label:
        shown[label] = f"column {label!r}"
    blocks = None
    if window is not None and window.block_part is not None:
        blocks = [window.block_label(value) for value in columns[window.column]]
    units = columns.pop(train.units) if train.units else None
    raw_labels = columns.pop(label, [])
    if train.labels is None:
        labels: Any = _column_numbers(place, shown[label], raw_labels)
    else:
        labels = label_codes(raw_labels, train.labels, shown[label], place, window)
    if train.columns is not None:
        return RawRecords(encode_columns(columns, train, place, window), labels, units, (), blocks)
    if block_column is not None:
        columns.pop(block_column, None)
    if not columns:
        raise InputError(f"{place}: expected a column of numbers and the label, found only the label")
    inputs = np.stack([_column_numbers(place, shown[name], values) for name, values in columns.items()], axis=1)
    return RawRecords(inputs, labels, units, tuple(columns), blocks)


def _column_numbers(place: str, column: str, values: list[Any]) -> np.ndarray:
    """Return the values of a column as numbers. Raises InputError if a value is not a number."""
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        numbers = np.zeros((0, 0))
    if numbers.ndim != 1:
        raise InputError(f"{place}: expected numbers in {column}, found a value that is not a number")
    return numbers


# The arguments of a reader are the path, the [train] table, the window of rows (None for all), and the column of the ledger's blocks.
ArrayReader = Callable[[str, Classification, RowWindow | None, str | None], RawRecords]
READERS: dict[str, ArrayReader] = {".npz": _read_npz, ".csv": _read_columns, ".parquet": _read_columns}


def images_and_labels(place: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return scikit-learn's digits, of shape (n, 8, 8) in [0, 1], and their labels, of shape (n,).

    The digits are read from a file in scikit-learn's folder, because the import of the library takes longer than training.

    Raises:
        Unavailable: scikit-learn is not installed. The message begins with `place`.
    """
    library = find_spec("sklearn")
    if library is None or library.origin is None:
        raise Unavailable(f"{place}: the digits come with scikit-learn: pip install 'dpcli[train]'")
    rows = _digit_rows(os.path.join(os.path.dirname(library.origin), "datasets", "data", "digits.csv.gz"))
    return rows[:, :-1].reshape(-1, 8, 8) / 16.0, rows[:, -1].astype(np.int64)


def _digit_rows(path: str) -> NDArray[np.float64]:
    """Return a row for each digit. It has 64 pixels from 0 to 16, and the label."""
    if os.path.isfile(path):
        with gzip.open(path, "rt", encoding="ascii") as lines:
            return np.array([line.split(",") for line in lines], dtype=np.float64)
    from sklearn.datasets import load_digits  # some versions store the file elsewhere

    digits: Any = load_digits()
    return np.column_stack([digits.data, digits.target])


@dataclass(frozen=True, slots=True)
class CheckedRecords:
    """Records of one source after all checks.

    Attributes:
        inputs: Inputs as float32, of shape (n, ...).
        labels: Labels as int64, of shape (n,).
        units: Owner of each record, of shape (n,); None if the file does not declare units.
        names: Names of the input columns, if the inputs are all columns without another use; empty otherwise.
    """

    inputs: Array
    labels: Array
    units: Array | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Arrays:
    """The records of a [train] table.

    Attributes:
        private: Records on which the model is trained.
        public: Records that the file declares public; None if there are none.
        classes: Declared number of labels.
    """

    private: CheckedRecords
    public: CheckedRecords | None
    classes: int


def arrays(train: Classification, path: str, rows: RowWindow | None = None) -> Arrays:
    """Return the data of a [train] table. The private records are restricted to the window `rows` if it is given.

    Raises InputError if the data cannot be read, or a number is not finite.
    """
    classes = _classes(train, path)
    private = _checked_records(RecordSource(train.data, path, f"{path}: train.data", is_private=True), train, classes, rows)
    if train.public is None:
        return Arrays(private, None, classes)
    if train.public == "held-out":
        is_public = held_out(len(private.labels), train.held_out, private.units, path)  # refuses records with units
        private, public = (CheckedRecords(private.inputs[part], private.labels[part]) for part in (~is_public, is_public))
        return Arrays(private, public, classes)
    public = _checked_records(RecordSource(train.public, path, f"{path}: train.public", is_private=False), train, classes, rows)
    if public.inputs.shape[1:] != private.inputs.shape[1:]:
        raise InputError(f"{path}: train.public: expected records of the same shape as the private records")
    if private.names and public.names and private.names != public.names:
        raise InputError(
            f"{path}: train.public: expected the columns of the private records in the same order; with train.columns, columns are "
            "read by name and may have any order"
        )
    return Arrays(private, public, classes)


def _classes(train: Classification, path: str) -> int:
    """Return the declared number of labels. Labels are not counted, because the shape of the model must not depend on private records."""
    if train.label_count is None and train.data != "digits":
        raise InputError(f"{path}: train.classes: expected classes (the number of labels) or train.labels, found neither")
    return train.label_count or DIGIT_COUNT


def labelled_records(source: str, train: Classification, classes: int, rows: RowWindow | None = None) -> CheckedRecords:
    """Return labelled records from a source that the user names on the command line. Raises InputError if they cannot be read.

    Args:
        source: "digits", the path of a file, or module:function.
        rows: Window of rows that the model was trained on; None for all rows.
    """
    name = os.path.abspath(source) if source.endswith(tuple(READERS)) else source
    return _checked_records(RecordSource(name, source, source, is_private=False), train, classes, rows)


def _checked_records(source: RecordSource, train: Classification, classes: int, window: RowWindow | None) -> CheckedRecords:
    """Return the records of a source after all checks. Raises InputError if they cannot be read, or if a check fails."""
    raw = _read_source(source, train, window)
    inputs, labels = inputs_of(raw.inputs, train.shift, source.place), labels_of(raw.labels, classes, source.place, source.path)
    if len(inputs) != len(labels):
        raise InputError(f"{source.place}: expected one label for each record, but their numbers differ")
    if not len(labels):
        raise InputError(f"{source.place}: there are no records")
    units = in_blocks(raw.units, raw.blocks, source.path) if raw.units is not None and source.is_private else None
    if units is not None and units.shape != labels.shape:
        raise InputError(f"{source.path}: train.units: expected an owner for each record, but their numbers differ")
    return CheckedRecords(inputs, labels, units, raw.names)


def inputs_of(values: Any, shift: float, place: str) -> Array:
    """Return inputs of shape (n, ...) as float32, after the declared shift is subtracted.

    Raises InputError if the values are not an array of this shape, or a number is not finite.
    """
    numbers = _numbers(values, "inputs", place)
    if numbers.ndim < 2 or 0 in numbers.shape[1:]:
        raise InputError(f"{place}: expected inputs of shape (n, ...) with numbers in each record, found shape {_shape(numbers)}")
    with np.errstate(over="ignore", invalid="ignore"):  # a number beyond float32 becomes infinite, and is refused below
        inputs: Array = numbers.astype(np.float32, copy=False)
        inputs = np.subtract(inputs, np.float32(shift)) if shift else inputs
    blocks = (inputs[start : start + CHECKED_TOGETHER] for start in range(0, len(inputs), CHECKED_TOGETHER))
    if not all(np.isfinite(block).all() for block in blocks):
        raise InputError(f"{place}: expected finite inputs, found some that are not: replace them by a declared constant first")
    return inputs


def labels_of(values: Any, classes: int, place: str, path: str) -> Array:
    """Return labels of shape (n,) as int64. Raises InputError unless all are integers from 0 to `classes` - 1."""
    numbers = _numbers(values, "labels", place)
    if numbers.ndim != 1:
        raise InputError(f"{place}: expected one label for each record, found labels of shape {_shape(numbers)}")
    if not np.isfinite(numbers).all() or (numbers != np.floor(numbers)).any():
        raise InputError(f"{place}: expected whole numbers as labels (a label is not)")
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= classes):
        raise InputError(f"{path}: train.classes: expected labels from 0 to {classes - 1} (a label is not)")
    return numbers.astype(np.int64)


def _numbers(values: Any, noun: str, place: str) -> Array:
    """Return the values as an array of numbers, with 0 and 1 for booleans.

    Raises InputError without numpy's own message, which may quote values.
    """
    try:
        numbers = np.asarray(values)
    except Exception:  # conversion may raise any error: lists of different lengths, tensors on another device
        raise InputError(f"{place}: expected {noun} as an array of numbers, found a value that is no array") from None
    if numbers.dtype.kind not in "biuf":
        raise InputError(f"{place}: expected {noun} as an array of numbers, found one of {numbers.dtype.type.__name__}")
    return numbers.astype(np.uint8) if numbers.dtype.kind == "b" else numbers


def _shape(array: Array) -> str:
    """Return the shape in words, without the number of records, which is private."""
    if not array.ndim:
        return "()"
    lengths = ", ".join(["n", *map(str, array.shape[1:])])
    return f"({lengths})"


def _read_source(source: RecordSource, train: Classification, window: RowWindow | None) -> RawRecords:
    """Return the unchecked records of a source. The window restricts private records only."""
    ending = os.path.splitext(source.name)[1]
    if source.name == "digits":
        return digits(source.path)
    if ending in READERS:
        file = relative_to_file(source.name, source.path)
        if not os.path.isfile(file):
            raise InputError(f"{source.place}: no such file: {source.name}")
        window_here = window if source.is_private else None
        block_column = None if window is None else window.column  # left out of the inputs of public records too
        return READERS[ending](file, train, window_here, block_column)
    if ":" in source.name:
        return _records_from_function(source, train)
    raise InputError(f"{source.place}: expected digits, a {', '.join(READERS)} file, or module:function, found {source.name!r}")


def _records_from_function(source: RecordSource, train: Classification) -> RawRecords:
    """Return the records that the user's function returns. Owners of public records are optional and ignored."""
    parts = private_result(source.name, source.path)
    needs_units = train.units is not None and source.is_private
    lengths = {3} if needs_units else {2}
    if train.units is not None:
        lengths.add(3)  # one function may return private and public records in the same form
    if not isinstance(parts, tuple | list) or len(parts) not in lengths:
        # The message omits the number of parts, which may be the number of records.
        actual = "another number of parts" if isinstance(parts, tuple | list) else type(parts).__name__
        expected = "(inputs, labels, units)" if needs_units else "(inputs, labels)"
        raise InputError(f"{source.path}: {source.name}: expected {expected}, found {actual}")
    inputs, labels, *units = parts
    return RawRecords(inputs, labels, units[0] if needs_units else None)


def digits(path: str) -> RawRecords:
    """Return the records of scikit-learn's digits, as images with one channel."""
    images, labels = images_and_labels(f"{path}: train.data")
    return RawRecords(images[:, None], labels)
