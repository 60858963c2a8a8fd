"""Tables that a program has in memory, as parts that DuckDB can read.

`dpcli.release(table, ...)` calls `given_table` for the table of the program, and given_engine.py copies the parts. The columns of a part
are named f0, f1, ... by their *places* in the table (numbers from 0). So no name is special, and names that repeat do no harm. The type of
a column follows from the type that the table states for it, and never from its values: if a single row decided how others are read, that
would be an answer without noise. Columns of objects are read one value at a time, as the texts that a csv would have.
"""

from __future__ import annotations

import datetime
import decimal
import numbers
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from dpcli.base.errors import InputError
from dpcli.release.engines.dialects import COLLATIONS

PART_ROWS = 100_000  # rows of a pandas or polars table that are converted at once, since the converted texts take much memory
LARGEST_WHOLE = 2**63  # a whole number of any type below this is written with its digits alone, as it may be an integer of 64 bits
# More bits make a whole number of more than 300 digits, which counts as missing in a csv as well (conversions.py)
LARGEST_BITS = 1_000
PLAIN_KINDS = "iufbM"  # kinds of numpy's types that DuckDB reads without a look at the values: numbers, booleans, timestamps
# Types of pandas whose columns have a mask of missing values. DuckDB reads them as the numbers and booleans that they hold.
MASKED = frozenset({"Float32", "Float64", "boolean", *(f"{sign}nt{bits}" for sign in ("I", "UI") for bits in (8, 16, 32, 64))})
WIDE = frozenset({"HUGEINT", "UHUGEINT"})  # types of DuckDB that Arrow lacks; they are read as digits
# Types of DuckDB whose full names a message must not show, because they may hold values: an ENUM inside lists its texts.
NESTED = frozenset({"STRUCT", "MAP", "UNION"})
EXPECTED = "table: expected a DataFrame of pandas, polars or Spark, a pyarrow Table, or a DuckDB relation"


class GivenTable:
    """The base class of tables in memory."""

    __slots__ = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        raise NotImplementedError

    def type_of(self, place: int, duckdb_type_of: Callable[[Any], str]) -> str:
        """Return DuckDB's name of a column's type. No row is read.

        duckdb_type_of: function that asks DuckDB for the type of an object with one column.
        """
        raise NotImplementedError

    def parts(self, places: Sequence[int]) -> Iterator[Any]:
        """Yield all rows of the columns at these places, as objects that DuckDB can read. There is at least one part."""
        raise NotImplementedError

    def is_bytewise(self, place: int) -> bool:
        """Return whether texts of the column are equal only if their bytes are equal."""
        return True


@dataclass(frozen=True, slots=True)
class ArrowStream:
    """An object of another library with an Arrow stream. DuckDB then reads the stream, whatever it knows of the library."""

    source: Any = field(repr=False)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.source.__arrow_c_stream__(requested_schema)


@dataclass(frozen=True, slots=True)
class PandasTable(GivenTable):
    """A pandas DataFrame. The index is not a column.

    Columns of numbers, booleans and timestamps are read as they are. Each value of any other column, such as one of objects or categories,
    becomes a text by itself.
    """

    frame: Any = field(repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map(str, self.frame.columns))

    def type_of(self, place: int, duckdb_type_of: Callable[[Any], str]) -> str:
        unreadable = _type_without_texts(self.frame.dtypes.iloc[place])
        return unreadable or duckdb_type_of(_pandas_part(self.frame.iloc[:0, [place]], (place,)))

    def parts(self, places: Sequence[int]) -> Iterator[Any]:
        columns = self.frame.iloc[:, list(places)].copy()  # one state of a table that the program may change meanwhile
        for start in range(0, max(1, len(columns)), PART_ROWS):
            yield _pandas_part(columns.iloc[start : start + PART_ROWS], places)


def _pandas_part(columns: Any, places: Sequence[int]) -> Any:
    """Return columns as a DataFrame of types that DuckDB reads without a look at the values."""
    import pandas

    named = {f"f{place}": _pandas_column(columns.iloc[:, number]) for number, place in enumerate(places)}
    return pandas.DataFrame(named, index=range(len(columns)))


