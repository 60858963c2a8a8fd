"""The SQL dialects of DuckDB, PostgreSQL and Spark.

sql_statement.py writes the statement of an aggregation (exact sums for each key) and scalars.py the expressions in it, both by the methods
of `Dialect`. The SQL that a method returns has the same value in all three dialects: a release must not depend on the engine, and no value
of a row may make the statement fail in one of them, because that would be an answer without noise.

A *decimal* is a double, as [source.columns] calls it; an *exact* number is a decimal fraction of a database. The *digest* of a text is a
hash with a secret in it, which draws the rows that count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

ScalarType = Literal["text", "integer", "decimal", "boolean", "date"]
DatePartName = Literal["year", "quarter", "month", "week", "day", "doy", "dow", "isodow"]
Period = Literal["year", "quarter", "month", "week"]

# Engines disagree at the ends of the range of doubles. So an absolute value above LARGEST counts as infinite, and one below SMALLEST as 0.
LARGEST, SMALLEST = 1.79e308, 1e-300
# Two collations of DuckDB, which refuses to compare texts with different collations. The collation of a column, if it has one, differs from
# at least one of these. So the column has one exactly if a comparison with either is refused.
COLLATIONS = ("noaccent", "nfc")
DIGEST_DIGITS = 12  # hexadecimal digits of SHA-256 that a digest keeps
DIGEST_BITS = 4 * DIGEST_DIGITS  # a double represents such a number exactly


class Dialect:
    """A dialect of SQL. Its methods return SQL that does not fail for any value of a row.

    Arguments are SQL expressions. The result may contain an argument more than once, unless the docstring of the method excludes this.

    with_hint: hint for a subquery of a WITH clause that should be computed at each use.
    types: the engine's names of the types.
    widest: the engine's widest type for integers, which has at least 38 digits.
    """

    with_hint = "NOT MATERIALIZED"
    types: ClassVar[Mapping[ScalarType, str]]
    widest: ClassVar[str]

    def text(self, value: str) -> str:
        """Return a text literal, which is compared by its bytes."""
        return "'{}'".format(value.replace("'", "''"))

    def cast(self, sql: str, to: ScalarType) -> str:
        """Return a conversion to a type, which is null if the value has no conversion. The argument is written once."""
        return f"TRY_CAST({sql} AS {self.types[to]})"

    def wide(self, sql: str) -> str:
        """Return a 64-bit integer converted to the widest integer type."""
        return f"CAST({sql} AS {self.widest})"

    def checked(self, operator: str, left: str, right: str) -> str:
        """Return + - * // or % of integers. // and % round toward zero. The result is null if it does not fit into 64 bits."""
        raise NotImplementedError

    def quotient(self, left: str, right: str) -> str:
        """Return the quotient of integers of the widest type, left >= 0 and right > 0, rounded down."""
        raise NotImplementedError

    def date_part(self, part: DatePartName, sql: str) -> str:
        """Return a part of a date as a 64-bit integer. The argument is written once."""
        return f"date_part('{part}', {sql})"

    def list_of(self, numbers: Sequence[str]) -> str:
        return f"[{', '.join(numbers)}]"

    def element(self, numbers: str, index: str) -> str:
        """Return an element of a list by its index from 0; null beyond the end of the list. Arguments are written once."""
        raise NotImplementedError

    def layer(self, columns: str, source: str) -> str:
        """Return a SELECT from a subquery. The engine does not merge the two where this would repeat expressions of the subquery."""
        return f"SELECT {columns} FROM {source}"

    def total(self, sql: str) -> str:
        """Return the exact sum of integers, which has 128 bits or 38 digits."""
        return f"sum({sql})"

    def digest(self, sql: str) -> str:
        """Return the first DIGEST_BITS bits of the SHA-256 digest of a text in UTF-8, as an integer."""
        raise NotImplementedError

    def trimmed(self, sql: str) -> str:
        """Return a text without the spaces (U+0020) around it. The argument is written once."""
        return f"btrim({sql}, ' ')"

    def matches(self, sql: str, pattern: str) -> str:
        """Return the condition that a whole text matches a regular expression. The expression must not contain wildcards."""
        raise NotImplementedError

    def whole_of_text(self, sql: str) -> str:
        """Return the integer that a text of digits spells; null if it does not fit into 64 bits."""
        return self.cast(sql, "integer")

    def number_of_text(self, sql: str) -> str:
        """Return the double that the text of a number spells; null or infinite if it is too large."""
        return self.cast(sql, "decimal")

    def date_of_text(self, sql: str) -> str:
        """Return the date that a text YYYY-MM-DD spells; null if there is no such day."""
        return self.cast(sql, "date")

    def first_day(self, period: Period, sql: str) -> str:
        """Return the first day of the period that contains a date, as a date. A week begins on Monday. The argument is written once."""
        raise NotImplementedError

    def whole_of_exact(self, sql: str) -> str:
        """Return a decimal fraction as an integer; null if it is not a whole number of 64 bits."""
        raise NotImplementedError

    def number_of_exact(self, sql: str) -> str:
        """Return the double nearest to a decimal fraction; null or infinite if it is too large."""
        return self.cast(self.cast(sql, "text"), "decimal")  # conversion from the digits rounds only once


class DuckDBSql(Dialect):
    """The SQL of DuckDB 1.4 and later."""

    types: ClassVar = {"text": "VARCHAR", "integer": "BIGINT", "decimal": "DOUBLE", "boolean": "BOOLEAN", "date": "DATE"}
    widest: ClassVar = "HUGEINT"

    def checked(self, operator: str, left: str, right: str) -> str:
        operand = self.wide(right) if operator in ("+", "-", "*") else f"NULLIF({self.wide(right)}, 0)"
        return f"TRY_CAST({self.wide(left)} {operator} {operand} AS BIGINT)"

    def quotient(self, left: str, right: str) -> str:
        return f"({left} // {right})"

    def element(self, numbers: str, index: str) -> str:
        return f"list_extract({numbers}, {index} + 1)"

    def digest(self, sql: str) -> str:
        return f"CAST('0x' || left(sha256({sql}), {DIGEST_DIGITS}) AS BIGINT)"

    def trimmed(self, sql: str) -> str:
        return f"trim({sql}, ' ')"

    def matches(self, sql: str, pattern: str) -> str:
        return f"regexp_full_match({sql}, {self.text(pattern)})"

    def first_day(self, period: Period, sql: str) -> str:
        return f"CAST(date_trunc('{period}', {sql}) AS DATE)"

    def whole_of_exact(self, sql: str) -> str:
        digits = self.matches(self.cast(sql, "text"), "-?[0-9]*([.]0*)?")  # the floor may overflow the type
        return f"CASE WHEN {digits} THEN {self.cast(sql, 'integer')} END"


class PostgresSql(Dialect):
    """The SQL of PostgreSQL 12 and later. It has no TRY_CAST, so a conversion that could fail is guarded by a test."""

    types: ClassVar = {"text": "text", "integer": "bigint", "decimal": "double precision", "boolean": "boolean", "date": "date"}
    widest: ClassVar = "numeric"

    def text(self, value: str) -> str:
        return self.cast(Dialect.text(self, value), "text")

    def cast(self, sql: str, to: ScalarType) -> str:
        """Return a conversion to a type. Unlike in other dialects, it fails if there is none, so callers exclude such values first."""
        bytewise = ' COLLATE "C"' if to == "text" else ""
        return f"(CAST({sql} AS {self.types[to]}){bytewise})"

    def checked(self, operator: str, left: str, right: str) -> str:
        a, b = self.wide(left), self.wide(right)
        divisions = {"//": f"div({a}, NULLIF({b}, 0))", "%": f"mod({a}, NULLIF({b}, 0))"}
        return self._of_64_bits(divisions.get(operator, f"({a} {operator} {b})"))

    def quotient(self, left: str, right: str) -> str:
        return f"div({left}, {right})"

    def date_part(self, part: DatePartName, sql: str) -> str:
        return self.cast(Dialect.date_part(self, part, sql), "integer")

    def list_of(self, numbers: Sequence[str]) -> str:
        return f"ARRAY[{', '.join(numbers)}]"

    def element(self, numbers: str, index: str) -> str:
        return f"({numbers})[CAST({index} + 1 AS integer)]"

    def layer(self, columns: str, source: str) -> str:
        return f"SELECT {columns} FROM {source} OFFSET 0"  # OFFSET keeps the planner from repeating inner expressions

    def digest(self, sql: str) -> str:
        digits = f"left(encode(sha256(convert_to({sql}, 'UTF8')), 'hex'), {DIGEST_DIGITS})"
        return f"CAST(CAST('x' || {digits} AS bit({DIGEST_BITS})) AS bigint)"

    def matches(self, sql: str, pattern: str) -> str:
        return f"({sql} ~ '^(?:{pattern})$')"

    def whole_of_text(self, sql: str) -> str:
        return self._of_64_bits(self.wide(sql))

    def number_of_text(self, sql: str) -> str:
        return self.number_of_exact(self.wide(sql))  # a cast to double would fail for a number that is too large

    def date_of_text(self, sql: str) -> str:
        # A cast would fail for a day that does not exist, such as February 30, so the day is tested first.
        year, month, day = (f"CAST(substring({sql}, {start}, {length}) AS integer)" for start, length in ((1, 4), (6, 2), (9, 2)))
        leap = f"{year} % 4 = 0 AND ({year} % 100 <> 0 OR {year} % 400 = 0)"
        last = f"CASE WHEN {month} IN (4, 6, 9, 11) THEN 30 WHEN {month} <> 2 THEN 31 WHEN {leap} THEN 29 ELSE 28 END"
        exists = f"{year} >= 1 AND {month} BETWEEN 1 AND 12 AND {day} BETWEEN 1 AND {last}"
        return f"CASE WHEN {exists} THEN make_date({year}, {month}, {day}) END"

    def first_day(self, period: Period, sql: str) -> str:
        return f"CAST(date_trunc('{period}', CAST({sql} AS timestamp)) AS date)"

    def whole_of_exact(self, sql: str) -> str:
        return f"CASE WHEN {sql} = trunc({sql}) THEN {self._of_64_bits(sql)} END"

    def number_of_exact(self, sql: str) -> str:
        inside = f"CASE WHEN abs({sql}) < {SMALLEST!r} THEN 0 ELSE {self.cast(sql, 'decimal')} END"
        return f"CASE WHEN abs({sql}) <= {LARGEST!r} THEN {inside} END"

    def _of_64_bits(self, sql: str) -> str:
        return f"CASE WHEN {sql} BETWEEN {-(2**63)} AND {2**63 - 1} THEN {self.cast(sql, 'integer')} END"