def _pandas_column(column: Any) -> Any:
    """Return a column as an array of numbers, booleans or timestamps as it is, and of any other type as texts."""
    import pandas

    if _is_plain(column.dtype):
        # DuckDB cannot read 16 bits in a DataFrame that also has columns of Arrow's types.
        return column.astype("float32").array if str(column.dtype) == "float16" else column.array
    return pandas.array([text_of(value) for value in column], dtype="string")


def _type_without_texts(dtype: Any) -> str:
    """Return the name, in upper case, of a pandas type whose values have no text in a csv, such as intervals; "" for all other types."""
    categories = getattr(dtype, "categories", None)
    if categories is not None:
        return _type_without_texts(categories.dtype)
    is_interval = type(dtype).__name__ in ("IntervalDtype", "PeriodDtype")
    is_other_number = getattr(dtype, "kind", "") in ("m", "c")  # numpy's kinds of durations and of complex numbers
    return str(dtype).upper() if is_interval or is_other_number else ""


def _is_plain(dtype: Any) -> bool:
    """Return whether DuckDB reads every value of a pandas type exactly."""
    import numpy as np

    if isinstance(dtype, np.dtype):
        return dtype.kind in PLAIN_KINDS and dtype.isnative
    # Timestamps with a time zone, numbers with a mask of missing values, and columns that Arrow stores.
    return type(dtype).__name__ == "DatetimeTZDtype" or str(dtype) in MASKED or getattr(dtype, "storage", None) == "pyarrow"


def text_of(value: object) -> str | None:
    """Return a value of Python as the text that a csv has for it; None if it has none. No value raises an error.

    A whole number is its digits, whatever its type is: 3.0 is "3", because it counts as an integer in a column of floats too.
    """
    with suppress(Exception):  # an error would show that there is such a value
        if value is None or value != value:  # None, NaN, NaT
            return None
        if isinstance(value, str):
            value.encode()  # raises an error if the text is not Unicode; the text then counts as missing
            return str(value)
        return _other_text(value)
    return None


def _other_text(value: Any) -> str | None:
    """Return what `text_of` returns for a value that is not a text. May raise an error."""
    import numpy as np

    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, numbers.Integral):
        return str(int(value)) if int(value).bit_length() <= LARGEST_BITS else None
    if isinstance(value, numbers.Real | decimal.Decimal):
        exact: Any = value if isinstance(value, decimal.Decimal) else float(value)
        return str(int(exact)) if abs(exact) < LARGEST_WHOLE and exact == int(exact) else str(exact)
    if isinstance(value, datetime.date):  # a datetime is a date
        return value.isoformat()
    return str(value) if isinstance(value, uuid.UUID | np.datetime64) else None


@dataclass(frozen=True, slots=True)
class PolarsTable(GivenTable):
    """A polars DataFrame."""

    frame: Any = field(repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.frame.columns)

    def type_of(self, place: int, duckdb_type_of: Callable[[Any], str]) -> str:
        return duckdb_type_of(next(PolarsTable(self.frame.clear()).parts((place,))))

    def parts(self, places: Sequence[int]) -> Iterator[Any]:
        import polars

        columns = {f"f{place}": self.frame.to_series(place) for place in places}  # one state of a table that the program may change
        for start in range(0, max(1, len(self.frame)), PART_ROWS):
            part = {name: _polars_column(column.slice(start, PART_ROWS)) for name, column in columns.items()}
            yield ArrowStream(polars.DataFrame(part))


def _polars_column(column: Any) -> Any:
    """Return a column whose type Arrow and DuckDB have: wide integers, categories and nulls become texts, 16-bit floats doubles."""
    import polars

    kind = column.dtype.base_type().__name__
    if kind in ("Int128", "UInt128", "Categorical", "Enum", "Null"):
        return column.cast(polars.String)
    return column.cast(polars.Float64) if kind == "Float16" else column


@dataclass(frozen=True, slots=True)
class ArrowTable(GivenTable):
    """A pyarrow Table."""

    table: Any = field(repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.table.column_names)

    def type_of(self, place: int, duckdb_type_of: Callable[[Any], str]) -> str:
        return duckdb_type_of(next(ArrowTable(self.table.slice(0, 0)).parts((place,))))

    def parts(self, places: Sequence[int]) -> Iterator[Any]:
        import pyarrow

        columns = {f"f{place}": _arrow_column(self.table.column(place)) for place in places}
        yield ArrowStream(pyarrow.table(columns))


def _arrow_column(column: Any) -> Any:
    """Return a column whose type DuckDB has: decimals of more than 128 bits and nulls become texts, 16-bit floats doubles."""
    import pyarrow

    kind = column.type
    if pyarrow.types.is_decimal256(kind) or pyarrow.types.is_null(kind):
        return column.cast(pyarrow.string())
    return column.cast(pyarrow.float64()) if pyarrow.types.is_float16(kind) else column


@dataclass(frozen=True, slots=True)
class DuckDBRelation(GivenTable):
    """A relation of a DuckDB connection. Its query runs on that connection, and its rows are copied from there once."""

    relation: Any = field(repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.relation.columns)

    def type_of(self, place: int, duckdb_type_of: Callable[[Any], str]) -> str:
        kind = str(self.relation.types[place])  # a query without rows might still call functions with effects
        if kind.endswith("]"):
            return "LIST"
        outer = kind.partition("(")[0]
        if kind in WIDE or outer == "ENUM":
            return "VARCHAR"
        return outer if outer in NESTED else kind

    def parts(self, places: Sequence[int]) -> Iterator[Any]:
        yield ArrowStream(self.relation.project(", ".join(map(self._column, places))))

    def is_bytewise(self, place: int) -> bool:
        """Return whether the column has no collation: a text with one cannot be compared with both `COLLATIONS`."""
        import duckdb

        if not str(self.relation.types[place]).startswith("VARCHAR"):
            return True
        try:
            for collation in COLLATIONS:
                self.relation.project(f"#{place + 1} = ('' COLLATE {collation})")
        except duckdb.Error:
            return False
        return True

    def _column(self, place: int) -> str:
        column = f"#{place + 1}"  # the column at this place, whatever its name is
        wide = str(self.relation.types[place]) in WIDE
        return f"CAST({column} AS VARCHAR) AS f{place}" if wide else f"{column} AS f{place}"


@dataclass(frozen=True, slots=True)
class SparkFrame:
    """A DataFrame of a Spark session in this process. Only Spark reads it."""

    frame: Any = field(repr=False)


# Classes of tables by the package and name of the class.
CLASSES: dict[tuple[str, str], Any] = {
    ("pandas", "DataFrame"): PandasTable,
    ("polars", "DataFrame"): PolarsTable,
    ("pyarrow", "Table"): ArrowTable,
    ("_duckdb", "DuckDBPyRelation"): DuckDBRelation,
    ("duckdb", "DuckDBPyRelation"): DuckDBRelation,
    ("pyspark.sql", "DataFrame"): SparkFrame,
    ("pyspark.sql.classic", "DataFrame"): SparkFrame,
}


def given_table(table: object) -> GivenTable | SparkFrame:
    """Return a table in memory as an engine reads it. No row is read.

    Raises InputError if the object is not a table that dpcli can read. The message does not show it.
    """
    for base_class in type(table).__mro__:  # the class of a table may be a subclass of the library's
        package = base_class.__module__.partition(".")[0]
        if package == "pyspark":  # its other packages have a DataFrame as well
            package = base_class.__module__.rpartition(".")[0]
        if (package, base_class.__name__) in CLASSES:
            given: GivenTable | SparkFrame = CLASSES[package, base_class.__name__](table)
            return given
    table_class = type(table)
    advice = "; call collect() first" if table_class.__name__ == "LazyFrame" else ""  # LazyFrame is a class of polars
    raise InputError(f"{EXPECTED}, found {table_class.__module__.partition('.')[0]}.{table_class.__name__}{advice}")