class SparkSql(Dialect):
    """The SQL of Spark 4, ANSI mode off."""

    with_hint = ""
    types: ClassVar = {"text": "STRING", "integer": "BIGINT", "decimal": "DOUBLE", "boolean": "BOOLEAN", "date": "DATE"}
    widest: ClassVar = "DECIMAL(38, 0)"

    def text(self, value: str) -> str:
        return f"CAST(X'{value.encode().hex()}' AS STRING)"  # in hexadecimal, so that no character is special

    def checked(self, operator: str, left: str, right: str) -> str:
        if operator == "//":  # -2^63 // -1 does not fit into 64 bits
            return f"CASE WHEN {right} = -1 THEN try_subtract(CAST(0 AS BIGINT), {left}) ELSE {left} DIV NULLIF({right}, 0) END"
        if operator == "%":
            return f"({left} % NULLIF({right}, 0))"
        function = {"+": "try_add", "-": "try_subtract", "*": "try_multiply"}[operator]
        return f"{function}({left}, {right})"

    def quotient(self, left: str, right: str) -> str:
        return self.wide(f"(({left} - {left} % {right}) / {right})")  # DIV returns only 64 bits, and / rounds to six decimals

    def date_part(self, part: DatePartName, sql: str) -> str:
        if part == "dow":
            return self.cast(f"(date_part('DOW', {sql}) - 1)", "integer")  # Spark counts from 1 for Sunday
        name = "DOW_ISO" if part == "isodow" else part.upper()
        return self.cast(f"date_part('{name}', {sql})", "integer")

    def list_of(self, numbers: Sequence[str]) -> str:
        return f"array({', '.join(numbers)})"

    def element(self, numbers: str, index: str) -> str:
        return f"get({numbers}, CAST({index} AS INT))"

    def total(self, sql: str) -> str:
        return f"sum({self.wide(sql)})"

    def digest(self, sql: str) -> str:
        return f"CAST(conv(left(sha2(CAST({sql} AS BINARY), 256), {DIGEST_DIGITS}), 16, 10) AS BIGINT)"

    def matches(self, sql: str, pattern: str) -> str:
        full_pattern = f"^(?:{pattern})\\z"  # \z is the end of the text; $ would also match before a final line break
        return f"({sql} RLIKE {self.text(full_pattern)})"

    def first_day(self, period: Period, sql: str) -> str:
        return f"trunc({sql}, '{period}')"

    def whole_of_exact(self, sql: str) -> str:
        return f"CASE WHEN {sql} = floor({sql}) THEN {self.cast(sql, 'integer')} END"
